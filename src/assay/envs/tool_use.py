"""ToolEnv lets a model call Python functions, with their arguments checked, and shows it what they return."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Unpack

from assay.concurrency import call_in_thread, run_concurrently
from assay.envs.base_env import Given, stop
from assay.envs.multi_turn import MultiTurnEnv
from assay.messages import ToolCall, read_tool_calls
from assay.models.callable_tool import (
    ArgumentsError,
    CallableTool,
    ToolError,
    get_tool_name,
    result_content,
)
from assay.models.model import Tool
from assay.presets.tool_rubric import make_call_counter, total_tool_calls
from assay.rubric import Rubric
from assay.tools import failure, is_failure
from assay.types import Message, State
from assay.wording import describe_error, suggest_word

TOOL_SECONDS: Final = 600.0  # how long a call of a tool may take, unless it is said otherwise


class ToolEnv(MultiTurnEnv):
    """The model may call `tools`, plain or async functions, until it answers without calling one.

    A call that goes wrong is answered with a message that says so, and counted: in the metric `tool_errors`, and in
    `state["tool_failures"]`. The metrics `total_tool_calls` and `<tool>_calls` count what was called.
    A call that takes longer than `tool_seconds` goes wrong too.
    """

    tool_seconds: float = TOOL_SECONDS

    def __init__(
        self,
        dataset: Any = None,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        max_turns: int = 10,
        stop_errors: Sequence[type[Exception]] = (),
        **given: Unpack[Given],
    ) -> None:
        """An error of `stop_errors` that a tool raises ends the rollout; any other is told to the model."""
        self._tools: dict[str, CallableTool] = {}
        self._counts = Rubric([total_tool_calls, tool_errors], weights=[0.0, 0.0])
        self.stop_errors = tuple(stop_errors)
        for tool in tools:
            self.add_tool(tool)
        super().__init__(dataset, max_turns=max_turns, **given)

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [tool.function for tool in self._tools.values()]

    def add_tool(self, tool: Callable[..., Any]) -> None:
        ready = CallableTool(tool)
        if ready.name in self._tools:
            raise ToolError(f"two tools are called {ready.name!r}: give each its own name")
        self._tools[ready.name] = ready
        self._counts.add_metric(make_call_counter(ready.name))

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call it no more."""
        del self._tools[get_tool_name(tool)]

    def tools_of(self, state: State) -> tuple[Tool, ...]:
        return tuple(tool.declared for tool in self._tools.values())

    async def setup_state(self, state: State) -> Any:
        state.setdefault("tool_failures", [])
        return state

    @stop
    async def no_tools_called(self, state: State) -> bool:
        steps = state["trajectory"]
        return bool(steps) and not read_tool_calls(steps[-1]["completion"][-1])

    async def env_response(self, messages: list[Message], state: State) -> list[Message]:
        """What each call that the model asked for returned, in the order it asked."""
        calls = read_tool_calls(messages[-1])
        contents = (
            await run_concurrently(lambda call: self._called(call, state), calls) if calls else []
        )
        pairs = zip(calls, contents, strict=True)
        return [
            {"role": "tool", "tool_call_id": call.id, "content": content} for call, content in pairs
        ]

    async def _called(self, call: ToolCall, state: State) -> Any:
        tool = self._tools.get(call.name)
        if tool is None:
            known = f": {suggest_word(call.name, self._tools)}" if self._tools else ""
            return self._wrong(state, call, "unknown", f"there is no tool {call.name!r}{known}")
        try:
            arguments = tool.arguments(call.arguments, state)
        except ArgumentsError as error:
            return self._wrong(state, call, "arguments", str(error))
        try:
            result = await call_tool_function(
                tool.function, arguments, is_async=tool.is_async, seconds=self.tool_seconds
            )
            content = result_content(result)
        except self.stop_errors:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
            return self._wrong(state, call, "raised", describe_error(error))
        if isinstance(content, str) and is_failure(content):
            self._wrong(state, call, "failed", content)
        return content

    def _wrong(self, state: State, call: ToolCall, kind: str, message: str) -> str:
        error = {"tool": call.name, "kind": kind, "message": message, "turn": state["turn"]}
        state.setdefault("tool_failures", []).append(error)
        return failure(message)

    def _watch(self) -> None:
        super()._watch()
        self.add_rubric(self._counts)


async def call_tool_function(
    function: Callable[..., Any], arguments: Mapping[str, Any], *, is_async: bool, seconds: float
) -> Any:
    """Call a tool, and return its result; raises `TimeoutError` if it takes longer than `seconds`.

    A plain function is called in a thread of its own, so that it holds up no other rollout. One that
    never returns keeps its thread until the program ends.
    """
    call = partial(function, **arguments)
    result = call() if is_async else call_in_thread(call)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            result = await result
            if inspect.isawaitable(result):  # a plain function may return one
                result = await result
            return result
    except TimeoutError:
        if not limit.expired():
            raise  # the tool raised it
        raise TimeoutError(f"the tool gave no result within {seconds:g} s") from None


def tool_errors(state: Mapping[str, Any]) -> int:
    return len(state.get("tool_failures") or ())
