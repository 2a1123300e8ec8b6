"""Try every extra of the wheel in an environment of its own.

    python tools/try_extras.py             # all of them
    python tools/try_extras.py cli math    # some

The wheel is built once. Each extra gets an environment with `assay-rubrics[EXTRA]` and nothing else,
in which the programs run that the extra is documented to be enough for. In an environment without any
extra the same programs must end with a sentence that says what to install. `trainers` has an
environment of its own (`make test-trl`).
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

# Start a command that serves HTTP, and read a path from it.
SERVED = """
        import json, subprocess, sys, urllib.request
        def read_from(*arguments, path):
            command = [sys.executable, "-u", "-m", "assay", *arguments]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
                try:
                    lines = []
                    for line in process.stdout:
                        lines.append(line)
                        for word in line.split():
                            if word.startswith("http://127"):
                                return urllib.request.urlopen(word.rstrip("/,.;") + path, timeout=30).read()
                    raise AssertionError(lines)
                finally:
                    process.terminate()
        for arguments in (
            ["init", "sums"],
            ["score", "sums/rollouts.jsonl", "-r", "sums/rubric.yaml", "-o", "run"],
        ):
            subprocess.run([sys.executable, "-m", "assay", *arguments], check=True)
""".strip()

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
    "workbooks": """
        from assay.tables import rows_of
        try:
            import openpyxl
            book = openpyxl.Workbook()
            book.active.append(["completion"])
            book.active.append(["a"])
            book.save("rows.xlsx")
        except ImportError:
            open("rows.xlsx", "wb").write(b"PK")
        assert [row["completion"] for row in rows_of("rows.xlsx")] == ["a"]
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
    "view": f"""
        {SERVED}
        assert json.loads(read_from("view", "run", path="/api/runs"))[0]["rows"]
        """,
    "server": f"""
        {SERVED}
        assert read_from("serve", "sums/rubric.yaml", "--port", "0", path="/health")
        from assay import Rubric
        from assay.server import RemoteRubric, RewardServer
        with RewardServer(Rubric.from_dict([{{"check": "exact_match"}}])) as server:
            assert RemoteRubric(server.url).grade_sync("4", answer="4").score == 1
        """,
    "docstrings": '''
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

# What each extra is documented to be enough for. `all` is enough for everything but the demo.
ENOUGH_FOR = {
    "cli": ["cli", "view", "checks", "trust", "docstrings", "workbooks"],
    "judge": ["judge"],
    "math": ["math"],
    "server": ["server", "cli", "judge"],
    "all": [name for name in PROGRAMS if name != "demo"],
    "demo": ["demo"],
}

# How the last line of a program must end where nothing but the core is installed: with an extra, or
# with the packages of which one is named. Programs of click's and ours have no such line.
NEEDED = {
    "checks": "regex",
    "docstrings": "docstring-parser",
    "isolation": "cloudpickle",
    "judge": "'assay-rubrics[judge]'",
    "local": "xllamacpp",
    "math": "'assay-rubrics[math]'",
    "mcp": "mcp",
    "cli": "'assay-rubrics[cli]'",
    "plot": "matplotlib",
    "postgres": "psycopg[binary]",
    "ray": "ray",
    "tables": "pyarrow",
    "testing": "hypothesis",
    "trust": "'assay-rubrics[cli]'",
    "workbooks": "'assay-rubrics[cli]'",
}

# Commands that need more than `cli`, and what they must ask for.
COMMANDS_WITHOUT = {
    "math 2(x+3) 2x+6": "'assay-rubrics[math]'",
    "serve sums/rubric.yaml": "'assay-rubrics[server]'",
    "score rows.parquet -r sums/rubric.yaml": "pyarrow",
    "score sums/rollouts.jsonl -r sums/rubric.yaml -o rays --backend ray": "ray",
    "grade --text words -r judged.yaml --judge local:model.gguf --no-cache": "xllamacpp",
    "cache inspect --cache postgresql://127.0.0.1:1/none": "psycopg[binary]",
}


def main(wanted: list[str]) -> int:
    """Try the extras, and return the exit code."""
    unknown = [name for name in wanted if name not in ENOUGH_FOR]
    if unknown:
        print(f"there is no extra {unknown[0]!r} to try: name some of {', '.join(ENOUGH_FOR)}")
        return 2
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="assay-extras-") as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        bare = make_environment(folder / "bare", wheel, "")
        for program, requirement in NEEDED.items():
            failures += try_without(bare, program, requirement, folder)
        print(f"{'none':<8} {'FAILED' if failures else 'ok'}", flush=True)

        def try_extra(extra: str) -> list[str]:
            place = folder / extra
            python = make_environment(place, wheel, extra)
            complaints: list[str] = []
            for program in ENOUGH_FOR[extra]:
                complaints += try_with(python, extra, program, place)
            if extra == "cli":
                complaints += try_commands(python, place / "cli")
            print(f"{extra:<8} {'FAILED' if complaints else 'ok'}", flush=True)
            return complaints

        # Two at a time, since half of it is waiting for downloads.
        with ThreadPoolExecutor(2) as pool:
            for complaints in pool.map(try_extra, wanted or ENOUGH_FOR):
                failures += complaints
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this working tree."""
    run_pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def make_environment(place: Path, wheel: Path, extra: str) -> Path:
    """Return the interpreter of a new environment that has the wheel with an extra, and nothing else."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    name = f"assay-rubrics[{extra}]" if extra else "assay-rubrics"
    constraints = str(ROOT / "constraints.txt")
    run_pip("--python", str(python), "install", "-c", constraints, f"{name} @ {wheel.as_uri()}")
    return python


def run_pip(*arguments: str) -> None:
    """Run the pip of this interpreter, since the environments have none."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")


def try_with(python: Path, extra: str, program: str, place: Path) -> list[str]:
    """Return a complaint if a program fails in the environment of an extra."""
    done = run_program(python, PROGRAMS[program], place / program)
    if done.returncode == 0:
        return []
    return [f"{program}: assay-rubrics[{extra}] is not enough:\n{done.stderr}"]


def try_without(python: Path, program: str, requirement: str, folder: Path) -> list[str]:
    """Return a complaint unless a program says in the bare environment what to install."""
    done = run_program(python, PROGRAMS[program], folder / f"without-{program}")
    return check_advice(done, requirement, f"the program {program!r}")


def try_commands(python: Path, folder: Path) -> list[str]:
    """Return complaints about commands that do not say what they need besides `cli`."""
    (folder / "rows.parquet").write_bytes(b"PAR1")
    (folder / "model.gguf").write_bytes(b"GGUF")
    (folder / "judged.yaml").write_text("- requirement: Is polite\n", encoding="utf-8")
    complaints: list[str] = []
    for arguments, requirement in COMMANDS_WITHOUT.items():
        command = [str(python), "-m", "assay", *arguments.split()]
        done = subprocess.run(
            command, cwd=folder, env=clean_environ(), capture_output=True, text=True, timeout=120
        )
        complaints += check_advice(done, requirement, f"assay {arguments}")
        if done.returncode != 2:
            complaints.append(f"assay {arguments} ends with {done.returncode}, and not with 2")
    return complaints


def check_advice(
    done: "subprocess.CompletedProcess[str]", requirement: str, what: str
) -> list[str]:
    """Return a complaint unless a process failed with a last line that names the pip command."""
    lines = done.stderr.strip().splitlines() or [""]
    if done.returncode != 0 and lines[-1].endswith(f"pip install {requirement}"):
        return []
    return [f"{what} does not ask for {requirement}:\n{done.stdout}{done.stderr}"]


def run_program(python: Path, program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(parents=True)
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    command = [str(python), str(script)]
    return subprocess.run(
        command, cwd=folder, env=clean_environ(), capture_output=True, text=True, timeout=300
    )


def clean_environ() -> dict[str, str]:
    """Return the environment variables without those that would reach around an extra."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("ASSAY_")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
