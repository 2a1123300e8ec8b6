"""Write the words, units and notations of mathematics into docs/how-to/score-mathematics.md, from `tables.toml`.

Run `python tools/math_rules.py` after a change of `src/assay/math/tables.toml`; a test compares the page.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from assay.math.words import NOTATIONS, UNIT_TABLES, WORDS, TableRow, meanings

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "score-mathematics.md"
BEGIN, END = "<!-- begin: written by tools/math_rules.py -->", "<!-- end -->"


def unit_rows() -> list[TableRow]:
    """The rows of the table of units, each with two of its units as the example."""
    return list(_unit_rows())


def _unit_rows() -> Iterator[TableRow]:
    for line in UNIT_TABLES["rows"]:
        dimension, _, entries = line.partition(" ")
        units = [entry.split() for entry in entries.split("|")]
        names = " ".join(name for name, _, *others in units for name in (name, *others))
        converted = [(name, Fraction(factor)) for name, factor, *_ in units if factor != "0"]
        if len(converted) > 1:
            (one, first), (two, second) = converted[:2]
            gold, answer, same = rf"1 \text{{ {two}}}", rf"{second / first} \text{{ {one}}}", True
        elif len(units) > 1:
            gold, answer, same = rf"1 \text{{ {units[0][0]}}}", rf"1 \text{{ {units[1][0]}}}", False
        else:
            gold, answer, same = (
                rf"1 \text{{ {units[0][0]}}}",
                r"1 \text{ kg}" if dimension != "mass" else "2",
                False,
            )
        yield TableRow(dimension, names, dimension, gold, answer, same)


def table(title: str, rows: Sequence[TableRow], separator: str) -> str:
    lines = [f"| {title} | rule | gold | answer | same |", "|---|---|---|---|---|"]
    for row in rows:
        names = meanings([row], [row.kind], separator)
        shown = (
            ", ".join(names)
            if ", " in row.entries and separator not in row.entries
            else " ".join(names)
        )
        cells = (
            f"`{shown}`",
            row.rule,
            f"`{row.gold}`",
            f"`{row.answer}`",
            "yes" if row.same else "no",
        )
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def written() -> str:
    """The part of the page that the tables make."""
    return f"""{BEGIN}

### Words

The words that an answer may contain, and their effect on the number next to them. An answer with any other word is
compared as text.

{table("words", WORDS, "=")}

### Units

Units in the same row are converted into each other, except for currencies and the last rows. Units in different
rows are different.

{table("units", unit_rows(), "=")}

### Notations

{table("notations", NOTATIONS, "↦")}

{END}"""


def with_tables(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return before + written() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
