"""Limit the cost of rubrics that come with the data.

Such a rubric comes from the author of the data. It must not take the time or the memory of other
rows, so what it holds is counted before it is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from assay.checks.pattern_size import MAX_SIZE, measure_pattern
from assay.errors import RubricError
from assay.loading.document import MAX_DEPTH
from assay.wording import format_value

# How many keys and values the data of a rubric may have per criterion that is allowed.
_VALUES_PER_CRITERION: Final = 50
_ANSWER_KEYS: Final = (
    "requirement",
    "criterion",
    "check",
    "rubric",
)  # of which a criterion has one


@dataclass(frozen=True, slots=True)
class RowBudget:
    """What the rubric of one row may use. Beyond it, the row is an error, and no other row is affected.

    >>> RowBudget(criteria=0)
    Traceback (most recent call last):
    ValueError: criteria is 0: give a number above 0
    """

    # Criteria, including those of nested rubrics.
    criteria: int = 200
    # Characters of all names and texts in the rubric.
    characters: int = 200_000
    # Seconds that its checks may work on one rollout, together. Waiting does not count.
    seconds: float = 5.0
    # Bytes that a check may take, if it can take many.
    memory: int = 1 << 30
    # The size of all regular expressions with their repetitions written out: `a{500}` counts 500.
    pattern_size: int = MAX_SIZE

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) not in (int, float) or not 0 < value < float("inf"):
                raise ValueError(f"{field.name} is {format_value(value)}: give a number above 0")

    def refuse_excess(self, data: object) -> None:
        """Raise `RubricError` if the data of a rubric exceed the budget; they may be its JSON."""
        if isinstance(data, str):
            self._refuse("characters", len(data))
            return
        criteria_count = character_count = value_count = pattern_size = 0
        pending: list[tuple[object, int]] = [(data, 0)]  # values, each with its depth
        while pending:
            value, depth = pending.pop()
            value_count += 1
            if depth > MAX_DEPTH:
                raise RubricError(f"it is nested more than {MAX_DEPTH} deep: write a flatter one")
            if isinstance(value, str):
                character_count += len(value)
            elif isinstance(value, Mapping):
                mapping = cast("Mapping[object, object]", value)
                criteria_count += any(key in mapping for key in _ANSWER_KEYS)
                pattern_size += _measure_pattern(mapping)
                pending += [(key, depth + 1) for key in mapping]
                pending += [(inner, depth + 1) for inner in mapping.values()]
            elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
                pending += [(inner, depth + 1) for inner in cast("Sequence[object]", value)]
            self._refuse("criteria", criteria_count)
            self._refuse("characters", character_count)
            self._refuse("pattern_size", pattern_size)
            if value_count + len(pending) > _VALUES_PER_CRITERION * self.criteria:
                raise RubricError(
                    f"it has more than {_VALUES_PER_CRITERION * self.criteria:,} values: "
                    "write a smaller one, or set a RowBudget with more criteria"
                )

    def _refuse(self, name: str, amount: int) -> None:
        limit = getattr(self, name)
        if amount > limit:
            raise RubricError(
                f"it exceeds the {name} of its RowBudget, which is {limit:,}: "
                "write a smaller one, or set a larger budget"
            )


DEFAULT_ROW_BUDGET: Final = RowBudget()


def _measure_pattern(mapping: Mapping[Any, object]) -> int:
    """Return the size of the pattern in a check such as `{regex: {pattern: a+}}`; 0 without one."""
    spec = mapping.get("regex")
    if isinstance(spec, Mapping):
        spec = cast("Mapping[object, object]", spec).get("pattern")
    if not isinstance(spec, str):
        return 0
    return measure_pattern(spec)
