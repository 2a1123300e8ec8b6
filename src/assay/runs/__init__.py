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

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.runs.about import RunAbout as RunAbout
    from assay.runs.data import data_about as data_about
    from assay.runs.errors import RunError as RunError
    from assay.runs.errors import RunRefused as RunRefused
    from assay.runs.journal import Journal as Journal
    from assay.runs.means import MeanEstimate as MeanEstimate
    from assay.runs.progress import Progress as Progress
    from assay.runs.reading import Run as Run
    from assay.runs.rescoring import rescore as rescore
    from assay.runs.row import Row as Row
    from assay.runs.row_rubrics import RowRubrics as RowRubrics
    from assay.runs.rubrics import RubricAbout as RubricAbout
    from assay.runs.scoring import score_rows as score_rows
    from assay.runs.spending import Spending as Spending
    from assay.runs.summary import Summary as Summary
    from assay.runs.tally import summarize as summarize

_HOMES = {
    "about": ("RunAbout",),
    "data": ("data_about",),
    "errors": ("RunError", "RunRefused"),
    "journal": ("Journal",),
    "means": ("MeanEstimate",),
    "progress": ("Progress",),
    "reading": ("Run",),
    "rescoring": ("rescore",),
    "row": ("Row",),
    "row_rubrics": ("RowRubrics",),
    "rubrics": ("RubricAbout",),
    "scoring": ("score_rows",),
    "spending": ("Spending",),
    "summary": ("Summary",),
    "tally": ("summarize",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Journal",
    "MeanEstimate",
    "Progress",
    "Row",
    "RowRubrics",
    "RubricAbout",
    "Run",
    "RunAbout",
    "RunError",
    "RunRefused",
    "Spending",
    "Summary",
    "data_about",
    "rescore",
    "score_rows",
    "summarize",
]


__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
