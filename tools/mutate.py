"""Change one line of the source at a time, and see whether the tests notice.

    python tools/mutate.py src/assay/math src/assay/engine --count 20 [--seed 1] [--at-least 0.9]
    python tools/mutate.py src/assay/math/algebra.py:41    every change of one line
    python tools/mutate.py src/assay/math --jobs 2 --slow  two at a time; what the quick tests miss goes to the slow ones

Lines are drawn at random from the files and folders given. Each change goes into a copy of the tree, where the tests
of that part run, nearest first, until one fails. What no test notices is printed as a diff, and is a test to write, or a
line to delete. Some changes are right as well (a cache that is never asked, a bound that nothing reaches): look first.
"""

import argparse
import ast
import copy
import difflib
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "assay"
CORE = [
    "tests/test_rubric.py",
    "tests/test_aggregation.py",
    "tests/test_structure.py",
    "tests/test_group.py",
    "tests/test_call.py",
    "tests/test_state.py",
    "tests/test_unscored.py",
    "tests/test_advantage.py",
    "tests/test_messages.py",
    "tests/test_report.py",
    "tests/test_criterion.py",
    "tests/test_independent.py",
    "tests/test_hostile_input.py",
]
TESTS = {
    "": CORE,
    "math": [
        "tests/math/test_answers.py",
        "tests/math/test_exact.py",
        "tests/math/test_rules.py",
        "tests/math/test_verify.py",
        "tests/math/test_tiers.py",
        "tests/math/test_hostile.py",
        "tests/presets/test_math_rubric.py",
        "tests/cli/test_math.py",
    ],
    "checks": ["tests/checks", "tests/loading", "tests/test_docs.py"],
    "loading": ["tests/loading", "tests/cli/test_rubric.py", "tests/compat"],
    "models": ["tests/models", "tests/graders", "tests/cache"],
    "graders": [
        "tests/graders",
        "tests/presets/test_judge_rubric.py",
        "tests/trust",
        "tests/probe",
        "tests/suggest",
        "tests/peers",
    ],
    "runs": [
        "tests/runs",
        "tests/envs",
        "tests/cli/test_score.py",
        "tests/cli/test_eval.py",
        "tests/backends",
    ],
    "trust": ["tests/trust", "tests/cli/test_golden.py", "tests/viewer"],
    "lint": ["tests/trust", "tests/lint", "tests/cli"],
    "probe": ["tests/probe", "tests/cli/test_probe.py"],
    "suggest": ["tests/suggest", "tests/cli/test_suggest.py"],
}
"""The tests of a package under `src/assay`, nearest first; "" is the root. Others have `tests/<package>` and the core's."""

FARTHER = {
    "": [
        "tests/test_every_way.py",
        "tests/properties",
        "tests/loading",
        "tests/peers",
        "tests/seeds",
        "tests/presets",
        "tests/envs",
        "tests/compat",
        "tests/test_public.py",
        "tests/isolation/test_criterion.py",
        "tests/graders",
        "tests/test_concurrency.py",
    ],
}
"""Tests that go through a package as well: for what the nearest do not notice, since to collect them takes a while."""

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


PLUGINS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "pytest_asyncio.plugin",
    "-p",
    "assay.integrations.pytest_plugin",
)
NO_TESTS = 5
"""What pytest exits with when no test has the marks asked for."""

GUARDS = ("strict", "frozen", "slots", "maxsize")
"""Options of `zip`, `dataclass` and caches that raise on a mistake in our own code, or say how much is kept."""


@dataclass(frozen=True)
class Mutant:
    """One change to one file."""

    path: Path
    line: int
    kind: str
    before: str
    text: str
    """The whole file, and the same changed."""

    @property
    def where(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def diff(self) -> str:
        before, after = self.before.splitlines(), self.text.splitlines()
        lines = difflib.unified_diff(before, after, lineterm="", n=0)
        return "\n".join(
            f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@"))
        )


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change that is known for a file."""
    source = path.read_text()
    tree = ast.parse(source)
    passed_over = {id(inner) for node in _not_run(tree) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        for kind, old, new in _changes(node):
            text = _replaced(
                source,
                old,
                f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new),
            )
            yield Mutant(path, old.lineno, kind, source, text)


def _not_run(tree: ast.AST) -> Iterator[ast.AST]:
    """What tests cannot be expected to notice: annotations, docstrings, guards, and what is for type checkers.

    And what stands in an f-string, where columns are not those of the file before Python 3.12.
    """
    for node in ast.walk(tree):
        if (
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
            or isinstance(node, ast.JoinedStr)
        ):
            yield node
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.keyword) and node.arg in GUARDS:
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.returns is not None:
                yield node.returns
            if any("overload" in ast.dump(decorator) for decorator in node.decorator_list):
                yield node


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    """The changes to one node: what it is called, what is replaced, and by what."""
    changed = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        changed.ops = [OPPOSITES[type(node.ops[0])]()]  # type: ignore[attr-defined]
        yield "comparison turned round", node, changed
    elif isinstance(node, ast.BoolOp):
        changed.op = OPPOSITES[type(node.op)]()  # type: ignore[attr-defined]
        yield "and/or swapped", node, changed
    elif isinstance(node, ast.BinOp) and type(node.op) in OPPOSITES and not _is_text(node):
        changed.op = OPPOSITES[type(node.op)]()  # type: ignore[attr-defined]
        yield "operator swapped", node, changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant changed", node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        larger = node.value + 1
        yield (
            "constant changed",
            node,
            ast.Constant(larger if larger != node.value else node.value * 2),
        )
    elif isinstance(node, ast.Return) and node.value is not None and not _is_false(node.value):
        yield "nothing returned", node, ast.Return(ast.Constant(None))
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(
        node.test, ast.Compare | ast.UnaryOp
    ):
        yield "condition turned round", node.test, ast.UnaryOp(ast.Not(), node.test)


def _is_false(node: ast.expr) -> bool:
    """Whether a value is as false as nothing is, so that a condition could not tell them apart."""
    return isinstance(node, ast.Constant) and not node.value


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str)
        for side in (node.left, node.right)
    )


def _replaced(source: str, node: ast.expr | ast.stmt, new: str) -> str:
    """The source with the text of a node changed. Columns count bytes."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    whole = source.encode()
    return (whole[:start] + new.encode() + whole[end:]).decode()


def drawn(targets: list[str], count: int, seed: int) -> list[Mutant]:
    """So many changes, no two of one line; all changes of a line where one is named."""
    chosen: list[Mutant] = []
    pool: dict[tuple[Path, int], list[Mutant]] = {}
    for target in targets:
        name, _, line = target.partition(":")
        path = (Path.cwd() / name).resolve()
        if not path.exists():
            sys.exit(
                f"{name} is not there: name files and folders under {SOURCE.relative_to(ROOT)}"
            )
        for file in (
            sorted(path.glob("*.py")) if path == SOURCE else sorted(path.rglob("*.py")) or [path]
        ):
            for mutant in mutants_of(file):
                if line and mutant.line == int(line):
                    chosen.append(mutant)
                elif not line:
                    pool.setdefault((file, mutant.line), []).append(mutant)
    draw = random.Random(seed)
    places = draw.sample(sorted(pool), min(count, len(pool)))
    return chosen + [draw.choice(pool[place]) for place in places]


def tests_of(path: Path) -> list[list[str]]:
    """The tests for a file, nearest first: each list is run when the one before has noticed nothing."""
    parts = path.relative_to(SOURCE).parts
    package = parts[0] if len(parts) > 1 else ""
    named = [TESTS.get(package) or [f"tests/{package}", *CORE], FARTHER.get(package, [])]
    there = [[test for test in tests if (ROOT / test).exists()] for tests in named]
    return [tests for tests in there if tests]


def copied(folder: Path) -> Path:
    """The tree as git knows it, with what has changed since."""
    tree = folder / "tree"
    names = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def outcome(
    tree: Path, tests: list[str], seconds: float, *, marked: str, show: bool = False
) -> str:
    """What tests with these marks say: `passed`, `failed`, or `too slow` when they do not end in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", *PLUGINS, *tests, "-m", marked]
    environment = os.environ | {
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        # The plugins of every package that is installed take longer to import than most tests take.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    output = None if show else subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=output, stderr=output, start_new_session=True
    ) as running:
        try:
            return "passed" if running.wait(seconds) in (0, NO_TESTS) else "failed"
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # with the workers that tests have started
            return "too slow"


class Trees:
    """Copies of the tree, one for each mutant that is tried at the same time."""

    def __init__(self, folder: Path, count: int, *, slow: bool) -> None:
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(count):
            self._free.put(copied(folder / str(number)))
        self._marks = ["not slow", "slow"] if slow else ["not slow"]
        self._usual: dict[tuple[str, ...], float] = {}

    def measure(self, tests: list[str]) -> None:
        """Run tests without any change, for how long they take."""
        tree, started = self._free.get(), time.monotonic()
        for marked in self._marks:
            if outcome(tree, tests, 3600, marked=marked, show=True) != "passed":
                sys.exit(f"the tests fail without any change: {' '.join(tests)}")
        self._usual[tuple(tests)] = time.monotonic() - started
        self._free.put(tree)

    def tried(self, mutant: Mutant) -> tuple[Mutant, str, float]:
        """A mutant, what the tests say of it, and after how many seconds."""
        tree, started, said = self._free.get(), time.monotonic(), ""
        file = tree / mutant.path.relative_to(ROOT)
        file.write_text(mutant.text)
        for marked, tests in product(self._marks, tests_of(mutant.path)):
            said = outcome(tree, tests, 60 + 3 * self._usual[tuple(tests)], marked=marked)
            if said != "passed":
                break
        file.write_text(mutant.before)
        self._free.put(tree)
        return mutant, said, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="+", help="files and folders of src/assay, or FILE:LINE")
    parser.add_argument("--count", type=int, default=20, help="how many lines to change")
    parser.add_argument("--seed", type=int, default=0, help="which lines are drawn")
    parser.add_argument(
        "--slow", action="store_true", help="run the slow tests too, where the others pass"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="how many changes to try at the same time"
    )
    parser.add_argument(
        "--at-least", type=float, default=0.0, help="exit with 1 when a smaller share is noticed"
    )
    given = parser.parse_args()
    mutants = drawn(given.targets, given.count, given.seed)
    missed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as threads:
        trees = Trees(Path(folder), given.jobs, slow=given.slow)
        for tests in {tuple(tests) for mutant in mutants for tests in tests_of(mutant.path)}:
            trees.measure(list(tests))
        for done in as_completed([threads.submit(trees.tried, mutant) for mutant in mutants]):
            mutant, said, seconds = done.result()
            word = {"passed": "NOT NOTICED", "failed": "noticed", "too slow": "too slow"}[said]
            print(f"{word:11} {seconds:5.0f} s  {mutant.where}  {mutant.kind}", flush=True)
            if said == "passed":
                missed += 1
                print(mutant.diff, flush=True)
    noticed = len(mutants) - missed
    share = noticed / len(mutants) if mutants else 1.0
    print(f"{noticed} of {len(mutants)} changes were noticed, {share:.0%}")
    return 1 if share < given.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
