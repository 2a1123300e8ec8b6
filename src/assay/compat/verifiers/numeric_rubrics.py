"""Rubrics whose reward is always a number, also for an unscored rollout, as in `verifiers`."""

from collections import ChainMap
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from inspect import signature
from logging import Logger
from typing import Any, cast

import assay
from assay import compat, presets
from assay.base_rubric import States
from assay.check_function import CheckFunction
from assay.compat.verifiers.lenient_parsers import (
    MaybeThinkParser,
    Parser,
    ThinkParser,
    XMLParser,
    extract_boxed_answer,
)
from assay.compat.verifiers.records import TASK_INPUT_FIELDS
from assay.compat.verifiers.typed_messages import as_records, convert_func_to_oai_tool
from assay.concurrency import run_concurrently
from assay.criterion import Criterion
from assay.envs.base_env import HasHooks, call_by_name
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.graders.prompt_text import system_prompt
from assay.parsers.text_parsers import identity
from assay.plan import Plan, make_names_unique
from assay.presets import tool_rubric
from assay.presets.judge_rubric import DEFAULT_CLIENT_MODEL, DEFAULT_JUDGE_PROMPT
from assay.presets.tool_rubric import make_call_counter, total_tool_calls
from assay.redaction import get_logger
from assay.report import EvaluationReport
from assay.rollout import PLURALS, Rollout
from assay.types import INPUT_FIELDS, ScoringMethod, State
from assay.wording import describe_error

logger = get_logger("assay")
# Parsers that return the text of a message unless they are given an `extract_fn`.
_PLAIN_PARSERS = (
    assay.Parser,
    assay.MaybeThinkParser,
    assay.ThinkParser,
    Parser,
    MaybeThinkParser,
    ThinkParser,
)
# A function that names one of these gets the field of the state, also if a column has the same name.
_STATE_FIELDS = INPUT_FIELDS | {"completion", "state"}


# Whether an evaluation calls `score_rollout` for each rollout, not `score_group` for each group.
scores_independently: ContextVar[bool] = ContextVar("scores_independently", default=False)


class Rubric(HasHooks, assay.Rubric):
    """Our rubric, except that the reward of an unscored rollout is the sum of what was answered.

    `funcs` and `weights` are plain lists, as in verifiers. A program may change them at any time.
    """

    funcs: Any = ()
    weights: Any = ()
    _has_warned = False
    _is_judge_only = False
    has_advantages = False
    logger: Logger = logger

    def __init__(
        self,
        *args: Any,
        parallelize_scoring: bool = True,
        max_verify_chars: int = 0,
        **options: Any,
    ) -> None:
        """`parallelize_scoring` and `max_verify_chars` have no effect: the engine decides both."""
        self.score_object_providers: list[Callable[[Any], Mapping[str, Any]]] = []
        self.group_score_object_providers: list[Callable[[Any], Mapping[str, Any]]] = []
        super().__init__(*args, **options)

    # Other names of the same, which programs for older versions of verifiers use.

    @property
    def reward_funcs(self) -> Any:
        return self.funcs

    @reward_funcs.setter
    def reward_funcs(self, funcs: Any) -> None:
        self.funcs = funcs

    @property
    def reward_weights(self) -> Any:
        return self.weights

    @reward_weights.setter
    def reward_weights(self, weights: Any) -> None:
        self.weights = weights

    @property
    def has_group_rewards(self) -> bool:
        """Whether a function compares the rollouts of a group."""
        return self.compares

    # The plan, which follows the two lists.

    @property
    def _plan(self) -> Plan:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The plan to score by, made again if `funcs` or `weights` have changed since the last one."""
        plan, *planned_lists = self._planned
        if planned_lists != [self.funcs, self.weights]:
            self._make_plan_again(plan)
        return self._planned[0]

    @_plan.setter
    def _plan(self, plan: Plan) -> None:
        functions = [criterion for criterion in plan.criteria if not criterion.judged]
        # The lists are changed in place, since a program may hold them. `vars`, since the first time
        # there are only the empty tuples of the class.
        vars(self).setdefault("funcs", [])[:] = [criterion.check for criterion in functions]
        vars(self).setdefault("weights", [])[:] = [criterion.weight for criterion in functions]
        # With copies of the lists, to see later whether they have changed.
        self._planned = (plan, [*self.funcs], [*self.weights])

    def _make_plan_again(self, old_plan: Plan) -> None:
        """Make the plan for the functions and weights that are listed now."""
        if compat.strict and len(self.funcs) != len(self.weights):
            raise RubricError(
                f"Number of weights ({len(self.weights)}) must match number of functions "
                f"({len(self.funcs)}): add to both lists, or call add_reward_func(func, weight)"
            )
        functions: list[Any] = []
        weights: list[Any] = []
        # The judge's own score is only used until a program adds a function of its own.
        unused = [getattr(self, "judge_score", None)] if self._is_judge_only else []
        for function, weight in zip(self.funcs, self.weights, strict=False):
            if function not in unused:
                functions.append(function)
                weights.append(weight)
        self._is_judge_only = False
        # Functions that were in the plan keep their criteria, with all fields. If a function was
        # in it twice, the first criterion is kept.
        criterion_by_function: dict[int, Criterion] = {}
        for criterion in reversed(old_plan.criteria):
            criterion_by_function[id(criterion.check)] = criterion
        sources = [criterion_by_function.get(id(function), function) for function in functions]
        # Judged criteria are not in the lists, so they are always kept.
        judged = [criterion for criterion in old_plan.criteria if criterion.judged]
        criteria = make_names_unique([*judged, *self._read_criteria(sources, weights)])
        self._plan = Plan(criteria, self.aggregation, ask_judge=self.ask_judge)

    # Scoring.

    async def score_all(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None = None,
        called_method: ScoringMethod = "score",
    ) -> list[EvaluationReport]:
        """Score rollouts after adapting them to functions for verifiers."""
        adapted = [self._adapt_rollout(rollout) for rollout in rollouts]
        return await super().score_all(adapted, grader, called_method)

    def _choose_override(self, called_method: ScoringMethod) -> ScoringMethod | None:
        """Return the overridden method to score by; None to score by the criteria.

        verifiers has `score_rollout` and `score_group`. It scores by the criteria if the one that
        was called is not overridden, even if the other one is. `compat.strict = False` follows it.
        """
        is_in_verifiers = called_method != "score"
        if not compat.strict and is_in_verifiers and called_method not in self.overridden:
            return None
        return super()._choose_override(called_method)

    async def reports_on_group(
        self, states: States, grader: Grader | None = None
    ) -> list[EvaluationReport]:
        """Score a group of states; each by itself if the evaluation scores independently."""
        if not scores_independently.get():
            return await super().reports_on_group(states, grader)
        self._raise_if_group_needed()  # a function that compares rollouts cannot be called

        async def score_alone(state: MutableMapping[str, Any]) -> EvaluationReport:
            [report] = await self._score_states([state], "score_rollout", grader)
            return report

        return await run_concurrently(score_alone, states)

    def _adapt_rollout(self, rollout: Rollout) -> Rollout:
        """Return a rollout whose state, messages and fields are as functions for verifiers expect.

        A server or a table gives fields without a state, so the fields become the state. Plain
        messages become records that can be read by attribute, in place.
        """
        fields: Any = rollout.fields
        state: Any = rollout.state
        if not state and not rollout.is_state:
            state = {**fields}
        _convert_messages(fields)
        if state is not fields:
            _convert_messages(state)
        if self.score_object_providers or self._overrides(
            "score_objects", "task_for_state", "task_score_fields"
        ):
            extra_fields = self._call_provider(self.score_objects, state)
        else:
            extra_fields = _find_hidden_columns(state)
        if extra_fields:
            # Fields are looked up when a function asks for them, so that it sees what a function
            # before it wrote.
            fields = ChainMap(extra_fields, fields)
        return Rollout.from_fields(fields, state, rollout.judge_text)

    def _call_provider(
        self, provide: Callable[[Any], Mapping[str, Any]], state_or_states: Any
    ) -> dict[str, Any]:
        """Return the objects that a program provides for functions; nothing if it fails.

        The error is only logged: a function that names one of them fails for want of it, and has
        an error of its own.
        """
        try:
            return {**provide(state_or_states)}
        except Exception as error:  # noqa: BLE001 - a program's own code may raise anything
            self.logger.error("a provider of score objects failed: %s", describe_error(error))
            return {}

    def _find_class_objects(self, rollouts: Sequence[Rollout]) -> Mapping[str, Any]:
        """Return the class objects, and what programs provide for functions of a group."""
        objects = super()._find_class_objects(rollouts)
        if self.group_score_object_providers or self._overrides("group_score_objects"):
            states = [rollout.state for rollout in rollouts]
            return {**objects, **self._call_provider(self.group_score_objects, states)}
        return objects

    def _overrides(self, *methods: str) -> bool:
        """Return whether a subclass overrides one of these methods."""
        return any(getattr(type(self), method) is not getattr(Rubric, method) for method in methods)

    def _read_criteria(self, funcs: Any, weights: Iterable[float | None] | None) -> list[Criterion]:
        """Return functions as criteria; those without a name are called as in verifiers."""
        criteria: list[Criterion] = []
        for criterion in super()._read_criteria(funcs, weights):
            if not criterion.name and not criterion.judged:
                criterion = criterion.with_fields(name="<lambda>")
            criteria.append(criterion)
        return criteria

    def _default_parser(self) -> Any:
        parser = super()._default_parser()
        return Parser() if type(parser) is assay.Parser else parser

    def _read_completion(self, completion: object) -> Any:
        """Return a completion as functions get it."""
        # A list is not checked, and may be empty: a rollout may end before the model is asked.
        if isinstance(completion, list):
            return cast("Any", completion)
        return super()._read_completion(completion)

    def _choose_outputs(
        self, reports: Sequence[EvaluationReport]
    ) -> Sequence[tuple[float | None, Mapping[str, float]]]:
        """Return the reward and the metrics that are written into the state of each rollout.

        The reward is what the answered criteria sum to. Unscored rollouts are warned of once.
        """
        # If no weighted criterion applies to a rollout, nothing is missing.
        unscored = sum(report.applies and not report.scored for report in reports)
        if unscored and not self._has_warned:
            self._has_warned = True
            warn_unscored(unscored, len(reports))
        outputs: list[tuple[float | None, Mapping[str, float]]] = []
        for report in reports:
            metrics: Mapping[str, float] = report.metrics
            if report.errors and not compat.strict:
                metrics = fill_with_zeros(metrics, report.errors)
            outputs.append((report.partial_reward, metrics))
        return outputs

    async def dummy_score_rollout(self, state: State) -> None:
        """Write a reward of 0 and no metrics, for environments that do not score."""
        state.update(reward=0.0, metrics={})

    async def dummy_score_group(self, states: Sequence[State]) -> None:
        """Call `dummy_score_rollout` for each rollout."""
        for state in states:
            await self.dummy_score_rollout(state)

    # The arguments of functions, which get those that they name.

    def add_score_object_provider(self, provider: Callable[[Any], Mapping[str, Any]]) -> None:
        """Let functions take what `provider(state)` returns as arguments, in nested rubrics, too."""
        for rubric in self._list_with_nested():
            rubric.score_object_providers.append(provider)

    def add_group_score_object_provider(self, provider: Callable[[Any], Mapping[str, Any]]) -> None:
        """Let group functions take what `provider(states)` returns, in nested rubrics, too."""
        for rubric in self._list_with_nested():
            rubric.group_score_object_providers.append(provider)

    def _list_with_nested(self) -> "list[Rubric]":
        """Return this rubric and all those inside it, at any depth."""
        rubrics: list[Rubric] = [self]
        for nested in self._list_nested():
            if isinstance(nested, Rubric):
                rubrics += nested._list_with_nested()
        return rubrics

    def score_objects(self, state: State) -> dict[str, Any]:
        """Return the arguments that a function of one rollout may take. A subclass may add to them."""
        objects = self._common_objects(state)
        objects = {**self.task_score_fields(state, objects["task"]), **objects}
        for provider in self.score_object_providers:
            objects.update(provider(state))
        return objects

    def group_score_objects(self, states: Sequence[State]) -> dict[str, Any]:
        """Return the arguments that a function of a group may take. A subclass may add to them."""
        objects_of_each = [self.score_objects(state) for state in states]
        group_objects: dict[str, Any] = {}
        for plural, name in PLURALS.items():
            group_objects[plural] = [objects.get(name) for objects in objects_of_each]
        group_objects.update(self.class_objects)
        for provider in self.group_score_object_providers:
            group_objects.update(provider(states))
        return group_objects

    def cleanup_objects(self, handler: Callable[..., Any], state: State) -> dict[str, Any]:
        """Return the arguments that a cleanup handler may take, by name.

        Task fields and provided objects are included only if the handler needs more than the
        common ones, since looking them up may be expensive or fail.
        """
        objects = self._common_objects(state)
        if signature(handler).parameters.keys() <= objects.keys():
            return objects
        return self.score_objects(state)

    def task_for_state(self, state: State, resources: Any) -> Any:
        """Return the task of a rollout. A subclass may make an object of it."""
        return state.get("task")

    def task_score_fields(self, state: State, task: Any) -> dict[str, Any]:
        """Return the columns of a rollout's row and the fields of its task, as arguments of functions."""
        row: dict[str, Any] = state.get("input") or {}
        columns = {name: value for name, value in row.items() if name not in TASK_INPUT_FIELDS}
        if isinstance(task, Mapping):
            columns.update(cast("Mapping[str, Any]", task))
        return columns

    def _common_objects(self, state: State) -> dict[str, Any]:
        """Return the arguments of functions in every rubric, and the class objects of this one."""
        return {
            "prompt": state.get("prompt", ""),
            "completion": state.get("completion", ""),
            "answer": state.get("answer", ""),
            "info": state.get("info", {}),
            "state": state,
            **self.class_objects,
            "task": self.task_for_state(state, self.class_objects.get("resources")),
        }

    # Private methods of verifiers that its programs call.

    def _is_group_func(self, func: Any) -> bool:
        return CheckFunction(func, getattr(func, "__name__", "function")).is_group

    def _get_individual_reward_funcs(self) -> list[Any]:
        return [function for function in self.funcs if not self._is_group_func(function)]

    def _get_individual_reward_func_names(self) -> list[str]:
        return [_get_name(function) for function in self._get_individual_reward_funcs()]

    def _get_individual_reward_weights(self) -> list[float]:
        return self._list_weights(of_group_functions=False)

    def _get_group_reward_funcs(self) -> list[Any]:
        return [function for function in self.funcs if self._is_group_func(function)]

    def _get_group_reward_func_names(self) -> list[str]:
        return [_get_name(function) for function in self._get_group_reward_funcs()]

    def _get_group_reward_weights(self) -> list[float]:
        return self._list_weights(of_group_functions=True)

    def _list_weights(self, *, of_group_functions: bool) -> list[float]:
        """Return the weights of the functions that are called for groups, or of the others."""
        weights: list[float] = []
        for function, weight in zip(self.funcs, self.weights, strict=False):
            if self._is_group_func(function) is of_group_functions:
                weights.append(weight)
        return weights

    async def _call_individual_reward_func(self, func: Any, state: State) -> float:
        return float(await call_by_name(func, **self.score_objects(state)))

    async def _call_group_reward_func(self, func: Any, states: Sequence[State]) -> Any:
        return await call_by_name(func, **self.group_score_objects(states))

    async def _call_cleanup_handler(self, handler: Callable[..., Any], state: State) -> None:
        await call_by_name(handler, **self.cleanup_objects(handler, state))

    # Hooks.

    def add_cleanup_handler(self, handler: Callable[..., Any]) -> None:
        """Call this function, too, after a rollout is scored, in the order of `cleanup_priority`."""

        def sort_key(hook: Callable[..., Any]) -> tuple[int, str]:
            return -getattr(hook, "cleanup_priority", 0), hook.__name__

        self.hooks["cleanup"].append(handler)
        self.hooks["cleanup"].sort(key=sort_key)

    async def call_hook(self, hook: Callable[..., Any], *args: Any) -> Any:
        """Call a cleanup hook with what it takes of a state, or a teardown hook with nothing."""
        if not args:
            return await super().call_hook(hook)
        [state] = args
        return await self._call_cleanup_handler(hook, state)

    async def cleanup(self, state: State) -> None:
        """Call the cleanup hooks of a scored rollout, here and in nested rubrics."""
        await self.call_all("cleanup", state)
        await call_on_rubrics("cleanup", self._list_nested(), state)

    async def teardown(self) -> None:
        """Call the teardown hooks, here and in nested rubrics, when the environment is closed."""
        await self.call_all("teardown")
        await call_on_rubrics("teardown", self._list_nested())

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("score_group", "score_rollout"):
            # A method that is assigned to a rubric counts like one that a subclass overrides.
            super().__setattr__("overridden", self.overridden | {name})


def _get_name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _convert_messages(fields: Any) -> None:
    """Make records of the messages in a prompt and a completion, in place."""
    for name in ("prompt", "completion"):
        chat = cast("list[Any] | None", fields.get(name))
        if type(chat) is list and chat and type(chat[0]) is dict:
            # A list that is not a chat is an error of the criterion that reads it.
            with suppress(TypeError, ValueError, KeyError):
                fields[name] = as_records(chat)


def _find_hidden_columns(state: Any) -> dict[str, Any]:
    """Return the columns with the name of a field of the state, such as `error`.

    In verifiers, a function that names one of them gets the column, not the field.
    """
    row: Any = state.get("input")
    if not isinstance(row, dict):
        return {}
    columns = cast("dict[str, Any]", row)
    names = (columns.keys() & state.keys()) - _STATE_FIELDS
    return {name: columns[name] for name in names}


async def call_on_rubrics(method: str, rubrics: Sequence[object], *args: Any) -> None:
    """Call a method of each of these rubrics that is one of verifiers, which ours do not have."""
    for rubric in rubrics:
        if isinstance(rubric, Rubric):
            await getattr(rubric, method)(*args)


def fill_with_zeros(metrics: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Return the metrics with 0.0 for each of these names without a value, as in verifiers."""
    missing = [name for name in names if name not in metrics]
    return {**metrics, **dict.fromkeys(missing, 0.0)}


class JudgeRubric(Rubric, assay.JudgeRubric):
    """Our `JudgeRubric`, with the arguments in the order of verifiers.

    A prompt need not show the response, for reward functions that ask the judge themselves. With
    `compat.strict = False` the judge is asked exactly as in verifiers: with its default prompt and
    model, the last message as `{question}`, no system prompt, no fence, and the temperature that
    the endpoint uses if none is given.
    """

    shows_answer = False

    def __init__(
        self,
        parser: Any = None,
        parallelize_scoring: bool = False,
        judge_client: Any = None,
        judge_model: Any = None,
        judge_prompt: str | None = None,
        **options: Any,
    ) -> None:
        # A program with one of our own options is not written for verifiers.
        has_our_options = bool(_OUR_JUDGE_OPTIONS & options.keys())
        self._asks_as_verifiers = not compat.strict and not has_our_options
        # Without functions, the judge's score is the reward. verifiers has no such default.
        self.judges_alone = compat.strict
        options.setdefault("hardened", compat.strict)
        if self._asks_as_verifiers:
            if judge_model is None:
                judge_model = DEFAULT_CLIENT_MODEL
            if judge_prompt in (None, DEFAULT_JUDGE_PROMPT):
                judge_prompt = VERIFIERS_JUDGE_PROMPT
        super().__init__(
            parser=parser,
            judge_client=judge_client,
            judge_model=judge_model,
            judge_prompt=judge_prompt,
            **options,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name.startswith("judge_") and "_system_prompt" in vars(self):
            self._read_settings()  # a program may change the prompt or the model at any time

    def _read_settings(self) -> None:
        super()._read_settings()
        if self._asks_as_verifiers:
            self._request_settings.setdefault("temperature", None)  # the endpoint's default

    def _collect_values(
        self, prompt: Any, completion: Any, answer: Any, fields: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the values of the placeholders in the judge's prompt."""
        values = super()._collect_values(prompt, completion, answer, fields)
        if self._asks_as_verifiers:
            values["question"] = _read_last_content(prompt)
            values["answer"] = str(answer)
            values["response"] = str(self.parser.parse_answer(completion))
        return values


# Verifiers' own prompt, which was the same in all versions of 0.1.
VERIFIERS_JUDGE_PROMPT = system_prompt("judge_answer", "assay.compat.verifiers")
# Options of our JudgeRubric that verifiers does not have.
_OUR_JUDGE_OPTIONS = frozenset({"judge_models", "client", "template"})


def _read_last_content(prompt: Any) -> str:
    """Return the content of a prompt's last message, or the prompt itself if it is a text."""
    if not isinstance(prompt, list):
        return str(prompt)
    messages = cast("list[Any]", prompt)
    if not messages or "content" not in messages[-1]:
        return ""
    return str(messages[-1]["content"])


class MathRubric(Rubric, assay.MathRubric):
    """Our `MathRubric`, with the parser of verifiers 0.1.12 and later: an answer must be in a box.

    With `compat.strict = False` a text without a box is the answer as a whole, as in 0.1.10.
    """

    def _default_parser(self) -> Parser:
        needs_box = compat.strict or self._strict
        return MaybeThinkParser(partial(extract_boxed_answer, strict=needs_box))

    def inherit_parser(self, parser: assay.Parser) -> None:
        """Use an environment's parser, unless it returns whole texts, in which no answer is marked."""
        returns_whole_text = type(parser) in _PLAIN_PARSERS and parser.extract_fn is identity
        if not returns_whole_text:
            super().inherit_parser(parser)


class RubricGroup(Rubric, assay.RubricGroup):
    """Our `RubricGroup`, with a reward that is always a number. It ignores `funcs=`, as in verifiers."""

    def __init__(
        self, rubrics: Any, *, funcs: Any = None, weights: Any = None, **options: Any
    ) -> None:
        if funcs:
            logger.warning("a RubricGroup scores only by its rubrics: it ignores funcs=")
        super().__init__(rubrics, **options)


class ToolRubric(Rubric, presets.ToolRubric):
    """Counts tool calls, without a weight, as in verifiers 0.1.2 to 0.1.8.

    The metrics are `total_tool_calls` and `{tool}_calls`. With `weights=` it is our own
    `ToolRubric`, which scores the answer, the calls and the format, as the guide of verifiers says.
    """

    def __init__(
        self, tools: Any = None, weights: Sequence[float] | None = None, **options: Any
    ) -> None:
        self._counts_calls = weights is None
        functions = list(tools or ())
        super().__init__(functions, weights, **options)
        self.tool_names: list[str] = list(self.tools)
        if self._counts_calls:
            self.tools = functions  # verifiers has a list here

    @property
    def oai_tools(self) -> list[dict[str, Any]]:
        return [convert_func_to_oai_tool(tool) for tool in self.tools]

    def _make_criteria(self, weights: Sequence[float] | None) -> list[Criterion]:
        """Return the criteria: without weights, metrics that count calls."""
        if weights is not None:
            return super()._make_criteria(weights)
        criteria = [Criterion.of(self.total_tool_calls, 0.0)]
        for name in self.tools:
            criteria.append(Criterion.of(self.get_tool_call_count_func(name), 0.0))
        return criteria

    def _default_parser(self) -> Parser:
        return Parser() if self._counts_calls else ToolParser()

    def total_tool_calls(self, completion: Any, **kwargs: Any) -> "AwaitableFloat":
        """Count the tool calls of all messages."""
        return AwaitableFloat(total_tool_calls(completion))

    def get_tool_call_count_func(self, tool_name: str) -> Callable[..., "AwaitableFloat"]:
        """Return a function that counts the calls of one tool."""
        count_calls = make_call_counter(tool_name)

        def count(completion: Any, **kwargs: Any) -> AwaitableFloat:
            return AwaitableFloat(count_calls(completion))

        count.__name__ = count_calls.__name__
        return count


class AwaitableFloat(float):
    """A number that may be awaited: verifiers 0.1.2 returns one, later versions a coroutine."""

    def __await__(self) -> Generator[Any, None, float]:
        yield from ()
        return float(self)


class ToolParser(XMLParser, tool_rubric.ToolParser):
    """Our parser of tool calls, as one of verifiers' parsers."""


class SmolaToolRubric(ToolRubric, presets.SmolaToolRubric):
    """Our own rubric for smolagents, also without `weights=`: verifiers 0.1 has none."""

    def __init__(
        self,
        tools: Any = None,
        weights: Sequence[float] = tool_rubric.DEFAULT_WEIGHTS,
        **options: Any,
    ) -> None:
        super().__init__(tools, weights, **options)


def warn_unscored(unscored_count: int, rollout_count: int) -> None:
    """Log that the rewards of unscored rollouts are numbers, which may be mistaken for scores."""
    logger.warning(
        "%d of %d rollouts are unscored, and get a number as their reward nevertheless, as in "
        "verifiers: leave out those with `errors`, or import Rubric from assay, where it is None",
        unscored_count,
        rollout_count,
    )
