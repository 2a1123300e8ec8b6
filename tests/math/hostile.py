"""Read tests/cases/hostile_math.jsonl: answers made to hang, swell or confuse a checker.

A text of the table is a string, or a recipe that keeps the file small:

- `{"unit": "\\sqrt{", "times": 2000, "middle": "2", "closing": "}"}`: the unit 2,000 times, the
  middle, the closing 2,000 times; `prefix` and `suffix` stand around it all,
- a `#` in the unit of a recipe with `"numbered": true` counts 1, 2, 3, …,
- a list: its parts, one after the other.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "cases" / "hostile_math.jsonl"


@dataclass(frozen=True)
class Case:
    """A gold and an answer. `expected` is None where nobody could say."""

    name: str
    gold: str
    answer: str
    expected: bool | None
    """True allows a yes and asks for none: a checker may decline what is too large."""


def hostile_cases() -> list[Case]:
    """The table, every recipe written out."""
    rows = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return [
        Case(row["name"], written(row["gold"]), written(row["answer"]), row["expected"])
        for row in rows
    ]


def written(text: str | dict[str, Any] | list[Any]) -> str:
    """The text a recipe describes.

    >>> written({"prefix": "1+", "unit": "(", "times": 3, "middle": "x", "closing": ")"})
    '1+(((x)))'
    >>> written([{"unit": "x_{#}+", "times": 2, "numbered": True}, "1"])
    'x_{1}+x_{2}+1'
    """
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        return "".join(map(written, text))
    unit, times = text["unit"], text["times"]
    numbered = text.get("numbered", False)
    units = (
        "".join(unit.replace("#", str(n + 1)) for n in range(times)) if numbered else unit * times
    )
    end = text.get("closing", "") * times + text.get("suffix", "")
    return text.get("prefix", "") + units + text.get("middle", "") + end


def good_pairs(count: int) -> list[tuple[str, str]]:
    """Distinct pairs that are equal, of every tier, to stand beside the hostile ones."""
    return [_GOOD[n % len(_GOOD)](n + 2) for n in range(count)]


_GOOD: tuple[Callable[[int], tuple[str, str]], ...] = (
    lambda n: (f"{n}", f"{n}.0"),
    lambda n: (f"{n},000", f"{n}000"),
    lambda n: (rf"\frac{{1}}{{{2 * n}}}", rf"\frac{{2}}{{{4 * n}}}"),
    lambda n: (f"{n}", rf"\text{{{n}}}"),
    lambda n: (rf"\sqrt{{{n * n * 3}}}", rf"{n}\sqrt{{3}}"),
    lambda n: (f"x^2-{n * n}", f"(x-{n})(x+{n})"),
    lambda n: (rf"(1,{n}]", rf"\left(1, {n}\right]"),
    lambda n: (rf"\{{1,{n}\}}", rf"\{{{n},1\}}"),
    lambda n: (rf"{n}\pi", rf"\frac{{{2 * n}\pi}}{{2}}"),
    lambda n: (f"{n}", rf"\int_0^{{\infty}} \frac{{{n}}}{{(1+x)^2}} \, dx"),
)
