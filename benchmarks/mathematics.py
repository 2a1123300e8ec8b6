"""The command behind `mathematics.py`: options, data, measures, tables."""

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
from collections import Counter
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

# The answers that are checked: real ones of public data sets, with the labels they came with.

# The data are no part of this repository. `find_data` says where to put them.

SEED = 20240229
VARIABLE = "ASSAY_DATA"
DEFAULT = Path(__file__).parents[2] / "shared" / "data"

# Negative labels of the Qwen samples that are wrong when read by a person, as (problem, sample).
_QWEN_MISLABELLED = {*((3, sample) for sample in range(8)), (72, 7)}
_WORDS = re.compile(r"\\(?:text|mathrm|operatorname|mbox)|(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_PLAIN = re.compile(r"[-\d.,e\s]*|-?\\frac\{-?\d+\}\{\d+\}")
# A second form of the same answer, an alignment, or a list in several dollars.
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
    """A gold and an answer. `label` is None where the set's own label is not to be trusted."""

    gold: str
    answer: str
    label: bool | None = None


class DataError(Exception):
    """The data are not where they were looked for."""


def find_data(given: str | None) -> Path:
    """The folder with the data, by option, environment variable or default."""
    chosen = Path(given or os.environ.get(VARIABLE) or DEFAULT).resolve()
    if not (chosen / "math").is_dir():
        raise DataError(
            f"there is no folder 'math' in {chosen}: give the folder that holds "
            "math/grade-school-math, math/Qwen2.5-Math and math/MathCoder with --data or in "
            f"{VARIABLE} (benchmarks/README.md names the sources)"
        )
    return chosen / "math"


def gsm8k(folder: Path) -> list[Pair]:
    """Final numbers of four models' solutions; right when they equal the gold number."""
    solvers = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    return [
        Pair(
            _after_mark(row["ground_truth"]),
            _after_mark(row[solver]["solution"]),
            row[solver]["is_correct"],
        )
        for row in _rows(folder / "grade-school-math" / "example_model_solutions.jsonl")
        for solver in solvers
    ]


def qwen(folder: Path) -> list[Pair]:
    """Eight samples of a hundred MATH problems, nine of their negative labels set right."""
    return [
        Pair(row["gt"], answer, good or (row["idx"], sample) in _QWEN_MISLABELLED)
        for row in _rows(folder / "Qwen2.5-Math" / "math_cot_100.jsonl")
        for sample, (answer, good) in enumerate(zip(row["pred"], row["score"], strict=True))
    ]


def mathcoder_correct(folder: Path) -> list[Pair]:
    """Answers on MATH that a lenient grader passed."""
    return _mathcoder(folder / "MathCoder" / "L-7b_MATH-correct.jsonl")


def mathcoder_mixed(folder: Path) -> list[Pair]:
    """All answers on MATH of one model, among them prose and code."""
    return _mathcoder(folder / "MathCoder" / "CL-34b_minival.jsonl")


def hard_golds(folder: Path, count: int) -> list[str]:
    """Golds that are expressions, lists or relations, shuffled.

    All that OlympiadBench and Minerva have, then college mathematics up to `count`. Plain numbers,
    golds with words in them and chains of equations are left out.
    """
    qwen_folder = folder / "Qwen2.5-Math"
    olympiad = _rows(qwen_folder / "gold_olympiadbench.jsonl")
    minerva = _rows(qwen_folder / "gold_minerva_math.jsonl")
    college = _rows(qwen_folder / "gold_college_math.jsonl")
    rare = [gold for row in olympiad for gold in row["final_answer"]]
    rare += [_boxed(row["solution"]) for row in minerva]
    rng = random.Random(SEED)
    golds = _hard_ones(rare)
    rest = sorted(set(_hard_ones(row["answer"] for row in college)) - set(golds))
    rng.shuffle(rest)
    golds = (golds + rest)[:count] if len(golds) < count else golds
    rng.shuffle(golds)
    return golds[:count]


def labelled_file(path: Path) -> list[Pair]:
    """Pairs of a jsonl file with the keys gold, answer and label."""
    return [Pair(row["gold"], row["answer"], bool(row["label"])) for row in _rows(path)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path} is not there: benchmarks/README.md names the sources")
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _after_mark(solution: str) -> str:
    """What follows the last "A:"; nothing when the model never came to an answer."""
    _, mark, answer = solution.rpartition("A:")
    return answer.strip() if mark else ""


def _mathcoder(path: Path) -> list[Pair]:
    return [Pair(row["ground_truth"]["answer"], row["completion"]) for row in _rows(path)]


def _boxed(solution: str) -> str:
    """The content of the last box; empty when it never closes."""
    _, _, rest = solution.rpartition(r"\boxed{")
    depth = 1
    for position, character in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return rest[:position]
    return ""


def _bare(gold: str) -> str:
    """Without the dollars around it."""
    return gold.strip().strip("$").strip()


def _hard_ones(golds: Iterable[str]) -> list[str]:
    return sorted({bare for gold in golds if _is_hard(bare := _bare(gold))})


def _is_hard(gold: str) -> bool:
    clean = not any(mark in gold for mark in _UNCLEAR) and gold.count("=") < 2
    return clean and len(gold) >= 8 and not _WORDS.search(gold) and not _PLAIN.fullmatch(gold)


# Turn hard golds into pairs whose label is known by how they were made.

# Half of the answers are the gold rewritten so that it stays equal, half are the gold with one
# number or one sign changed.

Rewrite = Callable[[str, random.Random], str | None]
"""The new text; None when it does not fit this gold."""

_TYPESETTING = ((r"\frac", r"\dfrac"), (r"\leqslant", r"\leq"), (r"\geqslant", r"\geq"))
_DISGUISES = (
    r"\frac{{2\left({0}\right)}}{{2}}",
    r"1+\left({0}\right)-1",
    r"-\left(-\left({0}\right)\right)",
    r"\frac{{1}}{{2}}\left({0}\right)+\frac{{1}}{{2}}\left({0}\right)",
)
# A list, relation, set, interval or a choice of signs: no operand.
_NO_EXPRESSION = re.compile(r"[,=<>|\[\]]|\\(?:pm|mp|le|ge|cup|cap|in|\{|infty|circ|angle|sum)")
_FRACTION = re.compile(r"(?<![\w\)\}])(\s*)\\frac\{([^{}]*)\}\{([^{}]*)\}")
# Not an index: a letter with another index is another letter.
_NUMBER = re.compile(r"(?<![\d_.])(?<!_\{)\d+")


def hard_pairs(golds: list[str]) -> list[Pair]:
    """One pair a gold, the four kinds in turn."""
    rng = random.Random(SEED)
    pairs: list[Pair] = []
    for position, gold in enumerate(golds):
        equal = position % 2 == 0
        kinds = EQUAL_KINDS if equal else DIFFERENT_KINDS
        first = position // 2 % len(kinds)
        texts = (kind(gold, rng) for kind in kinds[first:] + kinds[:first])
        answer = next((text for text in texts if text is not None and text != gold), None)
        if answer is not None:
            pairs.append(Pair(gold, answer, equal))
    return pairs


def typeset(gold: str, rng: random.Random) -> str | None:
    """The same in another dress: `\\dfrac` for `\\frac`, plain brackets for tall ones or back."""
    plain = re.sub(r"\\(?:left|right)(?![a-z])", "", gold)
    for old, new in _TYPESETTING:
        plain = plain.replace(old, new)
    return plain if plain != gold else gold.replace("(", r"\left(").replace(")", r"\right)")


def disguised(gold: str, rng: random.Random) -> str | None:
    """An expression doubled and halved, or with one added and taken away."""
    if _NO_EXPRESSION.search(gold):
        return None
    return rng.choice(_DISGUISES).format(gold)


def slashed(gold: str, rng: random.Random) -> str | None:
    """Innermost fractions on one line."""
    return _FRACTION.sub(r"\1\\left(\\left(\2\\right)/\\left(\3\\right)\\right)", gold)


def renumbered(gold: str, rng: random.Random) -> str | None:
    """One number raised by one, right of an equals sign if there is one.

    To the left it may be part of a name, `f^{-1}(x)`, which some checkers take off.
    """
    numbers = list(_NUMBER.finditer(gold))
    right = [number for number in numbers if number.start() > gold.find("=") and number[0] != "0"]
    numbers = right or numbers
    if not numbers:
        return None
    number = rng.choice(numbers)
    return f"{gold[: number.start()]}{int(number[0]) + 1}{gold[number.end() :]}"


def resigned(gold: str, rng: random.Random) -> str | None:
    """One sign between two terms turned round."""
    if _NO_EXPRESSION.search(gold) or re.search(r"[+-]\s*[cCk]\b", gold):
        return None
    signs = [position for position in range(1, len(gold)) if _joins_terms(gold, position)]
    if not signs:
        return None
    chosen = rng.choice(signs)
    return f"{gold[:chosen]}{'-' if gold[chosen] == '+' else '+'}{gold[chosen + 1 :]}"


EQUAL_KINDS: tuple[Rewrite, ...] = (disguised, typeset, slashed)
DIFFERENT_KINDS: tuple[Rewrite, ...] = (renumbered, resigned)


def _joins_terms(gold: str, position: int) -> bool:
    """Whether a sign stands between two terms, outside all brackets.

    Inside brackets a sign may not matter: `(-1)^{m+1}` equals `(-1)^{m-1}`.
    """
    before = gold[:position].rstrip()
    depth = sum(map(before.count, "({")) - sum(map(before.count, ")}"))
    return gold[position] in "+-" and depth == 0 and bool(re.search(r"[\w)}]$", before))


# The pairs that are measured, cut to size, and files of them that every subject can read.

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
    rounds=1,
    share=20,
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
    """Pairs whose checking is timed."""

    name: str
    pairs: list[Pair]
    target: float
    """How many times verifiers' answers a CPU second is asked for."""
    rounds: int = 3
    """At most; fewer for sets that take the peers long."""

    @property
    def is_like_math(self) -> bool:
        return "on MATH" in self.name


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
        load(data)[:: sizes.share] for load in (gsm8k, qwen, mathcoder_correct, mathcoder_mixed)
    ]
    hard = hard_pairs(hard_golds(data, sizes.hard))
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
    return path and RatedSet(path.name, labelled_file(path), 3, rounds=1)


def _hostile_table() -> Any:
    """The tests' own reader of the table, which no package holds."""
    spec = importlib.util.spec_from_file_location("hostile", _LOADER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# What a measure gives back: rows, tables and remarks.

Figures = dict[str, Any] | None
"""What a worker printed; None when it could not be run."""
MILLI = 1e3


@dataclass(frozen=True)
class Found:
    """The rows of the first table, tables of their own, and sentences under them."""

    rows: list[Row] = field(default_factory=list[Row])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])

    def __add__(self, other: Found) -> Found:
        return Found(self.rows + other.rows, self.tables + other.tables, self.notes + other.notes)


@dataclass(frozen=True)
class Measure:
    """A measure by the name `--only` takes."""

    name: str
    run: Callable[[Subjects, Sets], Found]


def figure(figures: Figures, name: str, *, times: float = 1.0) -> float | None:
    """One figure in another unit; None when there is none."""
    value = None if figures is None else figures[name]
    return None if value is None else value * times


# The peers of `mathematics.py`: two kinds of verifiers, and the library under both.

# What decides a verdict and its cost, alike for all three.
_MATH_PINS = ("latex2sympy2_extended==1.11.0", "sympy==1.14.0", "antlr4-python3-runtime==4.13.2")
_VERIFIERS_PINS = ("math-verify==0.9.0", *_MATH_PINS, "datasets==4.6.1", "pydantic==2.14.3")

THREADS = "verifiers 0.1.11"
PROCESSES = "verifiers 0.1.14"
BARE = "math-verify"

MATH_PEERS = (
    # Fifty threads of one process.
    Peer("verifiers", "0.1.11", _VERIFIERS_PINS, label=THREADS),
    # A pool of one process.
    Peer("verifiers", "0.1.14", _VERIFIERS_PINS, label=PROCESSES),
    # Called directly, in the main thread.
    Peer("math-verify", "0.9.0", _MATH_PINS, label=BARE),
)


# One face for every subject: check a pair, check many, say what was found.

# Imported by each subject's own interpreter; a subject's package is imported when it is asked for.
# A verdict is True, False, or None when the subject itself says that it could not decide.

Verdict = bool | None
Pairs = Sequence[tuple[str, str]]

# Nobody's fast path: every subject has its symbolic machinery running after these.
WARM_UP = [(f"{n}", rf"\int_0^{{\infty}} {n} e^{{-x}} \, dx") for n in range(1, 9)]


class Checker(Protocol):
    """What a worker needs of a subject."""

    tiers: Counter[str]
    """How many verdicts each of the subject's tiers gave, if it has any."""
    last: str
    """The latest verdict in the subject's own words, if it has any."""

    async def check(self, gold: str, answer: str) -> Verdict: ...

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        """All of them asked at once."""
        ...

    def close(self) -> None:
        """End every process and thread that was started."""
        ...


def checker_of(subject: str, *, timeout: float, warm_up: Pairs = WARM_UP) -> Checker:
    """The subject's checker, started and warm."""
    kinds = {"assay": AssayChecker, "math-verify": BareChecker}
    checker = kinds.get(subject, VerifiersChecker)(timeout)
    asyncio.run(checker.check_many(warm_up))
    return checker


def leave(checker: Checker) -> None:
    """End this process, though verifiers' threads may go on for ever and hold up its exit."""
    checker.close()
    sys.stdout.flush()
    os._exit(0)


class AssayChecker:
    """assay.math; all tiers, the process-wide pool."""

    def __init__(self, timeout: float) -> None:
        self.math: Any = importlib.import_module("assay.math")
        self.timeout = timeout
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        return self._found(await self.math.verify_async(gold, answer, timeout=self.timeout))

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        verdicts = await self.math.verify_many_async(pairs, timeout=self.timeout)
        return [self._found(verdict) for verdict in verdicts]

    def close(self) -> None:
        importlib.import_module("assay.isolation").shared_pool().close()

    def _found(self, verdict: Any) -> Verdict:
        self.tiers[verdict.tier] += 1
        self.last = verdict.status.replace("_", " ")
        return verdict.equal if verdict.decided else None


class VerifiersChecker:
    """verifiers' MathRubric through its own reward function.

    Its default parser looks for a box; a plain one hands over the answer as it is, and costs less.
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
        parse, seconds = self.module.parse, self.timeout
        return self.module.verify(
            parse(f"\\boxed{{{gold}}}", parsing_timeout=seconds),
            parse(f"\\boxed{{{answer}}}", parsing_timeout=seconds),
            timeout_seconds=seconds,
        )

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        return [await self.check(gold, answer) for gold, answer in pairs]

    def close(self) -> None:
        """Nothing was started."""


# Read a process and everything it started: CPU seconds, and who is there. Linux's /proc.

Result = TypeVar("Result")

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One that is alive, or dead and not waited for.

    Its seconds include those of the children it has waited for.
    """

    pid: int
    parent: int
    seconds: float


def seconds_so_far() -> float:
    """CPU seconds of this process and of all it started, the living and the dead."""
    return _own_seconds() + _seconds_below()


def seconds_of(work: Callable[[], Result]) -> tuple[Result, float]:
    """What the work gives, and its CPU seconds in this process and all below."""
    # Looking at other processes takes milliseconds itself: before the first look at our own clock
    # and after the last.
    below = _seconds_below()
    own = _own_seconds()
    result = work()
    spent = _own_seconds() - own
    return result, spent + _seconds_below() - below


def descendants(root: int | None = None) -> list[Process]:
    """All processes below this one (or `root`), parents before children."""
    by_parent: dict[int, list[Process]] = {}
    for process in _processes():
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [os.getpid() if root is None else root]
    while waiting:
        children = by_parent.get(waiting.pop(0), [])
        found += children
        waiting += [child.pid for child in children]
    return found


def _own_seconds() -> float:
    """Of this process, and of its children that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _seconds_below() -> float:
    return sum(process.seconds for process in descendants())


def _processes() -> Iterator[Process]:
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # Ended since it was listed.
        # The name, in parentheses, may hold blanks and parentheses of its own.
        fields = stat.rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))
        yield Process(int(folder.name), int(fields[1]), ticks / _TICKS)


# Check pairs with one subject and print cost and verdicts as one JSON line.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON: `subject`,
# `pairs` (a JSON file), `timeout`. The subject is imported and warm before the clock starts, on
# integrals that are in no set; the pairs themselves it has never seen.

_SIGNS: dict[Verdict, str] = {True: "1", False: "0", None: "?"}


def rate_measure(checker: Checker, pairs: Pairs) -> dict[str, Any]:
    """CPU seconds of this process and its children, and a character a verdict."""
    ready = seconds_so_far()
    checker.tiers.clear()
    gc.collect()
    verdicts, seconds = seconds_of(lambda: asyncio.run(checker.check_many(pairs)))
    return {
        "answers": len(verdicts),
        "cpu_seconds": seconds,
        "start_seconds": ready,
        "verdicts": "".join(_SIGNS[verdict] for verdict in verdicts),
        "tiers": dict(checker.tiers),
    }


def rate_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs = [(gold, answer) for gold, answer in json.loads(Path(task["pairs"]).read_text())]
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(rate_measure(checker, pairs)))
    leave(checker)


# Feel the pulse of the event loop while one subject checks a large batch.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON: `subject`,
# `pairs` and `probes` (JSON files), `door` (many or each), `timeout`. Prints one JSON line: the
# longest silence of a heartbeat, and how long single checks took that were asked meanwhile.

LOOP_BEAT_SECONDS = 0.001
PROBE_SECONDS = 0.002


async def loop_beat(gaps: list[float]) -> None:
    """Note how late each beat comes."""
    previous = time.perf_counter()
    while True:
        await asyncio.sleep(LOOP_BEAT_SECONDS)
        now = time.perf_counter()
        gaps.append(now - previous - LOOP_BEAT_SECONDS)
        previous = now


async def probe(checker: Checker, pairs: Pairs, asked: list[tuple[float, float]]) -> None:
    """Ask for one check after the other at a fixed pace, whether or not the last was answered."""

    async def ask(gold: str, answer: str) -> None:
        began = time.perf_counter()
        await checker.check(gold, answer)
        asked.append((began, time.perf_counter() - began))

    async with asyncio.TaskGroup() as group:
        for gold, answer in pairs:
            await asyncio.sleep(PROBE_SECONDS)
            group.create_task(ask(gold, answer))


async def loop_measure(checker: Checker, pairs: Pairs, probes: Pairs, door: str) -> dict[str, Any]:
    """One batch, the heart beating and the probes asking beside it."""
    gaps: list[float] = []
    asked: list[tuple[float, float]] = []
    heart = asyncio.create_task(loop_beat(gaps))
    await asyncio.sleep(0.1)
    gaps.clear()
    began = time.perf_counter()
    asking = asyncio.create_task(probe(checker, probes, asked))
    if door == "many":
        await checker.check_many(pairs)
    else:
        await asyncio.gather(*(checker.check(gold, answer) for gold, answer in pairs))
    ended = time.perf_counter()
    await asyncio.sleep(2 * LOOP_BEAT_SECONDS)  # for the beat that may be waiting
    longest = max(gaps)
    await asking
    heart.cancel()
    # A probe asked after the batch has no crowd to fight.
    latencies = sorted(latency for when, latency in asked if when <= ended)
    return {
        "wall_seconds": ended - began,
        "longest_gap_seconds": longest,
        "p99_seconds": latencies[int(len(latencies) * 0.99)] if latencies else None,
        "probes": len(latencies),
    }


def loop_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs, probes = (json.loads(Path(task[name]).read_text()) for name in ("pairs", "probes"))
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(asyncio.run(loop_measure(checker, pairs, probes, task["door"]))))
    leave(checker)


# Kill a subject's worker processes and see how soon, and whether, it answers again.

# Started in a fresh process by `harness.py`; its only argument is the task as JSON: `subject`,
# `times`, `timeout`. Prints one JSON line: milliseconds from the kill to the next verdict and the
# same check with all workers alive, each the middle one, and how many verdicts were right.


def starters() -> set[int]:
    """Processes that only start others, which has to be asked while those are alive."""
    alive = descendants()
    return {process.pid for process in alive} & {process.parent for process in alive}


def pair(number: int) -> tuple[str, str]:
    """A sum that was not asked before, so that it must be worked out; cheap for every engine."""
    return str(number * (number + 1) // 2), rf"\sum_{{k=1}}^{{{number}}} k"


async def measure(checker: Checker, times: int) -> dict[str, Any]:
    """Checks with all workers alive, then each right after all of them were killed."""
    spared = starters()
    undisturbed = [await timed(checker, number) for number in range(101, 101 + times)]
    disturbed: list[tuple[float, bool]] = []
    for number in range(501, 501 + times):
        for process in descendants():
            if process.pid not in spared:
                os.kill(process.pid, signal.SIGKILL)
        disturbed.append(await timed(checker, number))
    return {
        "check_seconds": median(seconds for seconds, _ in undisturbed),
        "replace_seconds": median(seconds for seconds, _ in disturbed),
        "right": sum(right for _, right in disturbed),
        "times": times,
    }


async def timed(checker: Checker, number: int) -> tuple[float, bool]:
    began = time.perf_counter()
    verdict = await checker.check(*pair(number))
    return time.perf_counter() - began, verdict is True


def replace_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(asyncio.run(measure(checker, task["times"]))))
    leave(checker)


# Double the size of hostile texts, and take the time that this process needs to say no to each.

# What reads a completion and what decides in the first two tiers runs in the caller, so it must be linear.

SMALLEST_TEXT, LARGEST_TEXT = 1 << 14, 1 << 20
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
"""By kind: what is repeated, and what closes each."""


def linear_main() -> None:
    from assay.checks import MathEqual
    from assay.math import MathOptions, verify

    rules, checks = MathOptions(symbolic=False, solved=True), (MathEqual(), MathEqual(strict=True))

    def seconds(text: str) -> float:
        began = time.process_time()
        for check in checks:
            read = check.read(text)
            verify("7", read if isinstance(read, str) else text, options=rules)
        verify("7", text, options=rules)
        verify(text, "7", options=rules)
        return time.process_time() - began

    seconds(r"So it is \boxed{\frac12}.")
    found: dict[str, list[float]] = {}
    for kind, (unit, closing) in LONG_TEXTS.items():
        size, found[kind] = SMALLEST_TEXT, []
        while size <= LARGEST_TEXT and sum(found[kind]) < TIMEOUT:
            times = size // len(unit + closing)
            found[kind].append(seconds(unit * times + closing * times))
            size *= 2
    print(json.dumps(found))


def measure_linear(subjects: Subjects, sets: Sets) -> Found:
    """Thirty kinds of hostile text, each twice as long as the one before, up to a mebibyte."""
    figures = subjects.measure("assay", "mathematics.py:linear")
    if figures is None:
        return Found(notes=["the time of long texts was not measured"])
    sizes = (LARGEST_TEXT // SMALLEST_TEXT).bit_length()
    done = {kind: taken for kind, taken in figures.items() if len(taken) == sizes}
    # Below a millisecond a clock tells growth from noise no more.
    growth = max((taken[-1] / max(taken[-3], 1e-3) for taken in done.values()), default=None)
    slowest = max((taken[-1] for taken in figures.values()), default=None)
    rows = [
        _counted(
            "kinds of hostile text read up to 1 MiB in the caller", len(done), least=len(LONG_TEXTS)
        ),
        Row(
            "the slowest of them at 1 MiB",
            figure({"s": slowest}, "s", times=MILLI),
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
    lines = tuple(
        (kind, *(f"{1000 * seconds:.1f}" for seconds in taken[::2]))
        for kind, taken in figures.items()
    )
    headings = (
        "CPU milliseconds",
        *(f"{SMALLEST_TEXT * 4**step >> 10} KiB" for step in range((sizes + 1) // 2)),
    )
    return Found(
        rows,
        [
            Table(
                "Hostile texts of doubled size, read and refused four times each:", headings, lines
            )
        ],
    )


# Give hostile answers to one subject, and tell each verdict as it comes.

# Started in a fresh process by `math_watch.py`, which may have to kill it; its only argument is the
# task as JSON: `subject`, `pairs` (a JSON file), `timeout`, `way` and `limit`. Prints JSON lines:
# `{"beat": s}` while the event loop lives, `{"case": n, "verdict": v, "seconds": s}` for each answer,
# and a last line when all is done. The ways:

# - `together`: all pairs at once in one event loop,
# - `alone`: one after the other in one event loop,
# - `apart`: each in a forked process of its own, killed after `limit` seconds.

BEAT_SECONDS = 0.25
LOOK_SECONDS = 0.02


def tell(**news: Any) -> None:
    """One line, at once: there may be no later."""
    print(json.dumps(news), flush=True)


async def beat() -> None:
    while True:
        tell(beat=time.monotonic())
        await asyncio.sleep(BEAT_SECONDS)


async def ask(checker: Checker, number: int, gold: str, answer: str) -> None:
    """One check; whatever it raises is told too."""
    began = time.perf_counter()
    try:
        verdict: Any = await checker.check(gold, answer)
    except Exception as error:  # noqa: BLE001 - the outcome is what is measured
        verdict = f"{type(error).__name__}: {error}"[:200]
    seconds = time.perf_counter() - began
    tell(case=number, verdict=verdict, seconds=seconds, words=checker.last)


async def together(checker: Checker, pairs: Pairs) -> None:
    heart = asyncio.create_task(beat())
    await asyncio.gather(*(ask(checker, n, *pair) for n, pair in enumerate(pairs)))
    heart.cancel()


async def alone(checker: Checker, pairs: Pairs) -> None:
    heart = asyncio.create_task(beat())
    for number, pair in enumerate(pairs):
        await ask(checker, number, *pair)
    heart.cancel()


def in_one_process(task: dict[str, Any], pairs: Pairs) -> None:
    """Ask them all, then close and count what stays."""
    threads = threading.active_count()
    checker = checker_of(task["subject"], timeout=task["timeout"])
    asyncio.run({"together": together, "alone": alone}[task["way"]](checker, pairs))
    checker.close()
    tell(
        peak_bytes=peak_bytes(),
        processes_left=len(descendants()),
        threads_left=threading.active_count() - threads,
    )


def peak_bytes() -> int:
    """Of the largest process that was started and has ended; of this one when there was none."""
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return 1024 * (started or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def apart(task: dict[str, Any], pairs: Pairs) -> None:
    """Fork for each pair once the packages are loaded; a fresh import each would take minutes."""
    subject, timeout, half = task["subject"], task["timeout"], len(WARM_UP) // 2
    checker_of(subject, timeout=timeout, warm_up=WARM_UP[:half]).close()
    for number, pair in enumerate(pairs):
        child = os.fork()
        if child == 0:
            os.setsid()
            # The other half: what the parent was asked may be remembered here.
            checker = checker_of(subject, timeout=timeout, warm_up=WARM_UP[half:])
            asyncio.run(ask(checker, number, *pair))
            os._exit(0)
        if not ended(child, task["limit"]):
            tell(case=number, verdict=f"no answer in {task['limit']} s", seconds=task["limit"])
        kill_group(child)
    tell(finished=True)


def ended(child: int, seconds: float) -> bool:
    """Whether the child ended by itself in time; it is gone afterwards in any case."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(LOOK_SECONDS)
    kill_group(child)
    os.waitpid(child, 0)
    return False


def kill_group(leader: int) -> None:
    """The child's own pool may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def hostile_main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs: Pairs = json.loads(Path(task["pairs"]).read_text())
    if task["way"] == "apart":
        apart(task, pairs)
    else:
        in_one_process(task, pairs)


# Run a worker that may freeze, read what it tells, and end it from outside when it must be.

_STEP_SECONDS = 0.25
_GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class Watched:
    """What a worker told, and how it came to its end."""

    lines: list[dict[str, Any]]
    end: str
    """`ended` by itself, `frozen` when it was silent for too long, or `late`."""
    seconds: float
    silence: float
    """The longest time without a line."""
    left: int
    """Processes it started that were still alive a second after it had ended."""

    @property
    def verdicts(self) -> dict[int, Any]:
        return {line["case"]: line["verdict"] for line in self.lines if "case" in line}

    @property
    def words(self) -> dict[int, str]:
        """Verdicts in the subject's own words, where it has any."""
        return {line["case"]: line["words"] for line in self.lines if line.get("words")}

    @property
    def seconds_of(self) -> dict[int, float]:
        return {line["case"]: line["seconds"] for line in self.lines if "case" in line}

    @property
    def last(self) -> dict[str, Any]:
        """The closing line; empty when there was none."""
        done = self.lines and not {"case", "beat"} & self.lines[-1].keys()
        return self.lines[-1] if done else {}

    @property
    def remains(self) -> tuple[int, int] | None:
        """Processes and threads that were left; None when the worker never got so far."""
        if not self.last:
            return None
        return self.left + self.last["processes_left"], self.last["threads_left"]


def watch(
    interpreter: Path, name: str, task: dict[str, Any], *, quiet: float, total: float
) -> Watched:
    """Run it until it ends, is silent for `quiet` seconds or has had `total` seconds.

    Silence counts from the first line: before it, packages are imported.
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
        _watch_end(process, descendants(process.pid))


def _listen(process: subprocess.Popen[bytes], *, quiet: float, total: float) -> Watched:
    assert process.stdout is not None
    began = heard = time.monotonic()
    buffer, lines, silence, end = b"", list[dict[str, Any]](), 0.0, "ended"
    family: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            exited = process.poll() is not None
            text = b""
            if selector.select(_STEP_SECONDS):
                text = os.read(process.stdout.fileno(), 1 << 16)
            now = time.monotonic()
            buffer += text
            *whole, buffer = buffer.split(b"\n")
            new = [json.loads(line) for line in whole if line.startswith(b"{")]
            if new:
                silence = max(silence, now - heard) if lines else 0.0
                heard = now
                lines += new
            family |= {member.pid for member in descendants(process.pid)}
            if exited and not text:
                break
            if lines and now - heard > quiet:
                end = "frozen"
                break
            if now - began > total:
                end = "late"
                break
    left = _alive(family) if end == "ended" else 0
    return Watched(lines, end, time.monotonic() - began, max(silence, now - heard), left)


def _alive(family: set[int]) -> int:
    deadline = time.monotonic() + _GRACE_SECONDS
    while family and time.monotonic() < deadline:
        time.sleep(0.05)
        family = {pid for pid in family if Path(f"/proc/{pid}").exists()}
    return len(family)


def _watch_end(process: subprocess.Popen[bytes], family: list[Any]) -> None:
    for pid in [process.pid, *(member.pid for member in family)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


# Answers a CPU second, and how many of them are right.

SUBJECTS = ("assay", THREADS, PROCESSES, BARE)
TIERS = ("normalize", "algebra", "symbolic")
TIMEOUT = 5.0
"""Seconds, which is everybody's default."""


def measure_rates(subjects: Subjects, sets: Sets) -> Found:
    """Every set with every subject, in turn, in fresh processes."""
    measured = {rated.name: _in_turn(subjects, sets, rated) for rated in sets.rated}
    rows = [row for rated in sets.rated for row in _rate_rows(rated, measured[rated.name])]
    right = [_right_row(rated, measured[rated.name]) for rated in (sets.gsm8k, sets.qwen)]
    starts = [_start_row(measured[sets.gsm8k.name], peer) for peer in (THREADS, PROCESSES, BARE)]
    shares = [_share_row(rated, measured[rated.name]["assay"]) for rated in sets.rated]
    labelled = [rated for rated in sets.rated if _is_labelled(rated)]
    tables = [
        Table(
            "Verdicts against labels (yes/no: the subject's verdict; right or wrong: the label):",
            ("set", "subject", "right", "yes right", "yes wrong", "no wrong", "no right"),
            tuple(
                (rated.name, subject, *_confusion(rated.pairs, measured[rated.name][subject]))
                for rated in labelled
                for subject in SUBJECTS
            ),
        ),
        Table(
            "Which tier of assay decided:",
            ("set", "answers", "distinct", *TIERS),
            tuple(_tier_line(rated, measured[rated.name]["assay"]) for rated in sets.rated),
        ),
    ]
    return Found([*rows, *right, *starts, *shares], tables)


def _in_turn(subjects: Subjects, sets: Sets, rated: RatedSet) -> dict[str, Figures]:
    """The cheapest round of each, so that a slow moment does not fall on one subject alone."""
    file = sets.file(rated.pairs)
    rounds = [
        {
            subject: subjects.measure(subject, "mathematics.py:rate", pairs=file, timeout=TIMEOUT)
            for subject in SUBJECTS
        }
        for _ in range(min(sets.sizes.rounds, rated.rounds))
    ]
    return {subject: _cheapest([figures[subject] for figures in rounds]) for subject in SUBJECTS}


def _cheapest(rounds: list[Figures]) -> Figures:
    known = [figures for figures in rounds if figures is not None]
    return min(known, key=lambda figures: figures["cpu_seconds"], default=None)


def _rate_rows(rated: RatedSet, measured: dict[str, Figures]) -> list[Row]:
    label, unit = f"{rated.name}, {len(rated.pairs):,} answers", "answers/CPU s"
    target = Target(rated.target, "at least")
    return [
        Row(label, _rate(measured["assay"]), _rate(measured[peer]), unit, peer, held)
        for peer, held in (
            (THREADS, target),
            (PROCESSES, target),
            (BARE, target if rated.is_like_math else None),
        )
    ]


def _rate(figures: Figures) -> float | None:
    return None if figures is None else figures["answers"] / figures["cpu_seconds"]


def _right_row(rated: RatedSet, measured: dict[str, Figures]) -> Row:
    ours, theirs = (_right(rated.pairs, measured[subject]) for subject in ("assay", THREADS))
    return Row(f"{rated.name}, right", ours, theirs, "%", THREADS, _accuracy_target(rated))


def _accuracy_target(rated: RatedSet) -> Limit | None:
    return Limit(100.0, "at least", "%") if rated.name == "GSM8K" else None


def _right(pairs: list[Pair], figures: Figures) -> float | None:
    if figures is None:
        return None
    right = sum(
        (verdict == "1") == pair.label
        for pair, verdict in zip(pairs, figures["verdicts"], strict=True)
    )
    return 100.0 * right / len(pairs)


def _start_row(measured: dict[str, Figures], peer: str) -> Row:
    ours, theirs = (
        figure(measured[subject], "start_seconds", times=MILLI) for subject in ("assay", peer)
    )
    return Row("start: import, workers, eight integrals, CPU", ours, theirs, "ms", peer)


def _is_labelled(rated: RatedSet) -> bool:
    return all(pair.label is not None for pair in rated.pairs)


def _confusion(pairs: list[Pair], figures: Figures) -> tuple[str, ...]:
    """A share, then true and false positives, false and true negatives."""
    if figures is None:
        return ("not measured", "", "", "", "")
    found = [
        (verdict == "1", pair.label)
        for pair, verdict in zip(pairs, figures["verdicts"], strict=True)
    ]
    cells = [
        found.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))
    ]
    share = 100 * (cells[0] + cells[3]) / len(pairs)
    return (f"{share:.2f} %", *map(str, cells))


def _share_row(rated: RatedSet, figures: Figures) -> Row:
    """How many answers of a set only the symbolic tier decides."""
    share = (
        None if figures is None else 100 * figures["tiers"].get("symbolic", 0) / len(rated.pairs)
    )
    limit = Limit(2.0, "at most", "%") if rated.is_like_math else None
    return Row(f"{rated.name}, decided by math-verify", share, None, "%", target=limit)


def _tier_line(rated: RatedSet, figures: Figures) -> tuple[str, ...]:
    distinct = len({(pair.gold, pair.answer) for pair in rated.pairs})
    tiers: dict[str, int] = {} if figures is None else figures["tiers"]
    shares = (f"{100 * tiers.get(tier, 0) / len(rated.pairs):.1f} %" for tier in TIERS)
    return (rated.name, f"{len(rated.pairs):,}", f"{distinct:,}", *shares)


# Whether the event loop keeps its pulse, workers come back, and load leaves verdicts alone.

BUSY_LOOPS = 4
# Right, and one to two seconds of work for a symbolic engine: the first to change when time is
# counted by the clock on the wall.
_SLOW = [
    Pair(r"\frac{\pi}{2}", r"\int_0^{\infty} \frac{1}{1+x^2} \, dx"),
    Pair(r"\frac{\pi}{4}", r"\int_0^{\infty} \frac{1}{4+x^2} \, dx"),
    Pair(r"\frac{\pi}{6}", r"\int_0^{\infty} \frac{1}{9+x^2} \, dx"),
    Pair(r"\frac{1}{2}", r"\int_0^{\infty} e^{-x} \sin x \, dx"),
]


def measure_loop(subjects: Subjects, sets: Sets) -> Found:
    """A heartbeat beside a large batch, and single checks asked meanwhile."""
    batch = large_batch(sets)
    files = {"pairs": sets.file(batch), "probes": sets.file(probes(sets))}

    def beside(subject: str, door: str = "many") -> Figures:
        worker = "mathematics.py:loop"
        return subjects.measure(subject, worker, **files, door=door, timeout=TIMEOUT)

    ours, each, *theirs = (
        beside("assay"),
        beside("assay", "each"),
        beside(THREADS),
        beside(PROCESSES),
    )
    size = f"{len(batch):,} checks"
    rows: list[Row] = []
    for peer, figures in zip((THREADS, PROCESSES), theirs, strict=True):
        rows += [
            Row(
                f"longest silence of the event loop, {size}",
                figure(ours, "longest_gap_seconds", times=MILLI),
                figure(figures, "longest_gap_seconds", times=MILLI),
                "ms",
                peer,
                Limit(20, "at most", "ms"),
            ),
            Row(
                f"one check while {size} run, p99",
                figure(ours, "p99_seconds", times=MILLI),
                figure(figures, "p99_seconds", times=MILLI),
                "ms",
                peer,
                Limit(50, "at most", "ms"),
            ),
        ]
    rows.append(
        Row(
            f"longest silence, {size} by verify_async at once",
            figure(each, "longest_gap_seconds", times=MILLI),
            None,
            "ms",
        )
    )
    return Found(rows)


def large_batch(sets: Sets) -> list[Pair]:
    """All real answers, filled up with GSM8K answers against the next problems' golds."""
    real = [
        pair for rated in (sets.gsm8k, sets.qwen, sets.passed, sets.mixed) for pair in rated.pairs
    ]
    golds = [pair.gold for pair in sets.gsm8k.pairs]
    shifted = [
        Pair(golds[(position + 4) % len(golds)], pair.answer)
        for position, pair in enumerate(sets.gsm8k.pairs)
    ]
    batch = (real + shifted * sets.sizes.batch)[: sets.sizes.batch]
    random.Random(SEED).shuffle(batch)
    return batch


def probes(sets: Sets) -> list[Pair]:
    """Equal pairs that need no symbolic tier."""
    cheap = [pair for pair in sets.good if r"\int" not in pair.answer]
    return cheap[: sets.sizes.probes]


def measure_replacement(subjects: Subjects, sets: Sets) -> Found:
    """Kill all workers; the next verdict must wait for a new one."""
    ours, theirs = (
        subjects.measure(subject, "mathematics.py:replace", times=sets.sizes.kills, timeout=TIMEOUT)
        for subject in ("assay", PROCESSES)
    )
    rows = [
        Row(
            "workers killed, time to the next symbolic verdict",
            figure(ours, "replace_seconds", times=MILLI),
            None,
            "ms",
            target=Limit(50, "at most", "ms"),
        ),
        Row(
            "the same check with its workers alive",
            figure(ours, "check_seconds", times=MILLI),
            None,
            "ms",
        ),
    ]
    line = ("right after all workers were killed", _of(ours), _of(theirs))
    table = Table(
        "Workers killed, then one right answer, several times:", ("", "assay", PROCESSES), (line,)
    )
    return Found(rows, [table])


def _of(figures: Figures) -> str:
    return "not measured" if figures is None else f"{figures['right']} of {figures['times']} right"


def measure_load(subjects: Subjects, sets: Sets) -> Found:
    """The same batch on an idle machine and beside busy loops."""
    pairs = mixed_batch(sets)
    file = sets.file(pairs)

    def verdicts(subject: str) -> str | None:
        figures = subjects.measure(subject, "mathematics.py:rate", pairs=file, timeout=TIMEOUT)
        return None if figures is None else figures["verdicts"]

    idle = {subject: verdicts(subject) for subject in ("assay", THREADS, PROCESSES)}
    with busy_loops():
        busy = {subject: verdicts(subject) for subject in idle}
    changed = {subject: _changed(idle[subject], busy[subject]) for subject in idle}
    label = f"verdicts changed by {BUSY_LOOPS} busy loops, {len(pairs)} answers"
    return Found(
        [
            Row(label, changed["assay"], changed[peer], "", peer, Limit(0, "at most", ""))
            for peer in (THREADS, PROCESSES)
        ]
    )


def mixed_batch(sets: Sets) -> list[Pair]:
    """A third each of numbers, model output and hard expressions, and a few slow ones."""
    rng = random.Random(SEED)
    share = sets.sizes.mixed // 3
    parts = [
        rng.sample(rated.pairs, min(share, len(rated.pairs)))
        for rated in (sets.gsm8k, sets.mixed, sets.hard)
    ]
    batch = [*_SLOW, *(pair for part in parts for pair in part)]
    rng.shuffle(batch)
    return batch


@contextmanager
def busy_loops() -> Generator[None]:
    """So many processes that do nothing but want a processor."""
    command = (sys.executable, "-c", "while True: pass")
    loops = [subprocess.Popen(command) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _changed(before: str | None, after: str | None) -> int | None:
    if before is None or after is None:
        return None
    return sum(one != other for one, other in zip(before, after, strict=True))


# What hostile answers do to a subject and to the good answers beside them.

WORKER = "mathematics.py:hostile"
DEADLINE = 1.0
"""Seconds of work that assay gives each hostile answer here. verifiers has its default of five."""
APART_SECONDS = 12.0
"""How long a single answer may take: more than twice verifiers' own limit."""
MEBIBYTE = 1 << 20

# One of each kind that stops somebody, most telling first.
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


def measure_hostile(subjects: Subjects, sets: Sets) -> Found:
    """One by one, then together with good answers, then a few of them apart for everybody."""
    return _one_by_one(subjects, sets) + _together(subjects, sets) + _apart(subjects, sets)


def _one_by_one(subjects: Subjects, sets: Sets) -> Found:
    """All of the table through assay: the time each takes beyond its deadline."""
    cases = sets.hostile[:: max(1, len(sets.hostile) // sets.sizes.alone)]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    seen = _watched(subjects, sets, pairs, ("assay",), way="alone", total=900)["assay"]
    fooled = [
        case.name
        for number, case in enumerate(cases)
        if seen.verdicts.get(number) is True and case.expected is not True
    ]
    notes = [f"hostile answers that assay called equal: {', '.join(fooled)}"] if fooled else []
    slowest = max(seen.seconds_of.values(), default=0.0)
    label = f"{len(cases)} hostile answers one by one"
    beyond = f"{label}, the slowest beyond its deadline of {DEADLINE:.0f} s"
    return Found(
        [
            _counted(f"{label}, answered", len(seen.verdicts), least=len(cases)),
            Row(
                beyond,
                max(slowest - DEADLINE, 0.0) * MILLI,
                None,
                "ms",
                target=Limit(300, "at most", "ms"),
            ),
            _counted(f"{label}, wrongly called equal", len(fooled), most=0),
        ],
        [],
        notes,
    )


def _together(subjects: Subjects, sets: Sets) -> Found:
    """A shuffled batch of hostile and good answers, asked at once in one event loop."""
    rng = random.Random(SEED)
    cases = rng.sample(sets.hostile, min(sets.sizes.hostile, len(sets.hostile)))
    batch = [Pair(case.gold, case.answer) for case in cases] + sets.good[: sets.sizes.hostile]
    rng.shuffle(batch)
    total = sets.sizes.patience
    ours = _watched(subjects, sets, batch, ("assay",), way="together", total=900)
    peers = _watched(subjects, sets, batch, (THREADS, PROCESSES), way="together", total=total)
    seen = ours | peers
    good = [number for number, pair in enumerate(batch) if pair.label]
    right = {
        subject: sum(watched.verdicts.get(number) is True for number in good)
        for subject, watched in seen.items()
    }
    lines = {
        "answered": [f"{len(watched.verdicts)} of {len(batch)}" for watched in seen.values()],
        "good answers right": [f"{right[subject]} of {len(good)}" for subject in seen],
        "its end": [_end(watched) for watched in seen.values()],
        "longest silence of the event loop": [f"{w.silence:.1f} s" for w in seen.values()],
        "peak memory of a worker": [_memory(watched) for watched in seen.values()],
        "processes and threads left": [_left(watched) for watched in seen.values()],
    }
    table = Table(
        f"{len(batch) - len(good)} hostile and {len(good)} good answers at once:",
        ("", *seen),
        tuple((name, *cells) for name, cells in lines.items()),
    )
    left = sum(seen["assay"].remains) if seen["assay"].remains else None
    return Found(
        [
            _counted("good answers right beside hostile ones", right["assay"], least=len(good)),
            _counted("processes and threads left behind", left, most=0),
            Row(
                "peak memory of a worker, hostile answers",
                seen["assay"].last.get("peak_bytes", 0) / MEBIBYTE or None,
                None,
                "MiB",
                target=Limit(1024, "at most", "MiB"),
            ),
        ],
        [table],
    )


def _apart(subjects: Subjects, sets: Sets) -> Found:
    """A few cases, each in a process of its own."""
    by_name = {case.name: case for case in sets.hostile}
    cases = [by_name[name] for name in SAMPLE[: sets.sizes.apart]]
    pairs = [Pair(case.gold, case.answer) for case in cases]
    ours = _watched(subjects, sets, pairs, ("assay",), way="apart", total=900)
    peers = _watched(subjects, sets, pairs, (THREADS, PROCESSES), way="apart", total=900)
    seen = ours | peers
    truth = {True: "equal", False: "different", None: "none"}
    lines = [
        (case.name, truth[case.expected], *(_told(watched, number) for watched in seen.values()))
        for number, case in enumerate(cases)
    ]
    title = "Single hostile answers, each in a process of its own:"
    return Found([], [Table(title, ("answer", "truth", *seen), tuple(lines))])


def _watched(
    subjects: Subjects,
    sets: Sets,
    pairs: list[Pair],
    names: tuple[str, ...],
    *,
    way: str,
    total: float,
) -> dict[str, Watched]:
    """Each subject that can be run, side by side: what happens is of interest, not what it costs."""
    file = sets.file(pairs)

    def one(subject: str) -> Watched:
        subjects.say(f"{WORKER} {subject}: {len(pairs)} pairs, {way}")
        task: dict[str, Any] = {
            "subject": subject,
            "pairs": file,
            "timeout": DEADLINE if subject == "assay" else TIMEOUT,
            "way": way,
            "limit": APART_SECONDS,
        }
        return watch(subjects.interpreters[subject], WORKER, task, quiet=60, total=total)

    known = [subject for subject in names if subject in subjects.interpreters]
    with ThreadPoolExecutor() as threads:
        return dict(zip(known, threads.map(one, known), strict=True))


def _counted(label: str, count: int | None, *, least: int = 0, most: int | None = None) -> Row:
    limit = Limit(least, "at least", "") if most is None else Limit(most, "at most", "")
    return Row(label, count, None, "", target=limit)


def _end(watched: Watched) -> str:
    words = {
        "ended": "by itself",
        "frozen": "frozen, killed from outside",
        "late": "unfinished, killed from outside",
    }
    return f"{words[watched.end]} after {watched.seconds:.0f} s"


def _memory(watched: Watched) -> str:
    peak = watched.last.get("peak_bytes")
    return "not known" if peak is None else f"{peak / MEBIBYTE:.0f} MiB"


def _left(watched: Watched) -> str:
    return "{} and {}".format(*watched.remains) if watched.remains else "not known"


def _told(watched: Watched, number: int) -> str:
    verdict = watched.verdicts.get(number, "died")
    if isinstance(verdict, str):
        return verdict
    words = watched.words.get(number, "equal" if verdict else "not equal")
    return f"{words}, {watched.seconds_of[number]:.2f} s"


# The six measures of `mathematics.py`, by name.

MEASURES = (
    Measure("rates", measure_rates),
    Measure("loop", measure_loop),
    Measure("replacement", measure_replacement),
    Measure("load", measure_load),
    Measure("hostile", measure_hostile),
    Measure("linear", measure_linear),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [m for m in MEASURES if not options.only or m.name in options.only]
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            sets = load_sets(find_data(options.data), options.hard, Path(folder), sizes)
            found = run(chosen, sets)
        except DataError as error:
            say(f"no data: {error}")
            return 2
        except KeyboardInterrupt:
            say("stopped; nothing was saved")
            return 130
    tables = [as_table(found.rows), *found.tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in found.notes:
        print(f"note: {note}")
    save_results("mathematics", tables, found.notes, options, peers=MATH_PEERS)
    return 0


def run(measures: Sequence[Measure], sets: Sets) -> Found:
    """What all measures found, and a sentence for everything that could not be measured."""
    names = [peer.name for peer in MATH_PEERS]
    installed = install(names, say=say, peers=MATH_PEERS)
    subjects = all_subjects(installed.interpreters, say=say)
    found = Found([], [], list(installed.failures))
    for measure in measures:
        began = time.monotonic()
        found = found + measure.run(subjects, sets)
        say(f"{measure.name}: {time.monotonic() - began:.0f} s")
    return found + Found([], [], subjects.notes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mathematics.py", description="Measure assay.math against verifiers and math-verify."
    )
    add_options(parser, [measure.name for measure in MEASURES])
    parser.add_argument(
        "--data", metavar="FOLDER", help=f"the data; else ${VARIABLE}, else ../shared/data"
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
