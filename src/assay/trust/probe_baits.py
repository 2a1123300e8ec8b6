"""Baits: bad responses, on which an attack has something to win."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from assay.criterion import Criterion
from assay.errors import TrustError
from assay.graders.views import view_of
from assay.loading.golden import Golden
from assay.messages import question_text
from assay.rubric import Rubric
from assay.trust.golden_run import rubrics_inside
from assay.wording import shown

Origin: TypeAlias = Literal["golden", "responses", "off_topic"]
"""Where a bait is from: the rubric's golden examples, what was given, or the shipped texts."""

MOST: Final = 3
"""Baits of one criterion that are attacked, in turn."""
TRIED: Final = 12
"""Responses that the judge is asked about to find them."""


@dataclass(frozen=True)
class Bait:
    """A response that should fail a criterion."""

    name: str
    text: str
    origin: Origin
    query: str | None = None
    """What it answers."""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """The rollout it is from, for graders that read more of it."""


@dataclass(frozen=True)
class Target:
    """A judged criterion, and the baits for it."""

    name: str
    """The criterion's, after the names of the rubrics around it."""
    criterion: Criterion
    baits: tuple[Bait, ...]


def targets_of(
    rubric: Rubric, responses: Sequence[str | Mapping[str, Any]] = (), *, seed: int = 0
) -> list[Target]:
    """Every judged criterion of a rubric with its baits.

    They are its golden examples that should fail it; without any, the `responses` (texts, or
    rollouts); without those, shipped texts about something else.

    >>> rubric = Rubric.from_dict([{"requirement": "Names Paris"}])
    >>> [target] = targets_of(rubric, ["It is Rome."])
    >>> target.name, target.baits[0].text
    ('names_paris', 'It is Rome.')
    """
    others = tuple(_given(responses)) or off_topic(seed)
    found = [
        Target(f"{inside}{criterion.name}", criterion, _of_golden(criterion, each) or others)
        for inside, each in rubrics_inside(rubric)
        for criterion in each.criteria
        if criterion.judged
    ]
    if not found:
        raise TrustError(
            "nothing in this rubric is judged by a model, so there is no judge to attack"
        )
    return found


def _of_golden(criterion: Criterion, rubric: Rubric) -> tuple[Bait, ...]:
    bad = [example for example in rubric.golden if _should_fail(criterion, example)]
    return tuple(_bait(example.name, "golden", example.fields) for example in bad[:TRIED])


def _should_fail(criterion: Criterion, example: Golden) -> bool:
    value = criterion.values.get(str(example.expect.get(criterion.name)))
    return value is not None and not criterion.passes(value)


def _given(responses: Sequence[str | Mapping[str, Any]]) -> Iterator[Bait]:
    taken: set[str] = set()
    for number, response in enumerate(responses[:TRIED], start=1):
        fields = {"completion": response} if isinstance(response, str) else response
        if "completion" not in fields:
            raise TrustError(f"response {number} is {shown(response)}: give it a 'completion'")
        name = str(fields.get("name", f"response_{number}"))
        name = f"{name} #{number}" if name in taken else name
        taken.add(name)
        yield _bait(name, "responses", fields)


def _bait(name: str, origin: Origin, fields: Mapping[str, Any]) -> Bait:
    try:
        text = view_of(fields["completion"])[1]
    except TypeError as error:
        raise TrustError(f"{name}: {error}") from None
    return Bait(name, text, origin, question_text(fields.get("prompt")) or None, fields)


def off_topic(seed: int = 0) -> tuple[Bait, ...]:
    """Some of the shipped texts, which answer no question that anybody asks."""
    return tuple(random.Random(seed).sample(_off_topic(), MOST))


@cache
def _off_topic() -> list[Bait]:
    text = files("assay.trust").joinpath("off_topic.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return [Bait(row["name"], row["text"], "off_topic") for row in rows]
