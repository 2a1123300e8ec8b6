"""ToolEnv and StatefulToolEnv call plain functions for a model, by the methods that a subclass may replace."""

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

from assay.compat.verifiers.environments import MultiTurnEnv
from assay.compat.verifiers.numeric_rubrics import Rubric
from assay.compat.verifiers.records import ToolCallError, ToolParseError
from assay.compat.verifiers.typed_messages import Tool, ToolMessage
from assay.envs.base_env import awaited, stop
from assay.envs.tool_use import calls_of, total_tool_calls
from assay.models.callable_tool import CallableTool
from assay.types import State


def convert_func_to_tool_def(func: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> Tool:
    """What a model is told of a function, by its signature and docstring."""
    told = CallableTool(func, args_to_skip).declared
    return Tool(name=told.name, description=told.description, parameters=json.loads(told.parameters))


def is_valid_tool_content_parts(value: Any) -> bool:
    parts = cast("list[Any]", value)
    return type(value) is list and all(type(p) is dict and p.get("type") in ("text", "image_url") for p in parts)


class ToolEnv(MultiTurnEnv):
    """The model may call `tools` until it answers without calling one; what a tool raises is told to the model."""

    def __init__(
        self,
        tools: Sequence[Callable[..., Any]] | None = None,
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = str,
        stop_errors: Sequence[type[Exception]] | None = None,
        **given: Any,
    ) -> None:
        """An error of `stop_errors` ends the rollout, as the cause of a `ToolCallError` or a `ToolParseError`."""
        self.tools: list[Callable[..., Any]] = list(tools or ())
        self.error_formatter = error_formatter
        self.stop_errors = list(stop_errors or ())
        self.skipped_args: dict[str, Sequence[str]] = {}
        self.tool_map: dict[str, Callable[..., Any]] = {_name(tool): tool for tool in self.tools}
        defined = [convert_func_to_tool_def(tool) for tool in self.tools]
        super().__init__(tool_defs=defined, max_turns=max_turns, **given)
        self.tool_monitor_rubric = Rubric()
        self._count_calls()

    def _count_calls(self) -> None:
        counted = [total_tool_calls, *map(calls_of, self.tool_map)]
        self._monitors = [each for each in self._monitors if each is not self.tool_monitor_rubric]
        self.tool_monitor_rubric = Rubric(counted, weights=[0.0] * len(counted))
        self.add_rubric(self.tool_monitor_rubric)

    def add_tool(self, tool: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> None:
        """Let the model call it. Of `args_to_skip` it is not told; `update_tool_args` of a subclass gives them."""
        self.tools.append(tool)
        self.tool_defs = [*(self.tool_defs or ()), convert_func_to_tool_def(tool, args_to_skip)]
        self.tool_map[_name(tool)] = tool
        self.skipped_args[_name(tool)] = args_to_skip
        self._count_calls()

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call it no more."""
        self.tools.remove(tool)
        name = _name(tool)
        self.tool_defs = [each for each in self.tool_defs or () if each["name"] != name]
        del self.tool_map[name]
        self._count_calls()

    @stop
    async def no_tools_called(self, state: State) -> bool:
        steps = state["trajectory"]
        last = steps[-1]["completion"][-1] if steps else {"role": "user"}
        return last["role"] == "assistant" and not last.get("tool_calls")

    async def call_tool(self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any) -> Any:
        """Call a tool, and return the message that the model is shown."""
        result = await awaited(self.tool_map[tool_name](**tool_args))
        content = result if is_valid_tool_content_parts(result) else str(result)
        return ToolMessage(content=content, tool_call_id=tool_call_id)

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any) -> Any:
        """The arguments that a tool is called with. A subclass adds those that the model does not know of."""
        return tool_args

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """What each call returned, one after the other in the order that the model asked for them."""
        replies: list[Any] = []
        for call in messages[-1]["tool_calls"]:
            kind = ToolParseError
            try:
                arguments = self._read_arguments(call["arguments"])
                kind = None
                arguments = await awaited(self.update_tool_args(call["name"], arguments, messages, state, **kwargs))
                kind = ToolCallError
                replies.append(await awaited(self.call_tool(call["name"], arguments, call["id"])))
            except Exception as error:
                # What a subclass's own arguments raise ends the rollout; the model could do nothing about it.
                if kind is None:
                    raise
                if isinstance(error, tuple(self.stop_errors)):
                    raise kind(str(error)) from error
                replies.append(ToolMessage(content=self.error_formatter(error), tool_call_id=call["id"]))
        return replies

    def _read_arguments(self, given: str) -> Any:
        return json.loads(given)


class StatefulToolEnv(ToolEnv):
    """Tools may take arguments that the model does not see, which `update_tool_args` gives."""

    @abstractmethod
    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any) -> Any: ...

    def _read_arguments(self, given: str) -> Any:
        found: Any = json.loads(given)
        if not isinstance(found, dict):
            kind = type(found).__name__
            raise ValueError(f"Expected tool arguments to be a dict, got {kind}: {found}")
        return found  # pyright: ignore[reportUnknownVariableType]


def _name(tool: Any) -> str:
    return getattr(tool, "__name__", type(tool).__name__)
