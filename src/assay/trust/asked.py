"""What a run asked: its criteria, as far as people and judge can be held against each other."""

from dataclasses import replace

from assay.errors import RubricError
from assay.runs import Run
from assay.runs.row import Row
from assay.runs.row_rubrics import COLUMN, RowRubrics
from assay.runs.rubrics import CriterionAbout
from assay.trust.error import TrustError
from assay.trust.questions import Question, takes_numbers


def questions_of(run: Run) -> dict[str, Question]:
    """The questions of a run by name, with those of rubrics that rows brought along.

    The rows are read once: what code answers may be choices or numbers, and only its answers tell.
    """
    about = run.about.rubric
    found = {} if about is None else {c.name: _question(c) for c in about.criteria}
    own = RowRubrics()
    for row in run.rows():
        if row.fields.get(COLUMN) is not None:
            _add_own(found, own, row)
        unsure = {name for name, each in found.items() if not each.judged and each.choices}
        if unsure:
            _find_numbers(found, unsure, row)
    return found


def same_questions(before: Run, after: Run) -> dict[str, Question]:
    """What was asked in the same words in both runs, and answered by a model."""
    later = questions_of(after)
    same = {
        name: question
        for name, question in questions_of(before).items()
        if question.judged and name in later and later[name].guidelines & question.guidelines
    }
    if not same:
        raise TrustError("the runs have no judged criterion in the same words: compare others")
    return same


def _question(criterion: CriterionAbout) -> Question:
    return Question(
        criterion.name,
        choices=criterion.choices,
        guidelines=frozenset((criterion.question, criterion.hash)) - {""},
        judged=criterion.judged,
        counts=criterion.counts,
    )


def _add_own(found: dict[str, Question], own: RowRubrics, row: Row) -> None:
    """Add what a row's own rubric asks; the same name may come in several wordings."""
    try:
        rubric, _ = own.of(row.fields)
    except RubricError:
        return  # the row says so itself, on its one line
    for criterion in map(CriterionAbout.of, rubric.criteria):
        new = _question(criterion)
        known = found.setdefault(criterion.name, new)
        if not new.guidelines <= known.guidelines:
            both = known.guidelines | new.guidelines
            found[criterion.name] = replace(known, guidelines=both)


def _find_numbers(found: dict[str, Question], unsure: set[str], row: Row) -> None:
    for line in row.report.lines:
        if line.name in unsure and takes_numbers(found[line.name].choices, line):
            found[line.name] = replace(found[line.name], choices=())
