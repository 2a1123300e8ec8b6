"""Show rows as a plain table, and keep them in RESULTS.md with the machine they came from."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from peers import PEERS
from rows import HEADINGS, Check, Row

RESULTS = Path(__file__).parent / "RESULTS.md"
_TITLE = """# Benchmark results

Written by `python benchmarks/core.py` and `judging.py`; README.md says what is measured. Newest at the end.
"""


def plain_table(rows: Sequence[Row | Check]) -> str:
    """Columns padded with spaces."""
    lines = [HEADINGS, *(row.cells for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    padded.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(padded)


def append_results(rows: Sequence[Row | Check], notes: Sequence[str], *, quick: bool) -> None:
    """Add one dated section; earlier sections stay as they are."""
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _TITLE
    RESULTS.write_text(before + _section(rows, notes, quick=quick), encoding="utf-8")


def _section(rows: Sequence[Row | Check], notes: Sequence[str], *, quick: bool) -> str:
    heading = f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    if quick:
        heading += " (quick sizes: not to be held against the targets)"
    facts = "\n".join(f"- {name}: {value}" for name, value in machine_facts().items())
    table = "\n".join(map(_markdown_line, (HEADINGS, ("---",) * len(HEADINGS), *_cells(rows))))
    sentences = "".join(f"\n- {note}" for note in notes)
    return f"\n{heading}\n\n{facts}\n\n{table}\n" + (f"{sentences}\n" if notes else "")


def _cells(rows: Sequence[Row | Check]) -> list[tuple[str, ...]]:
    return [row.cells for row in rows]


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def machine_facts() -> dict[str, str]:
    """What a reader needs before comparing two sections."""
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    peers = "; ".join(
        f"{peer.name} {peer.version} ({', '.join(pin.replace('==', ' ') for pin in peer.pins)})"
        for peer in PEERS
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
