"""Shape a reward: small parts, applied in order, between the outcome that the criteria come to and the reward that is paid.

A part gets the scored rollouts of a batch and returns a reward for each; a rollout without a reward goes past all of them.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

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
        if not isinstance(found, int | float | Sized):
            raise ValueError(
                f"its field {count!r} is {short_repr(found)}: count words or characters, or name a field"
            )
        return len(found) if isinstance(found, Sized) else found


Positive = Annotated[float, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]


def clip(one: Earned, low: float = -LARGEST, high: float = LARGEST) -> float:
    """Pay at least `low` and at most `high`."""
    return min(high, max(low, one.reward))


def rescale(one: Earned, factor: Positive = 1.0, shift: float = 0.0) -> float:
    """Pay `factor` times the reward, plus `shift`."""
    return factor * one.reward + shift


def soft_overlong(
    one: Earned, most: Positive, cache: Positive, factor: Amount = 1.0, count: str = "words"
) -> float:
    """Take nothing off up to a length of `most` - `cache`, `factor` from `most` on, and between in a straight line (DAPO)."""
    return one.reward - factor * min(1.0, max(0.0, (one.length(count) - (most - cache)) / cache))


def repetition(one: Earned, size: Annotated[int, Field(ge=1)] = 3, most: Amount = 1.0) -> float:
    """Take `most` times the share of runs of `size` words off that stand in the text before."""
    return one.reward - most * repeated_share(one.text, size)


def format_gate(one: Earned, criterion: str, pays: float = 0.0, least: float = 1.0) -> float:
    """Pay at most `pays` where a criterion, such as a check of the format, is worth less than `least`."""
    return one.reward if one.metrics.get(criterion, least) >= least else min(one.reward, pays)


def group_length(
    batch: Sequence[Earned], alpha: Amount = 0.1, right: float = 0.5, count: str = "words"
) -> list[float]:
    """Take `alpha` times the logistic function of (length - mean) / deviation off right answers, compared with each other.

    As by Arora and Zanette (2025): a wrong answer gains nothing by being short. Right is a score of `right` or more.
    """
    # Without a score, as nothing could be gained, the outcome is all there is to tell what is right.
    scores = [one.outcome if one.score is None else one.score for one in batch]
    lengths = [
        one.length(count) if score >= right else None
        for one, score in zip(batch, scores, strict=True)
    ]
    known = [length for length in lengths if length is not None]
    mean = math.fsum(known) / (len(known) or 1)
    unit = math.hypot(*(length - mean for length in known)) / math.sqrt(len(known) or 1) or 1.0
    off = [
        0.0 if n is None else alpha / (1 + math.exp(min(700.0, (mean - n) / unit))) for n in lengths
    ]
    return [one.reward - less for one, less in zip(batch, off, strict=True)]


SHAPINGS: Final[dict[str, Callable[..., Any]]] = {
    part.__name__: part
    for part in (clip, rescale, soft_overlong, repetition, format_gate, group_length)
}


def repeated_share(text: str, size: int = 3) -> float:
    """The share of the runs of `size` words that stand in the text before; 0 for a shorter text."""
    words = text.lower().split()
    runs = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


@dataclass(frozen=True)
class ShapingPart:
    """One of the parts above with its options, or a function of yours from a list of `Earned` to a list of rewards."""

    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def compares(self) -> bool:
        """Whether it sees all rollouts at once; a function of yours with `independent = True` sees each alone."""
        is_ours = self.function is SHAPINGS.get(self.name)
        return (
            self.function is group_length
            if is_ours
            else getattr(self.function, "independent", False) is not True
        )

    def __call__(self, earned: Sequence[Earned]) -> list[float]:
        is_ours = self.function is SHAPINGS.get(self.name) and not self.compares
        work = partial(self.function, **self.options)
        given: Any = [*map(work, earned)] if is_ours else work(earned)
        numbers = [float(n) for n in given if isinstance(n, int | float) and abs(n) <= LARGEST]
        if len(numbers) != len(earned) or len(given) != len(earned):
            raise ValueError(
                f"it returned {short_repr(given)} for {len(earned)} rollouts: give each a finite number"
            )
        return numbers

    def data(self, *, as_hash: bool) -> Any:
        """As a file says it; for a hash, a function that no file can name too."""
        if self.function is SHAPINGS.get(self.name):
            return {self.name: dict(self.options)}
        return (path_of if as_hash else reference_of)(self.function)


@cache
def options_of(name: str) -> type[BaseModel]:
    """The options of a part, as a model that validates them."""
    parameters = list(inspect.signature(SHAPINGS[name]).parameters.values())[1:]
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in parameters
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def shaping_of(given: object, names: Sequence[str] | None = None) -> tuple[ShapingPart, ...]:
    """The parts that are given, as functions or as data: `{clip: {low: 0}}`. A gate has to name one of `names`."""
    if not isinstance(given, list | tuple):
        raise RubricError(f"shaping is {short_repr(given)}: give a list of parts")
    parts = tuple(map(_part, cast("Sequence[object]", given)))
    for part in parts:
        gate = part.options.get("criterion") if part.function is format_gate else None
        if gate is not None and names is not None and gate not in names:
            raise RubricError(
                f"format_gate names no criterion of this rubric, {gate!r}: {did_you_mean(gate, names)}"
            )
    return parts


def _part(given: object) -> ShapingPart:
    if isinstance(given, ShapingPart):
        return given
    if callable(given):
        return ShapingPart(path_of(given).partition(":")[2], given)
    entry = cast("dict[str, Any]", given) if isinstance(given, dict) else {str(given): None}
    [name, *more] = entry or [""]
    if more:
        raise RubricError(f"there is no shaping {short_repr(entry)}: give one part an entry")
    if name not in SHAPINGS:
        raise RubricError(f"there is no shaping {short_repr(name)}: {did_you_mean(name, SHAPINGS)}")
    try:
        options = options_of(name).model_validate(entry[name] or {}).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise RubricError(f"{name}: {first_error(error)[1]}") from None
    if name == "clip" and (
        not options or options.get("low", -LARGEST) > options.get("high", LARGEST)
    ):
        raise RubricError(
            f"clip has the options {options}: give a low, a high, or a low below a high"
        )
    return ShapingPart(name, SHAPINGS[name], options)


def shaped(
    reports: Sequence[EvaluationReport],
    rows: Sequence[Mapping[str, Any]],
    parts: Sequence[ShapingPart],
    on_error: OnError,
) -> list[EvaluationReport]:
    """The reports with the reward that the parts make of their outcome. A part that fails leaves its rollouts unscored."""
    found = list(reports)
    earned: dict[int, Earned] = {}
    for place, (report, row) in enumerate(zip(reports, rows, strict=True)):
        if (reward := report.raw_score) is not None:
            text = completion_text(row.get("completion", ""))
            earned[place] = Earned(reward, reward, report.score, text, row, report.metrics)
    for part in parts:
        units = (
            [[place] for place in earned] if not part.compares else [list(earned)] if earned else []
        )
        while units:
            places = units.pop()
            try:
                rewards = part([earned[place] for place in places])
            except FAILURES as error:
                if on_error == "raise" or is_stop(error):
                    raise
                own = (
                    [place for place in places if _fails_alone(part, earned[place])]
                    if len(places) > 1
                    else []
                )
                if own and len(own) < len(places):  # their trouble, and not that of the others
                    units += [[place] for place in own] + [
                        [place for place in places if place not in set(own)]
                    ]
                    continue
                line = CriterionReport(name=part.name, error=described(error))
                for place in places:
                    update = {
                        "report": [*reports[place].lines, line],
                        "asked": reports[place].asked + 1,
                    }
                    found[place] = reports[place].model_copy(update=update)
                    del earned[place]
            else:
                for place, reward in zip(places, rewards, strict=True):
                    earned[place] = earned[place]._replace(reward=reward)
    for place, one in earned.items():
        worth = one.outcome if reports[place].worth is None else reports[place].worth
        update: dict[str, Any] = {
            "raw_score": one.reward + 0.0,
            "unshaped": one.outcome,
            "worth": worth,
        }
        if (
            steps := reports[place].step_rewards
        ) is not None:  # what the whole gains or loses, every turn does
            update["step_rewards"] = {
                turn: (paid or 0.0) + one.reward - one.outcome for turn, paid in steps.items()
            }
        found[place] = reports[place].model_copy(update=update)
    return found


def _fails_alone(part: ShapingPart, one: Earned) -> bool:
    """Whether a rollout cannot be shaped even by itself; a function of yours that compares is not asked again."""
    if part.function is not group_length:
        return False
    try:
        part([one])
    except FAILURES:
        return True
    return False
