"""A report holds the result of scoring one rollout: its numbers, and one line per criterion."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # pydantic accepts `typing.TypedDict` only from Python 3.12

from assay.aggregation import (
    AGGREGATIONS,
    Aggregation,
    Scale,
    denormalise,
    normalise,
    normalise_sum,
    sum_by_name,
    total,
)
from assay.criterion import NOT_APPLICABLE, Criterion
from assay.wording import describe_error

# The error of a rollout that is unscored although nothing failed.
NOTHING_APPLIES = "NotApplicable: no weighted criterion applies to this rollout"


class Citation(TypedDict, total=False):
    """What a reason points at: a step (`m3`), a part of a step (`m3.call1`), or quoted words."""

    part: str  # the address; absent for a plain text, which has no parts
    quote: str
    start: int  # where the quoted words begin in the text of the part
    end: int
    found: Literal[False]  # set if the judge was shown no such part, or the words are not in it


class Score(NamedTuple):
    """An answer that is more than a number. If `value` is None, `error` or `verdict` says why.

    >>> Score(0.5, reason="two of four sources found").value
    0.5
    """

    value: float | None = None
    reason: str = ""
    # The choice made, if the question offers choices; `N/A` if the question does not apply.
    verdict: str | None = None
    error: str | None = None  # type and message of what went wrong
    lines: Sequence[Any] = ()  # the report lines of a nested rubric, or one per judge asked
    # The mean distance between two of several answers, 0 to 1; None if there was only one.
    disagreement: float | None = None
    # What the reason points at, if a conversation was judged or evidence is required.
    citations: Sequence[Citation] = ()
    asked: bool = True  # False if the question was decided without asking it

    @classmethod
    def failed(cls, error: BaseException | str, reason: str = "") -> "Score":
        """Return the score of a question that could not be answered."""
        message = error if isinstance(error, str) else describe_error(error)
        return cls(error=message, reason=reason)

    @classmethod
    def not_applicable(cls, reason: str = "") -> "Score":
        """Return the score of a question that does not apply; it counts as answered."""
        return cls(verdict=NOT_APPLICABLE, reason=reason)

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE


# What a criterion is answered with: a number or bool from a check, or a Score.
Answer: TypeAlias = float | Score

# The answer of a criterion that has not been asked yet.
UNASKED = Score(error="RuntimeError: the question was never asked")


def as_score(criterion: Criterion, answer: Answer) -> Score:
    """Convert an answer to a Score; True is the best choice of the criterion, False the worst."""
    if isinstance(answer, Score):
        return answer
    if isinstance(answer, bool):
        verdict = criterion.choices[-1] if answer else criterion.choices[0]
        return Score(float(answer), verdict=verdict)
    return Score(float(answer))


# What one of several answers behind a line is: a judge's vote, a judge's answer in a cascade, one
# of several samples, one of two orders of the choices, or a game against another response.
SubAnswer: TypeAlias = Literal[
    "vote", "escalation", "sample", "usual_order", "opposite_order", "game"
]


class CriterionReport(BaseModel):
    """One line of a report: a question and its answer."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str = ""
    weight: float = 1.0
    requirement: str | None = None
    # Between 0 and 1 for a verdict, any number for a check; None if there is no answer.
    value: float | None = None
    verdict: str | None = None
    reason: str = ""
    error: str | None = None  # why there is no answer; None if there is one
    counted: bool = True  # False for a metric or a report-only line, which is not in the score
    passed: bool | None = None
    tags: tuple[str, ...] = ()
    # The lines of a nested rubric, or one per judge if several were asked.
    lines: tuple["CriterionReport", ...] = ()
    # The mean distance between two of several answers, 0 to 1; None if there was only one.
    disagreement: float | None = None
    # False if the question was not asked. Then it either has no value, because the result was
    # decided without it, or it has the value that the rubric gives it (`when_false: unmet`).
    asked: bool = True
    step: bool = False  # whether it is about one step of the rollout; the name is its address
    # What this answer is to the line that holds it in `lines`; None if it is a line of its own.
    sub_answer: SubAnswer | None = None
    citations: tuple[Citation, ...] = ()  # what the reason points at

    @property
    def answered(self) -> bool:
        """Whether the question has an answer; "not applicable" is one."""
        return self.error is None and (self.asked or self.value is not None)

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE

    @property
    def short_answer(self) -> str:
        """The answer in a word: the verdict, the number, `error` or `not asked`."""
        if not self.answered and self.error is None:
            return "not asked"
        return shorten_answer(self)

    @property
    def steps(self) -> dict[str, float | None]:
        """The value of each step by address; empty if the question is not about steps."""
        return {line.name: line.value for line in self.lines if line.step}

    @property
    def as_score(self) -> Score:
        """The answer without its question."""
        return Score(
            value=self.value,
            reason=self.reason,
            verdict=self.verdict,
            error=self.error,
            lines=self.lines,
            disagreement=self.disagreement,
            citations=self.citations,
            asked=self.asked,
        )


def make_line(criterion: Criterion, answer: Answer) -> CriterionReport:
    """Return the report line of a criterion and its answer."""
    score = as_score(criterion, answer)
    passed = None
    if score.value is not None:
        # The value of a verdict may be an average, so compare the rank of the verdict itself.
        value = criterion.values.get(score.verdict or "", score.value)
        passed = criterion.passes(value)
    return CriterionReport(
        name=criterion.name,
        weight=criterion.weight,
        requirement=criterion.requirement,
        value=score.value,
        verdict=score.verdict,
        reason=str(score.reason or ""),
        error=score.error,
        counted=criterion.counts,
        passed=passed,
        tags=criterion.tags,
        lines=tuple(score.lines),
        disagreement=score.disagreement,
        citations=tuple(score.citations),
        asked=score.asked,
    )


def shorten_answer(answer: Score | CriterionReport) -> str:
    """Return an answer in a word: the verdict, the number or `error`; empty if there is none."""
    if answer.error is not None:
        return "error"
    if answer.verdict:
        return answer.verdict
    if answer.value is None:
        return ""
    return f"{answer.value:.4g}"


class EvaluationReport:
    """The result for one rollout. `raw_score` is the reward, `score` its normalised form.

    A rollout is unscored, and both are None, if a counted line has no answer or if no counted
    criterion applies. `partial_reward` is the sum over the answered lines in any case.

    Reports are immutable by convention: `model_copy` returns a changed copy.
    """

    __slots__ = (
        "_errors",
        "_lines",
        "_metrics",
        "answered",
        "answers",
        "asked",
        "criteria",
        "gain",
        "llm_raw_score",
        "loss",
        "partial_reward",
        "raw_score",
        "reason",
        "scale",
        "score",
        "shown",
        "step_rewards",
        "unneeded",
        "unshaped",
        "version",
        "vetoed_by",
        "worth",
    )

    def __init__(
        self,
        # 0 to 1, unless the rubric has another scale; None if unscored or nothing can be gained.
        score: float | None = None,
        # The sum of weight × value over the lines; None if unscored.
        raw_score: float | None = None,
        # The number that a judge of the whole rubric gave, before conversion.
        llm_raw_score: float | None = None,
        # One line per criterion; None if a judge gave one number for the whole rubric.
        report: Sequence[CriterionReport] | None = None,
        *,
        gain: float = 0.0,  # the most that the answered lines could add
        loss: float = 0.0,  # the most that they could take away
        asked: int = 0,  # how many counted lines apply
        answered: int = 0,  # how many of those have an answer
        unneeded: int = 0,  # further counted lines, not asked because the result was decided
        vetoed_by: tuple[str, ...] = (),  # required criteria that failed and capped the score
        scale: Scale = "unit",
        reason: str = "",  # the reason that a judge of the whole rubric gave
        # The sum behind `score`, if a penalty, a shaping or a grader's own formula made it
        # differ from `raw_score`.
        worth: float | None = None,
        # The sum of weight × value over the answered lines; equals `raw_score` if that is set.
        partial_reward: float = 0.0,
        # What judges were shown, if not everything, as `last; left out: 3 texts`.
        shown: str = "",
        # The reward before the rubric's shaping; None if nothing shaped it.
        unshaped: float | None = None,
        # The hash of a rubric that may change: a `VersionedRubric`, or one on a server.
        version: str = "",
        # The reward of each turn of the assistant by address; None if no criterion is about steps.
        step_rewards: Mapping[str, float | None] | None = None,
        # Instead of `report`: the criteria and their answers, from which the lines are made when
        # they are read. A trainer never reads them.
        criteria: Sequence[Criterion] = (),
        answers: Sequence[Answer] | None = None,
        metrics: dict[str, float] | None = None,  # taken from the lines if None
        errors: dict[str, str] | None = None,  # taken from the lines if None
    ) -> None:
        if answered < asked:
            # Unscored: what was answered is the partial reward.
            if raw_score is not None:
                partial_reward = raw_score
            score = raw_score = llm_raw_score = unshaped = None
            if step_rewards is not None:
                step_rewards = dict.fromkeys(step_rewards)
        elif raw_score is not None:
            partial_reward = raw_score
        self.score = score
        self.raw_score = raw_score
        self.llm_raw_score = llm_raw_score
        self.gain = gain
        self.loss = loss
        self.asked = asked
        self.answered = answered
        self.unneeded = unneeded
        self.vetoed_by = vetoed_by
        self.scale: Scale = scale
        self.reason = reason
        self.worth = worth
        self.partial_reward = partial_reward
        self.shown = shown
        self.unshaped = unshaped
        self.version = version
        self.step_rewards = step_rewards
        self.criteria = criteria
        self.answers = answers
        self._lines = report
        self._metrics = metrics
        self._errors = errors

    @property
    def report(self) -> Sequence[CriterionReport] | None:
        """One line per criterion; None if a judge gave one number for the whole rubric."""
        if self._lines is None and self.answers is not None:
            pairs = zip(self.criteria, self.answers, strict=True)
            self._lines = [make_line(criterion, answer) for criterion, answer in pairs]
        return self._lines

    @property
    def lines(self) -> Sequence[CriterionReport]:
        """The lines; empty if a judge gave one number for the whole rubric."""
        lines = self.report
        return () if lines is None else lines

    @property
    def metrics(self) -> dict[str, float]:
        """The value of each answered line by name; values of equal names are summed."""
        if self._metrics is None:
            values: list[tuple[str, float]] = []
            for name, score in self._read_scores():
                if score.value is not None:
                    values.append((name, score.value))
            self._metrics = sum_by_name(values)
        return self._metrics

    @property
    def errors(self) -> dict[str, str]:
        """The error of each line that has no answer, by name."""
        if self._errors is None:
            errors: dict[str, str] = {}
            for name, score in self._read_scores():
                if score.error is not None:
                    errors[name] = score.error
            self._errors = errors
        return self._errors

    def _read_scores(self) -> "Iterator[tuple[str, Score | CriterionReport]]":
        """Yield each criterion's name and answer, without making lines if there are none yet."""
        if self._lines is not None or self.answers is None:
            for line in self.lines:
                yield line.name, line
            return
        for criterion, answer in zip(self.criteria, self.answers, strict=True):
            yield criterion.name, as_score(criterion, answer)

    @property
    def outcome(self) -> float | None:
        """The reward before any shaping, by which groups are filtered; None if unscored."""
        return self.raw_score if self.unshaped is None else self.unshaped

    @property
    def coverage(self) -> float:
        """The answered share of the counted lines; below 1 the report is partial."""
        counted = self.asked + self.unneeded
        return self.answered / counted if counted else 1.0

    @property
    def scored(self) -> bool:
        """Whether there is a reward. Means and baselines leave out unscored rollouts."""
        return self.raw_score is not None or self.score is not None

    @property
    def applies(self) -> bool:
        """Whether any counted criterion applies to the rollout. If not, it is unscored."""
        return self.scored or self.asked > 0

    @property
    def why_unscored(self) -> dict[str, str]:
        """Why there is no reward; empty if there is one.

        The keys are the names of criteria. If no criterion applies, the only key is `rubric`.
        """
        if self.scored:
            return {}
        if not self.applies:
            return {"rubric": NOTHING_APPLIES}
        counted_errors: dict[str, str] = {}
        for line in self.lines:
            if line.counted and line.error is not None:
                counted_errors[line.name] = line.error
        # A report that a grader made itself may have errors only on lines that do not count.
        return counted_errors or self.errors

    @property
    def disagreements(self) -> dict[str, float]:
        """How far apart the answers to a line are, by name, where several were given."""
        disagreements: dict[str, float] = {}
        for line in self.lines:
            if line.disagreement is not None:
                disagreements[line.name] = line.disagreement
        return disagreements

    @property
    def tag_scores(self) -> dict[str, float | None]:
        """The score over the counted lines of each tag alone, as a weighted sum."""
        rule = AGGREGATIONS["weighted"]
        if self.scale == "open":
            rule = AGGREGATIONS["healthbench"]  # a weighted sum too, but not clamped
        lines_by_tag: dict[str, list[CriterionReport]] = {}
        for line in self.lines:
            for tag in line.tags:
                lines_by_tag.setdefault(tag, []).append(line)
        scores: dict[str, float | None] = {}
        for tag, lines in lines_by_tag.items():
            totals = rule.total(_select_counted_values(lines))
            scores[tag] = normalise(totals, rule.scale)
        return scores

    @staticmethod
    def summed(reports: Iterable["EvaluationReport"]) -> "EvaluationReport":
        """Return the sum of several reports; see `sum_reports`."""
        return sum_reports(reports)

    def __add__(self, other: "EvaluationReport") -> "EvaluationReport":
        return sum_reports((self, other))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EvaluationReport):
            return NotImplemented
        return self._collect_fields() == other._collect_fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._collect_fields().items())
        return f"EvaluationReport({fields})"

    def __str__(self) -> str:
        from assay.report_text import format_report  # it imports this module

        return format_report("score", self)

    def _repr_html_(self) -> str:
        from assay.report_text import format_report_html  # it imports this module

        return format_report_html(self)

    def _collect_fields(self) -> dict[str, Any]:
        """Return the fields that make up the report, with its lines as a list."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _STORED_FIELDS}
        fields["report"] = None if self.report is None else list(self.report)
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Return the report and its lines as data that JSON can hold.

        `report` is None if the report has no lines. Rare fields are left out if they are empty.
        """
        data = self._collect_fields()
        data["vetoed_by"] = list(self.vetoed_by)
        for name in ("shown", "unshaped", "version", "step_rewards"):
            if data[name] in (None, "", {}):
                del data[name]
        if self.report is not None:
            data["report"] = [line.model_dump(mode="json") for line in self.report]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "EvaluationReport":
        """Return the report that `to_dict` was called on."""
        fields = dict(data)
        fields["vetoed_by"] = tuple(fields.get("vetoed_by", ()))
        if fields.get("report") is not None:
            fields["report"] = [CriterionReport.model_validate(line) for line in fields["report"]]
        return cls(**fields)

    def __reduce__(self) -> tuple[Any, ...]:
        # The lines are pickled, since a criterion may hold a function that cannot be.
        return _restore_report, (self._collect_fields(),)

    # The method names of a pydantic model, for programs that knew this record as one.

    model_dump = to_dict

    def model_dump_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> "EvaluationReport":
        """Return a copy with some fields changed."""
        changes = update or {}
        fields: dict[str, Any] = {name: getattr(self, name) for name in _STORED_FIELDS}
        if "report" not in changes:
            # New lines replace all of these.
            fields["report"] = self._lines
            fields["criteria"] = self.criteria
            fields["answers"] = self.answers
            fields["metrics"] = self._metrics
            fields["errors"] = self._errors
        return EvaluationReport(**{**fields, **changes})


# The fields that a report is saved and compared by, besides its lines.
_STORED_FIELDS = (
    "score",
    "raw_score",
    "llm_raw_score",
    "gain",
    "loss",
    "asked",
    "answered",
    "unneeded",
    "vetoed_by",
    "scale",
    "reason",
    "worth",
    "partial_reward",
    "shown",
    "unshaped",
    "version",
    "step_rewards",
)


def _restore_report(fields: dict[str, Any]) -> EvaluationReport:
    return EvaluationReport(**fields)


def aggregate(
    lines: Sequence[CriterionReport],
    criteria: Sequence[Criterion] = (),
    *,
    answers: Sequence[Answer] | None = None,
    aggregation: Aggregation = AGGREGATIONS["weighted"],
    scale: Scale | None = None,
) -> EvaluationReport:
    """Return the report that these lines add up to.

    `criteria`, one per line, are needed only if some are required and may veto. `answers` are
    those that the lines were made from, if they are known. `scale` takes precedence over the
    scale of the aggregation. If a line that applies has no answer, the sum is only the partial
    reward: the report itself then has no score and no reward.
    """
    scale = scale or aggregation.scale
    applying = [line for line in lines if line.counted and line.applies]
    totals = aggregation.total(_select_counted_values(applying))
    vetoes = _find_vetoes(lines, criteria)
    for criterion in vetoes:
        # The sum must not be worth more than the score that the veto allows.
        highest = denormalise(criterion.cap, totals.gain, totals.loss, scale)
        totals = totals._replace(raw=min(totals.raw, highest))
    score = None
    if any(line.value is not None for line in applying):
        score = normalise(totals, scale)
    reward = totals.raw if applying else None
    is_judged = any(line.requirement for line in lines)
    # If fewer lines are answered than asked, the constructor keeps the reward as the partial
    # reward and sets score and reward to None.
    return EvaluationReport(
        score=score,
        raw_score=reward,
        llm_raw_score=reward if is_judged else None,
        report=lines,
        gain=totals.gain,
        loss=totals.loss,
        asked=len(applying),
        answered=sum(line.answered for line in applying),
        vetoed_by=tuple(criterion.name for criterion in vetoes),
        scale=scale,
        partial_reward=totals.raw,
        criteria=criteria,
        answers=answers,
    )


def _find_vetoes(
    lines: Sequence[CriterionReport], criteria: Sequence[Criterion]
) -> list[Criterion]:
    """Return the required criteria that failed; none if the criteria are not known."""
    vetoes: list[Criterion] = []
    for criterion, line in zip(criteria, lines, strict=False):
        if criterion.required and line.counted and line.passed is False:
            vetoes.append(criterion)
    return vetoes


def aggregate_answers(
    criteria: Sequence[Criterion],
    answers: Sequence[Answer],
    *,
    aggregation: Aggregation = AGGREGATIONS["weighted"],
    scale: Scale | None = None,
) -> EvaluationReport:
    """Return the report on the answers to some criteria, one answer per criterion."""
    pairs = zip(criteria, answers, strict=True)
    lines = [make_line(criterion, answer) for criterion, answer in pairs]
    return aggregate(
        lines,
        criteria,
        answers=answers,
        aggregation=aggregation,
        scale=scale,
    )


def _select_counted_values(lines: Iterable[CriterionReport]) -> list[CriterionReport]:
    return [line for line in lines if line.counted and line.value is not None]


def sum_reports(reports: Iterable[EvaluationReport]) -> EvaluationReport:
    """Return one report that adds up several reports on one rollout.

    Numbers are added, and lines are joined. The score is computed from the added numbers; if the
    scales of the reports differ, it is between 0 and 1. The sum is unscored if no report has a
    reward, or if a report lacks an answer (then `answered` is less than `asked`, and the
    constructor removes the score). The fields are explained in `EvaluationReport`.
    """
    parts = [report for report in reports if not _is_empty(report)]
    if not parts:
        return EvaluationReport()
    if len(parts) == 1:
        return parts[0]
    rewards: list[float] = []
    gains: list[float] = []
    losses: list[float] = []
    asked = 0
    answered = 0
    unneeded = 0
    vetoed_by: tuple[str, ...] = ()
    is_scored = False
    scale = parts[0].scale
    judge_scores: list[float] = []
    reasons: list[str] = []
    notes_on_shown: list[str] = []
    metrics: list[tuple[str, float]] = []
    errors: dict[str, str] = {}
    for part in parts:
        rewards.append(part.partial_reward)
        gains.append(part.gain)
        losses.append(part.loss)
        asked += part.asked
        answered += part.answered
        unneeded += part.unneeded
        vetoed_by += part.vetoed_by
        is_scored = is_scored or part.scored
        if part.scale != scale:
            scale = "unit"
        if part.llm_raw_score is not None:
            judge_scores.append(part.llm_raw_score)
        if part.reason:
            reasons.append(part.reason)
        if part.shown and part.shown not in notes_on_shown:
            notes_on_shown.append(part.shown)
        metrics.extend(part.metrics.items())
        errors.update(part.errors)
    gain = total(gains)
    loss = total(losses)
    reward = total(rewards)
    # `worth` and `unshaped` of a report are None if they would be the same as its reward.
    worth = _sum_or_none([part.worth for part in parts], rewards)
    unshaped = _sum_or_none([part.unshaped for part in parts], rewards)
    # The lines are made from these when they are read. If a part has lines only, so has the sum.
    criteria, answers = _join_answers(parts)
    score: float | None = None
    if is_scored:
        sum_behind_score = reward if worth is None else worth
        score = normalise_sum(sum_behind_score, gain, loss, scale)
    # A call of the class itself would take twice the time (see benchmarks/core.py).
    summed = EvaluationReport.__new__(EvaluationReport)
    summed.__init__(
        score=score,
        raw_score=reward if is_scored else None,
        llm_raw_score=judge_scores[0] if len(judge_scores) == 1 else None,
        report=_join_lines(parts) if answers is None else None,
        gain=gain,
        loss=loss,
        asked=asked,
        answered=answered,
        unneeded=unneeded,
        vetoed_by=vetoed_by,
        scale=scale,
        reason=reasons[0] if reasons else "",
        worth=worth,
        partial_reward=reward,
        shown="; ".join(notes_on_shown),
        unshaped=unshaped if is_scored else None,
        step_rewards=_sum_step_rewards(parts),
        criteria=criteria,
        answers=answers,
        metrics=sum_by_name(metrics),
        errors=errors,
    )
    return summed


def _sum_or_none(values: Sequence[float | None], rewards: Sequence[float]) -> float | None:
    """Return the sum of the `worth` or `unshaped` of reports; None if no report has one.

    In a report without one it equals the reward, so the reward is added instead.
    """
    if values.count(None) == len(values):
        return None
    numbers: list[float] = []
    for value, reward in zip(values, rewards, strict=True):
        numbers.append(reward if value is None else value)
    return total(numbers)


def _join_answers(
    parts: Sequence[EvaluationReport],
) -> tuple[tuple[Criterion, ...], list[Answer] | None]:
    """Return the criteria and the answers of all reports; no answers if a report has only lines."""
    criteria: tuple[Criterion, ...] = ()
    answers: list[Answer] = []
    for part in parts:
        if part.answers is None:
            return (), None
        criteria += tuple(part.criteria)
        answers += part.answers
    return criteria, answers


def _join_lines(parts: Sequence[EvaluationReport]) -> list[CriterionReport] | None:
    """Return the lines of all reports; None if no report has lines."""
    if all(part.report is None for part in parts):
        return None
    return [line for part in parts for line in part.lines]


def _is_empty(report: EvaluationReport) -> bool:
    """Return whether a report has neither lines nor numbers."""
    has_lines = report.answers is not None or report.report is not None
    return not (has_lines or report.applies or report.unneeded)


def _sum_step_rewards(parts: Sequence[EvaluationReport]) -> dict[str, float | None] | None:
    """Return the sum of the rewards of each turn; None if no report has rewards of turns.

    A report without rewards of turns adds its own reward to every turn. The sum of a turn is None
    if one of the reports has no reward to add.
    """
    known_rewards = [part.step_rewards for part in parts if part.step_rewards is not None]
    if not known_rewards:
        return None
    turns: dict[str, None] = {}  # used as an ordered set
    for rewards_by_turn in known_rewards:
        turns |= dict.fromkeys(rewards_by_turn)
    sums: dict[str, float | None] = {}
    for turn in turns:
        rewards: list[float] = []
        for part in parts:
            reward = part.raw_score if part.applies else 0.0
            if part.step_rewards is not None:
                # A turn that this report does not have gets its reward for the rollout.
                reward = part.step_rewards.get(turn, reward)
            if reward is not None:
                rewards.append(reward)
        sums[turn] = total(rewards) if len(rewards) == len(parts) else None
    return sums or None
