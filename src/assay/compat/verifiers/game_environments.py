"""Environments that play episodes of a gym, games of textarena, and questions of reasoning_gym."""

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

CLOSE_SECONDS = 5  # in which a gym must close at the end of its rollout


def sum_step_rewards(state: State) -> float:
    """Return the sum of the rewards of all turns. It is a metric, so its name is that of verifiers."""
    return float(sum(step["reward"] or 0.0 for step in state["trajectory"]))


class EpisodicSumRubric(Rubric):
    """The reward of an episode is the sum of the rewards of its steps."""

    def __init__(self, weight: float = 1.0, **options: Any) -> None:
        super().__init__([sum_step_rewards], [weight], **options)


class GymEnv(MultiTurnEnv):
    """Each example is an episode of a gym, a class `env_cls` with `reset(seed=)` and `step(action)`.

    The model is shown the observations, and answers with an action. The `answer` of an example is
    the seed of its episode.
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
        **options: Any,
    ) -> None:
        self.env_cls = env_cls
        self.env_kwargs = dict(env_kwargs or {})
        self.seed = seed
        self.action_parser = action_parser or str
        self.obs_to_text_fn = obs_to_text or str
        self.num_train_episodes = num_train_episodes
        self.num_eval_episodes = num_eval_episodes
        # Before 0.1.11 a model of the type "completion" was sent a plain text, which is a `prompt`.
        is_plain_text = options.get("message_type") == "completion"
        self._prompt_column = "prompt" if is_plain_text else "question"
        dataset, eval_dataset = self.gym_to_hf()
        rubric = options.pop("rubric", None) or EpisodicSumRubric()
        super().__init__(
            dataset,
            eval_dataset=eval_dataset,
            rubric=rubric,
            max_turns=max_episode_steps or 1000,
            **options,
        )

    def gym_to_hf(self) -> tuple[Any, Any]:
        """Return the rows to train on and to evaluate on: the first observation of each episode."""
        gym = self.env_cls(**self.env_kwargs)
        rows: list[dict[str, str]] = []
        for seed in range(self.seed, self.seed + self.num_train_episodes + self.num_eval_episodes):
            observation: Any = gym.reset(seed=seed)
            # Newer gyms return the observation and an `info`.
            if isinstance(observation, tuple) and len(cast("Any", observation)) == 2:
                observation = cast("Any", observation)[0]
            rows.append({self._prompt_column: self.obs_to_text(observation), "answer": str(seed)})
        if hasattr(gym, "close"):
            gym.close()
        train_rows = rows[: self.num_train_episodes]
        eval_rows = rows[self.num_train_episodes :]
        return train_rows, eval_rows or None

    def obs_to_text(self, obs: Any) -> str:
        """Return an observation as a text for the model. A subclass may override this."""
        return self.obs_to_text_fn(obs)

    def wrap_response(self, text: str) -> Any:
        """Return a text as the environment's reply. A subclass may override this."""
        return [UserMessage(content=text)]

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """Take the step that the model chose, and return the next observation.

        The reward of the step becomes that of the model's turn.
        """
        if "gym_env" not in state:
            # A thread of the rollout's own: a slow gym does not delay other rollouts, and some gyms
            # must always be called from the same thread.
            state["gym_thread"] = LoopThread()
            state["gym_env"] = await _call_in_thread(
                state, partial(self.env_cls, **self.env_kwargs)
            )
            reset = partial(state["gym_env"].reset, seed=int(state["answer"]))
            await _call_in_thread(state, reset)
        turn = state["trajectory"][-1]
        answer = self.parser.parse_answer(messages)
        if answer is None:
            answer = str(turn["completion"][-1].content)
        try:
            action = self.action_parser(answer)
        except Exception as error:  # noqa: BLE001 - the model is shown whatever a parser raises
            state["gym_done"] = True
            turn["reward"] = 0.0
            return self.wrap_response(f"Action Parsing Error: {error}")
        result: tuple[Any, ...] = tuple(
            await _call_in_thread(state, partial(state["gym_env"].step, action))
        )
        if len(result) not in (4, 5):
            raise ValueError(
                f"step() returned {format_value(result)}: "
                "return (obs, reward, terminated, truncated, info)"
            )
        # Older gyms have one flag for the end of an episode, newer ones have two.
        observation, reward, *end_flags, info = result
        turn["extras"]["gym_info"] = info
        turn["reward"] = float(reward)
        state["gym_done"] = any(end_flags)
        text = self.obs_to_text(observation)
        if state["gym_done"]:
            text = f"{text}\nEpisode already ended."
        return self.wrap_response(text)

    @stop
    async def is_done(self, state: State) -> bool:
        return state.get("gym_done", False)

    @cleanup
    async def cleanup_env(self, state: State) -> None:
        """Close the gym, and stop its thread even if the gym does not close in time."""
        if "gym_thread" not in state:
            return
        gym = state.pop("gym_env", None)
        if hasattr(gym, "close"):
            closing = _call_in_thread(state, gym.close)
            await asyncio.wait([closing], timeout=CLOSE_SECONDS)
        state.pop("gym_thread").stop()


def _call_in_thread(state: State, function: Callable[[], Any]) -> "asyncio.Future[Any]":
    """Call a function in the thread of a rollout's gym."""

    async def call() -> Any:
        return function()

    return state["gym_thread"].start(call())


# Games and questions of other packages.


async def _call_with_timeout(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a thread, so that a slow game does not delay other rollouts."""
    future = asyncio.wrap_future(run_in_thread(partial(function, *args)))
    await asyncio.wait([future], timeout=seconds)
    if not future.done():
        future.cancel()
        raise TimeoutError(
            f"{function.__name__} took more than {seconds:g} s: "
            "allow more time with seconds_per_call="
        )
    return future.result()


class TextArenaEnv(MultiTurnEnv):
    """Each example is a game of `textarena` for one player, who looks for its `answer`, a secret word.

    The parser reads the model's move from its reply. `feedback_fn` turns an observation of the game
    into the text that the model is shown.
    """

    seconds_per_call = 120.0  # a game that takes longer is an error of its rollout

    def __init__(
        self,
        game: str = "Wordle-v0",
        num_train_examples: int = 1000,
        num_eval_examples: int = 0,
        **options: Any,
    ) -> None:
        self.game = game
        self.seed = options.pop("seed", 0)
        self.feedback_fn = options.pop("feedback_fn", str)
        self.num_train_examples = num_train_examples
        self.num_eval_examples = num_eval_examples
        self.ta_env: Any = import_extra("textarena", "TextArenaEnv").make(env_id=game)
        self.ta_env.reset(num_players=1)
        # A memo for `deepcopy`: copies of the game share its lists of words, which are large, and
        # which no game changes.
        self.shared_memo: dict[int, Any] = {}
        for name in ("dictionary", "word_list"):
            words: Any = getattr(self.ta_env, name, None)
            if words is not None:
                self.shared_memo[id(words)] = words
        dataset, eval_dataset = self.ta_to_hf()
        if not options.get("parser"):
            options["parser"] = XMLParser(["think", "guess"], answer_field="guess")
        super().__init__(dataset, eval_dataset=eval_dataset, **options)

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
        """Start a game with the secret word of the example."""
        state["ta_env"] = await _call_with_timeout(
            self.seconds_per_call, deepcopy, self.ta_env, {**self.shared_memo}
        )
        state["ta_env"].state.game_state["secret_word"] = state["answer"]
        return await super().setup_state(state)

    async def env_response(self, messages: Any, state: State, **kwargs: Any) -> Any:
        """Make the model's move, and return what it sees then, or at the end why the game is over."""
        game = state["ta_env"]
        await _call_with_timeout(
            self.seconds_per_call, game.step, str(self.parser.parse_answer(messages))
        )
        if game.state.done:
            state["final_env_response"] = [UserMessage(content=game.state.game_info[0]["reason"])]
            return state["final_env_response"]
        _, observation = await _call_with_timeout(self.seconds_per_call, game.get_observation)
        return [UserMessage(content=str(self.feedback_fn(observation)))]

    @cleanup
    async def cleanup_ta_env(self, state: State) -> None:
        state.pop("ta_env", None)


class ReasoningGymEnv(SingleTurnEnv):
    """Asks the questions of `reasoning_gym`, whose data set also scores the answers.

    `gym` is the name of a data set, or a list of several, which are mixed.
    """

    seconds_per_call = 120.0  # an answer whose scoring takes longer is unscored

    def __init__(
        self,
        gym: str | Sequence[Any],
        num_train_examples: int = 1000,
        num_eval_examples: int = 100,
        **options: Any,
    ) -> None:
        self.gym = gym
        self.seed = options.pop("seed", 0)
        self.num_train_examples = num_train_examples
        self.num_eval_examples = num_eval_examples
        self._package = import_extra("reasoning_gym", "ReasoningGymEnv", package="reasoning-gym")
        self.rg_dataset = self.build_rg_dataset(
            gym, num_train_examples + num_eval_examples, seed=self.seed
        )
        dataset, eval_dataset = self.rg_to_hf(self.rg_dataset)
        parser = options.pop("parser", None) or XMLParser(["answer"])

        async def check_answer_reward_func(completion: Any, answer: str) -> float:
            model_answer = str(parser.parse_answer(completion)).strip()
            # The entry is made here and not in the thread, because some data sets draw from numpy's
            # global generator, which threads would share.
            entry = self.rg_dataset[int(answer)]
            return await _call_with_timeout(
                self.seconds_per_call, self.rg_dataset.score_answer, model_answer, entry
            )

        rubric = Rubric(
            [check_answer_reward_func, parser.get_format_reward_func()],
            weights=[1.0, 0.0],
            parser=parser,
        )
        options.setdefault("system_prompt", self._package.utils.SYSTEM_PROMPTS["default"])
        options.setdefault("message_type", "chat")
        super().__init__(
            dataset, eval_dataset=eval_dataset, parser=parser, rubric=rubric, **options
        )
        # Without the metric `num_turns` that our base class has added, as in verifiers.
        self.rubric = rubric

    def build_rg_dataset(self, gym: Any, total_examples: int = 1000, seed: int = 0) -> Any:
        """Return the data set with this name, or a mixture of those in a list.

        An item of the list is a name, or a dict with the fields of a `DatasetSpec`.
        """
        create = partial(self._package.create_dataset, size=total_examples, seed=seed)
        if isinstance(gym, str):
            return create(gym)
        make_spec = self._package.composite.DatasetSpec
        specs: list[Any] = []
        for item in gym:
            if isinstance(item, str):
                specs.append(make_spec(name=item, weight=1.0, config={}))
            elif isinstance(item, dict):
                specs.append(make_spec(**item))
            else:
                raise ValueError(
                    f"gym has {format_value(item)}: give names, or dicts with name, weight and config"
                )
        return create("composite", datasets=specs)

    def rg_to_hf(self, rg_dataset: Any) -> tuple[Any, Any]:
        """Return the rows to train on and to evaluate on.

        The answer of a row is the number of its entry in the data set, which scores it.
        """
        rows: list[dict[str, Any]] = []
        for number, entry in enumerate(rg_dataset):
            info = {"source_dataset": entry["metadata"]["source_dataset"]}
            rows.append({"question": entry["question"], "answer": str(number), "info": info})
        return rows[: self.num_train_examples], rows[self.num_train_examples :]
