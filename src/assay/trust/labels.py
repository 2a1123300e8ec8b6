"""Labels: what people said about single criteria of single rollouts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.tables import rows_of
from assay.trust.error import LabelError
from assay.wording import meant, shown

LABELS = "labels.jsonl"
"""The file of labels in the folder of a run. Lines are added at its end, and the last word counts."""
RATER = "human"
"""Who said it, where a label does not tell."""

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
        fields = _named(row)
        for name in ("example", "criterion", "verdict"):
            if name not in fields or (name != "verdict" and fields[name] in (None, "")):
                raise LabelError(f"it has no {name!r}: {_known(row)}")
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
    for label in _labels(source, mapping):
        latest.pop(label.key, None)
        if label.verdict is not None:
            latest[label.key] = label
    if not latest:
        raise LabelError(f"{_name(source)} holds no labels: a label has {', '.join(_FIELDS[:5])}")
    return list(latest.values())


def _labels(source: object, mapping: Mapping[str, str] | None) -> Iterator[Label]:
    for number, row in enumerate(rows_of(source, mapping=mapping), start=1):
        try:
            yield row if isinstance(row, Label) else Label.of(row)
        except LabelError as error:
            raise LabelError(f"{_name(source)}: label {number}: {error}") from None


def _name(source: object) -> str:
    return str(source) if isinstance(source, str | Path) else "what was given"


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields by our names for them, however they are spelled. Our own name goes before another."""
    spelled = {str(name).strip().casefold(): value for name, value in row.items()}
    others = {ours: spelled[theirs] for theirs, ours in _OTHER_NAMES.items() if theirs in spelled}
    return others | spelled


def _known(row: Mapping[str, Any]) -> str:
    near = [meant(name, _FIELDS) for name in row if name not in (*_FIELDS, *_OTHER_NAMES)]
    guess = next((words for words in near if words.startswith("did")), "")
    return guess or f"there are {', '.join(map(str, row)) or 'no fields'}"


def _verdict(given: Any) -> str | float | None:
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    if isinstance(given, bool | int | float):
        return float(given)
    if isinstance(given, str):
        return given.strip()
    raise LabelError(f"its verdict is {shown(given)}: give a choice or a number")


def _sample(given: Any) -> int:
    if given in (None, ""):
        return 0
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise LabelError(f"its sample is {shown(given)}: give a whole number from 0")
    return int(number)
