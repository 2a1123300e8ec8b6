"""A rubric is the reward of OpenRLHF's agents and of environments of SkyRL.

A Dialogue is a rollout that a trainer hands over turn by turn.
"""

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from assay.aggregation import Policy
from assay.concurrency import FAILURES, is_stop_request, run_in_thread, run_sync
from assay.envs.base_env import awaited
from assay.envs.dataset import messages_of
from assay.errors import RubricError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.integrations.reward_functions import fields_of_label, rewards_of, without_end
from assay.integrations.step import RubricSource, Scored, Step, Value, watched
from assay.redaction import get_logger
from assay.types import Message
from assay.wording import describe_error

logger = get_logger("assay")

Respond: TypeAlias = Callable[[list[Message], dict[str, Any]], Any]
Pays: TypeAlias = Literal["change", "whole", "last"]
SILENT: Final = (
    "the rollout ended before the model said anything: leave room for a reply after the prompt"
)
MARK: Final = (
    "assay-turn"  # a turn of the model, in a conversation that is rendered to find what follows one
)
LONGEST_END: Final = 64  # characters with which a template may end a turn, and which the model may have written itself


class Dialogue:
    """A rollout in which the model and the environment take turns, for trainers that hand over one turn at a time.

    `respond(messages, row)`, plain or async, says what the environment replies: messages, or a text as the user's; nothing
    ends the rollout, and so do `max_turns` of the model, unless they are 0. The `row` belongs to this rollout: checks can name
    what `respond` leaves in it. When it fails, the rollout is over and has no score. Without it there is one reply.
    """

    def __init__(
        self,
        prompt: Any,
        row: Mapping[str, Any],
        respond: Respond | None = None,
        max_turns: int = 0,
    ) -> None:
        self.prompt, self.row, self.max_turns = prompt, dict(row), max_turns
        self.turns, self.is_over = 0, False
        self._respond, self._error = respond, ""
        self._said: list[Message] = []  # ends with a turn of the model
        self._replies: list[Message] = []  # to that turn

    async def add(self, text: str) -> list[Message]:
        """Note a turn of the model, and return what the environment replies; nothing when the rollout is over."""
        self._said += [*self._replies, {"role": "assistant", "content": text}]
        self.turns, self._replies = self.turns + 1, []
        if self._respond is not None and not 0 < self.max_turns <= self.turns:
            try:
                asked = [*messages_of(self.prompt, "the prompt"), *self._said]
                # In a thread of its own: one that takes its time must not hold up any other rollout.
                reply = run_in_thread(partial(self._respond, asked, self.row))
                found = await awaited(await asyncio.wrap_future(reply))
                self._replies = messages_of(found or [], "respond")
            except FAILURES as error:
                if is_stop_request(error):
                    raise
                self._error = f"respond failed: {describe_error(error)}"
        self.is_over = not self._replies
        return self._replies

    async def score(
        self, rubric: RubricSource | Step, monitor: RewardMonitor | None = None
    ) -> Scored:
        """What is found about the rollout as it stands, up to the last turn of the model."""
        step = rubric if isinstance(rubric, Step) else Step(rubric)
        row = {**self.row, "prompt": self.prompt, "completion": [*self._said]}
        if why := self._error or ("" if self._said else SILENT):
            found = step.without_score(why)
        else:
            [found] = await step.score([row])
        if monitor is not None:
            await watched(monitor, [row], [found])
        return found


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

    OpenRLHF adds up what the turns are paid, so the rollout is scored once, when it is over, also where it ends for want of
    room. What each turn is worth is in the response under `turn_rewards`, in the order of its `action_ranges`.
    """
    module: Any = import_module("openrlhf.utils.agent")
    step = Step(rubric, value, hands_over_one="OpenRLHF's agents", unscored=unscored, judge=judge)

    class RubricAgent(module.AgentInstanceBase):
        def __init__(self, dialogue: Dialogue, tokenizer: Any) -> None:
            self.dialogue, self.tokenizer = dialogue, tokenizer

        async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
            action = cast("str", state_dict["action_text"])
            replies = await self.dialogue.add(without_end(action, self.tokenizer))
            between, nothing = (
                feedback_of(self.tokenizer, replies, action),
                import_module("torch").zeros(1),
            )
            return {
                "rewards": nothing,
                "environment_feedback": between,
                "done": self.dialogue.is_over,
            }

    class RubricAgentExecutor(module.AgentExecutorBase):
        async def execute(
            self,
            prompt: str,
            label: Any,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            *given: Any,
            **named: Any,
        ) -> dict[str, Any]:
            dialogue = Dialogue(prompt, fields_of_label(label), respond, max_turns)
            executor: Any = module.MultiTurnAgentExecutor(RubricAgent)
            executor.agent_instance_cls = partial(RubricAgent, dialogue, hf_tokenizer)
            # A copy: OpenRLHF writes into it, and its other samples of this prompt share it.
            given = (copy(sampling_params), max_length, hf_tokenizer, *given)
            response: Any = await executor.execute(prompt, label, *given, **named)
            found = await dialogue.score(step, monitor)
            if found.reward is None:
                logger.error("a rollout is unscored: %s", found.error)
            told = rewards_of([found], step.unscored)
            [reward], [score] = told["rewards"], told["scores"]
            lowest = min((turn for turn in found.steps or () if turn is not None), default=reward)
            logs = {name: column[0] for name, column in told["extra_logs"].items()}
            logs |= {"turns": float(dialogue.turns), "lowest_turn": lowest}
            return response | {
                "reward": reward,
                "scores": score,
                "extra_logs": logs,
                "turn_rewards": found.steps,
            }

    return RubricAgentExecutor


def feedback_of(tokenizer: Any, replies: list[Message], action: str) -> str:
    """The text between two turns of the model by the tokenizer's chat template; without one, the replies as they are."""
    if not replies or not getattr(tokenizer, "chat_template", None):
        return "".join(str(reply["content"]) for reply in replies)
    said: list[Message] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": MARK},
        *replies,
    ]
    text = cast(
        "str", tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    )
    _, mark, rest = text.partition(MARK)
    if not mark:
        raise RubricError(
            "the tokenizer's chat template leaves a turn of the assistant out: set another chat_template"
        )
    # The model may have written itself what ends its turn.
    written = next(
        (n for n in range(min(LONGEST_END, len(rest)), 0, -1) if action.endswith(rest[:n])), 0
    )
    return rest[written:]


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

    The row's `reward_spec` gives the `ground_truth` as `answer`; its other columns can be named by checks. Without `respond` it
    is one answer. With it, `respond(messages, row)` replies to every turn until it returns nothing or `max_turns` are over,
    and each turn is paid by `pays`: `change` adds up to the reward of the rollout, wherever that ends; `whole` is for
    `step_wise_trajectories`, where SkyRL reads the last turn alone; `last` scores once.
    """
    base: Any = import_module("skyrl_gym.envs.base_text_env")
    scoring = Step(rubric, value, hands_over_one="SkyRL", unscored=unscored, judge=judge)
    if pays not in get_args(Pays):
        raise RubricError(f"pays is {pays!r}: give 'change', 'whole' or 'last'")

    class RubricEnv(base.BaseTextEnv):
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.extras = dict(extras or {})
            self.metrics: dict[str, float] = {}
            self.paid, self.unscored_turns = 0.0, 0
            self.init("")

        def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
            spec = cast("object", self.extras.get("reward_spec") or self.extras.get("reward_model"))
            truth: Any = self.extras.get("answer", "")
            if isinstance(spec, Mapping):
                truth = cast("Mapping[str, Any]", spec).get("ground_truth", truth)
            row = {**self.extras, "answer": truth}
            self.dialogue = Dialogue(prompt, row, respond, int(self.extras.get("max_turns") or 0))
            return prompt, {}

        def step(self, action: str) -> dict[str, Any]:
            replies = run_sync(self.dialogue.add(action))
            self.turns, done, reward = self.dialogue.turns, self.dialogue.is_over, 0.0
            self.metrics, steps = {"unscored": 1.0}, None
            if done or pays != "last":
                found = run_sync(self.dialogue.score(scoring, monitor if done else None))
                steps, is_unscored = found.steps, found.reward is None
                reward = scoring.paid_alone(found)
                if respond is not None and pays == "change":
                    # A turn that could not be scored changes nothing: the next one that can be is paid for both.
                    reward = 0.0 if is_unscored and not done else reward - self.paid
                    self.paid += reward
                self.unscored_turns += is_unscored
                self.metrics = found.answered | {"unscored": float(is_unscored)}
            if respond is not None:
                self.metrics |= {
                    "turns": float(self.turns),
                    "unscored_turns": float(self.unscored_turns),
                }
            told = {**self.metrics, "steps": steps}
            return {"observations": replies, "reward": reward, "done": done, "metadata": told}

        def get_metrics(self) -> dict[str, float]:
            return self.metrics

    return RubricEnv
