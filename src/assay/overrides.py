"""Score by a subclass of Rubric that overrides `score`, `score_group` or `score_rollout`.

Whatever scores by such a rubric calls the override: a group, an environment, a run, a server. The
method that the caller called is used if the subclass overrides it, otherwise one that it does
override (`BaseRubric._choose_override`). The override writes `reward` and `metrics` into the state,
or returns a report. It may call the method of the base class, which then scores by the criteria.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from assay.aggregation import Totals, normalise
from assay.concurrency import FAILURES, is_stop_request, run_concurrently, set_variable
from assay.errors import RubricError, SignatureError
from assay.graders.grader import Grader, grader_of
from assay.graders.verdicts import to_finite_float
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import OUTPUTS, Rollout
from assay.types import ScoringMethod
from assay.wording import describe_error, format_value

if TYPE_CHECKING:
    from assay.base_rubric import BaseRubric

State: TypeAlias = MutableMapping[str, Any]

# In the order in which an override is looked for, if the method called is not overridden.
METHODS: Final[tuple[ScoringMethod, ...]] = ("score", "score_group", "score_rollout")

# The fields that scoring writes. A check may take `outcome`, which only a shaping writes.
_OUTPUT_FIELDS: Final = OUTPUTS | {"outcome"}


@dataclass(frozen=True)
class BaseResult:
    """What the method of the base class found about a state and wrote into it."""

    report: EvaluationReport
    reward: float | None
    metrics: Mapping[str, float]


@dataclass
class OverrideCall:
    """A call of an override that is in progress, for the base methods that it calls."""

    rubric: "BaseRubric"
    grader: Grader | None  # the grader given for this call
    # Whether the call was made on behalf of an enclosing rubric, a run or another method. What
    # made it writes timing and step rewards itself.
    is_nested: bool
    # Each state that the base class scored, with what it found, by the id of the state.
    base_results: dict[int, tuple[State, BaseResult]] = field(
        default_factory=dict[int, tuple[State, BaseResult]]
    )

    def find_base_result(self, state: State) -> BaseResult | None:
        """Return what the base class found about a state; None if it was not called."""
        state_and_result = self.base_results.get(id(state))
        if state_and_result is None:
            return None
        _, result = state_and_result
        return result


_CURRENT: ContextVar[OverrideCall | None] = ContextVar("override_call", default=None)


def current_call(rubric: "BaseRubric") -> OverrideCall | None:
    """Return the call of this rubric's override that is in progress; None if there is none."""
    call = _CURRENT.get()
    if call is None or call.rubric is not rubric:
        return None
    return call


def install_overrides(cls: type["BaseRubric"], base: type["BaseRubric"]) -> frozenset[str]:
    """Wrap the scoring methods that a class defines; return the names of those it overrides."""
    for name in METHODS:
        method = vars(cls).get(name)
        if inspect.iscoroutinefunction(method):
            setattr(cls, name, _track_calls(method))
    return frozenset(name for name in METHODS if getattr(cls, name) is not getattr(base, name))


def _track_calls(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an override so that `current_call` returns its call while it runs.

    Without this, a base method that the override calls would call the override again.
    """

    @wraps(method)
    async def wrapper(self: "BaseRubric", *args: Any, **options: Any) -> Any:
        if current_call(self) is not None:
            # Another override of this rubric called this one. That call is tracked already.
            return await method(self, *args, **options)
        call = OverrideCall(self, grader_of(options.get("judge")), is_nested=False)
        with set_variable(_CURRENT, call):
            returned = await method(self, *args, **options)
        # The base method may have written an error into a state that now has a reward.
        for state, base_result in call.base_results.values():
            _drop_outdated_error(state, base_result)
        return returned

    return wrapper


def _drop_outdated_error(state: State, base: BaseResult) -> None:
    """Remove the error "no criterion applies" from a state to which the override gave a reward."""
    wrote_reward = state.get("reward") != base.reward
    if wrote_reward and not base.report.applies and state.get("errors") == base.report.why_unscored:
        del state["errors"]


async def score_by_override(
    rubric: "BaseRubric",
    rollouts: Sequence[Rollout],
    grader: Grader | None,
    method: ScoringMethod,
) -> list[EvaluationReport]:
    """Return one report per rollout from an override; the states are left as they were."""
    if method == "score":  # which returns reports, and does not write into states
        # Passed only if there is one, since an override may not take it.
        options: dict[str, Any] = {} if grader is None else {"judge": grader}
        with set_variable(_CURRENT, OverrideCall(rubric, grader, is_nested=True)):
            return list(await rubric.score(rollouts, **options))
    states = [_as_state(rollout) for rollout in rollouts]
    with _outputs_restored(states):
        return await call_on_states(rubric, method, states, grader, is_nested=True)


def _as_state(rollout: Rollout) -> State:
    """Return the state that an override is called with.

    It is the rollout's own state if that has all fields of the rollout, and a copy otherwise.
    """
    if rollout.is_state and isinstance(rollout.state, MutableMapping):
        return rollout.state
    return {**rollout.state, **rollout.fields}


@contextmanager
def _outputs_restored(states: Sequence[State]) -> Generator[None]:
    """Take the outputs of earlier scoring out of the states, and put them back at the end."""
    earlier: list[dict[str, Any]] = []
    for state in states:
        earlier.append({name: state.pop(name) for name in _OUTPUT_FIELDS if name in state})
    try:
        yield
    finally:
        for state, outputs in zip(states, earlier, strict=True):
            for name in _OUTPUT_FIELDS:
                state.pop(name, None)
            state.update(outputs)


async def call_on_states(
    rubric: "BaseRubric",
    method: ScoringMethod,
    states: Sequence[State],
    grader: Grader | None,
    *,
    is_nested: bool = False,
) -> list[EvaluationReport]:
    """Call `score_group`, or `score_rollout` on each state; return one report per state."""
    if method == "score_group":
        call = OverrideCall(rubric, grader, is_nested)
        return await _call_override(call, "score_group", states)

    async def score_one(state: State) -> EvaluationReport:
        call = OverrideCall(rubric, grader, is_nested)
        [report] = await _call_override(call, "score_rollout", [state])
        return report

    return await run_concurrently(score_one, states)


async def _call_override(
    call: OverrideCall, method: ScoringMethod, states: Sequence[State]
) -> list[EvaluationReport]:
    """Call an override on some states, and return the report on each.

    While the call is current, the base class stores what it found in `call.base_results`. A
    failure is an error of every state, unless it is a fault of the rubric itself.
    """
    error: str | None = None
    returned: list[Any] = []
    try:
        with set_variable(_CURRENT, call):
            returned = await _call_scoring_method(call.rubric, method, states)
    except FAILURES as failure:
        is_fault_of_rubric = isinstance(failure, SignatureError | RubricError)
        if call.rubric.on_error == "raise" or is_stop_request(failure) or is_fault_of_rubric:
            raise
        error = describe_error(failure)
    name = f"{method} of {type(call.rubric).__name__}"
    reports: list[EvaluationReport] = []
    for index, state in enumerate(states):
        report: EvaluationReport | None = None
        if index < len(returned) and isinstance(returned[index], EvaluationReport):
            report = returned[index]
        base_result = call.find_base_result(state)
        reports.append(_report_on_state(name, state, report, base_result, error))
    return reports


async def _call_scoring_method(
    rubric: "BaseRubric", method: ScoringMethod, states: Sequence[State]
) -> list[Any]:
    """Call `score_group` with all states, or `score_rollout` with the only one.

    Return what it returned for each state; an empty list if `score_group` returned None. The method
    of a subclass need not be async, nor return reports.
    """
    scoring_method: Any = getattr(rubric, method)
    if method == "score_rollout":
        [state] = states
        return [await _await_if_needed(scoring_method(state))]
    returned = await _await_if_needed(scoring_method(states))
    return list(returned or ())


async def _await_if_needed(result: Any) -> Any:
    """Return what a plain function returned, or what an async one returns in the end."""
    if inspect.isawaitable(result):
        return await result
    return result


def _report_on_state(
    name: str,
    state: State,
    returned: EvaluationReport | None,
    base: BaseResult | None,
    error: str | None,
) -> EvaluationReport:
    """Return the report on a state that an override has scored.

    `name` is how errors call the override. `error` is the error that it raised, `returned` the
    report that it returned, and `base` what the base class found if the override called it; each is
    None if there is none. The override may also have written into the state. The first of these
    counts: an error, a reward in the state, metrics in the state, the returned report, the report
    of the base class.
    """
    known_report = returned
    if known_report is None and base is not None:
        known_report = base.report
    if error is not None:
        # An override often fails because the base class found no reward, which says more.
        if known_report is not None and not known_report.scored:
            return known_report
        return _report_error(name, error)
    if base is None:
        wrote_reward = "reward" in state
        wrote_metrics = "metrics" in state
    else:
        wrote_reward = state.get("reward") != base.reward
        wrote_metrics = state.get("metrics") != base.metrics
    if known_report is not None and not wrote_reward and not wrote_metrics:
        return known_report
    needs_reward = wrote_reward or known_report is None
    problem = _find_wrong_output(name, state, needs_reward=needs_reward)
    if problem is not None:
        return _report_error(name, problem)
    metrics: Mapping[str, Any] = state.get("metrics") or {}
    if known_report is not None and not wrote_reward:
        # Only the metrics were written, so the numbers of the known report stay.
        lines = _make_metric_lines(metrics, known_report)
        return known_report.model_copy(update={"report": lines})
    reward = cast("float", to_finite_float(state["reward"]))
    if known_report is not None and base is not None and _lacks_answer(known_report, base):
        # The report stays unscored, and the number is its partial reward.
        lines = _make_metric_lines(metrics, known_report)
        return known_report.model_copy(update={"report": lines, "partial_reward": reward})
    return _report_written_reward(reward, metrics, known_report)


def _lacks_answer(known_report: EvaluationReport, base: BaseResult) -> bool:
    """Return whether a criterion has no answer although the base class wrote a number.

    `assay.compat.verifiers` does that: it writes the sum of what was answered. What an override
    makes of that number is not a score either.
    """
    return known_report.asked > 0 and not known_report.scored and base.reward is not None


def _report_error(name: str, error: str) -> EvaluationReport:
    """Return a report whose only line is this error of the override."""
    return aggregate([CriterionReport(name=name, error=error)])


def _find_wrong_output(name: str, state: State, *, needs_reward: bool) -> str | None:
    """Return what is wrong with what an override wrote; None if it can be used."""
    if needs_reward and "reward" not in state:
        return f"TypeError: {name} wrote no reward and returned no report: do one of the two"
    reward = state.get("reward")
    if needs_reward and to_finite_float(reward) is None:
        return f"ValueError: {name} wrote {format_value(reward)} as the reward, not a finite number"
    metrics: Any = state.get("metrics") or {}
    if not isinstance(metrics, Mapping):
        return f"TypeError: {name} wrote {format_value(metrics)} as the metrics, not a mapping"
    return None


def _report_written_reward(
    reward: float, metrics: Mapping[str, Any], known_report: EvaluationReport | None
) -> EvaluationReport:
    """Return the report on a reward and metrics that an override wrote.

    `known_report` is the report that it returned, or that of the base class; None without one.
    """
    if (
        known_report is not None
        and known_report.raw_score == reward
        and known_report.metrics == metrics
    ):
        return known_report
    lines = _make_metric_lines(metrics, known_report)
    if known_report is None or not known_report.asked or not known_report.scored:
        # Nothing says how much could be gained, so the reward itself is the score.
        return EvaluationReport(
            score=reward,
            raw_score=reward,
            report=lines,
            gain=1.0,
            asked=1,
            answered=1,
            scale="raw",
        )
    score = normalise(Totals(reward, known_report.gain, known_report.loss), known_report.scale)
    # `worth` belonged to the score before.
    changes = {"score": score, "raw_score": reward, "report": lines, "worth": None}
    return known_report.model_copy(update=changes)


def _make_metric_lines(
    metrics: Mapping[str, Any], known_report: EvaluationReport | None
) -> list[CriterionReport]:
    """Return one line per metric, and the lines of the known report that have an error.

    A metric that the override changed or added has the weight 0. It keeps the error of its old
    line, so that a failed check stays visible.
    """
    known_lines = {} if known_report is None else {line.name: line for line in known_report.lines}
    lines: list[CriterionReport] = []
    for name, value in metrics.items():
        known_line = known_lines.pop(name, None)
        if known_line is not None and known_line.value == value:
            lines.append(known_line)
            continue
        error = None if known_line is None else known_line.error
        lines.append(
            CriterionReport(
                name=str(name),
                weight=0.0,
                value=to_finite_float(value),
                error=error,
                counted=False,
            )
        )
    for line in known_lines.values():
        if line.error is not None:
            lines.append(line.model_copy(update={"counted": False}))
    return lines
