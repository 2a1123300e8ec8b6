"""Find faults between criteria: duplicates, conflicts, and conditions that never hold.

Two requirements are compared without an embedding: words are reduced to their stems, synonyms to one
of them, and negations are counted. `Names who owns every action item` and `States the owner of each
action item` have the same stems; `cites source A` and `cites source B` do not.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from assay.criterion import NOT_APPLICABLE, ColumnValue, Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import LONGEST, pattern, word_lists, words

# What a requirement claims, whatever its wording.

_WORD = re.compile(r"\d[\d.,:/]*\d|\d|[^\W\d_][\w'’+#-]*[\w+#]|[^\W\d_]")
# For each word that has synonyms, the one that stands for all of them.
_SYNONYMS: Final = {
    word: group.split()[0] for group in word_lists()["same"] for word in group.split()
}


class Claim(NamedTuple):
    """A requirement as the stems of its words."""

    words: tuple[str, ...]  # in order, without words that have no meaning of their own
    denied: bool  # whether the number of negations is odd
    ordered: bool  # whether another order of the words would change its meaning


@lru_cache(maxsize=20_000)
def claim_of(requirement: str) -> Claim:
    """Return the claim of a requirement, without its wording."""
    stems: list[str] = []
    denials = 0
    for index, word in enumerate(_WORD.findall(requirement[:LONGEST])):
        word = word.replace("’", "'")
        # A word in capitals is a name, except at the beginning.
        if index == 0 or not word.isupper():
            word = word.casefold()
        if _denies(word):
            denials += 1
        elif word not in words("empty"):
            stems.append(_stem(word))
    # Nearly every requirement wants something to be said, so this is not part of the claim.
    without_say = [stem for stem in stems if stem != "say"]
    return Claim(
        words=tuple(without_say or stems),
        denied=denials % 2 == 1,
        ordered=pattern("ordered").search(requirement) is not None,
    )


def _denies(word: str) -> bool:
    return word in words("denials") or word.endswith("n't")


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """Return a word without its ending, so that `cites` and `cited` are equal; or its synonym."""
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    if word.isupper() or not word.isalpha() or len(word) < 4:
        return word
    for spelling, replacement in word_lists()["spellings"]:
        word = re.sub(spelling, replacement, word)
    for ending, replacement in word_lists()["endings"]:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)] + replacement
            # An `e` before the ending may have been lost: `cited` is `cit` or `cite`.
            for candidate in (stem, f"{stem}e"):
                if candidate in _SYNONYMS:
                    return _SYNONYMS[candidate]
            return stem.removesuffix("e")
    return word.removesuffix("e")


# How long a whole response may be.


class Limit(NamedTuple):
    """The least or the greatest number of words, sentences and the like of a response."""

    is_least: bool
    number: int
    unit: str


def limit_of(requirement: str) -> Limit | None:
    """Return the limit that a criterion sets for the whole response; None if it sets none."""
    match = pattern("limit").search(requirement[:1000])
    if match is None:
        return None
    # The words around it say whether it is about the whole response or about a part of it.
    if not pattern("whole").match(requirement[: match.start()]):
        return None
    if not pattern("rest").match(requirement, match.end()):
        return None
    return Limit(
        is_least=match["least"] is not None,
        number=int(match["number"].replace(",", "")),
        unit=match["unit"].lower(),
    )


# R007 and R008: criteria that ask the same twice, and criteria that no response can satisfy together.


def find_hits_between(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Find duplicates and conflicts among the criteria of one rubric.

    A hit comes with the index of the second of the two criteria. Criteria with different conditions
    may never be asked together, and are not compared.
    """
    earlier_claims: dict[object, list[Criterion]] = defaultdict(list)
    earlier_limits: dict[object, list[tuple[Criterion, Limit]]] = defaultdict(list)
    for index, criterion in enumerate(criteria):
        if criterion.requirement is None:
            continue
        claim = claim_of(criterion.requirement)
        if claim.words:
            same_words = earlier_claims[criterion.when, frozenset(claim.words)]
            hit = _compare_claims(criterion, same_words)
            if hit is not None:
                yield index, hit
            same_words.append(criterion)
        limit = limit_of(criterion.requirement)
        if limit is not None and criterion.weight > 0:
            same_unit = earlier_limits[criterion.when, limit.unit]
            hit = _compare_limits(limit, same_unit)
            if hit is not None:
                yield index, hit
            same_unit.append((criterion, limit))


def _compare_claims(criterion: Criterion, earlier: Sequence[Criterion]) -> Hit | None:
    """Return the hit for the first of the earlier criteria that claims the same, or the opposite.

    All of them have the same words, but perhaps in another order.
    """
    claim = claim_of(criterion.requirement or "")
    for other in earlier:
        other_claim = claim_of(other.requirement or "")
        order_matters = claim.ordered or other_claim.ordered
        if claim.words == other_claim.words or not order_matters:
            is_opposite = claim.denied != other_claim.denied
            return _describe_clash(other, criterion, is_opposite=is_opposite)
    return None


def _compare_limits(limit: Limit, earlier: Sequence[tuple[Criterion, Limit]]) -> Hit | None:
    """Return the hit for the first of the earlier limits that no response can keep together with it."""
    for other, other_limit in earlier:
        if limit.is_least == other_limit.is_least:
            continue
        least, greatest = other_limit, limit
        if limit.is_least:
            least, greatest = limit, other_limit
        if least.number > greatest.number:
            message = (
                f"no response has at least {least.number} {limit.unit}s, and at most "
                f"{greatest.number} as well, as this one and '{other.name}' ask"
            )
            return Hit("R008", message, "keep one of the two, or let them meet")
    return None


def _describe_clash(first: Criterion, second: Criterion, *, is_opposite: bool) -> Hit:
    """Return the hit for two criteria that ask the same, or the opposite."""
    have_same_sign = first.weight * second.weight > 0
    have_opposite_signs = first.weight * second.weight < 0
    weights = f"({first.weight:+g} and {second.weight:+g})"
    if is_opposite and have_same_sign:
        message = f"it is the opposite of '{first.name}', and both weights have one sign {weights}"
        return Hit("R008", message, "keep one of the two", "requirement")
    if not is_opposite and have_opposite_signs:
        message = (
            f"it asks the same as '{first.name}', and the weights have opposite signs {weights}"
        )
        return Hit("R008", message, "keep one of the two", "weight")
    relation = "turns round what" if is_opposite else "asks what"
    return Hit(
        "R007",
        f"it {relation} '{first.name}' asks, so one thing is counted twice",
        "drop one of the two, and give the other the weight that the thing deserves",
    )


# R009: conditions that can never hold, so that a criterion is never asked, or never passes.


def find_unreachable(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Find criteria whose `when` cannot hold, and those that no answer passes, by their index."""
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
    """Return why the conditions of a criterion cannot hold; empty if they can.

    The conditions of the criteria that it depends on must hold as well.
    """
    remaining: dict[str, frozenset[ColumnValue]] = {}  # the verdicts that are still possible
    waiting = list(criterion.verdict_conditions)
    seen = set(waiting)
    while waiting:
        condition = waiting.pop()
        other = by_name.get(condition.criterion)
        if other is None or not other.judged:
            continue  # code may answer anything
        verdicts: tuple[str, ...] = tuple(other.choices)
        if other.may_not_apply:
            verdicts = (*verdicts, NOT_APPLICABLE)
        # A condition without verdicts needs one that passes. Several conditions on one criterion
        # must hold together.
        needed = frozenset(condition.verdicts or _passing_verdicts(other))
        possible = remaining.get(other.name, frozenset(verdicts))
        remaining[other.name] = possible & needed
        if not remaining[other.name]:
            offered = [
                verdict for verdict in (*other.choices, NOT_APPLICABLE) if verdict in possible
            ]
            needs = " or ".join(map(str, condition.verdicts)) or "to be met"
            return f"it needs {other.name!r} {needs}, which can only be {', '.join(offered)}"
        if NOT_APPLICABLE not in needed:
            # The other criterion must be asked, so its own conditions must hold.
            for inner_condition in other.verdict_conditions:
                if inner_condition not in seen:
                    waiting.append(inner_condition)
            seen.update(other.verdict_conditions)
    return ""


def _passing_verdicts(criterion: Criterion) -> list[str]:
    return [verdict for verdict, value in criterion.values.items() if criterion.passes(value)]
