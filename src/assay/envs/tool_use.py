"""ToolEnv lets a model call Python functions, with their arguments checked, and shows it what they return."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Unpack

from assay.concurrency import run_concurrently
from assay.envs.base_env import Given, stop
from assay.envs.multi_turn import MultiTurnEnv
from assay.messages import ToolCall, list_messages, read_tool_calls
from assay.models.callable_tool import (
    ArgumentsError,
    CallableTool,
    ToolError,
    get_tool_name,
    result_content,
)
from assay.models.model import Tool
from assay.rubric import Rubric
from assay.tools import failure, is_failure
from assay.types import Message, State
from assay.wording import describe_error, suggest_word

THREADS = 32  # plain functions that are called at once, at most


class ToolEnv(MultiTurnEnv):
    """The model may call `tools`, plain or async functions, until it answers without calling one.

    A call that goes wrong is answered with a message that says so, and counted: in the metric `tool_errors`, and in
    `state["tool_failures"]`. The metrics `total_tool_calls` and `<tool>_calls` count what was called.
    """

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
        self._counts.add_metric(calls_of(ready.name))

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
            if tool.is_async:
                content = result_content(await tool.function(**arguments))
            else:
                # In a thread: a function that takes its time must not hold up every other rollout.
                work = partial(copy_context().run, tool.function, **arguments)
                content = result_content(
                    await asyncio.get_running_loop().run_in_executor(_threads(), work)
                )
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


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="assay-tool")


def total_tool_calls(completion: Any) -> int:
    return sum(_counted(completion).values())


def tool_errors(state: Mapping[str, Any]) -> int:
    return len(state.get("tool_failures") or ())


def calls_of(name: str) -> Callable[..., int]:
    def calls(completion: Any) -> int:
        return _counted(completion)[name]

    calls.__name__ = f"{name}_calls"
    return calls


def _counted(completion: Any) -> Counter[str]:
    return Counter(
        call.name for message in list_messages(completion) for call in read_tool_calls(message)
    )
