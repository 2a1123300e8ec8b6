"""Check by code which tools were called, how and in what order, and the state that this left behind."""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

from pydantic import StringConstraints, WithJsonSchema

from assay.checks.check import BuiltinCheck, Count, Flag, Text, Texts
from assay.checks.expected import required
from assay.checks.json_schema import first_error, json_key, place, validator_of
from assay.errors import RubricError
from assay.report import Score
from assay.trajectory import TrajectoryStep, read_calls
from assay.types import Messages
from assay.wording import format_count, format_value

Predicate: TypeAlias = Annotated[
    Callable[[Any], Any], WithJsonSchema({"type": "string", "pattern": ":"})
]
# Where a rollout has what is expected: `answer`, or a path such as `info.actions`.
InRow: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(answer|info)(\.|$)")]
Info: TypeAlias = Mapping[str, Any] | None
ANY: Any = ...  # means that no value is given, since None is a value


class Called(BuiltinCheck):
    """The model calls `tool`, with arguments that are `arguments`, fit `schema`, and of which `predicate` holds.

    `times` is how often: a number (0 for never) or a range such as `[1, 3]` or `[2, null]`; once or more without it. With
    `before`, such a call comes before the first call of that tool. With `succeeded`, only calls that succeeded count.

    >>> call = {"function": {"name": "refund", "arguments": '{"order": 17}'}}
    >>> Called("refund", {"order": 18})([{"role": "assistant", "tool_calls": [call]}]).reason
    '0 such calls of refund, and at least 1 expected (m1.call1: order is 17 where 18 is expected)'
    """

    tool: Text
    arguments: dict[str, Any] | None = field(default=None, hash=False)
    schema: dict[str, Any] | None = field(default=None, hash=False)
    # A function of the arguments; a file names it as `package.module:function`.
    predicate: Predicate | None = None
    before: Text | None = None
    times: Count | tuple[Count, Count | None] | None = None
    succeeded: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self._range
        if high is not None and high < low:
            raise RubricError(f"called: times is {[low, high]}: give the smaller number first")
        _ = self._validator

    @property
    def _range(self) -> tuple[int, int | None]:
        if self.times is None:
            return 1, None
        if isinstance(self.times, tuple):
            return self.times
        return self.times, self.times

    @cached_property
    def _validator(self) -> Any:
        if self.schema is None:
            return None
        return validator_of(self.schema)

    def __call__(self, completion: Messages, prompt: Messages = "") -> Score:
        calls = read_calls(prompt, completion)
        matching: list[TrajectoryStep] = []
        mismatches: list[tuple[TrajectoryStep, str]] = []  # calls of the tool that do not count
        for call in calls:
            if call.name == self.tool:
                mismatch = self._find_mismatch(call)
                if mismatch:
                    mismatches.append((call, mismatch))
                else:
                    matching.append(call)
        low, high = self._range
        count = f"{format_count(len(matching), 'such call')} of {self.tool}"
        if high is not None and len(matching) > high:
            excess = matching[high]
            return _unmet(
                f"{count}, and at most {high} expected; the first too many is {excess.address}",
                excess,
            )
        if len(matching) < low:
            reason = f"{count}, and at least {low} expected"
            if not mismatches:
                return _unmet(reason)
            call, mismatch = mismatches[0]
            return _unmet(f"{reason} ({call.address}: {mismatch})", call)
        for call in calls:
            if call.name == self.before:
                return _unmet(
                    f"{call.address} calls {self.before}, and no such call of {self.tool} comes "
                    "before it",
                    call,
                )
            if matching and call is matching[0]:
                break
        if not matching:
            return Score(True, f"no such call of {self.tool}")
        return Score(True, f"{matching[0].address} calls {self.tool}")

    def _find_mismatch(self, call: TrajectoryStep) -> str:
        """Return why a call of the tool does not count; empty if it does."""
        if self.succeeded and not call.succeeded:
            return "it did not succeed"
        if self.arguments is None and self.schema is None and self.predicate is None:
            return ""
        parsed = _parse_arguments(call)
        if parsed.error:
            return parsed.error
        if self.arguments is not None:
            mismatch = difference(parsed.value, self.arguments)
            if mismatch:
                return mismatch
        if self._validator is not None:
            error = first_error(self._validator, parsed.value, seconds=1.0)
            if error is not None:
                return f"at {place(error)}: {error.message:.300}"
        if self.predicate is not None and not self.predicate(parsed.value):
            return f"the predicate does not hold of {call.arguments:.200}"
        return ""


def _unmet(reason: str, call: TrajectoryStep | None = None) -> Score:
    if call is None:
        return Score(False, reason)
    return Score(False, reason, citations=({"part": call.address},))


class _Arguments(NamedTuple):
    """The arguments of a call."""

    value: Any  # None if they cannot be read
    key: Hashable  # the same for equal arguments
    error: str = ""  # why they cannot be read


def _parse_arguments(call: TrajectoryStep) -> _Arguments:
    try:
        value = json.loads(call.arguments)
        return _Arguments(value, json_key(value))
    except (ValueError, RecursionError) as error:
        return _Arguments(None, call.arguments, f"its arguments cannot be read: {error}")


class Trajectory(BuiltinCheck):
    """The calls are the `expected` ones: names of tools, or mappings of a `name` and the `arguments` that it should have.

    `match` is `strict` (the same calls in the same order), `unordered`, `subset` (none but expected ones) or `superset` (all
    expected ones, and perhaps others). Only calls of `tools` are compared, and not the arguments in `ignore`. With
    `succeeded`, only calls that succeeded count. Without `expected`, the rollout has what is expected at `expected_in`.

    >>> calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("search", "refund")]
    >>> Trajectory(["refund", "search"])([{"role": "assistant", "tool_calls": calls}]).reason
    'm1.call1 is search({}) where refund is expected'
    """

    expected: tuple[Any, ...] | None = field(default=None, hash=False)
    match: Literal["strict", "unordered", "subset", "superset"] = "strict"
    tools: Texts | None = None
    ignore: tuple[Text, ...] = ()
    succeeded: Flag = False
    expected_in: InRow = "answer"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self._read_expected(self.expected or ())
        except ValueError as error:
            raise RubricError(f"trajectory: {error}") from None

    def __call__(
        self, completion: Messages, prompt: Messages = "", answer: Any = "", info: Info = None
    ) -> bool | Score:
        source: Any = self.expected
        if source is None:
            source = from_row(self.expected_in, answer, info)
        expected = self._read_expected(source)
        calls: list[TrajectoryStep] = []
        for call in read_calls(prompt, completion):
            is_compared = self.tools is None or call.name in self.tools
            if is_compared and (call.succeeded or not self.succeeded):
                calls.append(call)
        if self.match == "strict":
            for call, expected_call in zip(calls, expected, strict=False):
                if self._compare([call], [expected_call]) != ([], []):
                    return _unmet(f"{_show_call(call)} where {expected_call} is expected", call)
            extra, missing = calls[len(expected) :], expected[len(calls) :]
        else:
            extra, missing = self._compare(calls, expected)
        if extra and self.match != "superset":
            return _unmet(f"{_show_call(extra[0])}, which is not expected", extra[0])
        if missing and self.match != "subset":
            reason = f"{missing[0]} is expected and not called"
            if calls:
                reason += f"; the last call is {calls[-1].address}"
            return _unmet(reason)
        return True

    def _read_expected(self, entries: object) -> "list[_ExpectedCall]":
        """Return the expected calls of the tools that are compared."""
        if not isinstance(entries, list | tuple):
            raise ValueError(f"the expected calls are {format_value(entries)}: give a list")
        expected: list[_ExpectedCall] = []
        for number, entry in enumerate(cast("Sequence[Any]", entries), start=1):
            call = _read_expected_call(entry, number)
            if self.tools is None or call.name in self.tools:
                expected.append(call)
        return expected

    def _compare(
        self, calls: Sequence[TrajectoryStep], expected: "Sequence[_ExpectedCall]"
    ) -> "tuple[list[TrajectoryStep], list[_ExpectedCall]]":
        """Return the calls that are not expected, and the expected ones that are missing, in any order."""
        unmatched = Counter(self._make_key(call.name, call.arguments) for call in expected)
        # Exact ones first, since an expected call with any arguments can match a remaining call.
        remaining: list[TrajectoryStep] = []
        for call in calls:
            key = self._make_key(call.name, _parse_arguments(call).value)
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                remaining.append(call)
        extra: list[TrajectoryStep] = []
        for call in remaining:
            key = self._make_key(call.name, ANY)
            if unmatched[key] > 0:
                unmatched[key] -= 1
            else:
                extra.append(call)
        missing: list[_ExpectedCall] = []
        for expected_call in expected:
            key = self._make_key(expected_call.name, expected_call.arguments)
            if unmatched[key] > 0:
                unmatched[key] -= 1
                missing.append(expected_call)
        return extra, missing

    def _make_key(self, name: str, arguments: Any) -> Hashable:
        """Return a key that is the same for equal calls."""
        if arguments is ANY:
            return name, "any arguments"
        if not isinstance(arguments, Mapping):
            return name, "unreadable"  # it equals no expected call
        compared = {
            key: value
            for key, value in cast("Mapping[str, Any]", arguments).items()
            if key not in self.ignore
        }
        return name, json_key(compared)


class _ExpectedCall(NamedTuple):
    """A call that a trajectory should have."""

    name: str
    arguments: Any  # ANY if it may have any

    def __str__(self) -> str:
        if self.arguments is ANY:
            return self.name
        arguments = json.dumps(self.arguments, ensure_ascii=False, default=str)
        return f"{self.name}({arguments:.200})"


def _read_expected_call(entry: Any, number: int) -> _ExpectedCall:
    """Read the name of a tool, or a mapping with a name and arguments; `number` is for messages."""
    fields: dict[str, Any] = {"name": entry}
    if isinstance(entry, Mapping):
        fields = dict(cast("Mapping[str, Any]", entry))
    function = fields.get("function")  # as in the calls of OpenAI
    if isinstance(function, dict):
        fields = cast("dict[str, Any]", function)
    arguments: Any = ANY
    for key in ("arguments", "args", "kwargs", "input"):
        if key in fields:
            arguments = _parse_json(fields[key])
            break
    name = fields.get("name")
    if not isinstance(name, str) or not (arguments is ANY or isinstance(arguments, Mapping)):
        raise ValueError(
            f"expected call {number} is {format_value(cast('object', entry))}: "
            "give the name of a tool, or a mapping with its 'name' and 'arguments'"
        )
    return _ExpectedCall(name, arguments)


def _show_call(call: TrajectoryStep) -> str:
    text = f"{call.address} is {call.text:.200}"
    error = _parse_arguments(call).error
    if error:
        text += f" ({error})"
    return text


class NoRepeatedCalls(BuiltinCheck):
    """No call has the tool and the arguments of an earlier one, but for the tools in `allowed`.

    >>> call = {"function": {"name": "search", "arguments": "{}"}}
    >>> NoRepeatedCalls()([{"role": "assistant", "tool_calls": [call, call]}]).reason
    'm1.call2 repeats m1.call1: search({})'
    """

    allowed: tuple[Text, ...] = ()

    def __call__(self, completion: Messages, prompt: Messages = "") -> bool | Score:
        seen: dict[Hashable, str] = {}
        for call in read_calls(prompt, completion):
            first = seen.setdefault((call.name, _parse_arguments(call).key), call.address)
            if first != call.address and call.name not in self.allowed:
                return _unmet(f"{call.address} repeats {first}: {call.text:.200}", call)
        return True


class RecoversFromErrors(BuiltinCheck):
    """After every call that failed, a later call of the same tool succeeds; with `by_any_tool`, a call of any.

    A call failed when its result is marked as an error, begins with `Error:` or a traceback, or is JSON with an `error`.

    >>> call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    >>> reply = {"role": "tool", "tool_call_id": "a", "content": "Error: down"}
    >>> RecoversFromErrors()([{"role": "assistant", "tool_calls": [call]}, reply]).reason
    "m1.call1 (search) fails with 'Error: down', and no later call of it succeeds"
    """

    by_any_tool: Flag = False

    def __call__(self, completion: Messages, prompt: Messages = "") -> bool | Score:
        succeeded: set[str] = set()  # the tools of later calls that succeeded
        for call in reversed(read_calls(prompt, completion)):
            has_recovered = bool(succeeded) if self.by_any_tool else call.name in succeeded
            if call.failed and not has_recovered:
                later_call = "later call" if self.by_any_tool else "later call of it"
                return _unmet(
                    f"{call.address} ({call.name}) fails with {format_value(call.result)}, "
                    f"and no {later_call} succeeds",
                    call,
                )
            if call.succeeded:
                succeeded.add(call.name)
        return True


class FinalState(BuiltinCheck):
    """The state of the rollout at its end holds `equals` at the path `at`, or what the rollout has at `expected_in`.

    A state that lacks the first name of the path is an error; one that lacks a later name differs from what is expected.

    >>> FinalState("orders.17.status", "refunded")(state={"orders": {"17": {"status": "open"}}}).reason
    "orders.17.status is 'open' where 'refunded' is expected"
    """

    at: Text
    equals: Any = field(default=ANY, hash=False)
    expected_in: InRow = "answer"

    def __call__(
        self, state: Mapping[str, Any], answer: Any = "", info: Info = None
    ) -> bool | Score:
        expected = self.equals
        if expected is ANY:
            expected = from_row(self.expected_in, answer, info)
        names = self.at.split(".")
        value, found = follow_path(state, names)
        if found == 0:
            raise ValueError(
                f"the state has no {names[0]!r}: it has {', '.join(map(str, state)) or 'nothing'}"
            )
        if found < len(names):
            return Score(False, f"there is no {'.'.join(names[: found + 1])}")
        reason = difference(value, expected, self.at)
        if reason:
            return Score(False, reason)
        return True


def from_row(path: str, answer: Any, info: Info) -> Any:
    """Return the value of a rollout at a path; JSON in texts, as in tables, is parsed.

    Raises `ValueError` if there is none.
    """
    column, *names = path.split(".")
    root = required(answer) if column == "answer" else info
    value, found = follow_path(_parse_json(root), names)
    if found < len(names):
        raise ValueError(f"this rollout has nothing at {path!r} to compare with")
    return _parse_json(value)


def _parse_json(value: Any) -> Any:
    """Return a text that looks like a JSON object or list as that; any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def follow_path(root: Any, names: Sequence[str]) -> tuple[Any, int]:
    """Return the value at a path of keys and indices, and how many names of the path were found.

    The value is None if one of them was not found.
    """
    value = root
    for found, name in enumerate(names):
        try:
            key = int(name) if isinstance(value, list) else name
            value = cast("Any", value)[key]
        except (LookupError, TypeError, ValueError):
            return None, found
    return value, len(names)


def difference(actual: Any, expected: Any, path: str = "") -> str:
    """Return where and how two values first differ; empty for values that are equal in JSON.

    In JSON, 1 equals 1.0, but not true.
    """
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return _mapping_difference(
            cast("Mapping[Any, Any]", actual), cast("Mapping[Any, Any]", expected), path
        )
    try:
        is_same = json_key(actual) == json_key(expected)
    except TypeError:  # JSON cannot hold one of the values
        is_same = bool(actual == expected)
    if is_same:
        return ""
    shown = format_value(cast("object", actual))
    return f"{path or 'it'} is {shown} where {format_value(expected)} is expected"


def _mapping_difference(actual: Mapping[Any, Any], expected: Mapping[Any, Any], path: str) -> str:
    for name in dict.fromkeys((*expected, *actual)):
        inner_path = f"{path}.{name}" if path else f"{name}"
        if name not in actual:
            return f"{inner_path} is missing"
        if name not in expected:
            return f"{inner_path} is there, and is not expected"
        reason = difference(actual[name], expected[name], inner_path)
        if reason:
            return reason
    return ""
