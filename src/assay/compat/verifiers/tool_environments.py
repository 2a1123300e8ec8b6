"""ToolEnv calls functions for a model, SandboxEnv and PythonEnv run its commands and code, MCPEnv asks servers of tools."""

import asyncio
import base64
import inspect
import json
import shlex
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from typing import Any, Protocol, cast
from uuid import uuid4

from assay.compat.verifiers.environments import MultiTurnEnv
from assay.compat.verifiers.numeric_rubrics import Rubric
from assay.compat.verifiers.records import (
    InfraError,
    SandboxError,
    SandboxRequest,
    ToolCallError,
    ToolParseError,
)
from assay.compat.verifiers.typed_messages import (
    AttributeRecord,
    Tool,
    ToolMessage,
    convert_func_to_tool_def,
)
from assay.concurrency import LoopThread
from assay.envs.base_env import await_if_needed, cleanup, stop, teardown
from assay.envs.tool_use import TOOL_SECONDS, call_tool_function
from assay.errors import import_extra
from assay.lazy import read_toml
from assay.models.callable_tool import get_tool_name
from assay.presets.tool_rubric import make_call_counter, total_tool_calls
from assay.tools import Interpreter, is_failure
from assay.types import State
from assay.wording import describe_error


def is_valid_tool_content_parts(value: Any) -> bool:
    parts = cast("list[Any]", value)
    return type(value) is list and all(
        type(p) is dict and p.get("type") in ("text", "image_url") for p in parts
    )


class ToolEnv(MultiTurnEnv):
    """The model may call `tools` until it answers without calling one; what a tool raises is told to the model."""

    # How long a call of a tool may take. Plain functions are called in a thread.
    tool_seconds: float = TOOL_SECONDS

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
        self.tool_map: dict[str, Callable[..., Any]] = {
            get_tool_name(tool): tool for tool in self.tools
        }
        defined = [convert_func_to_tool_def(tool) for tool in self.tools]
        super().__init__(tool_defs=defined, max_turns=max_turns, **given)
        # A ToolRubric counts the calls itself; counted here too, the sums would be twice as high.
        known_metrics = set(self.rubric.get_reward_func_names())
        counters = [total_tool_calls, *map(make_call_counter, self.tool_map)]
        counters = [counter for counter in counters if counter.__name__ not in known_metrics]
        self.tool_monitor_rubric = Rubric(counters, weights=[0.0] * len(counters))
        self.tool_monitor_rubric.tool_names = self.tool_map.keys()
        self.add_rubric(self.tool_monitor_rubric)

    def add_tool(self, tool: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> None:
        """Let the model call it. Of `args_to_skip` it is not told; `update_tool_args` of a subclass gives them."""
        self.tools.append(tool)
        self.tool_defs = [*(self.tool_defs or ()), convert_func_to_tool_def(tool, args_to_skip)]
        self.tool_map[get_tool_name(tool)] = tool
        self.skipped_args[get_tool_name(tool)] = args_to_skip
        self.tool_monitor_rubric.add_metric(make_call_counter(get_tool_name(tool)))

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call it no more."""
        self.tools.remove(tool)
        name = get_tool_name(tool)
        self.tool_defs = [
            each for each in self.tool_defs or () if each.get("function", each)["name"] != name
        ]
        del self.tool_map[name]
        counters = self.tool_monitor_rubric
        metrics = counters.get_reward_func_names()
        if f"{name}_calls" in metrics:
            index = metrics.index(f"{name}_calls")
            del counters.funcs[index]
            del counters.weights[index]

    @stop
    async def no_tools_called(self, state: State) -> bool:
        steps = state["trajectory"]
        last = steps[-1]["completion"][-1] if steps else {"role": "user"}
        return last["role"] == "assistant" and not last.get("tool_calls")

    async def call_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any
    ) -> Any:
        """Call a tool, and return the message that the model is shown."""
        tool = self.tool_map[tool_name]
        result = await call_tool_function(
            tool,
            tool_args,
            is_async=inspect.iscoroutinefunction(tool),
            seconds=self.tool_seconds,
        )
        content = result if is_valid_tool_content_parts(result) else str(result)
        return ToolMessage(content=content, tool_call_id=tool_call_id)

    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any:
        """The arguments that a tool is called with. A subclass adds those that the model does not know of."""
        return tool_args

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """What each call returned, one after the other in the order that the model asked for them."""
        replies: list[Any] = []
        # A message without calls comes here if `is_completed` is overridden.
        for call in messages[-1].get("tool_calls") or ():
            kind = ToolParseError
            try:
                arguments = self._read_arguments(call["arguments"])
                kind = None
                arguments = await await_if_needed(
                    self.update_tool_args(call["name"], arguments, messages, state, **kwargs)
                )
                kind = ToolCallError
                replies.append(
                    await await_if_needed(self.call_tool(call["name"], arguments, call["id"]))
                )
            except Exception as error:
                # What a subclass's own arguments raise ends the rollout; the model could do nothing about it.
                # Nor could it about a machine or a server that is gone: that is not a wrong answer.
                if kind is None or isinstance(error, InfraError):
                    raise
                if isinstance(error, tuple(self.stop_errors)):
                    raise kind(str(error)) from error
                replies.append(
                    ToolMessage(content=self.error_formatter(error), tool_call_id=call["id"])
                )
        return replies

    def _read_arguments(self, given: str) -> Any:
        return json.loads(given)


class StatefulToolEnv(ToolEnv):
    """Tools may take arguments that the model does not see, which `update_tool_args` gives."""

    @abstractmethod
    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any: ...

    def _read_arguments(self, given: str) -> Any:
        found: Any = json.loads(given)
        if not isinstance(found, dict):
            raise ValueError(
                f"Expected tool arguments to be a dict, got {type(found).__name__}: {found}"
            )
        return found  # pyright: ignore[reportUnknownVariableType]


# Sandboxes.

CONNECT_SECONDS, PING_SECONDS = (
    60,
    5,
)  # that MCP servers may take to start, and one to show that it is still there


def _program(name: str, given: list[str]) -> str:
    return read_toml("assay.compat.verifiers", "sandbox_programs.toml")[name].replace(
        "GIVEN", repr(json.dumps(given))
    )


class CodeEngine(Protocol):
    """Runs Python code in a fresh place of its own, and returns what it prints: `assay.tools.Interpreter` is one."""

    async def python_async(self, code: str) -> str: ...


class SandboxClient:
    """A sandbox is the commands that were run in it: each runs in a fresh place of the engine, after those before it."""

    def __init__(self, engine: CodeEngine) -> None:
        self.engine = engine
        self._commands: dict[str, list[str]] = {}

    async def create(self, request: Any = None) -> AttributeRecord:
        made = uuid4().hex
        self._commands[made] = []
        return AttributeRecord(id=made)

    async def wait_for_creation(self, sandbox_id: str) -> None: ...

    async def execute_command(
        self, sandbox_id: str, command: str, working_dir: str | None = None, **_: Any
    ) -> Any:
        """What a command printed, and its exit code. The engine has its own limits, of time too."""
        whole = command if working_dir is None else f"cd {shlex.quote(working_dir)} && {command}"
        commands = [*self._commands[sandbox_id], whole]
        printed = await self.engine.python_async(_program("commands", commands))
        try:
            stdout, stderr, code = json.loads(printed)
        except ValueError:
            raise TimeoutError(printed) from None
        self._commands[sandbox_id] = (
            commands  # one that is never done would hold up all that follow
        )
        return AttributeRecord(stdout=stdout, stderr=stderr, exit_code=code)

    async def delete(self, sandbox_id: str) -> None:
        self._commands.pop(sandbox_id, None)

    def teardown(self) -> None: ...


class SandboxCreationError(SandboxError):
    """A sandbox could not be made."""


def sandbox_ready_wait_time(state: State) -> float:
    return state["sandbox_state"]["ready_wait_time"]


def sandbox_command_execution_time(state: State) -> float:
    times = state["sandbox_state"]["command_execution_times"]
    return sum(times) / len(times) if times else 0.0


NO_OUTPUT = "(no output)"  # what the model is told if a command prints nothing
PYTHON_ENDED = "Error: the Python process has ended"  # see `ask_worker` of sandbox_programs.toml


class SandboxEnv(StatefulToolEnv):
    """The model may run commands by the tool `bash`, in a sandbox of the rollout's own that `sandbox_client` makes.

    Without a client of yours (`create`, `wait_for_creation`, `execute_command`, `delete`, and, if it has them,
    `bulk_delete` and `teardown`) it is a `SandboxClient` over the `engine`, the fenced interpreter of `assay.tools`. What
    asks for a container becomes the `sandbox_request`. Making and deleting is tried `max_retries` times.
    """

    def __init__(
        self,
        sandbox_name: str = "sandbox-env",
        timeout_per_command_seconds: int = 30,
        stop_errors: Any = None,
        max_retries: int = 5,
        base_delay: float = 0.5,
        engine: CodeEngine | None = None,
        **given: Any,
    ) -> None:
        asked = {name: given[name] for name in SandboxRequest().model_dump() if name in given}
        self.sandbox_request = SandboxRequest(asked, name=sandbox_name)
        self._delays = [min(base_delay * 2.0**number, 30.0) for number in range(max_retries - 1)]
        super().__init__(
            stop_errors=[SandboxError] if stop_errors is None else stop_errors, **given
        )
        self.timeout_per_command_seconds = timeout_per_command_seconds
        limits = Interpreter(wall_seconds=float(timeout_per_command_seconds), output=2**20)
        self.sandbox_client: Any = SandboxClient(limits if engine is None else engine)
        self.active_sandboxes: set[str] = set()
        self.add_rubric(
            Rubric([sandbox_ready_wait_time, sandbox_command_execution_time], weights=[0.0, 0.0])
        )
        self.add_tool(self.bash, args_to_skip=["sandbox_id", "working_dir", "sandbox_state"])

    def with_retry(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, called again after a pause when it raises; what it raises at last is raised."""

        async def again(*args: Any, **kwargs: Any) -> Any:
            for delay in self._delays:
                try:
                    return await call(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever a service raises
                    self.logger.warning("%s, and tried again in %g s", describe_error(error), delay)
                    await asyncio.sleep(delay)
            return await call(*args, **kwargs)

        return again

    def get_sandbox_request(self, state: State) -> Any:
        return self.sandbox_request.model_copy()

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        try:
            sandbox = await self.with_retry(self.sandbox_client.create)(
                self.get_sandbox_request(state)
            )
        except Exception as error:
            raise SandboxCreationError(str(error)) from error
        self.active_sandboxes.add(sandbox.id)
        state["sandbox_id"] = sandbox.id
        state["sandbox_state"] = {
            "ready": False,
            "ready_wait_time": 0.0,
            "command_execution_times": [],
        }
        return await super().setup_state(state)

    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any:
        if tool_name != "bash":
            return tool_args
        own = {name: state[name] for name in ("sandbox_id", "sandbox_state")}
        return {**tool_args, **own, "working_dir": state.get("working_dir")}

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: Any, working_dir: str | None = None
    ) -> str:
        """Execute `command` inside persistent sandbox container."""
        started, limit = time.monotonic(), self.timeout_per_command_seconds
        try:
            if not sandbox_state["ready"]:
                await self.sandbox_client.wait_for_creation(sandbox_id)
                sandbox_state |= {"ready": True, "ready_wait_time": time.monotonic() - started}
                started = time.monotonic()
            execute = self.sandbox_client.execute_command
            done = await execute(sandbox_id, command, working_dir=working_dir, timeout=limit)
        except TimeoutError:
            return self._timeout_message
        except Exception as error:
            raise SandboxError(str(error)) from error
        finally:
            sandbox_state["command_execution_times"].append(time.monotonic() - started)
        stdout, stderr = done.stdout.strip(), (done.stderr or "").strip()
        return "\n".join(filter(None, [stdout, stderr and f"stderr:\n{stderr}"])) or NO_OUTPUT

    @property
    def _timeout_message(self) -> str:
        return f"Error: Command timed out after {self.timeout_per_command_seconds}s"

    async def post_rollout(self, state: State) -> None:
        """Look into the sandbox before it is gone. A subclass leaves what it finds in the state."""

    @cleanup
    async def destroy_sandbox(self, state: State) -> None:
        await self.post_rollout(state)
        if state.get("sandbox_id") is not None:
            try:
                await self.with_retry(self.sandbox_client.delete)(state["sandbox_id"])
            except Exception as error:  # noqa: BLE001 - it is tried once more when the environment is closed
                self.logger.warning(
                    "sandbox %s could not be deleted: %s",
                    state["sandbox_id"],
                    describe_error(error),
                )
            else:
                self.active_sandboxes.discard(state["sandbox_id"])

    async def bulk_delete_sandboxes(self, global_ids: Sequence[str]) -> None:
        """Delete these sandboxes, by the client's `bulk_delete` if it has one; what goes wrong is a line in the log."""
        client = self.sandbox_client
        try:
            if hasattr(client, "bulk_delete"):
                await self.with_retry(client.bulk_delete)(global_ids)
            else:
                for sandbox_id in global_ids:
                    await self.with_retry(client.delete)(sandbox_id)
            self.active_sandboxes.difference_update(global_ids)
        except Exception as error:  # noqa: BLE001 - whatever a service raises
            self.logger.error(
                "sandboxes %s could not be deleted: %s", [*global_ids], describe_error(error)
            )

    # Before the client is gone, which comes first by its name.
    @teardown(priority=1)
    async def teardown_sandboxes(self) -> None:
        left = sorted(self.active_sandboxes)
        for start in range(0, len(left), 100):
            await self.bulk_delete_sandboxes(left[start : start + 100])

    @teardown
    async def teardown_sandbox_client(self) -> None:
        if hasattr(self.sandbox_client, "teardown"):
            await await_if_needed(self.sandbox_client.teardown())


class PythonEnv(SandboxEnv):
    """The model may run code with the tool `python`; names stay defined from one call to the next.

    With a `sandbox_client` of the caller's own, the code runs in its sandbox, in a Python process
    that is started there at the first call. The sandbox needs `bash`, `base64` and `python3`.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.add_tool(self.python, args_to_skip=["sandbox_id", "sandbox_state", "python_state"])
        self.remove_tool(self.bash)

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        state["python_state"] = {"cells": [], "worker": None}
        return await super().setup_state(state, **kwargs)

    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any:
        arguments = super().update_tool_args(tool_name, tool_args, messages, state, **kwargs)
        if tool_name != "python":
            return arguments
        names = ("sandbox_id", "sandbox_state", "python_state")
        return {**arguments, **{name: state[name] for name in names}}

    async def python(
        self, code: str, sandbox_id: str, sandbox_state: Any, python_state: Any
    ) -> str:
        """Execute `code` inside persistent Python REPL."""
        if isinstance(self.sandbox_client, SandboxClient):
            cells = [*python_state["cells"], code]
            printed = await self.sandbox_client.engine.python_async(_program("cells", cells))
            if not is_failure(printed):
                python_state["cells"] = cells
            return printed

        if python_state["worker"] is None:
            python_state["worker"] = await self._start_worker(sandbox_id, sandbox_state)
        worker = python_state["worker"]
        ask = _sandbox_program("ask_worker", FOLDER=worker, CELL=_to_base64(code))
        printed = await self.bash(ask, sandbox_id, sandbox_state)
        if printed == PYTHON_ENDED or printed == self._timeout_message:
            # The process is gone, or still busy with this code: the next call starts another one.
            python_state["worker"] = None
            stop = _sandbox_program("stop_worker", FOLDER=worker)
            await self.bash(stop, sandbox_id, sandbox_state)
        return printed

    async def _start_worker(self, sandbox_id: str, sandbox_state: Any) -> str:
        """Start a Python process in the sandbox; return the shell word for its folder."""
        folder = f'"${{TMPDIR:-/tmp}}"/assay-python-{uuid4().hex}'
        start = _sandbox_program("start_worker", FOLDER=folder, WORKER=_sandbox_program("worker"))
        printed = await self.bash(start, sandbox_id, sandbox_state)
        if printed != NO_OUTPUT:
            raise SandboxError(
                f"Python did not start in sandbox {sandbox_id}: {printed}: the sandbox needs bash, "
                "base64 and python3"
            )
        return folder


def _sandbox_program(name: str, **values: str) -> str:
    """Return a program of `sandbox_programs.toml` with these values in it."""
    program: str = read_toml("assay.compat.verifiers", "sandbox_programs.toml")[name].strip()
    for placeholder, value in values.items():
        program = program.replace(placeholder, value)
    return program


def _to_base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


# The tools of MCP servers.


class MCPServerConfig(AttributeRecord, args=None, env=None, description=""):
    """How the process of a server is started: its `name`, a `command`, and what goes with it."""


class MCPEnv(ToolEnv):
    """The model may call the tools of these servers, which run as long as the environment; all rollouts share them."""

    def __init__(
        self,
        mcp_servers: Sequence[dict[str, Any]] = (),
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = "Error: {}".format,
        **given: Any,
    ) -> None:
        super().__init__(tools=[], max_turns=max_turns, error_formatter=error_formatter, **given)
        self.mcp_servers = [MCPServerConfig(server) for server in mcp_servers]
        self._mcp = import_extra("mcp", "MCPEnv")
        self._stdio = import_extra("mcp.client.stdio", "MCPEnv")
        connected: Future[None] = Future()
        self._thread = LoopThread()
        self._serving = self._thread.submit(self._serve(connected))
        # At the latest when the program ends.
        self._end_servers = weakref.finalize(self, _end_servers, self._thread, self._serving)
        try:
            connected.result(CONNECT_SECONDS)
        except TimeoutError:
            self._end_servers()
            names = ", ".join(repr(config.name) for config in self.mcp_servers)
            told = f"of the MCP servers {names}, one did not answer within {CONNECT_SECONDS} s"
            raise InfraError(f"{told}: see whether its command runs by itself") from None

    async def _serve(self, connected: "Future[None]") -> None:
        """Hold the connections open until the thread is stopped. What keeps one from being made is the caller's."""
        name = ""
        try:
            # In one task from beginning to end, as the package demands.
            async with AsyncExitStack() as stack:
                for config in self.mcp_servers:
                    name = config.name
                    started: Any = {
                        "command": config.command,
                        "args": config.args or [],
                        "env": config.env,
                    }
                    asked = self._mcp.StdioServerParameters(**started)
                    streams = await stack.enter_async_context(self._stdio.stdio_client(asked))
                    session = await stack.enter_async_context(self._mcp.ClientSession(*streams))
                    await session.initialize()
                    for tool in (await session.list_tools()).tools:
                        self._add_server_tool(session, tool)
                connected.set_result(None)
                await asyncio.Event().wait()
        except BaseException as error:
            if connected.done():
                raise
            cause: Any = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cast("Any", cause).exceptions[0]
            why = f"the MCP server {name!r} did not start: {describe_error(cause)}: see whether its command runs by itself"
            connected.set_exception(InfraError(why))

    def _add_server_tool(self, session: Any, told: Any) -> None:
        async def ask(**arguments: Any) -> Any:
            return await self._thread.start(session.call_tool(told.name, arguments=arguments))

        async def call(**arguments: Any) -> str:
            try:
                result = await call_tool_function(
                    ask, arguments, is_async=True, seconds=self.tool_seconds
                )
            except Exception as error:
                try:  # a server that is gone would fail every rollout that follows, as if their models were at fault
                    await asyncio.wait_for(self._thread.start(session.send_ping()), PING_SECONDS)
                except Exception:  # noqa: BLE001 - whatever the package raises, there is no answer
                    raise InfraError(
                        f"the MCP server of the tool {told.name!r} is gone: {describe_error(error)}"
                    ) from error
                raise
            parts = [getattr(part, "text", None) or str(part) for part in result.content]
            return "\n".join(parts) or "No result returned from tool"

        call.__name__, call.__doc__ = told.name, told.description or ""
        self.tools.append(call)
        self.tool_map[told.name] = call
        # By its alias: the attribute has another name in each version of the package.
        schema = told.model_dump(by_alias=True)["inputSchema"]
        self.tool_defs = [
            *(self.tool_defs or ()),
            Tool(name=told.name, description=call.__doc__, parameters=schema),
        ]

    async def call_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any
    ) -> Any:
        content = f"Error: Tool '{tool_name}' not found"
        try:
            if tool_name in self.tool_map:
                content = await self.tool_map[tool_name](**tool_args)
        except InfraError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a server raises, the model is told
            content = self.error_formatter(error)
        return ToolMessage(content=content, tool_call_id=tool_call_id)

    @teardown
    async def teardown_mcp_servers(self) -> None:
        """End the processes of the servers, and wait until they are gone."""
        if self._end_servers.detach():  # else they are ended already
            self._thread.stop()
            await asyncio.wait([asyncio.wrap_future(self._serving)])


def _end_servers(thread: LoopThread, serving: "Future[None]") -> None:
    thread.stop()
    wait([serving], timeout=CONNECT_SECONDS)
