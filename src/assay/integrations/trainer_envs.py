"""Rewards for OpenRLHF's agents and for environments of SkyRL, which hand over a rollout turn by turn."""

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from assay.aggregation import Policy
from assay.concurrency import FAILURES, is_stop_request, run_in_thread, run_sync
from assay.envs.base_env import await_if_needed
from assay.envs.dataset import read_messages
from assay.errors import RubricError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.integrations.reward_functions import (
    make_openrlhf_reply,
    read_label,
    remove_end_tokens,
)
from assay.integrations.step import RubricSource, Scored, Step, Value, watch_results
from assay.redaction import get_logger
from assay.types import Message
from assay.wording import describe_error

logger = get_logger("assay")

# Returns the reply of the environment to the messages so far, and may change the row.
Respond: TypeAlias = Callable[[list[Message], dict[str, Any]], Any]
Pays: TypeAlias = Literal["change", "whole", "last"]
NO_TURNS: Final = (
    "the rollout ended before the model said anything: leave room for a reply after the prompt"
)
PLACEHOLDER: Final = "assay-turn"  # stands for a turn of the model in a rendered conversation
# The most characters with which a chat template ends a turn; the model may write them itself.
LONGEST_TURN_END: Final = 64


class Dialogue:
    """A rollout in which the model and the environment take turns.

    `respond(messages, row)`, plain or async, returns the reply of the environment: messages, or a
    text as the user's. An empty reply ends the rollout, and so do `max_turns` of the model, unless
    they are 0. The `row` belongs to this rollout: checks can name the columns that `respond` adds.
    If `respond` fails, the rollout is over and has no score. Without it, the model has one turn.
    """

    def __init__(
        self,
        prompt: Any,
        row: Mapping[str, Any],
        respond: Respond | None = None,
        max_turns: int = 0,
    ) -> None:
        self.prompt = prompt
        self.row = dict(row)
        self.max_turns = max_turns
        self.turns = 0
        self.is_over = False
        self._respond = respond
        self._error = ""
        # The messages after the prompt, up to the last turn of the model.
        self._messages: list[Message] = []
        # What the environment replied to that turn. It is not part of the rollout if no turn follows.
        self._replies: list[Message] = []

    async def add(self, text: str) -> list[Message]:
        """Add a turn of the model. Return the reply of the environment; empty if the rollout is over."""
        self._messages += [*self._replies, {"role": "assistant", "content": text}]
        self._replies = []
        self.turns += 1
        has_turns_left = self.max_turns <= 0 or self.turns < self.max_turns
        if self._respond is not None and has_turns_left:
            try:
                self._replies = await self._get_replies(self._respond)
            except FAILURES as error:
                if is_stop_request(error):
                    raise
                self._error = f"respond failed: {describe_error(error)}"
        self.is_over = not self._replies
        return self._replies

    async def _get_replies(self, respond: Respond) -> list[Message]:
        """Return what the environment replies to the messages so far."""
        messages = [*read_messages(self.prompt, "the prompt"), *self._messages]
        # In a thread of its own, so that a slow function does not delay other rollouts.
        future = run_in_thread(partial(respond, messages, self.row))
        reply = await await_if_needed(await asyncio.wrap_future(future))
        return read_messages(reply or [], "respond")

    async def score(
        self, rubric: RubricSource | Step, monitor: RewardMonitor | None = None
    ) -> Scored:
        """Score the rollout so far, up to the last turn of the model."""
        step = rubric if isinstance(rubric, Step) else Step(rubric)
        row = {**self.row, "prompt": self.prompt, "completion": list(self._messages)}
        if self._error:
            result = step.make_unscored(self._error)
        elif not self._messages:
            result = step.make_unscored(NO_TURNS)
        else:
            [result] = await step.score([row])
        if monitor is not None:
            await watch_results(monitor, [row], [result])
        return result


def openrlhf_agent_of(
    rubric: RubricSource,
    respond: Respond,
    *,
    judge: JudgeSource | None = None,
    max_turns: int = 10,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> type[Any]:
    """Return the `AgentExecutor` class of the file that `--train.agent_func_path` names; `unscored` is `raise` or `zero`.

    OpenRLHF adds up the rewards of the turns, so the rollout is scored once, at its end, even if the
    context was too short for it. The response has the reward of each turn under `turn_rewards`, in
    the order of its `action_ranges`.
    """
    module: Any = import_module("openrlhf.utils.agent")
    step = Step(
        rubric, value, single_rollout_trainer="OpenRLHF's agents", unscored=unscored, judge=judge
    )

    class RubricAgent(module.AgentInstanceBase):
        """Passes the turns of one rollout to its dialogue."""

        def __init__(self, dialogue: Dialogue, tokenizer: Any) -> None:
            self.dialogue = dialogue
            self.tokenizer = tokenizer

        async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
            # The reward of a turn is 0, since the executor scores the rollout at its end.
            action = cast("str", state_dict["action_text"])
            replies = await self.dialogue.add(remove_end_tokens(action, self.tokenizer))
            return {
                "rewards": import_module("torch").zeros(1),
                "environment_feedback": make_feedback(self.tokenizer, replies, action),
                "done": self.dialogue.is_over,
            }

    class RubricAgentExecutor(module.AgentExecutorBase):
        """Runs a rollout turn by turn, and scores it at its end."""

        async def execute(
            self,
            prompt: str,
            label: Any,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            *arguments: Any,
            **options: Any,
        ) -> dict[str, Any]:
            dialogue = Dialogue(prompt, read_label(label), respond, max_turns)
            executor: Any = module.MultiTurnAgentExecutor(RubricAgent)
            executor.agent_instance_cls = partial(RubricAgent, dialogue, hf_tokenizer)
            response: Any = await executor.execute(
                prompt,
                label,
                # A copy: OpenRLHF writes into it, and its other samples of this prompt share it.
                copy(sampling_params),
                max_length,
                hf_tokenizer,
                *arguments,
                **options,
            )
            result = await dialogue.score(step, monitor)
            if result.reward is None:
                logger.error("a rollout is unscored: %s", result.error)
            reply = make_openrlhf_reply([result], step.unscored)
            [reward] = reply["rewards"]
            [score] = reply["scores"]
            turn_rewards = [turn for turn in result.steps or () if turn is not None]
            logs = {name: column[0] for name, column in reply["extra_logs"].items()}
            logs["turns"] = float(dialogue.turns)
            logs["lowest_turn"] = min(turn_rewards, default=reward)
            return response | {
                "reward": reward,
                "scores": score,
                "extra_logs": logs,
                "turn_rewards": result.steps,
            }

    return RubricAgentExecutor


def make_feedback(tokenizer: Any, replies: list[Message], action: str) -> str:
    """Return the text between two turns of the model, rendered by the tokenizer's chat template.

    Without a template, it is the text of the replies.
    """
    if not replies or not getattr(tokenizer, "chat_template", None):
        return "".join(str(reply["content"]) for reply in replies)
    messages: list[Message] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": PLACEHOLDER},
        *replies,
    ]
    text = cast(
        "str", tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    )
    _, placeholder, rest = text.partition(PLACEHOLDER)
    if not placeholder:
        raise RubricError(
            "the tokenizer's chat template leaves a turn of the assistant out: set another chat_template"
        )
    # The model may have written the end of its turn, or the beginning of that, itself.
    for length in range(min(LONGEST_TURN_END, len(rest)), 0, -1):
        if action.endswith(rest[:length]):
            return rest[length:]
    return rest


def as_skyrl_env(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    respond: Respond | None = None,
    pays: Pays = "change",
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> type[Any]:
    """Return an environment class for skyrl_gym, scored by the rubric; `unscored` is `raise` or `zero`.

    The `ground_truth` in a row's `reward_spec` is the `answer`; checks can name the other columns.
    Without `respond`, the model has one turn. With it, `respond(messages, row)` replies to every turn
    until it returns nothing or `max_turns` are over. The reward of a turn depends on `pays`:

    - `change`: how much the reward has changed, so the turns add up to the reward of the rollout.
    - `whole`: the reward so far, for `step_wise_trajectories`, where SkyRL reads only the last turn.
    - `last`: 0, except for the last turn, so that the rollout is scored once.
    """
    base: Any = import_module("skyrl_gym.envs.base_text_env")
    scorer = Step(rubric, value, single_rollout_trainer="SkyRL", unscored=unscored, judge=judge)
    if pays not in get_args(Pays):
        raise RubricError(f"pays is {pays!r}: give 'change', 'whole' or 'last'")

    class RubricEnv(base.BaseTextEnv):
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.extras = dict(extras or {})
            self.metrics: dict[str, float] = {}
            self.reward_so_far = 0.0
            self.unscored_turns = 0
            self.init("")

        def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
            """Start a rollout. The `extras` are the columns of its row."""
            spec = cast("object", self.extras.get("reward_spec") or self.extras.get("reward_model"))
            truth: Any = self.extras.get("answer", "")
            if isinstance(spec, Mapping):
                truth = cast("Mapping[str, Any]", spec).get("ground_truth", truth)
            row = {**self.extras, "answer": truth}
            self.dialogue = Dialogue(prompt, row, respond, int(self.extras.get("max_turns") or 0))
            return prompt, {}

        def step(self, action: str) -> dict[str, Any]:
            """Add a turn of the model; return the reply of the environment, and the turn's reward."""
            replies = run_sync(self.dialogue.add(action))
            self.turns = self.dialogue.turns
            is_last = self.dialogue.is_over
            reward = 0.0
            steps = None
            self.metrics = {"unscored": 1.0}  # unless the turn is scored below
            if is_last or pays != "last":
                result = run_sync(self.dialogue.score(scorer, monitor if is_last else None))
                steps = result.steps
                reward = self._get_turn_reward(result, is_last=is_last)
                is_unscored = result.reward is None
                self.unscored_turns += is_unscored
                self.metrics = {**result.answered, "unscored": float(is_unscored)}
            if respond is not None:
                self.metrics["turns"] = float(self.turns)
                self.metrics["unscored_turns"] = float(self.unscored_turns)
            return {
                "observations": replies,
                "reward": reward,
                "done": is_last,
                "metadata": {**self.metrics, "steps": steps},
            }

        def _get_turn_reward(self, result: Scored, *, is_last: bool) -> float:
            """Return the reward of a turn, from the result of the rollout up to it."""
            reward = scorer.get_single_reward(result)
            if respond is None or pays != "change":
                return reward
            if result.reward is None and not is_last:
                # Its change is part of the reward of the next turn that can be scored.
                return 0.0
            change = reward - self.reward_so_far
            self.reward_so_far = reward
            return change

        def get_metrics(self) -> dict[str, float]:
            return self.metrics

    return RubricEnv
