"""ToolEnv: a model that may call functions, and sees what they return."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Unpack, cast

from assay.concurrency import side_by_side
from assay.envs.functions import ArgumentsError, CallableTool, ToolError, name_of
from assay.envs.given import Given
from assay.envs.hooks import stop
from assay.envs.multi_turn import MultiTurnEnv
from assay.messages import ToolCall, chat_of, tool_calls
from assay.models.base import Tool
from assay.rubric import Rubric
from assay.tools import failure, is_failure
from assay.types import Message, State
from assay.wording import described, did_you_mean

_PARTS = {"text", "image_url", "input_audio"}
THREADS = 32
"""Plain functions that are called at once, at most."""


class ToolEnv(MultiTurnEnv):
    """The model may call `tools`, plain or async functions, until it answers without calling one.

    A call with wrong arguments, of a tool there is not, or of one that raises, is answered with a
    message that says so, and counted: in the metric `tool_errors`, and in `state["tool_failures"]`
    one by one. The metrics `total_tool_calls` and `<tool>_calls` count what was called.
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
        """What `stop_errors` names is no answer to the model when a tool raises it: it ends the
        rollout, as an error. The rest is as for `MultiTurnEnv`."""
        self._tools: dict[str, CallableTool] = {}
        self._offered: tuple[Tool, ...] = ()
        self._counts = Rubric([total_tool_calls, tool_errors], weights=[0.0, 0.0])
        self.stop_errors = tuple(stop_errors)
        for tool in tools:
            self.add_tool(tool)
        super().__init__(dataset, max_turns=max_turns, **given)

    @property
    def tools(self) -> list[Callable[..., Any]]:
        """The functions; a copy."""
        return [tool.function for tool in self._tools.values()]

    def add_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call one more function."""
        ready = CallableTool(tool)
        if ready.name in self._tools:
            raise ToolError(f"two tools are called {ready.name!r}: give each its own name")
        self._tools[ready.name] = ready
        self._counts.add_metric(_calls_of(ready.name))
        self._offered = tuple(tool.declared for tool in self._tools.values())

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call it no more."""
        del self._tools[name_of(tool)]
        self._offered = tuple(tool.declared for tool in self._tools.values())

    def tools_of(self, state: State) -> tuple[Tool, ...]:
        """All tools, in every rollout."""
        return self._offered

    def setup_state(self, state: State) -> Any:
        """Room for what goes wrong with tools."""
        state.setdefault("tool_failures", [])
        return state

    @stop
    def no_tools_called(self, state: State) -> bool:
        """Whether the model has answered without calling a tool."""
        steps = state["trajectory"]
        return bool(steps) and not tool_calls(steps[-1]["completion"][-1])

    async def env_response(self, messages: list[Message], state: State) -> list[Message]:
        """What each call that the model asked for returned, in the order it asked."""
        calls = tool_calls(messages[-1])
        return await side_by_side(lambda call: self._answered(call, state), calls) if calls else []

    async def _answered(self, call: ToolCall, state: State) -> Message:
        content = await self._called(call, state)
        return {"role": "tool", "tool_call_id": call.id, "content": content}

    async def _called(self, call: ToolCall, state: State) -> Any:
        tool = self._tools.get(call.name)
        if tool is None:
            known = f": {did_you_mean(call.name, self._tools)}" if self._tools else ""
            return self._wrong(state, call, "unknown", f"there is no tool {call.name!r}{known}")
        try:
            arguments = tool.arguments(call.arguments, state)
        except ArgumentsError as error:
            return self._wrong(state, call, "arguments", str(error))
        try:
            content = content_of(await self._result(tool, arguments))
        except self.stop_errors:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
            return self._wrong(state, call, "raised", self.said_of(error))
        if isinstance(content, str) and is_failure(content):
            self._wrong(state, call, "failed", content)
        return content

    async def _result(self, tool: CallableTool, arguments: Mapping[str, Any]) -> Any:
        if tool.is_async:
            return await tool.function(**arguments)
        # In a thread: a function that takes its time must not hold up every other rollout.
        work = partial(copy_context().run, tool.function, **arguments)
        return await asyncio.get_running_loop().run_in_executor(_threads(), work)

    def said_of(self, error: Exception) -> str:
        """What the model is told when a tool raises."""
        return described(error)

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
    """How often the model called a tool."""
    return sum(_counted(completion).values())


def tool_errors(state: Mapping[str, Any]) -> int:
    """How many of its calls went wrong."""
    return len(state.get("tool_failures") or ())


def _calls_of(name: str) -> Callable[..., int]:
    def calls(completion: Any) -> int:
        return _counted(completion)[name]

    calls.__name__ = f"{name}_calls"
    return calls


def _counted(completion: Any) -> Counter[str]:
    return Counter(call.name for message in chat_of(completion) for call in tool_calls(message))


def content_of(result: Any) -> Any:
    """What a tool returned, as the content of a message: a text as it is, anything else as JSON."""
    if isinstance(result, str) or _are_parts(result):
        return result
    dump = getattr(result, "model_dump", None)
    try:
        return json.dumps(dump(mode="json") if callable(dump) else result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)


def _are_parts(result: Any) -> bool:
    """Whether it is content already: a list of texts, images and the like."""
    parts = cast("list[Any]", result) if isinstance(result, list) else []
    return bool(parts) and all(type(part) is dict and part.get("type") in _PARTS for part in parts)
