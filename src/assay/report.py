"""A report holds the answers to one rollout, a line each, and what they come to; reports add up."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on

from assay.aggregation import (
    AGGREGATIONS,
    Aggregation,
    Scale,
    Totals,
    normalise,
    sum_behind,
    summed_by_name,
    total,
)
from assay.criterion import NOT_APPLICABLE, Criterion
from assay.display import Page, Section, Toned, on_one_line, painted, shortened
from assay.wording import described


class Citation(TypedDict, total=False):
    """Where a reason points: at a step (`m3`), a part of it (`m3.call1`), or words in one."""

    part: str  # the address; none of a plain text, whose words are quoted
    quote: str
    start: int  # where the quoted words begin in the text of the part
    end: int
    found: Literal[False]  # where the judge was shown no such part, or these words are not in it


class Score(NamedTuple):
    """One answer, where a check has more to say than a number. `value` is None without an answer; `error` says why.

    >>> Score(0.5, reason="two of four sources found").value
    0.5
    """

    value: float | None = None
    reason: str = ""
    # The choice that was made, where the question offers choices; `N/A` when it does not apply.
    verdict: str | None = None
    error: str | None = None  # kind and message of what went wrong
    lines: Sequence[
        Any
    ] = ()  # the report lines of a nested rubric, or of each judge that was asked
    # How far apart two of several answers are on average, 0 to 1; None when there was only one.
    disagreement: float | None = None
    # What the reason points at, where a conversation was judged or evidence is required.
    citations: Sequence[Citation] = ()

    @classmethod
    def failed(cls, error: BaseException | str, reason: str = "") -> "Score":
        """No answer, and why."""
        return cls(error=error if isinstance(error, str) else described(error), reason=reason)

    @classmethod
    def not_applicable(cls, reason: str = "") -> "Score":
        """The question does not arise: the line leaves the score and counts as answered."""
        return cls(verdict=NOT_APPLICABLE, reason=reason)

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE


UNASKED = Score(
    error="RuntimeError: the question was never asked"
)  # stands where an answer belongs until there is one


# What one of several answers behind a line is: a judge's vote, a judge's answer in a cascade, one of
# several samples, one of two orders of the choices, or a game against another response.
SubAnswer: TypeAlias = Literal[
    "vote", "escalation", "sample", "usual_order", "opposite_order", "game"
]


class CriterionReport(BaseModel):
    """One line of a report: a question and its answer."""

    model_config = ConfigDict(frozen=True)

    name: str = ""
    weight: float = 1.0
    requirement: str | None = None
    value: float | None = (
        None  # between 0 and 1 for a verdict, any number for a check; None when there is no answer
    )
    verdict: str | None = None
    reason: str = ""
    error: str | None = None  # why there is no answer; None when there is one
    counted: bool = True  # whether the line is part of the score, and not a metric or report-only
    passed: bool | None = None
    tags: tuple[str, ...] = ()
    lines: tuple[
        "CriterionReport", ...
    ] = ()  # the lines of a nested rubric, or one a judge where several were asked
    # How far apart two of several answers are on average, 0 to 1; None when there was only one.
    disagreement: float | None = None
    asked: bool = True  # False when the result was decided without it, so that it was not asked
    step: bool = False  # whether it is about one step of the rollout, whose address is its name
    # What this answer is to the line that holds it in `lines`; None if it is an answer of its own.
    sub_answer: SubAnswer | None = None
    citations: tuple[
        Citation, ...
    ] = ()  # what the reason points at, each with whether it is there; see `Citation`

    @property
    def answered(self) -> bool:
        """Whether the question has an answer; that it does not apply is one."""
        return self.error is None and self.asked

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE

    @property
    def said(self) -> str:
        """The answer in a word: the verdict or number, `error`, or `not asked`."""
        return _word(self) if self.asked or self.error else "not asked"

    @property
    def steps(self) -> dict[str, float | None]:
        """The value of each step by its address, where the question is asked about steps; None where it does not apply."""
        return {line.name: line.value for line in self.lines if line.step}

    @property
    def as_score(self) -> Score:
        """The answer without its question."""
        return Score(
            self.value,
            self.reason,
            self.verdict,
            self.error,
            self.lines,
            self.disagreement,
            self.citations,
        )


class Lines(Sequence[CriterionReport]):
    """The lines of a report, made when they are looked at: trainers never do, and large runs read `answers` alone."""

    __slots__ = ("_made", "answers", "criteria")

    def __init__(self, criteria: Sequence[Criterion], answers: Sequence[float | Score]) -> None:
        """`answers` holds one for each of `criteria`; a bare number comes from a check."""
        self.criteria = criteria
        self.answers = answers
        self._made: list[CriterionReport] | None = None

    @property
    def errors(self) -> dict[str, str]:
        """Why a question has no answer, by name; found without making a line."""
        if Score not in map(type, self.answers):
            return {}
        pairs = zip(self.criteria, self.answers, strict=True)
        return {c.name: a.error for c, a in pairs if type(a) is Score and a.error is not None}

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every answered question by name, equal names summed; without making a line."""
        metrics: dict[str, float] = {}
        for criterion, answer in zip(self.criteria, self.answers, strict=True):
            value = answer.value if type(answer) is Score else float(answer)  # pyright: ignore[reportArgumentType]
            if value is not None:
                metrics[criterion.name] = metrics.get(criterion.name, 0.0) + value
        return metrics

    def _all(self) -> list[CriterionReport]:
        if self._made is None:
            self._made = [
                line_of(c, answer) for c, answer in zip(self.criteria, self.answers, strict=True)
            ]
        return self._made

    def __len__(self) -> int:
        return len(self.criteria)

    def __getitem__(self, index: Any) -> Any:
        return cast("Any", self._all()[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        # As plain lines: a criterion may hold a function that cannot be pickled.
        return list, (self._all(),)


def answer_said(criterion: Criterion, answer: float | Score) -> str:
    """Return what the line of an answer says in a word, found without making the line."""
    return _word(_as_score(criterion, answer))


def _as_score(criterion: Criterion, answer: float | Score) -> Score:
    if isinstance(answer, Score):
        return answer
    return Score(
        float(answer),
        verdict=criterion.choices[-1 if answer else 0] if isinstance(answer, bool) else None,
    )


def _word(said: "Score | CriterionReport") -> str:
    if said.error is not None:
        return "error"
    return said.verdict or ("" if said.value is None else f"{said.value:.4g}")


def line_of(criterion: Criterion, answer: float | Score) -> CriterionReport:
    score = _as_score(criterion, answer)
    value, verdict = score.value, score.verdict
    return CriterionReport(
        name=criterion.name,
        weight=criterion.weight,
        requirement=criterion.requirement,
        value=value,
        verdict=verdict,
        reason=str(score.reason or ""),
        error=score.error,
        counted=criterion.counts,
        passed=None
        if value is None
        else criterion.passes(criterion.values.get(verdict or "", value)),
        tags=criterion.tags,
        lines=tuple(score.lines),
        disagreement=score.disagreement,
        citations=tuple(score.citations),
    )


@dataclass(frozen=True)
class EvaluationReport:
    """What was found about one rollout. `raw_score` is the reward, `score` its normalised view.

    A rollout is unscored, and both are None, when a counted line has no answer or when no counted
    criterion applies; `partial_reward` holds the sum of what was answered.
    """

    # 0 to 1 (unless the rubric asks otherwise); None when unscored, or when nothing can be gained.
    score: float | None = None
    raw_score: float | None = None  # the sum of weight × value over the lines; None when unscored
    llm_raw_score: float | None = None  # what a judge of the whole said, before conversion
    # One line a criterion; None when a judge gave one number for the whole.
    report: Sequence[CriterionReport] | None = None
    gain: float = 0.0  # the most the answered lines could add
    loss: float = 0.0  # the most they could take away
    asked: int = 0  # counted lines that apply
    answered: int = 0  # those of them that have an answer
    unneeded: int = (
        0  # further counted lines without an answer, since the result was decided without them
    )
    vetoed_by: tuple[str, ...] = ()  # required criteria that failed and capped the score
    scale: Scale = "unit"
    reason: str = ""  # what a judge of the whole gave as its reason
    # The sum that `score` stands for, where a penalty, a shaping or a grader's own formula moved it off `raw_score`.
    worth: float | None = None
    # The sum of weight × value over the answered lines: equal to `raw_score` where there is one.
    partial_reward: float = 0.0
    # What judges were shown of the rollout where it was not all of it, as `last; left out: 3 texts`; else empty.
    shown: str = ""
    # The reward before the rubric's shaping; None where nothing shaped it, or where there is no reward.
    unshaped: float | None = None
    # The hash of the rubric that it comes from, where that may change meanwhile: a `VersionedRubric`, or a server's.
    version: str = ""
    # The reward of each turn of the assistant, by address; None where no criterion is about steps.
    step_rewards: Mapping[str, float | None] | None = None

    def __post_init__(self) -> None:
        if self.answered < self.asked:
            partial = self.partial_reward if self.raw_score is None else self.raw_score
            unscored = {"score": None, "raw_score": None, "llm_raw_score": None, "unshaped": None}
            steps = None if self.step_rewards is None else dict.fromkeys(self.step_rewards)
            self.__dict__.update(unscored, partial_reward=partial, step_rewards=steps)
        elif self.raw_score is not None:
            self.__dict__["partial_reward"] = self.raw_score

    @property
    def outcome(self) -> float | None:
        """What the criteria came to, before any shaping: the number to filter groups by. None when unscored."""
        return self.raw_score if self.unshaped is None else self.unshaped

    @property
    def coverage(self) -> float:
        """The answered share of the counted lines; below 1 the report is partial."""
        lines = self.asked + self.unneeded
        return self.answered / lines if lines else 1.0

    @property
    def scored(self) -> bool:
        """Whether there is a reward. If not, the rollout is kept out of means and baselines."""
        return self.raw_score is not None or self.score is not None

    @property
    def applies(self) -> bool:
        """Whether any counted criterion applies to the rollout. If not, it is unscored."""
        return self.scored or self.asked > 0

    @property
    def why_unscored(self) -> dict[str, str]:
        """The reasons for which there is no reward, by name; empty when there is one."""
        if self.scored:
            return {}
        if not self.applies:
            return {"rubric": NOTHING_APPLIES}
        counted = {line.name for line in self.lines if line.counted}
        errors = self.errors
        return {name: error for name, error in errors.items() if name in counted} or errors

    @property
    def lines(self) -> Sequence[CriterionReport]:
        """The lines; none when a judge gave one number for the whole."""
        return self.report if self.report is not None else ()

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every answered line by name; equal names are summed."""
        if isinstance(self.report, Lines):
            return self.report.metrics
        return summed_by_name(
            (line.name, line.value) for line in self.lines if line.value is not None
        )

    @property
    def errors(self) -> dict[str, str]:
        """Why a line has no answer, by name."""
        if isinstance(self.report, Lines):
            return self.report.errors
        return {line.name: line.error for line in self.lines if line.error is not None}

    @property
    def disagreements(self) -> dict[str, float]:
        """How far apart the answers to a line are, by name, where several were given."""
        return {
            line.name: line.disagreement for line in self.lines if line.disagreement is not None
        }

    @property
    def tag_scores(self) -> dict[str, float | None]:
        """The score over the lines of each tag alone, by the plain weighted rule."""
        tags = dict.fromkeys(tag for line in self.lines for tag in line.tags)
        rule = AGGREGATIONS["healthbench" if self.scale == "open" else "weighted"]
        own = {tag: [line for line in self.lines if tag in line.tags] for tag in tags}
        return {
            tag: normalise(rule.total(_counted(lines)), rule.scale) for tag, lines in own.items()
        }

    @staticmethod
    def full(
        raw: float,
        stakes: tuple[float, float],
        lines: Lines,
        scale: Scale,
        *,
        counted: int,
        judged: bool,
    ) -> "EvaluationReport":
        """The report on a rollout whose counted lines are all answered, under a plain rule of one rubric."""
        gain, loss = stakes
        reward = raw if counted else None
        report = object.__new__(EvaluationReport)
        # A frozen dataclass sets each field by a call of its own; a trainer makes millions of these.
        report.__dict__.update(
            score=normalise(Totals(raw, gain, loss), scale) if counted else None,
            raw_score=reward,
            llm_raw_score=reward if judged else None,
            report=lines,
            gain=gain,
            loss=loss,
            asked=counted,
            answered=counted,
            scale=scale,
            partial_reward=raw,
        )
        return report

    @staticmethod
    def summed(reports: Iterable["EvaluationReport"]) -> "EvaluationReport":
        """Add all reports to one, which is unscored where one misses an answer or none has a reward."""
        parts = [report for report in reports if report != _EMPTY]
        if len(parts) < 2:
            return parts[0] if parts else _EMPTY
        columns = zip(*((part.partial_reward, part.gain, part.loss) for part in parts), strict=True)
        totals = Totals(*map(total, columns))
        worth = total(part.partial_reward if part.worth is None else part.worth for part in parts)
        scale: Scale = parts[0].scale if len({part.scale for part in parts}) == 1 else "unit"
        scored = any(part.scored for part in parts)
        unshaped = total(
            part.partial_reward if part.unshaped is None else part.unshaped for part in parts
        )
        whole = [part.llm_raw_score for part in parts if part.llm_raw_score is not None]
        lines = (
            None
            if all(part.report is None for part in parts)
            else [line for part in parts for line in part.lines]
        )
        return EvaluationReport(
            score=normalise(totals._replace(raw=worth), scale) if scored else None,
            raw_score=totals.raw if scored else None,
            llm_raw_score=whole[0] if len(whole) == 1 else None,
            report=lines,
            gain=totals.gain,
            loss=totals.loss,
            asked=sum(part.asked for part in parts),
            answered=sum(part.answered for part in parts),
            unneeded=sum(part.unneeded for part in parts),
            vetoed_by=tuple(name for part in parts for name in part.vetoed_by),
            scale=scale,
            reason=next((part.reason for part in parts if part.reason), ""),
            worth=None if all(part.worth is None for part in parts) else worth,
            partial_reward=totals.raw,
            shown="; ".join(dict.fromkeys(part.shown for part in parts if part.shown)),
            unshaped=unshaped
            if scored and any(part.unshaped is not None for part in parts)
            else None,
            step_rewards=_summed_steps(parts),
        )

    def __add__(self, other: "EvaluationReport") -> "EvaluationReport":
        """Add sums and join lines; the score is derived from the sums, between 0 and 1 where the scales differ."""
        return self.summed((self, other))

    def __str__(self) -> str:
        return shown_report("score", self)

    def _repr_html_(self) -> str:
        tones = {True: "good", False: "bad", None: ""}
        rows = [
            (
                line.name,
                f"{line.weight:+g}",
                Toned(line.said or "–", "error" if line.error else tones[line.passed]),
                line.error or line.reason,
            )
            for line in self.lines
        ]
        title = f"score: {shown_score(self)}" + (
            f", reward {self.raw_score:.3g}" if self.raw_score is not None else ""
        )
        notes = [f"vetoed by {', '.join(self.vetoed_by)}"] if self.vetoed_by else []
        return Page(
            title, [Section(("criterion", "weight", "answer", "reason"), rows)], notes
        ).text("html")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, lines and all, ready for JSON."""
        data: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        data["vetoed_by"] = list(self.vetoed_by)
        for name in (
            "shown",
            "unshaped",
            "version",
            "step_rewards",
        ):  # what most reports do not have
            if not data[name] and data[name] != 0:
                del data[name]
        if self.report is not None:
            data["report"] = [line.model_dump(mode="json") for line in self.report]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "EvaluationReport":
        """The report that `to_dict` was made from."""
        fields = dict(data)
        fields["vetoed_by"] = tuple(fields.get("vetoed_by", ()))
        if fields.get("report") is not None:
            fields["report"] = [CriterionReport.model_validate(line) for line in fields["report"]]
        return cls(**fields)

    # The names of a pydantic model, for programs that knew this record as one.

    model_dump = to_dict

    def model_dump_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> "EvaluationReport":
        """A copy with some fields changed."""
        return replace(self, **(update or {}))


_EMPTY = EvaluationReport()

# Why a rollout is unscored although nothing failed.
NOTHING_APPLIES = "NotApplicable: no counted criterion applies to this rollout"


def _summed_steps(parts: Sequence[EvaluationReport]) -> dict[str, float | None] | None:
    """The rewards of turns, added up; a rubric without criteria about steps gives each its whole reward."""
    found: dict[str, float | None] = {}
    for turn in dict.fromkeys(turn for part in parts for turn in part.step_rewards or ()):
        own = [(p.step_rewards or {}).get(turn, p.raw_score if p.applies else 0.0) for p in parts]
        found[turn] = None if None in own else total(cast("list[float]", own))
    return found or None


def _counted(lines: Iterable[CriterionReport]) -> list[CriterionReport]:
    return [line for line in lines if line.counted and line.value is not None]


def aggregate(
    lines: Sequence[CriterionReport],
    criteria: Sequence[Criterion] = (),
    *,
    aggregation: Aggregation = AGGREGATIONS["weighted"],
    scale: Scale | None = None,
) -> EvaluationReport:
    """The report that these lines come to. `criteria` are needed for vetoes alone."""
    scale = scale or aggregation.scale
    asked = [line for line in lines if line.counted and line.applies]
    totals = aggregation.total(_counted(asked))
    failed = (
        c for c, line in zip(criteria, lines, strict=False) if line.counted and line.passed is False
    )
    vetoes = [criterion for criterion in failed if criterion.required]
    for criterion in vetoes:
        most = sum_behind(criterion.cap, totals.gain, totals.loss, scale)
        totals = totals._replace(raw=min(totals.raw, most))
    anything = any(line.value is not None for line in asked)
    raw = totals.raw if asked else None
    return EvaluationReport(
        score=normalise(totals, scale) if anything else None,
        raw_score=raw,
        llm_raw_score=raw if any(line.requirement for line in lines) else None,
        report=lines,
        gain=totals.gain,
        loss=totals.loss,
        asked=len(asked),
        answered=sum(line.answered for line in asked),
        vetoed_by=tuple(c.name for c in vetoes),
        scale=scale,
        partial_reward=totals.raw,
    )


def shown_report(name: str, report: EvaluationReport, *, coloured: bool = False) -> str:
    """A report as lines: the score, and each criterion with its verdict and reason."""
    head = f"{on_one_line(name)}: {shown_score(report)}"
    if report.vetoed_by:
        head += f", vetoed by {on_one_line(', '.join(report.vetoed_by))}"
    if report.shown:
        head += f" (judges were shown: {report.shown})"
    if report.report is None and report.reason:
        head += f"  {shortened(report.reason)}"
    return "\n".join([head, *_lines(report.lines, "  ", coloured)])


def shown_score(report: EvaluationReport) -> str:
    """The score, or how much of it is missing."""
    if report.score is not None:
        return f"{report.score:.3g}"
    if report.scored:
        return f"reward {report.raw_score:.3g}, and no score, since nothing can be gained"
    if not report.applies:
        return "unscored, since no counted criterion applies"
    return f"unscored, no answer to {report.asked - report.answered} of {report.asked} criteria"


def _lines(lines: Sequence[CriterionReport], indent: str, coloured: bool) -> Iterator[str]:
    for line in lines:
        colour = "red" if line.error is not None else ""
        if line.error is None and line.verdict is not None:
            colour = "green" if line.passed else "yellow"
        said = line.error or line.reason
        mark = painted(f"{line.said or '–':<6} ", colour if coloured else "")
        words = on_one_line(line.requirement or line.name)
        yield f"{indent}{mark}{line.weight:+g}  {words}{f': {shortened(said)}' if said else ''}"
        for cited in line.citations:
            quote = f" “{shortened(cited['quote'])}”" if "quote" in cited else ""
            yield f"{indent}       cites {cited.get('part', 'the response')}{quote}{', not there' * ('found' in cited)}"
        inner = [each for each in line.lines if each.step or line.requirement is None]
        yield from _lines(inner, indent + "  ", coloured)
