"""Read the labels of people, and put them beside the judge's answers they are about."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import LabelError
from assay.runs.row import Row
from assay.tables import rows_of
from assay.trust.questions import Answer, Question, members
from assay.wording import counted, did_you_mean, short_repr

LABELS = "labels.jsonl"
"""The file of labels in the folder of a run. Lines are added at its end, and the last word counts."""
RATER = "human"
"""Who said it, where a label does not tell."""

_MISFITS = {
    "unknown criterion": "about criteria it does not have",
    "unknown example": "about examples it does not have",
    "verdict not on offer": "with a verdict that is not on offer",
}
"""What is wrong with a label that does not fit a run, in short and in a sentence."""
_SHOWN = 3
"""Wrong labels of a kind that a message quotes."""
_FIELDS = ("example", "sample", "criterion", "verdict", "rater", "note", "time", "guideline")
_OTHER_NAMES = {"example_id": "example", "id": "example", "value": "verdict", "label": "verdict"}


@dataclass(frozen=True)
class Label:
    """One verdict of one person. Its key is the rollout, the criterion and the rater."""

    example: str
    criterion: str
    verdict: str | float | None
    """A choice of the criterion, or the number that it is worth; None takes an earlier label back."""
    rater: str = RATER
    sample: int = 0
    """Which of the rollouts of the example it is about."""
    note: str = ""
    time: str | None = None
    guideline: str | None = None
    """The hash of the criterion's wording that the person saw; None when that is not known."""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What it is about, and whose it is."""
        return self.example, self.sample, self.criterion, self.rater

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Label":
        """The label that a row of a file stands for.

        >>> Label.of({"example": 7, "criterion": "polite", "verdict": "MET"}).key
        ('7', 0, 'polite', 'human')
        """
        # However fields are spelled; our own name goes before another.
        spelled = {str(name).strip().casefold(): value for name, value in row.items()}
        fields = {ours: spelled[theirs] for theirs, ours in _OTHER_NAMES.items() if theirs in spelled} | spelled
        for name in ("example", "criterion", "verdict"):
            if name not in fields or (name != "verdict" and fields[name] in (None, "")):
                near = [did_you_mean(field, _FIELDS) for field in row if field not in (*_FIELDS, *_OTHER_NAMES)]
                guess = next((words for words in near if words.startswith("did")), "")
                has = f"there are {', '.join(map(str, row)) or 'no fields'}"
                raise LabelError(f"it has no {name!r}: {guess or has}")
        return cls(
            example=str(fields["example"]),
            criterion=str(fields["criterion"]),
            verdict=_verdict(fields["verdict"]),
            rater=str(fields.get("rater") or RATER),
            sample=_sample(fields.get("sample")),
            note=str(fields.get("note") or ""),
            time=str(fields["time"]) if fields.get("time") else None,
            guideline=str(fields["guideline"]) if fields.get("guideline") else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The label as a line of a file holds it: what is empty is left out, but for the verdict."""
        named = {name: getattr(self, name) for name in _FIELDS}
        return {name: v for name, v in named.items() if name == "verdict" or v not in ("", None)}


def read_labels(source: object, *, mapping: Mapping[str, str] | None = None) -> list[Label]:
    """The labels of a CSV or JSONL file, or of rows of any other kind; of each key the last.

    `mapping={"verdict": "grade"}` says that the column `grade` holds the verdicts.

    >>> rows = [{"example": 1, "criterion": "polite", "verdict": said} for said in ("MET", "UNMET")]
    >>> [label.verdict for label in read_labels(rows)]
    ['UNMET']
    """
    latest: dict[tuple[str, int, str, str], Label] = {}
    called = str(source) if isinstance(source, str | Path) else "what was given"
    for number, row in enumerate(rows_of(source, mapping=mapping), start=1):
        try:
            label = row if isinstance(row, Label) else Label.of(row)
        except LabelError as error:
            raise LabelError(f"{called}: label {number}: {error}") from None
        latest.pop(label.key, None)
        if label.verdict is not None:
            latest[label.key] = label
    if not latest:
        raise LabelError(f"{called} holds no labels: a label has {', '.join(_FIELDS[:5])}")
    return list(latest.values())


def _verdict(given: Any) -> str | float | None:
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    if isinstance(given, bool | int | float):
        return float(given)
    if isinstance(given, str):
        return given.strip()
    raise LabelError(f"its verdict is {short_repr(given)}: give a choice or a number")


def _sample(given: Any) -> int:
    if given in (None, ""):
        return 0
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise LabelError(f"its sample is {short_repr(given)}: give a whole number from 0")
    return int(number)


@dataclass(frozen=True)
class LabelledItem:
    """One criterion of one rollout that people labelled."""

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

    items: tuple[LabelledItem, ...]
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
    misfits: dict[str, list[str]] = {what: [] for what in _MISFITS}
    wanted: dict[tuple[str, int], dict[str, list[Label]]] = {}
    for label in labels:
        if label.criterion in questions:
            about = wanted.setdefault((label.example, label.sample), {})
            about.setdefault(label.criterion, []).append(label)
        else:
            misfits["unknown criterion"].append(short_repr(label.criterion))
    other_wording: Counter[str] = Counter()
    items: list[LabelledItem] = []
    for row in rows:
        for name, about in wanted.pop((row.example, row.sample), {}).items():
            question, people = questions[name], dict[str, Answer]()
            for label in about:
                if not (any_wording or question.is_worded_as(label.guideline)):
                    other_wording[name] += 1
                    continue
                try:
                    people[label.rater] = question.answer(label.verdict)
                except ValueError as error:
                    misfits["verdict not on offer"].append(f"{name!r}: {error}")
            if people:
                items.append(_item(row, question, people))
    for (example, sample), rollout in wanted.items():
        named = f"{example!r}{f' (sample {sample})' if sample else ''}"
        misfits["unknown example"] += [named] * sum(map(len, rollout.values()))
    skipped = {what: len(each) for what, each in misfits.items() if each}
    if skipped and not skip_unknown:
        raise LabelError(_do_not_fit(misfits))
    if not items and other_wording:
        raise LabelError(
            f"{counted(sum(other_wording.values()), 'label')}, all made for another wording of their "
            "criteria: label anew, or take them with any_wording=True (--any-wording)"
        )
    if not items:
        why = ", ".join(f"{count} × {what}" for what, count in skipped.items())
        raise LabelError(f"no label fits this run ({why or 'there are none'})")
    return Joined(tuple(items), questions, dict(other_wording), skipped)


def _item(row: Row, question: Question, people: Mapping[str, Answer]) -> LabelledItem:
    key = row.example, row.sample, question.name
    if row.error is not None:
        return LabelledItem(*key, people, error=row.error)
    found = [line for line in row.report.lines if line.name == question.name]
    if len(found) != 1:
        many = "two lines have this name" if found else "it was not asked about this rollout"
        return LabelledItem(*key, people, error=many)
    judge = question.answered(found[0])
    if judge is None:
        return LabelledItem(*key, people, error=found[0].error or "the judge was not asked")
    votes = {vote.name: question.answered(vote) for vote in members(found[0])}
    panel = {name: answer for name, answer in votes.items() if answer is not None}
    return LabelledItem(*key, people, judge, members=panel)


def _do_not_fit(misfits: Mapping[str, list[str]]) -> str:
    """What is wrong with labels, how often, and what to do."""
    count = sum(map(len, misfits.values()))
    lines = [f"{counted(count, 'label')} {'does' if count == 1 else 'do'} not fit this run:"]
    for what, each in misfits.items():
        kinds = list(dict.fromkeys(each))
        more = f" and {len(kinds) - _SHOWN:,} more" if len(kinds) > _SHOWN else ""
        if kinds:
            lines.append(f"  {counted(len(each), 'label')} {_MISFITS[what]}: {', '.join(kinds[:_SHOWN])}{more}")
    return "\n".join([*lines, "mend them, or leave them out with skip_unknown=True (--skip-unknown)"])
