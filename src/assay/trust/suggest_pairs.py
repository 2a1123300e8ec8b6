"""Pairs: two responses to one prompt, of which people preferred one."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.errors import TrustError
from assay.graders.views import view_of
from assay.messages import question_text
from assay.tables import rows_of
from assay.wording import shown

MOST_SHOWN: Final = 12
"""Pairs that drafters see; all others are for finding out what their criteria are worth."""
FEWEST: Final = 5
"""Pairs without which no criterion could be told from chance."""


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
    rows = rows_of(source, fields=("chosen", "rejected"))
    return [_pair(row, number) for number, row in enumerate(rows, start=1)]


def _pair(row: Mapping[str, Any], number: int) -> Pair:
    sides: list[str] = []
    for key in ("chosen", "rejected"):
        try:
            text = view_of(row[key])[1]
        except (TypeError, ValueError) as error:
            raise TrustError(f"pair {number}: {key} is {shown(row[key])}: {error}") from None
        if not text.strip():
            raise TrustError(
                f"pair {number}: {key} is empty: give a response, or leave the pair out"
            )
        sides.append(text)
    if sides[0].strip() == sides[1].strip():
        raise TrustError(f"pair {number}: chosen and rejected are the same: leave the pair out")
    # Where there is no column for it, the prompt is what the messages open with.
    asked = row.get("prompt") or (row["chosen"] if not isinstance(row["chosen"], str) else "")
    return Pair(question_text(asked), *sides)


def split(pairs: Sequence[Pair], seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """The pairs that drafters see, a third of them at most, and those that they do not.

    No prompt is in both: criteria made for a prompt would do too well on it.
    """
    groups = _by_prompt(pairs)
    if len(groups) < FEWEST:
        raise TrustError(
            f"{len(groups)} prompts are too few to tell a criterion from chance: give pairs of {FEWEST} or more"
        )
    random.Random(seed).shuffle(groups)
    most = min(MOST_SHOWN, max(1, len(groups) // 3))
    return [group[0] for group in groups[:most]], [pair for g in groups[most:] for pair in g]


def _by_prompt(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Pairs of one prompt together; those without any are each for themselves."""
    groups: dict[str, list[Pair]] = {}
    for number, pair in enumerate(pairs):
        groups.setdefault(pair.prompt or f"\0{number}", []).append(pair)
    return list(groups.values())
