"""Show rows as a plain table, and keep them in RESULTS.md with the machine they came from."""

import os
import platform
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from peers import PEERS, Peer
from rows import HEADINGS, Check, Row, Table

RESULTS = Path(__file__).parent / "RESULTS.md"
_TITLE = """# Benchmark results

Written by `python benchmarks/core.py`, `math.py` and `judging.py`; README.md says what is measured. Newest at the end.
"""


def add_options(parser: ArgumentParser, measures: Sequence[str]) -> None:
    """What every benchmark can be told: what to measure, at what size, and whether to keep it."""
    parser.add_argument(
        "--only", action="append", choices=measures, help="measure only this; may be given more than once"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; not comparable")
    parser.add_argument("--no-save", action="store_true", help="print what is found, leave RESULTS.md alone")


def as_table(rows: Sequence[Row | Check]) -> Table:
    """The rows' cells, without a title."""
    return Table("", HEADINGS, tuple(row.cells for row in rows))


def plain_table(table: Table) -> str:
    """Columns padded with spaces, under the title if there is one."""
    lines = [table.headings, *table.lines]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    padded.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([table.title, *padded] if table.title else padded)


def append_results(
    tables: Sequence[Table], notes: Sequence[str], *, quick: bool, subject: str = "", peers: Sequence[Peer] = PEERS
) -> None:
    """Add one dated section; earlier sections stay as they are."""
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _TITLE
    heading = f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC{subject and f', {subject}'}"
    if quick:
        heading += " (quick sizes: not to be held against the targets)"
    facts = "\n".join(f"- {name}: {value}" for name, value in machine_facts(peers).items() if value)
    sentences = "\n".join(f"- {note}" for note in notes)
    blocks = [heading, facts, *map(_markdown_table, tables), *([sentences] if notes else [])]
    RESULTS.write_text(before + "".join(f"\n{block}\n" for block in blocks), encoding="utf-8")


def _markdown_table(table: Table) -> str:
    lines = (table.headings, ("---",) * len(table.headings), *table.lines)
    text = "\n".join(map(_markdown_line, lines))
    return f"{table.title}\n\n{text}" if table.title else text


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def machine_facts(compared: Sequence[Peer]) -> dict[str, str]:
    """What a reader needs before comparing two sections."""
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    peers = "; ".join(
        f"{peer.package} {peer.version}"
        + (f" ({', '.join(pin.replace('==', ' ') for pin in peer.pins)})" if peer.pins else "")
        for peer in compared
    )
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores{load}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}",
        "assay": f"{_version('assay')} (pydantic {_version('pydantic')})",
        "peers": peers,
    }


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
