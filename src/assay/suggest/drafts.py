"""Let a model propose criteria, and refuse what lint finds wrong before it is judged."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.engine import named_apart
from assay.errors import ModelError, TrustError
from assay.graders.judge_input import fenced, prompt_version, system_prompt, view_of, without_prompt_tags
from assay.lint.conflicts import hits_between
from assay.lint.findings import RULES, SEVERITIES
from assay.lint.rules import hits_of_criterion
from assay.messages import question_text
from assay.models import Model, Request
from assay.tables import rows_of
from assay.wording import described, short_repr

_MOST_SHOWN: Final = 12  # pairs that drafters see; all others are for finding out what their criteria are worth
_FEWEST: Final = 5  # pairs without which no criterion could be told from chance
_AT_ONCE: Final = 4  # pairs that are shown to the drafter in one call
_LONGEST: Final = 400  # characters of a requirement that a model may propose
_HEAVIEST: Final = 10.0


class Pair(NamedTuple):
    """Two responses to one prompt."""

    prompt: str
    chosen: str
    rejected: str

    @property
    def texts(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Both responses, the preferred one first, each with the prompt."""
        return (self.chosen, self.prompt), (self.rejected, self.prompt)


def read_pairs(source: object) -> list[Pair]:
    """The pairs in a table: `chosen`, `rejected`, and a `prompt` if there is one.

    Responses are texts, or messages of which the last one of the assistant's counts.

    >>> read_pairs([{"prompt": "2+2?", "chosen": "4", "rejected": "5"}])
    [Pair(prompt='2+2?', chosen='4', rejected='5')]
    """
    pairs: list[Pair] = []
    for number, row in enumerate(rows_of(source, fields=("chosen", "rejected")), start=1):
        sides: list[str] = []
        for key in ("chosen", "rejected"):
            try:
                text = view_of(row[key])[1]
            except (TypeError, ValueError) as error:
                raise TrustError(f"pair {number}: {key} is {short_repr(row[key])}: {error}") from None
            if not text.strip():
                raise TrustError(f"pair {number}: {key} is empty: give a response, or leave the pair out")
            sides.append(text)
        if sides[0].strip() == sides[1].strip():
            raise TrustError(f"pair {number}: chosen and rejected are the same: leave the pair out")
        # Where there is no column for it, the prompt is what the messages open with.
        asked = row.get("prompt") or (row["chosen"] if not isinstance(row["chosen"], str) else "")
        pairs.append(Pair(question_text(asked), *sides))
    return pairs


def split(pairs: Sequence[Pair], seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """The pairs that drafters see, a third of them at most, and those that they do not.

    No prompt is in both: criteria made for a prompt would do too well on it.
    """
    by_prompt: dict[str, list[Pair]] = {}
    for number, pair in enumerate(pairs):
        # Pairs without a prompt are each for themselves.
        by_prompt.setdefault(pair.prompt or f"\0{number}", []).append(pair)
    groups = list(by_prompt.values())
    if len(groups) < _FEWEST:
        raise TrustError(
            f"{len(groups)} prompts are too few to tell a criterion from chance: give pairs of {_FEWEST} or more"
        )
    random.Random(seed).shuffle(groups)
    most = min(_MOST_SHOWN, max(1, len(groups) // 3))
    return [group[0] for group in groups[:most]], [pair for g in groups[most:] for pair in g]


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
    errors: tuple[str, ...] = ()  # why a drafter gave no proposal


async def draft_from_pairs(model: Model, shown: Sequence[Pair], most: int) -> Draft:
    """Criteria that tell the preferred responses of these pairs from the rejected ones."""
    batches = [shown[start : start + _AT_ONCE] for start in range(0, len(shown), _AT_ONCE)]
    requests: list[Request] = []
    for batch in batches:
        parts = [
            f"{_query(pair.prompt)}Preferred:\n{fenced(pair.chosen)}\nRejected:\n{fenced(pair.rejected)}"
            for pair in batch
        ]
        requests.append(_request("suggest_pairs", "\n\n".join(parts)))
    return await _draft(model, requests, most)


async def draft_from_references(model: Model, prompt: str, references: Sequence[str], most: int) -> Draft:
    """Criteria that these good answers to a prompt meet."""
    asked = f"<query>{without_prompt_tags(prompt)}</query>"
    parts = [asked, *(f"A good answer:\n{fenced(text)}" for text in references)]
    request = _request("suggest_references", "\n\n".join(parts))
    return await _draft(model, [request], most, faults=False)


def _query(prompt: str) -> str:
    return f"<query>{without_prompt_tags(prompt)}</query>\n" if prompt else ""


def _request(name: str, user: str) -> Request:
    def complaint(value: Any) -> str | None:
        for each in Proposal.model_validate(value).criteria:
            words = each.requirement.strip()
            if not words or len(words) > _LONGEST:
                return f"a requirement is {'too long' if words else 'blank'}: write one sentence"
            if not 0 < abs(each.weight) <= _HEAVIEST:
                return f"the weight of {words!r} is {each.weight:g}: give one from 1 to 3"
        return None

    asked = Request.of(system_prompt(name, "assay.suggest"), user, schema=Proposal)
    return replace(asked, check=complaint, prompt=prompt_version(name, "assay.suggest"))


async def _draft(model: Model, requests: Sequence[Request], most: int, *, faults: bool = True) -> Draft:
    async def ask(request: Request) -> Proposal | str:
        try:
            # What a function of the caller's returns has not been validated yet.
            proposal = Proposal.model_validate((await model(request)).value)
        except (ModelError, ValidationError) as error:
            return described(error)
        complaint = None if request.check is None else request.check(proposal)
        return proposal if complaint is None else complaint

    replies = await side_by_side(ask, requests)
    proposals = [reply.criteria for reply in replies if isinstance(reply, Proposal)]
    errors = tuple(reply for reply in replies if isinstance(reply, str))
    # In turn, so that no drafter's criteria crowd out another's.
    in_turn = [each for turn in zip_longest(*proposals) for each in turn if each]
    criteria = named_apart(
        [Criterion(requirement=" ".join(each.requirement.split()), weight=each.weight) for each in in_turn]
    )
    return replace(_sift(criteria, most, faults), errors=errors)


def _sift(criteria: Sequence[Criterion], most: int, faults: bool) -> Draft:
    """The first `most` that lint finds no error in, and that ask what none before them asks."""
    kept: list[Criterion] = []
    refused: list[tuple[Criterion, str]] = []
    for criterion in criteria:
        hits = (
            hit for hit in hits_of_criterion(criterion) if (hit.severity or RULES[hit.rule].severity) == SEVERITIES[-1]
        )
        hit = next(hits, None) or dict(hits_between([*kept, criterion])).get(len(kept))
        why = None if hit is None else f"lint {hit.rule}: {hit.message}"
        if criterion.weight < 0 and not faults:
            why = "it describes a fault, and references show none"
        if why is None and len(kept) == most:
            why = f"there are {most} before it, and no more were wanted"
        if why is None:
            kept.append(criterion)
        else:
            refused.append((criterion, why))
    return Draft(tuple(kept), tuple(refused))
