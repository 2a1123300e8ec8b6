"""Prepare a rubric's criteria: whatever can fail when a rubric is built fails here."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from inspect import getattr_static
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from assay import isolation  # its modules are loaded when a check is isolated
from assay.aggregation import AGGREGATIONS, Aggregation, stakes
from assay.check_function import CheckFunction, WrapFunction
from assay.checks.check import BuiltinCheck
from assay.checks.content import Regex
from assay.checks.template import CheckTemplate, TemplateFunction
from assay.criterion import (
    BINARY_CHOICES,
    NOT_APPLICABLE,
    AskJudge,
    ColumnCondition,
    Condition,
    Criterion,
    is_scorer,
)
from assay.errors import MissingExtraError, RubricError
from assay.graders.grader import Grader
from assay.placeholders import has_placeholders, list_paths
from assay.report import Score
from assay.rollout import OUTPUTS
from assay.step_criteria import about_one_step, is_about_steps


class Traits(NamedTuple):
    """What a caller has to know about a rubric before it hands rollouts over."""

    # Whether it waits for a model, a process or a network, so that rollouts run concurrently.
    waits: bool = False
    # Whether an async function scores many rollouts at once, so that it should get many.
    takes_many: bool = False
    asks_model: bool = False  # whether a model answers anything, here or in a nested rubric
    # The criteria that compare the rollouts of a group, here or in a nested rubric.
    comparing_criteria: tuple[str, ...] = ()

    @classmethod
    def of(cls, scorer: object) -> "Traits":
        """Return the traits of a rubric; any other scorer is assumed to wait."""
        traits = getattr(scorer, "traits", None)
        return traits if isinstance(traits, Traits) else cls(waits=True)

    @classmethod
    def join(cls, parts: Sequence["Traits"]) -> "Traits":
        """Return the traits of a whole from those of its parts."""
        comparing = [name for part in parts for name in part.comparing_criteria]
        return cls(
            waits=any(part.waits for part in parts),
            takes_many=any(part.takes_many for part in parts),
            asks_model=any(part.asks_model for part in parts),
            comparing_criteria=tuple(dict.fromkeys(comparing)),
        )


class PlannedCriterion:
    """A criterion, its position in the rubric, and what is needed to ask it.

    There are four kinds. A judged criterion needs nothing. A check of steps has a `step_plan`,
    which asks about a single step. A nested rubric scores by itself. Any other check has a
    `function`, ready to call.
    """

    def __init__(self, index: int, criterion: Criterion) -> None:
        self.index = index
        self.criterion = criterion
        self.function: CheckFunction | None = None
        self.step_plan: Plan | None = None
        self.reads_completion = True  # whether it needs a completion that can be read
        # Whether its requirement is filled with the columns of each rollout.
        self.is_filled = False
        if criterion.judged:
            self.is_filled = has_placeholders(criterion.requirement)
            if self.is_filled:
                _refuse_unusable_columns(criterion, list_paths(criterion.requirement))
            return
        if criterion.scope != "rollout":
            self.step_plan = _plan_one_step(criterion)
        elif is_scorer(criterion.check):
            self.reads_completion = False  # a nested rubric reports what it cannot read
        else:
            self.function = _prepare_function(criterion)
            self.reads_completion = self.function.reads_completion

    @property
    def is_single(self) -> bool:
        """Whether a function answers about one rollout at a time."""
        return self.function is not None and not self.function.is_group

    @property
    def asks_model(self) -> bool:
        """Whether a model answers, itself or in a nested rubric."""
        return self.criterion.judged or self.traits.asks_model

    @property
    def compares(self) -> bool:
        """Whether it compares the rollouts of a group."""
        return bool(self.traits.comparing_criteria)

    @property
    def traits(self) -> Traits:
        """What it means for the rubric: see `Traits`.

        An async check of single rollouts waits, so that rollouts should run concurrently. An
        async group function does not have to: it gets many rollouts in one call.
        """
        if self.criterion.judged:
            return Traits(waits=True, asks_model=True)
        if self.step_plan is not None:
            return self.step_plan.planned[0].traits
        if self.function is None:
            return Traits.of(self.criterion.check)
        is_async = self.function.is_async
        is_group = self.function.is_group
        return Traits(
            waits=is_async and not is_group,
            takes_many=is_async and is_group,
            comparing_criteria=(self.criterion.name,) if self.function.compares else (),
        )


def _plan_one_step(criterion: Criterion) -> "Plan":
    """Return the plan by which a criterion is asked about a single step."""
    plan = Plan([about_one_step(criterion)], AGGREGATIONS["sum"])
    if plan.planned[0].compares:
        raise RubricError(
            f"criterion {criterion.name!r} scores a whole group but has a scope other than the "
            "rollout: drop one of the two"
        )
    return plan


def _prepare_function(criterion: Criterion) -> CheckFunction:
    """Return the function of a check; raise RubricError if an option does not fit it."""
    template = _find_template(criterion)
    if template is None:
        function = CheckFunction(criterion.check, criterion.name, criterion.thinking)
    else:
        function = TemplateFunction(template, criterion.name, criterion.thinking)
    if function.compares and criterion.when:
        raise RubricError(
            f"criterion {criterion.name!r} compares the rollouts of a group but has a `when`, "
            "which leaves some of them out: drop one of the two"
        )
    if criterion.isolate:
        if function.is_group:
            raise RubricError(
                f"criterion {criterion.name!r} scores a whole group, but only checks of single "
                "rollouts can be isolated: drop `isolate`"
            )
        function.wrap(_run_in_worker_processes(criterion), is_async=True)
    elif template is not None and template.kind is Regex:
        function.wrap(_search_for_pattern_of_row, is_async=True)
    return function


def _search_for_pattern_of_row(check: Any) -> Callable[..., Any]:
    """Return a function that searches here if that takes little time, otherwise in a worker process.

    The pattern comes with the data, so it may be made to hold up all other rows.
    """

    async def search_in_worker(*arguments: Any, **keywords: Any) -> Any:
        pool = isolation.shared_pool(Regex.__module__)
        timeout = check.timeout_seconds
        outcome = await pool.run(check, *arguments, timeout=timeout, keywords=keywords)
        return outcome.value if outcome.ok else Score.failed(outcome.message)

    def search(*arguments: Any, **keywords: Any) -> Any:
        if check.is_short(*arguments, **keywords):
            return check(*arguments, **keywords)
        return search_in_worker(*arguments, **keywords)

    return search


def _find_template(criterion: Criterion) -> CheckTemplate | None:
    """Return the check as a template if its arguments are filled with columns; otherwise None."""
    template: Any = criterion.check
    if isinstance(template, BuiltinCheck):
        template = CheckTemplate.of(template)
    if not isinstance(template, CheckTemplate):
        return None
    _refuse_unusable_columns(criterion, template.paths)
    return template


def list_columns(criterion: Criterion) -> list[str]:
    """Return the columns that a criterion is filled with or that the judge is shown.

    Those of the criteria in a nested rubric are included, except those of criteria with a `when`,
    which may apply to few rows.
    """
    paths = [*list_paths(criterion.requirement), *criterion.reference]
    template = _find_template(criterion)
    if template is not None:
        paths += template.paths
    nested: Sequence[Criterion] = getattr(criterion.check, "criteria", ())
    if is_scorer(criterion.check):
        for inner in nested:
            if not inner.when:
                paths += list_columns(inner)
    return list(dict.fromkeys(paths))


def _refuse_unusable_columns(criterion: Criterion, paths: Iterable[str]) -> None:
    """Raise RubricError if a criterion is filled with what a model wrote, or with a result."""
    for path in paths:
        column = path.partition(".")[0]
        if column == "completion":
            raise RubricError(
                f"criterion {criterion.name!r} is filled with {{{path}}}, which is what it is "
                f"about: name another column, or write {{{{{path}}}}} for literal braces"
            )
        if column in OUTPUTS:
            raise RubricError(
                f"criterion {criterion.name!r} is filled with {{{path}}}, which scoring writes: "
                f"name another column, or write {{{{{path}}}}} for literal braces"
            )


def _run_in_worker_processes(criterion: Criterion) -> WrapFunction:
    """Return what makes an async function of a check, which runs it in a worker process."""
    isolation.protocol.register_record(Score)
    try:
        module = isolation.protocol.pack_function(criterion.check).module
    except (TypeError, MissingExtraError) as error:
        raise RubricError(f"criterion {criterion.name!r} cannot be isolated: {error}") from error
    preloaded_modules = (module,) if module else ()

    def make_isolated(check: Callable[..., Any]) -> Callable[..., Any]:
        async def run_isolated(*arguments: Any, **keywords: Any) -> Any:
            pool = isolation.shared_pool(*preloaded_modules)
            timeout = criterion.timeout
            outcome = await pool.run(check, *arguments, timeout=timeout, keywords=keywords)
            return outcome.value if outcome.ok else Score.failed(outcome.message)

        return run_isolated

    return make_isolated


class CheckSequence:
    """Adjacent checks of single rollouts, called one after the other about each rollout."""

    def __init__(self) -> None:
        self.checks: list[tuple[PlannedCriterion, CheckFunction]] = []
        self.is_async = False  # whether any of the checks is
        self.is_conditional = False  # whether a `when` decides about any of the checks

    def append(self, planned: PlannedCriterion, function: CheckFunction) -> None:
        self.checks.append((planned, function))
        self.is_async = self.is_async or function.is_async
        self.is_conditional = self.is_conditional or bool(planned.criterion.when)


# What code answers, in the order in which it is asked: checks of single rollouts; or one group
# function, nested rubric or check of steps, which is asked about all rollouts at once.
CodePart: TypeAlias = CheckSequence | PlannedCriterion


@dataclass(frozen=True, slots=True)
class Stage:
    """Criteria that can be asked at the same time, since none depends on another of them."""

    code: Sequence[CodePart]  # answered by code
    judged: Sequence[PlannedCriterion]  # answered by a model


class Plan:
    """A rubric's criteria, checked and ready to be asked."""

    def __init__(
        self,
        criteria: Sequence[Criterion],
        aggregation: Aggregation,
        *,
        ask_judge: AskJudge = "always",
        planned: Sequence[PlannedCriterion] = (),
    ) -> None:
        """`planned` holds the first of the criteria if they were planned before.

        Reading the signatures of a thousand checks again for each one that is added would take
        seconds.
        """
        _refuse_negative_weights_of_tree(criteria, aggregation)
        names = [criterion.name for criterion in criteria]
        criteria = [_find_column_conditions(criterion, names) for criterion in criteria]
        self.criteria = tuple(criteria)
        self.aggregation = aggregation
        self.planned = list(planned)
        for index in range(len(planned), len(criteria)):
            self.planned.append(PlannedCriterion(index, criteria[index]))
        self.names = tuple(criterion.name for criterion in criteria)
        self.weights = tuple(criterion.weight for criterion in criteria)
        # The largest possible gain and loss: the sums of the positive and negative weights.
        self.gain, self.loss = stakes(self.weights)
        self.counted_count = sum(criterion.counts for criterion in criteria)
        self.is_judged = any(criterion.judged for criterion in criteria)
        self.is_about_steps = any(map(is_about_steps, criteria))
        # The nested rubrics, and whatever else scores by itself.
        self.scorers = [c.check for c in criteria if is_scorer(c.check)]
        has_exceptions = any(c.required or c.report_only or c.when for c in criteria)
        # The checks that a rollout has to pass before the judge is asked about it.
        self.gate: list[PlannedCriterion] = []
        if ask_judge == "if_checks_pass":
            self.gate = [p for p in self.planned if p.criterion.counts and not p.asks_model]
        # Whether the reward is always the weighted sum of all answers: there is no veto, no
        # condition and no report-only criterion.
        self.is_weighted_sum = (
            aggregation.sums and self.counted_count > 0 and not has_exceptions and not self.gate
        )
        self.stages = [self._make_stage(names) for names in self._split_into_stages()]

    def _make_stage(self, names: Collection[str]) -> Stage:
        """Return the criteria with these names as a stage: what code and what the judge answers.

        Adjacent checks of single rollouts are joined into a sequence.
        """
        code: list[CodePart] = []
        judged: list[PlannedCriterion] = []
        for planned in self.planned:
            if planned.criterion.name not in names:
                continue
            if planned.criterion.judged:
                judged.append(planned)
            elif planned.function is None or planned.function.is_group:
                code.append(planned)
            else:
                previous = code[-1] if code else None
                if isinstance(previous, CheckSequence):
                    sequence = previous
                else:
                    sequence = CheckSequence()
                    code.append(sequence)
                sequence.append(planned, planned.function)
        return Stage(code, judged)

    def _split_into_stages(self) -> Iterator[Collection[str]]:
        """Yield the names of criteria that can be asked together, after those they depend on."""
        by_name = {criterion.name: criterion for criterion in self.criteria}
        gate_names = [planned.criterion.name for planned in self.gate]
        sorter = TopologicalSorter[str]()
        for planned in self.planned:
            criterion = planned.criterion
            _refuse_impossible_condition(criterion, by_name)
            depends_on = [condition.criterion for condition in criterion.verdict_conditions]
            sorter.add(criterion.name, *depends_on)
            if gate_names and planned.asks_model:
                sorter.add(criterion.name, *gate_names)
        try:
            sorter.prepare()
        except CycleError as error:
            cycle = ", ".join(map(repr, dict.fromkeys(error.args[1])))
            if self.gate:
                raise RubricError(
                    f"the `when` of {cycle} form a cycle, since ask_judge is 'if_checks_pass': "
                    "a check that counts cannot depend on the judge"
                ) from None
            raise RubricError(f"the `when` of {cycle} form a cycle: break it") from None
        while sorter:
            ready = sorter.get_ready()
            yield ready
            sorter.done(*ready)

    def refuse_missing_grader(self, grader: Grader | None) -> None:
        """Raise RubricError if a model is to judge a criterion and there is no grader."""
        if grader is not None or not self.is_judged:
            return
        for number, criterion in enumerate(self.criteria, start=1):
            if criterion.judged:
                raise RubricError(
                    f"criterion {number} ({criterion.requirement!r}) is judged by a model, "
                    "but no judge was named: give judge= in Python, as in "
                    "judge='openai/gpt-5-mini', or --judge on the command line"
                )


def _refuse_negative_weights_of_tree(
    criteria: Sequence[Criterion], aggregation: Aggregation
) -> None:
    """Raise RubricError for a negative weight in a tree."""
    for criterion in criteria:
        if aggregation.name == "tree" and criterion.weight < 0:
            raise RubricError(
                f"criterion {criterion.name!r} has the weight {criterion.weight}, but a tree has "
                "no negative weights: state the requirement positively, or use another aggregation"
            )


def _find_column_conditions(criterion: Criterion, names: Sequence[str]) -> Criterion:
    """Return the criterion with its conditions on columns as `ColumnCondition`.

    In their short form they look like conditions on criteria. A condition is on a column if the
    rubric has no criterion of that name and the value is not one of the usual verdicts, which only
    a criterion has.
    """
    usual_verdicts = {*BINARY_CHOICES, NOT_APPLICABLE}
    conditions: list[Condition | ColumnCondition] = []
    for condition in criterion.when:
        if isinstance(condition, Condition) and condition.criterion not in names:
            has_usual_verdict = not usual_verdicts.isdisjoint(condition.verdicts)
            if condition.verdicts and not has_usual_verdict:
                condition = ColumnCondition(condition.criterion, condition.verdicts)
        conditions.append(condition)
    if tuple(conditions) == criterion.when:
        return criterion
    return criterion.with_fields(when=tuple(conditions))


def _refuse_impossible_condition(criterion: Criterion, by_name: Mapping[str, Criterion]) -> None:
    """Raise RubricError if a `when` names an unknown criterion or a verdict it does not offer."""
    for other_name, verdicts in criterion.verdict_conditions:
        condition = f"criterion {criterion.name!r} is asked when {other_name!r}"
        if other_name not in by_name:
            raise RubricError(
                f"{condition} holds, but there is no such criterion: name one of "
                f"{', '.join(by_name)}; for a column write {{column: {other_name}, is: VALUE}}"
            )
        offered = (*by_name[other_name].choices, NOT_APPLICABLE)
        for verdict in verdicts:
            if verdict in offered:
                continue
            advice = f"name one of {', '.join(offered)}"
            if not isinstance(verdict, str):
                advice += f", in quotes; for a column write {{column: {other_name}, is: {verdict}}}"
            raise RubricError(
                f"{condition} is {verdict!r}, which is not one of its verdicts: {advice}"
            )


def make_names_unique(
    criteria: Sequence[Criterion], taken: Collection[str] = ()
) -> list[Criterion]:
    """Return the criteria with unique names: `length`, `length_2`.

    A criterion without a name gets one, such as `check_1` for a lambda.
    """
    used = set(taken)
    repeats: Counter[str] = Counter()
    named: list[Criterion] = []
    for number, criterion in enumerate(criteria, start=len(used) + 1):
        base = criterion.name
        if not base:
            kind = "criterion" if criterion.judged else "check"
            base = f"{kind}_{number}"
        name = base
        while name in used:
            repeats[base] += 1
            name = f"{base}_{repeats[base] + 1}"
        used.add(name)
        if name != criterion.name:
            criterion = criterion.with_fields(name=name)
        named.append(criterion)
    return named


def bind_method(owner: object, check: Any) -> Any:
    """Bind a check that is a method of the owner's class; return any other check as it is."""
    if isinstance(check, FunctionType):
        for cls in type(owner).__mro__[:-1]:
            if getattr_static(cls, check.__name__, None) is check:
                return check.__get__(owner)
    return check
