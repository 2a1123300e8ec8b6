"""Install peers, run each subject in a new process of its own interpreter, and write tables of results.

Every measurement has a new process, so that nothing that a subject imported, cached or freed affects
another.
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

# Results: what was measured, compared with what, and whether the target is met.

NOT_MEASURED = "not measured"
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Target:
    """A bound on the ratio assay / peer."""

    bound: float
    side: Literal["at least", "at most"]

    def holds(self, ratio: float) -> bool:
        if self.side == "at least":
            return ratio >= self.bound - _TOLERANCE
        return ratio <= self.bound + _TOLERANCE

    def __str__(self) -> str:
        return f"{_SIGNS[self.side]} {as_ratio(self.bound, digits=3)}"


@dataclass(frozen=True)
class Limit:
    """A bound on assay's own figure, in the unit of its row."""

    bound: float
    side: Literal["at least", "at most"]
    unit: str

    def holds(self, figure: float) -> bool:
        if self.side == "at least":
            return figure >= self.bound
        return figure <= self.bound

    def __str__(self) -> str:
        return f"{_SIGNS[self.side]} {as_figure(self.bound, self.unit)}"


_SIGNS = {"at least": "≥", "at most": "≤"}


@dataclass(frozen=True)
class Row:
    """A figure of assay and one to compare it with. A row without figures never meets a target."""

    measure: str
    ours: float | None  # None if it could not be measured
    theirs: float | None
    unit: str
    against: str = ""  # whose figure `theirs` is; empty if the row has only one figure
    target: Target | Limit | None = None

    @property
    def ratio(self) -> float | None:
        """Return assay's figure divided by the other; None unless both were measured."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    @property
    def result(self) -> str:
        if self.target is None:
            return "-"
        value = self.ours if isinstance(self.target, Limit) else self.ratio
        if value is None:
            return NOT_MEASURED
        return "met" if self.target.holds(value) else "missed"

    @property
    def cells(self) -> tuple[str, ...]:
        ours = as_figure(self.ours, self.unit)
        theirs = ratio = target = "-"
        if self.against:
            theirs = f"{self.against} {as_figure(self.theirs, self.unit)}"
        if self.ratio is not None:
            ratio = as_ratio(self.ratio)
        if self.target is not None:
            target = str(self.target)
        return (self.measure, ours, theirs, ratio, target, self.result)


@dataclass(frozen=True)
class Table:
    """Results that do not fit a `Row`, with one line per case or subject."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Check:
    """A result other than a ratio, such as a count or a share."""

    measure: str
    finding: str
    expected: str
    holds: bool | None  # None if there is no expectation

    @property
    def cells(self) -> tuple[str, ...]:
        result = {None: "-", True: "met", False: "missed"}[self.holds]
        return (self.measure, self.finding, "-", "-", self.expected or "-", result)


HEADINGS = ("measure", "assay", "against", "ratio", "target", "result")


def as_figure(value: float | None, unit: str) -> str:
    """Return a number of about three digits, with separators of thousands, and its unit."""
    if value is None:
        return NOT_MEASURED
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def as_ratio(ratio: float, *, digits: int = 4) -> str:
    """Return `12.3x`, or `1/12.3` below one, which is easier to compare than 0.0813."""
    if 0 < ratio < 1:
        return f"1/{1 / ratio:.{digits}g}"
    return f"{ratio:.{digits}g}x"


# Install each peer in its own virtual environment, once, at an exact version.

# Each has an environment of its own, because their dependencies conflict, and so that none of them
# ever becomes a dependency of assay.

ENVIRONMENTS = Path(__file__).parent / ".venvs"
INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """A package to compare with, and the dependency versions it was measured with."""

    package: str
    version: str
    # Versions of the dependencies that decide its import time and its cost per call, so that
    # figures of different dates can be compared. Of the others, the newest version is installed.
    pins: tuple[str, ...] = ()
    label: str = ""  # its name in tables, if two versions of the package are measured

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
        """Return a file that is written last, so it shows that the installation is complete."""
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
    """The interpreters of the installed peers, and a sentence for each peer that failed."""

    interpreters: dict[str, Path]
    failures: tuple[str, ...]


def install(
    names: Collection[str], *, say: Callable[[str], None], peers: Sequence[Peer] = PEERS
) -> Installed:
    """Install the named peers, unless they are; one that cannot be installed is reported."""
    interpreters: dict[str, Path] = {}
    failures: list[str] = []
    for peer in peers:
        if peer.name not in names:
            continue
        failure = None
        if not _is_current(peer):
            failure = _build_environment(peer, say)
        if failure is None:
            interpreters[peer.name] = peer.interpreter
        else:
            failures.append(failure)
    return Installed(interpreters, tuple(failures))


def _is_current(peer: Peer) -> bool:
    return peer.stamp.is_file() and peer.stamp.read_text() == _fingerprint(peer)


def _fingerprint(peer: Peer) -> str:
    return "\n".join((sys.version, *peer.requirements, ""))


def _build_environment(peer: Peer, say: Callable[[str], None]) -> str | None:
    """Install a peer into a new environment. Return what failed; None if it works."""
    say(f"installing {peer.package} {peer.version} into {peer.environment.name}/")
    shutil.rmtree(peer.environment, ignore_errors=True)
    pip = (str(peer.interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    commands = (
        (sys.executable, "-m", "venv", str(peer.environment)),
        (*pip, *peer.requirements),
        (str(peer.interpreter), "-c", f"import {peer.module}"),
    )
    for command in commands:
        failure = _run_installation_step(command)
        if failure is not None:
            return f"{peer.package} {peer.version} could not be installed: {failure}"
    peer.stamp.write_text(_fingerprint(peer))
    return None


def _run_installation_step(command: tuple[str, ...]) -> str | None:
    """Return the error message of a command; None if it succeeds."""
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
    """Print progress to stderr, so that stdout holds only the results."""
    print(line, file=sys.stderr, flush=True)


def worker(name: str) -> list[str]:
    """Return the arguments that start a worker, which is named by its file and its task: `core.py:score`."""
    file, _, part = name.partition(":")
    return [str(HERE / file), "--worker", part]


def run_worker(arguments: list[str], workers: dict[str, Callable[[], object]]) -> None:
    """Run the worker that the arguments name, and exit; return if they name none.

    Each subject runs in a new process of its own interpreter, which gets the same file with `--worker`.
    """
    if arguments[1:2] == ["--worker"]:
        run = workers[arguments[2]]
        del arguments[1:3]
        run()
        sys.exit()


RUN_SECONDS = 1800
# These would prevent .pyc files from being written, or change what is imported.
_UNSET = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME")
_SET = {
    "PYTHONHASHSEED": "0",
    # litellm downloads a price list when it is imported, and retries in a thread. The copy that
    # it includes is good enough, and costs autorubric less time.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
}


class SubjectError(Exception):
    """A subject's process failed; the message is the last line that it printed."""


@dataclass(frozen=True)
class Subjects:
    """The subjects to measure. If one fails, its figures are None, and `notes` says why."""

    interpreters: dict[str, Path]
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list[str])

    def measure(self, subject: str, name: str, **task: Any) -> dict[str, Any] | None:
        """Return the figures that the worker `name` prints for a subject; None if it fails."""
        if subject not in self.interpreters:
            return None
        details = ", ".join(f"{name} {value}" for name, value in task.items())
        self.say(f"{name} {subject}: {details}")
        text = json.dumps({"subject": subject, **task})
        try:
            output, _ = _run((str(self.interpreters[subject]), *worker(name), text))
        except SubjectError as error:
            self._note(f"{subject} could not be measured by {name}: {error}")
            return None
        # Imported packages may print lines before it.
        last_line = output.splitlines()[-1]
        return json.loads(last_line)

    def cpu_of(self, subject: str, statement: str, *, repeats: int) -> float | None:
        """Return the least CPU seconds, user and system, of an interpreter that runs a statement.

        One run before the others, which does not count, compiles the imported files.
        """
        if subject not in self.interpreters:
            return None
        self.say(f"python -c {statement!r} ({subject}'s interpreter): {repeats} times")
        command = (str(self.interpreters[subject]), "-c", statement)
        try:
            _run(command)
            return min(_run(command)[1] for _ in range(repeats))
        except SubjectError as error:
            self._note(f"{statement!r} could not be measured: {error}")
            return None

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def _run(command: tuple[str, ...]) -> tuple[str, float]:
    """Return what a command printed, and the CPU seconds that it used."""
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
    """Return assay, in the interpreter that runs the benchmark, and each peer in its own."""
    return Subjects({"assay": Path(sys.executable), **peers}, say)


# Measure the CPU seconds and the peak memory that work takes in this process.

# CPU time rather than wall time, so that other work on the machine changes the figures little.

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


async def cpu_seconds(work: Awaitable[object]) -> float:
    """Return the CPU seconds of awaiting something, without collecting earlier garbage."""
    gc.collect()
    start = time.process_time()
    await work
    return time.process_time() - start


async def peak_growth(work: Awaitable[object]) -> int:
    """Return the bytes by which the peak of resident memory exceeds the memory before."""
    gc.collect()
    before = _reset_peak_bytes()
    await work
    return _peak_bytes() - before


def _reset_peak_bytes() -> int:
    """Reset the peak of resident memory, and return the bytes that are resident now."""
    # An import can peak far above the memory that it keeps, which would hide the growth. On Linux,
    # writing 5 lowers the peak to the present size. On other systems the old peak remains.
    if not _CLEAR_REFS.exists():
        return _peak_bytes()
    _CLEAR_REFS.write_text("5")
    return _status_bytes("VmRSS")


def _peak_bytes() -> int:
    if _STATUS.exists():
        return _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_STATUS} has no line {field!r}: memory cannot be read here")


# The work of every subject: the same checks, states, criteria and texts.

# It needs only the standard library, because every peer's interpreter imports it. Everything is drawn
# with a fixed seed, so it is the same in every run and for every subject.

State = dict[str, Any]
Messages = list[dict[str, str]]

SEED = 20240229
WEIGHTS = (1.0, 0.3, 0.2)
QUERY = "Explain how a heat pump warms a house in winter, for a reader without training."

# Two weights are negative, so that graders subtract points, too.
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
    """Return 1.0 if the text between the answer tags is the reference."""
    _, _, rest = completion[-1]["content"].rpartition("<answer>")
    return 1.0 if rest.partition("</answer>")[0].strip() == answer else 0.0


def short(completion: Messages) -> float:
    """Return 1.0 for up to 200 characters."""
    return 1.0 if len(completion[-1]["content"]) <= 200 else 0.0


def shows_work(completion: Messages, **kwargs: Any) -> float:
    """Return 1.0 if the text contains an equation; accept any other arguments of a rubric."""
    return 1.0 if " = " in completion[-1]["content"] else 0.0


async def exact_later(completion: Messages, answer: str) -> float:
    """Return `exact` after yielding to the event loop once."""
    await asyncio.sleep(0)
    return exact(completion, answer)


async def short_later(completion: Messages) -> float:
    """Return `short` after yielding to the event loop once."""
    await asyncio.sleep(0)
    return short(completion)


async def shows_work_later(completion: Messages, **kwargs: Any) -> float:
    """Return `shows_work` after yielding to the event loop once."""
    await asyncio.sleep(0)
    return shows_work(completion)


def is_exact(completion: Messages, answer: str) -> bool:
    """Return `exact` as a bool."""
    return exact(completion, answer) == 1.0


def is_short(completion: Messages) -> bool:
    """Return `short` as a bool."""
    return short(completion) == 1.0


def has_work(completion: Messages, **kwargs: Any) -> bool:
    """Return `shows_work` as a bool."""
    return shows_work(completion) == 1.0


CHECKS: dict[str, tuple[Callable[..., Any], ...]] = {
    "sync": (exact, short, shows_work),
    "bool": (is_exact, is_short, has_work),
    "async": (exact_later, short_later, shows_work_later),
}


def build_states(count: int) -> list[State]:
    """Return new, unscored states of the form that `score_group` of every subject accepts."""
    rng = random.Random(SEED)
    return [_draw_state(rng) for _ in range(count)]


def _draw_state(rng: random.Random) -> State:
    left = rng.randrange(100)
    right = rng.randrange(100)
    is_wrong = rng.random() < 0.4
    response = left + right + is_wrong
    work = "adding the two"
    if rng.random() < 0.7:
        work = f"{left} + {right} = {response}"
    filler = " ".join(rng.choices(_WORDS, k=rng.randrange(20, 50)))
    reply = f"{filler} so {work} gives <answer>{response}</answer>"
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
    """Return the results of the three checks in a plain loop: the minimal cost of scoring."""
    results: list[tuple[float, float, float]] = []
    for state in states:
        completion = state["completion"]
        results.append(
            (exact(completion, state["answer"]), short(completion), shows_work(completion))
        )
    return results


def expected_rewards(states: Sequence[State]) -> list[float]:
    """Return the rewards that every subject must give, so that all of them do the same work."""
    return [
        sum(weight * value for weight, value in zip(WEIGHTS, values, strict=True))
        for values in call_bare(states)
    ]


def build_responses(count: int) -> list[str]:
    """Return texts of about 300 words, all different."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(_WORDS, k=rng.randrange(280, 320))) for _ in range(count)]


def expected_score() -> float:
    """Return the normalised score if every criterion is met."""
    weights = [float(criterion["weight"]) for criterion in CRITERIA]
    return sum(weights) / sum(weight for weight in weights if weight > 0)


def verdict_on(requirement: str) -> str:
    """Return the verdict of the simulated judge, which depends only on the criterion.

    Every second criterion is unmet. One that is not in the list was reworded, and is met.
    """
    requirements = [criterion["requirement"] for criterion in CRITERIA]
    if requirement in requirements and requirements.index(requirement) % 2 == 1:
        return "UNMET"
    return "MET"


# Print results as plain tables, and save them in RESULTS.md with facts about the machine.

RESULTS = Path(__file__).parent / "RESULTS.md"


def add_options(parser: ArgumentParser, measures: Sequence[str]) -> None:
    """Add the options of every benchmark: what to measure, how much, and whether to save it."""
    parser.add_argument(
        "--only",
        action="append",
        choices=measures,
        help="measure only this; may be given more than once",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that it runs; not comparable"
    )
    parser.add_argument(
        "--no-save",
        action="store_true",
        help="print the results without saving them in RESULTS.md, as with --quick and --only",
    )


def as_table(rows: Sequence[Row | Check]) -> Table:
    """Return a table of rows, without a title."""
    return Table("", HEADINGS, tuple(row.cells for row in rows))


def plain_table(table: Table) -> str:
    """Return a table as text, with its columns padded with spaces."""
    lines = [table.headings, *table.lines]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    rows = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    rows.insert(1, "  ".join("-" * width for width in widths))
    if table.title:
        rows.insert(0, table.title)
    return "\n".join(rows)


def save_results(
    subject: str,
    tables: Sequence[Table],
    notes: Sequence[str],
    options: Namespace,
    *,
    peers: Sequence[Peer] = PEERS,
) -> None:
    """Replace the section about a subject in RESULTS.md, or add one.

    Only a complete measurement at full size is saved.
    """
    if options.no_save or options.quick or options.only:
        return
    facts = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **machine_facts(peers)}
    blocks = ["\n".join(f"- {name}: {value}" for name, value in facts.items() if value)]
    blocks += map(_markdown_table, tables)
    if notes:
        blocks.append("\n".join(f"- {note}" for note in notes))

    introduction, *old_sections = RESULTS.read_text(encoding="utf-8").split("\n## ")
    sections: dict[str, str] = {}
    for section in old_sections:
        heading, _, body = section.partition("\n")
        sections[heading] = body.strip()
    sections[subject] = "\n\n".join(blocks)
    parts = [introduction.strip()]
    parts += [f"## {heading}\n\n{body}" for heading, body in sections.items()]
    RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _markdown_table(table: Table) -> str:
    lines = (table.headings, ("---",) * len(table.headings), *table.lines)
    text = "\n".join(map(_markdown_line, lines))
    return f"{table.title}\n\n{text}" if table.title else text


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def machine_facts(compared: Sequence[Peer]) -> dict[str, str]:
    """Return the facts that a reader needs to compare two sections."""
    load = ""
    if hasattr(os, "getloadavg"):
        load = f", load {os.getloadavg()[0]:.1f} at the end"
    peers: list[str] = []
    for peer in compared:
        description = f"{peer.package} {peer.version}"
        if peer.pins:
            pins = ", ".join(pin.replace("==", " ") for pin in peer.pins)
            description += f" ({pins})"
        peers.append(description)
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores{load}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}",
        "assay": f"{_version('assay-rubrics')} (pydantic {_version('pydantic')})",
        "peers": "; ".join(peers),
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
