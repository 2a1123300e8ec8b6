"""Check by code which tools were called, how and in what order, and the state that this left behind."""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, cast

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
ANY: Any = ...  # stands where no value is given, since None is one


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
    predicate: Predicate | None = (
        None  # a function of the arguments; a file names it as `package.module:function`
    )
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
        times = (1, None) if self.times is None else self.times
        return times if isinstance(times, tuple) else (times, times)

    @cached_property
    def _validator(self) -> Any:
        return None if self.schema is None else validator_of(self.schema)

    def __call__(self, completion: Messages, prompt: Messages = "") -> Score:
        calls, (low, high) = read_calls(prompt, completion), self._range
        own = [(call, self._fault(call)) for call in calls if call.name == self.tool]
        fit, unfit = [call for call, fault in own if not fault], [one for one in own if one[1]]
        told = f"{format_count(len(fit), 'such call')} of {self.tool}, and"
        if high is not None and len(fit) > high:
            return _unmet(
                f"{told} at most {high} expected; the first too many is {fit[high].address}",
                fit[high],
            )
        if len(fit) < low:
            at, why = unfit[0] if unfit else (None, "")
            return _unmet(
                f"{told} at least {low} expected{f' ({at.address}: {why})' if at else ''}", at
            )
        later = next((call for call in calls if call.name == self.before), None)
        if later is not None and not (fit and calls.index(fit[0]) < calls.index(later)):
            why = f"{later.address} calls {self.before}, and no such call of {self.tool} comes before it"
            return _unmet(why, later)
        return Score(
            True, f"{fit[0].address} calls {self.tool}" if fit else f"no such call of {self.tool}"
        )

    def _fault(self, call: TrajectoryStep) -> str:
        """Why a call does not count; empty for one that does."""
        if self.succeeded and not call.succeeded:
            return "it did not succeed"
        if self.arguments is None and self.schema is None and self.predicate is None:
            return ""
        given, _, fault = _read(call)
        if not fault and self.arguments is not None:
            fault = difference(given, self.arguments)
        if not fault and (
            error := self._validator and first_error(self._validator, given, seconds=1.0)
        ):
            fault = f"at {place(error)}: {error.message:.300}"
        if not fault and self.predicate is not None and not self.predicate(given):
            fault = f"the predicate does not hold of {call.arguments:.200}"
        return fault


def _unmet(reason: str, at: TrajectoryStep | None = None) -> Score:
    return Score(False, reason, citations=() if at is None else ({"part": at.address},))


def _read(call: TrajectoryStep) -> tuple[Any, Hashable, str]:
    """The arguments of a call, what equal ones share, and why they cannot be read; empty when they can."""
    try:
        given = json.loads(call.arguments)
        return given, json_key(given), ""
    except (ValueError, RecursionError) as error:
        return None, call.arguments, f"its arguments cannot be read: {error}"


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
            self._wanted(self.expected or ())
        except ValueError as error:
            raise RubricError(f"trajectory: {error}") from None

    def __call__(
        self, completion: Messages, prompt: Messages = "", answer: Any = "", info: Info = None
    ) -> bool | Score:
        wanted = self._wanted(
            from_row(self.expected_in, answer, info) if self.expected is None else self.expected
        )
        calls = [
            c for c in read_calls(prompt, completion) if self.tools is None or c.name in self.tools
        ]
        calls = [call for call in calls if call.succeeded or not self.succeeded]
        if self.match == "strict":
            for call, one in zip(calls, wanted, strict=False):
                if self._left([call], [one]) != ([], []):
                    return _unmet(f"{_shown(call)} where {_said(one)} is expected", call)
            extra, missing = calls[len(wanted) :], wanted[len(calls) :]
        else:
            extra, missing = self._left(calls, wanted)
        if extra and self.match != "superset":
            return _unmet(f"{_shown(extra[0])}, which is not expected", extra[0])
        if missing and self.match != "subset":
            after = f"; the last call is {calls[-1].address}" if calls else ""
            return _unmet(f"{_said(missing[0])} is expected and not called{after}")
        return True

    def _wanted(self, given: object) -> list[tuple[str, Any]]:
        """The tool and the arguments of each expected call; ANY where it may have any."""
        if not isinstance(given, list | tuple):
            raise ValueError(f"the expected calls are {format_value(given)}: give a list")
        wanted: list[tuple[str, Any]] = []
        for number, entry in enumerate(cast("Sequence[Any]", given), start=1):
            held = cast("dict[str, Any]", entry if isinstance(entry, Mapping) else {"name": entry})
            inner = held.get("function")  # as in the calls of OpenAI
            held = cast("dict[str, Any]", inner) if isinstance(inner, dict) else held
            keys = [key for key in ("arguments", "args", "kwargs", "input") if key in held]
            arguments = _loaded(held[keys[0]]) if keys else ANY
            if not isinstance(held.get("name"), str) or not (
                arguments is ANY or isinstance(arguments, Mapping)
            ):
                told = "give the name of a tool, or a mapping with its 'name' and 'arguments'"
                raise ValueError(
                    f"expected call {number} is {format_value(cast('object', entry))}: {told}"
                )
            wanted.append((held["name"], cast("Any", arguments)))
        return [one for one in wanted if self.tools is None or one[0] in self.tools]

    def _left(
        self, calls: Sequence[TrajectoryStep], wanted: Sequence[tuple[str, Any]]
    ) -> tuple[list[Any], list[Any]]:
        """The calls that nothing expects, and the expected ones that no call is, whatever their order."""
        left = Counter(self._key(*one) for one in wanted)

        def is_taken(name: str, arguments: Any) -> bool:
            key = self._key(name, arguments)
            taken = left[key] > 0
            left[key] -= taken
            return taken

        # Exact ones first: an expected call of any arguments can take what they leave, and not the other way round.
        extra = [call for call in calls if not is_taken(call.name, _read(call)[0])]
        extra = [call for call in extra if not is_taken(call.name, ANY)]
        return extra, [one for one in wanted if is_taken(*one)]

    def _key(self, name: str, given: Any) -> Hashable:
        """What equal calls share. Arguments that are no mapping, or cannot be read, equal none that is expected."""
        kept = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else None
        return name, given is ANY if kept is None else json_key(
            {k: v for k, v in kept.items() if k not in self.ignore}
        )


def _shown(call: TrajectoryStep) -> str:
    fault = _read(call)[2]
    return f"{call.address} is {call.text:.200}{f' ({fault})' if fault else ''}"


def _said(one: tuple[str, Any]) -> str:
    return (
        one[0]
        if one[1] is ANY
        else f"{one[0]}({json.dumps(one[1], ensure_ascii=False, default=str):.200})"
    )


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
            first = seen.setdefault((call.name, _read(call)[1]), call.address)
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
        calls, succeeded = read_calls(prompt, completion), set[str]()
        for call in reversed(calls):
            if call.failed and not (succeeded if self.by_any_tool else call.name in succeeded):
                told = f"{call.address} ({call.name}) fails with {format_value(call.result)}"
                return _unmet(
                    f"{told}, and no later call{'' if self.by_any_tool else ' of it'} succeeds",
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
        expected = from_row(self.expected_in, answer, info) if self.equals is ANY else self.equals
        names = self.at.split(".")
        found, missing = value_at(state, names)
        if missing == 0:
            raise ValueError(
                f"the state has no {names[0]!r}: it has {', '.join(map(str, state)) or 'nothing'}"
            )
        if missing is not None:
            return Score(False, f"there is no {'.'.join(names[: missing + 1])}")
        where = difference(found, expected, self.at)
        return not where or Score(False, where)


def from_row(path: str, answer: Any, info: Info) -> Any:
    """What a rollout has at a path; a text that is JSON is read, as tables have it. Raises when there is nothing."""
    head, *names = path.split(".")
    found, missing = value_at(_loaded(required(answer) if head == "answer" else info), names)
    if missing is not None:
        raise ValueError(f"this rollout has nothing at {path!r} to compare with")
    return _loaded(found)


def _loaded(value: Any) -> Any:
    try:
        return (
            json.loads(value)
            if isinstance(value, str) and value.lstrip().startswith(("{", "["))
            else value
        )
    except ValueError:
        return value


def value_at(root: Any, names: Sequence[str]) -> tuple[Any, int | None]:
    """The value at a path of keys and places; and the number of the first that is not there, or None."""
    for number, name in enumerate(names):
        try:
            root = cast("list[Any]", root)[int(name)] if isinstance(root, list) else root[name]
        except (LookupError, TypeError, ValueError):
            return None, number
    return root, None


def difference(found: Any, expected: Any, path: str = "") -> str:
    """Where two values first differ, and how; empty for values that JSON takes for equal: 1 is 1.0, and not true."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        held, wanted = cast("Mapping[Any, Any]", found), cast("Mapping[Any, Any]", expected)
        for name in dict.fromkeys((*wanted, *held)):
            at = f"{path}.{name}" if path else f"{name}"
            if name not in held or name not in wanted:
                return (
                    f"{at} is missing" if name in wanted else f"{at} is there, and is not expected"
                )
            if where := difference(held[name], wanted[name], at):
                return where
        return ""
    try:
        same = json_key(found) == json_key(expected)
    except TypeError:  # what JSON cannot hold
        same = bool(found == expected)
    told = f"{path or 'it'} is {format_value(cast('object', found))} where {format_value(expected)} is expected"
    return "" if same else told
