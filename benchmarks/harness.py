"""Install peers, run each subject in a fresh process of its own interpreter, and write the tables of results.

A fresh process each time: nothing one subject imported, cached or freed can help or hurt another.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

# One line of the result: what was measured, against what, and whether the target holds.

NOT_MEASURED = "not measured"
_EDGE = 1e-9


@dataclass(frozen=True)
class Target:
    """A bound on the ratio assay / peer."""

    bound: float
    side: Literal["at least", "at most"]

    def holds(self, ratio: float) -> bool:
        if self.side == "at least":
            return ratio >= self.bound - _EDGE
        return ratio <= self.bound + _EDGE

    def __str__(self) -> str:
        return f"{'≥' if self.side == 'at least' else '≤'} {as_ratio(self.bound, digits=3)}"


@dataclass(frozen=True)
class Limit:
    """A bound on assay's own figure, in the unit of its row."""

    bound: float
    side: Literal["at least", "at most"]
    unit: str

    def holds(self, figure: float) -> bool:
        return figure >= self.bound if self.side == "at least" else figure <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.side == 'at least' else '≤'} {as_figure(self.bound, self.unit)}"


@dataclass(frozen=True)
class Row:
    """A measured pair. A missing figure is None, and a row without one never meets a target."""

    measure: str
    ours: float | None
    theirs: float | None
    unit: str
    against: str = ""
    """Whose figure `theirs` is; empty when the row holds only one figure."""
    target: Target | Limit | None = None

    @property
    def ratio(self) -> float | None:
        """assay's figure over the other's; None unless both were measured."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    @property
    def result(self) -> str:
        if self.target is None:
            return "-"
        held = self.ours if isinstance(self.target, Limit) else self.ratio
        if held is None:
            return NOT_MEASURED
        return "met" if self.target.holds(held) else "missed"

    @property
    def cells(self) -> tuple[str, ...]:
        theirs = f"{self.against} {as_figure(self.theirs, self.unit)}" if self.against else "-"
        ratio = "-" if self.ratio is None else as_ratio(self.ratio)
        target = "-" if self.target is None else str(self.target)
        return (self.measure, as_figure(self.ours, self.unit), theirs, ratio, target, self.result)


@dataclass(frozen=True)
class Table:
    """What does not fit a row: one line a case or a subject, in words and counts."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Check:
    """A finding that is no ratio: a count, a share, or who got what right."""

    measure: str
    found: str
    expected: str
    holds: bool | None
    """None when nothing is expected of it."""

    @property
    def cells(self) -> tuple[str, ...]:
        result = "-" if self.holds is None else "met" if self.holds else "missed"
        return (self.measure, self.found, "-", "-", self.expected or "-", result)


HEADINGS = ("measure", "assay", "against", "ratio", "target", "result")


def as_figure(value: float | None, unit: str) -> str:
    """Four digits or so, thousands separated."""
    if value is None:
        return NOT_MEASURED
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def as_ratio(ratio: float, *, digits: int = 4) -> str:
    """`12.3x`, and `1/12.3` below one, which is easier to compare than 0.0813."""
    if 0 < ratio < 1:
        return f"1/{1 / ratio:.{digits}g}"
    return f"{ratio:.{digits}g}x"


# Install each peer in its own virtual environment, once, at an exact version.

# One environment a peer, because their dependencies disagree, and so that none of them is ever a
# dependency of assay.

ENVIRONMENTS = Path(__file__).parent / ".venvs"
INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """A package to compare with, and the dependency versions it was measured with."""

    package: str
    version: str
    pins: tuple[str, ...] = ()
    """Every peer imports with the newest versions of its dependencies. These hold the few that
    decide its import time and its cost per call, so that figures of two dates compare."""
    label: str = ""
    """What the subject is called when the package's name does not tell it from another."""

    @property
    def name(self) -> str:
        return self.label or self.package

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.package}=={self.version}", *self.pins)

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")

    @property
    def environment(self) -> Path:
        return ENVIRONMENTS / self.name.replace(" ", "-")

    @property
    def interpreter(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """Written last, so that an interrupted installation is never taken for a finished one."""
        return self.environment / ".installed"


PEERS = (
    Peer(
        "verifiers",
        "0.1.11",
        # openai-agents, which brings mcp, and datasets, which brings pyarrow and pandas, are
        # most of its import.
        (
            "openai-agents==0.24.0",
            "mcp==2.3.0",
            "openai==3.49.0",
            "anthropic==2.8.0",
            "datasets==4.6.1",
            "pyarrow==26.0.1",
            "pandas==3.1.1",
            "pydantic==2.14.3",
        ),
    ),
    # google-genai is nearly all of its import. openai is the client its own README asks with; it
    # does not import that itself.
    Peer("rubric", "2.2.0", ("google-genai==3.1.0", "openai==3.49.0", "pydantic==2.14.3")),
    # litellm is most of its import and the floor of its calls; scipy, scikit-learn and
    # statsmodels are the rest of the import.
    Peer(
        "autorubric",
        "1.6.1",
        (
            "litellm==1.106.2",
            "openai==2.54.0",
            "scipy==1.17.1",
            "scikit-learn==1.9.1",
            "statsmodels==0.15.0",
            "pydantic==2.14.3",
        ),
    ),
)


@dataclass(frozen=True)
class Installed:
    """The interpreters that can be used, and a sentence for each peer that has none."""

    interpreters: dict[str, Path]
    failures: tuple[str, ...]


def install(
    names: Collection[str], *, say: Callable[[str], None], peers: Sequence[Peer] = PEERS
) -> Installed:
    """Make the named peers usable; one that cannot be installed does not stop the others."""
    interpreters: dict[str, Path] = {}
    failures: list[str] = []
    for peer in peers:
        if peer.name not in names:
            continue
        failure = None if _is_current(peer) else _build(peer, say)
        if failure is None:
            interpreters[peer.name] = peer.interpreter
        else:
            failures.append(failure)
    return Installed(interpreters, tuple(failures))


def _is_current(peer: Peer) -> bool:
    return peer.stamp.is_file() and peer.stamp.read_text() == _fingerprint(peer)


def _fingerprint(peer: Peer) -> str:
    return "\n".join((sys.version, *peer.requirements, ""))


def _build(peer: Peer, say: Callable[[str], None]) -> str | None:
    """A fresh environment; returns the sentence to report when that fails, None when it works."""
    say(f"installing {peer.package} {peer.version} into {peer.environment.name}/")
    shutil.rmtree(peer.environment, ignore_errors=True)
    pip = (str(peer.interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    commands = (
        (sys.executable, "-m", "venv", str(peer.environment)),
        (*pip, *peer.requirements),
        (str(peer.interpreter), "-c", f"import {peer.module}"),
    )
    for command in commands:
        failure = _peers_run(command)
        if failure is not None:
            return f"{peer.package} {peer.version} could not be installed: {failure}"
    peer.stamp.write_text(_fingerprint(peer))
    return None


def _peers_run(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {INSTALL_SECONDS} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines)[-1].strip()


HERE = Path(__file__).parent


def say(line: str) -> None:
    """Progress, kept apart from the table."""
    print(line, file=sys.stderr, flush=True)


def worker(name: str) -> list[str]:
    """The arguments that start a worker, which is named by its file and what it does: `core.py:score`."""
    file, _, part = name.partition(":")
    return [str(HERE / file), "--worker", part]


def run_worker(arguments: list[str], workers: dict[str, Callable[[], object]]) -> None:
    """Run the worker that the arguments ask for and end; return when they ask for none.

    A subject runs in a fresh process of its own interpreter, which starts the same file with `--worker`.
    """
    if arguments[1:2] == ["--worker"]:
        chosen = workers[arguments[2]]
        del arguments[1:3]
        chosen()
        sys.exit()


RUN_SECONDS = 1800
# Would keep .pyc files from being written, or lead an import elsewhere.
_UNSET = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME")
_SET = {
    "PYTHONHASHSEED": "0",
    # litellm fetches a price list when imported, and retries in a thread: its shipped copy
    # does as well, and costs autorubric less.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
}


class SubjectError(Exception):
    """A subject's process failed; the message is its last line."""


@dataclass(frozen=True)
class Subjects:
    """Who can be measured. A subject that fails gives None and leaves a sentence in `notes`."""

    interpreters: dict[str, Path]
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list[str])

    def measure(self, subject: str, name: str, **task: Any) -> dict[str, Any] | None:
        """The figures that the worker `name` prints for `subject`; None when it cannot be run."""
        if subject not in self.interpreters:
            return None
        details = ", ".join(f"{name} {value}" for name, value in task.items())
        self.say(f"{name} {subject}: {details}")
        text = json.dumps({"subject": subject, **task})
        try:
            printed, _ = _run((str(self.interpreters[subject]), *worker(name), text))
        except SubjectError as error:
            self._note(f"{subject} could not be measured by {name}: {error}")
            return None
        # The last line: an imported package may print lines of its own first.
        return json.loads(printed.splitlines()[-1])

    def cpu_of(self, subject: str, statement: str, *, repeats: int) -> float | None:
        """Least CPU seconds, user and system, of an interpreter that runs one statement.

        Runs once more than asked, before the rest, so that compiled files are there.
        """
        if subject not in self.interpreters:
            return None
        self.say(f"python -c {statement!r} ({subject}'s interpreter): {repeats} times")
        command = (str(self.interpreters[subject]), "-c", statement)
        try:
            return min([_run(command)[1] for _ in range(repeats + 1)][1:])
        except SubjectError as error:
            self._note(f"{statement!r} could not be measured: {error}")
            return None

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def _run(command: tuple[str, ...]) -> tuple[str, float]:
    """What the command printed, and the CPU seconds it took."""
    before = _children_seconds()
    try:
        done = subprocess.run(
            command,
            cwd=HERE,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SubjectError(f"no end after {RUN_SECONDS} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SubjectError(lines[-1].strip())
    return done.stdout, _children_seconds() - before


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return kept | _SET


def all_subjects(peers: dict[str, Path], *, say: Callable[[str], None]) -> Subjects:
    """assay in the interpreter that runs the benchmark, each peer in its own."""
    return Subjects({"assay": Path(sys.executable), **peers}, say)


# Read what a piece of work costs this process: CPU seconds and peak memory.

# CPU time rather than wall time, so that a busy machine does not change the answer much.

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


async def cpu_seconds(work: Awaitable[object]) -> float:
    """CPU seconds of one awaited piece of work, without the garbage left by earlier ones."""
    gc.collect()
    start = time.process_time()
    await work
    return time.process_time() - start


async def peak_growth(work: Awaitable[object]) -> int:
    """Bytes by which resident memory rises, at its highest, above where it stood before."""
    gc.collect()
    before = _resident_before()
    await work
    return _peak() - before


def _resident_before() -> int:
    # An import can peak far above what it keeps, which would hide the growth: on Linux,
    # writing 5 lowers the high-water mark to the present size. Elsewhere the old mark stays.
    if not _CLEAR_REFS.exists():
        return _peak()
    _CLEAR_REFS.write_text("5")
    return _status_bytes("VmRSS")


def _peak() -> int:
    if _STATUS.exists():
        return _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_STATUS} has no line {field!r}: memory cannot be read here")


# The work every subject is given: the same checks, states, criteria and texts.

# Standard library only, because every peer's interpreter imports it. Everything is drawn from a
# fixed seed, so two runs and two subjects see the same bytes.

State = dict[str, Any]
Messages = list[dict[str, str]]

SEED = 20240229
WEIGHTS = (1.0, 0.3, 0.2)
QUERY = "Explain how a heat pump warms a house in winter, for a reader without training."

# Two negative weights, so that graders take their subtracting road as well.
CRITERIA: tuple[dict[str, Any], ...] = (
    {"weight": 10.0, "requirement": "Says that heat is moved rather than made"},
    {"weight": 8.0, "requirement": "Names the refrigerant and what it does"},
    {"weight": 6.0, "requirement": "Explains why compression raises the temperature"},
    {"weight": 6.0, "requirement": "Says where the outdoor heat comes from"},
    {"weight": 5.0, "requirement": "Mentions the expansion valve or an equivalent part"},
    {"weight": 4.0, "requirement": "Gives a figure for the efficiency, with its unit"},
    {"weight": 3.0, "requirement": "Says what happens in very cold weather"},
    {"weight": 2.0, "requirement": "Uses one everyday comparison"},
    {"weight": -4.0, "requirement": "Claims that a heat pump needs no electricity"},
    {"weight": -6.0, "requirement": "Uses a formula without explaining it"},
)

_VOCABULARY = (
    "the a warm cold air water pump house valve pressure outside inside because while then heat "
    "moves carries gives takes slowly quickly through around gas liquid coil fan wall room"
)
_WORDS = _VOCABULARY.split()


def exact(completion: Messages, answer: str) -> float:
    """1.0 when the text between the answer tags is the reference."""
    _, _, rest = completion[-1]["content"].rpartition("<answer>")
    return 1.0 if rest.partition("</answer>")[0].strip() == answer else 0.0


def short(completion: Messages) -> float:
    """1.0 up to two hundred characters."""
    return 1.0 if len(completion[-1]["content"]) <= 200 else 0.0


def shows_work(completion: Messages, **kwargs: Any) -> float:
    """1.0 when an equation stands in the text; takes whatever else a rubric offers."""
    return 1.0 if " = " in completion[-1]["content"] else 0.0


async def exact_later(completion: Messages, answer: str) -> float:
    """`exact`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return exact(completion, answer)


async def short_later(completion: Messages) -> float:
    """`short`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return short(completion)


async def shows_work_later(completion: Messages, **kwargs: Any) -> float:
    """`shows_work`, after giving way to the event loop once."""
    await asyncio.sleep(0)
    return shows_work(completion)


def is_exact(completion: Messages, answer: str) -> bool:
    """`exact` as a bool."""
    return exact(completion, answer) == 1.0


def is_short(completion: Messages) -> bool:
    """`short` as a bool."""
    return short(completion) == 1.0


def has_work(completion: Messages, **kwargs: Any) -> bool:
    """`shows_work` as a bool."""
    return shows_work(completion) == 1.0


CHECKS: dict[str, tuple[Callable[..., Any], ...]] = {
    "sync": (exact, short, shows_work),
    "bool": (is_exact, is_short, has_work),
    "async": (exact_later, short_later, shows_work_later),
}


def build_states(count: int) -> list[State]:
    """Fresh, unscored states in the plain shape `score_group` takes everywhere."""
    rng = random.Random(SEED)
    return [_state(rng) for _ in range(count)]


def _state(rng: random.Random) -> State:
    left, right = rng.randrange(100), rng.randrange(100)
    said = left + right + (rng.random() < 0.4)
    work = f"{left} + {right} = {said}" if rng.random() < 0.7 else "adding the two"
    filler = " ".join(rng.choices(_WORDS, k=rng.randrange(20, 50)))
    reply = f"{filler} so {work} gives <answer>{said}</answer>"
    return {
        "prompt": [
            {"role": "system", "content": "Answer between answer tags."},
            {"role": "user", "content": f"What is {left} plus {right}?"},
        ],
        "completion": [{"role": "assistant", "content": reply}],
        "answer": str(left + right),
        "task": "addition",
        "info": {},
        "timing": {"generation_ms": 0.0, "scoring_ms": 0.0, "total_ms": 0.0},
        "trajectory": [],
    }


def call_bare(states: Sequence[State]) -> list[tuple[float, float, float]]:
    """The three checks in a plain loop: the least that scoring can cost."""
    results: list[tuple[float, float, float]] = []
    for state in states:
        completion = state["completion"]
        results.append(
            (exact(completion, state["answer"]), short(completion), shows_work(completion))
        )
    return results


def expected_rewards(states: Sequence[State]) -> list[float]:
    """What every subject must write, so that nobody is fast by doing something else."""
    return [
        sum(weight * value for weight, value in zip(WEIGHTS, values, strict=True))
        for values in call_bare(states)
    ]


def build_responses(count: int) -> list[str]:
    """Texts of about three hundred words, no two alike."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(_WORDS, k=rng.randrange(280, 320))) for _ in range(count)]


def expected_score() -> float:
    """The normalised score when the judge calls every criterion met."""
    weights = [float(criterion["weight"]) for criterion in CRITERIA]
    return sum(weights) / sum(weight for weight in weights if weight > 0)


def verdict_on(requirement: str) -> str:
    """What a judge by rule says of a criterion, whatever the text: every other one is met.

    One that is not in the list was changed, and is met.
    """
    known = [criterion["requirement"] for criterion in CRITERIA]
    return "UNMET" if requirement in known and known.index(requirement) % 2 else "MET"


# Show rows as a plain table, and keep them in RESULTS.md with the machine they came from.

RESULTS = Path(__file__).parent / "RESULTS.md"


def add_options(parser: ArgumentParser, measures: Sequence[str]) -> None:
    """What every benchmark can be told: what to measure, at what size, and whether to keep it."""
    parser.add_argument(
        "--only",
        action="append",
        choices=measures,
        help="measure only this; may be given more than once",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it runs; not comparable"
    )
    parser.add_argument(
        "--no-save",
        action="store_true",
        help="print what is found and leave RESULTS.md alone, as --quick and --only do",
    )


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


def save_results(
    subject: str,
    tables: Sequence[Table],
    notes: Sequence[str],
    options: Namespace,
    *,
    peers: Sequence[Peer] = PEERS,
) -> None:
    """Put a dated section in the place of the subject's earlier one; the other subjects stay as they are."""
    if options.no_save or options.quick or options.only:
        return  # Only a whole measurement at full size replaces another.
    facts = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **machine_facts(peers)}
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    sentences = "\n".join(f"- {note}" for note in notes)
    blocks = [
        f"## {subject}",
        lines,
        *map(_markdown_table, tables),
        *([sentences] if notes else []),
    ]
    text = "\n\n".join(blocks)
    title, *sections = RESULTS.read_text(encoding="utf-8").split("\n## ")
    kept = {section.splitlines()[0]: f"## {section.strip()}" for section in sections}
    RESULTS.write_text(
        "\n\n".join([title.strip(), *(kept | {subject: text}).values()]) + "\n", encoding="utf-8"
    )


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
        "assay": f"{_version('assay-rubrics')} (pydantic {_version('pydantic')})",
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
