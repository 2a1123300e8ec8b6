"""MultiTurnEnv: the model and the environment take turns. SingleTurnEnv: the model is asked once."""

import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Unpack, cast

from assay.concurrency import FAILURES, is_stop_request
from assay.envs.base_env import (
    Environment,
    EnvironmentOptions,
    await_if_needed,
    call_by_name,
    stop,
)
from assay.envs.dataset import Example
from assay.errors import Refused
from assay.messages import get_role, list_messages, message_text
from assay.models import Reply
from assay.models.callable_tool import assistant_message
from assay.rubric import Rubric
from assay.types import Message, State

# How endpoints say that a prompt is too long, including all phrases that verifiers knows.
TOO_LONG = re.compile(
    r"""
    context.{0,20}(?:length|window|size|limit)
    | maximum.{0,20}(?:tokens|length)
    | too[ _](?:long|many[ ]tokens|many[ ]total[ ]text[ ]bytes)
    | exceeded[ ]model
    | exceeds?[ ]the[ ]configured[ ]limit
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The stop conditions that hold even if a subclass overrides `is_completed`.
LIMITS = frozenset(
    {
        "has_error",
        "max_turns_reached",
        "has_final_env_response",
        "prompt_too_long",
        "max_total_completion_tokens_reached",
    }
)


def num_turns(state: Mapping[str, Any]) -> int:
    """Return how often the model was asked. It is a metric, so its name is not a verb."""
    if "trajectory" in state:
        return len(state["trajectory"])
    # A rollout that is sent to a server has no trajectory.
    return sum(get_role(message) == "assistant" for message in list_messages(state["completion"]))


class MultiTurnEnv(Environment):
    """A dialogue, in which `env_response` returns what the environment replies to the model.

    A rollout ends when a method marked `@stop` returns True, after `max_turns`, or when
    `state["final_env_response"]` is set.
    """

    def __init__(
        self,
        dataset: Any = None,
        *,
        max_turns: int = -1,
        **options: Unpack[EnvironmentOptions],
    ) -> None:
        """The model is asked up to `max_turns` times; -1 means no limit. For the options see `Environment`."""
        if type(max_turns) is not int or max_turns < -1 or not max_turns:
            raise ValueError(f"max_turns is {max_turns!r}: give 1 or more, or -1 for no limit")
        super().__init__(dataset, **options)
        self.max_turns = max_turns
        self._add_metrics()

    def _add_metrics(self) -> None:
        """Add the metrics that the environment itself computes."""
        self.add_rubric(Rubric([num_turns], weights=[0.0]))

    @abstractmethod
    def env_response(self, messages: list[Message], state: State) -> Any:
        """Return the environment's reply to the model: messages, or the text of a user. May be async."""

    async def setup_state(self, state: State) -> Any:
        """Return the state for the start of a rollout. May also be a plain function in a subclass."""
        return state

    # Stop conditions are coroutines, so that a subclass can await those of its base class.

    @stop(priority=100)
    async def has_error(self, state: State) -> bool:
        return state.get("error") is not None

    @stop
    async def max_turns_reached(self, state: State) -> bool:
        return 0 < self.max_turns <= len(state["trajectory"])

    @stop
    async def has_final_env_response(self, state: State) -> bool:
        return state.get("final_env_response") is not None

    @stop
    async def prompt_too_long(self, state: State) -> bool:
        """Whether the dialogue is longer than the model's context. The messages until then are scored."""
        return bool(state.get("prompt_too_long"))

    async def rollout(
        self,
        input: Example,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """Return the state after one dialogue. If it failed, `error` in the state says why."""
        state = await self.init_state(input, client, model, sampling_args)
        start = time.monotonic()
        try:
            state = await self._run_dialogue(state)
        except FAILURES as error:
            if is_stop_request(error):  # Ctrl-C, for example
                raise
            state["error"] = error
            state["stop_condition"] = "has_error"
        finally:
            await self._clean_up(state)
        elapsed_ms = 1000 * (time.monotonic() - start)
        state["timing"] |= {"generation_ms": elapsed_ms, "total_ms": elapsed_ms}
        state["is_completed"] = True
        return state

    async def _clean_up(self, state: State) -> None:
        """Set the completion, which the cleanup hooks may read, and call them."""
        await await_if_needed(self.render_completion(state))
        await self.call_all("cleanup", state)

    async def _run_dialogue(self, state: State) -> State:
        """Take turns until the rollout ends."""
        new_state = await await_if_needed(self.setup_state(state))
        if new_state is not None:  # older programs change the state, and return nothing
            state = cast("State", new_state)
        while not await self._is_over(state):
            await self._take_turn(state)
        return state

    async def _take_turn(self, state: State) -> None:
        """Let the environment reply, and ask the model for the next message."""
        messages = self.as_messages(await self.get_prompt_messages(state), "get_prompt_messages")
        # The environment may have ended the dialogue with its reply.
        if state.get("final_env_response") is not None:
            return
        try:
            reply = await self.get_model_response(state, messages)
        except Refused as error:
            # A later prompt that is too long ends the dialogue. In the first turn it is an error of
            # the example.
            is_first_turn = not state["trajectory"]
            is_too_long = TOO_LONG.search(str(error)) is not None
            if is_first_turn or not is_too_long:
                raise
            state["prompt_too_long"] = True
            state["is_truncated"] = True
        else:
            await await_if_needed(self.add_model_response(state, messages, reply))

    async def _is_over(self, state: State) -> bool:
        """Return whether the rollout ends here.

        A subclass that overrides `is_completed` decides that instead of the stop conditions, except
        for errors and limits.
        """
        overrides_is_completed = type(self).is_completed is not Environment.is_completed
        if not overrides_is_completed:
            return await self._meets_stop_condition(state)
        messages = self._read_dialogue(state)
        if await call_by_name(self.is_completed, messages=messages, state=state):
            if state["stop_condition"] is None:
                state["stop_condition"] = "is_completed"
            return True
        return await self._meets_stop_condition(state, names=LIMITS)

    async def get_prompt_messages(self, state: State) -> list[Message]:
        """Return what the model is asked next: the dialogue, and the environment's reply to it."""
        messages = self._read_dialogue(state)
        if not state["trajectory"]:
            return messages
        response = await await_if_needed(self.env_response(messages, state))
        if isinstance(response, tuple):  # older programs return messages and the state
            response = cast("tuple[Any, ...]", response)[0]
        return [*messages, *self.as_messages(response or [], "env_response")]

    async def add_model_response(self, state: State, messages: list[Message], reply: Reply) -> None:
        """Add the reply of the model, which was asked these messages, to the trajectory."""
        message = assistant_message(reply, state["turn"])
        await self._add_step(state, messages, message, reply, reply.finish_reason)

    async def _add_step(
        self, state: State, messages: Any, message: Message, response: Any, finish_reason: str
    ) -> None:
        """Add a turn to the trajectory, with the model's message and the response that held it."""
        step: dict[str, Any] = {
            "prompt": messages,
            "completion": [message],
            "response": response,
            "tokens": None,
            "reward": None,
            "advantage": None,
            "is_truncated": finish_reason == "length",
            "trajectory_id": state["trajectory_id"],
            "extras": {},
        }
        await await_if_needed(self.add_trajectory_step(state, step))
        state["turn"] += 1
        state["is_truncated"] = state["is_truncated"] or step["is_truncated"]

    async def add_trajectory_step(self, state: State, trajectory_step: dict[str, Any]) -> None:
        """Add a turn to the trajectory. A subclass may set its reward first."""
        state["trajectory"].append(trajectory_step)

    async def render_completion(self, state: State) -> None:
        """Set the state's `completion`: all messages after the prompt."""
        completion: list[Any] = []
        if state["trajectory"]:
            prompt_length = len(self.as_messages(state["prompt"], "the prompt"))
            completion = self._read_dialogue(state)[prompt_length:]
        final_response = state.get("final_env_response")
        if final_response:
            completion += self.as_messages(final_response, "final_env_response")
        is_text = self.keeps_text and isinstance(state["prompt"], str)
        if is_text and completion:
            state["completion"] = message_text(completion[-1])
        else:
            state["completion"] = completion

    def _read_dialogue(self, state: State) -> list[Any]:
        """Return all messages so far, with those of the prompt."""
        if not state["trajectory"]:
            return self.as_messages(state["prompt"], "the prompt")
        last_step = state["trajectory"][-1]
        return [*last_step["prompt"], *last_step["completion"]]


class SingleTurnEnv(MultiTurnEnv):
    """The model is asked once for each example.

    The completion is a plain text if the `prompt` of the example is one and no message is put before
    it, else a chat.

    >>> env = SingleTurnEnv([{"question": "2 + 2?", "answer": "4"}], system_prompt="Only the number.")
    >>> [message["role"] for message in env.dataset[0]["prompt"]]
    ['system', 'user']
    """

    keeps_text = True

    def __init__(self, dataset: Any = None, **options: Unpack[EnvironmentOptions]) -> None:
        super().__init__(dataset, max_turns=1, **options)

    def _add_metrics(self) -> None:
        """Add nothing, since there is always one turn."""

    def env_response(self, messages: list[Message], state: State) -> Any:
        """Return nothing, since the model is not asked again."""
        return []
