"""ToolEnv calls functions for a model, SandboxEnv and PythonEnv run its commands and code, GymEnv and its kin play with it."""

import asyncio
import json
import shlex
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any, Protocol, cast
from uuid import uuid4

from assay.compat.verifiers.environments import MultiTurnEnv, SingleTurnEnv
from assay.compat.verifiers.lenient_parsers import XMLParser
from assay.compat.verifiers.numeric_rubrics import Rubric
from assay.compat.verifiers.records import InfraError, SandboxError, SandboxRequest, ToolCallError, ToolParseError
from assay.compat.verifiers.typed_messages import AttributeRecord, Tool, ToolMessage, UserMessage
from assay.concurrency import LoopThread, in_thread
from assay.envs.base_env import awaited, cleanup, stop, teardown
from assay.envs.tool_use import calls_of, total_tool_calls
from assay.errors import import_extra
from assay.lazy import table_of
from assay.models.callable_tool import CallableTool, name_of
from assay.tools import Interpreter, is_failure
from assay.types import State
from assay.wording import described, short_repr


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
        self.tool_map: dict[str, Callable[..., Any]] = {name_of(tool): tool for tool in self.tools}
        defined = [convert_func_to_tool_def(tool) for tool in self.tools]
        super().__init__(tool_defs=defined, max_turns=max_turns, **given)
        counted = [total_tool_calls, *map(calls_of, self.tool_map)]
        self.tool_monitor_rubric = Rubric(counted, weights=[0.0] * len(counted))
        self.tool_monitor_rubric.tool_names = self.tool_map.keys()
        self.add_rubric(self.tool_monitor_rubric)

    def add_tool(self, tool: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> None:
        """Let the model call it. Of `args_to_skip` it is not told; `update_tool_args` of a subclass gives them."""
        self.tools.append(tool)
        self.tool_defs = [*(self.tool_defs or ()), convert_func_to_tool_def(tool, args_to_skip)]
        self.tool_map[name_of(tool)] = tool
        self.skipped_args[name_of(tool)] = args_to_skip
        self.tool_monitor_rubric.add_metric(calls_of(name_of(tool)))

    def remove_tool(self, tool: Callable[..., Any]) -> None:
        """Let the model call it no more."""
        self.tools.remove(tool)
        name = name_of(tool)
        self.tool_defs = [each for each in self.tool_defs or () if each.get("function", each)["name"] != name]
        del self.tool_map[name]
        counters = self.tool_monitor_rubric
        place = counters.get_reward_func_names().index(f"{name}_calls")
        del counters.funcs[place], counters.weights[place]

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
            raise ValueError(f"Expected tool arguments to be a dict, got {type(found).__name__}: {found}")
        return found  # pyright: ignore[reportUnknownVariableType]


# Sandboxes.

CONNECT_SECONDS, CLOSE_SECONDS = 60, 5  # that MCP servers may take to start, and they or gyms to answer at the end


def _program(name: str, given: list[str]) -> str:
    return table_of("assay.compat.verifiers", "sandbox_programs.toml")[name].replace("GIVEN", repr(json.dumps(given)))


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

    async def execute_command(self, sandbox_id: str, command: str, working_dir: str | None = None, **_: Any) -> Any:
        """What a command printed, and its exit code. The engine has its own limits, of time too."""
        whole = command if working_dir is None else f"cd {shlex.quote(working_dir)} && {command}"
        commands = [*self._commands[sandbox_id], whole]
        printed = await self.engine.python_async(_program("commands", commands))
        try:
            stdout, stderr, code = json.loads(printed)
        except ValueError:
            raise TimeoutError(printed) from None
        self._commands[sandbox_id] = commands  # one that is never done would hold up all that follow
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
        super().__init__(stop_errors=[SandboxError] if stop_errors is None else stop_errors, **given)
        self.timeout_per_command_seconds = timeout_per_command_seconds
        limits = Interpreter(wall_seconds=float(timeout_per_command_seconds), output=2**20)
        self.sandbox_client: Any = SandboxClient(limits if engine is None else engine)
        self.active_sandboxes: set[str] = set()
        self.add_rubric(Rubric([sandbox_ready_wait_time, sandbox_command_execution_time], weights=[0.0, 0.0]))
        self.add_tool(self.bash, args_to_skip=["sandbox_id", "working_dir", "sandbox_state"])

    def with_retry(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, called again after a pause when it raises; what it raises at last is raised."""

        async def again(*args: Any, **kwargs: Any) -> Any:
            for delay in self._delays:
                try:
                    return await call(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever a service raises
                    self.logger.warning("%s, and tried again in %g s", described(error), delay)
                    await asyncio.sleep(delay)
            return await call(*args, **kwargs)

        return again

    def get_sandbox_request(self, state: State) -> Any:
        return self.sandbox_request.model_copy()

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        try:
            sandbox = await self.with_retry(self.sandbox_client.create)(self.get_sandbox_request(state))
        except Exception as error:
            raise SandboxCreationError(str(error)) from error
        self.active_sandboxes.add(sandbox.id)
        state["sandbox_id"] = sandbox.id
        state["sandbox_state"] = {"ready": False, "ready_wait_time": 0.0, "command_execution_times": []}
        return await super().setup_state(state)

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any) -> Any:
        if tool_name != "bash":
            return tool_args
        own = {name: state[name] for name in ("sandbox_id", "sandbox_state")}
        return {**tool_args, **own, "working_dir": state.get("working_dir")}

    async def bash(self, command: str, sandbox_id: str, sandbox_state: Any, working_dir: str | None = None) -> str:
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
            return f"Error: Command timed out after {limit}s"
        except Exception as error:
            raise SandboxError(str(error)) from error
        finally:
            sandbox_state["command_execution_times"].append(time.monotonic() - started)
        stdout, stderr = done.stdout.strip(), (done.stderr or "").strip()
        return "\n".join(filter(None, [stdout, stderr and f"stderr:\n{stderr}"])) or "(no output)"

    async def post_rollout(self, state: State) -> None:
        """Look into the sandbox before it is gone. A subclass leaves what it finds in the state."""

    @cleanup
    async def destroy_sandbox(self, state: State) -> None:
        await self.post_rollout(state)
        if state.get("sandbox_id") is not None:
            try:
                await self.with_retry(self.sandbox_client.delete)(state["sandbox_id"])
            except Exception as error:  # noqa: BLE001 - it is tried once more when the environment is closed
                self.logger.warning("sandbox %s could not be deleted: %s", state["sandbox_id"], described(error))
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
            self.logger.error("sandboxes %s could not be deleted: %s", [*global_ids], described(error))

    # Before the client is gone, which comes first by its name.
    @teardown(priority=1)
    async def teardown_sandboxes(self) -> None:
        left = sorted(self.active_sandboxes)
        for start in range(0, len(left), 100):
            await self.bulk_delete_sandboxes(left[start : start + 100])

    @teardown
    async def teardown_sandbox_client(self) -> None:
        if hasattr(self.sandbox_client, "teardown"):
            await awaited(self.sandbox_client.teardown())


class PythonEnv(SandboxEnv):
    """The model may run code by the tool `python`; what a call defines is there in the next."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.add_tool(self.python, args_to_skip=["python_state"])
        self.remove_tool(self.bash)

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        state["python_state"] = {"cells": []}
        return await super().setup_state(state, **kwargs)

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: State, **kwargs: Any) -> Any:
        own = {"python_state": state["python_state"]} if tool_name == "python" else {}
        return {**super().update_tool_args(tool_name, tool_args, messages, state, **kwargs), **own}

    async def python(self, code: str, python_state: Any) -> str:
        """Execute `code` inside persistent Python REPL."""
        cells = [*python_state["cells"], code]
        printed = await self.sandbox_client.engine.python_async(_program("cells", cells))
        python_state["cells"] = python_state["cells"] if is_failure(printed) else cells
        return printed


# Gyms.


def sum_step_rewards(state: State) -> float:
    return float(sum(step["reward"] or 0.0 for step in state["trajectory"]))


class EpisodicSumRubric(Rubric):
    """The reward of an episode is the sum of its steps'."""

    def __init__(self, weight: float = 1.0, **options: Any) -> None:
        super().__init__([sum_step_rewards], [weight], **options)


class GymEnv(MultiTurnEnv):
    """Each example is an episode of `env_cls`, which has `reset(seed=)` and `step(action)` as those of gym have.

    The model is told the observations, and what it answers is the action. The `answer` of an example is its seed.
    """

    def __init__(
        self,
        env_cls: Callable[..., Any],
        env_kwargs: dict[str, Any] | None = None,
        action_parser: Callable[[str], Any] | None = None,
        obs_to_text: Callable[[Any], str] | None = None,
        num_train_episodes: int = 1000,
        num_eval_episodes: int = 20,
        max_episode_steps: int | None = None,
        seed: int = 0,
        **given: Any,
    ) -> None:
        self.env_cls, self.env_kwargs, self.seed = env_cls, dict(env_kwargs or {}), seed
        self.action_parser, self.obs_to_text_fn = action_parser or str, obs_to_text or str
        self.num_train_episodes, self.num_eval_episodes = num_train_episodes, num_eval_episodes
        self._asked_in = "prompt" if given.get("message_type") == "completion" else "question"  # a text, before 0.1.11
        dataset, eval_dataset = self.gym_to_hf()
        own = {"rubric": given.pop("rubric", None) or EpisodicSumRubric(), "max_turns": max_episode_steps or 1000}
        super().__init__(dataset, eval_dataset=eval_dataset, **own, **given)

    def gym_to_hf(self) -> tuple[Any, Any]:
        """The rows to train on, and those to evaluate on: what each episode begins with."""
        gym, rows = self.env_cls(**self.env_kwargs), list[dict[str, str]]()
        for seed in range(self.seed, self.seed + self.num_train_episodes + self.num_eval_episodes):
            told: Any = gym.reset(seed=seed)
            if isinstance(told, tuple) and len(cast("Any", told)) == 2:  # newer gyms return an `info` beside it
                told = cast("Any", told)[0]
            rows.append({self._asked_in: self.obs_to_text(told), "answer": str(seed)})
        getattr(gym, "close", bool)()
        return rows[: self.num_train_episodes], rows[self.num_train_episodes :] or None

    def obs_to_text(self, obs: Any) -> str:
        return self.obs_to_text_fn(obs)

    def wrap_response(self, text: str) -> Any:
        return [UserMessage(content=text)]

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """Take the step that the model asks for, and say what came of it; its reward is that of the turn."""
        if "gym_env" not in state:
            state["gym_thread"] = LoopThread()
            state["gym_env"] = await self._there(state, self.env_cls, **self.env_kwargs)
            await self._there(state, state["gym_env"].reset, seed=int(state["answer"]))
        last, said = state["trajectory"][-1], self.parser.parse_answer(messages)
        try:
            action = self.action_parser(str(last["completion"][-1].content) if said is None else said)
        except Exception as error:  # noqa: BLE001 - whatever a parser raises, the model is told
            state["gym_done"], last["reward"] = True, 0.0
            return self.wrap_response(f"Action Parsing Error: {error}")
        came: tuple[Any, ...] = tuple(await self._there(state, state["gym_env"].step, action))
        if len(came) not in (4, 5):
            raise ValueError(f"step() returned {short_repr(came)}: return (obs, reward, terminated, truncated, info)")
        obs, reward, *over, last["extras"]["gym_info"] = came
        state["gym_done"], last["reward"] = any(over), float(reward)
        text = self.obs_to_text(obs)
        return self.wrap_response(f"{text}\nEpisode already ended." if any(over) else text)

    @stop
    async def is_done(self, state: State) -> bool:
        return state.get("gym_done", False)

    def _there(self, state: State, work: Callable[..., Any], *args: Any, **given: Any) -> "asyncio.Future[Any]":
        async def call() -> Any:
            return work(*args, **given)

        # In a thread of the rollout's own: a gym that takes its time holds up no other, and some know only one thread.
        return state["gym_thread"].start(call())

    @cleanup
    async def cleanup_env(self, state: State) -> None:
        if "gym_thread" in state:
            closed = self._there(state, getattr(state.pop("gym_env", None), "close", bool))
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)
            state.pop("gym_thread").stop()


# Games and questions of other packages.


async def _within(seconds: float, work: Callable[..., Any], *args: Any) -> Any:
    # In a thread, where a slow game holds up no other rollout.
    working = asyncio.wrap_future(in_thread(partial(work, *args)))
    await asyncio.wait([working], timeout=seconds)
    if not working.done():
        working.cancel()
        raise TimeoutError(f"{work.__name__} took more than {seconds:g} s: give more by seconds_per_call=")
    return working.result()


class TextArenaEnv(MultiTurnEnv):
    """Each example is a game of `textarena` for one player, about a secret word: the `answer` of the example."""

    # The model is told what `feedback_fn` makes of an observation, and makes the move that the parser finds in its reply.
    seconds_per_call = 120.0  # after which the game is an error of its rollout

    def __init__(
        self, game: str = "Wordle-v0", num_train_examples: int = 1000, num_eval_examples: int = 0, **given: Any
    ) -> None:
        self.game, self.seed, self.feedback_fn = game, given.pop("seed", 0), given.pop("feedback_fn", str)
        self.num_train_examples, self.num_eval_examples = num_train_examples, num_eval_examples
        self.ta_env: Any = import_extra("textarena", "TextArenaEnv").make(env_id=game)
        self.ta_env.reset(num_players=1)
        # All copies of the game share its lists of words, which are large, and which no game alters.
        shared = [getattr(self.ta_env, name, None) for name in ("dictionary", "word_list")]
        self.shared_memo = {id(words): words for words in shared if words is not None}
        dataset, eval_dataset = self.ta_to_hf()
        given["parser"] = given.get("parser") or XMLParser(["think", "guess"], answer_field="guess")
        super().__init__(dataset, eval_dataset=eval_dataset, **given)

    def ta_to_hf(self) -> tuple[Any, Any]:
        """The rows to train on, and those to evaluate on, each with a word of the game's list."""
        _, question = self.ta_env.get_observation()
        words: Any = getattr(self.ta_env, "word_list", None)
        if not words:
            told = f"the game {self.game!r} has no word_list"
            raise ValueError(f"{told}: write a subclass whose ta_to_hf and setup_state say what an example is")
        if isinstance(words, dict):
            groups = [[each] if isinstance(each, str) else each for each in cast("dict[str, Any]", words).values()]
            words = [word for group in groups for word in group]
        draw, number = Random(self.seed), self.num_train_examples + self.num_eval_examples
        rows = [{"question": question, "answer": draw.choice(words)} for _ in range(number)]
        return rows[: self.num_train_examples], rows[self.num_train_examples :] or None

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        state["ta_env"] = await _within(self.seconds_per_call, deepcopy, self.ta_env, {**self.shared_memo})
        state["ta_env"].state.game_state["secret_word"] = state["answer"]
        return await super().setup_state(state)

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """Make the model's move, and tell what came of it; at the end, why the game is over."""
        game = state["ta_env"]
        await _within(self.seconds_per_call, game.step, str(self.parser.parse_answer(messages)))
        if game.state.done:
            state["final_env_response"] = [UserMessage(content=game.state.game_info[0]["reason"])]
            return state["final_env_response"]
        _, seen = await _within(self.seconds_per_call, game.get_observation)
        return [UserMessage(content=str(self.feedback_fn(seen)))]

    @cleanup
    async def cleanup_ta_env(self, state: State) -> None:
        state.pop("ta_env", None)


class ReasoningGymEnv(SingleTurnEnv):
    """Asks the questions of a data set of `reasoning_gym`, or of a mixture of several, which scores the answers."""

    seconds_per_call = 120.0  # after which an answer is unscored

    def __init__(
        self, gym: str | Sequence[Any], num_train_examples: int = 1000, num_eval_examples: int = 100, **given: Any
    ) -> None:
        self.gym, self.seed, read = gym, given.pop("seed", 0), given.pop("parser", None) or XMLParser(["answer"])
        self.num_train_examples, self.num_eval_examples = num_train_examples, num_eval_examples
        self._package = import_extra("reasoning_gym", "ReasoningGymEnv", package="reasoning-gym")
        self.rg_dataset = self.build_rg_dataset(gym, num_train_examples + num_eval_examples, seed=self.seed)
        dataset, eval_dataset = self.rg_to_hf(self.rg_dataset)

        async def check_answer_reward_func(completion: Any, answer: str) -> float:
            said = str(read.parse_answer(completion)).strip()
            # Not in a thread: some data sets draw from numpy's one generator, which threads would share.
            entry = self.rg_dataset[int(answer)]
            return await _within(self.seconds_per_call, self.rg_dataset.score_answer, said, entry)

        rubric = Rubric([check_answer_reward_func, read.get_format_reward_func()], [1.0, 0.0], parser=read)
        given = {"system_prompt": self._package.utils.SYSTEM_PROMPTS["default"], "message_type": "chat", **given}
        super().__init__(dataset, eval_dataset=eval_dataset, parser=read, rubric=rubric, **given)
        self.rubric = rubric  # theirs does not count the turn

    def build_rg_dataset(self, gym: Any, total_examples: int = 1000, seed: int = 0) -> Any:
        """The data set of this name, or a mixture of those that are listed, by name or as a `DatasetSpec`."""
        create = partial(self._package.create_dataset, size=total_examples, seed=seed)
        if isinstance(gym, str):
            return create(gym)
        spec, specs = self._package.composite.DatasetSpec, list[Any]()
        for each in gym:
            if not isinstance(each, (str, dict)):
                raise ValueError(f"gym has {short_repr(each)}: give names, or dicts with name, weight and config")
            specs.append(spec(name=each, weight=1.0, config={}) if isinstance(each, str) else spec(**each))
        return create("composite", datasets=specs)

    def rg_to_hf(self, rg_dataset: Any) -> tuple[Any, Any]:
        """The rows to train on, and those to evaluate on. The answer of each is its number, by which it is scored."""
        rows: list[dict[str, Any]] = []
        for number, entry in enumerate(rg_dataset):
            info = {"source_dataset": entry["metadata"]["source_dataset"]}
            rows.append({"question": entry["question"], "answer": str(number), "info": info})
        return rows[: self.num_train_examples], rows[self.num_train_examples :]


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
        self._mcp = import_extra("mcp", "MCPEnv", extra="mcp")
        self._stdio = import_extra("mcp.client.stdio", "MCPEnv", extra="mcp")
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
                    started: Any = {"command": config.command, "args": config.args or [], "env": config.env}
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
            why = f"the MCP server {name!r} did not start: {described(cause)}: see whether its command runs by itself"
            connected.set_exception(InfraError(why))

    def _add_server_tool(self, session: Any, told: Any) -> None:
        async def call(**arguments: Any) -> str:
            try:
                result = await self._thread.start(session.call_tool(told.name, arguments=arguments))
            except Exception as error:
                try:  # a server that is gone would fail every rollout that follows, as if their models were at fault
                    await asyncio.wait_for(self._thread.start(session.send_ping()), CLOSE_SECONDS)
                except Exception:  # noqa: BLE001 - whatever the package raises, there is no answer
                    raise InfraError(f"the MCP server of the tool {told.name!r} is gone: {described(error)}") from error
                raise
            parts = [getattr(part, "text", None) or str(part) for part in result.content]
            return "\n".join(parts) or "No result returned from tool"

        call.__name__, call.__doc__ = told.name, told.description or ""
        self.tools.append(call)
        self.tool_map[told.name] = call
        # By its alias: the attribute has another name in each version of the package.
        schema = told.model_dump(by_alias=True)["inputSchema"]
        self.tool_defs = [*(self.tool_defs or ()), Tool(name=told.name, description=call.__doc__, parameters=schema)]

    async def call_tool(self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any) -> Any:
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
