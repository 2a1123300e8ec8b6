"""Read the labels that people gave, and join them with the judge's answers in a run."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from assay.aggregation import group_by_key
from assay.criterion import hash_json
from assay.errors import LabelError
from assay.messages import read_conversation
from assay.runs import Run
from assay.runs.jsonable import escape_surrogates, to_jsonable
from assay.runs.row import Key, Row
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_schema import is_run
from assay.tables import rows_of
from assay.trust.questions import Answer, Question, list_panel_answers, read_row_questions
from assay.wording import format_count, format_value, suggest_word

# Files in the folder of a run whose labels count beside those in the run itself. What is exported
# from a report can be put there.
LABEL_FILES = "labels*.jsonl"

# The fields of a label, and other names of columns that are accepted for them.
_FIELDS = (
    "example",
    "sample",
    "criterion",
    "verdict",
    "rater",
    "note",
    "time",
    "guideline",
    "text_hash",
)
_OTHER_NAMES = {"example_id": "example", "id": "example", "value": "verdict", "label": "verdict"}

LabelKey: TypeAlias = tuple[str, int, str, str]


@dataclass(frozen=True)
class Label:
    """One verdict of one person. Its key is the rollout, the criterion and the rater.

    The hashes say what the person read. A label is not used for a rollout or a criterion that has
    changed since; see `join`.
    """

    example: str
    criterion: str
    # A choice of the criterion, or the value of one; None withdraws an earlier label.
    verdict: str | float | None
    rater: str = "human"
    sample: int = 0  # which of the rollouts of the example it is about
    note: str = ""
    time: str | None = None
    # The hash of the criterion's wording that the person saw; None if it is not known.
    guideline: str | None = None
    # The hash of the prompt and completion that the person saw (`hash_text`); None if not known.
    text_hash: str | None = None

    @property
    def key(self) -> LabelKey:
        """The rollout (example and sample), the criterion and the rater in any spelling."""
        return self.example, self.sample, self.criterion, normalise_rater(self.rater)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Label":
        """Return the label in a row of a file. Raise `LabelError` if there is none."""
        fields = _normalise_names(row)
        for name in ("example", "criterion", "verdict"):
            # An empty verdict withdraws a label, but its column has to be there.
            is_missing = name not in fields
            if name != "verdict":
                is_missing = fields.get(name) in (None, "")
            if is_missing:
                raise LabelError(f"it has no {name!r}: {_suggest_column(row)}")
        texts: dict[str, str] = {}
        for name in ("example", "criterion", "note", "time", "guideline", "text_hash"):
            if fields.get(name) not in (None, ""):
                texts[name] = str(fields[name])
        rater = str(fields.get("rater") or "").strip()
        if rater:
            texts["rater"] = rater
        verdict = _parse_verdict(fields["verdict"])
        sample = _parse_sample(fields.get("sample"))
        return cls(verdict=verdict, sample=sample, **texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the label as a row of a file. Empty fields are left out, except the verdict."""
        row: dict[str, Any] = {}
        for name in _FIELDS:
            value = getattr(self, name)
            if name == "verdict" or value not in ("", None):
                row[name] = value
        return row


def _normalise_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names of columns in lower case, and other names replaced by ours."""
    columns = {str(name).strip().casefold(): value for name, value in row.items()}
    renamed: dict[str, Any] = {}
    for other_name, name in _OTHER_NAMES.items():
        if other_name in columns:
            renamed[name] = columns[other_name]
    return renamed | columns  # if a row has both names, the column of our own counts


def _suggest_column(row: Mapping[str, Any]) -> str:
    """Return advice on a missing column: one that may be a misspelling of it, else all columns."""
    for column in row:
        if column in _FIELDS or column in _OTHER_NAMES:
            continue
        suggestion = suggest_word(column, _FIELDS)
        if suggestion.startswith("did you mean"):
            return suggestion
    return f"the fields are: {', '.join(map(str, row)) or 'none'}"


def _parse_verdict(value: Any) -> str | float | None:
    """Return a verdict as a choice or a finite number; None for an empty one, which withdraws."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:  # an integer of more than 308 digits
            number = math.inf
        if math.isfinite(number):
            return number
    if isinstance(value, str):
        return value.strip() or None
    raise LabelError(f"its verdict is {format_value(value)}: give a choice or a number")


def _parse_sample(value: Any) -> int:
    """Return the number of a rollout of an example, from 0; 0 if it is not given."""
    if value in (None, ""):
        return 0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise LabelError(f"its sample is {format_value(value)}: give a whole number from 0")
    return int(number)


def normalise_rater(name: str) -> str:
    """Return the name by which a person is recognised: case and surrounding space do not matter.

    >>> normalise_rater(" Anna") == normalise_rater("anna")
    True
    """
    return name.strip().casefold()


def hash_text(prompt: object, completion: object) -> str:
    """Return the hash of what a person reads of a rollout: its prompt and its completion.

    A text has the same hash as a chat of one message with this text.

    >>> hash_text("2+2?", "4") == hash_text([{"role": "user", "content": "2+2?"}], "4")
    True
    """
    messages = {
        "prompt": read_conversation(prompt, "user"),
        "completion": read_conversation(completion, "assistant"),
    }
    return hash_json({"format": "assay.labelled-text/1", **to_jsonable(messages)})


def hash_row_text(row: Row) -> str:
    """Return the hash of the prompt and completion of a row of a run."""
    return hash_text(row.fields.get("prompt"), row.fields.get("completion"))


def read_labels(*sources: object, mapping: Mapping[str, str] | None = None) -> list[Label]:
    """Read labels from CSV or JSONL files, from rows or from runs, and merge them.

    A run is a `Run`, its folder or its file, and gives the labels that `read_run_labels` reads.
    If a person labelled a question more than once, the label with the latest `time` counts; the
    last one, if not both have a time. `mapping={"verdict": "grade"}` reads the verdicts from the
    column `grade`. Raise `LabelError` if a row is not a label, or if no label is left.

    >>> row = {"example": 1, "criterion": "polite"}
    >>> monday = [{**row, "verdict": "MET", "rater": "anna"}]
    >>> tuesday = [{**row, "verdict": "UNMET", "rater": "Anna"}]
    >>> [label.verdict for label in read_labels(monday, tuesday)]
    ['UNMET']
    """
    labels = _merge_labels(sources, mapping)
    if not labels:
        names = " and ".join(_name_source(source) for source in sources)
        required_and_usual = ", ".join(_FIELDS[:5])
        raise LabelError(f"{names} holds no labels: a label has {required_and_usual}")
    return labels


def read_run_labels(run: Run) -> list[Label]:
    """Read the labels in a run and in files `labels*.jsonl` beside it, and merge them."""
    return _merge_labels([run], None)


def save_label(run: Run, label: Label) -> None:
    """Save a label in a run, which another process may be writing."""
    row: dict[str, Any] = {}
    for name, value in label.to_dict().items():
        # Half a character, which JSON can hold, cannot be saved as text.
        row[name] = escape_surrogates(value) if isinstance(value, str) else value
    run.file.save_label({**row, "sample": label.sample})


def _merge_labels(sources: Sequence[object], mapping: Mapping[str, str] | None) -> list[Label]:
    """Return the label that counts for each key; withdrawn labels are left out.

    If there are several labels for a key, the latest counts. `mapping` names the columns of sources
    other than runs.
    """
    # Withdrawn labels stay here until all are read: an older copy of the label may follow.
    latest: dict[LabelKey, Label] = {}
    for label in _read_labels_of(sources, mapping):
        known = latest.get(label.key)
        if known is None or not _is_older(label, known):
            latest.pop(label.key, None)  # so that the new label is the last in the order
            latest[label.key] = label
    return [label for label in latest.values() if label.verdict is not None]


def _read_labels_of(
    sources: Sequence[object], mapping: Mapping[str, str] | None
) -> Iterator[Label]:
    """Yield the labels of all sources: of runs, with the files beside them, and of tables."""
    tables: list[tuple[object, Mapping[str, str] | None]] = []  # each with the names of its columns
    for source in sources:
        if isinstance(source, str | Path) and is_run(source):
            source = Run.open(source)
        if isinstance(source, Run):
            # Runs, and the files beside them, use our names of columns.
            tables.append((source.file.read_labels(), None))
            tables.extend((file, None) for file in sorted(source.file.folder.glob(LABEL_FILES)))
        else:
            tables.append((source, mapping))
    for table, column_mapping in tables:
        for number, row in enumerate(rows_of(table, mapping=column_mapping), start=1):
            try:
                yield Label.from_row(row)
            except LabelError as error:
                raise LabelError(f"{_name_source(table)}: label {number}: {error}") from None


def _name_source(source: object) -> str:
    """Return how a message calls a source of labels."""
    return str(source) if isinstance(source, str | Path) else "the given data"


def _is_older(label: Label, other: Label) -> bool:
    """Whether a label was given before another one; False if that is not known."""
    time = _parse_time(label.time)
    other_time = _parse_time(other.time)
    return time is not None and other_time is not None and time < other_time


def _parse_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time, in UTC if it has no time zone; None for other texts."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


@dataclass(frozen=True)
class LabelledItem:
    """One criterion of one rollout that people labelled."""

    example: str
    sample: int
    criterion: str
    people: Mapping[str, Answer]  # the answer of each rater
    judge: Answer | None = None  # the judge's answer; None if there is none
    error: str | None = None  # why the judge has no answer
    # The answer of each judge of a panel.
    members: Mapping[str, Answer] = field(default_factory=dict[str, Answer])


@dataclass(frozen=True)
class Joined:
    """Labels with the judge's answers to the same questions, and the labels that were left out."""

    items: tuple[LabelledItem, ...]
    questions: Mapping[str, Question]
    # Number of labels left out because they are about another wording, by criterion.
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because the run does not have their text, by rollout.
    changed_text: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels left out because they do not fit, by what is wrong with them.
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    # Number of labels whose text is in another row of this run than in the run they were made for.
    moved: int = 0
    # Number of labels without a hash of their text on rows without an id: if rows were added or
    # removed since, these labels are about other rows.
    by_row_number: int = 0


def join(
    rows: Iterable[Row],
    questions: Mapping[str, Question],
    labels: Sequence[Label],
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Joined:
    """Join labels with the rows that they are about.

    A label with a `text_hash` belongs to the row with its example and sample if that row has this
    prompt and completion, else to another row that has them. If there is none, the label is left
    out. A label without a hash belongs to the row with its example and sample.

    Labels about an unknown example or criterion, or with a verdict that was not offered, raise an
    error that counts them; `skip_unknown` leaves them out. Labels about another wording of the
    criterion are left out; `any_wording` uses them.
    """
    matcher = _LabelMatcher(questions, labels)
    for row in rows:
        matcher.match_row(row)
    matcher.match_moved_labels()
    reader = _LabelReader(questions, labels, any_wording=any_wording)
    items: list[LabelledItem] = []
    for row, row_labels in matcher.matched:
        items += reader.read_items(row, row_labels)
    misfits: dict[str, list[str]] = {}
    for kind, details in (
        ("unknown criterion", matcher.unknown_criteria),
        ("unknown example", matcher.unknown_examples),
        ("verdict not on offer", reader.wrong_verdicts),
    ):
        if details:
            misfits[kind] = details
    if misfits and not skip_unknown:
        raise LabelError(_describe_misfits(misfits))
    joined = Joined(
        items=tuple(items),
        questions=questions,
        other_wording=dict(reader.other_wording),
        changed_text=dict(matcher.changed_text),
        skipped={kind: len(details) for kind, details in misfits.items()},
        moved=matcher.moved,
        by_row_number=matcher.by_row_number,
    )
    if not items:
        raise LabelError(_describe_nothing_joined(joined))
    return joined


class _LabelMatcher:
    """Finds the row that each label is about."""

    def __init__(self, questions: Mapping[str, Question], labels: Sequence[Label]) -> None:
        self.changed_text: Counter[str] = Counter()
        self.moved = 0
        self.by_row_number = 0
        # For each label that does not fit, the name that the run does not have.
        self.unknown_criteria: list[str] = []
        self.unknown_examples: list[str] = []
        # Rows with their labels, by example and sample.
        self._matched: dict[Key, tuple[Row, list[Label]]] = {}
        # Labels whose row has not been seen yet, or has another text than the label is about.
        self._unmatched: dict[Key, list[Label]] = {}
        # For each text that was labelled, the rollouts that it was labelled as.
        self._rollouts_by_text: dict[str, set[Key]] = {}
        # Rows with a text that was labelled: those that have no label about it, and the others.
        self._free_rows: dict[str, list[Row]] = {}
        self._labelled_rows: dict[str, list[Row]] = {}
        for label in labels:
            if label.criterion not in questions:
                self.unknown_criteria.append(format_value(label.criterion))
                continue
            key = (escape_surrogates(label.example), label.sample)
            self._unmatched.setdefault(key, []).append(label)
            if label.text_hash is not None:
                self._rollouts_by_text.setdefault(label.text_hash, set()).add(key)

    @property
    def matched(self) -> Iterable[tuple[Row, list[Label]]]:
        """The rows with labels, each with its labels."""
        return self._matched.values()

    def match_row(self, row: Row) -> None:
        """Match the labels with the example and sample of a row, unless its text has changed."""
        # Hashing is slow, and only needed if labels say which text they are about.
        text_hash = hash_row_text(row) if self._rollouts_by_text else None
        has_label_on_text = False
        labels_on_other_text: list[Label] = []
        key = (escape_surrogates(row.example), row.sample)
        for label in self._unmatched.pop(key, []):
            if label.text_hash is None:
                self._match(row, label)
                self.by_row_number += _is_known_by_number(row)
            elif label.text_hash == text_hash:
                self._match(row, label)
                has_label_on_text = True
            else:
                labels_on_other_text.append(label)
        if labels_on_other_text:
            self._unmatched[key] = labels_on_other_text
        if text_hash in self._rollouts_by_text:
            self._keep_row_with_text(row, text_hash, is_labelled=has_label_on_text)

    def _keep_row_with_text(self, row: Row, text_hash: str, *, is_labelled: bool) -> None:
        """Keep a row whose text was labelled, for labels that name another example or sample.

        `is_labelled` says whether a label about this text names this row already.
        """
        if is_labelled:
            self._labelled_rows.setdefault(text_hash, []).append(row)
            return
        free_rows = self._free_rows.setdefault(text_hash, [])
        # Each rollout that was labelled with this text needs one row, so no more are kept.
        labelled_rollouts = self._rollouts_by_text[text_hash]
        if len(free_rows) < len(labelled_rollouts):
            free_rows.append(row)

    def match_moved_labels(self) -> None:
        """Match the labels that are left with rows that have their text; call it after all rows.

        If several rows have the text, each rollout that was labelled gets one of them, in the order
        of the run, and rows without labels come first.
        """
        used_rows: Counter[str] = Counter()  # how many rows with each text have been used so far
        for (example, sample), labels in self._unmatched.items():
            rollout_name = repr(example)
            if sample:
                rollout_name += f" (sample {sample})"
            labels_by_text = group_by_key((label.text_hash, label) for label in labels)
            for text_hash, labels_on_text in labels_by_text.items():
                if text_hash is None:
                    # Only its example and sample say what it is about, and the run lacks these.
                    self.unknown_examples += [rollout_name] * len(labels_on_text)
                    continue
                rows = [
                    *self._free_rows.get(text_hash, []),
                    *self._labelled_rows.get(text_hash, []),
                ]
                if not rows:
                    self.changed_text[rollout_name] += len(labels_on_text)
                    continue
                row = rows[used_rows[text_hash] % len(rows)]
                used_rows[text_hash] += 1
                self.moved += len(labels_on_text)
                for label in labels_on_text:
                    self._match(row, label)

    def _match(self, row: Row, label: Label) -> None:
        """Note that a label is about a row."""
        _, labels = self._matched.setdefault(row.key, (row, []))
        labels.append(label)


def _is_known_by_number(row: Row) -> bool:
    """Whether a row came without an id, so that its example is its number in the data."""
    has_id = row.fields.get("example_id") is not None or row.fields.get("id") is not None
    return not has_id and row.example.isdecimal()


class _LabelReader:
    """Reads the answers that labels hold, and collects those that cannot be used."""

    def __init__(
        self, questions: Mapping[str, Question], labels: Sequence[Label], *, any_wording: bool
    ) -> None:
        self.other_wording: Counter[str] = Counter()
        self.wrong_verdicts: list[str] = []  # for each such label, what is wrong with it
        self._questions = questions
        self._any_wording = any_wording
        self._row_rubrics = RowRubrics()
        # How the name of each rater is spelled: as it was the first time.
        self._rater_names: dict[str, str] = {}
        for label in labels:
            self._rater_names.setdefault(normalise_rater(label.rater), label.rater.strip())

    def read_items(self, row: Row, row_labels: Sequence[Label]) -> list[LabelledItem]:
        """Return an item for each criterion of a row that has labels which can be used."""
        # A row may bring criteria of its own, in other words than those of other rows.
        row_questions = {
            question.name: question for question in read_row_questions(row, self._row_rubrics)
        }
        items: list[LabelledItem] = []
        labels_by_criterion = group_by_key((label.criterion, label) for label in row_labels)
        for name, labels in labels_by_criterion.items():
            question = self._questions[name]
            guidelines = row_questions.get(name, question).guidelines
            people = self._read_answers(question, guidelines, labels)
            if people:
                items.append(_build_item(row, question, people))
        return items

    def _read_answers(
        self, question: Question, guidelines: frozenset[str], labels: Sequence[Label]
    ) -> dict[str, Answer]:
        """Return the answers of people to a question, by rater.

        `guidelines` are the hashes of the wording that the judge was asked. Labels about another
        wording are counted and left out; so are those with a wrong verdict.
        """
        people: dict[str, Answer] = {}
        for label in labels:
            if not self._any_wording and _has_other_wording(label, guidelines):
                self.other_wording[question.name] += 1
                continue
            rater = self._rater_names[normalise_rater(label.rater)]
            try:
                people[rater] = question.parse_answer(label.verdict)
            except ValueError as error:
                self.wrong_verdicts.append(f"{question.name!r}: {error}")
        return people


def _has_other_wording(label: Label, guidelines: frozenset[str]) -> bool:
    """Whether a label is about a wording that is not among these; False if that is not known.

    `guidelines` are hashes of wordings.
    """
    if label.guideline is None or not guidelines:
        return False
    return label.guideline not in guidelines


def _build_item(row: Row, question: Question, people: Mapping[str, Answer]) -> LabelledItem:
    """Return what people answered to a question on a row, with the judge's answer to it.

    If the judge gave no answer, the item has an error that says why.
    """
    item = LabelledItem(row.example, row.sample, question.name, people)
    if row.error is not None:
        return replace(item, error=row.error)
    lines = [line for line in row.report.lines if line.name == question.name]
    if not lines:
        return replace(item, error="it was not asked about this rollout")
    if len(lines) > 1:
        return replace(item, error="two lines have this name")
    [line] = lines
    judge = question.read_answer(line)
    if judge is None:
        return replace(item, error=line.error or "the judge was not asked")
    members: dict[str, Answer] = {}
    for vote in list_panel_answers(line):
        answer = question.read_answer(vote)
        if answer is not None:
            members[vote.name] = answer
    return replace(item, judge=judge, members=members)


def _describe_nothing_joined(joined: Joined) -> str:
    """Return a message that says why no label could be used, and what to do."""
    other_wording = sum(joined.other_wording.values())
    changed_text = sum(joined.changed_text.values())
    if changed_text and not other_wording:
        return (
            f"{format_count(changed_text, 'label')}, all made for texts that this run does not "
            f"have ({quote_some(list(joined.changed_text))}): label again, or name the run that "
            "the labels were made for"
        )
    if other_wording and not changed_text:
        return (
            f"{format_count(other_wording, 'label')}, all made for another wording of their "
            "criteria: label again, or use them with --any-wording, in Python any_wording=True"
        )
    counts = dict(joined.skipped)
    if other_wording and changed_text:
        counts |= {"another wording": other_wording, "another text": changed_text}
    listed = ", ".join(f"{count} × {kind}" for kind, count in counts.items())
    return f"no label fits this run ({listed or 'there are none'})"


# How a message describes the labels of each kind of misfit.
_MISFIT_DESCRIPTIONS = {
    "unknown criterion": "about criteria it does not have",
    "unknown example": "about examples it does not have",
    "verdict not on offer": "with a verdict that was not offered",
}
_MAX_QUOTED = 3


def quote_some(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are.

    >>> quote_some(["'1'", "'2'", "'3'", "'4'", "'5'"])
    "'1', '2', '3' and 2 more"
    """
    quoted = ", ".join(names[:_MAX_QUOTED])
    if len(names) > _MAX_QUOTED:
        quoted += f" and {len(names) - _MAX_QUOTED:,} more"
    return quoted


def _describe_misfits(misfits: Mapping[str, Sequence[str]]) -> str:
    """Return a message that counts and quotes the labels that do not fit, and says what to do."""
    count = sum(map(len, misfits.values()))
    verb = "does" if count == 1 else "do"
    lines = [f"{format_count(count, 'label')} {verb} not fit this run:"]
    for kind, details in misfits.items():
        description = _MISFIT_DESCRIPTIONS[kind]
        quoted = quote_some(list(dict.fromkeys(details)))
        lines.append(f"  {format_count(len(details), 'label')} {description}: {quoted}")
    lines.append("correct them, or leave them out with --skip-unknown, in Python skip_unknown=True")
    return "\n".join(lines)
