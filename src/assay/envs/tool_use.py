"""ToolEnv: the model may call Python functions, whose arguments are checked, and reads their results."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Unpack

from assay.concurrency import call_in_thread, run_concurrently
from assay.envs.base_env import EnvironmentOptions, stop
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

TOOL_SECONDS: Final = 600.0  # how long a call of a tool may take by default


class ToolEnv(MultiTurnEnv):
    """The model may call `tools`, plain or async functions, until it answers without calling one.

    If a call fails, or takes longer than `tool_seconds`, the model reads the error. Failed calls are
    listed in `state["tool_failures"]` and counted by the metric `tool_errors`. The metrics
    `total_tool_calls` and `<tool>_calls` count all calls.
    """

    tool_seconds: float = TOOL_SECONDS

    def __init__(
        self,
        dataset: Any = None,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        max_turns: int = 10,
        stop_errors: Sequence[type[Exception]] = (),
        **options: Unpack[EnvironmentOptions],
    ) -> None:
        """If a tool raises one of `stop_errors`, the rollout ends; the model reads any other error."""
        self._tools: dict[str, CallableTool] = {}
        # Metrics: how often tools were called and failed, and the calls of each tool.
        self._counts = Rubric([total_tool_calls, tool_errors], weights=[0.0, 0.0])
        self.stop_errors = tuple(stop_errors)
        for tool in tools:
            self.add_tool(tool)
        super().__init__(dataset, max_turns=max_turns, **options)

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [tool.function for tool in self._tools.values()]

    def add_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call a function, and count its calls."""
        callable_tool = CallableTool(tool)
        name = callable_tool.name
        if name in self._tools:
            raise ToolError(f"two tools are called {name!r}: rename one of them")
        self._tools[name] = callable_tool
        self._counts.add_metric(make_call_counter(name))

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Do not let the model call this function any more."""
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
        """Return the results of the calls that the model made, in their order."""

        async def reply_to(call: ToolCall) -> Message:
            content = await self._call_tool(call, state)
            return {"role": "tool", "tool_call_id": call.id, "content": content}

        calls = read_tool_calls(messages[-1])
        if not calls:
            return []
        return await run_concurrently(reply_to, calls)

    async def _call_tool(self, call: ToolCall, state: State) -> Any:
        """Return what the model reads as the result of a call; a failure is added to the state."""
        tool = self._tools.get(call.name)
        if tool is None:
            message = f"there is no tool {call.name!r}"
            if self._tools:
                message += f": {suggest_word(call.name, self._tools)}"
            return self._note_failure(state, call, "unknown", message)
        try:
            arguments = tool.arguments(call.arguments, state)
        except ArgumentsError as error:
            return self._note_failure(state, call, "arguments", str(error))
        try:
            result = await call_tool_function(
                tool.function, arguments, is_async=tool.is_async, seconds=self.tool_seconds
            )
            content = result_content(result)
        except self.stop_errors:
            raise
        except Exception as error:  # noqa: BLE001 - the model reads whatever a tool raises
            return self._note_failure(state, call, "raised", describe_error(error))
        # A tool may also return a failure as its result.
        if isinstance(content, str) and is_failure(content):
            self._note_failure(state, call, "failed", content)
        return content

    def _note_failure(self, state: State, call: ToolCall, kind: str, message: str) -> str:
        """Add a failed call to the state, and return what the model reads."""
        error = {"tool": call.name, "kind": kind, "message": message, "turn": state["turn"]}
        state.setdefault("tool_failures", []).append(error)
        return failure(message)

    def _add_metrics(self) -> None:
        super()._add_metrics()
        self.add_rubric(self._counts)


async def call_tool_function(
    function: Callable[..., Any], arguments: Mapping[str, Any], *, is_async: bool, seconds: float
) -> Any:
    """Call a tool, and return its result; raises `TimeoutError` if it takes longer than `seconds`.

    A plain function is called in a thread of its own, so that it holds up no other rollout. One that
    never returns keeps its thread until the program ends.
    """
    call = partial(function, **arguments)
    pending_result = call() if is_async else call_in_thread(call)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            result = await pending_result
            if inspect.isawaitable(result):  # a plain function may return one
                result = await result
            return result
    except TimeoutError:
        if not limit.expired():
            raise  # the tool raised it
        raise TimeoutError(f"the tool gave no result within {seconds:g} s") from None


def tool_errors(state: Mapping[str, Any]) -> int:
    return len(state.get("tool_failures") or ())
