"""Rows from anywhere: files, standard input, lists, data sets and frames, one dict after another.

row_source     rows_of: whatever holds rows, as an iterator that streams
table_readers  the kinds of files and frames, read so that an error names its line

What is not installed is not imported: a data set is known by how it behaves.
"""

from assay.tables.row_source import rows_of as rows_of
from assay.tables.table_readers import TableError as TableError

__all__ = ["TableError", "rows_of"]
