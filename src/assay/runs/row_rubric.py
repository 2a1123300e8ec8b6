"""A rubric that came with a row. Its checks have a budget of time and memory."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from assay import isolation
from assay.checks import (
    CodeBlock,
    Contains,
    ExactMatch,
    JsonValid,
    MaxWords,
    MinWords,
    NumericEqual,
    OneOf,
    Refusal,
    Regex,
)
from assay.checks.template import CheckTemplate, TemplateFunction
from assay.concurrency import run_concurrently, set_variable
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.isolation import WorkBudget, current_work_budget
from assay.loading.row_budget import DEFAULT_ROW_BUDGET, RowBudget
from assay.plan import PlannedCriterion
from assay.report import CriterionReport, EvaluationReport, Score, aggregate
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.runs.row import RUBRIC_COLUMN
from assay.shaping import read_shaping
from assay.types import ScoringMethod
from assay.wording import describe_error

# Checks whose time grows in a straight line with the text, so they may run in this process.
_LINEAR_CHECKS: Final = (
    CodeBlock,
    Contains,
    ExactMatch,
    JsonValid,
    MaxWords,
    MinWords,
    NumericEqual,
    OneOf,
    Refusal,
)
_MAX_VALUES: Final = 50  # texts that a linear check may look for in this process
# The time that all checks of one rollout may take in this process, which blocks its event loop.
# After that, checks run in worker processes.
_LOCAL_SECONDS: Final = 0.05
_LOCAL_SEARCH_SECONDS: Final = 0.01  # for one regular expression

# Worker processes may send scores back.
isolation.protocol.register_record(Score)


class RowRubric(Rubric):
    """A rubric that a row of the data brings, whose checks have a budget of time and memory.

    Checks that may take long, or much memory, run in worker processes.
    """

    budget: RowBudget | None = None

    def limit(self, budget: RowBudget) -> None:
        """Hold the checks of this rubric and of the rubrics inside it to a budget.

        Also raise an error if the shaping of the score names a criterion that does not exist: the
        constructor cannot check that, since a subclass may add criteria.
        """
        self.budget = budget
        read_shaping(self.shaping, self._plan.names)
        for planned in self._plan.planned:
            _limit_check(planned, budget)
        for inner in self._list_nested():
            if isinstance(inner, RowRubric):
                inner.limit(budget)

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Score rollouts as any rubric does, but give the checks of each rollout a time limit."""
        score = super()._score_by_criteria
        # A rubric inside another one shares the limit that was set for that one.
        has_limit = current_work_budget.get() is not None
        if self.budget is None or has_limit:
            return await score(rollouts, grader, called_method)
        try:
            self._plan.refuse_missing_grader(grader or self.grader)
        except RubricError as error:
            # An error in the rubric of one row must not end the whole run.
            line = CriterionReport(name=RUBRIC_COLUMN, error=describe_error(error))
            return [aggregate([line])] * len(rollouts)
        seconds = self.budget.seconds

        async def score_rollout(rollout: Rollout) -> EvaluationReport:
            with set_variable(current_work_budget, WorkBudget(seconds)):
                [report] = await score([rollout], grader, called_method)
            return report

        return await run_concurrently(score_rollout, rollouts)


def _limit_check(planned: PlannedCriterion, budget: RowBudget) -> None:
    """Replace the check of a criterion, if code answers it, by one that keeps to the budget."""
    if planned.step_plan is not None:
        # The check is about single steps of a rollout: replace it where these are scored.
        [planned] = planned.step_plan.planned
    function = planned.function
    if function is None:  # a judge or a nested rubric answers
        return
    if function.is_group or planned.criterion.isolate:
        return  # these run in worker processes already, which keep to the budget
    check: Any = planned.criterion.check
    # A template builds a check from the columns of each row, so it is not known yet how long it
    # takes.
    may_take_long = isinstance(check, CheckTemplate) or not _is_linear(check)
    if isinstance(function, TemplateFunction):
        function.refuse_excess = budget.refuse_excess
    # A check that may take long is awaited, so that other rollouts are scored meanwhile.
    function.wrap(partial(_run_within_budget, budget), is_async=may_take_long)


def _is_linear(check: object) -> bool:
    """Return whether the time of a check grows only in a straight line with the text."""
    if not isinstance(check, _LINEAR_CHECKS):
        return False
    if isinstance(check, Contains) and isinstance(check.value, tuple):
        return len(check.value) <= _MAX_VALUES
    return True


def _run_within_budget(budget: RowBudget, check: Any) -> Callable[..., Any]:
    """Return a function that runs a check in this process if it is cheap, else in a worker process.

    The function takes the same arguments as the check. It must be called inside of a `WorkBudget`,
    which counts the time of all checks of a rollout.
    """
    local_check: Any = None  # the check as it may run in this process; None if it may not
    if _is_linear(check):
        local_check = check
    elif isinstance(check, Regex):
        seconds = min(check.timeout_seconds, _LOCAL_SEARCH_SECONDS)
        local_check = replace(check, timeout_seconds=seconds)  # then it goes to a worker process

    async def run_in_worker(*arguments: Any, **keywords: Any) -> Any:
        pool = _get_pool(budget.memory)
        outcome = await pool.run(check, *arguments, timeout=budget.seconds, keywords=keywords)
        return outcome.value if outcome.ok else Score.failed(outcome.message)

    def run(*arguments: Any, **keywords: Any) -> "Any | Awaitable[Any]":
        work_budget = current_work_budget.get()
        assert work_budget is not None
        work_budget.raise_if_spent()
        if local_check is None or work_budget.spent > _LOCAL_SECONDS:
            return run_in_worker(*arguments, **keywords)
        if isinstance(check, Regex) and not check.is_short(*arguments, **keywords):
            return run_in_worker(*arguments, **keywords)
        start = time.thread_time()
        try:
            return local_check(*arguments, **keywords)
        except TimeoutError:  # of the regular expression: in a worker process it may take longer
            return run_in_worker(*arguments, **keywords)
        finally:
            work_budget.spent += time.thread_time() - start

    return run


def _get_pool(memory: int) -> isolation.Pool:
    """Return a pool of worker processes that may each take this many bytes of memory."""
    if memory == DEFAULT_ROW_BUDGET.memory:
        return isolation.shared_pool("assay.checks")
    return _start_pool(memory)


@cache
def _start_pool(memory: int) -> isolation.Pool:
    return isolation.Pool(memory=memory, preload=["assay.checks"])
