"""Raters: whom an answer is held against, when several people answered."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal, TypeAlias, cast

from assay.score import NOT_APPLICABLE
from assay.trust.joining import Item
from assay.trust.measures import Pair
from assay.trust.questions import Answer, Question

Reference: TypeAlias = Literal["each", "majority"]
"""Whom a judge is held against: each rater in turn, or what most of them say."""


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


def judge_pairs(items: Sequence[Item], reference: Reference) -> Iterator[Pair]:
    """The judge against people."""
    for item in items:
        if item.judge is not None:
            for answer in references(list(item.people.values()), reference):
                yield Pair(item.example, answer, item.judge)


def people_pairs(items: Sequence[Item], reference: Reference) -> Iterator[Pair]:
    """One rater in the judge's place, against the others."""
    for item in items:
        if reference == "each":
            ordered = [item.people[rater] for rater in sorted(item.people)]
            for first, second in combinations(ordered, 2):
                yield Pair(item.example, first, second)
        else:
            for rater, answer in item.people.items():
                others = [a for name, a in item.people.items() if name != rater]
                for theirs in references(others, reference):
                    yield Pair(item.example, theirs, answer)


def references(answers: Sequence[Answer], reference: Reference) -> list[Answer]:
    """What an answer is held against."""
    if reference == "each":
        return list(answers)
    agreed = consensus(answers)
    return [] if agreed is None else [agreed]
