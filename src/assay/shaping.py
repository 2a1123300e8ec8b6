"""Shape rewards: change the rewards from the criteria, for example with a length penalty.

A shaping is a list of parts, which are applied in order. A part takes the scored rollouts of a
batch and returns a new reward for each. Rollouts without a reward are left out.
"""

import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from assay.concurrency import FAILURES, is_stop_request
from assay.criterion import MAX_MAGNITUDE, get_file_reference
from assay.errors import RubricError
from assay.identity import get_qualified_name
from assay.messages import read_whole_text
from assay.report import CriterionReport, EvaluationReport
from assay.types import OnError
from assay.wording import describe_error, explain_first_error, format_value, suggest_word


class Earned(NamedTuple):
    """One scored rollout, as a part of a shaping receives it."""

    # The reward so far: the outcome, changed by the parts before this one.
    reward: float
    # The reward that the criteria give, before any shaping.
    outcome: float
    # The outcome normalised to 0…1; None if nothing could be gained.
    score: float | None
    # The last reply as text: its reasoning without markers, then the rest.
    text: str
    # All fields of the rollout.
    row: Mapping[str, Any]
    # The values of the criteria by name.
    metrics: Mapping[str, float]

    def length(self, count: str) -> float:
        """Return the length of the completion.

        `count` is "words", "characters", or the name of a field of the rollout. The field holds
        a number, or a list such as token ids.
        """
        if count == "words":
            return len(self.text.split())
        if count == "characters":
            return len(self.text)
        value = self.row.get(count)
        if isinstance(value, Sized):
            return len(value)
        if isinstance(value, int | float):
            return value
        raise ValueError(
            f"its field {count!r} is {format_value(value)}: "
            "count words or characters, or name a field that holds a number or a list"
        )


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]


def clip(rollout: Earned, low: float = -MAX_MAGNITUDE, high: float = MAX_MAGNITUDE) -> float:
    """Limit the reward to `low`…`high`."""
    return min(high, max(low, rollout.reward))


def rescale(rollout: Earned, factor: Positive = 1.0, shift: float = 0.0) -> float:
    """Multiply the reward by `factor`, then add `shift`."""
    return factor * rollout.reward + shift


def soft_overlong(
    rollout: Earned,
    most: Positive,
    cache: Positive,
    factor: NonNegative = 1.0,
    count: str = "words",
) -> float:
    """Subtract a penalty for length (DAPO).

    The penalty is 0 up to a length of `most` - `cache`, then rises in a straight line, and is
    `factor` from a length of `most` on.
    """
    excess = rollout.length(count) - (most - cache)
    share = min(1.0, max(0.0, excess / cache))
    return rollout.reward - factor * share


def repetition(
    rollout: Earned, size: Annotated[int, Field(ge=1)] = 3, most: NonNegative = 1.0
) -> float:
    """Subtract `most` times the share of runs of `size` words that repeat an earlier run."""
    return rollout.reward - most * measure_repetition(rollout.text, size)


def format_gate(rollout: Earned, criterion: str, pays: float = 0.0, least: float = 1.0) -> float:
    """Limit the reward to `pays` if the value of a criterion is below `least`.

    The criterion is usually a check of the format.
    """
    value = rollout.metrics.get(criterion, least)
    if value < least:
        return min(rollout.reward, pays)
    return rollout.reward


def group_length(
    batch: Sequence[Earned], alpha: NonNegative = 0.1, right: float = 0.5, count: str = "words"
) -> list[float]:
    """Subtract a penalty from right answers that are long compared with other right answers.

    The penalty is `alpha` times the logistic function of (length - mean) / deviation, as in Arora
    and Zanette (2025). Wrong answers have no penalty, so that being short gains them nothing. An
    answer is right if its score is at least `right`.
    """
    right_lengths: dict[int, float] = {}  # by the index of the rollout
    for index, rollout in enumerate(batch):
        # If nothing could be gained there is no score, and the outcome takes its place.
        score = rollout.outcome if rollout.score is None else rollout.score
        if score >= right:
            right_lengths[index] = rollout.length(count)
    rewards = [rollout.reward for rollout in batch]
    if not right_lengths:
        return rewards
    mean = math.fsum(right_lengths.values()) / len(right_lengths)
    norm = math.hypot(*(length - mean for length in right_lengths.values()))
    deviation = norm / math.sqrt(len(right_lengths))
    if deviation == 0:  # all lengths are equal
        deviation = 1.0
    for index, length in right_lengths.items():
        exponent = min(700.0, (mean - length) / deviation)  # exp overflows above 709
        penalty = alpha / (1 + math.exp(exponent))
        rewards[index] -= penalty
    return rewards


SHAPINGS: Final[dict[str, Callable[..., Any]]] = {
    "clip": clip,
    "rescale": rescale,
    "soft_overlong": soft_overlong,
    "repetition": repetition,
    "format_gate": format_gate,
    "group_length": group_length,
}


def measure_repetition(text: str, size: int = 3) -> float:
    """Return the share of runs of `size` words that repeat an earlier run; 0 for a shorter text.

    >>> measure_repetition("a b c a b c", size=2)
    0.4
    """
    words = text.lower().split()
    run_count = len(words) - size + 1
    if run_count < 1:
        return 0.0
    # The run that starts at each position, as a number that only equal runs share. A run of twice
    # the length is a pair of numbers, so that long runs cost no more than short ones.
    runs = _number_equal(words)
    length = 1
    while length < size:
        step = min(length, size - length)
        runs = _number_equal(list(zip(runs, runs[step:], strict=False)))
        length += step
    return 1 - len(set(runs)) / run_count


def _number_equal(items: Sequence[Hashable]) -> list[int]:
    """Return a number for each item, which is the same for equal items."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]


@dataclass(frozen=True)
class ShapingPart:
    """One step of a shaping: a built-in function with its options, or a function of the caller.

    A function of the caller takes a list of `Earned` and returns a list of rewards.
    """

    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_builtin(self) -> bool:
        """Whether the function is one of `SHAPINGS`."""
        return self.function is SHAPINGS.get(self.name)

    @property
    def compares(self) -> bool:
        """Whether it needs all rollouts of a group at once.

        A function of the caller does, unless it has the attribute `independent = True`.
        """
        if self.is_builtin:
            return self.function is group_length
        return getattr(self.function, "independent", False) is not True

    def __call__(self, rollouts: Sequence[Earned]) -> list[float]:
        """Return the new reward of each rollout; raise ValueError unless all are finite numbers."""
        apply = partial(self.function, **self.options)
        results: Any
        if self.is_builtin and not self.compares:  # then it takes one rollout, not a list
            results = [apply(rollout) for rollout in rollouts]
        else:
            results = apply(rollouts)
        if len(results) != len(rollouts) or not all(map(_is_valid_reward, results)):
            raise ValueError(
                f"it returned {format_value(results)} for {len(rollouts)} rollouts: "
                "return one finite number for each"
            )
        return [float(result) for result in results]

    def to_data(self, *, for_hash: bool) -> Any:
        """Return the part as an entry of a rubric file.

        Raises `RubricError` for a function that cannot be written to a file. With `for_hash`, it is
        identified by its qualified name instead.
        """
        if self.is_builtin:
            return {self.name: dict(self.options)}
        if for_hash:
            return get_qualified_name(self.function)
        return get_file_reference(self.function)


def _is_valid_reward(reward: object) -> bool:
    """Whether this is a finite number of a magnitude that can be computed with."""
    return isinstance(reward, int | float) and abs(reward) <= MAX_MAGNITUDE


@cache
def build_options_model(name: str) -> type[BaseModel]:
    """Return a pydantic model of the options of a built-in part."""
    fields: dict[str, Any] = {}
    # The first parameter is the rollout, or the batch.
    _, *parameters = inspect.signature(SHAPINGS[name]).parameters.values()
    for parameter in parameters:
        is_required = parameter.default is parameter.empty
        default = ... if is_required else parameter.default  # `...` means required
        fields[parameter.name] = (parameter.annotation, default)
    return create_model(name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def read_shaping(shaping: object, names: Sequence[str] | None = None) -> tuple[ShapingPart, ...]:
    """Return the parts of a shaping, given as functions or as data such as `{clip: {low: 0}}`.

    With `names`, the criterion of a `format_gate` has to be one of them.
    """
    if not isinstance(shaping, list | tuple):
        raise RubricError(f"shaping is {format_value(shaping)}: give a list of parts")
    parts = [_read_part(entry) for entry in cast("Sequence[object]", shaping)]
    for part in parts:
        if part.function is not format_gate or names is None:
            continue
        criterion = part.options.get("criterion")
        if criterion is not None and criterion not in names:
            raise RubricError(
                f"format_gate names the criterion {criterion!r}, which this rubric does not have: "
                f"{suggest_word(criterion, names)}"
            )
    return tuple(parts)


def _read_part(entry: object) -> ShapingPart:
    """Return the part that a function, a name, or a mapping from a name to options stands for."""
    if isinstance(entry, ShapingPart):
        return entry
    if callable(entry):
        return ShapingPart(name=get_qualified_name(entry).partition(":")[2], function=entry)
    name: object = entry
    options: object = None
    if isinstance(entry, dict):
        mapping = cast("dict[object, object]", entry)
        if len(mapping) != 1:
            raise RubricError(
                f"{format_value(mapping)} is not a part of a shaping: "
                "give one name with its options per entry"
            )
        [(name, options)] = mapping.items()
    name = str(name)
    if name not in SHAPINGS:
        raise RubricError(
            f"there is no shaping {format_value(name)}: {suggest_word(name, SHAPINGS)}"
        )
    return ShapingPart(name, SHAPINGS[name], _read_options(name, options or {}))


def _read_options(name: str, options: object) -> dict[str, Any]:
    """Return the validated options of a built-in part, without those that were not given."""
    try:
        model = build_options_model(name).model_validate(options)
    except ValidationError as error:
        _, explanation = explain_first_error(error)
        raise RubricError(f"{name}: {explanation}") from None
    validated = model.model_dump(exclude_unset=True)
    if name == "clip":
        _check_clip(validated)
    return validated


def _check_clip(options: Mapping[str, Any]) -> None:
    """Raise RubricError if a clip has no limit, or if its lower limit is above the upper one."""
    if not options:
        raise RubricError("clip has no options: give a low, a high, or both")
    low = options.get("low", -MAX_MAGNITUDE)
    high = options.get("high", MAX_MAGNITUDE)
    if low > high:
        raise RubricError(
            f"clip has a low of {low} and a high of {high}: give a low below the high"
        )


# The reward that a part gives a rollout, or the error that prevented one.
_Result: TypeAlias = float | CriterionReport


def shape_rewards(
    reports: Sequence[EvaluationReport],
    rows: Sequence[Mapping[str, Any]],
    parts: Sequence[ShapingPart],
    on_error: OnError,
) -> list[EvaluationReport]:
    """Return the reports with shaped rewards.

    If a part fails for a rollout, the error is added to its report and the rollout has no reward.
    Reports without a reward are returned unchanged.
    """
    shaped_reports = list(reports)
    rollouts: dict[int, Earned] = {}  # those that have a reward, by index
    for index, (report, row) in enumerate(zip(reports, rows, strict=True)):
        if report.raw_score is not None:
            rollouts[index] = Earned(
                reward=report.raw_score,  # replaced by the result of each part below
                outcome=report.raw_score,
                score=report.score,
                text=read_whole_text(row.get("completion", "")),
                row=row,
                metrics=report.metrics,
            )
    for part in parts:
        for index, result in _apply_part(part, rollouts, on_error).items():
            if isinstance(result, CriterionReport):
                shaped_reports[index] = _add_error(reports[index], result)
                del rollouts[index]
            else:
                rollouts[index] = rollouts[index]._replace(reward=result)
    for index, rollout in rollouts.items():
        shaped_reports[index] = _with_reward(reports[index], rollout)
    return shaped_reports


def _apply_part(
    part: ShapingPart, rollouts: Mapping[int, Earned], on_error: OnError
) -> dict[int, _Result]:
    """Return the results of a part by the index of the rollout."""
    if part.compares:
        return _shape_group(part, rollouts, on_error)
    results: dict[int, _Result] = {}
    for index, rollout in rollouts.items():
        results.update(_shape_group(part, {index: rollout}, on_error))
    return results


def _shape_group(
    part: ShapingPart, group: Mapping[int, Earned], on_error: OnError
) -> dict[int, _Result]:
    """Call a part once with all rollouts of a group, and return its results by index.

    If the call fails, and it is known which rollouts made it fail, only these get an error, and the
    part is called again with the others. If it is not known, all rollouts get the error.
    """
    if not group:
        return {}
    try:
        rewards = part(list(group.values()))
        return dict(zip(group, rewards, strict=True))
    except FAILURES as error:
        if on_error == "raise" or is_stop_request(error):
            raise
        failure = CriterionReport(name=part.name, error=describe_error(error))
    failures = _find_failing_rollouts(part, group)
    if not failures or len(failures) == len(group):
        return dict.fromkeys(group, failure)
    others = {index: rollout for index, rollout in group.items() if index not in failures}
    return {**failures, **_shape_group(part, others, on_error)}


def _find_failing_rollouts(
    part: ShapingPart, group: Mapping[int, Earned]
) -> dict[int, CriterionReport]:
    """Return the error of each rollout for which a part fails, by index.

    They are found by calling the part with each rollout alone. This is done for `group_length`
    only, since a function of the caller may need the whole group; for others, none are returned.
    """
    if part.function is not group_length:
        return {}
    failures: dict[int, CriterionReport] = {}
    for index, rollout in group.items():
        try:
            part([rollout])
        except FAILURES as error:
            failures[index] = CriterionReport(name=part.name, error=describe_error(error))
    return failures


def _add_error(report: EvaluationReport, failure: CriterionReport) -> EvaluationReport:
    """Return the report with the line of a failure added.

    `asked` is now larger than `answered`, so the rollout is unscored.
    """
    return report.model_copy(
        update={"report": [*report.lines, failure], "asked": report.asked + 1},
    )


def _with_reward(report: EvaluationReport, rollout: Earned) -> EvaluationReport:
    """Return the report with the shaped reward; the outcome is kept as `unshaped`."""
    update: dict[str, Any] = {
        "raw_score": rollout.reward + 0.0,  # + 0.0 turns -0.0 into 0.0
        "unshaped": rollout.outcome,
        # The score is not shaped, so the sum behind it stays the same.
        "worth": rollout.outcome if report.worth is None else report.worth,
    }
    if report.step_rewards is not None:
        # The reward of every step changes as much as that of the whole rollout.
        update["step_rewards"] = {
            step: (reward or 0.0) + rollout.reward - rollout.outcome
            for step, reward in report.step_rewards.items()
        }
    return report.model_copy(update=update)
