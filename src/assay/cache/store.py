"""Store: where verdicts are kept. Plain calls; `VerdictCache` is the same for a running loop."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.cache.verdict import CachedVerdict, Item, VerdictKey

SCHEMA_VERSION = 1
"""Goes up when what is stored changes; a store refuses a newer one than it knows."""

COLUMNS = "key, question, text, judge, prompt, sample, created, cost, value"

Row = tuple[str, str, str, str, str, int, float, float | None, str]
"""One verdict as the columns above."""


@dataclass(frozen=True)
class Selection:
    """Which verdicts are meant; all of them unless narrowed.

    >>> Selection(judge="openai/*").where("?")
    (' WHERE substr(judge, 1, 7) = ?', ['openai/'])
    """

    judge: str | None = None
    """A judge as it stands in the keys; a `*` at the end stands for anything."""
    before: float | None = None
    """Only what was stored earlier than this, in seconds since 1970."""
    question: str | None = None
    """The `question_hash` of one criterion."""

    def where(self, mark: str) -> tuple[str, list[object]]:
        """The SQL condition and its arguments; `mark` is how the database writes a parameter."""
        terms: list[str] = []
        arguments: list[object] = []
        if self.judge is not None and self.judge.endswith("*"):
            # Not LIKE: it has wildcards of its own and minds case in only one of the databases.
            terms.append(f"substr(judge, 1, {len(self.judge) - 1}) = {mark}")
            arguments.append(self.judge[:-1])
        elif self.judge is not None:
            terms.append(f"judge = {mark}")
            arguments.append(self.judge)
        if self.before is not None:
            terms.append(f"created < {mark}")
            arguments.append(self.before)
        if self.question is not None:
            terms.append(f"question = {mark}")
            arguments.append(self.question)
        return (" WHERE " + " AND ".join(terms) if terms else ""), arguments


ALL = Selection()


@dataclass(frozen=True)
class CacheStats:
    """How much a store holds."""

    where: str
    """The file, or the database without its password."""
    verdicts: int = 0
    judges: Mapping[str, int] | None = None
    """Verdicts by judge, most first."""
    oldest: float | None = None
    """Seconds since 1970; None when empty."""
    newest: float | None = None
    cost: float = 0.0
    """US dollars these verdicts cost when they were judged, as far as prices were known."""
    size: int = 0
    """Bytes on disk."""


class Store(Protocol):
    """Keeps verdicts. Safe for several threads and several processes; the first verdict stays."""

    where: str
    """What to call it in messages."""

    def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """The verdicts that are there; keys without one are left out."""
        ...

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        ...

    def entries(self, selection: Selection = ALL, *, limit: int | None = None) -> Iterator[Item]:
        """What is stored, batch after batch; the order inside a batch is any."""
        ...

    def prune(self, selection: Selection) -> int:
        """Forget these for ever; how many there were."""
        ...

    def stats(self) -> CacheStats:
        """How much is there."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def row_of(item: Item) -> Row:
    key, verdict = item
    return (
        key.digest,
        key.question,
        key.text,
        key.judge,
        key.prompt,
        key.sample,
        verdict.created,
        verdict.cost,
        verdict.line,
    )


def item_of(row: Row) -> Item:
    _, question, text, judge, prompt, sample, _, _, value = row
    return VerdictKey(question, text, judge, prompt, sample), CachedVerdict.of(value)
