"""MultiTurnEnv lets the model and the environment take turns until a stop condition holds; SingleTurnEnv asks once."""

import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Unpack, cast

from assay.concurrency import FAILURES, is_stop_request
from assay.envs.base_env import Environment, Given, awaited, called_by_name, stop
from assay.envs.dataset import Example
from assay.errors import Refused
from assay.messages import get_role, list_messages, message_text
from assay.models import Reply
from assay.models.callable_tool import assistant_message
from assay.rubric import Rubric
from assay.types import Message, State

# How endpoints say that a prompt is too long; among these are all phrases that verifiers knows.
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
    if "trajectory" in state:
        return len(state["trajectory"])
    # A rollout that comes to a server has no steps.
    return sum(get_role(message) == "assistant" for message in list_messages(state["completion"]))


class MultiTurnEnv(Environment):
    """A dialogue: `env_response` says what the environment replies to the model.

    A rollout ends when a method marked `@stop` says so, after `max_turns`, or with `state["final_env_response"]`.
    """

    def __init__(self, dataset: Any = None, *, max_turns: int = -1, **given: Unpack[Given]) -> None:
        """`max_turns` is how often the model is asked at most; -1 is no limit. The rest is as for `Environment`."""
        if type(max_turns) is not int or max_turns < -1 or not max_turns:
            raise ValueError(f"max_turns is {max_turns!r}: give 1 or more, or -1 for no limit")
        super().__init__(dataset, **given)
        self.max_turns = max_turns
        self._watch()

    def _watch(self) -> None:
        self.add_rubric(Rubric([num_turns], weights=[0.0]))

    @abstractmethod
    def env_response(self, messages: list[Message], state: State) -> Any:
        """What the environment says after the model: messages, or a text as the user's. May be async."""

    async def setup_state(self, state: State) -> Any:
        """Add what this environment keeps of a rollout, before it begins. A subclass may have a plain function."""
        return state

    # Conditions are awaitable, so that a subclass can await those above it.

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
        """Whether the dialogue has outgrown the model's context; what was said by then is scored."""
        return bool(state.get("prompt_too_long"))

    async def rollout(
        self,
        input: Example,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """One dialogue. What goes wrong in it is in the state's `error`."""
        state = await self.init_state(input, client, model, sampling_args)
        started = time.monotonic()
        try:
            state = await self._dialogue(state)
        except FAILURES as error:
            if is_stop_request(error):
                raise
            state["error"] = error
            state["stop_condition"] = "has_error"
        finally:
            await self._tidy_up(state)
        elapsed = 1000 * (time.monotonic() - started)
        state["timing"] |= {"generation_ms": elapsed, "total_ms": elapsed}
        state["is_completed"] = True
        return state

    async def _tidy_up(self, state: State) -> None:
        # Hooks that tidy up may read what was said.
        await awaited(self.render_completion(state))
        await self.call_all("cleanup", state)

    async def _dialogue(self, state: State) -> State:
        state = cast("State", await awaited(self.setup_state(state)) or state)
        while not await self._is_over(state):
            await self._turn(state)
        return state

    async def _turn(self, state: State) -> None:
        messages = self.as_messages(await self.get_prompt_messages(state), "get_prompt_messages")
        if state.get("final_env_response") is not None:
            return
        try:
            reply = await self.get_model_response(state, messages)
        except Refused as error:
            # That the dialogue is longer than what the model takes, and not the prompt alone.
            if not state["trajectory"] or TOO_LONG.search(str(error)) is None:
                raise
            state["prompt_too_long"] = state["is_truncated"] = True
        else:
            await awaited(self.add_model_response(state, messages, reply))

    async def _is_over(self, state: State) -> bool:
        """Return whether the rollout ends here.

        A subclass that overrides `is_completed` decides that instead of the stop conditions, except
        for errors and limits.
        """
        if type(self).is_completed is Environment.is_completed:
            return await self._stopped(state)
        completed = await called_by_name(self.is_completed, messages=self._said(state), state=state)
        if completed:
            if state["stop_condition"] is None:
                state["stop_condition"] = "is_completed"
            return True
        return await self._stopped(state, names=LIMITS)

    async def get_prompt_messages(self, state: State) -> list[Message]:
        """What the model is asked next: all that was said, and the environment's response to it."""
        messages = self._said(state)
        if not state["trajectory"]:
            return messages
        response = await awaited(self.env_response(messages, state))
        if isinstance(response, tuple):  # messages and the state, as programs used to return them
            response = cast("tuple[Any, ...]", response)[0]
        return [*messages, *self.as_messages(response or [], "env_response")]

    async def add_model_response(self, state: State, messages: list[Message], reply: Reply) -> None:
        await self._add_step(
            state, messages, assistant_message(reply, state["turn"]), reply, reply.finish_reason
        )

    async def _add_step(
        self, state: State, messages: Any, said: Message, response: Any, finish_reason: str
    ) -> None:
        step: dict[str, Any] = {
            "prompt": messages,
            "completion": [said],
            "response": response,
            "tokens": None,
            "reward": None,
            "advantage": None,
            "is_truncated": finish_reason == "length",
            "trajectory_id": state["trajectory_id"],
            "extras": {},
        }
        await awaited(self.add_trajectory_step(state, step))
        state["turn"] += 1
        state["is_truncated"] = state["is_truncated"] or step["is_truncated"]

    async def add_trajectory_step(self, state: State, trajectory_step: dict[str, Any]) -> None:
        """Add a turn to the trajectory. A subclass may give it a reward of its own before."""
        state["trajectory"].append(trajectory_step)

    async def render_completion(self, state: State) -> None:
        """Set the state's `completion`: all that was said after the prompt."""
        asked = len(self.as_messages(state["prompt"], "the prompt"))
        said = self._said(state)[asked:] if state["trajectory"] else []
        last = state.get("final_env_response")
        said = said + self.as_messages(last, "final_env_response") if last else said
        as_text = said and self.keeps_text and isinstance(state["prompt"], str)
        state["completion"] = message_text(said[-1]) if as_text else said

    def _said(self, state: State) -> list[Any]:
        if not state["trajectory"]:
            return self.as_messages(state["prompt"], "the prompt")
        last = state["trajectory"][-1]
        return [*last["prompt"], *last["completion"]]


class SingleTurnEnv(MultiTurnEnv):
    """The model is asked once for each example.

    A `prompt` that is a plain text, with nothing before it, is answered in plain text too. Any other is a chat.

    >>> env = SingleTurnEnv([{"question": "2 + 2?", "answer": "4"}], system_prompt="Only the number.")
    >>> [message["role"] for message in env.dataset[0]["prompt"]]
    ['system', 'user']
    """

    keeps_text = True

    def __init__(self, dataset: Any = None, **given: Unpack[Given]) -> None:
        super().__init__(dataset, max_turns=1, **given)

    def _watch(self) -> None:
        """There is nothing to count: it is one turn."""

    def env_response(self, messages: list[Message], state: State) -> Any:
        """Nothing, for the model is not asked again."""
        return []
