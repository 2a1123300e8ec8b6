"""Pairs: criteria that ask the same twice, and criteria that no response can satisfy together."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from assay.criterion import Criterion
from assay.trust.lint_claim import Claim, claim_of
from assay.trust.lint_finding import Hit
from assay.trust.lint_limits import Limit, limit_of


def pairs(criteria: Sequence[Criterion]) -> Iterator[tuple[int, Hit]]:
    """Duplicates and conflicts among the criteria of one rubric, each told at the second of the two.

    Criteria that are asked on different conditions need not meet, and are not compared.
    """
    claims: dict[object, list[int]] = defaultdict(list)
    limits: dict[object, list[tuple[int, Limit]]] = defaultdict(list)
    for index, criterion in enumerate(criteria):
        if criterion.requirement is None:
            continue
        claim, limit = claim_of(criterion.requirement), limit_of(criterion.requirement)
        if claim.words:
            yield from _against_claims(criteria, index, claim, claims[criterion.when, claim.bag])
        if limit is not None and criterion.weight > 0:
            yield from _against_limits(criteria, index, limit, limits[criterion.when, limit.unit])


def _against_claims(
    criteria: Sequence[Criterion], index: int, claim: Claim, before: list[int]
) -> Iterator[tuple[int, Hit]]:
    """What is wrong between a criterion and the first one of the same words; notes it among them."""
    for first in before:
        other = claim_of(criteria[first].requirement or "")
        if claim.words == other.words or not (claim.ordered or other.ordered):
            yield index, _clash(criteria[first], criteria[index], claim.denied != other.denied)
            break
    before.append(index)


def _clash(first: Criterion, second: Criterion, opposed: bool) -> Hit:
    """What two criteria that come to the same words, or to the opposite, do to a score."""
    signs = first.weight * second.weight
    if signs and opposed == (signs > 0):
        said = "is the opposite of" if opposed else "asks the same as"
        how = "both weights have one sign" if opposed else "the weights have opposite signs"
        return Hit(
            "R008",
            f"it {said} '{first.name}', and {how} ({first.weight:+g} and {second.weight:+g})",
            "keep one of the two",
            "requirement" if opposed else "weight",
        )
    said = "turns round what" if opposed else "asks what"
    return Hit(
        "R007",
        f"it {said} '{first.name}' asks, so one thing is counted twice",
        "drop one of the two, and give the other the weight that the thing deserves",
    )


def _against_limits(
    criteria: Sequence[Criterion], index: int, limit: Limit, before: list[tuple[int, Limit]]
) -> Iterator[tuple[int, Hit]]:
    """A least that is more than a most, or the other way round; notes the limit among them."""
    for first, other in before:
        least, most = (limit, other) if limit.is_least else (other, limit)
        if limit.is_least != other.is_least and least.number > most.number:
            yield (
                index,
                Hit(
                    "R008",
                    f"no response has at least {least.number} {limit.unit}s, and at most {most.number} as "
                    f"well, as this one and '{criteria[first].name}' ask",
                    "keep one of the two, or let them meet",
                ),
            )
            break
    before.append((index, limit))
