"""Try every extra of the wheel alone, each in an environment of its own.

    python tools/try_extras.py             # all of them
    python tools/try_extras.py cli math    # some

The wheel is built once. An environment is made for each extra, gets `assay[EXTRA]` and nothing else, and runs
what the documentation says that this extra is enough for. In an environment without any extra the same
programs must end with the sentence that names the missing one. `trl` has an environment of its own
(`make test-trl`).
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent

PROGRAMS = {
    "checks": """
        from assay import Rubric
        rubric = Rubric.from_dict([
            {"check": {"regex": "a+"}}, {"check": {"json_schema": {"schema": {"type": "string"}}}},
            {"check": {"similarity": {"to": "aaa"}}},
        ])
        assert rubric.grade_sync('"aaa"').score > 0.9
        """,
    "math": r"""
        from assay import MathRubric, Rubric
        if __name__ == "__main__":
            assert MathRubric().grade_sync(r"\boxed{2x + 6}", answer="2(x + 3)").score == 1
            assert Rubric.from_dict([{"check": "math_equal"}]).grade_sync("1/2", answer="0.5").score == 1
        """,
    "isolation": """
        from assay import Criterion, Rubric
        if __name__ == "__main__":
            rubric = Rubric([Criterion(check=lambda completion: completion == "a", isolate=True, name="a")])
            assert rubric.grade_sync("a").score == 1
        """,
    "testing": """
        from assay.testing import rubrics
        strategy = rubrics()
        from hypothesis import given
        given(strategy)(lambda rubric: print(rubric.grade_sync("any text").score))()
        """,
    "mcp": """
        from assay.compat.verifiers import MCPEnv
        assert MCPEnv(dataset=[{"question": "?", "answer": "!"}]).tool_defs in (None, [])
        """,
    "tables": """
        from assay.tables import rows_of
        try:
            import pyarrow, pyarrow.parquet
            pyarrow.parquet.write_table(pyarrow.table({"completion": ["a"]}), "rows.parquet")
        except ImportError:
            open("rows.parquet", "wb").write(b"PAR1")
        assert [row["completion"] for row in rows_of("rows.parquet")] == ["a"]
        """,
    "trust": """
        import asyncio
        from assay import Rubric
        from assay.runs import Run, score_rows
        for name in ("one", "two"):
            rows = [{"id": n, "completion": name * (n % 3)} for n in range(20)]
            rubric = Rubric.from_dict([{"check": {"contains": "one"}}])
            asyncio.run(score_rows(rubric, rows, folder=name))
        from assay.trust import compare
        assert compare(Run.open("one"), Run.open("two")).to_dict()
        """,
    "postgres": """
        from assay.cache import VerdictCache
        from assay.errors import CacheError
        try:
            VerdictCache("postgresql://127.0.0.1:1/none")
        except CacheError as error:
            assert "127.0.0.1" in str(error), error
        """,
    "judge": """
        from assay import PerCriterionGrader, Rubric
        from assay.models import model_of
        from assay.testing import ModelServer
        model_of("http://127.0.0.1:9/v1#named")
        with ModelServer("MET") as server:
            grader = PerCriterionGrader(model=server.model)
            assert Rubric.from_dict([{"requirement": "Is short"}]).grade_sync("a", grader).score == 1
        """,
    "local": """
        from assay.errors import Refused
        from assay.local.llama_server import LocalServer
        open("model.gguf", "wb").write(b"GGUF")
        try:
            LocalServer("local:model.gguf")
        except Refused as error:
            assert "cannot run" in str(error), error
        """,
    "ray": """
        from assay import Rubric
        from assay.backends import RayTasks, score_shards
        open("making.py", "w").write(
            "from assay import Rubric\\n"
            "def make():\\n"
            "    return Rubric.from_dict([{'check': {'contains': 'a'}}]), None\\n"
        )
        from making import make
        open("rows.jsonl", "w").write('{"completion": "a"}\\n' * 4)
        found = score_shards(make, ["rows.jsonl"], "run", backend=RayTasks(None, 1))
        assert found.score.mean == 1, found
        """,
    "server": """
        from assay import Rubric
        from assay.server import RewardServer
        with RewardServer(Rubric.from_dict([{"check": "exact_match"}])) as server:
            from assay.server import RemoteRubric
            assert RemoteRubric(server.url).grade_sync("4", answer="4").score == 1
        """,
    "cli": """
        import subprocess, sys
        def assay(*arguments):
            done = subprocess.run([sys.executable, "-m", "assay", *arguments], capture_output=True, text=True)
            assert done.returncode == 0, (arguments, done.stderr)
            return done.stdout
        from assay.cli import main
        if main(["--version"]) == 2:
            raise SystemExit(2)
        assay("init", "sums")
        data = ["sums/rollouts.jsonl", "-r", "sums/rubric.yaml"]
        assay("score", *data, "-o", "run")
        assay("score", *data, "-o", "other", "--backend", "processes")
        assay("rubric", "lint", "sums/rubric.yaml")
        for name in ("show", "compare"):
            assay(name, "--help")
        assay("show", "run", "--rows")
        assay("report", "run", "-o", "page.html", "-q")
        assay("report", "run", "other", "-o", "pages.html", "-q")
        assay("lint", "sums/rubric.yaml")
        assay("rubric", "show", "sums/rubric.yaml")
        assay("models", "list")
        assay("completion", "bash")
        """,
    "cli,server": """
        import json, subprocess, sys, urllib.request
        def served(*arguments, path):
            command = [sys.executable, "-u", "-m", "assay", *arguments]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
                try:
                    said = []
                    for line in process.stdout:
                        said.append(line)
                        address = next((word for word in line.split() if word.startswith("http://127")), None)
                        if address:
                            return urllib.request.urlopen(address.rstrip("/,.;") + path, timeout=30).read()
                    raise AssertionError(said)
                finally:
                    process.terminate()
        def assay(*arguments):
            done = subprocess.run([sys.executable, "-m", "assay", *arguments], capture_output=True, text=True)
            assert done.returncode == 0, (arguments, done.stderr)
        assay("init", "sums")
        assay("score", "sums/rollouts.jsonl", "-r", "sums/rubric.yaml", "-o", "run")
        assert json.loads(served("view", "run", path="/api/runs"))[0]["rows"]
        assert served("serve", "sums/rubric.yaml", "--port", "0", path="/health")
        """,
    "envs": '''
        from assay import Rubric, ToolEnv
        def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: The first number.
                b: The second number.
            """
            return a + b
        env = ToolEnv(dataset=[{"question": "1+1"}], tools=[add], rubric=Rubric.from_dict([{"check": "refusal"}]))
        assert "The second number." in str(env.tools_of({}))
        ''',
    "plot": """
        import asyncio
        from assay import Rubric
        from assay.runs import Run, score_rows
        rubric = Rubric.from_dict([{"check": {"contains": "a"}}])
        asyncio.run(score_rows(rubric, [{"completion": "a"}, {"completion": "b"}], folder="run"))
        Run.open("run").plot().savefig("run.png")
        """,
    "all": r"""
        from assay import MathRubric, Rubric
        import aiohttp, click, flint, matplotlib, msgspec, psycopg, pyarrow, ray, regex, scipy, starlette, xllamacpp
        if __name__ == "__main__":
            assert MathRubric().grade_sync(r"\boxed{2x + 6}", answer="2(x + 3)").score == 1
        """,
    "demo": f"""
        import runpy
        runpy.run_path({str(ROOT / "examples/demo.py")!r}, run_name="__main__")
        """,
}
"""What each extra is documented to be enough for."""

COMMANDS_WITHOUT = {
    "math": ["math", "2(x+3)", "2x+6"],
    "trust": ["compare", "run", "other"],
    "server": ["view", "run"],
    "server ": ["serve", "sums/rubric.yaml"],
    "tables": ["score", "rows.parquet", "-r", "sums/rubric.yaml"],
    "ray": [
        "score",
        "sums/rollouts.jsonl",
        "-r",
        "sums/rubric.yaml",
        "-o",
        "rays",
        "--backend",
        "ray",
    ],
    "checks": ["grade", "--text", "words", "-r", "regex.yaml"],
    "local": [
        "grade",
        "--text",
        "words",
        "-r",
        "judged.yaml",
        "-m",
        "local:model.gguf",
        "--no-cache",
    ],
    "postgres": ["cache", "inspect", "--cache", "postgresql://127.0.0.1:1/none"],
}
"""Commands that need another extra than `cli`, by that extra."""


def main(wanted: list[str]) -> int:
    """Try the extras, and give the exit code."""
    unknown = [name for name in wanted if name not in PROGRAMS]
    if unknown:
        print(f"there is no trial of {unknown[0]!r}: {', '.join(PROGRAMS)}")
        return 2
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="assay-extras-") as folder:
        wheel = build(Path(folder))
        bare = environment(Path(folder) / "bare", wheel, "")

        def complaints(extra: str) -> list[str]:
            place = Path(folder) / extra.replace(",", "-")
            found = without(bare, extra, place)
            python = environment(place, wheel, extra)
            found += with_it(python, extra, place)
            if extra == "cli":
                found += commands_without(python, place)
            print(f"{extra:<12} {'FAILED' if found else 'ok'}", flush=True)
            return found

        # Two at a time, since half of it is waiting for downloads.
        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(complaints, wanted or PROGRAMS):
                failed += found
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


def build(folder: Path) -> Path:
    """The wheel of this working tree."""
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def environment(place: Path, wheel: Path, extra: str) -> Path:
    """The interpreter of an environment that has the wheel with an extra, and nothing else."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    source = f"assay[{extra}] @ {wheel.as_uri()}" if extra else f"assay @ {wheel.as_uri()}"
    pip("--python", str(python), "install", "-c", str(ROOT / "constraints.txt"), source)
    return python


def pip(*arguments: str) -> None:
    """Run the pip of this interpreter, which need not be in the environments."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")


def with_it(python: Path, extra: str, place: Path) -> list[str]:
    """What is wrong with a program of an extra in its environment."""
    done = run(python, PROGRAMS[extra], place / "with")
    return (
        [] if done.returncode == 0 else [f"{extra}: assay[{extra}] is not enough:\n{done.stderr}"]
    )


def without(python: Path, extra: str, place: Path) -> list[str]:
    """What is wrong with the sentence that the same program ends with where no extra is installed."""
    done = run(python, PROGRAMS[extra], place.with_name(f"{place.name}-without"))
    if extra in ("all", "demo", "cli,server"):
        return []  # programs of ours and of click, which have no sentence of their own
    return unexplained(done, extra, f"a program for {extra}")


def commands_without(python: Path, place: Path) -> list[str]:
    """What is wrong with the sentences of commands that need another extra."""
    folder = place / "with"
    (folder / "rows.parquet").write_bytes(b"PAR1")
    (folder / "regex.yaml").write_text("- check: {regex: a}\n", encoding="utf-8")
    (folder / "model.gguf").write_bytes(b"GGUF")
    (folder / "judged.yaml").write_text("- requirement: Is polite\n", encoding="utf-8")
    found: list[str] = []
    for extra, arguments in COMMANDS_WITHOUT.items():
        command = [str(python), "-m", "assay", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=120
        )
        what = f"assay {' '.join(arguments)}"
        found += unexplained(done, extra.strip(), what)
        if done.returncode != 2:
            found.append(f"{what} ends with {done.returncode}, and not with 2")
    return found


def unexplained(done: "subprocess.CompletedProcess[str]", extra: str, what: str) -> list[str]:
    """A complaint, unless it failed with a last line that names the pip command."""
    lines = done.stderr.strip().splitlines() or [""]
    if done.returncode != 0 and f"pip install 'assay[{extra}]'" in lines[-1]:
        return []
    return [f"{what} does not say that it needs assay[{extra}]:\n{done.stdout}{done.stderr}"]


def run(python: Path, program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(parents=True)
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    command = [str(python), str(script)]
    return subprocess.run(
        command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=300
    )


def clean() -> dict[str, str]:
    """The environment without what would reach around the environment of an extra."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("ASSAY_")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
