"""Ask a rubric's criteria about rollouts, and make one report per rollout.

`ask_criteria` collects the answers, stage by stage; `make_reports` adds them up.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from assay.aggregation import Scale, normalise_sum, weighted_sum
from assay.check_function import CheckFunction
from assay.concurrency import (
    FAILURES,
    call_in_thread,
    is_stop_request,
    run_concurrently,
    set_variable,
)
from assay.criterion import MAX_MAGNITUDE, Criterion
from assay.errors import ColumnError, JudgeError, RubricError, SignatureError
from assay.graders.columns import fill_requirement, show_reference
from assay.graders.grader import Grader, JudgeAnswer, ask_grader
from assay.graders.judge_input import JudgeInput, build_judge_input
from assay.graders.verdicts import check_score, score_verdict, to_finite_float
from assay.models.budgets import (
    calls_about,
    has_stand_ins,
    is_dry_run,
    raise_if_price_unknown,
    rollout_spending,
)
from assay.models.model import has_room
from assay.plan import CheckSequence, Plan, PlannedCriterion, Stage
from assay.reasoning import Thinking
from assay.redaction import get_logger
from assay.report import (
    UNASKED,
    Answer,
    CriterionReport,
    EvaluationReport,
    Score,
    aggregate,
    aggregate_answers,
    make_line,
)
from assay.rollout import ReadCompletion, Rollout
from assay.step_criteria import (
    compute_turn_rewards,
    join_answers_about_steps,
    questions_by_step,
    split_into_steps,
)
from assay.trajectory import combine_steps, read_steps
from assay.types import OnError, ScoringMethod
from assay.wording import describe_error, format_value

logger = get_logger("assay")

CHUNK = 512  # how many rollouts are scored before other tasks of the event loop get a turn


# How many steps of a rollout are checked together. Each holds all messages before it.
STEP_CHUNK = 64


class ScoringContext(NamedTuple):
    """The criteria and the settings of one scoring call."""

    plan: Plan
    class_objects: Mapping[str, Any]  # what checks may name besides the fields of a rollout
    grader: Grader | None
    on_error: OnError
    read_completion: ReadCompletion
    # The scoring method that the caller called; nested rubrics get it too.
    called_method: ScoringMethod = "score"
    version: str = ""  # of the rubric, for the reports

    @property
    def scale(self) -> Scale:
        """The scale that the grader asks for, else that of the rubric."""
        asked_for = None if self.grader is None else self.grader.scale
        return asked_for or self.plan.aggregation.scale

    def record_failure(self, error: BaseException) -> Score:
        """Return the answer of a failed question; raise if errors are raised or we must stop."""
        if self.on_error == "raise" or is_stop_request(error):
            raise error
        return Score.failed(error)


class RolloutAnswers:
    """The answers about one rollout while it is scored, one per criterion."""

    # The report of a grader that judges the rubric as a whole, and the positions of the criteria
    # that it stands for, which have no answers of their own.
    grader_report: EvaluationReport | None = None
    judged_as_whole: frozenset[int] = frozenset()
    unreadable: str | None = None  # why the completion cannot be read
    # Why the judge is not asked: see `_find_gate_failure`. "unknown" until that is decided.
    gate_failure: "_GateFailure | Literal['unknown'] | None" = "unknown"
    shown: str = ""  # what judges were shown, if not everything

    def __init__(self, rollout: Rollout, size: int) -> None:
        self.rollout = rollout
        self.answers: list[Answer] = [UNASKED] * size


async def ask_criteria(
    rollouts: Sequence[Rollout], context: ScoringContext
) -> list[RolloutAnswers]:
    """Ask every criterion about every rollout."""
    plan = context.plan
    plan.refuse_missing_grader(context.grader)
    results: list[RolloutAnswers] = []
    for rollout in rollouts:
        result = RolloutAnswers(rollout, len(plan.criteria))
        # Criteria can read a plain completion as it is.
        if not rollout.has_plain_completion or plan.is_about_steps:
            _read_completion(result, context)
        results.append(result)
    if not results:
        return results
    for stage in plan.stages:
        if not stage.judged:
            await _ask_code(stage, results, context)
        elif not stage.code:
            await _ask_grader(stage, results, context)
        else:
            await _ask_code_and_grader(stage, results, context)
    return results


def _read_completion(result: RolloutAnswers, context: ScoringContext) -> None:
    """Convert the completion to the form that criteria read, or note why it is unreadable."""
    try:
        result.rollout = result.rollout.with_readable_completion(context.read_completion)
        if context.plan.is_about_steps:
            # Only for its errors: steps that cannot be read make the rollout unreadable.
            read_steps(result.rollout.fields, "step")
    except RecursionError:
        if context.on_error == "raise":
            raise
        result.unreadable = "ValueError: the rollout is nested too deep to be read: flatten it"
    except Exception as error:  # a completion may be any object, whose attributes raise anything
        if context.on_error == "raise":
            raise
        result.unreadable = describe_error(error)


async def _ask_code_and_grader(
    stage: Stage, results: Sequence[RolloutAnswers], context: ScoringContext
) -> None:
    """Run the checks while the grader is asked."""

    async def ask(function: Callable[..., Awaitable[None]]) -> None:
        await function(stage, results, context)

    await run_concurrently(ask, [_ask_code, _ask_grader])


async def _ask_code(
    stage: Stage, results: Sequence[RolloutAnswers], context: ScoringContext
) -> None:
    """Run the checks of a stage in the order listed.

    A later check may read what an earlier one left in the state.
    """
    for part in stage.code:
        if isinstance(part, CheckSequence):
            await SingleChecks(part, context).check_all(results)
        else:
            await _ask_about_all(part, results, context)


def _answer_without_asking(
    planned: PlannedCriterion, result: RolloutAnswers, context: ScoringContext
) -> Score | None:
    """Return the answer of a criterion that must not be asked; None if it must be asked.

    It is not asked if it is for the judge and a check of the gate failed, if its `when` does not
    hold, or if it reads a completion that is unreadable.
    """
    criterion = planned.criterion
    # In a dry run on stand-ins for the real texts, the answers of checks mean nothing. Whatever
    # depends on them then counts as asked.
    checks_are_unknown = is_dry_run() and has_stand_ins()
    answer: Score | None = None
    if context.plan.gate and planned.asks_model and not checks_are_unknown:
        answer = _answer_by_gate(criterion, result, context)
    if answer is None and criterion.when:
        answer = _answer_by_column_conditions(criterion, result, context)
    if answer is None and criterion.when and not checks_are_unknown:
        answer = _answer_by_verdict_conditions(criterion, result, context)
    if answer is None and result.unreadable is not None and planned.reads_completion:
        answer = Score.failed(result.unreadable)
    return answer


def _answer_by_gate(
    criterion: Criterion, result: RolloutAnswers, context: ScoringContext
) -> Score | None:
    """Return the answer if a check of the gate failed; None if the judge may be asked."""
    if result.gate_failure == "unknown":
        result.gate_failure = _find_gate_failure(result, context)
    if result.gate_failure is None:
        return None
    return result.gate_failure.make_answer(criterion)


def _answer_by_column_conditions(
    criterion: Criterion, result: RolloutAnswers, context: ScoringContext
) -> Score | None:
    """Return the answer if a condition on a column does not hold; None if all of them hold."""
    for condition in criterion.column_conditions:
        try:
            holds = condition.holds(result.rollout.columns)
        except ColumnError as error:
            return context.record_failure(error)
        if not holds:
            wanted = " or ".join(map(str, condition.values))
            return _make_unasked(criterion, f"{condition.column!r} is not {wanted}")
    return None


def _answer_by_verdict_conditions(
    criterion: Criterion, result: RolloutAnswers, context: ScoringContext
) -> Score | None:
    """Return the answer if a condition on another criterion does not hold; None if all hold."""
    plan = context.plan
    for name, verdicts in criterion.verdict_conditions:
        index = plan.names.index(name)
        if index in result.judged_as_whole:
            return Score.failed(
                f"JudgeError: it depends on {name!r}, which was judged only as part of the whole"
            )
        line = make_line(plan.criteria[index], result.answers[index])
        if line.error is not None and is_dry_run():
            continue  # the judge was not asked, so the question may have to be asked: count it
        if line.error is not None:
            return Score.failed(f"JudgeError: it depends on {name!r}, which has no answer")
        # Without verdicts, the other criterion has to pass.
        holds = line.verdict in verdicts if verdicts else line.passed
        if not holds:
            return _make_unasked(criterion, f"{name!r} is {line.verdict or line.value}")
    return None


def _make_unasked(criterion: Criterion, reason: str) -> Score:
    """Return the answer to a criterion whose `when` does not hold."""
    if criterion.when_false == "unmet":
        return _make_unmet(criterion, reason)
    return Score.not_applicable(reason)


def _make_unmet(criterion: Criterion, reason: str) -> Score:
    """Return the lowest answer to a criterion that is not asked."""
    return Score(
        value=0.0, reason=f"not asked: {reason}", verdict=criterion.choices[0], asked=False
    )


class _GateFailure(NamedTuple):
    """Why the judge is not asked about a rollout."""

    reason: str  # which check failed
    error: str | None = None  # set if no check failed, but one has no answer

    def make_answer(self, criterion: Criterion) -> Score:
        """Return the answer of a criterion that is for the judge."""
        if self.error is not None:
            return Score.failed(self.error)
        if criterion.weight < 0:
            # The lowest answer would say that the fault is absent.
            return Score.not_applicable(self.reason)
        return _make_unmet(criterion, self.reason)


def _find_gate_failure(result: RolloutAnswers, context: ScoringContext) -> _GateFailure | None:
    """Return why the judge is not asked about a rollout; None if all checks of the gate pass.

    A check that does not apply is passed over.
    """
    without_answer = ""
    for planned in context.plan.gate:
        line = make_line(planned.criterion, result.answers[planned.index])
        if line.error is not None:
            without_answer = without_answer or line.name
        elif line.passed is False:
            return _GateFailure(f"{line.name!r} is {line.verdict or line.value}")
    if without_answer:
        return _GateFailure(
            reason="",
            error=f"JudgeError: it depends on {without_answer!r}, which has no answer",
        )
    return None


# Criteria that functions answer about single rollouts.


# Whether plain functions are called in threads, so that one that blocks holds up its rollout only.
# Set where a deadline must hold while judges are asked in the same event loop.
checks_use_threads: ContextVar[bool] = ContextVar("checks_use_threads", default=False)


class SingleChecks:
    """A sequence of checks, called about each rollout in the order listed."""

    def __init__(self, sequence: CheckSequence, context: ScoringContext) -> None:
        self.checks = sequence.checks
        self.is_conditional = sequence.is_conditional
        self.uses_threads = checks_use_threads.get()
        # Whether a check has to be awaited. A plain function may turn out to return an awaitable.
        self.must_await = sequence.is_async or self.uses_threads
        self.context = context

    async def check_all(self, results: Sequence[RolloutAnswers]) -> None:
        """Check rollouts one by one until a check has to be awaited, then concurrently."""
        # What `_check_in_order` takes from the iterator is no longer in it below.
        remaining = iter(results)
        if not self.must_await:
            await self._check_in_order(remaining)
        others = list(remaining)
        if others:
            await run_concurrently(lambda result: self._check_in_order([result]), others)

    async def _check_in_order(self, results: Iterable[RolloutAnswers]) -> None:
        """Fill in the answers about these rollouts; stop after one for which a check was awaited."""
        context = self.context
        class_objects = context.class_objects
        for number, result in enumerate(results, start=1):
            rollout = result.rollout
            answers = result.answers
            may_skip = self.is_conditional or result.unreadable is not None
            for planned, function in self.checks:
                answer: Any = None
                if may_skip:
                    answer = _answer_without_asking(planned, result, context)
                if answer is None:
                    try:
                        if self.uses_threads and not function.is_async:
                            answer = _call_in_thread(function, rollout, class_objects)
                        else:
                            answer = function.call(rollout, class_objects)
                    except FAILURES as error:
                        answer = self._record_failure(error)
                # Nearly all checks return a float or a bool; the rest may have to be awaited.
                if type(answer) is float:
                    is_usual = -MAX_MAGNITUDE <= answer <= MAX_MAGNITUDE
                else:
                    is_usual = type(answer) is bool
                if not is_usual:
                    if inspect.isawaitable(answer):
                        self.must_await = True
                        with calls_about(rollout.state, [planned.criterion]):
                            answer = await _settle(planned.criterion, answer, context)
                    else:
                        answer = await _settle(planned.criterion, answer, context)
                answers[planned.index] = answer
            if self.must_await:
                return
            if number % CHUNK == 0:
                await asyncio.sleep(0)  # let other tasks run

    def _record_failure(self, error: BaseException) -> Score:
        # A function that is not awaited cannot be cancelled, so only Ctrl-C means to stop.
        if self.context.on_error == "raise" or isinstance(error, KeyboardInterrupt):
            raise error
        return Score.failed(error)


async def _call_in_thread(
    function: CheckFunction, rollout: Rollout, class_objects: Mapping[str, Any]
) -> Any:
    value: Any = await call_in_thread(partial(function.call, rollout, class_objects))
    return await value if inspect.isawaitable(value) else value


async def _settle(criterion: Criterion, value: Any, context: ScoringContext) -> Answer:
    """Await what a check returned if it has to be awaited, and convert it to an answer."""
    try:
        if inspect.isawaitable(value):
            value = await value
        return coerce_answer(criterion, value)
    except FAILURES as error:
        return context.record_failure(error)


def coerce_answer(criterion: Criterion, value: Any) -> Answer:
    """Convert what a check returned to an answer; an invalid value becomes an error."""
    if isinstance(value, Score):
        return check_score(criterion, value)
    if isinstance(value, str) and value in criterion.values:
        return score_verdict(criterion, value)
    if isinstance(value, bool):
        return value
    number = to_finite_float(value)
    if number is None:
        return Score.failed(
            f"ValueError: the check returned {format_value(value)}, not a finite number"
        )
    return number


# Criteria that are asked about all rollouts at once: group functions, nested rubrics, and checks
# of steps.

AskAboutAll: TypeAlias = Callable[
    [PlannedCriterion, Sequence[Rollout], ScoringContext], Awaitable[list[Answer]]
]


async def _ask_about_all(
    planned: PlannedCriterion, results: Sequence[RolloutAnswers], context: ScoringContext
) -> None:
    """Store the answers of a criterion that needs all rollouts at once.

    It is not asked about rollouts whose answer is known without asking.
    """
    asked: list[RolloutAnswers] = []
    for result in results:
        answer = _answer_without_asking(planned, result, context)
        if answer is None:
            asked.append(result)
        else:
            result.answers[planned.index] = answer
    if not asked:
        return
    if planned.step_plan is not None:
        ask = _check_steps
    elif planned.function is not None:
        ask = _call_group_function
    else:
        ask = _score_by_nested_rubric
    answers = await _ask_all_or_each(ask, planned, [result.rollout for result in asked], context)
    for result, answer in zip(asked, answers, strict=True):
        result.answers[planned.index] = answer


async def _ask_all_or_each(
    ask: AskAboutAll,
    planned: PlannedCriterion,
    rollouts: Sequence[Rollout],
    context: ScoringContext,
) -> list[Answer]:
    """Ask about all rollouts at once; if that fails, ask about each one alone.

    Only the rollouts at fault then lack an answer, unless the criterion compares the rollouts.
    """
    try:
        return await ask(planned, rollouts, context)
    except FAILURES as error:
        failure = context.record_failure(error)
    if len(rollouts) == 1:
        return [failure]
    if planned.compares:
        explanation = (
            f"it compares the {len(rollouts)} rollouts of the group, so none of them has an answer"
        )
        return [Score.failed(f"{failure.error} ({explanation})")] * len(rollouts)

    async def ask_about_one(rollout: Rollout) -> Answer:
        [answer] = await _ask_all_or_each(ask, planned, [rollout], context)
        return answer

    return await run_concurrently(ask_about_one, rollouts)


async def _call_group_function(
    planned: PlannedCriterion, rollouts: Sequence[Rollout], context: ScoringContext
) -> list[Answer]:
    """Call a group function about all rollouts that have its arguments.

    A function that compares the rollouts must get all of them: if one lacks an argument, the call
    raises, and no rollout has an answer.
    """
    function = planned.function
    assert function is not None
    answers: list[Answer] = [UNASKED] * len(rollouts)
    complete: list[int] = []  # the indices of the rollouts that the function is called about
    for index, rollout in enumerate(rollouts):
        missing = None
        if not function.compares:
            missing = function.find_missing(rollout, context.class_objects)
        if missing is None:
            complete.append(index)
        else:
            answers[index] = context.record_failure(missing)
    if not complete:
        return answers
    group = [rollouts[index] for index in complete]
    values = function.call_for_group(group, context.class_objects)
    if inspect.isawaitable(values):
        values = await values
    column = _read_group_values(values, len(group))
    settled = await run_concurrently(
        lambda value: _settle(planned.criterion, value, context), column
    )
    for index, answer in zip(complete, settled, strict=True):
        answers[index] = answer
    return answers


def _read_group_values(values: Any, size: int) -> list[Any]:
    """Return the values that a group function gave; raise ValueError unless one per rollout."""
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__iter__"):
        returned = format_value(cast("object", values))
        raise ValueError(f"the group function returned {returned}: return a list of {size} numbers")
    column = list(values)
    if len(column) != size:
        raise ValueError(
            f"the group function returned {len(column)} numbers for {size} rollouts: "
            "return one per rollout"
        )
    return column


async def _check_steps(
    planned: PlannedCriterion, rollouts: Sequence[Rollout], context: ScoringContext
) -> list[Answer]:
    """Run a check on every step of each rollout, and join the answers about each rollout."""
    step_plan = planned.step_plan
    assert step_plan is not None
    step_context = ScoringContext(
        plan=step_plan,
        class_objects=context.class_objects,
        grader=context.grader,
        on_error=context.on_error,
        read_completion=context.read_completion,
        called_method=context.called_method,
    )

    async def check_steps_of(rollout: Rollout) -> Answer:
        """Return the combined answer about all steps of a rollout, which are checked in chunks."""
        try:
            steps = split_into_steps(rollout, planned.criterion)
        except RubricError as error:  # too many steps
            return context.record_failure(error)
        addresses: list[str] = []
        answers: list[Answer] = []
        while chunk := list(islice(steps, STEP_CHUNK)):
            addresses += [address for address, _ in chunk]
            results = await ask_criteria([step for _, step in chunk], step_context)
            answers += [result.answers[0] for result in results]  # the only criterion
        return combine_steps(planned.criterion, addresses, answers)

    return await run_concurrently(check_steps_of, rollouts)


async def _score_by_nested_rubric(
    planned: PlannedCriterion, rollouts: Sequence[Rollout], context: ScoringContext
) -> list[Answer]:
    """Score rollouts by a nested rubric; its normalised score is the answer.

    A rubric without a grader of its own is given the grader of this call.
    """
    scorer: Any = planned.criterion.check
    needs_grader = hasattr(scorer, "grader") and scorer.grader is None
    grader = context.grader if needs_grader else None
    if hasattr(scorer, "score_all"):
        # A rubric. If it overrides the method that the outer rubric was called by, this calls it.
        reports = await scorer.score_all(rollouts, grader, context.called_method)
    else:
        # Passed only if there is one, since the method may not take it.
        options = {} if grader is None else {"judge": grader}
        # Any other object with a method `score` that returns reports.
        reports = await scorer.score(rollouts, **options)
    if len(reports) != len(rollouts):
        raise ValueError(f"it returned {len(reports)} reports for {len(rollouts)} rollouts")
    return [_convert_nested_report(report) for report in reports]


def _convert_nested_report(report: EvaluationReport) -> Score:
    """Return the report of a nested rubric as the answer of one criterion."""
    lines = tuple(report.lines)
    if not report.applies and any(line.counted for line in lines):
        reason = "none of its weighted criteria applies to this rollout"
        return Score.not_applicable(reason)._replace(lines=lines)
    if report.score is None:
        errors = [f"{name}: {error}" for name, error in report.errors.items()]
        message = "; ".join(errors) or "it has no weighted criterion"
        return Score(error=f"GradingError: {message}", lines=lines)
    reason = f"judges were shown: {report.shown}" if report.shown else ""
    return Score(report.score, reason, lines=lines)


# Criteria that a model judges.


async def _ask_grader(
    stage: Stage, results: Sequence[RolloutAnswers], context: ScoringContext
) -> None:
    """Ask the grader about each rollout, all judged criteria of a rollout at once."""
    grader = context.grader
    assert grader is not None
    models = grader.models()
    raise_if_price_unknown(models)

    def models_have_room() -> bool:
        return all(has_room(model) for model in models)

    # A rollout is begun only when its calls would be sent soon. Its prompts then follow each
    # other closely, while the endpoint still has the prefix that they share in its cache.
    await run_concurrently(
        partial(_judge_rollout, stage.judged, grader, context),
        results,
        has_room=models_have_room if models else None,
    )


async def _judge_rollout(
    judged: Sequence[PlannedCriterion],
    grader: Grader,
    context: ScoringContext,
    result: RolloutAnswers,
) -> None:
    """Fill in the grader's answers about one rollout.

    A grader that judges the rubric as a whole returns one report instead of answers.
    """
    asked: list[_Question] = []
    for planned in judged:
        answer = _answer_without_asking(planned, result, context)
        if answer is None:
            question = _prepare_question(planned, result.rollout, context)
            if isinstance(question, Score):
                answer = question
            else:
                asked.append(_Question(planned, question))
        if answer is not None:
            result.answers[planned.index] = answer
    if not asked:
        return
    by_view: dict[_View, list[_Question]] = {}
    for question in asked:
        criterion = question.criterion
        view = _View(criterion.thinking, criterion.reference)
        by_view.setdefault(view, []).append(question)
    # The criteria of a group read the same text. There is nearly always one group.
    for view, group in by_view.items():
        criteria = [question.criterion for question in group]
        try:
            with calls_about(result.rollout.state, criteria):
                reply = await _ask_questions(criteria, grader, context, result, view)
        except FAILURES as error:
            reply = [context.record_failure(error)] * len(group)
        _record_reply(reply, group, result)


class _View(NamedTuple):
    """What a judge reads of a rollout."""

    thinking: Thinking | None
    reference: tuple[str, ...]  # the columns that are shown as the reference


class _Question(NamedTuple):
    """A criterion of the rubric, and the same criterion as the judge is asked about a rollout."""

    planned: PlannedCriterion
    criterion: Criterion


def _prepare_question(
    planned: PlannedCriterion, rollout: Rollout, context: ScoringContext
) -> Criterion | Score:
    """Return what the judge is asked; a failed score if the rollout lacks a column for it."""
    if not planned.is_filled:
        return planned.criterion
    try:
        return fill_requirement(planned.criterion, rollout.columns)
    except ColumnError as error:
        return context.record_failure(error)


def _record_reply(reply: JudgeAnswer, asked: Sequence[_Question], result: RolloutAnswers) -> None:
    """Fill in the answers to the criteria that were asked, or the report for all of them."""
    if isinstance(reply, EvaluationReport):
        reply = _restore_requirements(reply, asked)
        earlier = result.grader_report
        result.grader_report = reply if earlier is None else earlier + reply
        result.judged_as_whole |= {question.planned.index for question in asked}
        return
    for question, score in zip(asked, reply, strict=True):
        planned = question.planned
        result.answers[planned.index] = check_score(planned.criterion, score)


def _restore_requirements(report: EvaluationReport, asked: Sequence[_Question]) -> EvaluationReport:
    """Return a grader's report with the requirements as they are written in the rubric.

    The judge was asked with the columns of the rollout in place of the placeholders.
    """
    templates: dict[str, str | None] = {}
    for planned, criterion in asked:
        has_filled_placeholders = criterion is not planned.criterion
        if has_filled_placeholders:
            templates[criterion.name] = planned.criterion.requirement
    if not templates or report.report is None:
        return report
    lines: list[CriterionReport] = []
    for line in report.report:
        if line.name in templates:
            line = line.model_copy(update={"requirement": templates[line.name]})
        lines.append(line)
    return report.model_copy(update={"report": lines})


async def _ask_questions(
    criteria: list[Criterion],
    grader: Grader,
    context: ScoringContext,
    result: RolloutAnswers,
    view: _View,
) -> JudgeAnswer:
    """Return what the grader answers; a criterion about steps is one question per step."""
    judge_input = _build_input(result.rollout, grader, view)
    if judge_input.left_out:
        result.shown = judge_input.left_out  # says what was shown, and what was left out
    questions: list[dict[str, Criterion]] = []  # those of each criterion, by step
    asked: list[Criterion] = []
    for criterion in criteria:
        by_step = questions_by_step(criterion, result.rollout.fields, judge_input)
        questions.append(by_step)
        asked += by_step.values()
    if not asked:
        return join_answers_about_steps(criteria, questions, [])
    async with rollout_spending():
        answer = await ask_grader(grader, judge_input, asked, on_error=context.on_error)
    has_questions_about_steps = asked != criteria
    if not has_questions_about_steps:
        return answer
    if isinstance(answer, EvaluationReport):
        raise JudgeError(
            f"{grader.title} gives one number for all criteria, but some of them are about "
            "steps: use a grader that answers each criterion"
        )
    return join_answers_about_steps(criteria, questions, answer)


def _build_input(rollout: Rollout, grader: Grader, view: _View) -> JudgeInput:
    """Return what the grader reads of a rollout."""
    if rollout.judge_text is None and "completion" not in rollout.fields:
        raise SignatureError("this rollout has no field 'completion' for a model to judge")
    judge_input = build_judge_input(
        rollout.fields,
        sections_text=rollout.judge_text,
        takes_media=grader.takes_media,
        thinking=view.thinking,
    )
    if not view.reference:
        return judge_input
    return show_reference(
        judge_input, view.reference, rollout.columns, takes_media=grader.takes_media
    )


# Reports.


async def make_reports(
    results: Sequence[RolloutAnswers], context: ScoringContext
) -> list[EvaluationReport]:
    """Return one report per rollout, and log which criteria have no answer.

    If the reward is a plain weighted sum and every answer has a value, `_add_up` is enough.
    Otherwise `_aggregate` makes the report.
    """
    plan = context.plan
    scale = context.scale
    reports: list[EvaluationReport] = []
    not_summed: list[RolloutAnswers] = []  # only these can have errors
    for number, result in enumerate(results, start=1):
        report = None
        if plan.is_weighted_sum and result.grader_report is None:
            report = _add_up(result.answers, plan, scale)
        if report is None:
            not_summed.append(result)
            report = _aggregate(result, context)
        if result.shown or plan.is_about_steps:
            report = _add_details(report, result, context)
        report.version = context.version  # the report is new, so no caller has it yet
        reports.append(report)
        if number % CHUNK == 0:
            await asyncio.sleep(0)  # let other tasks run
    if not_summed:
        _log_errors(not_summed, len(results), context)
    return reports


def _add_up(answers: Sequence[Answer], plan: Plan, scale: Scale) -> EvaluationReport | None:
    """Return the report on answers whose weighted sum is the reward; None if one has no value.

    This is a shortcut that builds no report lines. After None the caller uses `_aggregate`,
    which handles every case.
    """
    metrics: dict[str, float] = {}  # in the order of the weights
    for name, answer in zip(plan.names, answers):  # noqa: B905 - `strict` takes as long as the loop
        if type(answer) is float:  # nearly always
            value = answer
        elif isinstance(answer, Score):
            value = answer.value
        else:
            value = float(answer)
        if value is None:
            return None
        metrics[name] = value
    reward = weighted_sum(plan.weights, metrics.values())
    # A call of the class itself would take twice the time (see benchmarks/core.py).
    report = EvaluationReport.__new__(EvaluationReport)
    report.__init__(
        score=normalise_sum(reward, plan.gain, plan.loss, scale),
        raw_score=reward,
        llm_raw_score=reward if plan.is_judged else None,
        gain=plan.gain,
        loss=plan.loss,
        asked=plan.counted_count,
        answered=plan.counted_count,
        scale=scale,
        partial_reward=reward,
        criteria=plan.criteria,
        answers=answers,
        metrics=metrics,
        errors={},
    )
    return report


def _aggregate(result: RolloutAnswers, context: ScoringContext) -> EvaluationReport:
    """Return the report by the rubric's aggregation rule.

    Unlike `_add_up`, this takes any rule, and answers without a value.
    If a grader judged some criteria as a whole, the rule is applied to the other criteria, and
    the grader's report is added.
    """
    criteria: Sequence[Criterion] = context.plan.criteria
    answers: Sequence[Answer] = result.answers
    grader_report = result.grader_report
    if grader_report is None:
        return _apply_rule(criteria, answers, context)
    others = [index for index in range(len(criteria)) if index not in result.judged_as_whole]
    if not others:
        return grader_report
    report = _apply_rule(
        [criteria[index] for index in others],
        [answers[index] for index in others],
        context,
    )
    return report + grader_report


def _apply_rule(
    criteria: Sequence[Criterion], answers: Sequence[Answer], context: ScoringContext
) -> EvaluationReport:
    """Aggregate answers by the rubric's rule; a user's formula that fails leaves no score."""
    rule = context.plan.aggregation
    try:
        return aggregate_answers(criteria, answers, aggregation=rule, scale=context.scale)
    except FAILURES as error:
        if rule.formula is None or context.on_error == "raise" or is_stop_request(error):
            raise
        failure = describe_error(error)
    logger.error("aggregation %r failed: %s", rule.name, failure)
    lines = [make_line(c, answer) for c, answer in zip(criteria, answers, strict=True)]
    # A counted line with an error leaves the report without a score.
    lines.append(CriterionReport(name=rule.name, error=failure))
    return aggregate(lines, criteria, scale=context.scale)


def _add_details(
    report: EvaluationReport, result: RolloutAnswers, context: ScoringContext
) -> EvaluationReport:
    """Return the report with what judges were shown and with the reward of each turn."""

    def compute_reward(answers: list[Answer]) -> float | None:
        return _apply_rule(context.plan.criteria, answers, context).raw_score

    changes: dict[str, Any] = {}
    if result.shown:
        changes["shown"] = result.shown
    if context.plan.is_about_steps and result.unreadable is None:
        changes["step_rewards"] = compute_turn_rewards(
            report, result.rollout.fields, compute_reward
        )
    return report.model_copy(update=changes)


# The names of the criteria whose errors have been logged already, inside `logging_once`. None
# outside of it, where every call logs its errors.
_LOGGED_NAMES: ContextVar[set[str] | None] = ContextVar("logged_names", default=None)


def logging_once() -> AbstractContextManager[object]:
    """Log the errors of a criterion once, not for every call; a run counts them anyway."""
    return set_variable(_LOGGED_NAMES, set[str]())


def _log_errors(
    results: Sequence[RolloutAnswers], rollout_count: int, context: ScoringContext
) -> None:
    """Log each criterion that has no answer for some rollouts.

    With `on_error="raise"`, raise RubricError about the first of them instead.
    """
    logged = _LOGGED_NAMES.get()
    for index, criterion in enumerate(context.plan.criteria):
        errors: list[str] = []
        for result in results:
            answer = result.answers[index]
            has_own_answer = index not in result.judged_as_whole
            if has_own_answer and isinstance(answer, Score) and answer.error is not None:
                errors.append(answer.error)
        if not errors:
            continue
        if context.on_error == "raise":
            raise RubricError(f"criterion {criterion.name!r} has no answer: {errors[0]}")
        if logged is not None and criterion.name in logged:
            continue
        logger.error(
            "criterion %r has no answer for %d of %d rollouts; first error: %s",
            criterion.name,
            len(errors),
            rollout_count,
            errors[0],
        )
        if logged is not None:
            logged.add(criterion.name)
