"""Environments in which the model uses tools.

In a ToolEnv they are functions. A SandboxEnv runs the model's commands, a PythonEnv runs its code,
and an MCPEnv calls the tools of MCP servers.
"""

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
    ToolError,
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
    """Return whether a tool returned a list of text and image parts, which a message can contain."""
    if type(value) is not list:
        return False
    for part in cast("list[Any]", value):
        if type(part) is not dict:
            return False
        if cast("dict[str, Any]", part).get("type") not in ("text", "image_url"):
            return False
    return True


class ToolEnv(MultiTurnEnv):
    """The model may call `tools` until it answers without calling one.

    If a tool raises an error, the model is shown its text.
    """

    # How long a call of a tool may take. Plain functions are called in a thread.
    tool_seconds: float = TOOL_SECONDS

    def __init__(
        self,
        tools: Sequence[Callable[..., Any]] | None = None,
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = str,
        stop_errors: Sequence[type[Exception]] | None = None,
        **options: Any,
    ) -> None:
        """The model is not shown an error of the types `stop_errors`, which ends the rollout.

        It becomes the cause of a `ToolCallError`, or of a `ToolParseError` if the arguments of the
        call could not be read.
        """
        self.tools: list[Callable[..., Any]] = list(tools or ())
        self.error_formatter = error_formatter
        self.stop_errors = list(stop_errors or ())
        self.skipped_args: dict[str, Sequence[str]] = {}
        self.tool_map: dict[str, Callable[..., Any]] = {
            get_tool_name(tool): tool for tool in self.tools
        }
        tool_defs = [convert_func_to_tool_def(tool) for tool in self.tools]
        super().__init__(tool_defs=tool_defs, max_turns=max_turns, **options)
        # A ToolRubric has some of these metrics itself. Metrics with the same name are summed, so
        # that each call would count twice.
        known_metrics = set(self.rubric.get_reward_func_names())
        counters = [total_tool_calls, *map(make_call_counter, self.tool_map)]
        counters = [counter for counter in counters if counter.__name__ not in known_metrics]
        self.tool_monitor_rubric = Rubric(counters, weights=[0.0] * len(counters))
        self.tool_monitor_rubric.tool_names = self.tool_map.keys()
        self.add_rubric(self.tool_monitor_rubric)

    def add_tool(self, tool: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> None:
        """Let the model call a tool.

        It does not see the arguments in `args_to_skip`, which the `update_tool_args` of a subclass
        adds to a call.
        """
        self.tools.append(tool)
        self.tool_defs = [*(self.tool_defs or ()), convert_func_to_tool_def(tool, args_to_skip)]
        self.tool_map[get_tool_name(tool)] = tool
        self.skipped_args[get_tool_name(tool)] = args_to_skip
        self.tool_monitor_rubric.add_metric(make_call_counter(get_tool_name(tool)))

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Remove a tool, and the metric that counts its calls."""
        self.tools.remove(tool)
        name = get_tool_name(tool)
        remaining_defs: list[Tool] = []
        for tool_def in self.tool_defs or ():
            if tool_def["name"] != name:
                remaining_defs.append(tool_def)
        self.tool_defs = remaining_defs
        del self.tool_map[name]
        rubric = self.tool_monitor_rubric
        metrics = rubric.get_reward_func_names()
        if f"{name}_calls" in metrics:
            index = metrics.index(f"{name}_calls")
            del rubric.funcs[index]
            del rubric.weights[index]

    @stop
    async def no_tools_called(self, state: State) -> bool:
        """Whether the last message of the model calls no tool, so that it is the answer."""
        steps = state["trajectory"]
        if not steps:
            return False
        last_message = steps[-1]["completion"][-1]
        return last_message["role"] == "assistant" and not last_message.get("tool_calls")

    async def call_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any
    ) -> Any:
        """Call a tool, and return its result as a message to the model."""
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
        """Return the arguments to call a tool with. A subclass adds those that the model does not see."""
        return tool_args

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """Make the calls of the last message one after the other, and return their results."""
        results: list[Any] = []
        # There are none if a subclass overrides `is_completed`, and goes on without a call.
        for call in messages[-1].get("tool_calls") or ():
            try:
                arguments = self._read_arguments(call["arguments"])
            except Exception as error:  # noqa: BLE001 - a subclass may read them in its own way
                results.append(self._report_error(error, ToolParseError, call["id"]))
                continue
            # An error in the environment's own arguments ends the rollout, since the model could
            # not do anything about it.
            arguments = await await_if_needed(
                self.update_tool_args(call["name"], arguments, messages, state, **kwargs)
            )
            try:
                result = await await_if_needed(self.call_tool(call["name"], arguments, call["id"]))
            except Exception as error:  # noqa: BLE001 - a tool may raise anything
                result = self._report_error(error, ToolCallError, call["id"])
            results.append(result)
        return results

    def _report_error(
        self, error: Exception, stop_type: type[ToolError], tool_call_id: str
    ) -> ToolMessage:
        """Return an error as a message to the model, or raise it if it must end the rollout.

        An error of `stop_errors` is raised as the cause of one of type `stop_type`.
        """
        if isinstance(error, InfraError):
            # For example, a server is gone: not a mistake of the model.
            raise error
        if isinstance(error, tuple(self.stop_errors)):
            raise stop_type(str(error)) from error
        return ToolMessage(content=self.error_formatter(error), tool_call_id=tool_call_id)

    def _read_arguments(self, arguments_json: str) -> Any:
        return json.loads(arguments_json)


class StatefulToolEnv(ToolEnv):
    """Tools may take arguments that the model does not see, and that `update_tool_args` adds."""

    @abstractmethod
    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any: ...

    def _read_arguments(self, arguments_json: str) -> Any:
        arguments: Any = json.loads(arguments_json)
        # `update_tool_args` adds to them by name.
        if not isinstance(arguments, dict):
            raise ValueError(
                f"Expected tool arguments to be a dict, got {type(arguments).__name__}: {arguments}"
            )
        return cast("dict[str, Any]", arguments)


# Sandboxes.

NO_OUTPUT = "(no output)"  # what the model is shown if a command prints nothing
PYTHON_ENDED = "Error: the Python process has ended"  # see `ask_worker` of sandbox_programs.toml


def _read_program(name: str, **values: str) -> str:
    """Return a program of `sandbox_programs.toml`, with these values in place of their names."""
    program: str = read_toml("assay.compat.verifiers", "sandbox_programs.toml")[name].strip()
    for placeholder, value in values.items():
        program = program.replace(placeholder, value)
    return program


def _write_python_json(value: list[str]) -> str:
    """Return a list as a Python string literal that contains JSON, to put into a program."""
    return repr(json.dumps(value))


class CodeEngine(Protocol):
    """Runs Python code in a new sandbox, and returns what it prints, as `assay.tools.Interpreter` does."""

    async def python_async(self, code: str) -> str: ...


class SandboxClient:
    """Simulates persistent sandboxes by an engine that runs each program in a new sandbox.

    A command runs after all earlier commands of its sandbox, which are repeated each time.
    """

    def __init__(self, engine: CodeEngine) -> None:
        self.engine = engine
        self._commands: dict[str, list[str]] = {}

    async def create(self, request: Any = None) -> AttributeRecord:
        """Return a record with the id of a new sandbox. The request is ignored."""
        sandbox_id = uuid4().hex
        self._commands[sandbox_id] = []
        return AttributeRecord(id=sandbox_id)

    async def wait_for_creation(self, sandbox_id: str) -> None:
        """Do nothing, since a sandbox is ready at once."""

    async def execute_command(
        self, sandbox_id: str, command: str, working_dir: str | None = None, **_: Any
    ) -> Any:
        """Return a record of what a command printed, and its exit code.

        The limits, of time too, are those of the engine. `TimeoutError` is raised if a command
        exceeds them.
        """
        if working_dir is not None:
            command = f"cd {shlex.quote(working_dir)} && {command}"
        commands = [*self._commands[sandbox_id], command]
        program = _read_program("commands", GIVEN=_write_python_json(commands))
        printed = await self.engine.python_async(program)
        try:
            stdout, stderr, exit_code = json.loads(printed)
        except ValueError:  # the engine printed its own error message
            raise TimeoutError(printed) from None
        # A command that did not finish is not repeated, or no later one would finish either.
        self._commands[sandbox_id] = commands
        return AttributeRecord(stdout=stdout, stderr=stderr, exit_code=exit_code)

    async def delete(self, sandbox_id: str) -> None:
        self._commands.pop(sandbox_id, None)

    def teardown(self) -> None:
        """Do nothing, since no sandbox exists between two commands."""


class SandboxCreationError(SandboxError):
    """A sandbox could not be created."""


# Metrics, whose names are those of the functions.


def sandbox_ready_wait_time(state: State) -> float:
    """Return the seconds for which the first command waited for the sandbox."""
    return state["sandbox_state"]["ready_wait_time"]


def sandbox_command_execution_time(state: State) -> float:
    """Return the mean seconds of a command."""
    times = state["sandbox_state"]["command_execution_times"]
    return sum(times) / len(times) if times else 0.0


class SandboxEnv(StatefulToolEnv):
    """The model may run commands with the tool `bash`. Each rollout has its own sandbox.

    The sandboxes are those of a `SandboxClient` with this `engine`, by default the sandboxed
    interpreter of `assay.tools`. A program may assign its own `sandbox_client`. It needs the methods
    `create`, `wait_for_creation`, `execute_command` and `delete`, and may have `bulk_delete` and
    `teardown`. It gets the options of a container, such as `docker_image`, as a `SandboxRequest`.
    Creating and deleting a sandbox is attempted up to `max_retries` times.
    """

    def __init__(
        self,
        sandbox_name: str = "sandbox-env",
        timeout_per_command_seconds: int = 30,
        stop_errors: Any = None,
        max_retries: int = 5,
        base_delay: float = 0.5,
        engine: CodeEngine | None = None,
        **options: Any,
    ) -> None:
        container_options: dict[str, Any] = {}
        for name in SandboxRequest().model_dump():
            if name in options:
                container_options[name] = options[name]
        self.sandbox_request = SandboxRequest(container_options, name=sandbox_name)
        # The seconds to wait before each attempt after the first.
        self._delays = [min(base_delay * 2.0**number, 30.0) for number in range(max_retries - 1)]
        super().__init__(
            stop_errors=[SandboxError] if stop_errors is None else stop_errors, **options
        )
        self.timeout_per_command_seconds = timeout_per_command_seconds
        if engine is None:
            engine = Interpreter(wall_seconds=float(timeout_per_command_seconds), output=2**20)
        self.sandbox_client: Any = SandboxClient(engine)
        self.active_sandboxes: set[str] = set()
        self.add_rubric(
            Rubric([sandbox_ready_wait_time, sandbox_command_execution_time], weights=[0.0, 0.0])
        )
        self.add_tool(self.bash, args_to_skip=["sandbox_id", "working_dir", "sandbox_state"])

    def with_retry(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls another one, and again after a pause if it raises an error.

        The error of the last attempt is raised.
        """

        async def call_with_retry(*args: Any, **kwargs: Any) -> Any:
            for delay in self._delays:
                try:
                    return await call(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - a service may raise anything
                    self.logger.warning("%s; retrying in %g s", describe_error(error), delay)
                    await asyncio.sleep(delay)
            return await call(*args, **kwargs)

        return call_with_retry

    def get_sandbox_request(self, state: State) -> Any:
        """Return the request for the sandbox of a rollout. A subclass may change it."""
        return self.sandbox_request.model_copy()

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        """Create the sandbox of a rollout. The first command waits until it is ready."""
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
        """Add the sandbox of the rollout to the arguments of `bash`."""
        if tool_name != "bash":
            return tool_args
        return {
            **tool_args,
            "sandbox_id": state["sandbox_id"],
            "sandbox_state": state["sandbox_state"],
            "working_dir": state.get("working_dir"),
        }

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: Any, working_dir: str | None = None
    ) -> str:
        """Execute `command` inside persistent sandbox container."""
        # The docstring is the description of the tool for the model, in the words of verifiers.
        start = time.monotonic()
        try:
            if not sandbox_state["ready"]:
                await self.sandbox_client.wait_for_creation(sandbox_id)
                sandbox_state["ready"] = True
                sandbox_state["ready_wait_time"] = time.monotonic() - start
                start = time.monotonic()
            output = await self.sandbox_client.execute_command(
                sandbox_id,
                command,
                working_dir=working_dir,
                timeout=self.timeout_per_command_seconds,
            )
        except TimeoutError:
            return self._timeout_message
        except Exception as error:
            raise SandboxError(str(error)) from error
        finally:
            sandbox_state["command_execution_times"].append(time.monotonic() - start)
        parts: list[str] = []
        stdout = output.stdout.strip()
        if stdout:
            parts.append(stdout)
        stderr = (output.stderr or "").strip()
        if stderr:
            parts.append(f"stderr:\n{stderr}")
        return "\n".join(parts) or NO_OUTPUT

    @property
    def _timeout_message(self) -> str:
        return f"Error: Command timed out after {self.timeout_per_command_seconds}s"

    async def post_rollout(self, state: State) -> None:
        """Inspect the sandbox before it is deleted. A subclass may write its findings to the state."""

    @cleanup
    async def destroy_sandbox(self, state: State) -> None:
        """Delete the sandbox of a rollout."""
        await self.post_rollout(state)
        if state.get("sandbox_id") is not None:
            try:
                await self.with_retry(self.sandbox_client.delete)(state["sandbox_id"])
            except Exception as error:  # noqa: BLE001 - a service may raise anything
                # It stays in `active_sandboxes`, and is deleted when the environment is closed.
                self.logger.warning(
                    "sandbox %s could not be deleted: %s",
                    state["sandbox_id"],
                    describe_error(error),
                )
            else:
                self.active_sandboxes.discard(state["sandbox_id"])

    async def bulk_delete_sandboxes(self, global_ids: Sequence[str]) -> None:
        """Delete these sandboxes, with the client's `bulk_delete` if it has one; log any error."""
        client = self.sandbox_client
        try:
            if hasattr(client, "bulk_delete"):
                await self.with_retry(client.bulk_delete)(global_ids)
            else:
                for sandbox_id in global_ids:
                    await self.with_retry(client.delete)(sandbox_id)
            self.active_sandboxes.difference_update(global_ids)
        except Exception as error:  # noqa: BLE001 - a service may raise anything
            self.logger.error(
                "sandboxes %s could not be deleted: %s", list(global_ids), describe_error(error)
            )

    # The priority puts it before `teardown_sandbox_client`, which would come first by its name.
    @teardown(priority=1)
    async def teardown_sandboxes(self) -> None:
        """Delete the sandboxes that still exist, 100 at a time."""
        remaining = sorted(self.active_sandboxes)
        for start in range(0, len(remaining), 100):
            await self.bulk_delete_sandboxes(remaining[start : start + 100])

    @teardown
    async def teardown_sandbox_client(self) -> None:
        """Close the client of the sandboxes, if it can be closed."""
        if hasattr(self.sandbox_client, "teardown"):
            await await_if_needed(self.sandbox_client.teardown())


class PythonEnv(SandboxEnv):
    """The model may run code with the tool `python`; names stay defined from one call to the next.

    With a `sandbox_client` of the caller's own, the code runs in its sandbox, in a Python process
    that is started there at the first call. The sandbox needs `bash`, `base64` and `python3`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_tool(self.python, args_to_skip=["sandbox_id", "sandbox_state", "python_state"])
        self.remove_tool(self.bash)

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        # The code so far, for our own engine; or the folder of the Python process in a sandbox.
        state["python_state"] = {"cells": [], "worker": None}
        return await super().setup_state(state, **kwargs)

    def update_tool_args(
        self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any
    ) -> Any:
        """Add the sandbox of the rollout, and the state of its Python process, for `python`."""
        arguments = super().update_tool_args(tool_name, tool_args, messages, state, **kwargs)
        if tool_name != "python":
            return arguments
        return {
            **arguments,
            "sandbox_id": state["sandbox_id"],
            "sandbox_state": state["sandbox_state"],
            "python_state": state["python_state"],
        }

    async def python(
        self, code: str, sandbox_id: str, sandbox_state: Any, python_state: Any
    ) -> str:
        """Execute `code` inside persistent Python REPL."""
        # The docstring is the description of the tool for the model, in the words of verifiers.
        if isinstance(self.sandbox_client, SandboxClient):
            # Our engine keeps nothing, so all earlier code of the rollout runs again. Code that
            # exceeded a limit is not repeated.
            cells = [*python_state["cells"], code]
            program = _read_program("cells", GIVEN=_write_python_json(cells))
            printed = await self.sandbox_client.engine.python_async(program)
            if not is_failure(printed):
                python_state["cells"] = cells
            return printed

        if python_state["worker"] is None:
            python_state["worker"] = await self._start_worker(sandbox_id, sandbox_state)
        worker = python_state["worker"]
        ask_command = _read_program("ask_worker", FOLDER=worker, CELL=_to_base64(code))
        printed = await self.bash(ask_command, sandbox_id, sandbox_state)
        if printed == PYTHON_ENDED or printed == self._timeout_message:
            # The process is gone, or still busy with this code: the next call starts another one.
            python_state["worker"] = None
            stop_command = _read_program("stop_worker", FOLDER=worker)
            await self.bash(stop_command, sandbox_id, sandbox_state)
        return printed

    async def _start_worker(self, sandbox_id: str, sandbox_state: Any) -> str:
        """Start a Python process in the sandbox; return the shell word for its folder."""
        folder = f'"${{TMPDIR:-/tmp}}"/assay-python-{uuid4().hex}'
        command = _read_program("start_worker", FOLDER=folder, WORKER=_read_program("worker"))
        printed = await self.bash(command, sandbox_id, sandbox_state)
        if printed != NO_OUTPUT:
            raise SandboxError(
                f"Python did not start in sandbox {sandbox_id}: {printed}: the sandbox needs bash, "
                "base64 and python3"
            )
        return folder


def _to_base64(text: str) -> str:
    # Lone surrogates, which UTF-8 cannot encode, stand for the bytes that they were decoded from.
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


# The tools of MCP servers.

CONNECT_SECONDS = 60  # in which all MCP servers must start
PING_SECONDS = 5  # in which a server must answer a ping after a call has failed


class MCPServerConfig(AttributeRecord, args=None, env=None, description=""):
    """How to start a server: its `name`, its `command`, and the `args` and `env` of the process."""


class MCPEnv(ToolEnv):
    """The model may call the tools of MCP servers, which run as long as the environment.

    All rollouts share the servers.
    """

    def __init__(
        self,
        mcp_servers: Sequence[dict[str, Any]] = (),
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = "Error: {}".format,
        **options: Any,
    ) -> None:
        super().__init__(tools=[], max_turns=max_turns, error_formatter=error_formatter, **options)
        self.mcp_servers = [MCPServerConfig(server) for server in mcp_servers]
        self._mcp = import_extra("mcp", "MCPEnv")
        self._stdio = import_extra("mcp.client.stdio", "MCPEnv")
        connected: Future[None] = Future()
        self._thread = LoopThread()
        self._serving = self._thread.submit(self._serve(connected))
        # Called when the environment is garbage, or when the program ends.
        self._end_servers = weakref.finalize(self, _end_servers, self._thread, self._serving)
        try:
            connected.result(CONNECT_SECONDS)
        except TimeoutError:
            self._end_servers()
            names = ", ".join(repr(config.name) for config in self.mcp_servers)
            raise InfraError(
                f"one of the MCP servers {names} did not answer within {CONNECT_SECONDS} s: "
                "see whether its command runs by itself"
            ) from None

    async def _serve(self, connected: "Future[None]") -> None:
        """Start the servers, and keep the connections open until the thread is stopped.

        `connected` is set when all servers have answered, or to the error of the one that failed.
        It is one task from beginning to end, as the package `mcp` requires.
        """
        name = ""
        try:
            async with AsyncExitStack() as stack:
                for config in self.mcp_servers:
                    name = config.name
                    parameters = self._mcp.StdioServerParameters(
                        command=config.command, args=config.args or [], env=config.env
                    )
                    streams = await stack.enter_async_context(self._stdio.stdio_client(parameters))
                    session = await stack.enter_async_context(self._mcp.ClientSession(*streams))
                    await session.initialize()
                    for declared_tool in (await session.list_tools()).tools:
                        self._add_server_tool(session, declared_tool)
                connected.set_result(None)
                await asyncio.Event().wait()  # forever: the thread is stopped, which cancels it
        except BaseException as error:
            if connected.done():
                raise
            # The package wraps errors in groups, which would hide the cause in the message.
            cause: Any = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cast("Any", cause).exceptions[0]
            message = (
                f"the MCP server {name!r} did not start: {describe_error(cause)}: "
                "see whether its command runs by itself"
            )
            connected.set_exception(InfraError(message))

    def _add_server_tool(self, session: Any, declared_tool: Any) -> None:
        """Let the model call a tool that a server has declared."""
        name: str = declared_tool.name

        async def call_in_thread(**arguments: Any) -> Any:
            # The session belongs to the event loop of the thread.
            return await self._thread.start(session.call_tool(name, arguments=arguments))

        async def call(**arguments: Any) -> str:
            try:
                result = await call_tool_function(
                    call_in_thread, arguments, is_async=True, seconds=self.tool_seconds
                )
            except Exception as error:
                # An error of the tool is shown to the model. But if the server is gone, that would
                # look as if the model of every later rollout had made a mistake.
                if not await self._is_alive(session):
                    raise InfraError(
                        f"the MCP server of the tool {name!r} is gone: {describe_error(error)}"
                    ) from error
                raise
            parts = [getattr(part, "text", None) or str(part) for part in result.content]
            return "\n".join(parts) or "No result returned from tool"

        call.__name__ = name
        call.__doc__ = declared_tool.description or ""
        self.tools.append(call)
        self.tool_map[name] = call
        # By its alias, since the attribute has a different name in each version of the package.
        schema = declared_tool.model_dump(by_alias=True)["inputSchema"]
        tool_def = Tool(name=name, description=call.__doc__, parameters=schema)
        self.tool_defs = [*(self.tool_defs or ()), tool_def]

    async def _is_alive(self, session: Any) -> bool:
        """Return whether a server answers a ping."""
        try:
            await asyncio.wait_for(self._thread.start(session.send_ping()), PING_SECONDS)
        except Exception:  # noqa: BLE001 - whatever the package raises if there is no answer
            return False
        return True

    async def call_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any
    ) -> Any:
        """Call the tool of a server, and return its result or its error as a message to the model."""
        content = f"Error: Tool '{tool_name}' not found"
        try:
            if tool_name in self.tool_map:
                content = await self.tool_map[tool_name](**tool_args)
        except InfraError:
            raise
        except Exception as error:  # noqa: BLE001 - the model is shown whatever a server raises
            content = self.error_formatter(error)
        return ToolMessage(content=content, tool_call_id=tool_call_id)

    @teardown
    async def teardown_mcp_servers(self) -> None:
        """End the processes of the servers, and wait until they are gone."""
        is_running = self._end_servers.detach() is not None
        if is_running:
            self._thread.stop()
            await asyncio.wait([asyncio.wrap_future(self._serving)])


def _end_servers(thread: LoopThread, serving: "Future[None]") -> None:
    """Stop the thread of the connections, and wait until the servers have ended."""
    thread.stop()
    wait([serving], timeout=CONNECT_SECONDS)
