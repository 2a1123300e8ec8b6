"""The pairs that are measured, cut to size, and files of them that every subject can read."""

import importlib.util
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import math_data
from math_data import Pair
from math_hard import hard_pairs

_LOADER = Path(__file__).parents[1] / "tests" / "math" / "hostile.py"
_NUMBERS = count()


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are the sizes the targets speak of."""

    rounds: int = 3
    share: int = 1
    """Every so many-th pair of a real set."""
    hard: int = 100
    batch: int = 10_000
    probes: int = 400
    mixed: int = 210
    hostile: int = 200
    alone: int = 1_000
    """At most so many hostile cases one by one: all there are."""
    apart: int = 12
    kills: int = 11
    patience: float = 150.0
    """Seconds a peer gets for the hostile batch."""


QUICK = Sizes(
    rounds=1, share=20, hard=24, batch=400, probes=50, mixed=30, hostile=20, alone=20, apart=2, kills=3, patience=30.0
)


@dataclass(frozen=True)
class RatedSet:
    """Pairs whose checking is timed."""

    name: str
    pairs: list[Pair]
    target: float
    """How many times verifiers' answers a CPU second is asked for."""
    rounds: int = 3
    """At most; fewer for sets that take the peers long."""


@dataclass(frozen=True)
class Sets:
    """Everything there is to check, and a folder for the files."""

    sizes: Sizes
    gsm8k: RatedSet
    qwen: RatedSet
    passed: RatedSet
    mixed: RatedSet
    hard: RatedSet
    given: RatedSet | None
    hostile: list[Any]
    """Cases of tests/cases/hostile_math.jsonl."""
    good: list[Pair]
    """To stand beside them: equal pairs, one in ten of which needs the symbolic tier."""
    folder: Path

    @property
    def rated(self) -> list[RatedSet]:
        every = (self.gsm8k, self.qwen, self.passed, self.mixed, self.hard, self.given)
        return [rated for rated in every if rated is not None]

    def file(self, pairs: Iterable[Pair]) -> str:
        """The path of a new file that holds them as JSON."""
        path = self.folder / f"{next(_NUMBERS)}.json"
        path.write_text(json.dumps([(pair.gold, pair.answer) for pair in pairs]))
        return str(path)


def load_sets(data: Path, hard_file: Path | None, folder: Path, sizes: Sizes) -> Sets:
    """The same for the same data and sizes."""
    table = _hostile_table()
    real = [
        load(data)[:: sizes.share]
        for load in (math_data.gsm8k, math_data.qwen, math_data.mathcoder_correct, math_data.mathcoder_mixed)
    ]
    hard = hard_pairs(math_data.hard_golds(data, sizes.hard))
    return Sets(
        sizes,
        RatedSet("GSM8K", real[0], 150),
        RatedSet("Qwen2.5-Math on MATH", real[1], 10),
        RatedSet("MathCoder on MATH, passed", real[2], 10),
        RatedSet("MathCoder on MATH, all", real[3], 10, rounds=2),
        RatedSet("hard expressions", hard, 3, rounds=2),
        _given(hard_file),
        table.hostile_cases(),
        [Pair(gold, answer, True) for gold, answer in table.good_pairs(max(sizes.hostile, 450))],
        folder,
    )


def _given(path: Path | None) -> RatedSet | None:
    return path and RatedSet(path.name, math_data.labelled_file(path), 3, rounds=1)


def _hostile_table() -> Any:
    """The tests' own reader of the table, which no package holds."""
    spec = importlib.util.spec_from_file_location("hostile", _LOADER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
