"""Environment holds examples to ask a model about, and a rubric; `stop`, `cleanup` and `teardown` mark its hooks."""

import atexit
import inspect
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import (
    Any,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from assay.concurrency import FAILURES, is_stop_request, run_sync
from assay.envs.dataset import Asking, Example, copied, examples_of, first_of, in_turn, messages_of
from assay.envs.evaluate import Options, carry_out, refuse_wrong
from assay.envs.model_under_test import ModelUnderTest
from assay.envs.prompt_template import PromptTemplate
from assay.envs.results import Evaluation, Results
from assay.errors import RubricError
from assay.models import Reply
from assay.models.model import Tool
from assay.parsers import Parser
from assay.redaction import get_logger
from assay.rubric import Rubric, RubricGroup
from assay.runs.stats import Measure, PassRule
from assay.types import Message, Messages, State
from assay.wording import describe_error, format_value

Moment: TypeAlias = Literal["stop", "cleanup", "teardown"]
Method = TypeVar("Method", bound=Callable[..., Any])
logger = get_logger("assay")


class Marker(Protocol):
    """A decorator that marks a method for one moment, with or without a priority."""

    @overload
    def __call__(self, method: Method, /) -> Method: ...
    @overload
    def __call__(
        self, method: None = None, /, *, priority: int = 0
    ) -> Callable[[Method], Method]: ...


def _marker(moment: Moment, purpose: str) -> Marker:
    def mark(method: Any = None, /, *, priority: int = 0) -> Any:
        def marked(method: Any) -> Any:
            setattr(method, moment, True)
            setattr(method, f"{moment}_priority", priority)
            return method

        return marked if method is None else marked(method)

    mark.__name__, mark.__doc__ = moment, purpose
    return cast("Marker", mark)


stop = _marker("stop", "Mark a method of `state` that says whether a rollout is over.")
cleanup = _marker("cleanup", "Mark a method of `state` that tidies up after a rollout.")
teardown = _marker("teardown", "Mark a method that frees what the environment holds.")


async def awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def called_by_name(func: Callable[..., Any], /, **known: Any) -> Any:
    """Call a function with those of the arguments that it names, or all if it takes any."""
    parameters = inspect.signature(func).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return await awaited(
        func(**(known if takes_all else {n: v for n, v in known.items() if n in parameters}))
    )


class Hooked:
    """Has methods that are marked for a moment."""

    @cached_property
    def hooks(self) -> dict[Moment, list[Callable[..., Any]]]:
        """The methods marked for each moment, highest priority first, and by name where priorities are equal."""
        marked: dict[Moment, list[tuple[int, str]]] = {moment: [] for moment in get_args(Moment)}
        for name in dir(self):
            # Looked at without being fetched: a property is no hook, and may cost something.
            found: Any = inspect.getattr_static(self, name, None)
            function = getattr(found, "__func__", found)
            for moment, own in marked.items():
                if callable(function) and getattr(function, moment, False) is True:
                    own.append((-getattr(function, f"{moment}_priority", 0), name))
        return {
            moment: [getattr(self, name) for _, name in sorted(own)]
            for moment, own in marked.items()
        }

    async def call_all(self, moment: Moment, *args: Any) -> None:
        """Call every hook; one that fails does not keep the others from it."""
        for hook in self.hooks[moment]:
            try:
                await self.call_hook(hook, *args)
            except FAILURES as error:
                if is_stop_request(error):
                    raise
                logger.error("%s %s failed: %s", moment, hook.__name__, describe_error(error))

    async def call_hook(self, hook: Callable[..., Any], *args: Any) -> Any:
        return await awaited(hook(*args))


class Given(TypedDict, total=False):
    """What every environment is made from, besides the data set that comes first."""

    eval_dataset: Any  # what `evaluate` asks about; the data set when there is none
    system_prompt: str | None
    few_shot: Sequence[Message] | None  # messages between the system prompt and the question
    prompt: PromptTemplate | None  # how rows become prompts; in place of the two above
    parser: Parser | None  # how answers are read, by a rubric too that was given no parser
    rubric: Rubric | None
    sampling_args: Mapping[str, Any] | None  # for every call; those given to `evaluate` go before
    env_id: str  # its name, and the task of examples that name none


class Environment(Hooked, ABC):
    """Examples, how they are asked, and how the answers are scored. A subclass says in `rollout` how one goes.

    Its teardown hooks are called once: when a `with` block ends, by `close`, or else when the interpreter ends.
    """

    keeps_text = (
        False  # whether an example whose prompt is a plain text is asked and answered in plain text
    )
    asks: Mapping[str, Any] = {}  # more fields of the `Asking` that makes prompts of rows
    env_args: Mapping[str, Any] = {}  # what `load_environment` was given to make it
    # A rollout passes, for pass@k, if its score (or its reward) reaches the threshold.
    pass_threshold: float = 1.0
    pass_measure: Measure = "score"
    scores_failures = (
        False  # whether a rollout that failed is scored nevertheless, by what was said until then
    )
    _closed = False
    _awaits_exit = False

    def __init__(
        self,
        dataset: Any = None,
        eval_dataset: Any = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Message] | None = None,
        parser: Parser | None = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        *,
        prompt: PromptTemplate | None = None,
        env_id: str = "",
    ) -> None:
        """A data set is a path, a list of mappings, a Hugging Face data set, a pandas frame, or a function of one.

        Its rows have a `question` or a `prompt`, and may have `answer`, `info`, `task`, `example_id` and a `rubric` of
        their own; checks see every column by its name. A rubric that was given no parser reads with this one.
        """
        if dataset is None and eval_dataset is None:
            raise ValueError("Either dataset or eval_dataset must be provided")
        if rubric is not None and not isinstance(rubric, Rubric):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RubricError(f"rubric is {format_value(rubric)}: give a Rubric")
        if prompt is not None and (system_prompt or few_shot):
            raise ValueError(
                "both a prompt and a system_prompt or few_shot are given: put them into the "
                "PromptTemplate"
            )
        self.prompt = prompt
        self.system_prompt = system_prompt
        self.few_shot = messages_of(few_shot or [], "few_shot")
        self.rubric = Rubric() if rubric is None else rubric
        self.sampling_args = dict(sampling_args or {})
        self.env_id = env_id
        self._parser = parser
        self._monitors: list[Rubric] = []
        self._asking = Asking(
            template=prompt,
            system_prompt=system_prompt,
            few_shot=tuple(self.few_shot),
            task=env_id or "default",
            keeps_text=self.keeps_text,
            **self.asks,
        )
        self._sources = {"dataset": dataset, "eval_dataset": eval_dataset}
        source = dataset if eval_dataset is None else eval_dataset
        # The file that the data set was read from, for the record of a run; None if there is none.
        self.data_source: str | None = None
        if isinstance(source, str | os.PathLike):
            self.data_source = os.fspath(cast("str | os.PathLike[str]", source))
        self._examples: dict[str, list[Example] | None] = {}
        for name, source in self._sources.items():
            if source is not None and not callable(source):
                self._examples_of(name)
        self._hand_down_parser()

    # The data.

    @property
    def dataset(self) -> list[Example] | None:
        """The examples to train on, ready to be asked; None when there are none."""
        return self._examples_of("dataset")

    @property
    def eval_dataset(self) -> list[Example] | None:
        """The examples to evaluate on, ready to be asked; None when there are none."""
        return self._examples_of("eval_dataset")

    def _examples_of(self, name: str) -> list[Example] | None:
        # A subclass may show its data in another form; what is asked is always this.
        if name not in self._examples:
            self._examples[name] = examples_of(self._sources[name], name, self._asking)
        return self._examples[name]

    def get_dataset(self, n: int = -1, seed: int | None = None) -> list[Example]:
        """The first `n` examples to train on, shuffled before if there is a `seed`."""
        return first_of(self._first_set("dataset", "eval_dataset"), n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> list[Example]:
        """The first `n` examples to evaluate on; those to train on when there are no others."""
        return first_of(self._first_set("eval_dataset", "dataset"), n, seed)

    def _first_set(self, *names: str) -> list[Example]:
        return next(
            (rows for rows in map(self._examples_of, names) if rows is not None), list[Example]()
        )

    @property
    def pass_rule(self) -> PassRule:
        """When a rollout passes, for pass@k."""
        return PassRule(self.pass_threshold, self.pass_measure)

    # The rubric.

    @property
    def parser(self) -> Parser:
        """What answers are read with: the one that was given, else the rubric's own."""
        return self.rubric.parser if self._parser is None else self._parser

    @parser.setter
    def parser(self, parser: Parser) -> None:
        self._parser = parser

    def add_rubric(self, rubric: Rubric) -> None:
        """Score by this rubric too: its reward is added, and its metrics are reported."""
        self._monitors.append(rubric)
        self._hand_down_parser()

    @property
    def scoring(self) -> Rubric | None:
        """All that scores a rollout; None when nothing was given that does."""
        # Looked at each time: what is added to a rubric later counts from then on.
        given = (self.rubric, *self._monitors)
        rubrics = [rubric for rubric in given if len(rubric) or rubric.own_methods]
        return RubricGroup(rubrics) if len(rubrics) > 1 else rubrics[0] if rubrics else None

    def _hand_down_parser(self) -> None:
        if self._parser is not None:
            for rubric in (self.rubric, *self._monitors):
                rubric.inherit_parser(self._parser)

    # Evaluating.

    def evaluate(
        self,
        client: Any = None,
        model: Any = None,
        *,
        num_examples: int = -1,
        **options: Unpack[Options],
    ) -> Evaluation:
        """Ask a model about the first `num_examples` examples (all for -1) and score what it says.

        Where an event loop runs, await it. `client` is an SDK's, with the name of the `model`; without one, `model` is
        anything `model_of` takes. The options are those of `Options`.

        >>> from assay import Rubric
        >>> from assay.envs import SingleTurnEnv
        >>> from assay.testing import ModelServer
        >>> rubric = Rubric([lambda completion, answer: completion == answer])
        >>> env = SingleTurnEnv([{"prompt": "2 + 2?", "answer": "4"}], rubric=rubric)
        >>> with ModelServer("4") as server:
        ...     env.evaluate(model=server.model)["reward"]
        [1.0]
        """
        return Evaluation(self._evaluate(client, model, num_examples, options))

    def evaluate_sync(
        self,
        client: Any = None,
        model: Any = None,
        *,
        num_examples: int = -1,
        **options: Unpack[Options],
    ) -> Results:
        """`evaluate`, over when it returns, also where an event loop runs."""
        return run_sync(self.evaluate(client, model, num_examples=num_examples, **options))

    def generate(
        self,
        inputs: Any = None,
        client: Any = None,
        model: Any = None,
        *,
        n_samples: int | None = None,
        **options: Unpack[Options],
    ) -> Evaluation:
        """Make rollouts with rewards, to train on, of the `inputs` (rows), or `n_samples` of the data set in turn."""
        return Evaluation(self._generate(inputs, client, model, n_samples, options))

    def generate_sync(
        self,
        inputs: Any = None,
        client: Any = None,
        model: Any = None,
        *,
        n_samples: int | None = None,
        **options: Unpack[Options],
    ) -> Results:
        """`generate`, over when it returns, also where an event loop runs."""
        return run_sync(self.generate(inputs, client, model, n_samples=n_samples, **options))

    async def _evaluate(
        self, client: Any, model: Any, num_examples: int, options: Options
    ) -> Results:
        data = Environment.get_eval_dataset(self)
        return await self._carry_out(first_of(data, num_examples), data, client, model, options)

    async def _generate(
        self, inputs: Any, client: Any, model: Any, n_samples: int | None, options: Options
    ) -> Results:
        if inputs is not None and n_samples is not None:
            raise ValueError("n_samples are taken from the data set: give it, or inputs, not both")
        # A prompt that is given is whole: it may come out of the data set.
        asking = replace(self._asking, shots_in_prompts=False)
        data = (
            Environment.get_dataset(self) if inputs is None else asking.examples(inputs, "inputs")
        )
        examples = data if n_samples is None else in_turn(data, n_samples)
        return await self._carry_out(examples, data, client, model, options)

    async def _carry_out(
        self,
        examples: Sequence[Example],
        data: Sequence[Example],
        client: Any,
        model: Any,
        options: Options,
    ) -> Results:
        refuse_wrong(options)
        under_test = client
        if not isinstance(client, ModelUnderTest):
            sampling_args = {**self.sampling_args, **(options.get("sampling_args") or {})}
            most = options.get("max_concurrent")
            under_test = ModelUnderTest(
                client,
                model,
                sampling_args,
                at_once=None if most == -1 else most,
                price=options.get("price"),
                limits=options.get("limits"),
            )
        # Again: the rubric may have been in another environment meanwhile.
        self._hand_down_parser()
        if not self._awaits_exit and self.hooks["teardown"]:
            self._awaits_exit = True
            atexit.register(self.close)
        return await carry_out(self, examples, under_test, options, data=data)

    # One rollout.

    @abstractmethod
    async def rollout(
        self,
        input: Example,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """One rollout of one example. The state it returns has a `completion`, or says in `error` why not."""

    async def attempt(self, *asked: Any) -> State:
        """Return the rollout that counts, of what `rollout` takes. A subclass may try again when one fails."""
        return await self.rollout(*asked)

    async def init_state(
        self,
        input: Mapping[str, Any],
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """The state that a rollout begins with, its own: nothing that happens to it reaches the example."""
        if not isinstance(client, ModelUnderTest):
            client = ModelUnderTest(client, model, sampling_args or self.sampling_args)
        return State(
            input=copied(input if type(input) is dict else dict(input)),
            client=client,
            model=client.name,
            sampling_args=client.sampling_args,
            completion=None,
            trajectory=[],
            trajectory_id=os.urandom(16).hex(),
            responses=[],
            turn=0,
            is_completed=False,
            is_truncated=False,
            stop_condition=None,
            reward=None,
            metrics=None,
            error=None,
            final_env_response=None,
            timing={
                "start_time": time.time(),
                "generation_ms": 0.0,
                "scoring_ms": 0.0,
                "total_ms": 0.0,
            },
        )

    def as_messages(self, value: object, where: str) -> list[Message]:
        """Return what was said as messages of the kind that this environment works with."""
        return messages_of(value, where)

    def tools_of(self, state: State) -> tuple[Tool, ...]:
        """Return what the model may call in this rollout."""
        return ()

    async def get_model_response(
        self, state: State, prompt: Messages, *, tools: Sequence[Tool] | None = None
    ) -> Reply:
        """What the model under test says to a prompt; kept in the state's `responses`."""
        messages = self.as_messages(prompt, "the prompt")
        tools = self.tools_of(state) if tools is None else tools
        sample = state.get("input", {}).get("sample")
        under_test: ModelUnderTest = state["client"]
        reply = await under_test(
            messages, tools=tuple(tools), sample=sample if type(sample) is int else 0
        )
        state.setdefault("responses", []).append(reply)
        return reply

    # Hooks.

    def is_completed(self, *told: Any, **named: Any) -> Any:
        """Tell whether a stop condition holds. A subclass may have its own, of `(state)` or `(messages, state)`."""
        return self._stopped(named["state"] if "state" in named else told[-1])

    async def _stopped(self, state: State, names: Collection[str] | None = None) -> bool:
        """Return whether a stop condition holds, or one with these names; note it in the state."""
        for condition in self.hooks["stop"]:
            if names is not None and condition.__name__ not in names:
                continue
            if await awaited(condition(state)):
                state["stop_condition"] = condition.__name__
                state["is_completed"] = True
                return True
        return False

    async def after_scoring(self, states: Sequence[State]) -> None:
        """Called with the states of a group once they are scored, or cannot be. A subclass may tidy up."""

    def close(self) -> None:
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Call the teardown hooks; one that fails does not keep the others from it."""
        if not self._closed:
            self._closed = True
            if self._awaits_exit:
                atexit.unregister(self.close)
            await self.call_all("teardown")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
