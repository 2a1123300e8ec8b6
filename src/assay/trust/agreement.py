"""Agreement: a judge against people, beside people against each other, who are the ceiling."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from assay.runs import Run
from assay.runs.row import Row
from assay.trust.asked import questions_of, same_questions
from assay.trust.consistency import Consistency, Repeats
from assay.trust.error import TrustError
from assay.trust.joining import Item, Joined, join
from assay.trust.labels import Label
from assay.trust.measures import Measures, Pair, Resampling, Unit, measure
from assay.trust.pairing import pair_answers
from assay.trust.questions import Question, pooled
from assay.trust.raters import Reference, consensus, judge_pairs, people_pairs, references


@dataclass(frozen=True)
class CriterionAgreement:
    """How far a judge agrees with people on one criterion, or on all; and they with each other."""

    name: str
    judge: Measures
    people: Measures
    """One rater in the judge's place, against the others; no pairs when nobody labelled twice."""
    labelled: int = 0
    """Rollouts with a label on it."""
    unanswered: int = 0
    """Those of them where the judge gave no answer. They are in none of the figures."""
    ties: int = 0
    """Those of them where people are split, so that there is no majority."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        counts = {"labelled": self.labelled, "unanswered": self.unanswered, "ties": self.ties}
        sides = {"judge": self.judge.to_dict(), "people": self.people.to_dict()}
        return {"name": self.name, **counts, **sides}


@dataclass(frozen=True)
class RaterAgreement:
    """One person: how the judge agrees with them, and how they agree with the other people."""

    rater: str
    labels: int
    judge: Measures
    others: Measures

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        sides = {"judge": self.judge.to_dict(), "others": self.others.to_dict()}
        return {"rater": self.rater, "labels": self.labels, **sides}


@dataclass(frozen=True)
class Agreement:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "reference": self.reference,
            "overall": self.overall.to_dict(),
            "criteria": [criterion.to_dict() for criterion in self.criteria],
            "raters": [rater.to_dict() for rater in self.raters],
            "members": {name: measures.to_dict() for name, measures in self.members.items()},
            "swap": None if self.swap is None else self.swap.to_dict(),
            "retest": None if self.retest is None else self.retest.to_dict(),
            "errors": dict(self.errors),
            "other_wording": dict(self.other_wording),
            "skipped": dict(self.skipped),
        }


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
    joined = join(
        _watched(run.rows(), repeats),
        questions,
        labels,
        skip_unknown=skip_unknown,
        any_wording=any_wording,
    )
    if again is not None:
        _take_in(run, again, repeats)
    return agreement_of(joined, reference=reference, repeats=repeats, resampling=resampling)


def _watched(rows: Iterable[Row], repeats: Repeats) -> Iterator[Row]:
    """The rows, while what they repeat is noted."""
    for row in rows:
        repeats.add(row)
        yield row


def _take_in(run: Run, again: Run, repeats: Repeats) -> None:
    """Note the answers of a second run to the same questions about the same rollouts."""
    paired = pair_answers(run.rows(), again.rows(), same_questions(run, again))
    if not paired.rollouts:
        raise TrustError(
            "no rollout is the same in both runs, so the second does not repeat the first: judge the "
            "saved rollouts again"
        )
    for twice in paired.answers:
        repeats.add_answers(twice.example, twice.criterion, (twice.before, twice.after))


def agreement_of(
    joined: Joined,
    *,
    reference: Reference = "each",
    repeats: Repeats | None = None,
    resampling: Resampling | None = None,
) -> Agreement:
    """The same for labels that are put beside the judge's answers already.

    >>> from assay.trust import Item, Joined, Question
    >>> said = [("MET", "MET"), ("MET", "UNMET"), ("UNMET", "UNMET"), ("UNMET", "UNMET")]
    >>> items = [Item(str(n), 0, "polite", {"ann": a}, judge) for n, (a, judge) in enumerate(said)]
    >>> found = agreement_of(Joined(tuple(items), {"polite": Question("polite")}))
    >>> found.overall.judge.accuracy.value, found.overall.judge.kappa.value
    (0.75, 0.5)
    """
    how = _How(reference, resampling or Resampling())
    by_name: dict[str, list[Item]] = {}
    for item in joined.items:
        by_name.setdefault(item.criterion, []).append(item)
    names = [name for name in joined.questions if name in by_name]
    chosen = [item for item in joined.items if joined.questions[item.criterion].choices]
    scale = pooled(joined.questions[name] for name in names if joined.questions[name].choices)
    return Agreement(
        overall=_criterion("overall", chosen, scale, how),
        criteria=tuple(
            _criterion(name, by_name[name], _scale(joined.questions[name]), how) for name in names
        ),
        raters=_raters(chosen, scale, how),
        reference=reference,
        members=_members(chosen, scale, how),
        swap=repeats.swap(how.resampling) if repeats else None,
        retest=repeats.retest(how.resampling) if repeats else None,
        errors=dict(Counter(item.error for item in joined.items if item.error).most_common()),
        other_wording=joined.other_wording,
        skipped=joined.skipped,
    )


class _How(NamedTuple):
    """How answers are compared and intervals made."""

    reference: Reference
    resampling: Resampling


_Scale: TypeAlias = tuple[tuple[str, ...], bool]
"""The choices, and whether they have an order."""


def _scale(question: Question) -> _Scale:
    return question.choices, True


def _criterion(name: str, items: Sequence[Item], scale: _Scale, how: _How) -> CriterionAgreement:
    unanswered = sum(item.judge is None for item in items)
    by_majority = how.reference == "majority"
    ties = sum(by_majority and consensus(list(i.people.values())) is None for i in items)
    units = [Unit(i.example, list(i.people.values())) for i in items if len(i.people) > 1]
    return CriterionAgreement(
        name,
        judge=_measured(judge_pairs(items, how.reference), scale, how),
        people=_measured(people_pairs(items, how.reference), scale, how, units),
        labelled=len(items),
        unanswered=unanswered,
        ties=ties,
    )


def _measured(
    pairs: Iterator[Pair], scale: _Scale, how: _How, units: Sequence[Unit] | None = None
) -> Measures:
    choices, ranked = scale
    return measure(
        list(pairs),
        choices,
        ranked=ranked,
        units=units,
        # Against a majority the seats differ; of two raters either may take the judge's.
        symmetric=units is not None and how.reference == "each",
        resampling=how.resampling,
    )


def _raters(items: Sequence[Item], scale: _Scale, how: _How) -> tuple[RaterAgreement, ...]:
    names = sorted({rater for item in items for rater in item.people})
    return tuple(_rater(name, items, scale, how) for name in names)


def _rater(name: str, items: Sequence[Item], scale: _Scale, how: _How) -> RaterAgreement:
    own = [item for item in items if name in item.people]
    with_judge = (
        Pair(item.example, item.people[name], item.judge) for item in own if item.judge is not None
    )
    with_others = (
        Pair(item.example, theirs, item.people[name])
        for item in own
        for theirs in references(
            [answer for rater, answer in item.people.items() if rater != name], how.reference
        )
    )
    judge, others = (_measured(pairs, scale, how) for pairs in (with_judge, with_others))
    return RaterAgreement(name, len(own), judge, others)


def _members(items: Sequence[Item], scale: _Scale, how: _How) -> dict[str, Measures]:
    names = dict.fromkeys(name for item in items for name in item.members)
    return {
        name: _measured(
            (
                Pair(item.example, theirs, item.members[name])
                for item in items
                if name in item.members
                for theirs in references(list(item.people.values()), how.reference)
            ),
            scale,
            how,
        )
        for name in names
    }
