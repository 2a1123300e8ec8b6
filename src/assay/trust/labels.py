"""Read the labels that people gave, and join them with the judge's answers in a run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from assay.aggregation import group_by_key
from assay.errors import LabelError
from assay.runs.row import Row
from assay.tables import rows_of
from assay.trust.questions import Answer, Question, list_panel_answers
from assay.wording import format_count, format_value, suggest_word

LABELS = "labels.jsonl"
"""The file of labels in the folder of a run. Lines are appended; the last label of a key counts."""

# The fields of a label, and other names of columns that are accepted for them.
_FIELDS = ("example", "sample", "criterion", "verdict", "rater", "note", "time", "guideline")
_OTHER_NAMES = {"example_id": "example", "id": "example", "value": "verdict", "label": "verdict"}

LabelKey: TypeAlias = tuple[str, int, str, str]


@dataclass(frozen=True)
class Label:
    """One verdict of one person. Its key is the rollout, the criterion and the rater."""

    example: str
    criterion: str
    # A choice of the criterion, or the value of one; None withdraws an earlier label.
    verdict: str | float | None
    rater: str = "human"
    sample: int = 0  # which of the rollouts of the example it is about
    note: str = ""
    time: str | None = None
    # The hash of the criterion's wording that the person saw; None if it is not known.
    guideline: str | None = None

    @property
    def key(self) -> LabelKey:
        """The rollout (example and sample), the criterion and the rater."""
        return self.example, self.sample, self.criterion, self.rater

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Label":
        """Return the label in a row of a file. Raise `LabelError` if there is none."""
        fields = _normalise_names(row)
        for name in ("example", "criterion", "verdict"):
            # An empty verdict is a withdrawn label, but its column has to be there.
            is_empty = fields.get(name) in (None, "")
            if name not in fields or (is_empty and name != "verdict"):
                raise LabelError(f"it has no {name!r}: {_suggest_column(row)}")
        texts: dict[str, str] = {}
        for name in ("example", "criterion", "rater", "note", "time", "guideline"):
            if fields.get(name) not in (None, ""):
                texts[name] = str(fields[name])
        verdict = _parse_verdict(fields["verdict"])
        sample = _parse_sample(fields.get("sample"))
        return cls(verdict=verdict, sample=sample, **texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the label as a row of a file. Empty fields are left out, except the verdict."""
        row: dict[str, Any] = {}
        for name in _FIELDS:
            value = getattr(self, name)
            if name == "verdict" or value not in ("", None):
                row[name] = value
        return row


def _normalise_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names of columns in lower case, and other names replaced by ours."""
    columns = {str(name).strip().casefold(): value for name, value in row.items()}
    fields: dict[str, Any] = {}
    for other_name, name in _OTHER_NAMES.items():
        if other_name in columns:
            fields[name] = columns[other_name]
    # If a row has both, a column of our own name counts.
    return fields | columns


def _suggest_column(row: Mapping[str, Any]) -> str:
    """Return which column may be misspelled; if none is like one of ours, all columns."""
    for column in row:
        if column in _FIELDS or column in _OTHER_NAMES:
            continue
        suggestion = suggest_word(column, _FIELDS)
        if suggestion.startswith("did you mean"):
            return suggestion
    return f"there are {', '.join(map(str, row)) or 'no fields'}"


def _parse_verdict(value: Any) -> str | float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        return value.strip() or None
    raise LabelError(f"its verdict is {format_value(value)}: give a choice or a number")


def _parse_sample(value: Any) -> int:
    if value in (None, ""):
        return 0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise LabelError(f"its sample is {format_value(value)}: give a whole number from 0")
    return int(number)


def read_labels(source: object, *, mapping: Mapping[str, str] | None = None) -> list[Label]:
    """Read labels from a CSV or JSONL file, or from rows; the last label of each key counts.

    `mapping={"verdict": "grade"}` reads the verdicts from the column `grade`.

    >>> row = {"example": 1, "criterion": "polite"}
    >>> rows = [{**row, "verdict": "MET"}, {**row, "verdict": "UNMET"}]
    >>> [label.verdict for label in read_labels(rows)]
    ['UNMET']
    """
    source_name = str(source) if isinstance(source, str | Path) else "the given data"
    labels: dict[LabelKey, Label] = {}
    for number, row in enumerate(rows_of(source, mapping=mapping), start=1):
        try:
            label = row if isinstance(row, Label) else Label.from_row(row)
        except LabelError as error:
            raise LabelError(f"{source_name}: label {number}: {error}") from None
        labels.pop(label.key, None)
        if label.verdict is not None:
            labels[label.key] = label
    if not labels:
        required_and_usual = ", ".join(_FIELDS[:5])
        raise LabelError(f"{source_name} holds no labels: a label has {required_and_usual}")
    return list(labels.values())


@dataclass(frozen=True)
class LabelledItem:
    """One criterion of one rollout that people labelled."""

    example: str
    sample: int
    criterion: str
    people: Mapping[str, Answer]  # the answer of each rater
    judge: Answer | None = None  # the judge's answer; None if there is none
    error: str | None = None  # why the judge has no answer
    # The answer of each judge of a panel.
    members: Mapping[str, Answer] = field(default_factory=dict[str, Answer])


@dataclass(frozen=True)
class Joined:
    """Labels with the judge's answers to the same questions, and the labels that were left out."""

    items: tuple[LabelledItem, ...]
    questions: Mapping[str, Question]
    # Number of labels left out because they are about another wording, by criterion.
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because they do not fit, by what is wrong with them.
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])


def join(
    rows: Iterable[Row],
    questions: Mapping[str, Question],
    labels: Sequence[Label],
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Joined:
    """Join labels with the rows that they are about.

    Labels about an unknown example or criterion, or with a verdict that was not offered, raise an
    error that counts them; `skip_unknown` leaves them out. Labels about another wording of the
    criterion are left out; `any_wording` uses them.
    """
    matcher = _LabelMatcher(questions, labels, any_wording=any_wording)
    for row in rows:
        matcher.match_row(row)
    misfits = matcher.collect_misfits()
    if misfits and not skip_unknown:
        raise LabelError(_describe_misfits(misfits))
    skipped = {kind: len(details) for kind, details in misfits.items()}
    if not matcher.items and matcher.other_wording:
        count = sum(matcher.other_wording.values())
        raise LabelError(
            f"{format_count(count, 'label')}, all made for another wording of their criteria: "
            "label again, or use them with any_wording=True (--any-wording)"
        )
    if not matcher.items:
        counts = ", ".join(f"{count} × {kind}" for kind, count in skipped.items())
        raise LabelError(f"no label fits this run ({counts or 'there are none'})")
    return Joined(
        items=tuple(matcher.items),
        questions=questions,
        other_wording=dict(matcher.other_wording),
        skipped=skipped,
    )


class _LabelMatcher:
    """Matches labels with rows, and collects what does not fit."""

    def __init__(
        self, questions: Mapping[str, Question], labels: Sequence[Label], *, any_wording: bool
    ) -> None:
        self.items: list[LabelledItem] = []
        self.other_wording: Counter[str] = Counter()
        self._questions = questions
        self._any_wording = any_wording
        # Labels whose row has not been seen yet, by example and sample.
        self._unmatched: dict[tuple[str, int], list[Label]] = {}
        # For each label that does not fit, what is wrong with it.
        self._unknown_criteria: list[str] = []
        self._wrong_verdicts: list[str] = []
        for label in labels:
            if label.criterion in questions:
                self._unmatched.setdefault((label.example, label.sample), []).append(label)
            else:
                self._unknown_criteria.append(format_value(label.criterion))

    def match_row(self, row: Row) -> None:
        """Add an item for each criterion of a row that has labels."""
        row_labels = self._unmatched.pop((row.example, row.sample), [])
        labels_by_criterion = group_by_key((label.criterion, label) for label in row_labels)
        for name, labels in labels_by_criterion.items():
            question = self._questions[name]
            people = self._read_answers(question, labels)
            if people:
                self.items.append(_build_item(row, question, people))

    def _read_answers(self, question: Question, labels: Sequence[Label]) -> dict[str, Answer]:
        """Return the answers of people to a question, by rater."""
        people: dict[str, Answer] = {}
        for label in labels:
            if not self._any_wording and _has_other_wording(label, question):
                self.other_wording[question.name] += 1
                continue
            try:
                people[label.rater] = question.parse_answer(label.verdict)
            except ValueError as error:
                self._wrong_verdicts.append(f"{question.name!r}: {error}")
        return people

    def collect_misfits(self) -> dict[str, list[str]]:
        """Return what is wrong with each label that does not fit, by kind; call it after all rows."""
        unknown_examples: list[str] = []
        for (example, sample), labels in self._unmatched.items():
            rollout = repr(example)
            if sample:
                rollout += f" (sample {sample})"
            unknown_examples += [rollout] * len(labels)
        misfits = {
            "unknown criterion": self._unknown_criteria,
            "unknown example": unknown_examples,
            "verdict not on offer": self._wrong_verdicts,
        }
        return {kind: details for kind, details in misfits.items() if details}


def _has_other_wording(label: Label, question: Question) -> bool:
    """Whether a label is about another wording than the question's; False if that is not known."""
    if label.guideline is None or not question.guidelines:
        return False
    return label.guideline not in question.guidelines


def _build_item(row: Row, question: Question, people: Mapping[str, Answer]) -> LabelledItem:
    """Return a labelled question with the judge's answer on the row, or why there is none."""
    item = LabelledItem(row.example, row.sample, question.name, people)
    if row.error is not None:
        return replace(item, error=row.error)
    lines = [line for line in row.report.lines if line.name == question.name]
    if not lines:
        return replace(item, error="it was not asked about this rollout")
    if len(lines) > 1:
        return replace(item, error="two lines have this name")
    [line] = lines
    judge = question.read_answer(line)
    if judge is None:
        return replace(item, error=line.error or "the judge was not asked")
    members: dict[str, Answer] = {}
    for vote in list_panel_answers(line):
        answer = question.read_answer(vote)
        if answer is not None:
            members[vote.name] = answer
    return replace(item, judge=judge, members=members)


# How a message describes the labels of each kind of misfit.
_MISFIT_DESCRIPTIONS = {
    "unknown criterion": "about criteria it does not have",
    "unknown example": "about examples it does not have",
    "verdict not on offer": "with a verdict that was not offered",
}
_MAX_QUOTED_MISFITS = 3  # per kind


def _describe_misfits(misfits: Mapping[str, Sequence[str]]) -> str:
    """Return a message that counts and quotes the labels that do not fit, and says what to do."""
    count = sum(map(len, misfits.values()))
    verb = "does" if count == 1 else "do"
    lines = [f"{format_count(count, 'label')} {verb} not fit this run:"]
    for kind, details in misfits.items():
        distinct = list(dict.fromkeys(details))
        quoted = ", ".join(distinct[:_MAX_QUOTED_MISFITS])
        if len(distinct) > _MAX_QUOTED_MISFITS:
            quoted += f" and {len(distinct) - _MAX_QUOTED_MISFITS:,} more"
        description = _MISFIT_DESCRIPTIONS[kind]
        lines.append(f"  {format_count(len(details), 'label')} {description}: {quoted}")
    lines.append("correct them, or leave them out with skip_unknown=True (--skip-unknown)")
    return "\n".join(lines)
