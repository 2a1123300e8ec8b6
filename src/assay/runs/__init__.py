"""A run is a folder: what was run, a line a finished rollout, and a summary.

about      RunAbout: what was run; rubrics, the rubric as it is remembered
row        Row: one finished rollout; form and compact, how it stands on a line; plain, what JSON holds
journal    Journal: the one writer; lock, one process at a time; keys, what rows go by
reading    Run: a folder opened for reading
summary    Summary: what a run comes to; tally, one pass over its rows; means, intervals and passes, the numbers
scoring    score_rows: rows in, a run out; rescoring, a saved run by another rubric
row_rubrics  RowRubrics: rows that bring their own rubric

The names load when first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
