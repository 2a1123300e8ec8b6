"""Drafting: what a model proposes as criteria, and what is refused before anybody judges by it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.engine import named_apart
from assay.errors import ModelError
from assay.graders.fence import fenced
from assay.graders.prompting import prompt_version, system_prompt
from assay.graders.tags import without_prompt_tags
from assay.models import Model, Request
from assay.trust.lint_finding import RULES, SEVERITIES
from assay.trust.lint_pairs import pairs as clashes
from assay.trust.linting import alone
from assay.trust.suggest_pairs import Pair
from assay.wording import described

LONGEST: Final = 400
"""Characters of a requirement that a model may propose."""
HEAVIEST: Final = 10.0
AT_ONCE: Final = 4
"""Pairs that are shown to the drafter in one call."""


class Proposed(BaseModel):
    """One criterion, the reason first."""

    reason: str
    requirement: str
    weight: float


class Proposal(BaseModel):
    """What a drafter replies: the reason first, so that the criteria follow from it."""

    reason: str
    criteria: list[Proposed] = Field(min_length=1)


@dataclass(frozen=True)
class Draft:
    """What drafters proposed: what can be judged by, and what was refused, with why."""

    criteria: tuple[Criterion, ...] = ()
    refused: tuple[tuple[Criterion, str], ...] = ()
    errors: tuple[str, ...] = ()
    """Why a drafter gave no proposal."""


async def drafted_from_pairs(model: Model, shown: Sequence[Pair], most: int) -> Draft:
    """Criteria that tell the preferred responses of these pairs from the rejected ones."""
    batches = [shown[start : start + AT_ONCE] for start in range(0, len(shown), AT_ONCE)]
    requests = [_request("suggest_pairs", "\n\n".join(map(_of_pair, batch))) for batch in batches]
    return await _drafted(model, requests, most)


async def drafted_from_references(
    model: Model, prompt: str, references: Sequence[str], most: int
) -> Draft:
    """Criteria that these good answers to a prompt meet."""
    asked = f"<query>{without_prompt_tags(prompt)}</query>"
    parts = [asked, *(f"A good answer:\n{fenced(text)}" for text in references)]
    request = _request("suggest_references", "\n\n".join(parts))
    return await _drafted(model, [request], most, faults=False)


def _of_pair(pair: Pair) -> str:
    query = f"<query>{without_prompt_tags(pair.prompt)}</query>\n" if pair.prompt else ""
    return f"{query}Preferred:\n{fenced(pair.chosen)}\nRejected:\n{fenced(pair.rejected)}"


def _request(name: str, user: str) -> Request:
    def complaint(value: Any) -> str | None:
        return next(_complaints(Proposal.model_validate(value).criteria), None)

    asked = Request.of(system_prompt(name, "assay.trust"), user, schema=Proposal)
    return replace(asked, check=complaint, prompt=prompt_version(name, "assay.trust"))


def _complaints(criteria: Sequence[Proposed]) -> Iterator[str]:
    for each in criteria:
        words = each.requirement.strip()
        if not words or len(words) > LONGEST:
            yield f"a requirement is {'too long' if words else 'blank'}: write one sentence"
        elif not 0 < abs(each.weight) <= HEAVIEST:
            yield f"the weight of {words!r} is {each.weight:g}: give one from 1 to 3"


async def _drafted(
    model: Model, requests: Sequence[Request], most: int, *, faults: bool = True
) -> Draft:
    async def ask(request: Request) -> Proposal | str:
        try:
            # What a function of the caller's returns, nobody has looked at yet.
            proposal = Proposal.model_validate((await model(request)).value)
        except (ModelError, ValidationError) as error:
            return described(error)
        complaint = None if request.check is None else request.check(proposal)
        return proposal if complaint is None else complaint

    replies = await side_by_side(ask, requests)
    proposals = [reply.criteria for reply in replies if isinstance(reply, Proposal)]
    errors = tuple(reply for reply in replies if isinstance(reply, str))
    # In turn, so that no drafter's criteria crowd out another's.
    turns = range(max(map(len, proposals), default=0))
    in_turn = [each for turn in turns for listed in proposals for each in listed[turn : turn + 1]]
    criteria = named_apart([_criterion(each) for each in in_turn])
    return replace(_sifted(criteria, most, faults), errors=errors)


def _criterion(proposed: Proposed) -> Criterion:
    return Criterion(requirement=" ".join(proposed.requirement.split()), weight=proposed.weight)


def _sifted(criteria: Sequence[Criterion], most: int, faults: bool) -> Draft:
    """The first `most` that lint finds no error in, and that ask what none before them asks."""
    kept: list[Criterion] = []
    refused: list[tuple[Criterion, str]] = []
    for criterion in criteria:
        why = _wrong(criterion) or _clash(kept, criterion)
        if criterion.weight < 0 and not faults:
            why = "it describes a fault, and references show none"
        if why is None and len(kept) == most:
            why = f"there are {most} before it, and no more were wanted"
        if why is None:
            kept.append(criterion)
        else:
            refused.append((criterion, why))
    return Draft(tuple(kept), tuple(refused))


def _wrong(criterion: Criterion) -> str | None:
    hits = (h for h in alone(criterion) if (h.severity or RULES[h.rule].severity) == SEVERITIES[-1])
    return next((f"lint {hit.rule}: {hit.message}" for hit in hits), None)


def _clash(kept: Sequence[Criterion], criterion: Criterion) -> str | None:
    found = dict(clashes([*kept, criterion]))
    hit = found.get(len(kept))
    return None if hit is None else f"lint {hit.rule}: {hit.message}"
