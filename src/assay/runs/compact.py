"""Compact reports: the answers alone. What is the same for every row stands once, in run.json."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from assay.aggregation import stakes
from assay.criterion import Criterion
from assay.report import CriterionReport, EvaluationReport, Lines, Score, line_of
from assay.wording import short_repr

_REST = (
    "gain", "loss", "asked", "answered", "unneeded", "vetoed_by", "scale", "reason", "worth",
)  # fmt: skip
"""The fields of a report that are nearly always what its criteria say they are."""


_TEXTS: dict[type, Callable[[Any], str]] = {
    float: float.__repr__,
    int: int.__repr__,
    bool: {False: "false", True: "true"}.__getitem__,
}
"""How JSON writes a bare answer."""

_rest_of = attrgetter(*_REST)


class Compact:
    """Reports on these criteria as short data, and back to equal reports.

    An answer is a number; or `[value, verdict, reason, error, lines, disagreement]` as far as there is
    something to say; or a mapping, for a line that is no answer to the criterion in its place.

    >>> from assay import Rubric
    >>> from assay.concurrency import run_sync
    >>> rubric = Rubric([lambda: True, lambda: 0.5])
    >>> compact = Compact(rubric.criteria)
    >>> [report] = run_sync(rubric.score([{}]))
    >>> compact.written(report)
    {'score': 0.75, 'reward': 1.5, 'answers': [True, 0.5]}
    >>> compact.read(compact.written(report)) == report
    True
    """

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self.criteria = criteria
        self._same: Sequence[Criterion] = criteria
        """The criteria of the last report, found to be these."""
        counted = [criterion for criterion in criteria if criterion.counts]
        gain, loss = stakes([criterion.weight for criterion in counted])
        size = len(counted)
        self._judged = any(criterion.judged for criterion in criteria)
        self._usual: tuple[Any, ...] = (gain, loss, size, size, 0, (), "unit", "", None)

    def written(self, report: EvaluationReport) -> dict[str, Any]:
        """Short data, ready for JSON. Score and reward are None when the rollout is unscored."""
        data: dict[str, Any] = {
            "score": report.score,
            "reward": report.raw_score,
            "answers": self._answers(report.report),
        }
        rest = self._rest(report)
        if rest:
            data["report"] = rest
        return data

    def text(self, report: EvaluationReport) -> str | None:
        """`written` as the inside of a JSON object, at once; None where there is more to say than numbers."""
        lines = report.report
        if type(lines) is not Lines or lines.criteria is not self._same:
            return None
        raw = report.raw_score
        if raw is None or report.llm_raw_score != (raw if self._judged else None):
            return None
        if _rest_of(report) != self._usual:
            return None
        try:
            answers = ",".join([_TEXTS[type(answer)](answer) for answer in lines.answers])
        except KeyError:
            return None
        score = "null" if report.score is None else repr(report.score)
        return f'"score":{score},"reward":{raw!r},"answers":[{answers}]'

    def read(self, data: Mapping[str, Any]) -> EvaluationReport:
        """The report that `written` was given."""
        rest: dict[str, Any] = dict(data.get("report", ()))
        raw = data["reward"]
        fields: dict[str, Any] = dict(zip(_REST, self._usual, strict=True))
        fields |= {"llm_raw_score": raw if self._judged else None}
        fields |= {"score": data["score"], "raw_score": raw, "report": self._lines(data["answers"])}
        fields |= rest
        fields["vetoed_by"] = tuple(fields["vetoed_by"])
        return EvaluationReport(**fields)

    def _answers(self, lines: Sequence[CriterionReport] | None) -> list[Any] | None:
        if lines is None:
            return None
        if isinstance(lines, Lines) and self._are_mine(lines.criteria):
            return [_short(answer) if type(answer) is Score else answer for answer in lines.answers]
        return [self._answer(place, line) for place, line in enumerate(lines)]

    def _are_mine(self, criteria: Sequence[Criterion]) -> bool:
        if criteria is self._same:
            return True
        mine = len(criteria) == len(self.criteria) and all(
            _is_like(one, other) for one, other in zip(criteria, self.criteria, strict=True)
        )
        if mine:
            self._same = criteria
        return mine

    def _answer(self, place: int, line: CriterionReport) -> Any:
        if place < len(self.criteria):
            score = Score(
                line.value, line.reason, line.verdict, line.error, line.lines, line.disagreement
            )
            if line_of(self.criteria[place], score) == line:
                return _short(score)
        return line.model_dump(mode="json", exclude_defaults=True)

    def _rest(self, report: EvaluationReport) -> dict[str, Any]:
        found = _rest_of(report)
        rest: dict[str, Any] = {}
        if found != self._usual:
            pairs = zip(_REST, found, self._usual, strict=True)
            rest = {name: value for name, value, usual in pairs if value != usual}
        if report.llm_raw_score != (report.raw_score if self._judged else None):
            rest["llm_raw_score"] = report.llm_raw_score
        if not report.scored:
            rest["partial_reward"] = report.partial_reward
        return rest

    def _lines(self, answers: Sequence[Any] | None) -> Sequence[CriterionReport] | None:
        if answers is None:
            return None
        read: list[Any] = [_long(a) if isinstance(a, list) else _told(a) for a in answers]
        if len(read) == len(self.criteria) and not any(type(answer) is dict for answer in read):
            return Lines(self.criteria, read)
        return [
            CriterionReport.model_validate(answer)
            if isinstance(answer, dict)
            else line_of(self.criteria[place], answer)
            for place, answer in enumerate(read)
        ]


def _is_like(one: Criterion, other: Criterion) -> bool:
    """Whether the same answer makes the same line of both."""
    names = ("name", "weight", "requirement", "choices", "required", "pass_at", "tags")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and one.report_only == other.report_only


def _short(score: Score) -> list[Any]:
    value, reason, verdict, error, lines, disagreement = score
    short = [
        value,
        verdict,
        str(reason or ""),
        error,
        [_dumped(line) for line in lines],
        disagreement,
    ]
    while len(short) > 1 and (short[-1] is None or short[-1] == "" or short[-1] == []):
        short.pop()
    return short


def _dumped(line: Any) -> Any:
    if isinstance(line, CriterionReport):
        return line.model_dump(mode="json", exclude_defaults=True)
    return line


def _told(answer: Any) -> Any:
    """An answer that is no list: a number, or a line of its own."""
    if type(answer) not in (float, int, bool, dict):
        raise TypeError(f"an answer is {short_repr(answer)}")
    return answer


def _long(short: Any) -> Score:
    value, verdict, reason, error, lines, disagreement = [*short, *_LACKING[len(short) :]]
    for number in (value, disagreement):
        if number is not None and type(number) not in (float, int, bool):
            raise TypeError(f"the value of an answer is {short_repr(number)}")
    for text in (verdict, error):
        if text is not None and type(text) is not str:
            raise TypeError(f"an answer says {short_repr(text)}")
    if type(reason) is not str or type(lines) not in (list, tuple):
        raise TypeError(
            f"an answer has the reason {short_repr(reason)} and the votes {short_repr(lines)}"
        )
    made = tuple([CriterionReport.model_validate(line) for line in cast("list[Any]", lines)])
    return Score(value, reason, verdict, error, made, disagreement)


_LACKING: tuple[Any, ...] = (None, None, "", None, (), None)
