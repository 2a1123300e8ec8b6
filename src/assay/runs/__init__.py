"""A run is a folder: what was run, a line for each finished rollout, and a summary.

pipeline     score_rows: rows in, scored rows out, with progress and resume; rescorer, a saved run by another rubric
metadata     RunAbout: what was run, with the rubric and the data as the run knows them
row          Row: one finished rollout, and how it stands on a line; jsonable, what JSON can hold
row_rubrics  RowRubrics: rows that bring their own rubric
folder       Folder: the files of a run and their lock; journal, the one writer; saved_run, the reader
summary      Summary: what a run comes to; stats, means and intervals; thresholds, what passes
spending     Spending: calls, tokens and dollars over all sittings of a run

The names load when first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
