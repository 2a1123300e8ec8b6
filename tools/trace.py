"""Count how far one call travels through our own code, and how the modules hang together.

    python tools/trace.py [--json | --page | --modules]

`--modules` lists every module, with the sentence that it begins with.
`--page` writes the tables of docs/concepts/architecture.md anew: the modules of each path in the order in which they are reached.

A path is what the second call of its kind crosses: modules and functions of `assay` that ran, comprehensions among them, imports left out,
and the most frames of ours that stood on one stack. `assay.testing`, which plays the model, does not count.
The import chain is the longest path over imports at the top of modules; those inside functions and those for type
checkers alone are left out. An importer is any module that imports another, anywhere but for type checkers alone.
"""

import ast
import asyncio
import contextlib
import io
import json
import re
import runpy
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import assay
from assay import Criterion, MathRubric, PerCriterionGrader, Rubric, model_of
from assay.server import RewardServer
from assay.testing import ModelServer

SOURCE = Path(assay.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "architecture.md"


class Trace:
    """What of ours is called while it is on, in this thread and in those that are started later."""

    def __init__(self) -> None:
        self.on = False
        self.functions: dict[tuple[str, str, int], None] = {}
        self.deepest = 0
        sys.setprofile(self._see)
        threading.setprofile(self._see)

    @contextlib.contextmanager
    def path(self) -> Iterator[None]:
        self.functions.clear()
        self.deepest = 0
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def counts(self) -> dict[str, Any]:
        modules = list(dict.fromkeys(module for module, _, _ in self.functions))
        return {"modules": modules, "functions": len(self.functions), "stack": self.deepest}

    def _see(self, frame: Any, event: str, _: Any) -> None:
        if not self.on or event != "call" or module_of(frame.f_code.co_filename) is None:
            return
        depth, above = 0, frame
        while above is not None:
            module = module_of(above.f_code.co_filename)
            if above.f_code.co_name == "<module>" and module not in (None, "assay.__main__"):
                return  # what an import runs
            depth += module is not None
            above = above.f_back
        code = frame.f_code
        self.functions[module_of(code.co_filename) or "", code.co_name, code.co_firstlineno] = None
        self.deepest = max(self.deepest, depth)


@cache
def module_of(file: str) -> str | None:
    """The module of ours that a file holds, if it does."""
    path = Path(file)
    if not path.is_relative_to(SOURCE):
        return None
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return None if parts[0] == "testing" else ".".join(("assay", *parts)).removesuffix(".__init__")


def paths(trace: Trace) -> dict[str, dict[str, Any]]:
    """The counts of each path. Every call is made twice, and the second one counts."""

    def counted(call: Callable[[], Any]) -> dict[str, Any]:
        call()
        with trace.path():
            call()
        return trace.counts()

    def right(completion: str, answer: str) -> bool:
        return completion == answer

    found: dict[str, dict[str, Any]] = {}
    judged = Rubric([Criterion(requirement="Names Paris")])
    with ModelServer("MET") as model:
        texts = iter(("Paris.", "It is Paris."))
        grader = PerCriterionGrader(model=model_of(model.model))
        found["one judged criterion over HTTP"] = counted(
            lambda: judged.grade_sync(next(texts), judge=grader)
        )
    with tempfile.TemporaryDirectory() as folder:
        data, rubric = Path(folder, "rows.jsonl"), Path(folder, "rubric.yaml")
        data.write_text('{"prompt": "2+2?", "completion": "4", "answer": "4"}\n')
        rubric.write_text("- {check: exact_match, weight: 2}\n- check: {max_words: 3}\n")
        runs = iter(("one", "two"))
        found["assay score on one row"] = counted(
            lambda: command("score", data, "-r", rubric, "-o", Path(folder, next(runs)))
        )
    states = [{"prompt": "2+2?", "completion": str(n), "answer": "4"} for n in range(8)]
    rubric_of_functions = Rubric([right])
    found["score_group"] = counted(lambda: asyncio.run(rubric_of_functions.score_group(states)))
    with RewardServer(rubric_of_functions) as server:
        body = json.dumps({"rollouts": [{"completion": "4", "answer": "4"}]}).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{server.url}/v1/score", body, head)
        found["one request to the reward server"] = counted(
            lambda: urllib.request.urlopen(request).read()
        )
    mathematics = MathRubric()
    found["MathRubric, an easy answer"] = counted(
        lambda: mathematics.score_rollout_sync(completion=r"\boxed{0.5}", answer="1/2")
    )
    return found


def command(*arguments: object) -> None:
    """Run `python -m assay` in this process."""
    before = sys.argv
    sys.argv = ["assay", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            runpy.run_module("assay", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"assay {sys.argv[1]} ended with {ended.code}") from None
    finally:
        sys.argv = before


def tree() -> dict[str, Any]:
    """Files and lines, and how the modules import each other."""
    files = sorted(SOURCE.rglob("*.py"))
    texts = {module: path.read_text() for path in files if (module := _name(path))}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    every = {module: _imported(module, _running(tree), texts) for module, tree in trees.items()}
    at_the_top = {module: _imported(module, tree.body, texts) for module, tree in trees.items()}
    lines = [line.strip() for text in texts.values() for line in text.splitlines()]
    importers = Counter(target for targets in every.values() for target in targets)
    chain = longest_chain(at_the_top)
    return {
        "files": len(files),
        "lines": len(lines),
        "comment lines": sum(line.startswith("#") for line in lines),
        "modules with one importer": sum(count == 1 for count in importers.values()),
        "deepest import chain": len(chain),
        "the chain": chain,
    }


def _name(path: Path) -> str:
    parts = ("assay", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def _imported(module: str, nodes: Iterable[ast.AST], modules: dict[str, str]) -> set[str]:
    """The modules of ours that these statements import."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & modules.keys()) or {node.module}
    return (found & modules.keys()) - {module}


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that may run: what stands under `if TYPE_CHECKING` does not."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        waiting += node.orelse if for_types else ast.iter_child_nodes(node)


def longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """The longest path from importer to imported; where modules import each other, no path goes round."""
    longest: dict[str, list[str]] = {}

    def from_module(module: str, above: frozenset[str]) -> list[str]:
        if module not in longest:
            chains = [
                from_module(target, above | {module}) for target in sorted(imports[module] - above)
            ]
            longest[module] = [module, *max(chains, key=len, default=[])]
        return longest[module]

    return max((from_module(module, frozenset()) for module in sorted(imports)), key=len)


def page(text: str, crossed: dict[str, dict[str, Any]]) -> str:
    """The page with the table of each path under its mark."""
    for name, counts in crossed.items():
        table = [
            "| module | what it does |",
            "| --- | --- |",
            *(f"| `{m}` | {_first_line(m)} |" for m in counts["modules"]),
        ]
        pattern = rf"(<!-- path: {re.escape(name)} -->\n)(?:\|.*\n)*"
        lines = "\n".join(table)
        text = re.sub(pattern, lambda mark, lines=lines: f"{mark[1]}{lines}\n", text, count=1)
    return text


def _first_line(module: str) -> str:
    source = SOURCE.joinpath(*module.split(".")[1:])
    file = next(
        file for file in (source.with_suffix(".py"), source / "__init__.py") if file.exists()
    )
    return (
        (ast.get_docstring(ast.parse(file.read_text())) or "")
        .partition("\n\n")[0]
        .replace("\n", " ")
        .replace("|", "\\|")
    )


def main() -> None:
    if "--modules" in sys.argv:
        for module in filter(None, map(_name, sorted(SOURCE.rglob("*.py")))):
            print(f"{module:36} {_first_line(module)}")
        return
    shape, crossed = tree(), paths(Trace())
    if "--page" in sys.argv:
        PAGE.write_text(page(PAGE.read_text(), crossed))
        return
    if "--json" in sys.argv:
        print(json.dumps({"tree": shape, "paths": crossed}, indent=2))
        return
    for name, count in shape.items():
        print(f"{name + ':':36} {' > '.join(count) if isinstance(count, list) else f'{count:,}'}")
    print(f"\n{'path':36} modules  functions  stack")
    for name, counts in crossed.items():
        print(f"{name:36} {len(counts['modules']):7}  {counts['functions']:9}  {counts['stack']:5}")


if __name__ == "__main__":
    main()
