"""Read what a run asked, what its judge answered and what people said, and put them side by side."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from assay.aggregation import group_by_key
from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE, hash_json
from assay.errors import LabelError, RubricError, TrustError
from assay.report import CriterionReport
from assay.runs import Run
from assay.runs.metadata import CriterionAbout
from assay.runs.row import COLUMN, Row
from assay.runs.row_rubrics import RowRubrics
from assay.tables import rows_of
from assay.wording import format_count, format_value, suggest_word

Answer: TypeAlias = str | float  # one of the choices, or `N/A`; a number where there are no choices

_NEAR = 1e-9


@dataclass(frozen=True)
class Question:
    """What is known of a criterion when people and judge are held against each other."""

    name: str
    choices: tuple[str, ...] = BINARY_CHOICES  # worst to best; none when the answers are numbers
    guidelines: frozenset[str] = (
        frozenset()
    )  # the hashes that its wording goes by; none when they are not known
    judged: bool = True  # whether a model answers, rather than code
    counts: bool = True  # whether its answers are part of the score

    @cached_property
    def worths(self) -> dict[str, float]:
        """What each choice is worth, from 0 for the worst to 1 for the best."""
        return {choice: rank / (len(self.choices) - 1) for rank, choice in enumerate(self.choices)}

    def answer(self, given: object) -> Answer:
        """The answer that was meant: a choice however it is spelled, or the number that it is worth."""
        # A whole number of a CSV is 1.0 and means the choice `1`.
        whole = isinstance(given, float) and given.is_integer()
        text = str(int(given) if whole and isinstance(given, float) else given).strip().casefold()
        for choice in (*self.choices, NOT_APPLICABLE):
            if choice.strip().casefold() == text:
                return choice
        number = _number(given)
        if number is None or (self.choices and self.choice_worth(number) is None):
            offer = f"give one of {', '.join(self.choices)}" if self.choices else "give a number"
            raise ValueError(f"{format_value(given)} is no answer: {offer}")
        return self.choice_worth(number) or number

    def answered(self, line: CriterionReport) -> Answer | None:
        """What the judge answered on this line of a report; None when there is no answer."""
        if line.error is not None or not line.asked:
            return None
        if line.verdict is not None and (self.choices or not line.applies):
            return line.verdict
        return None if line.value is None else self.choice_worth(line.value) or line.value

    def worth(self, answer: Answer) -> float | None:
        """What an answer is worth; None for `N/A`."""
        return self.worths.get(answer) if isinstance(answer, str) else answer

    def choice_worth(self, number: float) -> str | None:
        """The choice that is worth this number, if any is."""
        return next(
            (choice for choice, worth in self.worths.items() if abs(worth - number) < _NEAR), None
        )


def _number(given: object) -> float | None:
    word = str(given).strip().casefold() if isinstance(given, str | int | float) else ""
    try:
        number = float({"true": "1", "false": "0"}.get(word, word))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def questions_of(run: Run) -> dict[str, Question]:
    """The questions of a run by name, with those of rubrics that rows brought along.

    The rows are read once: what code answers may be choices or numbers, and only its answers tell.
    """
    about = run.about.rubric
    found = {} if about is None else {c.name: _question(c) for c in about.criteria}
    own = RowRubrics()
    for row in run.rows():
        if row.fields.get(COLUMN) is not None:
            try:
                criteria = own.of(row.fields)[0].criteria
            except RubricError:
                criteria = ()  # the row says so itself, on its one line
            for new in map(_question, map(CriterionAbout.of, criteria)):
                # The same name may come in several wordings.
                known = found.get(new.name, new)
                found[new.name] = replace(known, guidelines=known.guidelines | new.guidelines)
        unsure = {name for name, each in found.items() if not each.judged and each.choices}
        for line in row.report.lines if unsure else ():
            if line.name in unsure and line.value is not None and line.verdict is None:
                steps = line.value * (len(found[line.name].choices) - 1)
                if not (0 <= line.value <= 1 and abs(steps - round(steps)) < _NEAR):
                    found[line.name] = replace(found[line.name], choices=())
    return found


def _question(criterion: CriterionAbout) -> Question:
    hashes = frozenset((criterion.question, criterion.hash)) - {""}
    return Question(criterion.name, criterion.choices, hashes, criterion.judged, criterion.counts)


def members(line: CriterionReport) -> list[CriterionReport]:
    """Return the answers of the judges of a panel or cascade; empty if one judge answered alone."""
    return [answer for answer in line.lines if answer.sub_answer in ("vote", "escalation")]


def ballots(line: CriterionReport) -> Iterator[tuple[str, Sequence[CriterionReport]]]:
    """Yield the answers of a judge that was asked several times, here or on the lines below.

    They are a "swap" if it was asked in both orders, and a "retest" if it gave several samples.
    """
    kinds = {answer.sub_answer for answer in line.lines}
    if kinds == {"usual_order", "opposite_order"}:
        yield "swap", line.lines
    elif kinds == {"sample"} and len(line.lines) > 1:
        yield "retest", line.lines
    for answer in line.lines:
        yield from ballots(answer)


class TwoAnswers(NamedTuple):
    """One question about one rollout, answered in two runs. None where there was no answer."""

    example: str
    sample: int
    criterion: str
    before: Answer | None
    after: Answer | None


class PairedRuns(NamedTuple):
    """What two runs say about the same completions."""

    questions: Mapping[
        str, Question
    ]  # what was asked in the same words in both, and answered by a model
    answers: tuple[TwoAnswers, ...]
    rollouts: int  # rollouts that both runs have, with the same completion
    changed: (
        int  # rollouts that both have with another completion: they say nothing about the judge
    )
    only_one: int  # rollouts that one of the runs does not have


def pair_runs(before: Run, after: Run) -> PairedRuns:
    """Put the judge's answers in two runs side by side, where question and rollout are the same; raise when none are."""
    asked, later = questions_of(before), questions_of(after)
    same = [
        name for name in asked if name in later and asked[name].guidelines & later[name].guidelines
    ]
    questions = {name: asked[name] for name in same if asked[name].judged}
    if not questions:
        raise TrustError("the runs have no judged criterion in the same words: compare others")

    def said(row: Row) -> tuple[str, dict[str, Answer | None]]:
        lines = [line for line in row.report.lines if line.name in questions]
        return hash_json(row.fields.get("completion")), {
            n.name: questions[n.name].answered(n) for n in lines
        }

    seen = {row.key: said(row) for row in before.rows()}
    answers: list[TwoAnswers] = []
    rollouts = changed = strangers = 0
    for row in after.rows():
        if row.key not in seen:
            strangers += 1
            continue
        (completion, was), (other, now) = seen.pop(row.key), said(row)
        if completion != other:
            changed += 1
            continue
        rollouts += 1
        answers += [TwoAnswers(*row.key, name, was[name], now[name]) for name in was if name in now]
    if not rollouts:
        why = "no rollout is the same in both runs, so nothing tells the judge from what it judged"
        raise TrustError(f"{why}: judge the saved rollouts of one run again")
    return PairedRuns(questions, tuple(answers), rollouts, changed, strangers + len(seen))


# The labels of people.

LABELS = "labels.jsonl"
"""The file of labels in the folder of a run. Lines are added at its end, and the last word counts."""

# What is wrong with a label that does not fit a run, in short and in a sentence.
_MISFITS = {
    "unknown criterion": "about criteria it does not have",
    "unknown example": "about examples it does not have",
    "verdict not on offer": "with a verdict that is not on offer",
}
_SHOWN = 3  # wrong labels of a kind that a message quotes
_FIELDS = ("example", "sample", "criterion", "verdict", "rater", "note", "time", "guideline")
_OTHER_NAMES = {"example_id": "example", "id": "example", "value": "verdict", "label": "verdict"}


@dataclass(frozen=True)
class Label:
    """One verdict of one person. Its key is the rollout, the criterion and the rater."""

    example: str
    criterion: str
    verdict: (
        str | float | None
    )  # a choice of the criterion, or what it is worth; None takes an earlier label back
    rater: str = "human"
    sample: int = 0  # which of the rollouts of the example it is about
    note: str = ""
    time: str | None = None
    guideline: str | None = (
        None  # the hash of the criterion's wording that the person saw; None when that is not known
    )

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What it is about, and whose it is."""
        return self.example, self.sample, self.criterion, self.rater

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Label":
        """The label that a row of a file stands for. Raises `LabelError` when it is none."""
        # However fields are spelled; our own name goes before another.
        spelled = {str(name).strip().casefold(): value for name, value in row.items()}
        fields = {
            ours: spelled[theirs] for theirs, ours in _OTHER_NAMES.items() if theirs in spelled
        } | spelled
        for name in ("example", "criterion", "verdict"):
            if name not in fields or (name != "verdict" and fields[name] in (None, "")):
                near = [
                    suggest_word(field, _FIELDS)
                    for field in row
                    if field not in (*_FIELDS, *_OTHER_NAMES)
                ]
                guess = next((words for words in near if words.startswith("did")), "")
                has = f"there are {', '.join(map(str, row)) or 'no fields'}"
                raise LabelError(f"it has no {name!r}: {guess or has}")
        texts = ("example", "criterion", "rater", "note", "time", "guideline")
        given = {name: str(fields[name]) for name in texts if fields.get(name) not in (None, "")}
        return cls(
            verdict=_verdict(fields["verdict"]), sample=_sample(fields.get("sample")), **given
        )

    def to_dict(self) -> dict[str, Any]:
        """The label as a line of a file holds it: what is empty is left out, but for the verdict."""
        named = {name: getattr(self, name) for name in _FIELDS}
        return {name: v for name, v in named.items() if name == "verdict" or v not in ("", None)}


def read_labels(source: object, *, mapping: Mapping[str, str] | None = None) -> list[Label]:
    """The labels of a CSV or JSONL file, or of rows of any other kind; of each key the last.

    `mapping={"verdict": "grade"}` says that the column `grade` holds the verdicts.

    >>> rows = [{"example": 1, "criterion": "polite", "verdict": said} for said in ("MET", "UNMET")]
    >>> [label.verdict for label in read_labels(rows)]
    ['UNMET']
    """
    latest: dict[tuple[str, int, str, str], Label] = {}
    called = str(source) if isinstance(source, str | Path) else "what was given"
    for number, row in enumerate(rows_of(source, mapping=mapping), start=1):
        try:
            label = row if isinstance(row, Label) else Label.of(row)
        except LabelError as error:
            raise LabelError(f"{called}: label {number}: {error}") from None
        latest.pop(label.key, None)
        if label.verdict is not None:
            latest[label.key] = label
    if not latest:
        raise LabelError(f"{called} holds no labels: a label has {', '.join(_FIELDS[:5])}")
    return list(latest.values())


def _verdict(given: Any) -> str | float | None:
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    if isinstance(given, bool | int | float):
        return float(given)
    if isinstance(given, str):
        return given.strip()
    raise LabelError(f"its verdict is {format_value(given)}: give a choice or a number")


def _sample(given: Any) -> int:
    if given in (None, ""):
        return 0
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise LabelError(f"its sample is {format_value(given)}: give a whole number from 0")
    return int(number)


@dataclass(frozen=True)
class LabelledItem:
    """One criterion of one rollout that people labelled."""

    example: str
    sample: int
    criterion: str
    people: Mapping[str, Answer]  # what each rater answered
    judge: Answer | None = None  # what the judge answered; None when it did not
    error: str | None = None  # why there is no answer of the judge
    members: Mapping[str, Answer] = field(
        default_factory=dict[str, Answer]
    )  # what each judge of a panel answered


@dataclass(frozen=True)
class Joined:
    """Labelled questions, each with what the judge said, and the labels that were left out."""

    items: tuple[LabelledItem, ...]
    questions: Mapping[str, Question]
    other_wording: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # labels left out, by criterion
    skipped: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # labels left out, by what is wrong with them


def join(
    rows: Iterable[Row],
    questions: Mapping[str, Question],
    labels: Sequence[Label],
    *,
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Joined:
    """Put labels beside the rows they are about.

    A label about an unknown example or criterion, or with a verdict that is not on offer, is an error that says
    how many there are; `skip_unknown` leaves such labels out. Labels whose guideline is not the
    criterion's own are left out, unless `any_wording` says that they will do.
    """
    misfits: dict[str, list[str]] = {what: [] for what in _MISFITS}
    misfits["unknown criterion"] = [
        format_value(label.criterion) for label in labels if label.criterion not in questions
    ]
    wanted = group_by_key(
        ((label.example, label.sample), label) for label in labels if label.criterion in questions
    )
    other_wording: Counter[str] = Counter()
    items: list[LabelledItem] = []
    for row in rows:
        on_row = group_by_key(
            (label.criterion, label) for label in wanted.pop((row.example, row.sample), ())
        )
        for name, about in on_row.items():
            question, people = questions[name], dict[str, Answer]()
            # A label without a guideline, or of a question whose hashes are not known, is taken for its own.
            own = question.guidelines | {None}
            for label in about:
                if question.guidelines and label.guideline not in own and not any_wording:
                    other_wording[name] += 1
                    continue
                try:
                    people[label.rater] = question.answer(label.verdict)
                except ValueError as error:
                    misfits["verdict not on offer"].append(f"{name!r}: {error}")
            if people:
                items.append(_item(row, question, people))
    for (example, sample), about in wanted.items():
        misfits["unknown example"] += [
            f"{example!r}{f' (sample {sample})' if sample else ''}"
        ] * len(about)
    skipped = {what: len(each) for what, each in misfits.items() if each}
    if skipped and not skip_unknown:
        raise LabelError(_do_not_fit(misfits))
    if not items and other_wording:
        said = f"{format_count(sum(other_wording.values()), 'label')}, all made for another wording of their criteria"
        raise LabelError(f"{said}: label anew, or take them with any_wording=True (--any-wording)")
    if not items:
        why = ", ".join(f"{count} × {what}" for what, count in skipped.items())
        raise LabelError(f"no label fits this run ({why or 'there are none'})")
    return Joined(tuple(items), questions, dict(other_wording), skipped)


def _item(row: Row, question: Question, people: Mapping[str, Answer]) -> LabelledItem:
    key = row.example, row.sample, question.name
    if row.error is not None:
        return LabelledItem(*key, people, error=row.error)
    found = [line for line in row.report.lines if line.name == question.name]
    if len(found) != 1:
        many = "two lines have this name" if found else "it was not asked about this rollout"
        return LabelledItem(*key, people, error=many)
    judge = question.answered(found[0])
    if judge is None:
        return LabelledItem(*key, people, error=found[0].error or "the judge was not asked")
    votes = {vote.name: question.answered(vote) for vote in members(found[0])}
    panel = {name: answer for name, answer in votes.items() if answer is not None}
    return LabelledItem(*key, people, judge, members=panel)


def _do_not_fit(misfits: Mapping[str, list[str]]) -> str:
    """What is wrong with labels, how often, and what to do."""
    count = sum(map(len, misfits.values()))
    lines = [f"{format_count(count, 'label')} {'does' if count == 1 else 'do'} not fit this run:"]
    for what, each in misfits.items():
        kinds = list(dict.fromkeys(each))
        more = f" and {len(kinds) - _SHOWN:,} more" if len(kinds) > _SHOWN else ""
        if kinds:
            lines.append(
                f"  {format_count(len(each), 'label')} {_MISFITS[what]}: {', '.join(kinds[:_SHOWN])}{more}"
            )
    return "\n".join(
        [*lines, "mend them, or leave them out with skip_unknown=True (--skip-unknown)"]
    )
