"""Hold a judge against people, beside people against each other, who are the ceiling."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Literal, TypeAlias, cast

from assay.criterion import NOT_APPLICABLE
from assay.errors import TrustError
from assay.runs import Run
from assay.runs.row import Row
from assay.trust.clusters import Resampling
from assay.trust.coefficients import AnswerPair, AnswerUnit, Measures, measure
from assay.trust.consistency import Consistency, Repeats
from assay.trust.estimate import Record
from assay.trust.labels import Joined, Label, LabelledItem, join
from assay.trust.questions import Answer, Question, pair_runs, pooled_choices, questions_of, same_questions

Reference: TypeAlias = Literal["each", "majority"]
"""Whom a judge is held against: each rater in turn, or what most of them say."""


@dataclass(frozen=True)
class CriterionAgreement(Record):
    """How far a judge agrees with people on one criterion, or on all; and they with each other."""

    name: str
    judge: Measures
    people: Measures
    """One rater in the judge's place, against the others; no pairs when nothing was labelled twice."""
    labelled: int = 0
    """Rollouts with a label on it."""
    unanswered: int = 0
    """Those of them where the judge gave no answer. They are in none of the figures."""
    ties: int = 0
    """Those of them where people are split, so that there is no majority."""


@dataclass(frozen=True)
class RaterAgreement(Record):
    """One person: how the judge agrees with them, and how they agree with the other people."""

    rater: str
    labels: int
    judge: Measures
    others: Measures


@dataclass(frozen=True)
class Agreement(Record):
    """Whether a judge can stand in for people: their figures side by side."""

    overall: CriterionAgreement
    """All criteria with choices together; those that are answered by numbers are left out."""
    criteria: tuple[CriterionAgreement, ...]
    raters: tuple[RaterAgreement, ...]
    reference: Reference = "each"
    members: Mapping[str, Measures] = field(default_factory=dict[str, Measures])
    """Each judge of a panel against people."""
    swap: Consistency | None = None
    """The judge against itself with the order turned round; None when that was not asked."""
    retest: Consistency | None = None
    """The judge against itself when asked again; None when it was not."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """Why the judge gave no answer, and how often."""
    other_wording: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels left out by criterion, as they were made for another wording."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Labels left out that do not fit the run, by what is wrong with them."""


def agree(
    run: Run,
    labels: Sequence[Label],
    *,
    again: Run | None = None,
    reference: Reference = "each",
    skip_unknown: bool = False,
    any_wording: bool = False,
    resampling: Resampling | None = None,
) -> Agreement:
    """How far the judge of a run agrees with people, on every criterion and overall.

    `again` is a second run on the same rollouts, whose answers show whether the judge says the same again.
    """
    questions = questions_of(run)
    repeats = Repeats(questions)

    def watched() -> Iterator[Row]:
        """The rows, while what they repeat is noted: a run is read once."""
        for row in run.rows():
            repeats.add(row)
            yield row

    joined = join(watched(), questions, labels, skip_unknown=skip_unknown, any_wording=any_wording)
    if again is not None:
        paired = pair_runs(run, again, same_questions(run, again))
        if not paired.rollouts:
            raise TrustError(
                "no rollout is the same in both runs, so the second does not repeat the first: judge the "
                "saved rollouts again"
            )
        for twice in paired.answers:
            repeats.add_answers(twice.example, twice.criterion, (twice.before, twice.after))
    return agreement_of(joined, reference=reference, repeats=repeats, resampling=resampling)


def agreement_of(
    joined: Joined,
    *,
    reference: Reference = "each",
    repeats: Repeats | None = None,
    resampling: Resampling | None = None,
) -> Agreement:
    """The same for labels that are put beside the judge's answers already.

    >>> from assay.trust import Joined, LabelledItem, Question
    >>> said = [("MET", "MET"), ("MET", "UNMET"), ("UNMET", "UNMET"), ("UNMET", "UNMET")]
    >>> items = [LabelledItem(str(n), 0, "polite", {"ann": a}, judge) for n, (a, judge) in enumerate(said)]
    >>> found = agreement_of(Joined(tuple(items), {"polite": Question("polite")}))
    >>> found.overall.judge.accuracy.value, found.overall.judge.kappa.value
    (0.75, 0.5)
    """
    how = resampling or Resampling()
    by_name: dict[str, list[LabelledItem]] = {}
    for item in joined.items:
        by_name.setdefault(item.criterion, []).append(item)
    asked = [question for name, question in joined.questions.items() if name in by_name]
    overall = _Measuring(*pooled_choices(q for q in asked if q.choices), reference, how)
    chosen = [item for item in joined.items if joined.questions[item.criterion].choices]
    return Agreement(
        overall=overall.criterion("overall", chosen),
        criteria=tuple(_Measuring(q.choices, True, reference, how).criterion(q.name, by_name[q.name]) for q in asked),
        raters=overall.raters(chosen),
        reference=reference,
        members=overall.members(chosen),
        swap=repeats.swap(how) if repeats else None,
        retest=repeats.retest(how) if repeats else None,
        errors=dict(Counter(item.error for item in joined.items if item.error).most_common()),
        other_wording=joined.other_wording,
        skipped=joined.skipped,
    )


@dataclass(frozen=True)
class _Measuring:
    """How answers are compared: on which scale, with whom, and with which intervals."""

    choices: tuple[str, ...]
    ranked: bool
    reference: Reference
    resampling: Resampling

    def criterion(self, name: str, items: Sequence[LabelledItem]) -> CriterionAgreement:
        people = [list(item.people.values()) for item in items]
        by_majority = self.reference == "majority"
        units = [
            AnswerUnit(item.example, answers) for item, answers in zip(items, people, strict=True) if len(answers) > 1
        ]
        judge = (
            AnswerPair(item.example, answer, item.judge)
            for item, answers in zip(items, people, strict=True)
            if item.judge is not None
            for answer in self._held_against(answers)
        )
        return CriterionAgreement(
            name,
            judge=self._measured(judge),
            people=self._measured(self._people_pairs(items), units),
            labelled=len(items),
            unanswered=sum(item.judge is None for item in items),
            ties=sum(by_majority and consensus(answers) is None for answers in people),
        )

    def raters(self, items: Sequence[LabelledItem]) -> tuple[RaterAgreement, ...]:
        """Each person against the judge, and against the other people."""
        names = sorted({rater for item in items for rater in item.people})
        return tuple(self._rater(name, [i for i in items if name in i.people]) for name in names)

    def _rater(self, name: str, own: Sequence[LabelledItem]) -> RaterAgreement:
        judge = (AnswerPair(item.example, item.people[name], item.judge) for item in own if item.judge is not None)
        others = (
            AnswerPair(item.example, theirs, item.people[name])
            for item in own
            for theirs in self._held_against(_without(item, name))
        )
        return RaterAgreement(name, len(own), self._measured(judge), self._measured(others))

    def members(self, items: Sequence[LabelledItem]) -> dict[str, Measures]:
        """Each judge of a panel against people."""
        names = dict.fromkeys(name for item in items for name in item.members)
        return {
            name: self._measured(
                AnswerPair(item.example, theirs, item.members[name])
                for item in items
                if name in item.members
                for theirs in self._held_against(list(item.people.values()))
            )
            for name in names
        }

    def _people_pairs(self, items: Sequence[LabelledItem]) -> Iterator[AnswerPair]:
        """One rater in the judge's place, against the others."""
        for item in items:
            if self.reference == "each":
                ordered = [item.people[rater] for rater in sorted(item.people)]
                for first, second in combinations(ordered, 2):
                    yield AnswerPair(item.example, first, second)
            else:
                for rater, answer in item.people.items():
                    for theirs in self._held_against(_without(item, rater)):
                        yield AnswerPair(item.example, theirs, answer)

    def _held_against(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        if self.reference == "each":
            return answers
        agreed = consensus(answers)
        return [] if agreed is None else [agreed]

    def _measured(self, pairs: Iterable[AnswerPair], units: Sequence[AnswerUnit] | None = None) -> Measures:
        return measure(
            list(pairs),
            self.choices,
            ranked=self.ranked,
            units=units,
            # Against a majority the seats differ; of two raters either may take the judge's.
            symmetric=units is not None and self.reference == "each",
            resampling=self.resampling,
        )


def _without(item: LabelledItem, rater: str) -> list[Answer]:
    return [answer for name, answer in item.people.items() if name != rater]


def consensus(answers: Sequence[Answer]) -> Answer | None:
    """The answer that most gave, or the mean of numbers; None when two are given as often.

    >>> consensus(["MET", "MET", "UNMET"]), consensus(["MET", "UNMET"]), consensus([1.0, 2.0])
    ('MET', None, 1.5)
    """
    if answers and not any(isinstance(answer, str) for answer in answers):
        return fmean(cast("Sequence[float]", answers))
    ranked = Counter(answers).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def mean_answer(question: Question, answers: Sequence[Answer]) -> Answer:
    """What a person would say on average: their choice where they agree, else what it is worth.

    To leave out what they are split on would leave out what is hard.

    >>> polite = Question("polite")
    >>> mean_answer(polite, ["MET", "MET"]), mean_answer(polite, ["MET", "UNMET"])
    ('MET', 0.5)
    """
    worths = [worth for worth in map(question.worth, answers) if worth is not None]
    if 2 * len(worths) < len(answers) or not worths:
        return NOT_APPLICABLE
    return question.choice_worth(fmean(worths)) or fmean(worths)
