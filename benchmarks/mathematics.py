"""Measure `assay.math` against verifiers and math-verify: `python benchmarks/mathematics.py --data FOLDER`.

Prints tables and writes them into benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

from harness import (
    HERE,
    Limit,
    Peer,
    Row,
    Subjects,
    Table,
    Target,
    add_options,
    all_subjects,
    as_table,
    environment,
    install,
    plain_table,
    run_worker,
    save_results,
    say,
    worker,
)

# The answers that are checked: real ones from public data sets, with the labels of these sets.

# The data are not part of this repository. `find_data` says where to put them.

SEED = 20240229
VARIABLE = "ASSAY_DATA"
DEFAULT = Path(__file__).parents[2] / "shared" / "data"

# Samples of Qwen that are right although their label is negative, as (problem, sample).
_QWEN_MISLABELLED = {*((3, sample) for sample in range(8)), (72, 7)}
_WORDS = re.compile(r"\\(?:text|mathrm|operatorname|mbox)|(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_PLAIN = re.compile(r"[-\d.,e\s]*|-?\\frac\{-?\d+\}\{\d+\}")
# They indicate a second form of the same answer, an alignment, or a list of several formulas.
_UNCLEAR = (
    "$",
    ":",
    ";",
    "\n",
    "&",
    "bullet",
    "approx",
    "bar{",
    "\\quad",
    "\\ldots",
    "\\bigcup",
    "t(",
)


@dataclass(frozen=True)
class Pair:
    """A gold answer and an answer. `label` is None if the set's own label cannot be trusted."""

    gold: str
    answer: str
    label: bool | None = None


class DataError(Exception):
    """The data were not found."""


def find_data(folder_option: str | None) -> Path:
    """Return the folder with the data, by option, environment variable or default."""
    folder = Path(folder_option or os.environ.get(VARIABLE) or DEFAULT).resolve()
    if not (folder / "math").is_dir():
        raise DataError(
            f"there is no folder 'math' in {folder}: give the folder that holds "
            "math/grade-school-math, math/Qwen2.5-Math and math/MathCoder with --data or in "
            f"{VARIABLE} (benchmarks/README.md names the sources)"
        )
    return folder / "math"


def read_gsm8k(folder: Path) -> list[Pair]:
    """Return the final numbers of four models; they are right if they equal the gold number."""
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    pairs: list[Pair] = []
    for row in _read_rows(folder / "grade-school-math" / "example_model_solutions.jsonl"):
        gold = _find_answer(row["ground_truth"])
        for model in models:
            answer = _find_answer(row[model]["solution"])
            pairs.append(Pair(gold, answer, label=row[model]["is_correct"]))
    return pairs


def read_qwen(folder: Path) -> list[Pair]:
    """Return eight samples for each of 100 MATH problems, with nine labels corrected."""
    pairs: list[Pair] = []
    for row in _read_rows(folder / "Qwen2.5-Math" / "math_cot_100.jsonl"):
        for sample, answer in enumerate(row["pred"]):
            is_right = row["score"][sample] or (row["idx"], sample) in _QWEN_MISLABELLED
            pairs.append(Pair(row["gt"], answer, label=is_right))
    return pairs


def read_mathcoder_correct(folder: Path) -> list[Pair]:
    """Return answers on MATH that a lenient grader passed."""
    return _read_mathcoder(folder / "MathCoder" / "L-7b_MATH-correct.jsonl")


def read_mathcoder_mixed(folder: Path) -> list[Pair]:
    """Return all answers of one model on MATH, including prose and code."""
    return _read_mathcoder(folder / "MathCoder" / "CL-34b_minival.jsonl")


def read_hard_golds(folder: Path, count: int) -> list[str]:
    """Return gold answers that are expressions, lists or relations, shuffled.

    They are all of OlympiadBench and Minerva, then college mathematics up to `count`. Plain
    numbers, golds with words and chains of equations are left out.
    """
    qwen_folder = folder / "Qwen2.5-Math"
    rare: list[str] = []
    for row in _read_rows(qwen_folder / "gold_olympiadbench.jsonl"):
        rare += row["final_answer"]
    for row in _read_rows(qwen_folder / "gold_minerva_math.jsonl"):
        rare.append(_find_boxed(row["solution"]))
    college = [row["answer"] for row in _read_rows(qwen_folder / "gold_college_math.jsonl")]
    golds = _select_hard(rare)
    more_golds = sorted(set(_select_hard(college)) - set(golds))
    rng = random.Random(SEED)
    rng.shuffle(more_golds)
    if len(golds) < count:
        golds = (golds + more_golds)[:count]
    rng.shuffle(golds)
    return golds[:count]


def read_labelled_file(path: Path) -> list[Pair]:
    """Return the pairs of a jsonl file with the keys gold, answer and label."""
    return [Pair(row["gold"], row["answer"], label=bool(row["label"])) for row in _read_rows(path)]


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"there is no file {path}: benchmarks/README.md names the sources")
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _find_answer(solution: str) -> str:
    """Return the text after the last "A:"; empty if there is none."""
    _, mark, answer = solution.rpartition("A:")
    if not mark:
        return ""
    return answer.strip()


def _read_mathcoder(path: Path) -> list[Pair]:
    return [Pair(row["ground_truth"]["answer"], row["completion"]) for row in _read_rows(path)]


def _find_boxed(solution: str) -> str:
    r"""Return the content of the last `\boxed{}`; empty if it is never closed."""
    _, _, rest = solution.rpartition(r"\boxed{")
    depth = 1
    for position, character in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return rest[:position]
    return ""


def _select_hard(golds: Iterable[str]) -> list[str]:
    """Return the hard ones of gold answers, without the dollar signs around them."""
    formulas = {gold.strip().strip("$").strip() for gold in golds}
    return sorted(filter(_is_hard, formulas))


def _is_hard(gold: str) -> bool:
    if any(mark in gold for mark in _UNCLEAR) or gold.count("=") >= 2:
        return False
    return len(gold) >= 8 and not _WORDS.search(gold) and not _PLAIN.fullmatch(gold)


# Turn hard golds into pairs. How an answer is made decides its label.

# Half of the answers are the gold, rewritten into an equal one. The other half are the gold with one
# number or one sign changed.

Rewrite = Callable[[str, random.Random], str | None]  # returns None if it cannot change this gold

_TYPESETTING = ((r"\frac", r"\dfrac"), (r"\leqslant", r"\leq"), (r"\geqslant", r"\geq"))
_DISGUISES = (
    r"\frac{{2\left({0}\right)}}{{2}}",
    r"1+\left({0}\right)-1",
    r"-\left(-\left({0}\right)\right)",
    r"\frac{{1}}{{2}}\left({0}\right)+\frac{{1}}{{2}}\left({0}\right)",
)
# Lists, relations, sets, intervals and choices of signs, which cannot be operands.
_NO_EXPRESSION = re.compile(r"[,=<>|\[\]]|\\(?:pm|mp|le|ge|cup|cap|in|\{|infty|circ|angle|sum)")
_FRACTION = re.compile(r"(?<![\w\)\}])(\s*)\\frac\{([^{}]*)\}\{([^{}]*)\}")
# Numbers other than indices: a letter with another index is another letter.
_NUMBER = re.compile(r"(?<![\d_.])(?<!_\{)\d+")


def hard_pairs(golds: list[str]) -> list[Pair]:
    """Return a pair for each gold: an equal and a different answer in turn."""
    rng = random.Random(SEED)
    pairs: list[Pair] = []
    for position, gold in enumerate(golds):
        is_equal = position % 2 == 0
        rewrites = EQUAL_REWRITES if is_equal else DIFFERENT_REWRITES
        first = position // 2 % len(rewrites)
        for rewrite in rewrites[first:] + rewrites[:first]:
            answer = rewrite(gold, rng)
            if answer is not None and answer != gold:
                pairs.append(Pair(gold, answer, label=is_equal))
                break
    return pairs


def change_typesetting(gold: str, rng: random.Random) -> str | None:
    r"""Write `\dfrac` for `\frac`, and plain brackets for tall ones, or the reverse."""
    plain = re.sub(r"\\(?:left|right)(?![a-z])", "", gold)
    for old, new in _TYPESETTING:
        plain = plain.replace(old, new)
    if plain != gold:
        return plain
    return gold.replace("(", r"\left(").replace(")", r"\right)")


def disguise(gold: str, rng: random.Random) -> str | None:
    """Double and halve an expression, or add one and subtract it."""
    if _NO_EXPRESSION.search(gold):
        return None
    return rng.choice(_DISGUISES).format(gold)


def write_fractions_inline(gold: str, rng: random.Random) -> str | None:
    """Write the innermost fractions on one line."""
    return _FRACTION.sub(r"\1\\left(\\left(\2\\right)/\\left(\3\\right)\\right)", gold)


def change_number(gold: str, rng: random.Random) -> str | None:
    """Increase one number by one, right of the equals sign if there is one.

    Left of it, the number may be part of a name such as `f^{-1}(x)`, which some checkers remove.
    """
    numbers = list(_NUMBER.finditer(gold))
    preferred = [
        number for number in numbers if number.start() > gold.find("=") and number[0] != "0"
    ]
    candidates = preferred or numbers
    if not candidates:
        return None
    number = rng.choice(candidates)
    return f"{gold[: number.start()]}{int(number[0]) + 1}{gold[number.end() :]}"


def change_sign(gold: str, rng: random.Random) -> str | None:
    """Change one sign between two terms."""
    if _NO_EXPRESSION.search(gold) or re.search(r"[+-]\s*[cCk]\b", gold):
        return None
    positions = [position for position in range(1, len(gold)) if _joins_terms(gold, position)]
    if not positions:
        return None
    position = rng.choice(positions)
    new_sign = {"+": "-", "-": "+"}[gold[position]]
    return gold[:position] + new_sign + gold[position + 1 :]


EQUAL_REWRITES: tuple[Rewrite, ...] = (disguise, change_typesetting, write_fractions_inline)
DIFFERENT_REWRITES: tuple[Rewrite, ...] = (change_number, change_sign)


def _joins_terms(gold: str, position: int) -> bool:
    """Return whether there is a sign between two terms at a position, outside all brackets.

    Inside brackets a sign may not matter: `(-1)^{m+1}` equals `(-1)^{m-1}`.
    """
    if gold[position] not in "+-":
        return False
    before = gold[:position].rstrip()
    depth = sum(map(before.count, "({")) - sum(map(before.count, ")}"))
    return depth == 0 and bool(re.search(r"[\w)}]$", before))


# The pairs that are measured, and files of them for the subjects.

_LOADER = Path(__file__).parents[1] / "tests" / "math" / "hostile.py"
_NUMBERS = count()


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    rounds: int = 3
    step: int = 1  # every how many pairs of a real set one is used
    hard: int = 100
    batch: int = 10_000
    probes: int = 400
    mixed: int = 210
    hostile: int = 200
    alone: int = 1_000  # the most hostile answers one by one; there are fewer
    apart: int = 12
    kills: int = 11
    patience: float = 150.0  # seconds that a peer has for the hostile batch


QUICK = Sizes(
    rounds=1,
    step=20,
    hard=24,
    batch=400,
    probes=50,
    mixed=30,
    hostile=20,
    alone=20,
    apart=2,
    kills=3,
    patience=30.0,
)


@dataclass(frozen=True)
class RatedSet:
    """Pairs to measure the answers per CPU second with."""

    name: str
    pairs: list[Pair]
    target: float  # how many times the rate of verifiers should be reached
    rounds: int = 3  # at most; fewer for sets that take the peers long

    @property
    def is_like_math(self) -> bool:
        return "on MATH" in self.name


@dataclass(frozen=True)
class Sets:
    """All pairs to check, and a folder for files."""

    sizes: Sizes
    gsm8k: RatedSet
    qwen: RatedSet
    passed: RatedSet
    mixed: RatedSet
    hard: RatedSet
    extra: RatedSet | None  # the pairs of the option --hard
    hostile: list[Any]  # the cases of tests/cases/hostile_math.jsonl
    good: list[Pair]  # equal pairs to check beside them; one in ten needs the symbolic tier
    folder: Path

    @property
    def rated(self) -> list[RatedSet]:
        sets = [self.gsm8k, self.qwen, self.passed, self.mixed, self.hard]
        if self.extra is not None:
            sets.append(self.extra)
        return sets

    def write_file(self, pairs: Iterable[Pair]) -> str:
        """Write pairs into a new JSON file, and return its path."""
        path = self.folder / f"{next(_NUMBERS)}.json"
        path.write_text(json.dumps([(pair.gold, pair.answer) for pair in pairs]))
        return str(path)


def load_sets(data: Path, hard_file: Path | None, folder: Path, sizes: Sizes) -> Sets:
    """Return the sets, which are the same for the same data and sizes."""
    gsm8k = read_gsm8k(data)[:: sizes.step]
    qwen = read_qwen(data)[:: sizes.step]
    passed = read_mathcoder_correct(data)[:: sizes.step]
    mixed = read_mathcoder_mixed(data)[:: sizes.step]
    hard = hard_pairs(read_hard_golds(data, sizes.hard))
    extra = None
    if hard_file is not None:
        extra = RatedSet(hard_file.name, read_labelled_file(hard_file), 3, rounds=1)
    table = _load_hostile_table()
    good_pairs = table.good_pairs(max(sizes.hostile, 450))
    return Sets(
        sizes=sizes,
        gsm8k=RatedSet("GSM8K", gsm8k, 150),
        qwen=RatedSet("Qwen2.5-Math on MATH", qwen, 10),
        passed=RatedSet("MathCoder on MATH, passed", passed, 10),
        mixed=RatedSet("MathCoder on MATH, all", mixed, 10, rounds=2),
        hard=RatedSet("hard expressions", hard, 3, rounds=2),
        extra=extra,
        hostile=table.hostile_cases(),
        good=[Pair(gold, answer, label=True) for gold, answer in good_pairs],
        folder=folder,
    )


def _load_hostile_table() -> Any:
    """Return the module of the tests that reads the hostile cases, which is not in a package."""
    spec = importlib.util.spec_from_file_location("hostile", _LOADER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# The results of a measure.

Figures = dict[str, Any] | None  # what a worker printed; None if it could not be run


@dataclass(frozen=True)
class Results:
    """Rows of the first table, further tables, and notes below them."""

    rows: list[Row] = field(default_factory=list[Row])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])

    def add(self, other: Results) -> None:
        self.rows.extend(other.rows)
        self.tables.extend(other.tables)
        self.notes.extend(other.notes)


def milliseconds(figures: Figures, name: str) -> float | None:
    """Return a figure in milliseconds; None if it was not measured."""
    if figures is None or figures[name] is None:
        return None
    return 1000 * figures[name]


# The peers: two versions of verifiers, and the library that both use.

# The same versions for all three, because these decide a verdict and its cost.
_MATH_PINS = ("latex2sympy2_extended==1.11.0", "sympy==1.14.0", "antlr4-python3-runtime==4.13.2")
_VERIFIERS_PINS = ("math-verify==0.9.0", *_MATH_PINS, "datasets==4.6.1", "pydantic==2.14.3")

THREADS = "verifiers 0.1.11"
PROCESSES = "verifiers 0.1.14"
BARE = "math-verify"

MATH_PEERS = (
    # It uses fifty threads of one process.
    Peer("verifiers", "0.1.11", _VERIFIERS_PINS, label=THREADS),
    # It uses a pool of one process.
    Peer("verifiers", "0.1.14", _VERIFIERS_PINS, label=PROCESSES),
    # It is called directly, in the main thread.
    Peer("math-verify", "0.9.0", _MATH_PINS, label=BARE),
)


# One interface for every subject: check a pair, or many.

# Each subject's own interpreter imports this, and only its own package. A verdict is True, False, or
# None if the subject itself says that it could not decide.

Verdict = bool | None
Pairs = Sequence[tuple[str, str]]

# No subject has a fast path for these, so afterwards its symbolic machinery is loaded.
WARM_UP = [(f"{n}", rf"\int_0^{{\infty}} {n} e^{{-x}} \, dx") for n in range(1, 9)]


class Checker(Protocol):
    """The interface of a subject."""

    tiers: Counter[str]  # the number of verdicts by tier; empty if the subject has no tiers
    last: str  # the latest verdict in the subject's own words; empty if it has none

    async def check(self, gold: str, answer: str) -> Verdict: ...

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        """Check all pairs concurrently."""
        ...

    def close(self) -> None:
        """End all processes and threads that were started."""
        ...


def start_checker(subject: str, *, timeout: float, warm_up: Pairs = WARM_UP) -> Checker:
    """Return the subject's checker, after it has checked the warm-up pairs."""
    kinds = {"assay": AssayChecker, "math-verify": BareChecker}
    checker = kinds.get(subject, VerifiersChecker)(timeout)
    asyncio.run(checker.check_many(warm_up))
    return checker


def exit_process(checker: Checker) -> None:
    """End this process without waiting for the threads of verifiers, which may never end."""
    checker.close()
    sys.stdout.flush()
    os._exit(0)


class AssayChecker:
    """assay.math with all tiers and the process-wide pool."""

    def __init__(self, timeout: float) -> None:
        self.math: Any = importlib.import_module("assay.math")
        self.timeout = timeout
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        return self._read_verdict(await self.math.verify_async(gold, answer, timeout=self.timeout))

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        verdicts = await self.math.verify_many_async(pairs, timeout=self.timeout)
        return [self._read_verdict(verdict) for verdict in verdicts]

    def close(self) -> None:
        importlib.import_module("assay.isolation").shared_pool().close()

    def _read_verdict(self, verdict: Any) -> Verdict:
        self.tiers[verdict.tier] += 1
        self.last = verdict.status.replace("_", " ")
        if not verdict.decided:
            return None
        return verdict.equal


class VerifiersChecker:
    """The reward function of verifiers' MathRubric.

    Its default parser looks for a box. The plain one returns the answer unchanged, and costs less.
    """

    def __init__(self, timeout: float) -> None:
        verifiers: Any = importlib.import_module("verifiers")
        self.parser = verifiers.Parser()
        self.rubric = verifiers.MathRubric(parser=self.parser, timeout_seconds=timeout)
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        completion = [{"role": "assistant", "content": answer}]
        reward = await self.rubric.correct_answer(
            parser=self.parser, completion=completion, answer=gold
        )
        return reward == 1.0

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        return list(await asyncio.gather(*(self.check(gold, answer) for gold, answer in pairs)))

    def close(self) -> None:
        teardown = getattr(self.rubric, "teardown", None)
        if teardown is not None:
            asyncio.run(teardown())
        self.rubric.executor.shutdown(wait=False)


class BareChecker:
    """math-verify in a plain loop of the main thread, with its own alarm."""

    def __init__(self, timeout: float) -> None:
        self.module: Any = importlib.import_module("math_verify")
        self.timeout = int(timeout)
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        parse = self.module.parse
        return self.module.verify(
            parse(f"\\boxed{{{gold}}}", parsing_timeout=self.timeout),
            parse(f"\\boxed{{{answer}}}", parsing_timeout=self.timeout),
            timeout_seconds=self.timeout,
        )

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        return [await self.check(gold, answer) for gold, answer in pairs]

    def close(self) -> None:
        """Do nothing, since nothing was started."""


# Read the CPU seconds of a process and of its descendants from /proc of Linux.

Result = TypeVar("Result")

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process that is alive, or that has ended and was not waited for."""

    pid: int
    parent: int
    seconds: float  # of CPU, including those of ended children


def cpu_seconds_so_far() -> float:
    """Return the CPU seconds of this process and of all its descendants, including ended ones."""
    return _own_cpu_seconds() + _cpu_seconds_of_descendants()


def time_work(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a function, and its CPU seconds in this process and its descendants."""
    # Reading other processes takes milliseconds, so it is done outside the span of our own clock.
    descendants_before = _cpu_seconds_of_descendants()
    own_before = _own_cpu_seconds()
    result = work()
    own = _own_cpu_seconds() - own_before
    return result, own + _cpu_seconds_of_descendants() - descendants_before


def descendants(root: int | None = None) -> list[Process]:
    """Return all descendants of this process (or of `root`), parents before children."""
    children_of: dict[int, list[Process]] = {}
    for process in _processes():
        children_of.setdefault(process.parent, []).append(process)
    if root is None:
        root = os.getpid()
    processes: list[Process] = []
    waiting = deque([root])
    while waiting:
        for child in children_of.get(waiting.popleft(), []):
            processes.append(child)
            waiting.append(child.pid)
    return processes


def _own_cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of the children that it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _cpu_seconds_of_descendants() -> float:
    return sum(process.seconds for process in descendants())


def _processes() -> Iterator[Process]:
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        # The name is in parentheses, and may contain spaces and parentheses.
        fields = stat.rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))
        yield Process(pid=int(folder.name), parent=int(fields[1]), seconds=ticks / _TICKS)


# Check pairs with one subject, and print the cost and the verdicts as one JSON line.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `pairs` (a
# JSON file), `timeout`. The subject is imported and warmed up before the measurement, on integrals that
# are in none of the sets; it has not seen the pairs before.

_SIGNS: dict[Verdict, str] = {True: "1", False: "0", None: "?"}


def measure_rate(checker: Checker, pairs: Pairs) -> dict[str, Any]:
    """Return the CPU seconds of this process and its children, and a character per verdict."""
    start_seconds = cpu_seconds_so_far()
    checker.tiers.clear()
    gc.collect()
    verdicts, seconds = time_work(lambda: asyncio.run(checker.check_many(pairs)))
    return {
        "answers": len(verdicts),
        "cpu_seconds": seconds,
        "start_seconds": start_seconds,
        "verdicts": "".join(_SIGNS[verdict] for verdict in verdicts),
        "tiers": dict(checker.tiers),
    }


def rate_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs = [(gold, answer) for gold, answer in json.loads(Path(task["pairs"]).read_text())]
    checker = start_checker(task["subject"], timeout=task["timeout"])
    print(json.dumps(measure_rate(checker, pairs)))
    exit_process(checker)


# Measure how long the event loop is blocked while one subject checks a large batch.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `pairs` and
# `probes` (JSON files), `call` (many or each), `timeout`. Prints one JSON line: the longest time that the
# event loop was blocked, and how long single checks took that were made meanwhile.

TICK_SECONDS = 0.001
PROBE_SECONDS = 0.002


async def record_delays(delays: list[float]) -> None:
    """Wake up at short intervals, and record the delay of each wake-up."""
    previous = time.perf_counter()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        now = time.perf_counter()
        delays.append(now - previous - TICK_SECONDS)
        previous = now


@dataclass
class Probe:
    """A single check that is made while a batch runs."""

    started: float
    seconds: float


async def run_probes(checker: Checker, pairs: Pairs) -> list[Probe]:
    """Start a check at fixed intervals, whether or not the previous ones have ended."""
    finished: list[Probe] = []

    async def check(gold: str, answer: str) -> None:
        started = time.perf_counter()
        await checker.check(gold, answer)
        finished.append(Probe(started, time.perf_counter() - started))

    async with asyncio.TaskGroup() as group:
        for gold, answer in pairs:
            await asyncio.sleep(PROBE_SECONDS)
            group.create_task(check(gold, answer))
    return finished


async def measure_event_loop(
    checker: Checker, pairs: Pairs, probe_pairs: Pairs, call: str
) -> dict[str, Any]:
    """Check a batch while the delays of the event loop are recorded and single checks are made."""
    delays: list[float] = []
    recording = asyncio.create_task(record_delays(delays))
    await asyncio.sleep(0.1)
    delays.clear()
    started = time.perf_counter()
    probing = asyncio.create_task(run_probes(checker, probe_pairs))
    if call == "many":
        await checker.check_many(pairs)
    else:
        await asyncio.gather(*(checker.check(gold, answer) for gold, answer in pairs))
    ended = time.perf_counter()
    await asyncio.sleep(2 * TICK_SECONDS)  # until a delayed wake-up is recorded
    longest = max(delays)
    # Probes that started after the batch do not compete with it.
    probes = [probe for probe in await probing if probe.started <= ended]
    recording.cancel()
    seconds = sorted(probe.seconds for probe in probes)
    p99 = None
    if seconds:
        p99 = seconds[int(len(seconds) * 0.99)]
    return {
        "wall_seconds": ended - started,
        "longest_gap_seconds": longest,
        "p99_seconds": p99,
        "probes": len(seconds),
    }


def loop_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs = json.loads(Path(task["pairs"]).read_text())
    probe_pairs = json.loads(Path(task["probes"]).read_text())
    checker = start_checker(task["subject"], timeout=task["timeout"])
    figures = asyncio.run(measure_event_loop(checker, pairs, probe_pairs, task["call"]))
    print(json.dumps(figures))
    exit_process(checker)


# Kill a subject's worker processes, and measure whether and how soon it answers again.

# `harness.py` starts it in a new process; its only argument is the task as JSON: `subject`, `times`,
# `timeout`. Prints one JSON line: the median seconds from the kill to the next verdict and of the same
# check with all workers alive, and how many verdicts were right.


def find_supervisors() -> set[int]:
    """Return the processes that start workers, and so have children as long as these live."""
    processes = descendants()
    return {process.pid for process in processes} & {process.parent for process in processes}


def new_pair(number: int) -> tuple[str, str]:
    """Return a sum that was not checked before, so that it has to be computed; it is cheap."""
    return str(number * (number + 1) // 2), rf"\sum_{{k=1}}^{{{number}}} k"


async def measure_kills(checker: Checker, times: int) -> dict[str, Any]:
    """Time checks with all workers alive, then checks right after all workers were killed."""
    supervisors = find_supervisors()
    seconds_alive: list[float] = []
    for number in range(101, 101 + times):
        started = time.perf_counter()
        await checker.check(*new_pair(number))
        seconds_alive.append(time.perf_counter() - started)

    seconds_killed: list[float] = []
    right = 0
    for number in range(501, 501 + times):
        for process in descendants():
            if process.pid not in supervisors:
                os.kill(process.pid, signal.SIGKILL)
        started = time.perf_counter()
        verdict = await checker.check(*new_pair(number))
        seconds_killed.append(time.perf_counter() - started)
        right += verdict is True
    return {
        "check_seconds": median(seconds_alive),
        "replace_seconds": median(seconds_killed),
        "right": right,
        "times": times,
    }


def replace_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    checker = start_checker(task["subject"], timeout=task["timeout"])
    print(json.dumps(asyncio.run(measure_kills(checker, task["times"]))))
    exit_process(checker)


# Check hostile texts of doubling size, and measure the time in this process.

# Reading a completion and the first two tiers run in the caller's process, so they must be linear.

SMALLEST_TEXT = 1 << 14
LARGEST_TEXT = 1 << 20
# By kind: the text that is repeated, and the text that closes each repetition.
LONG_TEXTS: dict[str, tuple[str, str]] = {
    "open formulas": (r"\(", ""),
    "open displays": (r"\[", ""),
    "dollars": ("$", ""),
    "formulas": ("$x$ ", ""),
    "open boxes": (r"\boxed{", ""),
    "boxes": (r"\boxed{1} and ", ""),
    "boxes in boxes": (r"\boxed{", "}"),
    "braces": ("{", "}"),
    "brackets": ("(", ")"),
    "answer is": ("the answer is ", ""),
    "final answer, far from its verb": (f"final answer {'x' * 90} ", ""),
    "digits": ("1", ""),
    "groups of digits": (",111", ""),
    "numbers and spaces": (f"1{' ' * 500}", ""),
    "letters": ("a", ""),
    "words": ("seven and ", ""),
    "spaces": (" ", ""),
    "backslashes": ("\\", ""),
    "open texts": (r"\text{", ""),
    "raised digits": ("²", ""),
    "digits of other scripts": ("٣", ""),
    "HTML powers": ("<sup>", ""),
    "thoughts": ("<think>", ""),
    "ends of thoughts": ("</think>", ""),
    "money": (r"\$1 ", ""),
    "denials": ("not 7 ", ""),
    "conditions": ("for all n ", ""),
    "signs": ("5!", ""),
    "quotients": ("1/", ""),
    "zero-width characters": ("\u200b", ""),
}


def linear_main() -> None:
    from assay.checks import MathEqual
    from assay.math import MathOptions, verify

    options = MathOptions(symbolic=False, solved=True)
    checks = (MathEqual(), MathEqual(strict=True))

    def time_text(text: str) -> float:
        started = time.process_time()
        for check in checks:
            answer = check.read(text)
            if not isinstance(answer, str):
                answer = text
            verify("7", answer, options=options)
        verify("7", text, options=options)
        verify(text, "7", options=options)
        return time.process_time() - started

    time_text(r"So it is \boxed{\frac12}.")  # warms up
    seconds: dict[str, list[float]] = {}
    for kind, (unit, closing) in LONG_TEXTS.items():
        seconds[kind] = []
        size = SMALLEST_TEXT
        while size <= LARGEST_TEXT and sum(seconds[kind]) < TIMEOUT:
            times = size // len(unit + closing)
            seconds[kind].append(time_text(unit * times + closing * times))
            size *= 2
    print(json.dumps(seconds))


def measure_linear(subjects: Subjects, sets: Sets) -> Results:
    """Check thirty kinds of hostile text, each twice as long as the one before, up to 1 MiB."""
    seconds = subjects.measure("assay", "mathematics.py:linear")
    if seconds is None:
        return Results(notes=["the time of long texts was not measured"])
    size_count = (LARGEST_TEXT // SMALLEST_TEXT).bit_length()
    complete = [times for times in seconds.values() if len(times) == size_count]
    growth = None
    if complete:
        # Below a millisecond, growth cannot be distinguished from noise.
        growth = max(times[-1] / max(times[-3], 1e-3) for times in complete)
    rows = [
        _limited_count(
            "kinds of hostile text read up to 1 MiB in the caller",
            len(complete),
            at_least=len(LONG_TEXTS),
        ),
        Row(
            "the slowest of them at 1 MiB",
            1000 * max(times[-1] for times in seconds.values()),
            None,
            "ms",
            target=Limit(1000, "at most", "ms"),
        ),
        Row(
            "four times the size, so many times the time, at most",
            growth,
            None,
            "",
            target=Limit(8, "at most", ""),
        ),
    ]
    lines: list[tuple[str, ...]] = []
    for kind, times in seconds.items():
        lines.append((kind, *(f"{1000 * time:.1f}" for time in times[::2])))
    sizes = [SMALLEST_TEXT * 4**step for step in range((size_count + 1) // 2)]
    headings = ("CPU milliseconds", *(f"{size >> 10} KiB" for size in sizes))
    title = "Hostile texts of doubled size, read and refused four times each:"
    return Results(rows, [Table(title, headings, tuple(lines))])


# Give hostile answers to one subject, and print each verdict as soon as it is known.

# `watch` starts it in a new process, which it may have to kill; its only argument is the task as JSON:
# `subject`, `pairs` (a JSON file), `timeout`, `mode` and `limit`. Prints JSON lines: `{"beat": s}` while
# the event loop runs, `{"case": n, "verdict": v, "seconds": s}` for each answer, and a last line when all
# is done. The modes:

# - `together`: all pairs concurrently in one event loop,
# - `alone`: one after the other in one event loop,
# - `apart`: each in a forked process of its own, killed after `limit` seconds.

BEAT_SECONDS = 0.25
POLL_SECONDS = 0.02


def report(**fields: Any) -> None:
    """Print a line at once, since the process may be killed."""
    print(json.dumps(fields), flush=True)


async def beat() -> None:
    while True:
        report(beat=time.monotonic())
        await asyncio.sleep(BEAT_SECONDS)


async def check_and_report(checker: Checker, number: int, gold: str, answer: str) -> None:
    """Check a pair, and report the verdict or the error."""
    started = time.perf_counter()
    try:
        verdict: Any = await checker.check(gold, answer)
    except Exception as error:  # noqa: BLE001 - errors are results here
        verdict = f"{type(error).__name__}: {error}"[:200]
    seconds = time.perf_counter() - started
    report(case=number, verdict=verdict, seconds=seconds, words=checker.last)


async def check_together(checker: Checker, pairs: Pairs) -> None:
    beating = asyncio.create_task(beat())
    checks = [check_and_report(checker, number, *pair) for number, pair in enumerate(pairs)]
    await asyncio.gather(*checks)
    beating.cancel()


async def check_alone(checker: Checker, pairs: Pairs) -> None:
    beating = asyncio.create_task(beat())
    for number, pair in enumerate(pairs):
        await check_and_report(checker, number, *pair)
    beating.cancel()


def check_in_one_process(task: dict[str, Any], pairs: Pairs) -> None:
    """Check all pairs, close the checker, and count the processes and threads that remain."""
    threads = threading.active_count()
    checker = start_checker(task["subject"], timeout=task["timeout"])
    if task["mode"] == "together":
        asyncio.run(check_together(checker, pairs))
    else:
        asyncio.run(check_alone(checker, pairs))
    checker.close()
    report(
        peak_bytes=peak_bytes(),
        processes_left=len(descendants()),
        threads_left=threading.active_count() - threads,
    )


def peak_bytes() -> int:
    """Return the peak memory of the largest ended child; of this process if it had none."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return 1024 * (of_children or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def check_apart(task: dict[str, Any], pairs: Pairs) -> None:
    """Fork a process for each pair, after the imports, which would take minutes in each of them."""
    subject = task["subject"]
    timeout = task["timeout"]
    half = len(WARM_UP) // 2
    start_checker(subject, timeout=timeout, warm_up=WARM_UP[:half]).close()
    for number, pair in enumerate(pairs):
        child = os.fork()
        if child == 0:
            os.setsid()
            # It may have a cache of the pairs that its parent has checked.
            checker = start_checker(subject, timeout=timeout, warm_up=WARM_UP[half:])
            asyncio.run(check_and_report(checker, number, *pair))
            os._exit(0)
        if not ends_in_time(child, task["limit"]):
            report(case=number, verdict=f"no answer in {task['limit']} s", seconds=task["limit"])
        kill_group(child)
    report(finished=True)


def ends_in_time(child: int, seconds: float) -> bool:
    """Return whether a child ends by itself in time; if it does not, kill it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(POLL_SECONDS)
    kill_group(child)
    os.waitpid(child, 0)
    return False


def kill_group(leader: int) -> None:
    """Kill a child and its own pool, which may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def hostile_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs: Pairs = json.loads(Path(task["pairs"]).read_text())
    if task["mode"] == "apart":
        check_apart(task, pairs)
    else:
        check_in_one_process(task, pairs)


# Run a worker that may freeze, read what it reports, and kill it if necessary.

_READ_SECONDS = 0.25
_GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class Watched:
    """What a worker reported, and how it ended."""

    lines: list[dict[str, Any]]
    end: str  # `ended` by itself, `frozen` if it printed nothing for too long, or `late`
    seconds: float
    silence: float  # the longest time without a line
    left: int  # its descendants that were alive a second after it had ended

    @property
    def verdicts(self) -> dict[int, Any]:
        return {line["case"]: line["verdict"] for line in self.lines if "case" in line}

    @property
    def words(self) -> dict[int, str]:
        """Return the verdicts in the subject's own words, if it has any."""
        return {line["case"]: line["words"] for line in self.lines if line.get("words")}

    @property
    def seconds_of(self) -> dict[int, float]:
        return {line["case"]: line["seconds"] for line in self.lines if "case" in line}

    @property
    def last(self) -> dict[str, Any]:
        """Return the line after all cases; empty if the worker did not get that far."""
        if not self.lines or "case" in self.lines[-1] or "beat" in self.lines[-1]:
            return {}
        return self.lines[-1]

    @property
    def remaining(self) -> tuple[int, int] | None:
        """Return the processes and threads that remained; None if this is not known."""
        if not self.last:
            return None
        return self.left + self.last["processes_left"], self.last["threads_left"]


def watch(
    interpreter: Path, name: str, task: dict[str, Any], *, quiet: float, total: float
) -> Watched:
    """Run a worker until it ends, is silent for `quiet` seconds or has run for `total` seconds.

    Silence counts from the first line, since packages are imported before it.
    """
    process = subprocess.Popen(
        (str(interpreter), *worker(name), json.dumps(task)),
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _listen(process, quiet=quiet, total=total)
    finally:
        for pid in [process.pid, *(child.pid for child in descendants(process.pid))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _listen(process: subprocess.Popen[bytes], *, quiet: float, total: float) -> Watched:
    assert process.stdout is not None
    started = time.monotonic()
    last_heard = started
    buffer = b""
    lines: list[dict[str, Any]] = []
    silence = 0.0
    end = "ended"
    seen_processes: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            has_exited = process.poll() is not None
            text = b""
            if selector.select(_READ_SECONDS):
                text = os.read(process.stdout.fileno(), 1 << 16)
            now = time.monotonic()
            buffer += text
            *complete, buffer = buffer.split(b"\n")
            new_lines = [json.loads(line) for line in complete if line.startswith(b"{")]
            if new_lines:
                if lines:
                    silence = max(silence, now - last_heard)
                last_heard = now
                lines += new_lines
            seen_processes |= {child.pid for child in descendants(process.pid)}
            if has_exited and not text:
                break
            if lines and now - last_heard > quiet:
                end = "frozen"
                break
            if now - started > total:
                end = "late"
                break
    left = 0
    if end == "ended":
        left = _count_alive(seen_processes)
    return Watched(
        lines=lines,
        end=end,
        seconds=time.monotonic() - started,
        silence=max(silence, now - last_heard),
        left=left,
    )


def _count_alive(pids: set[int]) -> int:
    """Return how many processes are alive after a short time."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while pids and time.monotonic() < deadline:
        time.sleep(0.05)
        pids = {pid for pid in pids if Path(f"/proc/{pid}").exists()}
    return len(pids)


# Measure the answers per CPU second, and how many of them are right.

SUBJECTS = ("assay", THREADS, PROCESSES, BARE)
TIERS = ("normalize", "algebra", "symbolic")
TIMEOUT = 5.0  # seconds; the default of all subjects


def measure_rates(subjects: Subjects, sets: Sets) -> Results:
    """Check every set with every subject, in turn, in new processes."""
    figures = {rated.name: _measure_in_turn(subjects, sets, rated) for rated in sets.rated}
    rows: list[Row] = []
    for rated in sets.rated:
        rows += _rate_rows(rated, figures[rated.name])
    for rated in (sets.gsm8k, sets.qwen):
        rows.append(_accuracy_row(rated, figures[rated.name]))
    for peer in (THREADS, PROCESSES, BARE):
        rows.append(_start_row(figures[sets.gsm8k.name], peer))
    for rated in sets.rated:
        rows.append(_symbolic_row(rated, figures[rated.name]["assay"]))

    confusion_lines: list[tuple[str, ...]] = []
    tier_lines: list[tuple[str, ...]] = []
    for rated in sets.rated:
        tier_lines.append(_tier_line(rated, figures[rated.name]["assay"]))
        if any(pair.label is None for pair in rated.pairs):
            continue
        for subject in SUBJECTS:
            cells = _confusion_cells(rated.pairs, figures[rated.name][subject])
            confusion_lines.append((rated.name, subject, *cells))
    tables = [
        Table(
            "Verdicts against labels (yes/no: the subject's verdict; right or wrong: the label):",
            ("set", "subject", "right", "yes right", "yes wrong", "no wrong", "no right"),
            tuple(confusion_lines),
        ),
        Table(
            "Which tier of assay decided:",
            ("set", "answers", "distinct", *TIERS),
            tuple(tier_lines),
        ),
    ]
    return Results(rows, tables)


def _measure_in_turn(subjects: Subjects, sets: Sets, rated: RatedSet) -> dict[str, Figures]:
    """Return the cheapest round of each subject.

    They take turns, so that a slow moment of the machine does not affect one subject only.
    """
    file = sets.write_file(rated.pairs)
    cheapest: dict[str, Figures] = dict.fromkeys(SUBJECTS)
    for _ in range(min(sets.sizes.rounds, rated.rounds)):
        for subject in SUBJECTS:
            figures = subjects.measure(subject, "mathematics.py:rate", pairs=file, timeout=TIMEOUT)
            best = cheapest[subject]
            if figures is None:
                continue
            if best is None or figures["cpu_seconds"] < best["cpu_seconds"]:
                cheapest[subject] = figures
    return cheapest


def _rate_rows(rated: RatedSet, figures: dict[str, Figures]) -> list[Row]:
    label = f"{rated.name}, {len(rated.pairs):,} answers"
    target = Target(rated.target, "at least")
    ours = _rate(figures["assay"])
    rows: list[Row] = []
    for peer in (THREADS, PROCESSES, BARE):
        has_target = peer != BARE or rated.is_like_math
        rows.append(
            Row(
                label,
                ours,
                _rate(figures[peer]),
                "answers/CPU s",
                peer,
                target if has_target else None,
            )
        )
    return rows


def _rate(figures: Figures) -> float | None:
    if figures is None:
        return None
    return figures["answers"] / figures["cpu_seconds"]


def _accuracy_row(rated: RatedSet, figures: dict[str, Figures]) -> Row:
    return Row(
        f"{rated.name}, right",
        _accuracy(rated.pairs, figures["assay"]),
        _accuracy(rated.pairs, figures[THREADS]),
        "%",
        THREADS,
        Limit(100.0, "at least", "%") if rated.name == "GSM8K" else None,
    )


def _accuracy(pairs: list[Pair], figures: Figures) -> float | None:
    """Return the percentage of verdicts that agree with the label."""
    if figures is None:
        return None
    right = 0
    for pair, verdict in zip(pairs, figures["verdicts"], strict=True):
        right += (verdict == "1") == pair.label
    return 100.0 * right / len(pairs)


def _start_row(figures: dict[str, Figures], peer: str) -> Row:
    return Row(
        "start: import, workers, eight integrals, CPU",
        milliseconds(figures["assay"], "start_seconds"),
        milliseconds(figures[peer], "start_seconds"),
        "ms",
        peer,
    )


def _confusion_cells(pairs: list[Pair], figures: Figures) -> tuple[str, ...]:
    """Return the accuracy, then true and false positives, false and true negatives."""
    if figures is None:
        return ("not measured", "", "", "", "")
    counts: Counter[tuple[bool, bool | None]] = Counter()
    for pair, verdict in zip(pairs, figures["verdicts"], strict=True):
        counts[verdict == "1", pair.label] += 1
    return (
        f"{_accuracy(pairs, figures):.2f} %",
        str(counts[True, True]),
        str(counts[True, False]),
        str(counts[False, True]),
        str(counts[False, False]),
    )


def _symbolic_row(rated: RatedSet, figures: Figures) -> Row:
    """Return the percentage of answers that only the symbolic tier decides."""
    percentage = None
    if figures is not None:
        percentage = 100 * figures["tiers"].get("symbolic", 0) / len(rated.pairs)
    limit = Limit(2.0, "at most", "%") if rated.is_like_math else None
    return Row(f"{rated.name}, decided by math-verify", percentage, None, "%", target=limit)


def _tier_line(rated: RatedSet, figures: Figures) -> tuple[str, ...]:
    distinct = len({(pair.gold, pair.answer) for pair in rated.pairs})
    tiers: dict[str, int] = {} if figures is None else figures["tiers"]
    shares = [f"{100 * tiers.get(tier, 0) / len(rated.pairs):.1f} %" for tier in TIERS]
    return (rated.name, f"{len(rated.pairs):,}", f"{distinct:,}", *shares)


# Measure how long the event loop is blocked, whether workers are replaced, and the effect of load.

BUSY_LOOPS = 4
# Equal pairs that take a symbolic engine one to two seconds: their verdicts change first if deadlines
# count wall time.
_SLOW = [
    Pair(r"\frac{\pi}{2}", r"\int_0^{\infty} \frac{1}{1+x^2} \, dx"),
    Pair(r"\frac{\pi}{4}", r"\int_0^{\infty} \frac{1}{4+x^2} \, dx"),
    Pair(r"\frac{\pi}{6}", r"\int_0^{\infty} \frac{1}{9+x^2} \, dx"),
    Pair(r"\frac{1}{2}", r"\int_0^{\infty} e^{-x} \sin x \, dx"),
]


def measure_loop(subjects: Subjects, sets: Sets) -> Results:
    """Measure how long a large batch blocks the event loop, and single checks meanwhile."""
    batch = large_batch(sets)
    cheap_pairs = [pair for pair in sets.good if r"\int" not in pair.answer]
    task = {
        "pairs": sets.write_file(batch),
        "probes": sets.write_file(cheap_pairs[: sets.sizes.probes]),
        "timeout": TIMEOUT,
    }
    ours = subjects.measure("assay", "mathematics.py:loop", call="many", **task)
    single_calls = subjects.measure("assay", "mathematics.py:loop", call="each", **task)
    size = f"{len(batch):,} checks"
    rows: list[Row] = []
    for peer in (THREADS, PROCESSES):
        theirs = subjects.measure(peer, "mathematics.py:loop", call="many", **task)
        rows += [
            Row(
                f"longest silence of the event loop, {size}",
                milliseconds(ours, "longest_gap_seconds"),
                milliseconds(theirs, "longest_gap_seconds"),
                "ms",
                peer,
                Limit(20, "at most", "ms"),
            ),
            Row(
                f"one check while {size} run, p99",
                milliseconds(ours, "p99_seconds"),
                milliseconds(theirs, "p99_seconds"),
                "ms",
                peer,
                Limit(50, "at most", "ms"),
            ),
        ]
    rows.append(
        Row(
            f"longest silence, {size} by verify_async at once",
            milliseconds(single_calls, "longest_gap_seconds"),
            None,
            "ms",
        )
    )
    return Results(rows)


def large_batch(sets: Sets) -> list[Pair]:
    """Return all real answers, and GSM8K answers with golds of other problems up to the size."""
    batch: list[Pair] = []
    for rated in (sets.gsm8k, sets.qwen, sets.passed, sets.mixed):
        batch += rated.pairs
    golds = [pair.gold for pair in sets.gsm8k.pairs]
    shifted = [
        Pair(golds[(position + 4) % len(golds)], pair.answer)
        for position, pair in enumerate(sets.gsm8k.pairs)
    ]
    while len(batch) < sets.sizes.batch:
        batch += shifted
    batch = batch[: sets.sizes.batch]
    random.Random(SEED).shuffle(batch)
    return batch


def measure_replacement(subjects: Subjects, sets: Sets) -> Results:
    """Kill all workers, so that the next verdict has to wait for a new one."""
    task = {"times": sets.sizes.kills, "timeout": TIMEOUT}
    ours = subjects.measure("assay", "mathematics.py:replace", **task)
    theirs = subjects.measure(PROCESSES, "mathematics.py:replace", **task)
    rows = [
        Row(
            "workers killed, time to the next symbolic verdict",
            milliseconds(ours, "replace_seconds"),
            None,
            "ms",
            target=Limit(50, "at most", "ms"),
        ),
        Row(
            "the same check with its workers alive",
            milliseconds(ours, "check_seconds"),
            None,
            "ms",
        ),
    ]
    line = ("right after all workers were killed", _count_right(ours), _count_right(theirs))
    title = "Workers killed, then one right answer, several times:"
    return Results(rows, [Table(title, ("", "assay", PROCESSES), (line,))])


def _count_right(figures: Figures) -> str:
    if figures is None:
        return "not measured"
    return f"{figures['right']} of {figures['times']} right"


def measure_load(subjects: Subjects, sets: Sets) -> Results:
    """Compare the verdicts on an idle machine with those beside busy loops."""
    pairs = mixed_batch(sets)
    task = {"pairs": sets.write_file(pairs), "timeout": TIMEOUT}
    names = ("assay", THREADS, PROCESSES)
    idle = {name: subjects.measure(name, "mathematics.py:rate", **task) for name in names}
    with busy_loops():
        busy = {name: subjects.measure(name, "mathematics.py:rate", **task) for name in names}
    changed = {name: _count_changed(idle[name], busy[name]) for name in names}
    label = f"verdicts changed by {BUSY_LOOPS} busy loops, {len(pairs)} answers"
    limit = Limit(0, "at most", "")
    return Results(
        [
            Row(label, changed["assay"], changed[peer], "", peer, limit)
            for peer in (THREADS, PROCESSES)
        ]
    )


def mixed_batch(sets: Sets) -> list[Pair]:
    """Return one third each of numbers, model output and hard expressions, and slow pairs."""
    rng = random.Random(SEED)
    size = sets.sizes.mixed // 3
    batch = list(_SLOW)
    for rated in (sets.gsm8k, sets.mixed, sets.hard):
        batch += rng.sample(rated.pairs, min(size, len(rated.pairs)))
    rng.shuffle(batch)
    return batch


@contextmanager
def busy_loops() -> Generator[None]:
    """Run processes that use as much CPU as they get."""
    command = (sys.executable, "-c", "while True: pass")
    loops = [subprocess.Popen(command) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _count_changed(before: Figures, after: Figures) -> int | None:
    """Return how many verdicts differ; None if they were not measured."""
    if before is None or after is None:
        return None
    verdicts = zip(before["verdicts"], after["verdicts"], strict=True)
    return sum(first != second for first, second in verdicts)


# Measure the effect of hostile answers on a subject, and on good answers beside them.

WORKER = "mathematics.py:hostile"
# Seconds of work that assay has for a hostile answer here. verifiers has its default of 5.
DEADLINE = 1.0
# How long a single answer may take: more than twice verifiers' own limit.
APART_SECONDS = 12.0
MEBIBYTE = 1 << 20

# One of each kind that stops a subject, the most important ones first.
SAMPLE = (
    "tower of three nines",
    "a sum of k to the k",
    "nested parentheses, 100",
    "factorial of a million",
    "100,000 spaces inside",
    "a symbolic determinant of seven",
    "nested braces, 2,000",
    "50,000 decimals",
    "a union of forty intervals",
    "final answer without end",
    "tiny powers of two apart",
    "the Gaussian integral",
)


def measure_hostile(subjects: Subjects, sets: Sets) -> Results:
    """Check hostile answers one by one, together with good answers, and some of them apart."""
    results = _check_one_by_one(subjects, sets)
    results.add(_check_together(subjects, sets))
    results.add(_check_apart(subjects, sets))
    return results


def _check_one_by_one(subjects: Subjects, sets: Sets) -> Results:
    """Check all hostile answers with assay, and measure the time beyond the deadline."""
    cases = sets.hostile[:: max(1, len(sets.hostile) // sets.sizes.alone)]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    watched = _watch_subjects(subjects, sets, pairs, ("assay",), mode="alone", total=900)["assay"]
    wrong: list[str] = []
    for number, case in enumerate(cases):
        if watched.verdicts.get(number) is True and case.expected is not True:
            wrong.append(case.name)
    notes: list[str] = []
    if wrong:
        notes.append(f"hostile answers that assay called equal: {', '.join(wrong)}")
    slowest = max(watched.seconds_of.values(), default=0.0)
    label = f"{len(cases)} hostile answers one by one"
    rows = [
        _limited_count(f"{label}, answered", len(watched.verdicts), at_least=len(cases)),
        Row(
            f"{label}, the slowest beyond its deadline of {DEADLINE:.0f} s",
            1000 * max(slowest - DEADLINE, 0.0),
            None,
            "ms",
            target=Limit(300, "at most", "ms"),
        ),
        _limited_count(f"{label}, wrongly called equal", len(wrong), at_most=0),
    ]
    return Results(rows, notes=notes)


def _check_together(subjects: Subjects, sets: Sets) -> Results:
    """Check a shuffled batch of hostile and good answers concurrently in one event loop."""
    rng = random.Random(SEED)
    cases = rng.sample(sets.hostile, min(sets.sizes.hostile, len(sets.hostile)))
    batch = [Pair(case.gold, case.answer) for case in cases] + sets.good[: sets.sizes.hostile]
    rng.shuffle(batch)
    watched = _watch_subjects(subjects, sets, batch, ("assay",), mode="together", total=900)
    watched |= _watch_subjects(
        subjects,
        sets,
        batch,
        (THREADS, PROCESSES),
        mode="together",
        total=sets.sizes.patience,
    )
    good = [number for number, pair in enumerate(batch) if pair.label]
    lines: dict[str, list[str]] = defaultdict(list)
    for subject in watched.values():
        right = sum(subject.verdicts.get(number) is True for number in good)
        lines["answered"].append(f"{len(subject.verdicts)} of {len(batch)}")
        lines["good answers right"].append(f"{right} of {len(good)}")
        lines["its end"].append(_describe_end(subject))
        lines["longest silence of the event loop"].append(f"{subject.silence:.1f} s")
        lines["peak memory of a worker"].append(_describe_memory(subject))
        lines["processes and threads left"].append(_describe_remaining(subject))
    table = Table(
        f"{len(batch) - len(good)} hostile and {len(good)} good answers at once:",
        ("", *watched),
        tuple((name, *cells) for name, cells in lines.items()),
    )
    ours = watched["assay"]
    remaining = None
    if ours.remaining is not None:
        remaining = sum(ours.remaining)
    peak = None
    if "peak_bytes" in ours.last:
        peak = ours.last["peak_bytes"] / MEBIBYTE
    rows = [
        _limited_count(
            "good answers right beside hostile ones",
            sum(ours.verdicts.get(number) is True for number in good),
            at_least=len(good),
        ),
        _limited_count("processes and threads left behind", remaining, at_most=0),
        Row(
            "peak memory of a worker, hostile answers",
            peak,
            None,
            "MiB",
            target=Limit(1024, "at most", "MiB"),
        ),
    ]
    return Results(rows, [table])


def _check_apart(subjects: Subjects, sets: Sets) -> Results:
    """Check a few cases, each in a process of its own."""
    case_by_name = {case.name: case for case in sets.hostile}
    cases = [case_by_name[name] for name in SAMPLE[: sets.sizes.apart]]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    watched = _watch_subjects(subjects, sets, pairs, ("assay",), mode="apart", total=900)
    watched |= _watch_subjects(subjects, sets, pairs, (THREADS, PROCESSES), mode="apart", total=900)
    words = {True: "equal", False: "different", None: "none"}
    lines: list[tuple[str, ...]] = []
    for number, case in enumerate(cases):
        verdicts = [_describe_verdict(subject, number) for subject in watched.values()]
        lines.append((case.name, words[case.expected], *verdicts))
    title = "Single hostile answers, each in a process of its own:"
    return Results(tables=[Table(title, ("answer", "truth", *watched), tuple(lines))])


def _watch_subjects(
    subjects: Subjects,
    sets: Sets,
    pairs: list[Pair],
    names: tuple[str, ...],
    *,
    mode: str,
    total: float,
) -> dict[str, Watched]:
    """Watch the subjects that can be run, all at the same time, since the cost is not measured."""
    file = sets.write_file(pairs)

    def watch_subject(subject: str) -> Watched:
        subjects.say(f"{WORKER} {subject}: {len(pairs)} pairs, {mode}")
        task: dict[str, Any] = {
            "subject": subject,
            "pairs": file,
            "timeout": DEADLINE if subject == "assay" else TIMEOUT,
            "mode": mode,
            "limit": APART_SECONDS,
        }
        return watch(subjects.interpreters[subject], WORKER, task, quiet=60, total=total)

    installed = [subject for subject in names if subject in subjects.interpreters]
    with ThreadPoolExecutor() as threads:
        return dict(zip(installed, threads.map(watch_subject, installed), strict=True))


def _limited_count(
    label: str, count: int | None, *, at_least: int = 0, at_most: int | None = None
) -> Row:
    limit = Limit(at_least, "at least", "")
    if at_most is not None:
        limit = Limit(at_most, "at most", "")
    return Row(label, count, None, "", target=limit)


def _describe_end(watched: Watched) -> str:
    words = {
        "ended": "by itself",
        "frozen": "frozen, killed from outside",
        "late": "unfinished, killed from outside",
    }
    return f"{words[watched.end]} after {watched.seconds:.0f} s"


def _describe_memory(watched: Watched) -> str:
    peak = watched.last.get("peak_bytes")
    if peak is None:
        return "not known"
    return f"{peak / MEBIBYTE:.0f} MiB"


def _describe_remaining(watched: Watched) -> str:
    if watched.remaining is None:
        return "not known"
    processes, threads = watched.remaining
    return f"{processes} and {threads}"


def _describe_verdict(watched: Watched, number: int) -> str:
    verdict = watched.verdicts.get(number, "died")
    if isinstance(verdict, str):
        return verdict
    words = watched.words.get(number, "equal" if verdict else "not equal")
    return f"{words}, {watched.seconds_of[number]:.2f} s"


MEASURES: dict[str, Callable[[Subjects, Sets], Results]] = {
    "rates": measure_rates,
    "loop": measure_loop,
    "replacement": measure_replacement,
    "load": measure_load,
    "hostile": measure_hostile,
    "linear": measure_linear,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            sets = load_sets(find_data(options.data), options.hard, Path(folder), sizes)
            results = run(options.only or list(MEASURES), sets)
        except DataError as error:
            say(f"no data: {error}")
            return 2
        except KeyboardInterrupt:
            say("stopped; nothing was saved")
            return 130
    tables = [as_table(results.rows), *results.tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in results.notes:
        print(f"note: {note}")
    save_results("mathematics", tables, results.notes, options, peers=MATH_PEERS)
    return 0


def run(measures: Sequence[str], sets: Sets) -> Results:
    """Run the named measures. The notes say what could not be measured."""
    names = [peer.name for peer in MATH_PEERS]
    installed = install(names, say=say, peers=MATH_PEERS)
    subjects = all_subjects(installed.interpreters, say=say)
    results = Results(notes=list(installed.failures))
    for name in measures:
        started = time.monotonic()
        results.add(MEASURES[name](subjects, sets))
        say(f"{name}: {time.monotonic() - started:.0f} s")
    results.notes.extend(subjects.notes)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mathematics.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help=f"the folder with the data; by default ${VARIABLE}, or ../shared/data",
    )
    parser.add_argument(
        "--hard",
        metavar="FILE",
        type=Path,
        help="more hard pairs: JSON lines with gold, answer and label",
    )
    return parser


if __name__ == "__main__":
    run_worker(
        sys.argv,
        {
            "rate": rate_main,
            "loop": loop_main,
            "replace": replace_main,
            "linear": linear_main,
            "hostile": hostile_main,
        },
    )
    sys.exit(main())
