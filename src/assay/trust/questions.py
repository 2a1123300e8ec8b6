"""Find the questions that a run asked, and read the answers that its judges gave to them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE
from assay.errors import RubricError
from assay.report import CriterionReport
from assay.runs import Run
from assay.runs.metadata import CriterionAbout, RubricAbout
from assay.runs.row import Row, own_rubric
from assay.runs.row_rubrics import RowRubrics
from assay.wording import format_value

# One of the choices, or `N/A`; a number if the question has no choices.
Answer: TypeAlias = str | float

# Differences between values up to this are rounding errors.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Question:
    """A criterion, as far as it matters for comparing answers."""

    name: str
    choices: tuple[str, ...] = (
        BINARY_CHOICES  # from worst to best; empty if the answers are numbers
    )
    # Hashes of its wording, one of which a label may hold; empty if they are not known.
    guidelines: frozenset[str] = frozenset()
    judged: bool = True  # whether a model answers it; False if code does
    counts: bool = True  # whether its answers are part of the score

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of each choice, from 0 for the worst to 1 for the best."""
        steps = len(self.choices) - 1
        return {choice: rank / steps for rank, choice in enumerate(self.choices)}

    def get_value(self, answer: Answer) -> float | None:
        """Return the value of an answer; None for `N/A`."""
        if isinstance(answer, str):
            return self.values.get(answer)
        return answer

    def find_choice(self, value: float) -> str | None:
        """Return the choice with this value; None if there is none."""
        for choice, choice_value in self.values.items():
            if abs(choice_value - value) < _TOLERANCE:
                return choice
        return None

    def parse_answer(self, label: object) -> Answer:
        """Return the answer that a label stands for: a choice in any spelling, or a number.

        A number is the choice that is written so, else the choice that has this value. Raise
        `ValueError` if the label is not an answer to this question.
        """
        text = _normalise_text(label)
        for choice in (*self.choices, NOT_APPLICABLE):
            if choice.strip().casefold() == text:
                return choice
        number = _parse_number(label)
        if not self.choices:
            if number is None:
                raise ValueError(f"{format_value(label)} is not an answer: give a number")
            return number
        choice = None if number is None else self.find_choice(number)
        if choice is None:
            raise ValueError(
                f"{format_value(label)} is not an answer: give one of {', '.join(self.choices)}"
            )
        return choice

    def read_answer(self, line: CriterionReport) -> Answer | None:
        """Return the answer to this question on a line of a report; None if there is none.

        It is a choice, `N/A`, or a number if the question has no choices.
        """
        if line.error is not None or not line.asked:
            return None
        # If the question has no choices, the only verdict is `N/A`.
        if line.verdict is not None and (self.choices or not line.applies):
            return line.verdict
        if line.value is None:
            return None
        return self.find_choice(line.value) or line.value


def _normalise_text(label: object) -> str:
    # A CSV reader gives 1.0 for the choice `1`.
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label).strip().casefold()


def _parse_number(label: object) -> float | None:
    """Return the finite number that a label is; 1 for true and 0 for false."""
    if not isinstance(label, str | int | float):
        return None
    word = str(label).strip().casefold()
    if word in ("true", "false"):
        return float(word == "true")
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def questions_of(run: Run) -> dict[str, Question]:
    """Return the questions of a run by name, with those of rubrics that rows bring.

    This reads all rows. Whether a check answers by choices or by numbers is not declared, so it is
    inferred from its answers: a check counts as one of choices until it gives another number.
    """
    questions: dict[str, Question] = {}
    if run.about.rubric is not None:
        for criterion in run.about.rubric.criteria:
            questions[criterion.name] = _build_question(criterion)
    row_rubrics = RowRubrics()
    for row in run.rows():
        for question in read_row_questions(row, row_rubrics):
            # Rows may bring questions of one name in several wordings, which are all kept.
            known = questions.get(question.name, question)
            guidelines = known.guidelines | question.guidelines
            questions[question.name] = replace(known, guidelines=guidelines)
        for name in _find_checks_with_numbers(row, questions):
            questions[name] = replace(questions[name], choices=())
    return questions


def _find_checks_with_numbers(row: Row, questions: Mapping[str, Question]) -> list[str]:
    """Return the checks that gave a number to a row, although their question has choices so far."""
    checks_with_choices = {
        name for name, question in questions.items() if not question.judged and question.choices
    }
    if not checks_with_choices:
        return []  # building the lines of every row would be slow
    names: list[str] = []
    for line in row.report.lines:
        if line.name in checks_with_choices and not _is_value_of_choice(line, questions[line.name]):
            names.append(line.name)
    return names


def _build_question(criterion: CriterionAbout) -> Question:
    """Return a criterion of a saved run as a question."""
    # A label may hold the hash of the question alone, or of the whole criterion.
    wording_hashes = frozenset((criterion.question, criterion.hash)) - {""}
    return Question(
        name=criterion.name,
        choices=criterion.choices,
        guidelines=wording_hashes,
        judged=criterion.judged,
        counts=criterion.counts,
    )


def read_row_criteria(
    row: Row, rubric: RubricAbout | None, row_rubrics: RowRubrics
) -> tuple[CriterionAbout, ...]:
    """Return the criteria that a row was scored by: those it brings, else those of the run."""
    if own_rubric(row.fields) is None:
        return () if rubric is None else rubric.criteria
    try:
        rubric_of_row, _ = row_rubrics.of(row.fields)
    except RubricError:
        return ()  # the report of the row holds this error
    return tuple(CriterionAbout.of(criterion) for criterion in rubric_of_row.criteria)


def read_row_questions(row: Row, row_rubrics: RowRubrics) -> list[Question]:
    """Return the questions of the rubric that a row brings; none if it brings no valid rubric."""
    criteria = read_row_criteria(row, None, row_rubrics)
    return [_build_question(criterion) for criterion in criteria]


def _is_value_of_choice(line: CriterionReport, question: Question) -> bool:
    """Whether an answer of a check can be one of the choices: a verdict, or the value of one.

    Choices have evenly spaced values from 0 to 1.
    """
    if line.value is None or line.verdict is not None:
        return True
    rank = line.value * (len(question.choices) - 1)
    is_whole_rank = abs(rank - round(rank)) < _TOLERANCE
    return 0 <= line.value <= 1 and is_whole_rank


def list_panel_answers(line: CriterionReport) -> list[CriterionReport]:
    """Return the answers of the judges of a panel or cascade; empty if one judge answered alone."""
    return [answer for answer in line.lines if answer.sub_answer in ("vote", "escalation")]


RepeatKind: TypeAlias = Literal["swap", "retest"]
"""How a judge was asked again: in the opposite order, or for another sample."""


def find_repeats(line: CriterionReport) -> Iterator[tuple[RepeatKind, Sequence[CriterionReport]]]:
    """Yield each set of answers that one judge gave to the question of a line when asked repeatedly.

    The answers are on the lines below the line, or below these if a panel has such judges.
    """
    kinds = {answer.sub_answer for answer in line.lines}
    if kinds == {"usual_order", "opposite_order"}:
        yield "swap", line.lines
    elif kinds == {"sample"} and len(line.lines) > 1:
        yield "retest", line.lines
    for answer in line.lines:
        yield from find_repeats(answer)
