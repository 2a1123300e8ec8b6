"""`assay score`: score saved rollouts into a run, or a run by another rubric."""

import asyncio
import csv
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from assay.runs import Run
from assay.runs.run_file import RunFile
from assay.testing import Fault

CHECKS = [
    {"name": "right", "check": "exact_match", "weight": 3},
    {"name": "short", "check": {"max_words": 2}, "weight": 1},
]
JUDGED = [{"requirement": "Names Paris", "weight": 1}]
ROWS = [
    {"id": "a", "completion": "Paris", "answer": "Paris"},
    {"id": "b", "completion": "it is Rome", "answer": "Paris"},
]
"""Scores of 4 of 4 and 0 of 4 points."""

pytestmark = pytest.mark.usefixtures("cache_folder")


def answer_by_words(system: str, user: str) -> str:
    return "MET" if "Paris" in user.partition("<criterion_type>")[0] else "UNMET"


@pytest.fixture
def score(write_file: Any, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command on these rows with this rubric, unless others are passed."""
    monkeypatch.chdir(tmp_path)
    rows, rubric = write_file("rows.jsonl", ROWS), write_file("rubric.json", CHECKS)

    def run(*arguments: str, data: str = rows, by: str | None = rubric) -> SimpleNamespace:
        named = [] if by is None else ["-r", by]
        code = main(["score", data, *named, *arguments])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


class TestRuns:
    def test_a_run_is_saved_and_summarized(self, score: Any) -> None:
        """The mean of 1 and 0."""
        done = score("-o", "run")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("run: 2 rollouts\nscore, ")
        run = Run.open("run")
        assert [row.score for row in run.rows()] == [1.0, 0.0]
        assert run.summary().score.mean == 0.5
        assert run.about.rubric is not None
        assert run.about.data["source"].endswith("rows.jsonl")

    def test_without_a_folder_rollouts_are_printed(self, score: Any) -> None:
        """To standard output, which `-o -` means too."""
        for arguments in (["-f", "jsonl"], ["-f", "jsonl", "-o", "-"]):
            rows = [json.loads(line) for line in score(*arguments).out.splitlines()]
            assert [(row["example"], row["score"]) for row in rows] == [("a", 1.0), ("b", 0.0)]
        assert [path.name for path in Path.cwd().iterdir() if path.is_dir()] == []

    @pytest.mark.parametrize("form", ["json", "jsonl", "csv", "junit"])
    def test_scoring_prints_the_same_output_as_show(
        self, score: Any, write_file: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, form: str
    ) -> None:
        """Byte for byte, although rows are printed as they are scored; row rubrics may add criteria."""
        rows = [
            *ROWS,
            {
                "id": "c",
                "completion": "Rome",
                "answer": "Rome",
                "rubric": [{"check": {"contains": "Oslo"}}],
            },
        ]
        with monkeypatch.context() as patched:
            patched.setattr(Run, "rows", lambda run: pytest.fail("the rows were at hand"))
            printed = score("-o", "run", "-f", form, data=write_file("mixed.jsonl", rows)).out
        assert main(["show", "run", "-f", form]) == 0
        assert capsys.readouterr().out == printed != ""

    def test_standard_input_is_a_dash(self, score: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """For pipes."""
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
        done = score("-f", "csv", data="-")
        assert [row["score"] for row in csv.DictReader(io.StringIO(done.out))] == ["1.0", "0.0"]

    def test_columns_can_be_mapped(self, score: Any, write_file: Any) -> None:
        """The error for a missing column suggests a similar one."""
        rows = [{"output": row["completion"], "gold": row["answer"]} for row in ROWS]
        data = write_file("theirs.jsonl", rows)
        refused = score(data=data)
        assert refused.code == 2
        assert "no column 'completion' (columns: output, gold): give --map completion=output" in (
            refused.err
        )
        done = score("--map", "completion=output", "--map", "answer=gold", "-f", "csv", data=data)
        assert [row["right.value"] for row in csv.DictReader(io.StringIO(done.out))] == [
            "1.0",
            "0.0",
        ]

    def test_a_limit_takes_the_first_rows(self, score: Any) -> None:
        """One of two; resuming without it scores the other one."""
        score("-o", "run", "--limit", "1")
        assert len(Run.open("run")) == 1
        assert score("-o", "run", "--resume").code == 0
        assert len(Run.open("run")) == 2

    def test_a_csv_file_is_recognized_by_its_ending(self, score: Any, write_file: Any) -> None:
        data = write_file("rows.csv", "completion,answer\nParis,Paris\n")
        assert '"score": 1.0' in score("-f", "jsonl", data=data).out

    @pytest.mark.parametrize("backend", [[], ["--backend", "processes", "--workers", "1"]])
    def test_shows_applies_to_row_rubrics(
        self, score: Any, write_file: Any, serve: Any, backend: Any
    ) -> None:
        """`--shows` overrides their setting, and the run records it."""
        chat = [
            {"role": "assistant", "content": "Paris"},
            {"role": "user", "content": "Sure?"},
            {"role": "assistant", "content": "Yes."},
        ]
        rows = [
            {"completion": chat, "rubric": {"criteria": JUDGED, "shows": "all"}},
            {"completion": chat, "rubric": JUDGED},
        ]
        data, judge = write_file("own.jsonl", rows), ["--judge", serve(answer_by_words).model]
        assert score(*judge, "-o", "all", *backend, data=data, by=None).code == 0
        assert (
            score(*judge, "-o", "last", "--shows", "last", *backend, data=data, by=None).code == 0
        )
        runs = [Run.open("all"), Run.open("last")]
        assert [[row.score for row in run.rows()] for run in runs] == [[1.0, 1.0], [0.0, 0.0]]
        assert all(row.report.shown.startswith("last; left out: 2 texts") for row in runs[1].rows())
        assert [str(run.about.judge).endswith(", shows last") for run in runs] == [False, True]

    def test_rows_may_have_their_own_rubric(self, score: Any, write_file: Any, serve: Any) -> None:
        """Also one with a judge; then the command needs no rubric."""
        rows = [
            {"completion": "Paris", "rubric": [{"check": {"contains": "Rome"}}]},
            {"completion": "Paris", "rubric": JUDGED},
        ]
        data = write_file("own.jsonl", rows)
        done = score("-f", "jsonl", "--judge", serve(answer_by_words).model, data=data, by=None)
        assert [json.loads(line)["score"] for line in done.out.splitlines()] == [0.0, 1.0]
        assert "--rubric is missing" in score(by=None).err

    def test_a_rubric_can_be_python_code(self, score: Any, tmp_path: Path) -> None:
        """In the current folder."""
        (tmp_path / "our_rubric_for_score.py").write_text(
            "def rubric():\n    return [lambda: 0.5]\n"
        )
        done = score("-f", "jsonl", by="our_rubric_for_score:rubric")
        assert [json.loads(line)["score"] for line in done.out.splitlines()] == [0.5, 0.5]


class TestExitCodes:
    def test_a_mean_below_the_threshold_gives_exit_code_100(self, score: Any) -> None:
        """0.5 is enough for 0.5."""
        assert score("--fail-under", "0.5").code == 0
        done = score("--fail-under", "0.51")
        assert (done.code, done.err) == (
            100,
            "the mean score is 0.5 over 2 rollouts, which is below 0.51\n",
        )

    @pytest.mark.parametrize("kept", [[], ["-o", "run"]])
    def test_the_interval_and_single_rollouts_may_have_thresholds(
        self, score: Any, kept: list[str]
    ) -> None:
        """1 of 2 is met: Wilson's interval begins at 0.095, and one rollout has 0."""
        assert score("--fail-interval-under", "0.09", *kept).code == 0
        done = score("--fail-interval-under", "0.1", *kept, *(["--resume"] if kept else []))
        assert done.code == 100
        assert "its 95 % interval starts at 0.0945312, which is below 0.1" in done.err
        done = score("--fail-rollout-under", "0.3", *kept, *(["--resume"] if kept else []))
        assert done.code == 100
        assert "1 of 2 rollouts scores below 0.3: " in done.err

    def test_an_unscored_rollout_gives_exit_code_1_whatever_the_mean(
        self, score: Any, serve: Any, write_file: Any
    ) -> None:
        """The output says how to try it again."""
        server = serve(answer_by_words, faults=[Fault.truncated()])
        judged = write_file("judged.json", JUDGED)
        arguments = [
            "-o",
            "run",
            "--judge",
            server.model,
            "--concurrency",
            "1",
            "--fail-under",
            "0",
        ]
        done = score(*arguments, by=judged)
        assert done.code == 1
        assert done.out.startswith("run: 2 rollouts, 1 unscored\nscore, ")
        errors, hint, gate = done.err.splitlines()
        assert errors == "see every error with: assay show run --errors"
        assert hint.startswith("1 unscored; continue with: assay score ")
        assert gate == "1 of 2 rollouts has no score"
        again = shlex.split(hint.partition("continue with: ")[2])
        assert again[0] == "assay"
        assert main(again[1:]) == 0
        assert [row.score for row in Run.open("run").rows()] == [1.0, 0.0]

    def test_an_existing_run_is_not_overwritten(self, score: Any) -> None:
        """Unless it is resumed."""
        score("-o", "run")
        done = score("-o", "run")
        assert done.code == 2
        assert "run already holds a run: give --resume" in done.err
        assert score("-o", "run", "--resume").code == 0
        assert "--resume needs the folder of the run" in score("--resume").err
        assert "--output is empty: name a folder" in score("-o", "").err

    def test_a_run_cannot_be_resumed_with_another_rubric(self, score: Any, write_file: Any) -> None:
        """The error says what differs."""
        score("-o", "run")
        done = score("-o", "run", "--resume", by=write_file("other.json", CHECKS[:1]))
        assert done.code == 2
        assert "the rubric has changed ('short' is gone)" in done.err

    def test_an_invalid_line_is_reported_after_the_rows_before_it(
        self, score: Any, write_file: Any
    ) -> None:
        """These are saved."""
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
        done = score("-o", "run", data=write_file("bad.jsonl", f"{lines}not json\n"))
        assert done.code == 2
        assert "bad.jsonl:3: not valid JSON" in done.err
        assert len(Run.open("run")) == 2

    def test_a_rubric_that_fits_no_row_leaves_every_row_unscored(
        self, score: Any, write_file: Any
    ) -> None:
        """The table counts the errors, and the command fails."""
        rubric = write_file("answer.json", [{"check": "exact_match"}])
        done = score(data=write_file("other.jsonl", [{"completion": "Paris"}]), by=rubric)
        assert done.code == 1
        assert "1 rollout, 1 unscored" in done.out
        assert "exact_match" in done.out.splitlines()[3]

    def test_a_run_of_an_earlier_version_is_refused(self, score: Any, write_file: Any) -> None:
        """The error says what to do, when reading, resuming and overwriting."""
        Path("old").mkdir()
        Path("old/run.json").write_text("{}")
        for arguments in (["-o", "old"], ["-o", "old", "--resume"]):
            done = score(*arguments, data=write_file("rows.jsonl", ROWS))
            assert done.code == 2
            assert "old was written by an earlier version of assay" in done.err

    def test_the_output_before_an_invalid_line_is_well_formed(
        self, score: Any, write_file: Any
    ) -> None:
        """A JSON document is closed, and says that it is incomplete."""
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
        done = score("-f", "json", data=write_file("bad.jsonl", f"{lines}not json\n"))
        assert done.code == 2
        document = json.loads(done.out)
        assert len(document["rollouts"]) == 2
        assert document["summary"]["complete"] is False

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "has no rows"),
            ("[1]\n", "is not an object"),
            ('{"text": 1}\n', "--map completion=text"),
        ],
    )
    def test_invalid_data_creates_no_folder(
        self, score: Any, write_file: Any, content: str, words: str
    ) -> None:
        """Exit code 2."""
        done = score("-o", "run", data=write_file("bad.jsonl", content))
        assert (done.code, Path("run").exists()) == (2, False)
        assert words in done.err

    def test_quiet_prints_only_the_results(self, score: Any) -> None:
        """Not even the reason of the exit code."""
        done = score("--fail-under", "0.9", "-q")
        assert (done.code, done.err) == (100, "")
        assert done.out

    def test_a_dry_run_estimates_the_cost_without_calls(
        self, score: Any, serve: Any, write_file: Any
    ) -> None:
        """Nothing is saved."""
        server = serve(answer_by_words)
        done = score(
            "-o", "run", "--judge", server.model, "--dry-run", by=write_file("j.json", JUDGED)
        )
        assert done.code == 0
        assert done.out.startswith("2 rollouts would take 2 calls, ")
        assert (server.requests, Path("run").exists()) == ([], False)

    def test_the_budget_is_never_exceeded(
        self, score: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rollouts beyond the budget are unscored, and the output says so."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-indeed-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", serve(answer_by_words).url)
        judged = write_file("judged.json", JUDGED)
        done = score("-o", "run", "--judge", "openai/gpt-5-mini", "--budget", "0", by=judged)
        assert done.code == 1
        assert "the budget ran out before 2 calls could be made" in done.err
        kept = b"".join(path.read_bytes() for path in Path("run").iterdir())
        assert b"gpt-5-mini" in kept
        assert b"secret" not in kept


class TestBudget:
    """`--budget` applies to the whole run, and is spent on whole rollouts."""

    @pytest.fixture
    def score_with_price(
        self, score: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> Any:
        """Run the command with a judge that costs a thousandth of a dollar per token."""
        server = serve("MET", latency=0.001)
        prices = (
            f'["{server.model.partition("#")[0]}"]\ntest = {{ input = 1000.0, output = 1000.0 }}\n'
        )
        monkeypatch.setenv("ASSAY_PRICES", write_file("prices.toml", prices))
        data = write_file(
            "paid.jsonl", [{"id": n, "completion": f"text {n:02}"} for n in range(12)]
        )
        rubric = write_file("four.json", [{"requirement": f"Holds {n}"} for n in range(4)])
        judge = ["--judge", server.model, "--no-cache", "-f", "json"]

        def run(*arguments: str) -> SimpleNamespace:
            done = score(*judge, *arguments, data=data, by=rubric)
            found = json.loads(done.out) if done.out.startswith("{") else None
            return SimpleNamespace(found=found, out=done.out, server=server)

        return run

    @pytest.mark.parametrize("workers", [[], ["--backend", "processes", "--workers", "2"]])
    def test_the_budget_counts_over_all_sessions(
        self, score_with_price: Any, workers: list[str]
    ) -> None:
        """Two sessions with the same budget spend it once; with a larger one the run continues."""
        one = score_with_price("--limit", "1").found["summary"]["spent"]["cost"]
        before = score_with_price("--limit", "1").server.calls
        shards = [*workers, *(["--shard-rows", "3"] if workers else [])]
        for dollars, scored in ((3.5, 3), (3.5, 3), (7.5, 7)):
            again = [] if not Path("run").exists() else ["--resume"]
            done = score_with_price("-o", "run", "--budget", str(dollars * one), *shards, *again)
            summary = done.found["summary"]
            assert (summary["scored"], summary["unscored"]) == (scored, 12 - scored)
            assert summary["spent"]["calls"] == done.server.calls - before == 4 * scored
            assert summary["spent"]["cost"] <= dollars * one

    def test_a_dry_run_estimates_the_maximum_cost(self, score_with_price: Any) -> None:
        """Every call is tried ten times, with unreadable replies and refused parameters."""
        said = score_with_price("--dry-run").out
        assert said.startswith("12 rollouts would take 48 calls, ")
        found = re.search(r"\nat most ([\d,]+) calls and \$([\d.]+), if every call", said)
        assert found is not None
        assert int(found[1].replace(",", "")) >= 48 * 2 * 10
        done = score_with_price("--limit", "12").found["summary"]
        assert done["spent"]["cost"] <= float(found[2])


class TestRescoring:
    def test_a_run_can_be_scored_by_another_rubric(
        self, score: Any, write_file: Any, serve: Any
    ) -> None:
        """The judge is called only for new requirements."""
        server = serve(answer_by_words)
        one = write_file("one.json", JUDGED)
        assert score("-o", "run", "--judge", server.model, "--no-cache", by=one).code == 0
        assert server.calls == 2
        two = write_file("two.json", [*JUDGED, {"check": {"max_words": 2}, "weight": 1}])
        done = score("-o", "run2", "--judge", server.model, "--no-cache", data="run", by=two)
        assert (done.code, server.calls) == (0, 2)
        assert [row.score for row in Run.open("run2").rows()] == [1.0, 0.0]
        assert Run.open("run2").about.kind == "rescore"

    def test_a_rubric_option_replaces_row_rubrics(
        self, score: Any, write_file: Any, serve: Any
    ) -> None:
        """The judge is called for the new requirement in every row, and the output says which rubric counts."""
        server = serve(answer_by_words)
        own = [{"check": {"contains": "Paris"}}]
        rows = write_file("own.jsonl", [{**row, "rubric": own} for row in ROWS])
        score("-o", "run", data=rows)
        judged = write_file("judged.json", JUDGED)
        done = score("-o", "run2", "--judge", server.model, data="run", by=judged)
        assert (done.code, server.calls) == (0, 2)
        assert f"2 of 2 rows of run have their own rubrics, which {judged} replaces" in done.err
        [criterion] = Run.open("run2").about.rubric.criteria
        assert {tuple(row.report.metrics) for row in Run.open("run2").rows()} == {(criterion.name,)}

    @pytest.mark.parametrize("name", ["some.jsonl", "some.json"])
    def test_the_rubric_of_a_later_row_can_need_the_judge(
        self, score: Any, write_file: Any, serve: Any, name: str
    ) -> None:
        """Next to a rubric of checks, which scores the first row without it."""
        server = serve(answer_by_words)
        plain, own = ROWS[0], {**ROWS[1], "rubric": JUDGED}
        rows = write_file(name, [plain, own])
        done = score("-o", "run", "--judge", server.model, data=rows)
        assert (done.code, server.calls) == (0, 1)
        assert "scores only rows that have none" in done.err
        assert "2 rollouts, 1 of them by the rubrics of their rows" in done.out
        assert Run.open("run").summary().unscored == 0

    def test_the_rubric_of_a_later_row_of_standard_input_can_need_the_judge(
        self, score: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve(answer_by_words)
        rows = [ROWS[0], {**ROWS[1], "rubric": JUDGED}]
        lines = "\n".join(json.dumps(row) for row in rows)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        done = score("-o", "run", "--judge", server.model, data="-")
        assert (done.code, server.calls) == (0, 1)

    def test_rows_of_a_run_without_any_rubric_are_refused(
        self, score: Any, write_file: Any
    ) -> None:
        """Wherever they are. A rubric option scores all rows, and the output says so."""
        own = {**ROWS[1], "rubric": [{"check": {"contains": "Paris"}}]}
        for run, rows in (("first", [own, ROWS[0]]), ("last", [ROWS[0], own])):
            score("-o", run, data=write_file("some.jsonl", rows))
            done = score("-o", "again", data=run, by=None)
            assert (done.code, f"1 of 2 rows of {run} have no `rubric`" in done.err) == (2, True)
            done = score("-o", f"{run} again", data=run)
            assert f"1 of 2 rows of {run} have their own rubrics" in done.err
            assert "of their rows" not in done.out

    def test_the_output_says_that_the_rubric_option_scores_the_other_rows(
        self, score: Any, write_file: Any
    ) -> None:
        own = [{"name": "own", "check": {"contains": "Paris"}}]
        rows = write_file("own.jsonl", [{**row, "rubric": own} for row in ROWS])
        done = score("-o", "run", data=rows)
        assert "scores only rows that have none" in done.err
        assert "2 rollouts, by the rubrics of their rows" in done.out
        assert [row.report.metrics for row in Run.open("run").rows()] == [
            {"own": 1.0},
            {"own": 0.0},
        ]
        assert score().err == ""

    def test_without_a_rubric_option_rows_are_scored_by_their_own(
        self, score: Any, write_file: Any, serve: Any
    ) -> None:
        """A run whose rows have none is refused."""
        first, second = serve(answer_by_words), serve(answer_by_words)
        rows = write_file("own.jsonl", [{**row, "rubric": JUDGED} for row in ROWS])
        score("-o", "run", "--judge", first.model, data=rows, by=None)
        done = score("-o", "run2", "--judge", second.model, data="run", by=None)
        assert (done.code, first.calls, second.calls) == (0, 2, 2)
        score("-o", "run3")
        done = score("-o", "run4", data="run3", by=None)
        assert (done.code, "name the rubric to score it by" in done.err) == (2, True)

    def test_a_judge_option_that_is_not_needed_is_reported(self, score: Any) -> None:
        """Nobody should believe that it was called."""
        done = score("--judge", "openai/gpt-5-mini")
        assert "openai/gpt-5-mini is not asked" in done.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["-o", "run"], "would be overwritten"),
            (["--limit", "1", "-o", "new"], "--map and --limit are for tables"),
        ],
    )
    def test_invalid_combinations_of_options_are_refused(
        self, score: Any, arguments: list[str], words: str
    ) -> None:
        """Before anything is changed."""
        score("-o", "run")
        done = score(*arguments, data="run")
        assert done.code == 2
        assert words in done.err

    def test_a_folder_that_is_not_a_run_is_refused(self, score: Any) -> None:
        """The error says what is missing."""
        Path("empty").mkdir()
        done = score(data="empty")
        assert done.code == 2
        assert "empty" in done.err


class HoldingJudge:
    """A judge that does not answer about `late` texts until it is released."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.gone = False

    async def __call__(self, system: str, user: str) -> str:
        if "late" in user and not self.gone:
            event = asyncio.Event()
            self.held.append((asyncio.get_running_loop(), event))
            self.arrived.release()
            await event.wait()
        return answer_by_words(system, user)

    def release(self) -> None:
        self.gone = True
        for loop, event in self.held:
            loop.call_soon_threadsafe(event.set)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
class TestCtrlC:
    WORDS = ("Paris 0", "Paris 1", "late 2", "late 3", "late 4", "late 5", "late 6")

    def start(self, server: Any, write_file: Any) -> tuple[list[str], subprocess.Popen[str]]:
        rows = [{"completion": words} for words in self.WORDS]
        command = ["score", write_file("rows.jsonl", rows), "-r", write_file("judged.json", JUDGED)]
        command += ["--judge", server.model, "-o", "run", "--concurrency", "2", "--no-cache"]
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return command, process

    def test_one_ctrl_c_finishes_calls_in_flight(
        self, serve: Any, write_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Their rows are saved, and resuming scores only the rest."""
        monkeypatch.chdir(tmp_path)
        held = HoldingJudge()
        server = serve(held)
        command, process = self.start(server, write_file)
        with process:
            assert process.stderr is not None
            assert process.stdout is not None
            held.arrived.acquire()
            held.arrived.acquire()
            process.send_signal(signal.SIGINT)
            first = process.stderr.readline()
            held.release()
            rest, out = process.stderr.read(), process.stdout.read()
        assert first.startswith("finishing what has started")
        assert "; 2 of 7 rollouts are saved in run; press Ctrl-C again to stop at once" in first
        assert process.returncode == 130
        assert len(Run.open("run")) == 4
        assert f"stopped after 4 rollouts; continue with: assay {shlex.join(command)}" in rest
        assert "4 rollouts, incomplete" in out
        assert "Traceback" not in rest
        assert main([*command, "--resume", "-q"]) == 0
        assert [row.score for row in Run.open("run").rows()] == [1.0] * 2 + [0.0] * 5
        assert server.calls == 7

    def test_two_ctrl_c_stop_immediately(
        self, serve: Any, write_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows finished before are saved."""
        monkeypatch.chdir(tmp_path)
        held = HoldingJudge()
        server = serve(held)
        command, process = self.start(server, write_file)
        with process:
            assert process.stderr is not None
            held.arrived.acquire()
            held.arrived.acquire()
            process.send_signal(signal.SIGINT)
            process.stderr.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert process.returncode == 130
        assert "stopped at once; 2 of 7 rollouts are saved in run; continue with: " in rest
        assert f"continue with: assay {shlex.join(command)} --resume\n" in rest
        assert "Traceback" not in rest
        assert len(Run.open("run")) == 2
        held.release()
        assert main([*command, "--resume", "-q"]) == 0
        assert len(Run.open("run")) == 7


@pytest.mark.slow
def test_the_command_works_in_a_pipe(write_file: Any, tmp_path: Path) -> None:
    """Rows in, rows out, with no error output, and the exit code of a missed threshold."""
    command = [sys.executable, "-m", "assay", "score", "-", "-r", write_file("rubric.json", CHECKS)]
    command += ["-f", "jsonl", "--fail-under", "0.9", "-q"]
    lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stderr) == (100, "")
    assert [json.loads(line)["score"] for line in done.stdout.splitlines()] == [1.0, 0.0]


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(write_file: Any, tmp_path: Path) -> None:
    """As with `head`."""
    data = write_file("rows.jsonl", ROWS * 5000)
    command = [sys.executable, "-m", "assay", "score", data, "-r", write_file("r.json", CHECKS)]
    with subprocess.Popen(
        [*command, "-f", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert process.returncode == 130


LAST_FIRST = """
import asyncio

others = asyncio.Semaphore(0)

async def last_first(completion):
    if completion != "text 0":
        others.release()
        return 1.0
    await others.acquire()
    await others.acquire()
    return 0.5
"""


@pytest.mark.parametrize("kept", [True, False])
def test_rows_keep_the_order_of_the_data_whichever_finishes_first(
    score: Any, write_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """In the run, in the output, and if nothing is saved."""
    name = f"last_first_{kept}"
    write_file(f"{name}.py", LAST_FIRST)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = write_file("three.jsonl", [{"id": f"e{n}", "completion": f"text {n}"} for n in range(3)])
    rubric = write_file("code.json", [{"check": f"{name}:last_first"}])
    saving = ["-o", "run"] if kept else []
    done = score(*saving, "--allow-code", "-f", "csv", data=data, by=rubric)
    found = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["example"], row["score"]) for row in found] == [
        ("e0", "0.5"),
        ("e1", "1.0"),
        ("e2", "1.0"),
    ]
    if kept:
        saved = RunFile("run").select("SELECT example FROM rollouts ORDER BY id")
        assert saved[-1] == ("e0",)
        assert [row.example for row in Run.open("run").rows()] == ["e0", "e1", "e2"]


def test_the_worst_rollouts_are_shown_with_their_reason(
    serve: Any, write_file: Any, cache_folder: Path, tmp_path: Path, capsys: Any
) -> None:
    """The lowest first; unscored ones are not among them."""
    server = serve(answer_by_words)
    rows = [{"id": name, "completion": name} for name in ("plum", "fig", "apple")]
    rubric = write_file(
        "rubric.json",
        [{"check": {"contains": "p"}, "weight": 2}, {"check": {"contains": "l"}}],
    )
    run = str(tmp_path / "run")
    main(
        [
            "score",
            write_file("rows.jsonl", rows),
            "-r",
            rubric,
            "-o",
            run,
            "-q",
            "--judge",
            server.model,
        ]
    )
    capsys.readouterr()
    assert main(["show", run, "--worst", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("0      fig  contains, contains_2: 'p' does not occur")
    assert main(["show", run, "--row", "1"]) == 2
    assert "(row 1 has the id 'fig')" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["group", "nested"])
def test_nested_rubrics_with_a_judge_need_no_other(
    write_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_judges.py").write_text(
        "from assay import Rubric, RubricGroup\n"
        "from assay.testing import FakeModel\n"
        "own = Rubric([{'requirement': 'Names Paris'}], judge=FakeModel('MET'))\n"
        "group = RubricGroup([own])\n"
        "nested = Rubric([own.as_criterion()])\n"
    )
    rows = write_file("rows.jsonl", [{"completion": "Paris"}])
    assert main(["score", rows, "-r", f"own_judges:{name}", "--allow-code"]) == 0
