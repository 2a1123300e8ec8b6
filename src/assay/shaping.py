"""Shape a reward: small parts, applied in order, between the outcome that the criteria come to and the reward that is paid.

A part gets the scored rollouts of a batch and returns a reward for each; a rollout without a reward goes past all of them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assay.concurrency import FAILURES, is_stop
from assay.criterion import LARGEST, path_of, reference_of
from assay.errors import RubricError
from assay.messages import completion_text
from assay.report import CriterionReport, EvaluationReport
from assay.types import OnError
from assay.wording import described, did_you_mean, first_error, short_repr


class Earned(NamedTuple):
    """One scored rollout, as a part of a shaping sees it."""

    reward: float  # as the parts before this one left it
    outcome: float  # what the criteria came to
    score: float | None  # the outcome between 0 and 1
    text: str
    row: Mapping[str, Any]
    metrics: Mapping[str, float]

    def length(self, count: str) -> float:
        """Its length in `words` or `characters`, or as a field of the rollout says: a number, or a list such as token ids."""
        if count in ("words", "characters"):
            return len(self.text.split() if count == "words" else self.text)
        found = self.row.get(count)
        if isinstance(found, int | float):
            return found
        if isinstance(found, Sized):
            return len(found)
        raise ValueError(f"its field {count!r} is {short_repr(found)}: count words or characters, or name a field")


class ShapingPart(BaseModel):
    """A part that looks at each rollout by itself, unless it `compares`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    compares: ClassVar[bool] = False

    def __call__(self, earned: Sequence[Earned]) -> list[float]:
        return [self.shape(one) for one in earned]

    def shape(self, one: Earned) -> float:
        raise NotImplementedError


class Clip(ShapingPart):
    """A reward of at least `low` and at most `high`."""

    low: float = -LARGEST
    high: float = LARGEST

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high or (self.low, self.high) == (-LARGEST, LARGEST):
            raise ValueError(
                f"low {self.low:g} and high {self.high:g} leave nothing, or everything: give a low below a high"
            )
        return self

    def shape(self, one: Earned) -> float:
        return min(self.high, max(self.low, one.reward))


class Rescale(ShapingPart):
    """`factor` times the reward, plus `shift`."""

    factor: float = Field(default=1.0, gt=0)  # below 0 it would pay for what is wrong
    shift: float = 0.0

    def shape(self, one: Earned) -> float:
        return self.factor * one.reward + self.shift


class SoftOverlong(ShapingPart):
    """Less for a long answer: nothing up to `most` less `cache`, `factor` from `most` on, in a straight line between (DAPO)."""

    most: float = Field(gt=0)
    cache: float = Field(gt=0)
    factor: float = Field(default=1.0, ge=0)
    count: str = "words"

    def shape(self, one: Earned) -> float:
        over = (one.length(self.count) - (self.most - self.cache)) / self.cache
        return one.reward - self.factor * min(1.0, max(0.0, over))


class GroupLength(ShapingPart):
    """Less for a right answer that is long among the right ones of its group; a wrong one gains nothing by being short.

    `alpha` times the logistic function of (length - mean) / deviation is taken off, as by Arora and Zanette (2025). Right is a score of `right` or more.
    """

    compares: ClassVar[bool] = True

    alpha: float = Field(default=0.1, ge=0)
    right: float = 0.5
    count: str = "words"

    def __call__(self, earned: Sequence[Earned]) -> list[float]:
        # Without a score, as nothing could be gained, the reward is all there is to tell what is right.
        is_right = [(one.outcome if one.score is None else one.score) >= self.right for one in earned]
        lengths = [one.length(self.count) if ok else 0.0 for one, ok in zip(earned, is_right, strict=True)]
        known = [length for length, ok in zip(lengths, is_right, strict=True) if ok]
        mean = math.fsum(known) / len(known) if known else 0.0
        unit = math.hypot(*(length - mean for length in known)) / math.sqrt(len(known) or 1) or 1.0
        off = [self.alpha / (1 + math.exp(min(700.0, (mean - length) / unit))) for length in lengths]
        return [one.reward - less * ok for one, less, ok in zip(earned, off, is_right, strict=True)]


class Repetition(ShapingPart):
    """Less for a text that repeats itself: `most` times the share of its runs of `size` words that stand there before."""

    size: int = Field(default=3, ge=1)
    most: float = Field(default=1.0, ge=0)

    def shape(self, one: Earned) -> float:
        return one.reward - self.most * repeated_share(one.text, self.size)


class FormatGate(ShapingPart):
    """At most `pays` for a rollout in which a criterion, such as a check of the format, is worth less than `least`."""

    criterion: str
    pays: float = 0.0
    least: float = 1.0

    def shape(self, one: Earned) -> float:
        return one.reward if one.metrics.get(self.criterion, self.least) >= self.least else min(one.reward, self.pays)


Shaping: TypeAlias = Callable[[Sequence[Earned]], Sequence[float]]
"""One of the parts above, or a function of yours; with `independent = True` it compares no rollouts with each other."""

SHAPINGS: Final[dict[str, type[ShapingPart]]] = {
    "clip": Clip, "rescale": Rescale, "soft_overlong": SoftOverlong, "group_length": GroupLength,
    "repetition": Repetition, "format_gate": FormatGate,
}  # fmt: skip


def repeated_share(text: str, size: int = 3) -> float:
    """The share of the runs of `size` words that stand in the text before; 0 for a shorter text."""
    words = text.lower().split()
    runs = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def shaping_parts(given: object) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise RubricError(f"shaping is {short_repr(given)}: give a list of parts")
    return cast("Sequence[Any]", given)


def shaping_of(given: object, names: Iterable[str] | None = None) -> tuple[Shaping, ...]:
    """The parts that are given, as functions or as data: `{clip: {low: 0}}`. A gate has to name one of `names`."""
    parts = tuple(_part(each) for each in shaping_parts(given))
    for part in parts:
        if isinstance(part, FormatGate) and names is not None and part.criterion not in (known := list(names)):
            raise RubricError(f"format_gate names no criterion of this rubric: {did_you_mean(part.criterion, known)}")
    return parts


def _part(given: object) -> Shaping:
    if callable(given):
        return cast("Shaping", given)
    entry = cast("dict[str, Any]", given) if isinstance(given, dict) else {str(given): None}
    [name, *more] = entry or [""]
    if name not in SHAPINGS or more:
        raise RubricError(
            f"there is no shaping {short_repr(entry if more else name)}: {did_you_mean(name, SHAPINGS)}, one an entry"
        )
    try:
        return SHAPINGS[name].model_validate(entry[name] or {})
    except ValidationError as error:
        raise RubricError(f"{name}: {first_error(error)[1]}") from None


def shaping_data(parts: Sequence[Shaping], *, as_hash: bool = False) -> dict[str, Any]:
    """The shaping as a file says it."""
    names = {kind: name for name, kind in SHAPINGS.items()}
    written = path_of if as_hash else reference_of
    data = [
        {names[type(part)]: part.model_dump(exclude_defaults=True)} if isinstance(part, ShapingPart) else written(part)
        for part in parts
    ]
    return {"shaping": data}


def name_of(part: Shaping) -> str:
    return next((name for name, kind in SHAPINGS.items() if type(part) is kind), path_of(part).partition(":")[2])


def compares(part: Shaping) -> bool:
    return part.compares if isinstance(part, ShapingPart) else getattr(part, "independent", False) is not True


def shaped(
    reports: Sequence[EvaluationReport], rows: Sequence[Mapping[str, Any]], parts: Sequence[Shaping], on_error: OnError
) -> list[EvaluationReport]:
    """The reports with the reward that the parts make of their outcome. A part that fails leaves its rollouts unscored."""
    earned: dict[int, Earned] = {}
    for place, (report, row) in enumerate(zip(reports, rows, strict=True)):
        if (reward := report.raw_score) is not None:
            text = completion_text(row.get("completion", ""))
            earned[place] = Earned(reward, reward, report.score, text, row, report.metrics)
    failed: dict[int, CriterionReport] = {}
    for part in parts:
        for places in [list(earned)] if compares(part) else [[place] for place in earned]:
            try:
                numbers = _numbers(part([earned[place] for place in places]), len(places)) if places else []
            except FAILURES as error:
                if on_error == "raise" or is_stop(error):
                    raise
                failed |= dict.fromkeys(places, CriterionReport(name=name_of(part), error=described(error)))
                earned = {place: one for place, one in earned.items() if place not in failed}
            else:
                earned |= {p: earned[p]._replace(reward=number) for p, number in zip(places, numbers, strict=True)}
    found = list(reports)
    for place, line in failed.items():
        report = reports[place]
        found[place] = report.model_copy(update={"report": [*report.lines, line], "asked": report.asked + 1})
    for place, one in earned.items():
        worth = one.outcome if reports[place].worth is None else reports[place].worth
        update = {"raw_score": one.reward + 0.0, "unshaped": one.outcome, "worth": worth}
        found[place] = reports[place].model_copy(update=update)
    return found


def _numbers(given: Sequence[object], size: int) -> list[float]:
    numbers = [float(n) for n in given if isinstance(n, int | float) and abs(n) <= LARGEST]
    if len(numbers) != size or len(given) != size:
        raise ValueError(f"it returned {short_repr(given)} for {size} rollouts: return a finite number for each")
    return numbers
