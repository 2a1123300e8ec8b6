"""DataSets: the examples of an environment, each set of them made when it is first needed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.envs.examples import Asking, Example, taken


class DataSets:
    """Sets of examples by name, from sources that are read at once, or functions that are called later."""

    def __init__(self, asking: Asking, **sources: Any) -> None:
        self._asking = asking
        self._sources = {name: source for name, source in sources.items() if source is not None}
        self._made: dict[str, list[Example]] = {}
        for name, source in self._sources.items():
            if not callable(source):
                self.examples(name)

    def examples(self, name: str) -> list[Example] | None:
        """The examples of one set; None when there is no such set."""
        if name in self._sources and name not in self._made:
            source = self._sources[name]
            given: Any = source() if callable(source) else source
            where = given if isinstance(given, str | Path) else name
            self._made[name] = self._asking.examples(given, str(where))
        return self._made.get(name)


def some(examples: Sequence[Example], count: int, seed: int | None) -> list[Example]:
    """The first so many, shuffled before if there is a seed; all for -1."""
    if seed is not None:
        examples = random.Random(seed).sample(examples, len(examples))
    return list(taken(examples, count))
