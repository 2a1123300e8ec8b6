"""Rows from anywhere: files, standard input, lists, data sets and frames, one dict after another.

rows     rows_of: whatever holds rows, as an iterator that streams
texts    files of JSON Lines, JSON, CSV and TSV, read so that an error names its line
columns  what is kept by column: Parquet files, pandas frames, mappings of lists

What is not installed is not imported: a data set is known by how it behaves.
"""

from assay.tables.error import TableError as TableError
from assay.tables.rows import rows_of as rows_of

__all__ = ["TableError", "rows_of"]
