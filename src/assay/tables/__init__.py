"""Rows from anywhere: files, standard input, lists, data sets and frames, one dict after another."""

from assay.tables.table_readers import TableError as TableError
from assay.tables.table_readers import rows_of as rows_of

__all__ = ["TableError", "rows_of"]
