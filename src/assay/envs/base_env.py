"""Environment: examples, how a model is asked about them, and a rubric that scores its answers."""

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
from assay.envs.dataset import (
    Example,
    ExampleReader,
    copy_nested,
    read_examples,
    read_messages,
    repeat_examples,
    select_first,
)
from assay.envs.evaluate import Options, check_options, run_evaluation
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

HookKind: TypeAlias = Literal["stop", "cleanup", "teardown"]
Method = TypeVar("Method", bound=Callable[..., Any])
logger = get_logger("assay")


class HookDecorator(Protocol):
    """A decorator that makes a method a hook, with or without a priority."""

    @overload
    def __call__(self, method: Method, /) -> Method: ...
    @overload
    def __call__(
        self, method: None = None, /, *, priority: int = 0
    ) -> Callable[[Method], Method]: ...


def _make_decorator(kind: HookKind, purpose: str) -> HookDecorator:
    """Return the decorator for one kind of hook, with `purpose` as its docstring."""

    def decorate(method: Any = None, /, *, priority: int = 0) -> Any:
        def mark(method: Any) -> Any:
            # `HasHooks` finds the hooks of an object by these attributes.
            setattr(method, kind, True)
            setattr(method, f"{kind}_priority", priority)
            return method

        if method is None:  # used with parentheses: `@stop(priority=1)`
            return mark
        return mark(method)

    decorate.__name__ = kind
    decorate.__doc__ = purpose
    return cast("HookDecorator", decorate)


stop = _make_decorator("stop", "Mark a method of `state` that says whether a rollout is over.")
cleanup = _make_decorator("cleanup", "Mark a method of `state` that tidies up after a rollout.")
teardown = _make_decorator("teardown", "Mark a method that frees what the environment holds.")


async def await_if_needed(value: Any) -> Any:
    """Return a value, or the result of an awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def call_by_name(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function with those of the arguments that it names, or with all if it has `**kwargs`."""
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_any:
        arguments = {name: value for name, value in arguments.items() if name in parameters}
    return await await_if_needed(function(**arguments))


class HasHooks:
    """A class whose methods can be hooks."""

    @cached_property
    def hooks(self) -> dict[HookKind, list[Callable[..., Any]]]:
        """The hooks of each kind by priority, the highest first, and then by name."""
        return {kind: self._list_hooks(kind) for kind in get_args(HookKind)}

    def _list_hooks(self, kind: HookKind) -> list[Callable[..., Any]]:
        """Return the methods that are marked as hooks of a kind, in the order of their calls."""
        priorities_and_names: list[tuple[int, str]] = []  # negated, since the highest comes first
        for name in dir(self):
            # Not `getattr`, which would compute properties.
            attribute: Any = inspect.getattr_static(self, name, None)
            function = getattr(attribute, "__func__", attribute)  # of a class or static method
            if callable(function) and getattr(function, kind, False) is True:
                priority: int = getattr(function, f"{kind}_priority", 0)
                priorities_and_names.append((-priority, name))
        return [getattr(self, name) for _, name in sorted(priorities_and_names)]

    async def call_all(self, kind: HookKind, *args: Any) -> None:
        """Call every hook of a kind. If one fails, the others are called all the same."""
        for hook in self.hooks[kind]:
            try:
                await self.call_hook(hook, *args)
            except FAILURES as error:
                if is_stop_request(error):  # Ctrl-C, for example
                    raise
                logger.error("%s %s failed: %s", kind, hook.__name__, describe_error(error))

    async def call_hook(self, hook: Callable[..., Any], *args: Any) -> Any:
        return await await_if_needed(hook(*args))


class EnvironmentOptions(TypedDict, total=False):
    """The options of every environment, besides the data set, which is the first argument."""

    eval_dataset: Any  # the examples of `evaluate`; by default those of the data set
    system_prompt: str | None
    few_shot: Sequence[Message] | None  # messages between the system prompt and the question
    prompt: PromptTemplate | None  # how rows become prompts, in place of the two above
    parser: Parser | None  # how answers are read, also by a rubric without a parser
    rubric: Rubric | None
    sampling_args: Mapping[str, Any] | None  # for every call; those of `evaluate` take precedence
    env_id: str  # its name, and the task of examples without one


class Environment(HasHooks, ABC):
    """Examples, how a model is asked about them, and how its answers are scored.

    A subclass implements `rollout`. The teardown hooks are called once: when a `with` block ends,
    by `close`, or when the interpreter ends.
    """

    # Whether an example whose prompt is a plain text is asked and answered in plain text.
    keeps_text = False
    reader_options: Mapping[str, Any] = {}  # further fields of the `ExampleReader`
    env_args: Mapping[str, Any] = {}  # the arguments of `load_environment` that made it
    # A rollout passes, for pass@k, if its score (or its reward) reaches the threshold.
    pass_threshold: float = 1.0
    pass_measure: Measure = "score"
    # Whether a rollout that failed is scored all the same, by the messages until then.
    scores_failures = False
    _is_closed = False
    _closes_at_exit = False

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
        """A data set is a path, a list of mappings, a Hugging Face data set, a pandas frame, or a function.

        Its rows have a `question` or a `prompt`, and may have `answer`, `info`, `task`,
        `example_id` and a `rubric`. Checks see every column by its name. A rubric without a parser
        uses the one that is given here.
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
        self.few_shot = read_messages(few_shot or [], "few_shot")
        self.rubric = Rubric() if rubric is None else rubric
        self.sampling_args = dict(sampling_args or {})
        self.env_id = env_id
        self._parser = parser
        self._added_rubrics: list[Rubric] = []
        self._example_reader = ExampleReader(
            template=prompt,
            system_prompt=system_prompt,
            few_shot=tuple(self.few_shot),
            task=env_id or "default",
            keeps_text=self.keeps_text,
            **self.reader_options,
        )
        self._sources = {"dataset": dataset, "eval_dataset": eval_dataset}
        source = dataset if eval_dataset is None else eval_dataset
        # The file of the data set, which a run records; None if there is none.
        self.data_source: str | None = None
        if isinstance(source, str | os.PathLike):
            self.data_source = os.fspath(cast("str | os.PathLike[str]", source))
        self._examples: dict[str, list[Example] | None] = {}  # those that are read, by data set
        # Read the data now, so that a wrong row is an error here. A function that returns the data
        # is called only when they are needed.
        for name, source in self._sources.items():
            if source is not None and not callable(source):
                self._read_examples(name)
        self._pass_on_parser()

    # The data.

    @property
    def dataset(self) -> list[Example] | None:
        """The examples to train on; None if there are none."""
        return self._read_examples("dataset")

    @property
    def eval_dataset(self) -> list[Example] | None:
        """The examples to evaluate on; None if there are none."""
        return self._read_examples("eval_dataset")

    def _read_examples(self, name: str) -> list[Example] | None:
        """Return the examples of `dataset` or `eval_dataset`, which are read only once.

        Rollouts are generated for these examples, even if a subclass overrides the properties of
        these names.
        """
        if name not in self._examples:
            self._examples[name] = read_examples(self._sources[name], name, self._example_reader)
        return self._examples[name]

    def get_dataset(self, n: int = -1, seed: int | None = None) -> list[Example]:
        """Return the first `n` examples to train on, shuffled before if there is a `seed`."""
        return select_first(self._choose_examples("dataset", "eval_dataset"), n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> list[Example]:
        """Return the first `n` examples to evaluate on, or to train on if there are no others."""
        return select_first(self._choose_examples("eval_dataset", "dataset"), n, seed)

    def _choose_examples(self, *names: str) -> list[Example]:
        """Return the examples of the first of these data sets that exists."""
        for name in names:
            examples = self._read_examples(name)
            if examples is not None:
                return examples
        return []

    @property
    def pass_rule(self) -> PassRule:
        """When a rollout passes, for pass@k."""
        return PassRule(self.pass_threshold, self.pass_measure)

    # The rubric.

    @property
    def parser(self) -> Parser:
        """The parser that reads answers: that of the environment, or else that of its rubric."""
        return self.rubric.parser if self._parser is None else self._parser

    @parser.setter
    def parser(self, parser: Parser) -> None:
        self._parser = parser

    def add_rubric(self, rubric: Rubric) -> None:
        """Score by this rubric too: its reward is added, and its metrics are reported."""
        self._added_rubrics.append(rubric)
        self._pass_on_parser()

    @property
    def scoring(self) -> Rubric | None:
        """The rubric that scores rollouts: the environment's, together with those that were added.

        None if no rubric scores anything.
        """
        # Not cached, since criteria may be added to a rubric later. One without criteria may score by
        # methods that its class overrides.
        rubrics = [rubric for rubric in self._list_rubrics() if len(rubric) or rubric.own_methods]
        if len(rubrics) > 1:
            return RubricGroup(rubrics)
        return rubrics[0] if rubrics else None

    def _list_rubrics(self) -> list[Rubric]:
        return [self.rubric, *self._added_rubrics]

    def _pass_on_parser(self) -> None:
        """Give the parser to the rubrics that have none."""
        if self._parser is not None:
            for rubric in self._list_rubrics():
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
        """Ask a model about the first `num_examples` examples (all for -1), and score its answers.

        Inside an event loop, await it. `client` is the client of an SDK, and `model` the name of a
        model. Without a client, `model` is anything that `model_of` takes. For the options see
        `Options`.

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
        """Call `evaluate` from synchronous code, even inside a running event loop."""
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
        """Generate rollouts with rewards, to train on.

        They are about the rows in `inputs`, or about the data set: with `n_samples`, about so many
        of its examples, which are repeated if there are fewer.
        """
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
        """Call `generate` from synchronous code, even inside a running event loop."""
        return run_sync(self.generate(inputs, client, model, n_samples=n_samples, **options))

    async def _evaluate(
        self, client: Any, model: Any, num_examples: int, options: Options
    ) -> Results:
        # Not `self.get_eval_dataset`: a subclass may show other examples than it asks.
        data = Environment.get_eval_dataset(self)
        examples = select_first(data, num_examples)
        return await self._run_examples(examples, client, model, options, data=data)

    async def _generate(
        self, inputs: Any, client: Any, model: Any, n_samples: int | None, options: Options
    ) -> Results:
        """Do the work of `generate`, whose arguments these are."""
        if inputs is not None and n_samples is not None:
            raise ValueError(
                "n_samples are taken from the data set: give n_samples or inputs, not both"
            )
        if inputs is None:
            # Not `self.get_dataset`: a subclass may show other examples than it asks.
            data = Environment.get_dataset(self)
        else:
            # A `prompt` in the inputs may come from the data set, with the few-shot messages in it.
            reader = replace(self._example_reader, shots_in_prompts=False)
            data = reader.read(inputs, "inputs")
        examples = data if n_samples is None else repeat_examples(data, n_samples)
        return await self._run_examples(examples, client, model, options, data=data)

    async def _run_examples(
        self,
        examples: Sequence[Example],
        client: Any,
        model: Any,
        options: Options,
        *,
        data: Sequence[Example],
    ) -> Results:
        """Generate and score rollouts of these examples, which are some of `data`."""
        check_options(options)
        if isinstance(client, ModelUnderTest):
            under_test = client
        else:
            sampling_args = {**self.sampling_args, **(options.get("sampling_args") or {})}
            max_concurrent = options.get("max_concurrent")
            under_test = ModelUnderTest(
                client,
                model,
                sampling_args,
                at_once=None if max_concurrent == -1 else max_concurrent,  # -1 is no limit
                price=options.get("price"),
                limits=options.get("limits"),
            )
        # Again, since the rubric may also be that of another environment, which has given it another
        # parser in the meantime.
        self._pass_on_parser()
        # If the environment is not closed, what it holds is freed when the interpreter ends.
        if self.hooks["teardown"] and not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self.close)
        return await run_evaluation(self, examples, under_test, options, data=data)

    # One rollout.

    @abstractmethod
    async def rollout(
        self,
        input: Example,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """Return the state of one rollout, with its `completion`, or with an `error` that says why not."""

    async def attempt(self, *args: Any) -> State:
        """Call `rollout` with these arguments. A subclass may call it again if the rollout fails."""
        return await self.rollout(*args)

    async def init_state(
        self,
        input: Mapping[str, Any],
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
    ) -> State:
        """Return the state at the start of a rollout, with a copy of the example.

        `client` is a `ModelUnderTest`, which has its own name and sampling arguments, or the client
        of an SDK, to which `model` and `sampling_args` belong.
        """
        if not isinstance(client, ModelUnderTest):
            client = ModelUnderTest(client, model, sampling_args or self.sampling_args)
        return State(
            # `copy_nested` copies dicts, and no other mappings.
            input=copy_nested(input if type(input) is dict else dict(input)),
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
        """Return a text or a chat as messages of the kind that this environment works with."""
        return read_messages(value, where)

    def tools_of(self, state: State) -> tuple[Tool, ...]:
        """Return the tools that the model may call in this rollout."""
        return ()

    async def get_model_response(
        self, state: State, prompt: Messages, *, tools: Sequence[Tool] | None = None
    ) -> Reply:
        """Return the reply of the model under test, which is added to the state's `responses`."""
        messages = self.as_messages(prompt, "the prompt")
        tools = self.tools_of(state) if tools is None else tools
        # Which of several rollouts of the example this is. A column of the data may have that name.
        sample = state.get("input", {}).get("sample")
        if type(sample) is not int:
            sample = 0
        under_test: ModelUnderTest = state["client"]
        reply = await under_test(messages, tools=tuple(tools), sample=sample)
        state.setdefault("responses", []).append(reply)
        return reply

    # Hooks.

    def is_completed(self, *args: Any, **kwargs: Any) -> Any:
        """Return whether a stop condition holds.

        A subclass may override this with a method of `(state)` or `(messages, state)`.
        """
        state = kwargs["state"] if "state" in kwargs else args[-1]
        return self._meets_stop_condition(state)

    async def _meets_stop_condition(
        self, state: State, names: Collection[str] | None = None
    ) -> bool:
        """Return whether a stop condition holds, and note it in the state.

        With `names`, only the conditions with these names are checked.
        """
        for condition in self.hooks["stop"]:
            if names is not None and condition.__name__ not in names:
                continue
            if await await_if_needed(condition(state)):
                state["stop_condition"] = condition.__name__
                state["is_completed"] = True
                return True
        return False

    async def after_scoring(self, states: Sequence[State]) -> None:
        """Called with the states of a group after scoring, also if it failed, for a subclass to tidy up."""

    def close(self) -> None:
        """Call `aclose` from synchronous code."""
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Call the teardown hooks, if that has not been done. If one fails, the others are called."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._closes_at_exit:
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
