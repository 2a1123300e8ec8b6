"""GymEnv plays episodes with a model, TextArenaEnv games, and ReasoningGymEnv asks questions that are made up."""

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any, cast

from assay.compat.verifiers.environments import MultiTurnEnv, SingleTurnEnv
from assay.compat.verifiers.lenient_parsers import XMLParser
from assay.compat.verifiers.numeric_rubrics import Rubric
from assay.compat.verifiers.typed_messages import UserMessage
from assay.concurrency import LoopThread, run_in_thread
from assay.envs.base_env import cleanup, stop
from assay.errors import import_extra
from assay.types import State
from assay.wording import format_value

CLOSE_SECONDS = 5  # that a gym may take to close at the end of its rollout


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
        self._asked_in = (
            "prompt" if given.get("message_type") == "completion" else "question"
        )  # a text, before 0.1.11
        dataset, eval_dataset = self.gym_to_hf()
        own = {
            "rubric": given.pop("rubric", None) or EpisodicSumRubric(),
            "max_turns": max_episode_steps or 1000,
        }
        super().__init__(dataset, eval_dataset=eval_dataset, **own, **given)

    def gym_to_hf(self) -> tuple[Any, Any]:
        """The rows to train on, and those to evaluate on: what each episode begins with."""
        gym, rows = self.env_cls(**self.env_kwargs), list[dict[str, str]]()
        for seed in range(self.seed, self.seed + self.num_train_episodes + self.num_eval_episodes):
            told: Any = gym.reset(seed=seed)
            if (
                isinstance(told, tuple) and len(cast("Any", told)) == 2
            ):  # newer gyms return an `info` beside it
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
            action = self.action_parser(
                str(last["completion"][-1].content) if said is None else said
            )
        except Exception as error:  # noqa: BLE001 - whatever a parser raises, the model is told
            state["gym_done"], last["reward"] = True, 0.0
            return self.wrap_response(f"Action Parsing Error: {error}")
        came: tuple[Any, ...] = tuple(await self._there(state, state["gym_env"].step, action))
        if len(came) not in (4, 5):
            raise ValueError(
                f"step() returned {format_value(came)}: return (obs, reward, terminated, truncated, info)"
            )
        obs, reward, *over, last["extras"]["gym_info"] = came
        state["gym_done"], last["reward"] = any(over), float(reward)
        text = self.obs_to_text(obs)
        return self.wrap_response(f"{text}\nEpisode already ended." if any(over) else text)

    @stop
    async def is_done(self, state: State) -> bool:
        return state.get("gym_done", False)

    def _there(
        self, state: State, work: Callable[..., Any], *args: Any, **given: Any
    ) -> "asyncio.Future[Any]":
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
    working = asyncio.wrap_future(run_in_thread(partial(work, *args)))
    await asyncio.wait([working], timeout=seconds)
    if not working.done():
        working.cancel()
        raise TimeoutError(
            f"{work.__name__} took more than {seconds:g} s: give more by seconds_per_call="
        )
    return working.result()


class TextArenaEnv(MultiTurnEnv):
    """Each example is a game of `textarena` for one player, about a secret word: the `answer` of the example."""

    # The model is told what `feedback_fn` makes of an observation, and makes the move that the parser finds in its reply.
    seconds_per_call = 120.0  # after which the game is an error of its rollout

    def __init__(
        self,
        game: str = "Wordle-v0",
        num_train_examples: int = 1000,
        num_eval_examples: int = 0,
        **given: Any,
    ) -> None:
        self.game, self.seed, self.feedback_fn = (
            game,
            given.pop("seed", 0),
            given.pop("feedback_fn", str),
        )
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
        """Return the rows for training and for evaluation, each with a word of the game's list."""
        _, question = self.ta_env.get_observation()
        words: Any = getattr(self.ta_env, "word_list", None)
        if not words:
            raise ValueError(
                f"the game {self.game!r} has no word_list: write a subclass whose ta_to_hf and "
                "setup_state define the examples"
            )
        if isinstance(words, dict):
            all_words: list[str] = []
            for group in cast("dict[str, Any]", words).values():
                all_words += [group] if isinstance(group, str) else group
            words = all_words
        rng = Random(self.seed)
        row_count = self.num_train_examples + self.num_eval_examples
        rows = [{"question": question, "answer": rng.choice(words)} for _ in range(row_count)]
        train_rows = rows[: self.num_train_examples]
        eval_rows = rows[self.num_train_examples :]
        return train_rows, eval_rows or None

    async def setup_state(self, state: State, **kwargs: Any) -> Any:
        state["ta_env"] = await _within(
            self.seconds_per_call, deepcopy, self.ta_env, {**self.shared_memo}
        )
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
        self,
        gym: str | Sequence[Any],
        num_train_examples: int = 1000,
        num_eval_examples: int = 100,
        **given: Any,
    ) -> None:
        self.gym, self.seed, read = (
            gym,
            given.pop("seed", 0),
            given.pop("parser", None) or XMLParser(["answer"]),
        )
        self.num_train_examples, self.num_eval_examples = num_train_examples, num_eval_examples
        self._package = import_extra("reasoning_gym", "ReasoningGymEnv", package="reasoning-gym")
        self.rg_dataset = self.build_rg_dataset(
            gym, num_train_examples + num_eval_examples, seed=self.seed
        )
        dataset, eval_dataset = self.rg_to_hf(self.rg_dataset)

        async def check_answer_reward_func(completion: Any, answer: str) -> float:
            said = str(read.parse_answer(completion)).strip()
            # Not in a thread: some data sets draw from numpy's one generator, which threads would share.
            entry = self.rg_dataset[int(answer)]
            return await _within(self.seconds_per_call, self.rg_dataset.score_answer, said, entry)

        rubric = Rubric(
            [check_answer_reward_func, read.get_format_reward_func()], [1.0, 0.0], parser=read
        )
        given = {
            "system_prompt": self._package.utils.SYSTEM_PROMPTS["default"],
            "message_type": "chat",
            **given,
        }
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
                raise ValueError(
                    f"gym has {format_value(each)}: give names, or dicts with name, weight and config"
                )
            specs.append(
                spec(name=each, weight=1.0, config={}) if isinstance(each, str) else spec(**each)
            )
        return create("composite", datasets=specs)

    def rg_to_hf(self, rg_dataset: Any) -> tuple[Any, Any]:
        """The rows to train on, and those to evaluate on. The answer of each is its number, by which it is scored."""
        rows: list[dict[str, Any]] = []
        for number, entry in enumerate(rg_dataset):
            info = {"source_dataset": entry["metadata"]["source_dataset"]}
            rows.append({"question": entry["question"], "answer": str(number), "info": info})
        return rows[: self.num_train_examples], rows[self.num_train_examples :]
