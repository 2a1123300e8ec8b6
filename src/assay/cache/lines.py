"""Verdicts as JSON lines: out of a cache for people and other programs, and back into one."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice

from assay.cache.store import ALL, Selection, Store
from assay.cache.verdict import CachedVerdict, Item, VerdictKey
from assay.errors import CacheError

AT_ONCE = 1000


def export_lines(store: Store, selection: Selection = ALL) -> Iterator[str]:
    """One line of JSON a verdict, key and value side by side, in the order of `entries`."""
    for key, verdict in store.entries(selection):
        yield json.dumps(asdict(key) | json.loads(verdict.line))


def import_lines(store: Store, lines: Iterable[str]) -> int:
    """Store what `export_lines` wrote, and say how many lines there were.

    Merges caches of several machines: a verdict that is there already stays.
    """
    items = (_item(line, number) for number, line in enumerate(lines, start=1) if line.strip())
    count = 0
    while batch := list(islice(items, AT_ONCE)):
        store.put_many(batch)
        count += len(batch)
    return count


def _item(line: str, number: int) -> Item:
    try:
        data = json.loads(line)
        key = VerdictKey(**{name: data.pop(name) for name in VerdictKey.__dataclass_fields__})
        return key, CachedVerdict(**data)
    except (ValueError, TypeError, KeyError, AttributeError, CacheError) as error:
        raise CacheError(
            f"line {number}: {line.strip()!r:.200} is no exported verdict ({error}): "
            "give the lines that `export_lines` wrote"
        ) from None
