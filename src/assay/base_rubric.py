"""The scoring methods that all rubrics share: what users call, and how results reach states."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias, cast, overload

from assay.advantage import Estimator, advantages, gdpo_advantages
from assay.concurrency import run_sync
from assay.errors import GradingError
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.graders.judge_input import ToGrade, read_to_grade
from assay.overrides import (
    METHODS,
    BaseResult,
    call_on_states,
    current_call,
    install_overrides,
    score_by_override,
)
from assay.report import EvaluationReport
from assay.rollout import Rollout, as_rollout
from assay.shaping import ShapingPart, shape_rewards
from assay.state_outputs import write_outputs, write_step_rewards, write_timing
from assay.types import Messages, OnError, ScoringMethod
from assay.wording import format_value

# One state per rollout, as environments pass them; scoring writes into them.
States: TypeAlias = Sequence[MutableMapping[str, Any]]


class BaseRubric(ABC):
    """The scoring methods of all rubrics. A subclass says how its criteria are asked.

    A subclass may override `score_rollout`, `score_group` or `score`; whatever scores by the
    rubric then calls the override (see `assay.overrides`).
    """

    on_error: OnError = "record"
    shaping: tuple[ShapingPart, ...] = ()  # what makes the reward of the outcome, in order
    overridden: frozenset[str] = frozenset()  # the scoring methods that a subclass overrides

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.overridden = install_overrides(cls, BaseRubric)

    @abstractmethod
    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Return one report per rollout by asking the criteria, before any shaping.

        `called_method` is the scoring method that the caller called. A `RubricGroup` needs it: it
        uses the same method of its child rubrics, which may override it.
        """

    async def score_all(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None = None,
        called_method: ScoringMethod = "score",
    ) -> list[EvaluationReport]:
        """Return one report per rollout. All scoring goes through this method.

        If a subclass overrides a scoring method, the override is called, unless this call comes
        from the override itself. `called_method` is the method that the caller called.
        """
        if self.overridden and rollouts:
            call = current_call(self)
            if call is not None:
                grader = grader or call.grader
            else:
                method = self._choose_override(called_method)
                if method is not None:
                    return await score_by_override(self, rollouts, grader, method)
        reports = await self._score_by_criteria(rollouts, grader, called_method)
        if not self.shaping:
            return reports
        fields = [rollout.fields for rollout in rollouts]
        return shape_rewards(reports, fields, self.shaping, self.on_error)

    def _choose_override(self, called_method: ScoringMethod) -> ScoringMethod | None:
        """Return the overridden method to score by; None to score by the criteria.

        That is the method that the caller called, if it is overridden. Otherwise it is another
        one that is, so that a subclass needs only one override for all ways of scoring.
        """
        if called_method in self.overridden:
            return called_method
        for method in METHODS:
            if method in self.overridden:
                return method
        return None

    # Methods that write nothing.

    @overload
    async def score(
        self,
        rollouts: Rollout | Mapping[str, Any],
        *,
        judge: JudgeSource | None = None,
    ) -> EvaluationReport: ...

    @overload
    async def score(
        self,
        rollouts: Iterable[Rollout | Mapping[str, Any]],
        *,
        judge: JudgeSource | None = None,
    ) -> list[EvaluationReport]: ...

    async def score(
        self,
        rollouts: Rollout | Mapping[str, Any] | Iterable[Rollout | Mapping[str, Any]],
        *,
        judge: JudgeSource | None = None,
    ) -> EvaluationReport | list[EvaluationReport]:
        """Return one report per rollout or state, in order, without writing into states.

        Group functions see all rollouts at once. For one rollout or one mapping, return its report.
        `judge` answers the judged criteria: a grader, a model, or the name of one; see `grader_of`.
        """
        grader = grader_of(judge)
        if isinstance(rollouts, str):
            raise TypeError(
                f"score() takes rollouts, and this is the text {format_value(rollouts)}: give a "
                "mapping such as {'completion': ...}, or use grade()"
            )
        if hasattr(rollouts, "iloc"):
            raise TypeError("score() takes rollouts, and this is a data frame: use score_rows()")
        if isinstance(rollouts, Rollout | Mapping):
            item = cast("Rollout | Mapping[str, Any]", rollouts)
            [report] = await self.score_all([as_rollout(item)], grader)
            return report
        return await self.score_all([as_rollout(item) for item in rollouts], grader)

    async def grade(
        self,
        to_grade: ToGrade,
        autograder: JudgeSource | None = None,
        query: str | None = None,
        *,
        judge: JudgeSource | None = None,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """Return the report on one text: a string, messages, or `thinking` and `output`.

        `judge` answers the judged criteria: a grader, a model, or the name of one; see `grader_of`.
        `autograder` is another name for it. Raises GradingError, which holds the partial report, if
        a counted line has no answer.
        """
        completion, text = read_to_grade(to_grade)
        rollout = Rollout.from_state(
            {
                "prompt": query or "",
                "completion": completion,
                "answer": answer,
                "info": dict(info or {}),
            }
        )
        if isinstance(to_grade, Mapping) and "role" not in to_grade:
            # Thinking and output, not a message: the judge reads both in one text.
            rollout.judge_text = text
        grader = _choose_grader(judge, autograder)
        [report] = await self.score_all([rollout], grader, "score_rollout")
        if report.applies and not report.scored:
            raise GradingError(_describe_missing_answers(report), report)
        return report

    def grade_sync(
        self,
        to_grade: ToGrade,
        autograder: JudgeSource | None = None,
        query: str | None = None,
        *,
        judge: JudgeSource | None = None,
        answer: Any = "",
        info: Mapping[str, Any] | None = None,
    ) -> EvaluationReport:
        """Call `grade` from synchronous code, even inside a running event loop."""
        grader = _choose_grader(judge, autograder)
        return run_sync(self.grade(to_grade, grader, query, answer=answer, info=info))

    def score_rollout_sync(
        self,
        prompt: Messages = "",
        completion: Messages = "",
        answer: Any = "",
        state: Mapping[str, Any] | None = None,
        task: str = "default",
        info: Mapping[str, Any] | None = None,
    ) -> dict[str, float | None]:
        """Return the value of each criterion by name, and `reward`.

        If the reward is None, `partial_reward` is there too.
        """
        self._raise_if_group_needed()
        rollouts = _rollouts_from_columns(
            {
                "prompt": [prompt],
                "completion": [completion],
                "answer": [answer],
                "task": [task],
                "info": [info or {}],
                "state": [{} if state is None else state],
            }
        )
        reports = run_sync(self.score_all(rollouts, called_method="score_rollout"))
        return {name: column[0] for name, column in self._make_columns(reports).items()}

    def score_rollouts(
        self,
        prompts: Sequence[Messages],
        completions: Sequence[Messages],
        answers: Sequence[Any],
        states: Sequence[Mapping[str, Any]] | None = None,
        tasks: Sequence[str] | None = None,
        infos: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, list[float | None]]:
        """Return a column of values per criterion, and the column `reward`.

        If any reward is None, there is a column `partial_reward` too.
        """
        size = len(prompts)
        rollouts = _rollouts_from_columns(
            {
                "prompt": prompts,
                "completion": completions,
                "answer": answers,
                "task": ["default"] * size if tasks is None else tasks,
                "info": [{} for _ in prompts] if infos is None else infos,
                "state": [{} for _ in prompts] if states is None else states,
            }
        )
        reports = run_sync(self.score_all(rollouts, called_method="score_group"))
        return self._make_columns(reports)

    def _make_columns(self, reports: Sequence[EvaluationReport]) -> dict[str, list[float | None]]:
        """Return the values of each criterion, the rewards, and the outcomes before shaping."""
        outputs = self._choose_outputs(reports)
        names = dict.fromkeys(self._get_reward_func_names())
        if self.own_methods:  # an override may write metrics of any name
            for _, metrics in outputs:
                names.update(dict.fromkeys(metrics))
        columns: dict[str, list[float | None]] = {}
        for name in names:
            columns[name] = [metrics.get(name) for _, metrics in outputs]
        columns["reward"] = [reward for reward, _ in outputs]
        if self.shapes_reward:
            columns["outcome"] = [report.outcome for report in reports]
        if None in columns["reward"]:
            columns["partial_reward"] = [report.partial_reward for report in reports]
        return columns

    # Methods that write into states.

    async def score_rollout(self, state: MutableMapping[str, Any]) -> EvaluationReport:
        """Score one state: write `reward`, `metrics`, `errors` and timing into it.

        An unscored rollout gets the reward None, and the sum of what was answered as
        `partial_reward`. Group functions need `score_group`.
        """
        await self._prepare()
        self._raise_if_group_needed()
        [report] = await self._score_states([state], "score_rollout")
        return report

    async def score_group(
        self,
        states: States,
        *,
        judge: JudgeSource | None = None,
        advantage: Estimator = "mean",
    ) -> list[EvaluationReport]:
        """Score the states of one group; write what `score_rollout` does, and `advantage`."""
        return await self._score_states(states, "score_group", grader_of(judge), advantage)

    async def reports_on_group(
        self, states: States, grader: Grader | None = None
    ) -> list[EvaluationReport]:
        """Call `score_group`; return one report per state even if an override returns none."""
        if "score_group" in self.overridden:
            return await call_on_states(self, "score_group", states, grader)
        return await self.score_group(states, judge=grader)

    async def _score_states(
        self,
        states: States,
        called_method: ScoringMethod,
        grader: Grader | None = None,
        estimator: Estimator | None = None,
    ) -> list[EvaluationReport]:
        """Score states, and write the results into them.

        With an estimator, the advantages are written too. `called_method` is the scoring method
        that the caller called. If an override called it, the results are noted for
        `score_by_override`, since the override may change what is written here.
        """
        _check_states(states)
        started = time.perf_counter()
        rollouts = [Rollout.from_state(state) for state in states]
        reports = await self.score_all(rollouts, grader, called_method)
        elapsed_ms = (time.perf_counter() - started) * 1000
        group_advantages: list[float | None] = [None] * len(states)
        if estimator is not None:
            group_advantages = self._compute_advantages(reports, estimator)
        outputs = self._choose_outputs(reports)
        shapes_reward = self.shapes_reward
        has_version = bool(self.version)
        call = current_call(self) if self.overridden else None
        for state, report, (reward, metrics), advantage in zip(
            states, reports, outputs, group_advantages, strict=True
        ):
            write_outputs(state, report, reward, metrics)
            if estimator is not None:
                state["advantage"] = advantage
            if shapes_reward:
                state["outcome"] = report.outcome  # the reward before shaping
            if has_version:
                state["rubric_version"] = report.version
            if call is not None:  # an override called this method
                call.base_results[id(state)] = (state, BaseResult(report, reward, metrics))
            is_outermost = call is None or not call.is_nested
            if is_outermost:  # these are written once, by the outermost call
                write_timing(state, elapsed_ms)
                write_step_rewards(state, reward, advantage, report.step_rewards)
        return reports

    def _compute_advantages(
        self, reports: Sequence[EvaluationReport], estimator: Estimator
    ) -> list[float | None]:
        """Return the advantage of each rollout in its group.

        GDPO compares each criterion separately, so it needs a column of values per criterion.
        """
        rewards = [report.raw_score for report in reports]
        if estimator != "gdpo":
            return advantages(rewards, estimator)
        weights = self.counted_weights
        metrics = [report.metrics for report in reports]
        columns = {name: [values.get(name) for values in metrics] for name in weights}
        return gdpo_advantages(columns, weights, rewards=rewards)

    def _choose_outputs(
        self, reports: Sequence[EvaluationReport]
    ) -> Sequence[tuple[float | None, Mapping[str, float]]]:
        """Return the reward and the metrics of each report, as states and columns show them."""
        return [(report.raw_score, report.metrics) for report in reports]

    # What a subclass says about itself.

    @property
    def own_methods(self) -> frozenset[str]:
        """The scoring methods that are overridden, here or in a nested rubric."""
        return self.overridden

    @property
    def shapes_reward(self) -> bool:
        """Whether the reward is shaped, here or in a rubric of this group."""
        return bool(self.shaping)

    @property
    def version(self) -> str:
        """The hash of a rubric that may change between calls; empty for any other."""
        return ""

    async def pinned(self) -> "BaseRubric":
        """Return this rubric as it is now, for several calls that belong together."""
        return self

    async def _prepare(self) -> None:  # noqa: B027 - most rubrics have nothing to prepare
        """Load what has to be known before scoring, such as the description of a remote rubric."""

    @abstractmethod
    def _raise_if_group_needed(self) -> None:
        """Raise RubricError if a rollout cannot be scored without the others of its group."""

    @abstractmethod
    def _get_reward_func_names(self) -> list[str]: ...

    @property
    @abstractmethod
    def compares(self) -> bool:
        """Whether a check compares the rollouts of a group, here or in a nested rubric."""

    @property
    @abstractmethod
    def counted_weights(self) -> dict[str, float]:
        """The weight of each criterion that counts, by name."""

    def get_reward_func_names(self) -> list[str]:
        """Return the names under which values are reported."""
        return self._get_reward_func_names()


def _describe_missing_answers(report: EvaluationReport) -> str:
    """Return the message of the error for an unscored report, with its first errors."""
    missing = list(report.why_unscored.items())
    errors = "; ".join(f"{name}: {error}" for name, error in missing[:3])
    if len(missing) > 3:
        errors += f"; and {len(missing) - 3} more"
    return (
        f"{report.asked - report.answered} of {report.asked} criteria have no answer "
        f"({errors}): the partial report is in .report"
    )


def _rollouts_from_columns(columns: Mapping[str, Sequence[Any]]) -> list[Rollout]:
    """Return one rollout per entry of the columns, which must have the same length."""
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} {name}s" for name, size in sizes.items())
        raise ValueError(f"the columns differ in length ({listed}): give one value per rollout")
    rollouts: list[Rollout] = []
    for values in zip(*columns.values(), strict=True):
        fields = dict(zip(columns, values, strict=True))
        state = fields.pop("state")
        rollouts.append(Rollout.from_fields({**state, **fields}, state))
    return rollouts


def _check_states(states: object) -> None:
    """Raise TypeError unless this is a list, or another sequence, of states."""
    is_state = isinstance(states, Mapping)
    if is_state or not hasattr(states, "__len__"):
        raise TypeError(
            f"score_group takes a list of states, not {format_value(cast('object', states))}"
        )
    for state in cast("Sequence[object]", states):
        if type(state) is not dict and not isinstance(state, MutableMapping):
            raise TypeError(f"a state must be a dict, not {format_value(state)}")


def _choose_grader(judge: JudgeSource | None, autograder: JudgeSource | None) -> Grader | None:
    """Return the grader of `judge`, or of `autograder`, another name for the same argument."""
    if judge is None:
        return grader_of(autograder)
    if autograder is not None:
        raise TypeError("both judge= and autograder= are given: give judge=")
    return grader_of(judge)
