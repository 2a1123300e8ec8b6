"""Row is one finished rollout; RowForm writes it as a line of rollouts.jsonl and reads it back."""

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, Required, TypeAlias, cast

from pydantic import Field, ValidationError
from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on

from assay.aggregation import stakes
from assay.criterion import Criterion
from assay.errors import AssayError
from assay.redaction import redact
from assay.report import Citation, CriterionReport, EvaluationReport, Score, make_line
from assay.runs.folder import RunError, RunRefused
from assay.runs.jsonable import as_ascii, as_text, form_of, to_jsonable
from assay.runs.spending import NOTHING, Spending
from assay.wording import explain_first_error

Key: TypeAlias = tuple[
    str, int
]  # what a row goes by: the example, and which of its rollouts this is

# The largest number of a rollout that every reader of JSON, and the table of the page, holds exactly.
LARGEST_SAMPLE = 2**53 - 1

Number: TypeAlias = bool | int | float

COLUMN = "rubric"  # the column that holds a row's own rubric, as a rubric file would


def own_rubric(row: Mapping[str, Any]) -> Any:
    """What a row brings for its own rubric; None when it brings none."""
    own = row.get(COLUMN)
    if own is None and "input" in row and isinstance(row["input"], Mapping):
        own = cast("Mapping[str, Any]", row["input"]).get(COLUMN)
    return own or None if isinstance(own, str) else own


def without_rubric(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row without its own rubric."""
    fields = {name: value for name, value in row.items() if name != COLUMN}
    row_input = fields.get("input")
    if isinstance(row_input, Mapping) and COLUMN in row_input:
        fields["input"] = without_rubric(cast("Mapping[str, Any]", row_input))
    return fields


class Seen:
    """A set of keys or texts that keeps their 64-bit hashes alone, since a run has millions of them.

    Two of one hash are taken for one, which among ten million happens once in 400,000 runs.
    """

    def __init__(self) -> None:
        # A hash table of our own: a set of numbers takes 90 bytes for each, and so grows with the file.
        self._slots = array("q", bytes(8 * 1024))
        self._count = 0

    def add(self, item: Key | str) -> bool:
        """Add an item; whether it was not there before."""
        number = hash(item) or 1
        if self._slots[place := self._place(number)]:
            return False
        self._slots[place] = number
        self._count += 1
        if 5 * self._count > 4 * len(self._slots):
            earlier, self._slots = self._slots, array("q", bytes(16 * len(self._slots)))
            for number in filter(None, earlier):
                self._slots[self._place(number)] = number
        return True

    def _place(self, number: int) -> int:
        """Where a hash stands, or would; a free slot holds 0."""
        slots, mask = self._slots, len(self._slots) - 1
        place = number & mask
        while slots[place] and slots[place] != number:
            place = (place + 1) & mask
        return place

    def __contains__(self, item: Key | str) -> bool:
        return self._slots[self._place(hash(item) or 1)] != 0

    def __len__(self) -> int:
        return self._count


@dataclass(frozen=True)
class Row:
    """One finished rollout: what happened, what was found about it, and what that took.

    >>> Row("7", fields={"completion": "Paris", "task": "capitals"}).task
    'capitals'
    """

    example: str  # the `example_id` or `id` that the row came with, else its number in the input
    sample: int = 0  # which of several rollouts of the example this is
    # Prompt, completion, answer, and every other column, as JSON values.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # What scoring gave; empty when there was nothing to score.
    report: EvaluationReport = field(default_factory=EvaluationReport)
    error: str | None = (
        None  # kind and message when there is nothing to score, as when generation failed
    )
    spent: Spending = NOTHING  # what generation and judging took
    spent_on_model: Spending = NOTHING  # the part of it that generation took
    # Seconds, under `generation` and `scoring`, where they were measured.
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    model: str | None = None  # the id that the endpoint gave the model under test
    judge_log: tuple[
        Mapping[str, Any], ...
    ] = ()  # what judges were asked and said, word for word, where that is kept
    # Fields that JSON could not hold as they were, so that what is saved only resembles them.
    altered: tuple[str, ...] = ()
    # Its place in the data, from 0, by which a run gives its rows in order; None when that is not known.
    number: int | None = None

    def give(self, **found: Any) -> None:
        """Set the report and more of a row that nothing else has seen yet: a copy for each of a million rows is dear."""
        self.__dict__.update(found, _errors=None)

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
        if known is None:  # `cached_property` takes a lock, which is dearer than all the rest of it
            known = self.report.errors if self.error is None else {"rollout": self.error}
            self.__dict__["_errors"] = known
        return known

    @property
    def spent_on_judge(self) -> Spending:
        """The calls, tokens and dollars that judging took."""
        return self.spent - self.spent_on_model

    @property
    def task(self) -> str:
        return str(self.fields.get("task") or "default")


# The fields of a report that are nearly always what its criteria say they are.
_REST = (
    "gain",
    "loss",
    "asked",
    "answered",
    "unneeded",
    "vetoed_by",
    "scale",
    "reason",
    "worth",
    "shown",
    "unshaped",
    "step_rewards",
    "version",
)
_rest_of = attrgetter(*_REST)
# What the line of a report takes from its criterion.
_LINE = attrgetter(
    "name", "weight", "requirement", "choices", "required", "pass_at", "tags", "report_only"
)
# How nearly every line begins: enough to know whose it is, and whether it is to be done again.
_OPENING = re.compile(
    rb'\{"example":"([^"\\]*)","sample":(\d{1,15}),(?:"row":(\d{1,15}),)?("errors":)?'
)


class SavedAnswer(NamedTuple):
    """A `Score` as a line holds it, whose end is cut off where there is nothing to say."""

    value: Number | None = None
    verdict: str | None = None
    reason: str = ""
    error: str | None = None
    lines: tuple[CriterionReport, ...] = ()
    disagreement: Number | None = None
    citations: tuple[Citation, ...] = ()
    asked: bool = True


class SavedRow(TypedDict, total=False):
    """What stands on a line of rollouts.jsonl."""

    example: Required[str]
    sample: Required[Annotated[int, Field(ge=0, le=LARGEST_SAMPLE)]]
    row: Annotated[int, Field(ge=0, le=LARGEST_SAMPLE)] | None
    errors: dict[str, Any]
    error: str | None
    score: float | None
    reward: float | None
    answers: list[Any] | None
    report: dict[str, Any]
    spent: dict[str, int | float | None] | None
    spent_on_model: dict[str, int | float | None]
    timing: dict[str, float]
    model: str | None
    judge_log: list[dict[str, Any]]
    altered: list[str]
    fields: dict[str, Any]


class RowForm:
    """Writes and reads the rows of one run, whose criteria are known.

    An answer is a number; or `[value, verdict, reason, error, lines, disagreement, citations, asked]` as far as there is
    something to say; or a mapping, for a line that is no answer to the criterion in its place.
    """

    def __init__(self, criteria: Sequence[Criterion], version: str = "") -> None:
        """`version` is that of the run's rubric; a row names its own only if it is another."""
        self._criteria = self._same = (
            criteria  # `_same`: those of the last report, found to be ours
        )
        counted = [criterion for criterion in criteria if criterion.counts]
        size = len(counted)
        self._judged = any(criterion.judged for criterion in criteria)
        gain, loss = stakes([criterion.weight for criterion in counted])
        self._usual = (gain, loss, size, size, 0, (), "unit", "", None, "", None, None, version)

    def written(self, row: Row, fields: tuple[str, tuple[str, ...]]) -> bytes:
        """Return the row as one line, which `read` can always read.

        A row that could not be read back becomes a row with an error, in memory as well. The
        `fields` are the row's, made `holdable`, before a check could change them.
        """
        if not 0 <= row.sample <= LARGEST_SAMPLE:
            raise RunRefused(f"a row has the sample {row.sample}: give 0 to {LARGEST_SAMPLE}")
        text, altered = fields
        head, line = self._head(row, altered)
        problem = self._find_problem(head)
        if problem is not None:
            error = f"ValueError: the result of this rollout could not be saved: {problem}"
            row.give(
                report=EvaluationReport(),
                error=error,
                spent=NOTHING,
                spent_on_model=NOTHING,
                timing={},
                model=None,
                judge_log=(),
            )
            head, line = self._head(row, altered)
        try:
            return f'{line[:-1]},"fields":{text}}}\n'.encode()
        except UnicodeEncodeError:
            # Half a character, which JSON can name and UTF-8 cannot write.
            return as_ascii({**head, "fields": json.loads(text)}).encode() + b"\n"

    def _head(self, row: Row, altered: tuple[str, ...]) -> tuple[dict[str, Any], str]:
        """Return what is saved of a row besides its fields, as JSON values and as JSON text."""
        head: dict[str, Any] = {"example": row.example, "sample": row.sample}
        if row.number is not None:
            head["row"] = row.number
        result = self.short(row.report) if row.error is None else {"error": row.error}
        errors = row.errors
        head |= redact({"errors": errors, **result}) if errors else result
        if row.spent is not NOTHING and row.spent != NOTHING:
            head["spent"] = row.spent.to_dict()
        if row.spent_on_model is not NOTHING and row.spent_on_model != NOTHING:
            head["spent_on_model"] = row.spent_on_model.to_dict()
        if row.timing:
            head["timing"] = dict(row.timing)
        if row.model is not None:
            head["model"] = row.model
        if row.judge_log:
            head["judge_log"] = list(row.judge_log)
        if row.altered or altered:
            head["altered"] = list(dict.fromkeys((*row.altered, *altered)))
        try:
            return head, as_text(head)
        except (TypeError, ValueError, RecursionError):
            head = to_jsonable(head)
            return head, as_text(head)

    def _find_problem(self, head: dict[str, Any]) -> str | None:
        """Return why a row could not be read back; None if it could."""
        try:
            form_of(SavedRow).validate_python(head, strict=True)
            if head.get("spent"):
                Spending(**head["spent"])
            Spending(**head.get("spent_on_model", {}))
            if head.get("error") is None:
                self.report(head)
        except ValidationError as error:
            return explain_first_error(error)[1]
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            return str(error)
        return None

    def read(self, line: bytes, where: str) -> Row:
        """The row of a line. Raises `RunError`, which names the line, when it is none."""
        data = data_of(line, where)
        try:
            spent = Spending(**data["spent"]) if data.get("spent") else NOTHING
            spent_on_model = NOTHING
            if data.get("spent_on_model"):
                spent_on_model = Spending(**data["spent_on_model"])
            report = self.report(data) if data.get("error") is None else EvaluationReport()
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = (
                explain_first_error(error)[1] if isinstance(error, ValidationError) else str(error)
            )
            raise _no_row(where, f"its report cannot be read: {why}") from error
        known = {
            name: data[name] for name in ("fields", "error", "timing", "model") if name in data
        }
        known |= {name: tuple(data[name]) for name in ("judge_log", "altered") if name in data}
        return Row(
            data["example"],
            data["sample"],
            report=report,
            spent=spent,
            spent_on_model=spent_on_model,
            number=data.get("row"),
            **known,
        )

    def short(self, report: EvaluationReport) -> dict[str, Any]:
        """A report as short data, ready for JSON. Score and reward are None when the rollout is unscored."""
        answers: list[Any] | None = None
        if report.answers is not None and (
            report.criteria is self._same or self._are_ours(report.criteria)
        ):
            answers = [
                _short(answer) if type(answer) is Score else answer for answer in report.answers
            ]
        elif report.report is not None:
            answers = [self._answer(place, line) for place, line in enumerate(report.report)]
        data: dict[str, Any] = {
            "score": report.score,
            "reward": report.raw_score,
            "answers": answers,
        }
        rest: dict[str, Any] = {}
        found = _rest_of(report)
        if found != self._usual:
            pairs = zip(_REST, found, self._usual, strict=True)
            rest = {name: value for name, value, usual in pairs if value != usual}
        if report.llm_raw_score != (report.raw_score if self._judged else None):
            rest["llm_raw_score"] = report.llm_raw_score
        if not report.scored:
            rest["partial_reward"] = report.partial_reward
        if rest:
            data["report"] = rest
        return data

    def _are_ours(self, criteria: Sequence[Criterion]) -> bool:
        if list(map(_LINE, criteria)) != list(map(_LINE, self._criteria)):
            return False
        self._same = criteria
        return True

    def _answer(self, place: int, line: CriterionReport) -> Any:
        if place < len(self._criteria) and make_line(self._criteria[place], line.as_score) == line:
            return _short(line.as_score)
        return _dumped(line)

    def report(self, data: Mapping[str, Any]) -> EvaluationReport:
        """The report that `short` was given."""
        raw, answers = data["reward"], data["answers"]
        known: dict[str, Any] = dict(zip(_REST, self._usual, strict=True))
        if answers is not None:
            read = [_long(answer) for answer in answers]
            if len(read) == len(self._criteria) and dict not in map(type, read):
                known |= {"criteria": self._criteria, "answers": read}
            else:
                known["report"] = [
                    CriterionReport.model_validate(answer)
                    if isinstance(answer, dict)
                    else make_line(self._criteria[place], answer)
                    for place, answer in enumerate(read)
                ]
        known |= {
            "score": data["score"],
            "raw_score": raw,
            "llm_raw_score": raw if self._judged else None,
        }
        known |= data.get("report", {})
        known["vetoed_by"] = tuple(known["vetoed_by"])
        return EvaluationReport(**known)


def _short(score: Score) -> list[Any]:
    value, reason, verdict, error, lines, disagreement, citations, asked = score
    short = [
        value,
        verdict,
        str(reason or ""),
        error,
        list(map(_dumped, lines)),
        disagreement,
        list(citations),
    ]
    if not asked:
        return [*short, asked]
    while len(short) > 1 and (short[-1] is None or short[-1] == "" or short[-1] == []):
        short.pop()
    return short


def _dumped(line: Any) -> Any:
    return (
        line.model_dump(mode="json", exclude_defaults=True)
        if isinstance(line, CriterionReport)
        else line
    )


def _long(answer: Any) -> Any:
    """An answer as it was: a number, a mapping, or the score that `_short` was given."""
    if type(answer) in (float, int, bool, dict):
        return answer
    value, verdict, reason, *rest = form_of(SavedAnswer).validate_python(answer)
    return Score(value, reason, verdict, *rest)


class Opening(NamedTuple):
    """What the opening of a line tells."""

    key: Key
    number: int | None  # the place of the row in the data; None when that is not known
    has_errors: bool  # whether anything on it went wrong, so that it is done again on resuming


def data_of(line: bytes, where: str) -> dict[str, Any]:
    """What stands on a line. Raises `RunError` when that is no row."""
    try:
        return form_of(SavedRow).validate_python(json.loads(line), strict=True)
    except ValidationError as error:
        raise _no_row(where, explain_first_error(error)[1]) from None
    except (ValueError, RecursionError) as error:
        raise _no_row(where, str(error)) from None


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


def _no_row(where: str, why: str) -> RunError:
    instead = "mend it, or delete the line and resume, which does its rollout again"
    return RunError(f"{where}: this line is no row of a run ({why}): {instead}")
