"""A row is one finished rollout. RowForm converts rows to the form in which a run saves them, and back."""

import json
import re
from collections.abc import Mapping, Sequence
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
    SerializedFields,
    as_ascii,
    as_text,
    as_utf_8,
    escape_surrogates,
    serialize_fields,
    to_jsonable,
    type_adapter,
)
from assay.runs.run_errors import RunError, RunRefused
from assay.runs.run_schema import (
    LARGEST_INTEGER,
    SavedCall,
    SavedNumber,
    SavedRollout,
    SavedVerdict,
)
from assay.runs.spending import NOTHING, Spending
from assay.wording import explain_first_error

# What identifies a row in its run: the example, and the number of the sample.
Key: TypeAlias = tuple[str, int]

# The largest integer that every reader of JSON, including the page, holds exactly.
LARGEST_SAMPLE = 2**53 - 1

Number: TypeAlias = bool | int | float
_NUMBER_TYPES = frozenset({bool, int, float})

RUBRIC_COLUMN = "rubric"  # the column with a row's own rubric, as a rubric file would hold it

# The column of HealthBench that holds criteria, each with a `criterion` and its `points`.
HEALTHBENCH_COLUMN = "rubrics"


def own_rubric(row: Mapping[str, Any]) -> Any:
    """Return the rubric that a row brings, as the data of a rubric file; None if it has none."""
    rubric = row.get(RUBRIC_COLUMN)
    if rubric is None and HEALTHBENCH_COLUMN in row:
        rubric = _find_healthbench_rubric(row[HEALTHBENCH_COLUMN])
    # The state of a rollout may hold the row of the data under `input`.
    if rubric is None and "input" in row and isinstance(row["input"], Mapping):
        rubric = own_rubric(cast("Mapping[str, Any]", row["input"]))
    if isinstance(rubric, str) and not rubric:  # an empty cell of a CSV file
        return None
    return rubric


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
    """Split the `messages` of a row into `prompt` and `completion`, if it has neither of these.

    The completion begins with the last message of the assistant, and the prompt is what comes
    before it. A row whose messages cannot be split is returned as it is.

    >>> split_messages({"messages": [
    ...     {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
    ... ]})
    {'prompt': [{'role': 'user', 'content': '2 + 2?'}], 'completion': '4'}
    """
    if "messages" not in row or "completion" in row or "prompt" in row:
        return row
    messages: Any = row["messages"]
    if hasattr(messages, "tolist"):  # an array, which Parquet has instead of a list
        messages = messages.tolist()
    if isinstance(messages, str) and messages.lstrip().startswith("["):  # JSON in a cell
        try:
            messages = json.loads(messages)
        except ValueError:
            return row
    if not isinstance(messages, list):
        return row
    messages = cast("list[Any]", messages)
    reply_indices = [
        index for index, message in enumerate(messages) if get_role(message) == "assistant"
    ]
    if not reply_indices:
        return row
    last_reply = reply_indices[-1]
    completion: Any = messages[last_reply:]
    if len(completion) == 1 and is_plain_chat(completion):
        completion = completion[0]["content"]  # only the text
    other_fields = {name: value for name, value in row.items() if name != "messages"}
    return {**other_fields, "prompt": messages[:last_reply], "completion": completion}


def without_rubric(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row without its own rubric."""
    fields = {name: value for name, value in row.items() if name != RUBRIC_COLUMN}
    if HEALTHBENCH_COLUMN in fields and _find_healthbench_rubric(fields[HEALTHBENCH_COLUMN]):
        del fields[HEALTHBENCH_COLUMN]
    row_input = fields.get("input")
    if isinstance(row_input, Mapping) and {RUBRIC_COLUMN, HEALTHBENCH_COLUMN} & row_input.keys():
        fields["input"] = without_rubric(cast("Mapping[str, Any]", row_input))
    return fields


@dataclass(frozen=True)
class Row:
    """One finished rollout: its text, its result, and what it cost.

    >>> Row("7", fields={"completion": "Paris", "task": "capitals"}).task
    'capitals'
    """

    example: str  # the `example_id` or `id` of the row, or else its number in the input
    sample: int = 0  # which of several rollouts of the example this is
    # Prompt, completion, answer and every other column, as JSON values.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # The result of scoring; empty if there was nothing to score.
    report: EvaluationReport = field(default_factory=EvaluationReport)
    # Kind and message of the error if there is nothing to score, as when generation failed.
    error: str | None = None
    spent: Spending = NOTHING  # what generation and judging took
    spent_on_model: Spending = NOTHING  # by generation alone
    # Seconds, under `generation` and `scoring`, if they were measured.
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    model: str | None = None  # the id of the model under test, as the endpoint reported it
    # The exact requests and replies of judges, if they were kept.
    calls: tuple[Mapping[str, Any], ...] = ()
    # Names of fields that were altered because JSON could not hold them as they were.
    altered: tuple[str, ...] = ()
    # The position in the data, from 0, by which a run orders its rows; None if it is not known.
    number: int | None = None

    def update(self, **changes: Any) -> None:
        """Change this row in place, although it is frozen, while nothing else refers to it yet.

        To make a changed copy of each of a million rows would be slow.
        """
        self.__dict__.update(changes, _errors=None)

    @property
    def key(self) -> Key:
        return self.example, self.sample

    @property
    def scored(self) -> bool:
        """Whether there is a reward. Rollouts without one are left out of means."""
        return self.error is None and self.report.scored

    @property
    def reward(self) -> float | None:
        """None if the rollout is unscored."""
        return self.report.raw_score if self.scored else None

    @property
    def score(self) -> float | None:
        """None if the rollout is unscored, or nothing in its rubric counts."""
        return self.report.score if self.scored else None

    @property
    def errors(self) -> dict[str, str]:
        """Error messages by criterion; under `rollout`, why there is nothing to score."""
        # Kept after the first call, as by `cached_property`, whose lock takes longer than the rest.
        errors: dict[str, str] | None = self.__dict__.get("_errors")
        if errors is None:
            errors = self.report.errors if self.error is None else {"rollout": self.error}
            self.__dict__["_errors"] = errors
        return errors

    @property
    def spent_on_judge(self) -> Spending:
        """The calls, tokens and dollars that judging took."""
        return self.spent - self.spent_on_model

    @property
    def task(self) -> str:
        return str(self.fields.get("task") or "default")


# Fields of a report that can nearly always be worked out from its criteria. A run saves them only
# if they differ from that.
_DERIVED_FIELDS = (
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
_get_derived_fields = attrgetter(*_DERIVED_FIELDS)
# The attributes of a criterion that a line of a report repeats.
_get_line_attributes = attrgetter(
    "name", "weight", "requirement", "choices", "required", "pass_at", "tags", "report_only"
)


class SavedAnswer(NamedTuple):
    """A `Score` as a list, from whose end empty values may be missing."""

    value: Number | None = None
    verdict: str | None = None
    reason: str = ""
    error: str | None = None
    lines: tuple[CriterionReport, ...] = ()
    disagreement: Number | None = None
    citations: tuple[Citation, ...] = ()
    asked: bool = True


class CriterionColumns(NamedTuple):
    """What all rows of the table `verdicts` for one criterion have in common."""

    position: int
    criterion: str
    judge: str | None  # who answers; None if code does
    tags: str | None  # of a criterion that only one rollout has, as a JSON list
    verdict_if_false: str | None  # what a check means that returns False; None if that is not known
    verdict_if_true: str | None


# The types of an answer that has more than a number.
_ANSWER_RECORDS = (Score, CriterionReport)


class SavedRow(TypedDict, total=False):
    """The JSON that a run saves for a row, in the column `data` of the table `rollouts`."""

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
    """Converts the rows of one run to the form in which they are saved, and back.

    What the criteria of the run already say is not saved again with every row.

    Answers are saved in the order of the criteria. Each is a number, or a list
    `[value, verdict, reason, error, lines, disagreement, citations, asked]` without empty values at
    its end, or the line of the report as an object if it is not by the criterion of the run.
    """

    def __init__(
        self, criteria: Sequence[Criterion], version: str = "", judge: str | None = None
    ) -> None:
        """`version` is that of the run's rubric. Reports with another version save theirs.

        `judge` is the name of who answers the criteria that code does not answer.
        """
        self._judge = None if judge is None else escape_surrogates(judge)
        self._criteria = criteria
        # A sequence of criteria that was found to match `self._criteria`. Nearly all reports of a run
        # have the same one, so comparing the objects is usually enough.
        self._matched_criteria = criteria
        self._columns_of_criteria = self._make_columns(criteria, is_row_rubric=False)
        counted = [criterion for criterion in criteria if criterion.counts]
        self._has_judged_criteria = any(criterion.judged for criterion in criteria)
        # The values that the fields `_DERIVED_FIELDS` of a report have if all criteria are answered,
        # as in most rows. A report is saved with only the fields that have other values.
        gain, loss = stakes([criterion.weight for criterion in counted])
        usual = {
            "gain": gain,
            "loss": loss,
            "asked": len(counted),
            "answered": len(counted),
            "unneeded": 0,
            "vetoed_by": (),
            "scale": "unit",
            "reason": "",
            "worth": None,
            "shown": "",
            "unshaped": None,
            "step_rewards": None,
            "version": version,
        }
        self._usual_values = tuple(usual[name] for name in _DERIVED_FIELDS)

    def save(self, row: Row, fields: SerializedFields | None = None) -> SavedRollout:
        """Return a row as a run saves it, so that `read` can always read it.

        A row that could not be read back becomes a row with an error, in memory as well. `fields`
        are what `serialize_fields` returned for the row before a check could change its fields; by
        default it is called now.
        """
        if not 0 <= row.sample <= LARGEST_SAMPLE:
            raise RunRefused(f"a row has the sample {row.sample}: give 0 to {LARGEST_SAMPLE}")
        fields_text, altered = serialize_fields(row.fields) if fields is None else fields
        # The head is all that is saved of a row except its fields.
        head, head_text = self._make_head(row, altered)
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
                calls=(),
            )
            head, head_text = self._make_head(row, altered)
        # Put the fields, which are JSON already, before the closing brace of the other values.
        data = f'{head_text[:-1]},"fields":{fields_text}}}'
        if not is_encodable(data):
            # Half a character (a lone surrogate): JSON can escape it, but UTF-8 cannot hold it.
            data = as_ascii({**head, "fields": json.loads(fields_text)})
        verdicts, numbers = self._list_verdicts(row)
        spent = row.spent
        errors: dict[str, str] = head.get("errors") or {}
        error_lines = [f"{criterion}: {message}" for criterion, message in errors.items()]
        return SavedRollout(
            example=escape_surrogates(row.example),
            sample=row.sample,
            row=row.number,
            task=escape_surrogates(row.task),
            score=row.score,
            reward=row.reward,
            error=escape_surrogates("\n".join(error_lines)) or None,
            model=None if row.model is None else escape_surrogates(row.model),
            input_tokens=min(spent.prompt, LARGEST_INTEGER),
            output_tokens=min(spent.completion, LARGEST_INTEGER),
            cost=spent.cost if spent.calls or spent.hits else None,
            seconds=sum(row.timing.values()) if row.timing else None,
            data=data,
            verdicts=verdicts,
            numbers=numbers,
            calls=[_make_call(position, call) for position, call in enumerate(row.calls)],
        )

    def _list_verdicts(self, row: Row) -> tuple[list[SavedVerdict], list[SavedNumber]]:
        """Return the answers to the criteria of a row as rows of the table `verdicts`.

        Most answers are only a number that code returned. These are the second list, since fewer
        columns are saved for them, which is faster. All others are the first list.
        """
        verdicts: list[SavedVerdict] = []
        numbers: list[SavedNumber] = []
        if row.error is not None:
            return verdicts, numbers
        report = row.report
        is_row_rubric = own_rubric(row.fields) is not None
        questions: Sequence[Criterion | CriterionReport]
        if report.answers is None:  # each line of the report has both the question and its answer
            questions = answers = report.lines
        else:
            questions, answers = report.criteria, report.answers
        # What is known before the answers: one entry per criterion. If the criteria are those of the
        # run, as in nearly every row, it was made before.
        if questions is self._matched_criteria and not is_row_rubric:
            all_columns = self._columns_of_criteria
        else:
            all_columns = self._make_columns(questions, is_row_rubric=is_row_rubric)
        # The message of an error may quote a key or a password, and so may a reason beside it.
        has_errors = bool(row.errors)
        for columns, answer in zip(all_columns, answers, strict=True):
            if isinstance(answer, _ANSWER_RECORDS):
                verdicts.append(_make_verdict(columns, answer, has_errors=has_errors))
                continue
            verdict = None  # the answer is a number, or True or False, which have a verdict
            if isinstance(answer, bool):
                verdict = columns.verdict_if_true if answer else columns.verdict_if_false
            number = (columns.position, columns.criterion, float(answer), verdict)
            # A `SavedNumber` has no judge and no tags.
            if columns.judge is None and columns.tags is None:
                numbers.append(number)
            else:
                verdicts.append(SavedVerdict(*number, judge=columns.judge, tags=columns.tags))
        return verdicts, numbers

    def _make_columns(
        self, questions: Sequence[Criterion | CriterionReport], *, is_row_rubric: bool
    ) -> list[CriterionColumns]:
        """Return what is known of each criterion's row in the table `verdicts` before the answers.

        `is_row_rubric` says that the criteria are from a row's own rubric.
        """
        all_columns: list[CriterionColumns] = []
        names = names_of(questions, is_row_rubric=is_row_rubric)
        for position, (name, question) in enumerate(zip(names, questions, strict=True)):
            verdict_if_false = verdict_if_true = None
            if isinstance(question, Criterion):
                # Choices run from worst to best.
                verdict_if_false = escape_surrogates(question.choices[0])
                verdict_if_true = escape_surrogates(question.choices[-1])
            columns = CriterionColumns(
                position=position,
                criterion=escape_surrogates(name),
                judge=None if question.requirement is None else self._judge,
                # The tags of the run's criteria are saved once, with the run.
                tags=escape_surrogates(as_text(question.tags))
                if is_row_rubric and question.tags
                else None,
                verdict_if_false=verdict_if_false,
                verdict_if_true=verdict_if_true,
            )
            all_columns.append(columns)
        return all_columns

    def _make_head(self, row: Row, altered: tuple[str, ...]) -> tuple[dict[str, Any], str]:
        """Return all that is saved of a row except its fields: as JSON values, and as their text.

        `altered` are the names of fields that JSON could not hold as they were. Values that are
        empty are left out.
        """
        head: dict[str, Any] = {"example": row.example, "sample": row.sample}
        if row.number is not None:
            head["row"] = row.number
        if row.error is not None:
            result: dict[str, Any] = {"error": row.error}
        else:
            result = self.shorten(row.report)
        if row.errors:
            # Messages of errors may quote keys and passwords.
            result = redact({"errors": row.errors, **result})
        head |= result
        if row.spent != NOTHING:
            head["spent"] = row.spent.to_dict()
        if row.spent_on_model != NOTHING:
            head["spent_on_model"] = row.spent_on_model.to_dict()
        if row.timing:
            head["timing"] = dict(row.timing)
        if row.model is not None:
            head["model"] = row.model
        if row.altered or altered:
            head["altered"] = list(dict.fromkeys((*row.altered, *altered)))
        try:
            return head, as_text(head)
        except (TypeError, ValueError, RecursionError):  # a value that JSON cannot hold
            head = to_jsonable(head)
            return head, as_text(head)

    def _find_problem(self, head: dict[str, Any]) -> str | None:
        """Return why a row could not be read back; None if it could.

        `head` is what is saved of the row except its fields, which cannot be a problem.
        """
        try:
            type_adapter(SavedRow).validate_python(head, strict=True)
            for name in ("spent", "spent_on_model"):
                if name in head:
                    Spending(**head[name])
            # Reading the report takes long, so it is only tried if it could fail.
            if head.get("error") is None and not _is_surely_readable(head):
                self.read_report(head)
        except ValidationError as error:
            return explain_first_error(error)[1]
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            return str(error)
        return None

    def read(self, data: bytes, where: str, calls: Sequence[Mapping[str, Any]] = ()) -> Row:
        """Return the row that was saved as `data` and `calls`.

        Raise `RunError` if it cannot be read; `where` says in the message which row it is.
        """
        saved = _parse_row(data, where)
        spent, spent_on_model = NOTHING, NOTHING
        report = EvaluationReport()
        try:
            if saved.get("spent"):
                spent = Spending(**saved["spent"])
            if saved.get("spent_on_model"):
                spent_on_model = Spending(**saved["spent_on_model"])
            if saved.get("error") is None:
                report = self.read_report(saved)
        except ValidationError as error:
            _, explanation = explain_first_error(error)
            raise _make_unreadable_error(where, f"its report: {explanation}") from error
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise _make_unreadable_error(where, f"its report: {error}") from error
        # Values that were left out are the defaults of `Row`.
        optional: dict[str, Any] = {}
        for name in ("fields", "error", "timing", "model"):
            if name in saved:
                optional[name] = saved[name]
        if "altered" in saved:
            optional["altered"] = tuple(saved["altered"])
        return Row(
            saved["example"],
            saved["sample"],
            report=report,
            spent=spent,
            spent_on_model=spent_on_model,
            number=saved.get("row"),
            calls=tuple(calls),
            **optional,
        )

    def shorten(self, report: EvaluationReport) -> dict[str, Any]:
        """Return a report as JSON values, without what the criteria of the run already say.

        The result has the `score`, the `reward`, the `answers` and, under `report`, other values
        that differ from those that reports of this run usually have.
        """
        answers: list[Any] | None = None  # stays None if there are neither answers nor lines
        if report.answers is not None and self._has_our_criteria(report):
            # The run has the criteria, so only the answers are saved.
            answers = [
                _shorten_score(answer) if type(answer) is Score else answer
                for answer in report.answers
            ]
        elif report.report is not None:
            # The report is by other criteria, or only its lines are known.
            answers = [
                self._shorten_line(position, line) for position, line in enumerate(report.report)
            ]
        shortened: dict[str, Any] = {
            "score": report.score,
            "reward": report.raw_score,
            "answers": answers,
        }
        unusual: dict[str, Any] = {}  # the values under `report`
        values = _get_derived_fields(report)
        if values != self._usual_values:
            for name, value, usual_value in zip(
                _DERIVED_FIELDS, values, self._usual_values, strict=True
            ):
                if value != usual_value:
                    unusual[name] = value
        # Usually the score by the judge is the reward, if there is any judged criterion.
        usual_llm_score = report.raw_score if self._has_judged_criteria else None
        if report.llm_raw_score != usual_llm_score:
            unusual["llm_raw_score"] = report.llm_raw_score
        if not report.scored:
            unusual["partial_reward"] = report.partial_reward
        if unusual:
            shortened["report"] = unusual
        return shortened

    def _has_our_criteria(self, report: EvaluationReport) -> bool:
        """Return whether the criteria of a report equal those of the run, as far as lines show them.

        Then the report can be saved as its answers, without its lines.
        """
        criteria = report.criteria
        if criteria is self._matched_criteria:  # as in nearly every row
            return True
        lines = [_get_line_attributes(criterion) for criterion in criteria]
        if lines != [_get_line_attributes(criterion) for criterion in self._criteria]:
            return False
        self._matched_criteria = criteria
        return True

    def _shorten_line(self, position: int, line: CriterionReport) -> Any:
        """Return a line of a report as JSON values.

        That is only its answer, if the run's criterion at this position makes the same line of it.
        """
        if position < len(self._criteria):
            score = line.as_score
            if make_line(self._criteria[position], score) == line:
                return _shorten_score(score)
        return _dump_line(line)

    def read_report(self, data: Mapping[str, Any]) -> EvaluationReport:
        """Return the report that `shorten` has converted to `data`."""
        # `shorten` leaves out values that reports usually have, so begin with those.
        values: dict[str, Any] = dict(zip(_DERIVED_FIELDS, self._usual_values, strict=True))
        if data["answers"] is not None:
            answers = [_read_answer(answer) for answer in data["answers"]]
            has_lines = any(isinstance(answer, dict) for answer in answers)
            if len(answers) == len(self._criteria) and not has_lines:
                values |= {"criteria": self._criteria, "answers": answers}
            else:
                lines: list[CriterionReport] = []
                for position, answer in enumerate(answers):
                    if isinstance(answer, dict):  # a whole line
                        lines.append(CriterionReport.model_validate(answer))
                    else:
                        lines.append(make_line(self._criteria[position], answer))
                values["report"] = lines
        values["score"] = data["score"]
        values["raw_score"] = data["reward"]
        values["llm_raw_score"] = data["reward"] if self._has_judged_criteria else None  # usually
        values |= data.get("report", {})  # the values that differ from the usual ones
        values["vetoed_by"] = tuple(values["vetoed_by"])  # JSON has it as a list
        return EvaluationReport(**values)


def _is_surely_readable(head: Mapping[str, Any]) -> bool:
    """Return whether the saved report of a row has nothing that could fail to be read back.

    That is a report without unusual fields, whose answers are numbers, or lists of a number, a
    verdict and a reason.
    """
    answers: list[Any] | None = head["answers"]
    if answers is None or "report" in head:
        return False
    for answer in answers:
        if type(answer) in _NUMBER_TYPES:
            continue
        if not isinstance(answer, list):
            return False
        value, *texts = cast("list[Any]", answer)
        if type(value) not in _NUMBER_TYPES or len(texts) > 2:
            return False
        if any(type(text) is not str for text in texts):
            return False
    return True


def _shorten_score(score: Score) -> list[Any]:
    """Return a score as a list with the values of a `SavedAnswer`, without empty ones at its end."""
    saved = [
        score.value,
        score.verdict,
        str(score.reason or ""),
        score.error,
        [_dump_line(line) for line in score.lines],
        score.disagreement,
        list(score.citations),
    ]
    if not score.asked:  # True is the default, so it is left out
        return [*saved, score.asked]
    while len(saved) > 1 and (saved[-1] is None or saved[-1] == "" or saved[-1] == []):
        saved.pop()
    return saved


def _dump_line(line: Any) -> Any:
    """Return a line of a report as JSON values, without its defaults."""
    if isinstance(line, CriterionReport):
        return line.model_dump(mode="json", exclude_defaults=True)
    return line


def _read_answer(saved: Any) -> Any:
    """Return a saved answer: a number or the mapping of a line as it is, and a list as a `Score`."""
    if type(saved) in (float, int, bool, dict):
        return saved
    value, verdict, reason, *others = type_adapter(SavedAnswer).validate_python(saved)
    return Score(value, reason, verdict, *others)


def _parse_row(data: bytes, where: str) -> dict[str, Any]:
    """Return the JSON of a saved row, a `SavedRow`. Raise `RunError` if it is not one."""
    try:
        return type_adapter(SavedRow).validate_python(json.loads(data), strict=True)
    except ValidationError as error:
        _, explanation = explain_first_error(error)
        raise _make_unreadable_error(where, explanation) from None
    except (ValueError, RecursionError) as error:  # not JSON
        raise _make_unreadable_error(where, str(error)) from None


def _make_unreadable_error(where: str, problem: str) -> RunError:
    return RunError(
        f"{where} cannot be read ({problem}): restore the file, or delete the rollout and resume "
        "the run, which scores it again"
    )


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can hold a text. It cannot hold half characters (lone surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_verdict(
    columns: CriterionColumns, answer: Score | CriterionReport, *, has_errors: bool
) -> SavedVerdict:
    """Return an answer as a row of the table `verdicts`.

    `columns` are what all answers to the same criterion have in common. `has_errors` says that some
    criterion of the rollout has an error. Errors may quote secrets, so these are removed then.
    """
    reason = answer.reason or None
    error = answer.error
    if has_errors:
        reason = redact(reason)
        error = redact(error)
    return SavedVerdict(
        position=columns.position,
        criterion=columns.criterion,
        value=answer.value,
        verdict=None if answer.verdict is None else escape_surrogates(answer.verdict),
        reason=None if reason is None else escape_surrogates(str(reason)),
        error=None if error is None else escape_surrogates(error),
        judge=columns.judge,
        disagreement=answer.disagreement,
        tags=columns.tags,
    )


def _make_call(position: int, call: Mapping[str, Any]) -> SavedCall:
    """Return a call of a model as a row of the table `calls`."""
    model = call.get("model")
    reply = call.get("reply")
    # The exact request, or else the messages that were sent.
    request = call.get("request") or call.get("messages")
    return SavedCall(
        position=position,
        role=escape_surrogates(str(call.get("role", "judge"))),
        model=None if model is None else escape_surrogates(str(model)),
        request=as_utf_8(request).decode(),
        reply=None if reply is None else escape_surrogates(str(reply)),
        input_tokens=call.get("input_tokens"),
        output_tokens=call.get("output_tokens"),
        cost=call.get("cost"),
        data=as_ascii(to_jsonable(call)),
    )


LONGEST_TITLE = 300  # characters of a requirement that serve as the title of a criterion

# Characters that a name leaves out although they matter: `x > 5` and `x < 5` both become `x_5`.
_LOST_CHARACTER = re.compile(r"[^\w\s,.;:!?'\"()\-–—’“”]|-\d")


def title_of(name: str, requirement: str | None) -> str:
    """Return the title by which a run counts a criterion of a row's own rubric.

    It is the name of the criterion, unless that was derived from the first words of the requirement
    and could stand for other requirements too. Then it is the requirement.
    """
    if requirement is None or not name.startswith(make_slug(requirement)):
        return name  # the author of the rubric has given this name
    words = re.findall(r"\w+", requirement[: 2 * LONGEST_TITLE].casefold())
    has_all_words = name == "_".join(words)
    if has_all_words and not _LOST_CHARACTER.search(requirement):
        return name
    # Filters of the page put a title in double quotes, so it must not contain any.
    title = " ".join(requirement.split()).replace('"', "'")
    if len(title) <= LONGEST_TITLE:
        return title
    # The hash tells titles apart that begin alike.
    return f"{title[:LONGEST_TITLE]}… {hash_json(title)[:8]}"


def names_of(lines: Sequence[CriterionReport | Criterion], *, is_row_rubric: bool) -> list[str]:
    """Return a different name for each criterion: a second `clear` becomes `clear_2`.

    `lines` are criteria, or the lines of a report about them. `is_row_rubric` says that they are
    from a row's own rubric. Then titles take the place of names, since other rows may have other
    criteria with the same names.
    """
    names = [
        title_of(line.name, line.requirement) if is_row_rubric else line.name for line in lines
    ]
    if len(set(names)) == len(names):
        return names
    next_numbers: dict[str, int] = {}
    different_names: dict[str, None] = {}  # in order
    for name in names:
        different_name = name
        while different_name in different_names:  # `clear_2` may be the name of another criterion
            number = next_numbers.get(name, 2)
            next_numbers[name] = number + 1
            different_name = f"{name}_{number}"
        different_names[different_name] = None
    return list(different_names)
