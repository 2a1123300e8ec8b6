"""Find what is wrong with criteria beside each other: duplicates, conflicts, and conditions that never hold.

Two requirements are compared without an embedding: words are folded, cut to their stems and put under one word for
many, and negations are counted. `Names who owns every action item` and `States the owner of each action item` come
to the same words; `cites source A` and `cites source B` do not, and are merely parallel.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from assay.criterion import NOT_APPLICABLE, ColumnValue, Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import LONGEST, pattern, word_lists, words

# What a requirement comes to when its wording is taken away.

_WORD = re.compile(r"\d[\d.,:/]*\d|\d|[^\W\d_][\w'’+#-]*[\w+#]|[^\W\d_]")
_SAME: Final = {word: group.split()[0] for group in word_lists()["same"] for word in group.split()}


class Claim(NamedTuple):
    """A requirement as the stems of its words."""

    words: tuple[str, ...]  # in the order they stand, without those that carry nothing
    denied: bool  # whether an odd number of negations turns it round
    ordered: bool  # whether turning its words round would change what it says


@lru_cache(maxsize=20_000)
def claim_of(requirement: str) -> Claim:
    """What a requirement comes to."""
    found = [word.replace("’", "'") for word in _WORD.findall(requirement[:LONGEST])]
    folded = [w if place and w.isupper() else w.casefold() for place, w in enumerate(found)]
    denials = sum(map(_denies, folded))
    stems = [_stem(word) for word in folded if word not in words("empty") and not _denies(word)]
    stems = [
        stem for stem in stems if stem != "say"
    ] or stems  # that it is to be said goes without saying
    ordered = pattern("ordered").search(requirement) is not None
    return Claim(tuple(stems), denials % 2 == 1, ordered)


def _denies(word: str) -> bool:
    return word in words("denials") or word.endswith("n't")


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """A word without its ending, roughly: enough for `cites` and `cited`."""
    if word in _SAME:
        return _SAME[word]
    if word.isupper() or not word.isalpha() or len(word) < 4:
        return word
    for spelling, instead in word_lists()["spellings"]:
        word = re.sub(spelling, instead, word)
    for ending, instead in word_lists()["endings"]:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)] + instead
            return _SAME.get(stem, _SAME.get(f"{stem}e", stem.removesuffix("e")))
    return word.removesuffix("e")


# How long a whole response may be.


class Limit(NamedTuple):
    """A number of words, sentences and the like that a response must have, or may not pass."""

    is_least: bool
    number: int
    unit: str


def limit_of(requirement: str) -> Limit | None:
    """The limit that a criterion sets to the whole response; None when it sets none."""
    found = pattern("limit").search(requirement[:1000])
    if found is None or not pattern("whole").match(requirement[: found.start()]):
        return None
    if not pattern("rest").match(requirement, found.end()):
        return None
    return Limit(
        found["least"] is not None, int(found["number"].replace(",", "")), found["unit"].lower()
    )


# R007 and R008: criteria that ask the same twice, and criteria that no response can satisfy together.


def hits_between(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Duplicates and conflicts among the criteria of one rubric, each told at the second of the two.

    Criteria that are asked on different conditions need not meet, and are not compared.
    """
    claims: dict[object, list[Criterion]] = defaultdict(list)
    limits: dict[object, list[tuple[Criterion, Limit]]] = defaultdict(list)
    for index, criterion in enumerate(criteria):
        if criterion.requirement is None:
            continue
        claim, limit = claim_of(criterion.requirement), limit_of(criterion.requirement)
        if claim.words:
            before = claims[criterion.when, frozenset(claim.words)]
            for first in before:
                other = claim_of(first.requirement or "")
                if claim.words == other.words or not (claim.ordered or other.ordered):
                    yield index, _clash(first, criterion, claim.denied != other.denied)
                    break
            before.append(criterion)
        if limit is not None and criterion.weight > 0:
            others = limits[criterion.when, limit.unit]
            for first, other in others:
                least, most = (limit, other) if limit.is_least else (other, limit)
                if limit.is_least != other.is_least and least.number > most.number:
                    asked = (
                        f"at least {least.number} {limit.unit}s, and at most {most.number} as well"
                    )
                    message = f"no response has {asked}, as this one and '{first.name}' ask"
                    yield index, Hit("R008", message, "keep one of the two, or let them meet")
                    break
            others.append((criterion, limit))


def _clash(first: Criterion, second: Criterion, opposed: bool) -> Hit:
    """What two criteria that come to the same words, or to the opposite, do to a score."""
    signs = first.weight * second.weight
    if signs and opposed == (signs > 0):
        said = "is the opposite of" if opposed else "asks the same as"
        how = "both weights have one sign" if opposed else "the weights have opposite signs"
        message = f"it {said} '{first.name}', and {how} ({first.weight:+g} and {second.weight:+g})"
        return Hit("R008", message, "keep one of the two", "requirement" if opposed else "weight")
    message = f"it {'turns round what' if opposed else 'asks what'} '{first.name}' asks, so one thing is counted twice"
    return Hit(
        "R007",
        message,
        "drop one of the two, and give the other the weight that the thing deserves",
    )


# R009: conditions that can never hold, so that a criterion is never asked, or never passes.


def unreachable(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Criteria whose `when` cannot hold, and required ones that no answer passes."""
    by_name = {criterion.name: criterion for criterion in criteria}
    for index, criterion in enumerate(criteria):
        reason = _why_never(criterion, by_name)
        if reason:
            message = f"it is never asked: {reason}"
            yield index, Hit("R009", message, "mend or drop its `when`", "when")
        if criterion.judged and criterion.pass_at > 1 and criterion.weight >= 0:
            message = f"its pass_at is {criterion.pass_at:g}, and no verdict is worth more than 1"
            yield index, Hit("R009", message, "give a pass_at of at most 1", "pass_at")


def _why_never(criterion: Criterion, by_name: Mapping[str, Criterion]) -> str:
    """Why no response can meet its conditions, and those of the criteria that it depends on; empty when one can."""
    left: dict[str, frozenset[ColumnValue]] = {}  # the verdicts that each may still have
    waiting, seen = list(criterion.verdict_conditions), set(criterion.verdict_conditions)
    while waiting:
        condition = waiting.pop()
        other = by_name.get(condition.criterion)
        if other is None or not other.judged:
            continue  # what code answers, it may answer in any way
        passing = (verdict for verdict, value in other.values.items() if other.passes(value))
        wanted = frozenset(condition.verdicts or passing)
        possible = frozenset(
            (*other.choices, NOT_APPLICABLE) if other.may_not_apply else other.choices
        )
        before = left.get(other.name, possible)
        left[other.name] = before & wanted
        if not left[other.name]:
            offered = ", ".join(
                verdict for verdict in (*other.choices, NOT_APPLICABLE) if verdict in before
            )
            needs = " or ".join(map(str, condition.verdicts)) or "to be met"
            return f"it needs {other.name!r} {needs}, which can only be {offered}"
        if NOT_APPLICABLE not in wanted:
            waiting.extend(step for step in other.verdict_conditions if step not in seen)
            seen.update(other.verdict_conditions)
    return ""
