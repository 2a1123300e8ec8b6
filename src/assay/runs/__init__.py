"""A run is a folder: what was run, a line for each finished rollout, and a summary.

pipeline     score_rows: rows in, scored rows out, with progress and resume; row_rubrics, rows that bring their own rubric;
             rescorer, a saved run by another rubric
metadata     RunAbout: what was run, with the rubric and the data as the run knows them
row          Row: one finished rollout, and how it stands on a line
journal      Journal, the one writer of a run's folder, and Run, its reader; folder, its files and their lock
summary      Summary: what a run comes to; stats, means, intervals and thresholds; spending, calls, tokens and dollars

The names load when first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
