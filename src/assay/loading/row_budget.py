"""Limit what a rubric that comes with data may cost.

Such a rubric comes from the author of the data. It must not take the time or the memory of other
rows, so what it holds is counted before it is read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from assay.errors import RubricError
from assay.loading.document import MAX_DEPTH
from assay.wording import format_value

# How many keys and values the data of a rubric may have per criterion that is allowed.
_VALUES_PER_CRITERION: Final = 50
_ANSWER_KEYS: Final = ("requirement", "check", "rubric")  # of which a criterion has one


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
    pattern_size: int = 10_000

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
    if _VERBOSE.search(spec):
        raise RubricError(
            f"the pattern {format_value(spec)} is verbose (`(?x)`), so its size cannot be told: "
            "write it without spaces and comments"
        )
    return estimate_pattern_size(spec)


_MAX_DIGITS: Final = 9  # of a number of repetitions; a longer one is as good as this many digits
_REPETITION: Final = re.compile(r"\{(\d+)(?:,\d*)?\}")
# A set of characters without another one inside, or an escaped character.
_SET: Final = re.compile(r"\[\^?\]?(?:\\.|[^\[\]\\])*+\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
# In verbose mode, spaces and comments may stand inside of a repetition: `a{9 9 9}`.
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z0-9]*x")
# In these, brackets may not be what they seem: comments, and sets inside of sets.
_UNUSUAL: Final = re.compile(r"\(\?#|\(\?[a-zA-Z0-9]*V|\[[^\]]*\[")


def estimate_pattern_size(pattern: str) -> int:
    """Return how large a regular expression is once its repetitions are written out.

    A number of repetitions multiplies what it repeats, and only the smallest number is written out.

    >>> estimate_pattern_size("a{500}"), estimate_pattern_size("(ab{10}){20}x{0,99}")
    (500, 221)
    """
    if _UNUSUAL.search(pattern):
        size = len(pattern)
        for repetition in _REPETITION.finditer(pattern):
            size *= max(1, int(repetition[1][:_MAX_DIGITS]))
        return size
    group_sizes = [0]  # of the groups around the current position; the first one is the pattern
    last_size = 0  # of the last item, which a repetition would repeat
    index = 0
    while index < len(pattern):
        character = pattern[index]
        token = None
        if character == "\\":
            token = _ESCAPED.match(pattern, index)
        elif character == "[":
            token = _SET.match(pattern, index)
        repetition = _REPETITION.match(pattern, index)
        if repetition:
            repeated_size = last_size * max(1, int(repetition[1][:_MAX_DIGITS]))
            group_sizes[-1] += repeated_size - last_size
            last_size = repeated_size
            index = repetition.end()
            continue
        if character == "(":
            group_sizes.append(0)
            last_size = 0
        elif character == ")" and len(group_sizes) > 1:
            last_size = max(1, group_sizes.pop())
            group_sizes[-1] += last_size
        elif character not in "*+?|":
            last_size = 1
            group_sizes[-1] += 1
        index = token.end() if token else index + 1
    return sum(group_sizes)
