"""Row is one finished rollout; RowForm writes it as a line of rollouts.jsonl and reads it back."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic import ValidationError

from assay.aggregation import stakes
from assay.criterion import Criterion
from assay.errors import AssayError
from assay.models.model import LoggedCall
from assay.redaction import redacted
from assay.report import CriterionReport, EvaluationReport, Lines, Score, line_of
from assay.runs.folder import RunError, RunRefused
from assay.runs.jsonable import as_ascii, as_text, to_jsonable
from assay.runs.spending import NOTHING, Spending
from assay.wording import first_error, short_repr

Key: TypeAlias = tuple[str, int]
"""What a row goes by: the example, and which of its rollouts this is."""

LARGEST_SAMPLE = 2**53 - 1
"""The largest number of a rollout that every reader of JSON, and the table of the page, holds exactly."""


class Seen:
    """A set of keys or texts that keeps their 64-bit hashes alone, since a run has millions of them.

    Two of one hash are taken for one, which among ten million happens once in 400,000 runs.
    """

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def add(self, item: Key | str) -> bool:
        """Add an item; whether it was not there before."""
        before = len(self._hashes)
        self._hashes.add(hash(item))
        return len(self._hashes) > before

    def __contains__(self, item: Key | str) -> bool:
        return hash(item) in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)


def _empty() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Row:
    """One finished rollout: what happened, what was found about it, and what that took.

    >>> Row("7", fields={"completion": "Paris", "task": "capitals"}).task
    'capitals'
    """

    example: str
    """The `example_id` or `id` that the row came with, else its number in the input."""
    sample: int = 0
    """Which of several rollouts of the example this is."""
    fields: Mapping[str, Any] = field(default_factory=_empty)
    """Prompt, completion, answer, and every other column, as JSON values."""
    report: EvaluationReport = field(default_factory=EvaluationReport)
    """What scoring gave; empty when there was nothing to score."""
    error: str | None = None
    """Kind and message when there is nothing to score, as when generation failed."""
    spent: Spending = NOTHING
    """What generation and judging took."""
    timing: Mapping[str, float] = field(default_factory=_empty)
    """Seconds, under `generation` and `scoring`, where they were measured."""
    model: str | None = None
    """The id that the endpoint gave the model under test."""
    exchanges: tuple[Mapping[str, Any], ...] = ()
    """What judges were asked and said, word for word, where that is kept."""
    altered: tuple[str, ...] = ()
    """Fields that JSON could not hold as they were, so that what is saved only resembles them."""
    number: int | None = None
    """Its place in the data, from 0, by which a run gives its rows in order; None when that is not known."""

    def __getattr__(self, name: str) -> Any:
        # A row that was read makes its report when it is first read: see `RowForm.read`.
        make = self.__dict__.get("_make_report")
        if name != "report" or make is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        report = self.__dict__["report"] = make()
        return report

    def __reduce__(self) -> tuple[Any, ...]:
        names = self.__dataclass_fields__
        return Row, tuple(getattr(self, name) for name in names)

    @property
    def key(self) -> Key:
        return self.example, self.sample

    @property
    def scored(self) -> bool:
        """Whether there is a reward. If not, the rollout is kept out of means."""
        return self.error is None and self.report.scored

    @property
    def reward(self) -> float | None:
        """None when the rollout is unscored."""
        return self.report.raw_score if self.scored else None

    @property
    def score(self) -> float | None:
        """None when the rollout is unscored, or nothing in its rubric counts."""
        return self.report.score if self.scored else None

    @property
    def errors(self) -> dict[str, str]:
        """What went wrong, by criterion; under `rollout` why there is nothing to score."""
        known: dict[str, str] | None = self.__dict__.get("_errors")
        if known is None:
            known = self.report.errors if self.error is None else {"rollout": self.error}
            self.__dict__["_errors"] = known
        return known

    @property
    def task(self) -> str:
        return str(self.fields.get("task") or "default")

    @property
    def tags(self) -> dict[str, float | None]:
        """The score over the criteria of each tag alone."""
        return self.report.tag_scores


_REST = (
    "gain", "loss", "asked", "answered", "unneeded", "vetoed_by", "scale", "reason", "worth",
)  # fmt: skip
"""The fields of a report that are nearly always what its criteria say they are."""


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
            score = Score(line.value, line.reason, line.verdict, line.error, line.lines, line.disagreement)
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
    short = [value, verdict, str(reason or ""), error, [_dumped(line) for line in lines], disagreement]
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
        raise TypeError(f"an answer has the reason {short_repr(reason)} and the votes {short_repr(lines)}")
    made = tuple([CriterionReport.model_validate(line) for line in cast("list[Any]", lines)])
    return Score(value, reason, verdict, error, made, disagreement)


_LACKING: tuple[Any, ...] = (None, None, "", None, (), None)


_OPENING = re.compile(rb'\{"example":"([^"\\]*)","sample":(\d{1,15}),(?:"row":(\d{1,15}),)?("errors":)?')
"""How nearly every line begins: enough to know whose it is, and whether it is to be done again."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    "fields": (dict,), "error": (str, NoneType), "spent": (dict, NoneType), "timing": (dict,),
    "model": (str, NoneType), "exchanges": (list,), "altered": (list,), "errors": (dict,),
    "answers": (list, NoneType), "report": (dict,), "row": (int, NoneType),
    "score": (int, float, NoneType), "reward": (int, float, NoneType),
}  # fmt: skip
"""What may stand on a line besides its key."""


class Opening(NamedTuple):
    """What the opening of a line tells."""

    key: Key
    number: int | None
    """The place of the row in the data; None when that is not known."""
    has_errors: bool
    """Whether anything on it went wrong, so that it is done again on resuming."""


class RowForm:
    """Writes and reads the rows of one run, whose criteria are known."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._compact = Compact(criteria)

    def written(self, row: Row, fields: tuple[str, tuple[str, ...]]) -> bytes:
        """One line. The `fields` are the row's, made `holdable`, before a check could touch them."""
        if not 0 <= row.sample <= LARGEST_SAMPLE:
            raise RunRefused(f"a row has the sample {row.sample}: give 0 to {LARGEST_SAMPLE}")
        text, altered = fields
        altered = (*row.altered, *altered)
        head = self._head(row)
        if altered:
            head["altered"] = list(dict.fromkeys(altered))
        try:
            line = as_text(head)
        except (TypeError, ValueError):
            line = as_text(head := to_jsonable(head))
        try:
            return f'{line[:-1]},"fields":{text}}}\n'.encode()
        except UnicodeEncodeError:
            # Half a character, which JSON can name and UTF-8 cannot write.
            return as_ascii({**head, "fields": json.loads(text)}).encode() + b"\n"

    def _head(self, row: Row) -> dict[str, Any]:
        head: dict[str, Any] = {"example": row.example, "sample": row.sample}
        if row.number is not None:
            head["row"] = row.number
        said = self._compact.written(row.report) if row.error is None else {"error": row.error}
        errors = row.errors
        head |= redacted({"errors": errors, **said}) if errors else said
        if row.spent is not NOTHING and row.spent != NOTHING:
            head["spent"] = row.spent.to_dict()
        if row.timing:
            head["timing"] = dict(row.timing)
        if row.model is not None:
            head["model"] = row.model
        if row.exchanges:
            head["exchanges"] = list(row.exchanges)
        return head

    def read(self, line: bytes, where: str) -> Row:
        """The row of a line; its report is made when it is first read."""
        data = data_of(line, where)
        row = object.__new__(Row)
        error: str | None = data.get("error")
        row.__dict__.update(
            example=data["example"],
            sample=data["sample"],
            fields=data.get("fields", {}),
            error=error,
            spent=_spending(data.get("spent"), where),
            timing=_timing(data.get("timing", {}), where),
            model=data.get("model"),
            exchanges=tuple(data.get("exchanges", ())),
            altered=tuple(map(str, data.get("altered", ()))),
            number=data.get("row"),
        )
        if error is not None:
            row.__dict__["report"] = EvaluationReport()
        else:
            row.__dict__["_make_report"] = lambda: self._report(data, where)
        return row

    def _report(self, data: Mapping[str, Any], where: str) -> EvaluationReport:
        try:
            return self._compact.read(data)
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = first_error(error)[1] if isinstance(error, ValidationError) else str(error)
            raise _no_row(where, f"its report cannot be read: {why}") from error


def data_of(line: bytes, where: str) -> dict[str, Any]:
    """What stands on a line. Raises `RunError` when that is no row."""
    try:
        data: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _no_row(where, str(error)) from None
    if not isinstance(data, dict):
        raise _no_row(where, "it is no JSON object")
    found = cast("dict[str, Any]", data)
    if type(found.get("example")) is not str or type(found.get("sample")) is not int:
        raise _no_row(where, "it has no `example` (a text) and `sample` (a number)")
    if not 0 <= found["sample"] <= LARGEST_SAMPLE:
        raise _no_row(where, f"its sample is {found['sample']}")
    for name, kinds in _KINDS.items():
        if name in found and type(found[name]) not in kinds:
            raise _no_row(where, f"its {name} is {short_repr(found[name])}")
    if not 0 <= (found.get("row") or 0) <= LARGEST_SAMPLE:
        raise _no_row(where, f"its row is {found['row']}")
    return found


def opening_of(line: bytes, where: str) -> Opening:
    """Whose line it is, and whether anything on it went wrong, without reading the rest."""
    found = _OPENING.match(line)
    if found is not None and line.endswith(b"}\n"):
        example, sample, number, errors = found.groups()
        try:
            key = (example.decode(), int(sample))
        except UnicodeDecodeError as error:
            raise _no_row(where, str(error)) from None
        return Opening(key, None if number is None else int(number), errors is not None)
    data = data_of(line, where)
    return Opening((data["example"], data["sample"]), data.get("row"), bool(data.get("errors")))


def _spending(data: dict[str, Any] | None, where: str) -> Spending:
    if data is None:
        return NOTHING
    known = {each.name: each for each in fields(Spending)}
    for name, value in data.items():
        is_amount = type(value) in (int, float) or (name == "cost" and value is None)
        if name not in known or not is_amount:
            raise _no_row(where, f"it spent {short_repr(value)} {short_repr(name)}")
    return Spending(**data)


def _timing(data: dict[str, Any], where: str) -> dict[str, float]:
    for name, value in data.items():
        if type(value) not in (int, float):
            raise _no_row(where, f"its timing of {short_repr(name)} is {short_repr(value)}")
    return data


def _no_row(where: str, why: str) -> RunError:
    return RunError(
        f"{where}: this line is no row of a run ({why}): mend it, or delete the line and resume, "
        "which does its rollout again"
    )


def exchanges_told(kept: Sequence[LoggedCall]) -> tuple[Mapping[str, Any], ...]:
    """Exchanges as plain data. `like` is the number of an earlier one that opens in the same words.

    Of such a one only the messages after the common opening are told.
    """
    told: list[Mapping[str, Any]] = []
    for place, exchange in enumerate(kept):
        known: dict[str, Any] = {"judge": exchange.judge, "question": exchange.question}
        like, shared = _alike(kept[:place], exchange)
        if shared:
            known |= {"like": like, "shared": shared}
        known["messages"] = [dict(message) for message in exchange.messages[shared:]]
        told.append({**known, "reply": exchange.reply, "source": exchange.source})
    return tuple(told)


def _alike(before: Sequence[LoggedCall], exchange: LoggedCall) -> tuple[int, int]:
    """The first exchange that opens like this one, and how many messages they share."""
    for place, earlier in enumerate(before):
        shared = 0
        for one, other in zip(earlier.messages, exchange.messages, strict=False):
            if one != other:
                break
            shared += 1
        if shared:
            return place, shared
    return 0, 0


def whole_exchanges(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same with every message written out again.

    >>> first = {"judge": "j", "question": "", "messages": [{"role": "user", "content": "a"}]}
    >>> again = {**first, "like": 0, "shared": 1, "messages": [{"role": "user", "content": "b"}]}
    >>> [message["content"] for message in whole_exchanges([first, again])[1]["messages"]]
    ['a', 'b']
    """
    whole: list[dict[str, Any]] = []
    for exchange in told:
        opening: list[Any] = []
        if "like" in exchange:
            before = cast("list[Any]", whole[exchange["like"]]["messages"])
            opening = before[: exchange["shared"]]
        known = {name: exchange[name] for name in exchange if name not in ("like", "shared")}
        known["messages"] = opening + list(exchange["messages"])
        whole.append(known)
    return whole
