"""Hold a judge against people, beside people against each other, who are the ceiling; and against itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, multimode
from typing import Literal, TypeAlias, cast

from assay.aggregation import group_by_key
from assay.criterion import NOT_APPLICABLE
from assay.report import Score
from assay.runs import Run
from assay.runs.row import Row
from assay.trust.coefficients import AnswerPair, AnswerUnit, Measures, measure
from assay.trust.estimate import Record
from assay.trust.labels import Joined, Label, LabelledItem, join
from assay.trust.paired_runs import pair_runs
from assay.trust.questions import Answer, Question, find_repeats, questions_of

Reference: TypeAlias = Literal[
    "each", "majority"
]  # whom a judge is held against: each rater, or what most of them say


class CriterionAgreement(Record):
    """How far a judge agrees with people on one criterion, or on all; and they with each other."""

    name: str
    judge: Measures
    people: Measures  # one rater in the judge's place, against the others; no pairs when nothing was labelled twice
    labelled: int = 0  # rollouts with a label on it
    unanswered: int = (
        0  # those of them where the judge gave no answer. They are in none of the figures.
    )
    ties: int = 0  # those of them where people are split, so that there is no majority


class RaterAgreement(Record):
    """One person: how the judge agrees with them, and how they agree with the other people."""

    rater: str
    labels: int
    judge: Measures
    others: Measures


class Consistency(Record):
    """How far a judge agrees with itself. `accuracy` is the share of answers that stayed the same."""

    overall: Measures
    criteria: Mapping[str, Measures]
    unanswered: int = (
        0  # times that it was asked and did not answer, which are in none of the figures
    )


class Agreement(Record):
    """Whether a judge can stand in for people: their figures side by side."""

    overall: CriterionAgreement  # all criteria with choices together; those that are answered by numbers are left out
    criteria: tuple[CriterionAgreement, ...]
    raters: tuple[RaterAgreement, ...]
    reference: Reference = "each"
    members: Mapping[str, Measures] = field(
        default_factory=dict[str, Measures]
    )  # each judge of a panel against people
    swap: Consistency | None = (
        None  # the judge against itself in the opposite order; None when that was not asked
    )
    retest: Consistency | None = (
        None  # the judge against itself when asked again; None when it was not
    )
    errors: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # why the judge gave no answer, and how often
    other_wording: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # labels left out, by criterion
    # Number of labels left out because the run does not have their text, by rollout.
    changed_text: Mapping[str, int] = field(default_factory=dict[str, int])
    skipped: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # labels left out, by what is wrong with them
    moved: int = 0  # labels whose text is in another row than when they were made
    by_row_number: int = 0  # labels that were matched by the number of their row alone


def agree(
    run: Run,
    labels: Sequence[Label],
    *,
    again: Run | None = None,
    reference: Reference = "each",
    skip_unknown: bool = False,
    any_wording: bool = False,
) -> Agreement:
    """How far the judge of a run agrees with people, on every criterion and overall.

    `again` is a second run on the same rollouts, whose answers show whether the judge says the same again.
    """
    questions = questions_of(run)
    repeats = Repeats(questions)
    rows = map(
        repeats.noted, run.rows()
    )  # what rows repeat is noted while they are joined: a run is read once
    joined = join(rows, questions, labels, skip_unknown=skip_unknown, any_wording=any_wording)
    if again is not None:
        for twice in pair_runs(run, again).answers:
            repeats.add_answers(twice.example, twice.criterion, (twice.before, twice.after))
    return agreement_of(joined, reference=reference, repeats=repeats)


def agreement_of(
    joined: Joined, *, reference: Reference = "each", repeats: "Repeats | None" = None
) -> Agreement:
    """The same for labels that are put beside the judge's answers already.

    >>> from assay.trust import Joined, LabelledItem, Question
    >>> said = [("MET", "MET"), ("MET", "UNMET"), ("UNMET", "UNMET"), ("UNMET", "UNMET")]
    >>> items = [LabelledItem(str(n), 0, "polite", {"ann": a}, judge) for n, (a, judge) in enumerate(said)]
    >>> found = agreement_of(Joined(tuple(items), {"polite": Question("polite")}))
    >>> found.overall.judge.accuracy.value, found.overall.judge.kappa.value
    (0.75, 0.5)
    """
    by_name = group_by_key((item.criterion, item) for item in joined.items)
    asked = [question for name, question in joined.questions.items() if name in by_name]
    overall = _Measuring(*pooled_choices(q for q in asked if q.choices), reference)
    chosen = [item for item in joined.items if joined.questions[item.criterion].choices]
    members = dict.fromkeys(name for item in chosen for name in item.members)
    return Agreement(
        overall=overall.criterion("overall", chosen),
        criteria=tuple(
            _Measuring(q.choices, True, reference).criterion(q.name, by_name[q.name]) for q in asked
        ),
        raters=tuple(
            overall.rater(name, chosen)
            for name in sorted({rater for i in chosen for rater in i.people})
        ),
        reference=reference,
        members={
            name: overall.measured(overall.pairs(chosen, lambda i, n=name: i.members.get(n)))
            for name in members
        },
        swap=repeats.consistency("swap") if repeats else None,
        retest=repeats.consistency("retest") if repeats else None,
        errors=dict(Counter(item.error for item in joined.items if item.error).most_common()),
        other_wording=joined.other_wording,
        changed_text=joined.changed_text,
        skipped=joined.skipped,
        moved=joined.moved,
        by_row_number=joined.by_row_number,
    )


def pooled_choices(questions: Iterable[Question]) -> tuple[tuple[str, ...], bool]:
    """The choices of all these questions together, and whether they have one order."""
    scales = list(dict.fromkeys(question.choices for question in questions))
    if len(scales) == 1:
        return scales[0], True
    return tuple(dict.fromkeys(choice for choices in scales for choice in choices)), False


@dataclass(frozen=True)
class _Measuring:
    """How answers are compared: on which scale, and with whom."""

    choices: tuple[str, ...]
    ranked: bool
    reference: Reference

    def criterion(self, name: str, items: Sequence[LabelledItem]) -> CriterionAgreement:
        people = [list(item.people.values()) for item in items]
        units = [
            AnswerUnit(i.example, said)
            for i, said in zip(items, people, strict=True)
            if len(said) > 1
        ]
        split = [
            said for said in people if self.reference == "majority" and consensus(said) is None
        ]
        judge = self.measured(self.pairs(items, lambda item: item.judge))
        ceiling = self.measured(self._between_people(items), units)
        unanswered = sum(item.judge is None for item in items)
        return CriterionAgreement(name, judge, ceiling, len(items), unanswered, len(split))

    def rater(self, name: str, items: Sequence[LabelledItem]) -> RaterAgreement:
        own = [item for item in items if name in item.people]
        judge = (
            AnswerPair(item.example, item.people[name], item.judge)
            for item in own
            if item.judge is not None
        )
        others = self.pairs(own, lambda item: item.people[name], without=name)
        return RaterAgreement(name, len(own), self.measured(judge), self.measured(others))

    def _between_people(self, items: Sequence[LabelledItem]) -> Iterator[AnswerPair]:
        """One rater in the judge's place, against the others."""
        for item in items:
            if self.reference == "each":
                ordered = [item.people[rater] for rater in sorted(item.people)]
                yield from (AnswerPair(item.example, *two) for two in combinations(ordered, 2))
            else:
                for rater in item.people:
                    yield from self.pairs(
                        [item], lambda item, r=rater: item.people[r], without=rater
                    )

    def pairs(
        self,
        items: Iterable[LabelledItem],
        said: Callable[[LabelledItem], Answer | None],
        without: str | None = None,
    ) -> Iterator[AnswerPair]:
        """An answer about each item beside those of people, or beside what most of them say."""
        for item in items:
            answer = said(item)
            people = [theirs for rater, theirs in item.people.items() if rater != without]
            agreed = people if self.reference == "each" else [consensus(people)]
            yield from (
                AnswerPair(item.example, p, answer)
                for p in agreed
                if p is not None and answer is not None
            )

    def measured(
        self, pairs: Iterable[AnswerPair], units: Sequence[AnswerUnit] | None = None
    ) -> Measures:
        # Against a majority the seats differ; of two raters either may take the judge's.
        symmetric = units is not None and self.reference == "each"
        return measure(
            list(pairs), self.choices, ranked=self.ranked, units=units, symmetric=symmetric
        )


def consensus(answers: Sequence[Answer]) -> Answer | None:
    """The answer that most gave, or the mean of numbers; None when two are given as often."""
    if answers and not any(isinstance(answer, str) for answer in answers):
        return fmean(cast("Sequence[float]", answers))
    most = multimode(answers)
    return most[0] if len(most) == 1 else None


def mean_answer(question: Question, answers: Sequence[Answer]) -> Answer:
    """What a person would say on average: their choice where they agree, else what it is worth.

    To leave out what they are split on would leave out what is hard.
    """
    worths = [worth for worth in map(question.get_value, answers) if worth is not None]
    if 2 * len(worths) < len(answers) or not worths:
        return NOT_APPLICABLE
    return question.find_choice(fmean(worths)) or fmean(worths)


class Repeats:
    """Answers of a judge to the same question: in both orders (`swap`), or when it was asked again (`retest`)."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        # By kind and criterion, how often each unit of answers came: runs are large, and answers few.
        self._given: dict[str, dict[str, Counter[tuple[str, tuple[Answer, ...]]]]] = {
            "swap": {},
            "retest": {},
        }
        self._unanswered: Counter[str] = Counter()

    def noted(self, row: Row) -> Row:
        """The row, when what the votes on its judged lines show is taken in."""
        answers = row.report.answers
        if answers is not None:
            # Most runs have no votes, and making lines to find that out would cost more.
            has_votes = any(isinstance(answer, Score) and answer.lines for answer in answers)
            if not has_votes:
                return row
        for line in (
            line
            for line in row.report.lines
            if line.name in self.questions and line.requirement is not None
        ):
            question = self.questions[line.name]
            for kind, votes in find_repeats(line):
                self.add_answers(
                    row.example, question.name, [question.read_answer(vote) for vote in votes], kind
                )
        return row

    def add_answers(
        self, example: str, criterion: str, answers: Sequence[Answer | None], kind: str = "retest"
    ) -> None:
        """Take in what one judge answered to one question."""
        given = tuple(answer for answer in answers if answer is not None)
        self._unanswered[kind] += len(answers) - len(given)
        if len(given) > 1:
            self._given[kind].setdefault(criterion, Counter())[example, given] += 1

    def consistency(self, kind: str) -> Consistency | None:
        """Agreement between the answers of one kind; None when nothing was asked so."""
        found = self._given[kind]

        def measured(names: Sequence[str]) -> Measures:
            choices, ranked = pooled_choices(self.questions[name] for name in names)
            units = [
                AnswerUnit(*key, times) for name in names for key, times in found[name].items()
            ]
            pairs = [
                AnswerPair(u.example, *two, u.times)
                for u in units
                for two in combinations(u.answers, 2)
            ]
            return measure(pairs, choices, ranked=ranked, units=units, symmetric=True)

        if not found:
            return None
        chosen = [name for name in found if self.questions[name].choices]
        return Consistency(
            measured(chosen), {name: measured([name]) for name in found}, self._unanswered[kind]
        )
