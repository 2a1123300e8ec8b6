"""Read what a run asked and what its judge answered: questions, votes inside an answer, answers of two runs."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from assay.criterion import BINARY, NOT_APPLICABLE, hash_of
from assay.errors import RubricError, TrustError
from assay.report import CriterionReport, Lines, Score
from assay.runs import Run
from assay.runs.metadata import CriterionAbout
from assay.runs.row import COLUMN, Row
from assay.runs.row_rubrics import RowRubrics
from assay.wording import short_repr

Answer: TypeAlias = str | float
"""One of the choices, or `N/A`; a number where there are no choices."""

_NEAR = 1e-9


@dataclass(frozen=True)
class Question:
    """What is known of a criterion when people and judge are held against each other."""

    name: str
    choices: tuple[str, ...] = BINARY
    """Worst to best; none when the answers are numbers."""
    guidelines: frozenset[str] = frozenset()
    """The hashes that its wording goes by; none when they are not known."""
    judged: bool = True
    """Whether a model answers, rather than code."""
    counts: bool = True
    """Whether its answers are part of the score."""

    @cached_property
    def worths(self) -> dict[str, float]:
        """What each choice is worth, from 0 for the worst to 1 for the best."""
        return {choice: rank / (len(self.choices) - 1) for rank, choice in enumerate(self.choices)}

    def is_worded_as(self, guideline: str | None) -> bool:
        """Whether a label was made for its wording, as far as that is known."""
        return guideline is None or not self.guidelines or guideline in self.guidelines

    def answer(self, given: object) -> Answer:
        """The answer that was meant: a choice however it is spelled, or the number that it is worth.

        >>> question = Question("polite")
        >>> question.answer(" met "), question.answer(True), question.answer("0"), question.answer("n/a")
        ('MET', 'MET', 'UNMET', 'N/A')
        """
        # A whole number of a CSV is 1.0 and means the choice `1`.
        whole = isinstance(given, float) and given.is_integer()
        text = str(int(given) if whole and isinstance(given, float) else given).strip().casefold()
        for choice in (*self.choices, NOT_APPLICABLE):
            if choice.strip().casefold() == text:
                return choice
        number = _number(given)
        if number is None or (self.choices and self.choice_worth(number) is None):
            offer = f"give one of {', '.join(self.choices)}" if self.choices else "give a number"
            raise ValueError(f"{short_repr(given)} is no answer: {offer}")
        return self.choice_worth(number) or number

    def answered(self, line: CriterionReport) -> Answer | None:
        """What the judge answered on this line of a report; None when there is no answer."""
        if line.error is not None or not line.asked:
            return None
        if line.verdict is not None and (self.choices or not line.applies):
            return line.verdict
        if line.value is None:
            return None
        return self.choice_worth(line.value) or line.value

    def worth(self, answer: Answer) -> float | None:
        """What an answer is worth; None for `N/A`."""
        return self.worths.get(answer) if isinstance(answer, str) else answer

    def choice_worth(self, number: float) -> str | None:
        """The choice that is worth this number, if any is."""
        near = (choice for choice, worth in self.worths.items() if abs(worth - number) < _NEAR)
        return next(near, None)


def _number(given: object) -> float | None:
    if not isinstance(given, str | int | float):
        return None
    word = given.strip().casefold() if isinstance(given, str) else given
    try:
        number = float({"true": 1, "false": 0}.get(word, word) if isinstance(word, str) else word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def pooled_choices(questions: Iterable[Question]) -> tuple[tuple[str, ...], bool]:
    """The choices of all these questions together, and whether they have one order."""
    scales = list(dict.fromkeys(question.choices for question in questions))
    if len(scales) == 1:
        return scales[0], True
    return tuple(dict.fromkeys(choice for choices in scales for choice in choices)), False


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
        for line in row.report.lines if unsure else ():
            if line.name in unsure and line.value is not None and line.verdict is None:
                steps = line.value * (len(found[line.name].choices) - 1)
                if not (0 <= line.value <= 1 and abs(steps - round(steps)) < _NEAR):
                    found[line.name] = replace(found[line.name], choices=())
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


# `Samples` and `Swapped` keep every answer on the lines of the answer they make, under these names; so does
# `Panel`, whose votes go by the names of its judges.
_SAMPLE = re.compile(r"sample \d+")
_ORDERS = {"usual order", "opposite order"}


def has_votes(lines: Sequence[CriterionReport]) -> bool:
    """Whether any answer is made of votes, found without making a line."""
    if isinstance(lines, Lines):
        return any(isinstance(answer, Score) and answer.lines for answer in lines.answers)
    return any(line.lines for line in lines)


def swapped_votes(line: CriterionReport) -> Iterator[tuple[CriterionReport, CriterionReport]]:
    """Every two answers that differ in the order of what was shown alone."""
    for votes in _ballots(line):
        if {vote.name for vote in votes} == _ORDERS:
            yield votes[0], votes[1]


def repeated_votes(line: CriterionReport) -> Iterator[Sequence[CriterionReport]]:
    """The answers of one judge that was asked the same more than once."""
    for votes in _ballots(line):
        if len(votes) > 1 and all(_SAMPLE.fullmatch(vote.name) for vote in votes):
            yield votes


def members(line: CriterionReport) -> Sequence[CriterionReport]:
    """The votes of a panel's judges; none when one judge answered alone."""
    names = [vote.name for vote in line.lines]
    alone = all(_SAMPLE.fullmatch(name) or name in _ORDERS for name in names)
    return () if alone or line.requirement is None else line.lines


def _ballots(line: CriterionReport) -> Iterator[Sequence[CriterionReport]]:
    """The votes on a judged line, and the votes on each of those."""
    if line.lines:
        yield line.lines
        for vote in line.lines:
            yield from _ballots(vote)


class TwoAnswers(NamedTuple):
    """One question about one rollout, answered in two runs. None where there was no answer."""

    example: str
    sample: int
    criterion: str
    before: Answer | None
    after: Answer | None


class PairedRuns(NamedTuple):
    """What two runs say about the same completions."""

    answers: tuple[TwoAnswers, ...]
    rollouts: int
    """Rollouts that both runs have, with the same completion."""
    changed: int
    """Rollouts that both have with another completion: they say nothing about the judge."""
    only_one: int
    """Rollouts that one of the runs does not have."""


def pair_runs(before: Run, after: Run, questions: Mapping[str, Question]) -> PairedRuns:
    """Put the judge's answers in two runs side by side, where the rollout is the same."""

    def said(row: Row) -> tuple[str, dict[str, Answer | None]]:
        """The completion as a hash, and the answers about it."""
        lines = [line for line in row.report.lines if line.name in questions]
        return hash_of(row.fields.get("completion")), {n.name: questions[n.name].answered(n) for n in lines}

    seen = {row.key: said(row) for row in before.rows()}
    answers: list[TwoAnswers] = []
    rollouts = changed = strangers = 0
    for row in after.rows():
        if row.key not in seen:
            strangers += 1
            continue
        (completion, was), (other, now) = seen.pop(row.key), said(row)
        if completion != other:
            changed += 1
            continue
        rollouts += 1
        answers += [TwoAnswers(*row.key, name, was[name], now[name]) for name in was if name in now]
    return PairedRuns(tuple(answers), rollouts, changed, strangers + len(seen))
