"""Joining: the labels of people put beside the judge's answers they are about."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.lines import CriterionReport
from assay.runs.row import Row
from assay.trust.error import LabelError
from assay.trust.labels import Label
from assay.trust.questions import Answer, Question
from assay.trust.voting import members
from assay.wording import counted, shown

_SHOWN = 3
"""Wrong labels of a kind that a message quotes."""


@dataclass(frozen=True)
class Item:
    """One criterion of one rollout that somebody labelled."""

    example: str
    sample: int
    criterion: str
    people: Mapping[str, Answer]
    """What each rater answered."""
    judge: Answer | None = None
    """What the judge answered; None when it did not."""
    error: str | None = None
    """Why there is no answer of the judge."""
    members: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """What each judge of a panel answered."""


@dataclass(frozen=True)
class Joined:
    """Labelled questions, each with what the judge said, and the labels that were left out."""

    items: tuple[Item, ...]
    questions: Mapping[str, Question]
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels by criterion that were made for another wording of it."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels that do not fit the run, by what is wrong with them."""


def join(
    rows: Iterable[Row],
    questions: Mapping[str, Question],
    labels: Sequence[Label],
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Joined:
    """Put labels beside the rows they are about.

    A label about an unknown example or criterion, or with a verdict that is not on offer, is an error that says
    how many there are; `skip_unknown` leaves such labels out. Labels whose guideline is not the
    criterion's own are left out, unless `any_wording` says that they will do.
    """
    wanted, strangers = _by_rollout(labels, questions)
    complaints = _Complaints(strangers)
    other_wording: Counter[str] = Counter()
    items: list[Item] = []
    for row in rows:
        by_criterion = wanted.pop((row.example, row.sample), {})
        for name, about in by_criterion.items():
            question = questions[name]
            fitting = [label for label in about if any_wording or _is_same(question, label)]
            if len(fitting) < len(about):
                other_wording[name] += len(about) - len(fitting)
            people = complaints.answers(question, fitting)
            if people:
                items.append(_item(row, question, people))
    complaints.nowhere(
        label for rollout in wanted.values() for s in rollout.values() for label in s
    )
    if complaints.count and not skip_unknown:
        raise LabelError(complaints.message())
    if not items:
        raise LabelError(_nothing_joined(other_wording, complaints))
    return Joined(tuple(items), questions, dict(other_wording), complaints.counts())


def _by_rollout(
    labels: Sequence[Label], questions: Mapping[str, Question]
) -> tuple[dict[tuple[str, int], dict[str, list[Label]]], list[Label]]:
    """The labels by rollout and criterion, and those about criteria that nobody knows."""
    wanted: dict[tuple[str, int], dict[str, list[Label]]] = {}
    strangers: list[Label] = []
    for label in labels:
        if label.criterion not in questions:
            strangers.append(label)
            continue
        about = wanted.setdefault((label.example, label.sample), {})
        about.setdefault(label.criterion, []).append(label)
    return wanted, strangers


def _is_same(question: Question, label: Label) -> bool:
    known = question.guidelines
    return label.guideline is None or not known or label.guideline in known


def _item(row: Row, question: Question, people: Mapping[str, Answer]) -> Item:
    key = row.example, row.sample, question.name
    if row.error is not None:
        return Item(*key, people, error=row.error)
    found = [line for line in row.report.lines if line.name == question.name]
    if len(found) != 1:
        many = "two lines have this name" if found else "it was not asked about this rollout"
        return Item(*key, people, error=many)
    judge = question.answered(found[0])
    if judge is None:
        return Item(*key, people, error=found[0].error or "nobody was asked")
    return Item(*key, people, judge, members=_members(question, found[0]))


def _members(question: Question, line: CriterionReport) -> dict[str, Answer]:
    answered = {vote.name: question.answered(vote) for vote in members(line)}
    return {name: answer for name, answer in answered.items() if answer is not None}


class _Complaints:
    """Labels that do not fit, by what is wrong with them."""

    def __init__(self, strangers: Sequence[Label]) -> None:
        self._strangers = strangers
        self._verdicts: list[str] = []
        self._nowhere: list[Label] = []

    def answers(self, question: Question, labels: Sequence[Label]) -> dict[str, Answer]:
        """What each rater answered; a verdict that is none is complained of."""
        found: dict[str, Answer] = {}
        for label in labels:
            try:
                found[label.rater] = question.answer(label.verdict)
            except ValueError as error:
                self._verdicts.append(f"{question.name!r}: {error}")
        return found

    def nowhere(self, labels: Iterable[Label]) -> None:
        """Labels about rollouts that the run does not have."""
        self._nowhere.extend(labels)

    @property
    def count(self) -> int:
        return len(self._strangers) + len(self._verdicts) + len(self._nowhere)

    def counts(self) -> dict[str, int]:
        named = {
            "unknown criterion": len(self._strangers),
            "unknown example": len(self._nowhere),
            "verdict not on offer": len(self._verdicts),
        }
        return {what: count for what, count in named.items() if count}

    def message(self) -> str:
        """What is wrong, how often, and what to do."""
        do = "does" if self.count == 1 else "do"
        lines = [f"{counted(self.count, 'label')} {do} not fit this run:"]
        if self._strangers:
            lines.append(
                f"  {counted(len(self._strangers), 'label')} about criteria it does not have: {_names(self._strangers)}"
            )
        if self._nowhere:
            keys = dict.fromkeys(_rollout(label) for label in self._nowhere)
            lines.append(
                f"  {counted(len(self._nowhere), 'label')} about examples it does not have: {_some(keys)}"
            )
        if self._verdicts:
            told = _some(dict.fromkeys(self._verdicts))
            lines.append(
                f"  {counted(len(self._verdicts), 'label')} with a verdict that is not on offer: {told}"
            )
        lines.append("mend them, or leave them out with skip_unknown=True (--skip-unknown)")
        return "\n".join(lines)


def _nothing_joined(other_wording: Counter[str], complaints: _Complaints) -> str:
    if other_wording:
        return (
            f"{counted(sum(other_wording.values()), 'label')}, all made for another wording of their "
            "criteria: label anew, or take them with any_wording=True (--any-wording)"
        )
    skipped = ", ".join(f"{count} × {what}" for what, count in complaints.counts().items())
    return f"no label fits this run ({skipped or 'there are none'})"


def _rollout(label: Label) -> str:
    return f"{label.example!r}{f' (sample {label.sample})' if label.sample else ''}"


def _names(labels: Sequence[Label]) -> str:
    return _some(dict.fromkeys(shown(label.criterion) for label in labels))


def _some(things: Mapping[str, None]) -> str:
    more = len(things) - _SHOWN
    listed = ", ".join(list(things)[:_SHOWN])
    return f"{listed} and {more:,} more" if more > 0 else listed
