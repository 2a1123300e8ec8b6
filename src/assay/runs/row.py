"""Row is one finished rollout; RowForm turns it into what a run saves of it, and reads it back."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, Required, TypeAlias, cast

from pydantic import Field, ValidationError
from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on

from assay.aggregation import stakes
from assay.criterion import Criterion, hash_json, make_slug
from assay.errors import AssayError
from assay.loading.rubric_reader import is_healthbench_criterion
from assay.messages import get_role, is_plain_chat
from assay.redaction import redact
from assay.report import Citation, CriterionReport, EvaluationReport, Score, make_line
from assay.runs.jsonable import (
    as_ascii,
    as_text,
    as_utf_8,
    encodable,
    form_of,
    holdable,
    to_jsonable,
)
from assay.runs.run_store import (
    LARGEST_INTEGER,
    RunError,
    RunRefused,
    SavedCall,
    SavedRollout,
    SavedVerdict,
)
from assay.runs.spending import NOTHING, Spending
from assay.wording import explain_first_error

Key: TypeAlias = tuple[
    str, int
]  # what a row goes by: the example, and which of its rollouts this is

# The largest number of a rollout that every reader of JSON, and the table of the page, holds exactly.
LARGEST_SAMPLE = 2**53 - 1

Number: TypeAlias = bool | int | float

COLUMN = "rubric"  # the column that holds a row's own rubric, as a rubric file would


# The column of HealthBench that holds criteria, each with a `criterion` and its `points`.
HEALTHBENCH_COLUMN = "rubrics"


def own_rubric(row: Mapping[str, Any]) -> Any:
    """What a row brings for its own rubric; None when it brings none."""
    own = row.get(COLUMN)
    if own is None and HEALTHBENCH_COLUMN in row:
        own = _find_healthbench_rubric(row[HEALTHBENCH_COLUMN])
    if own is None and "input" in row and isinstance(row["input"], Mapping):
        own = own_rubric(cast("Mapping[str, Any]", row["input"]))
    return own or None if isinstance(own, str) else own


def _find_healthbench_rubric(value: Any) -> dict[str, Any] | None:
    """Return the criteria in a column of HealthBench as a rubric; None if it holds anything else."""
    if hasattr(value, "tolist"):  # an array, which Parquet has instead of a list
        value = value.tolist()
    if isinstance(value, list) and value:
        entries = cast("list[Any]", value)
        if all(is_healthbench_criterion(entry) for entry in entries):
            return {HEALTHBENCH_COLUMN: entries}
    return None


def split_messages(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose `messages` are split into `prompt` and `completion`, if it has neither.

    The completion is the last message of the assistant, and the prompt what comes before it.

    >>> split_messages({"messages": [
    ...     {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
    ... ]})
    {'prompt': [{'role': 'user', 'content': '2 + 2?'}], 'completion': '4'}
    """
    if "messages" not in row or "completion" in row or "prompt" in row:
        return row
    messages: Any = row["messages"]
    if hasattr(messages, "tolist"):
        messages = messages.tolist()
    if isinstance(messages, str) and messages.lstrip().startswith("["):
        try:
            messages = json.loads(messages)
        except ValueError:
            return row
    if not isinstance(messages, list):
        return row
    listed = cast("list[Any]", messages)
    replies = [index for index, message in enumerate(listed) if get_role(message) == "assistant"]
    if not replies:
        return row
    index = replies[-1]
    completion: Any = listed[index:]
    if len(completion) == 1 and is_plain_chat(completion):
        completion = completion[0]["content"]
    others = {name: value for name, value in row.items() if name != "messages"}
    return {**others, "prompt": listed[:index], "completion": completion}


def without_rubric(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row without its own rubric."""
    fields = {name: value for name, value in row.items() if name != COLUMN}
    if HEALTHBENCH_COLUMN in fields and _find_healthbench_rubric(fields[HEALTHBENCH_COLUMN]):
        del fields[HEALTHBENCH_COLUMN]
    row_input = fields.get("input")
    if isinstance(row_input, Mapping) and {COLUMN, HEALTHBENCH_COLUMN} & row_input.keys():
        fields["input"] = without_rubric(cast("Mapping[str, Any]", row_input))
    return fields


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

    def update(self, **changes: Any) -> None:
        """Change a row that nothing else has seen yet. A copy of each of a million rows is slow."""
        self.__dict__.update(changes, _errors=None)

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
    """What a run saves of a row: the column `data` of the table `rollouts`."""

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
    altered: list[str]
    fields: dict[str, Any]


class RowForm:
    """Writes and reads the rows of one run, whose criteria are known.

    An answer is a number; or `[value, verdict, reason, error, lines, disagreement, citations, asked]` as far as there is
    something to say; or a mapping, for a line that is no answer to the criterion in its place.
    """

    def __init__(
        self, criteria: Sequence[Criterion], version: str = "", judge: str | None = None
    ) -> None:
        """`version` is that of the run's rubric; a row names its own only if it is another.

        `judge` is who answers the criteria that a model is asked.
        """
        self._judge = None if judge is None else encodable(judge)
        self._criteria = self._same = (
            criteria  # `_same`: those of the last report, found to be ours
        )
        self._names = names_of(criteria, is_own=False)
        counted = [criterion for criterion in criteria if criterion.counts]
        size = len(counted)
        self._judged = any(criterion.judged for criterion in criteria)
        gain, loss = stakes([criterion.weight for criterion in counted])
        self._usual = (gain, loss, size, size, 0, (), "unit", "", None, "", None, None, version)

    def save(self, row: Row, fields: tuple[str, tuple[str, ...]] | None = None) -> SavedRollout:
        """Return what a run saves of a row, which `read` can always read.

        A row that could not be read back becomes a row with an error, in memory as well. The
        `fields` are the row's, made `holdable`, before a check could change them.
        """
        if not 0 <= row.sample <= LARGEST_SAMPLE:
            raise RunRefused(f"a row has the sample {row.sample}: give 0 to {LARGEST_SAMPLE}")
        text, altered = holdable(row.fields) if fields is None else fields
        head, line = self._head(row, altered)
        problem = self._find_problem(head)
        if problem is not None:
            error = f"ValueError: the result of this rollout could not be saved: {problem}"
            row.update(
                report=EvaluationReport(),
                error=error,
                spent=NOTHING,
                spent_on_model=NOTHING,
                timing={},
                model=None,
                judge_log=(),
            )
            head, line = self._head(row, altered)
        data = f'{line[:-1]},"fields":{text}}}'
        if not is_encodable(data):
            # Half a character, which JSON can name and UTF-8 cannot write.
            data = as_ascii({**head, "fields": json.loads(text)})
        spent = row.spent
        errors: dict[str, str] = head.get("errors") or {}
        return SavedRollout(
            example=encodable(row.example),
            sample=row.sample,
            row=row.number,
            task=encodable(row.task),
            score=row.score,
            reward=row.reward,
            error=encodable("\n".join(f"{n}: {e}" for n, e in errors.items())) or None,
            model=None if row.model is None else encodable(row.model),
            input_tokens=min(spent.prompt, LARGEST_INTEGER),
            output_tokens=min(spent.completion, LARGEST_INTEGER),
            cost=spent.cost if spent.calls or spent.hits else None,
            seconds=sum(row.timing.values()) if row.timing else None,
            data=data,
            verdicts=list(self._list_verdicts(row)) if row.error is None else (),
            calls=[_save_call(place, call) for place, call in enumerate(row.judge_log)],
        )

    def _list_verdicts(self, row: Row) -> Iterator[SavedVerdict]:
        """Yield what each criterion of a row comes to."""
        report = row.report
        is_own = own_rubric(row.fields) is not None
        has_errors = bool(row.errors)
        if report.answers is None:
            lines = report.lines
            pairs = zip(lines, lines, strict=True)
            names = names_of(lines, is_own=is_own)
        else:
            pairs = zip(report.criteria, report.answers, strict=True)
            if report.criteria is self._same and not is_own:
                names = self._names
            else:
                names = names_of(report.criteria, is_own=is_own)
        for position, (name, (criterion, answer)) in enumerate(zip(names, pairs, strict=True)):
            judge = None if criterion.requirement is None else self._judge
            tags = encodable(as_text(criterion.tags)) if is_own and criterion.tags else None
            if not isinstance(answer, Score | CriterionReport):
                verdict = None
                if isinstance(answer, bool) and isinstance(criterion, Criterion):
                    verdict = encodable(criterion.choices[-1 if answer else 0])
                yield SavedVerdict(
                    position=position,
                    criterion=encodable(name),
                    value=float(answer),
                    verdict=verdict,
                    judge=judge,
                    tags=tags,
                )
                continue
            reason, error = answer.reason or None, answer.error
            if has_errors:
                reason, error = redact(reason), redact(error)
            yield SavedVerdict(
                position=position,
                criterion=encodable(name),
                value=answer.value,
                verdict=None if answer.verdict is None else encodable(answer.verdict),
                reason=None if reason is None else encodable(str(reason)),
                error=None if error is None else encodable(error),
                judge=judge,
                disagreement=answer.disagreement,
                tags=tags,
            )

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

    def read(self, data: bytes, where: str, judge_log: Sequence[Mapping[str, Any]] = ()) -> Row:
        """Return the row that was saved. Raise `RunError`, which says where, if it cannot be read."""
        saved = _parse(data, where)
        try:
            spent = Spending(**saved["spent"]) if saved.get("spent") else NOTHING
            spent_on_model = NOTHING
            if saved.get("spent_on_model"):
                spent_on_model = Spending(**saved["spent_on_model"])
            report = self.report(saved) if saved.get("error") is None else EvaluationReport()
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = (
                explain_first_error(error)[1] if isinstance(error, ValidationError) else str(error)
            )
            raise _unreadable(where, f"its report: {why}") from error
        known = {
            name: saved[name] for name in ("fields", "error", "timing", "model") if name in saved
        }
        if "altered" in saved:
            known["altered"] = tuple(saved["altered"])
        return Row(
            saved["example"],
            saved["sample"],
            report=report,
            spent=spent,
            spent_on_model=spent_on_model,
            number=saved.get("row"),
            judge_log=tuple(judge_log),
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


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        return form_of(SavedRow).validate_python(json.loads(data), strict=True)
    except ValidationError as error:
        raise _unreadable(where, explain_first_error(error)[1]) from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(where, str(error)) from None


def _unreadable(where: str, problem: str) -> RunError:
    return RunError(
        f"{where} cannot be read ({problem}): restore the file, or delete the rollout and resume "
        "the run, which scores it again"
    )


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can hold a text, which half characters (lone surrogates) prevent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _save_call(position: int, call: Mapping[str, Any]) -> SavedCall:
    """Return a call of a judge as a run saves it."""
    model, reply = call.get("judge"), call.get("reply")
    request = call.get("request") or call.get("messages")
    return SavedCall(
        position=position,
        role=encodable(str(call.get("role", "judge"))),
        model=None if model is None else encodable(str(model)),
        request=as_utf_8(request).decode(),
        reply=None if reply is None else encodable(str(reply)),
        input_tokens=call.get("input_tokens"),
        output_tokens=call.get("output_tokens"),
        cost=call.get("cost"),
        data=as_ascii(to_jsonable(call)),
    )


LONGEST_TITLE = 300  # characters of a requirement by which a criterion of a row's own rubric goes

# What a derived name leaves out and what may make all the difference: `x > 5` and `x < 5` are both `x_5`.
_TELLING = re.compile(r"[^\w\s,.;:!?'\"()\-–—’“”]|-\d")


def title_of(name: str, requirement: str | None) -> str:
    """What a criterion of a row's own rubric goes by among those of all rows: its name, or its requirement."""
    # A name that was derived from a requirement may be cut off, and then stands for many: `x_5` for `x > 5`.
    if requirement is None or not name.startswith(make_slug(requirement)):
        return name
    whole = "_".join(re.findall(r"\w+", requirement[: 2 * LONGEST_TITLE].casefold()))
    if name == whole and not _TELLING.search(requirement):
        return name
    # A filter puts it in quotation marks.
    words = " ".join(requirement.split()).replace('"', "'")
    return (
        words if len(words) <= LONGEST_TITLE else f"{words[:LONGEST_TITLE]}… {hash_json(words)[:8]}"
    )


def names_of(lines: Sequence[CriterionReport | Criterion], *, is_own: bool) -> list[str]:
    """What the lines of a report go by: numbered where a group has a name twice; `is_own` for a row's own rubric."""
    names = [title_of(line.name, line.requirement) if is_own else line.name for line in lines]
    if len(set(names)) == len(names):
        return names
    seen: Counter[str] = Counter()
    apart: list[str] = []
    for name in names:
        seen[name] += 1
        apart.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return apart
