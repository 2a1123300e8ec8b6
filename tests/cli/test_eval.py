"""`assay eval` and `assay show`: generate answers, score them, and show the run."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from assay import EvaluationReport
from assay.cli import main
from assay.runs import Journal, Row, Run, RunAbout
from assay.testing import Fault

CHECKS = [{"name": "right", "check": {"contains": "Paris"}, "weight": 1, "tags": ["facts"]}]
JUDGED = [{"requirement": "Is polite", "weight": 1}]
QUESTIONS = [
    {"id": "fr", "prompt": "The capital of France?", "answer": "Paris", "task": "europe"},
    {"id": "it", "prompt": "The capital of Italy?", "answer": "Rome", "task": "world"},
]

pytestmark = pytest.mark.usefixtures("cache_folder")


def answer(system: str, user: str) -> str:
    """Answer as the judge if asked for a verdict; otherwise answer Paris to questions about France."""
    if "criterion" in user:
        return "MET"
    return "It is Paris" if "France" in user else "It is Rome"


@pytest.fixture
def assay(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> SimpleNamespace:
        code = main(list(arguments))
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture
def evaluate(assay: Any, write_file: Any) -> Any:
    """Run `assay eval` with these questions and this rubric, unless others are passed."""
    data, rubric = write_file("questions.jsonl", QUESTIONS), write_file("rubric.json", CHECKS)

    def run(server: Any, *arguments: str, data: str = data, by: str = rubric) -> SimpleNamespace:
        return assay("eval", data, "-m", server.model, "-r", by, *arguments)

    return run


class TestEval:
    def test_the_answers_of_a_model_are_scored(self, evaluate: Any, serve: Any) -> None:
        """The answer about France is right, and the one about Italy wrong."""
        server = serve(answer)
        done = evaluate(server, "-o", "run", "--samples", "2")
        assert (done.code, server.calls) == (0, 4)
        assert "4 rollouts of 2 examples" in done.out
        run = Run.open("run")
        assert sorted((row.key, row.score) for row in run.rows()) == [
            (("fr", 0), 1.0),
            (("fr", 1), 1.0),
            (("it", 0), 0.0),
            (("it", 1), 0.0),
        ]
        assert run.about.model == server.model

    def test_sampling_options_are_sent_to_the_model(self, evaluate: Any, serve: Any) -> None:
        """System prompt, temperature and length."""
        server = serve(answer)
        said = ["--system-prompt", "Be brief.", "--temperature", "0.5", "--max-tokens", "9"]
        evaluate(server, *said, "--limit", "1", "-q")
        [asked] = server.requests
        assert asked.system == "Be brief."
        assert asked.body["temperature"] == 0.5
        assert 9 in asked.body.values()

    def test_without_a_folder_rollouts_are_printed(self, evaluate: Any, serve: Any) -> None:
        """Nothing is saved."""
        done = evaluate(serve(answer), "-f", "csv")
        scores = {row["example"]: row["score"] for row in csv.DictReader(io.StringIO(done.out))}
        assert scores == {"fr": "1.0", "it": "0.0"}
        assert [path for path in Path.cwd().iterdir() if path.is_dir()] == []

    def test_the_model_under_test_judges_only_if_named_as_judge(
        self, evaluate: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not even the default model judges itself; naming it as its own judge prints a warning."""
        model, judge = serve(answer), serve(answer)
        by = write_file("judged.json", JUDGED)
        refused = evaluate(model, by=by)
        assert refused.code == 2
        assert "no judge was named" in refused.err
        monkeypatch.setenv("ASSAY_MODEL", model.model)
        assert evaluate(model, by=by).code == 2
        assert evaluate(model, "--judge", judge.model, by=by).code == 0
        assert (model.calls, judge.calls) == (2, 2)
        own = evaluate(model, "--judge", model.model, by=by)
        assert f"{model.model} judges its own answers" in own.err

    def test_a_failed_call_of_the_model_is_an_error_and_not_a_zero(
        self, evaluate: Any, serve: Any
    ) -> None:
        """Resuming calls the model only for the failed rows."""
        server = serve(answer, faults=[Fault.refusing("no")])
        first = evaluate(server, "-o", "run", "--concurrency", "1")
        assert first.code == 1
        assert "2 rollouts, 1 unscored" in first.out
        assert "rollout" in first.out
        calls = server.calls
        assert evaluate(server, "-o", "run", "--concurrency", "1", "--resume").code == 0
        assert server.calls == calls + 1
        assert sum(row.score or 0 for row in Run.open("run").rows()) == 1

    def test_columns_can_be_mapped(self, evaluate: Any, serve: Any, write_file: Any) -> None:
        """The question may have any other name."""
        data = write_file("theirs.jsonl", [{"ask": "The capital of France?"}])
        assert evaluate(serve(answer), data=data).code == 2
        done = evaluate(serve(answer), "--map", "question=ask", "-f", "csv", data=data)
        assert "0,0,1.0," in done.out

    def test_an_empty_file_of_questions_is_refused(
        self, evaluate: Any, serve: Any, write_file: Any
    ) -> None:
        """Exit code 2."""
        done = evaluate(serve(answer), data=write_file("none.jsonl", ""))
        assert done.code == 2
        assert "nothing to ask" in done.err

    def test_a_dry_run_estimates_the_cost_without_calls(self, evaluate: Any, serve: Any) -> None:
        server = serve(answer)
        done = evaluate(server, "--dry-run", "--samples", "3")
        assert done.out.startswith("6 rollouts would take 6 calls, ")
        assert server.requests == []

    def test_a_dry_run_includes_the_judge(self, evaluate: Any, serve: Any, write_file: Any) -> None:
        """Two questions, and two criteria for each answer that would be generated."""
        server = serve(answer)
        rubric = write_file(
            "judged.json", [{"requirement": "Is polite"}, {"requirement": "Is brief"}]
        )
        done = evaluate(server, "--dry-run", "--judge", server.model, by=rubric)
        assert done.out.startswith("2 rollouts would take 6 calls, ")
        assert server.requests == []

    def test_a_budget_covers_answers_and_their_judging(
        self, evaluate: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A budget for three and a half of eight questions answers and judges three."""
        server = serve(answer)
        prices = (
            f'["{server.model.partition("#")[0]}"]\ntest = {{ input = 1000.0, output = 1000.0 }}\n'
        )
        monkeypatch.setenv("ASSAY_PRICES", write_file("prices.toml", prices))
        rubric = write_file(
            "judged.json", [{"requirement": "Is polite"}, {"requirement": "Is brief"}]
        )
        data = write_file("eight.jsonl", [{"question": f"Question number {n}?"} for n in range(8)])
        judge = ["--judge", server.model, "--no-cache", "-f", "json"]
        one = json.loads(evaluate(server, *judge, "--limit", "1", data=data, by=rubric).out)
        before = server.calls
        dollars = str(3.6 * one["summary"]["spent"]["cost"])
        done = evaluate(server, *judge, "--budget", dollars, "-o", "run", data=data, by=rubric)
        summary = json.loads(done.out)["summary"]
        assert summary["spent"]["calls"] == server.calls - before == 9
        assert [row.number for row in Run.open("run").rows() if row.spent.calls] == [0, 1, 2]

    def test_rows_with_their_own_rubrics_need_no_rubric_option(
        self, assay: Any, serve: Any, write_file: Any
    ) -> None:
        """The judge is called for them, and the run records the judge."""
        server = serve(answer)
        rows = write_file("own.jsonl", [{**row, "rubric": JUDGED} for row in QUESTIONS])
        done = assay("eval", rows, "-m", server.model, "--judge", server.model, "-o", "run")
        assert (done.code, server.calls) == (0, 4)
        run = Run.open("run")
        assert [row.score for row in run.rows()] == [1.0, 1.0]
        assert server.model in run.about.judge

    def test_row_rubrics_are_judged_next_to_a_default_rubric_of_checks(
        self, evaluate: Any, serve: Any, write_file: Any
    ) -> None:
        """The rubric of -r scores the other row without a judge."""
        server = serve(answer)
        rows = write_file("own.jsonl", [{**QUESTIONS[0], "rubric": JUDGED}, QUESTIONS[1]])
        done = evaluate(server, "--judge", server.model, "-o", "run", data=rows)
        assert (done.code, server.calls) == (0, 3)
        assert "scores only rows that have none" in done.err
        assert [row.report.metrics for row in Run.open("run").rows()] == [
            {"is_polite": 1.0},
            {"right": 0.0},
        ]

    def test_rows_without_any_rubric_are_refused_before_a_call(
        self, assay: Any, serve: Any, write_file: Any
    ) -> None:
        """If all or some rows have none."""
        server = serve(answer)
        some = write_file("some.jsonl", [{**QUESTIONS[0], "rubric": JUDGED}, QUESTIONS[1]])
        done = assay("eval", some, "-m", server.model)
        assert (done.code, "1 of 2 rows" in done.err) == (2, True)
        done = assay("eval", write_file("none.jsonl", QUESTIONS), "-m", server.model)
        assert (done.code, "there is no rubric to score the answers" in done.err) == (2, True)
        assert server.calls == 0

    def test_runs_with_row_rubrics_are_compared_by_their_criteria(
        self, assay: Any, serve: Any, write_file: Any
    ) -> None:
        """Every row has the criterion `polite`; the rubric of -r scored no row, so it is not listed."""
        server = serve(answer)
        rows = write_file("own.jsonl", [{**row, "rubric": JUDGED} for row in QUESTIONS])
        checks = write_file("checks.json", CHECKS)
        for folder in ("first", "second"):
            more = ["--judge", server.model, "-o", folder, "--no-cache"]
            assay("eval", rows, "-m", server.model, "-r", checks, *more)
        found = json.loads(assay("compare", "first", "second", "-f", "json").out)
        assert [each["name"] for each in found["criteria"]] == ["is_polite"]
        assert [each["examples"] for each in found["criteria"]] == [2]

    def test_the_model_can_be_named_by_an_environment_variable(
        self, assay: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without either, the command asks for it."""
        command = ["eval", write_file("q.jsonl", QUESTIONS), "-r", write_file("r.json", CHECKS)]
        assert "Missing option '-m' / '--model'" in assay(*command).err
        monkeypatch.setenv("ASSAY_MODEL", serve(answer).model)
        assert assay(*command).code == 0


@pytest.fixture
def show_run(evaluate: Any, assay: Any, serve: Any) -> Any:
    """Run `assay show` on a run in which France is right and Italy failed."""
    server = serve(answer, faults=[None, Fault.refusing("no such country")])
    evaluate(server, "-o", "run", "-q", "--concurrency", "1")
    return lambda *arguments: assay("show", "run", *arguments)


class TestShow:
    def test_errors_are_shown_first(self, show_run: Any) -> None:
        """Then means over the other rollouts; single rollouts on request."""
        done = show_run()
        assert done.code == 0
        head, about, out = done.out.split("\n", 2)
        assert head == "run: 2 rollouts, 1 unscored"
        assert about.startswith("evaluate, ")
        assert out.index("errors") < out.index("score") < out.index("criterion")
        assert "fr" not in done.out

    def test_rollouts_can_be_listed_and_filtered(self, show_run: Any) -> None:
        """All, failed ones, those below a score, and those of a task."""
        assert [line[:9] for line in show_run("--rows").out.splitlines()[-2:]] == [
            "1      fr",
            "–      it",
        ]
        assert show_run("--errors").out.splitlines()[-1].startswith("–      it  rollout: ")
        assert "1      fr" not in show_run("--errors").out
        assert "1      fr" in show_run("--below", "1.5").out
        assert "1      fr" not in show_run("--below", "1").out
        assert "it  " not in show_run("--task", "europe").out.splitlines()[-1]
        assert show_run("--rows", "--limit", "1").out.splitlines()[-1] == "1      fr"

    def test_rounding_errors_do_not_count_as_below_the_score(
        self, tmp_path: Path, capsys: Any
    ) -> None:
        """0.1 + 0.2 equals 0.3, and 0.7 − 0.4 equals 0.3 too; the same holds for --fail-under."""
        with Journal.open(tmp_path / "run", RunAbout.of("score")) as journal:
            for name, score in {"sum": 0.1 + 0.2, "difference": 0.7 - 0.4, "lower": 0.2}.items():
                journal.write(
                    Row(
                        name,
                        report=EvaluationReport(score=score, raw_score=score, asked=1, answered=1),
                    )
                )
            journal.finish()
        assert main(["show", str(tmp_path / "run"), "--below", "0.3"]) == 0
        assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[-2:] if line] == [
            "lower"
        ]

    def test_one_rollout_can_be_shown_in_full(self, show_run: Any) -> None:
        """With prompt, answer and verdicts."""
        out = show_run("--row", "fr").out
        assert out.startswith(
            "prompt: The capital of France?\ncompletion: It is Paris\nanswer: Paris\n"
        )
        assert out.endswith("fr: 1\n  MET    +1  right\n")
        assert "nothing to score" in show_run("--row", "it").out
        assert json.loads(show_run("--row", "fr", "-f", "jsonl").out)["example"] == "fr"
        missing = show_run("--row", "de")
        assert missing.code == 2
        assert "no row for example 'de'" in missing.err

    def test_a_threshold_can_be_applied_to_a_saved_run(
        self, show_run: Any, assay: Any, write_file: Any
    ) -> None:
        """An unscored rollout is an error; otherwise the mean decides."""
        assert show_run("--fail-under", "0").code == 1
        rows = write_file("rows.jsonl", [{"completion": "Paris"}, {"completion": "Rome"}])
        assay("score", rows, "-r", write_file("r.json", CHECKS), "-o", "two")
        assert assay("show", "two", "--fail-under", "0.5").code == 0
        assert assay("show", "two", "--fail-under", "0.6").code == 100
        assert assay("show", "two", "--fail-rollout-under", "0.1").code == 100

    def test_every_format_contains_both_rollouts(self, show_run: Any) -> None:
        assert len(show_run("-f", "jsonl").out.splitlines()) == 2
        assert len(json.loads(show_run("-f", "json").out)["rollouts"]) == 2
        assert len(list(csv.DictReader(io.StringIO(show_run("-f", "csv").out)))) == 2
        suite = ElementTree.fromstring(show_run("-f", "junit").out)[0]
        assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
        assert "| tag facts | 1 |" in show_run("-f", "markdown").out

    def test_a_path_that_is_not_a_run_is_refused(self, assay: Any) -> None:
        """Exit code 2."""
        Path("empty").mkdir()
        assert assay("show", "empty").code == 2
        assert assay("show", "nowhere").code == 2


class TestWithoutAJudge:
    """Rubrics that need a judge are refused before anything is generated."""

    @pytest.mark.parametrize("rubric", [[], ["-r", "checks.json"]])
    def test_rows_with_judged_rubrics_need_a_judge(
        self, assay: Any, serve: Any, write_file: Any, rubric: list[str]
    ) -> None:
        server = serve(answer)
        write_file("checks.json", [{"check": {"max_words": 5}}])
        own = [{"check": {"max_words": 5}}]
        rows = write_file(
            "own.jsonl", [{**QUESTIONS[0], "rubric": own}, {**QUESTIONS[1], "rubric": JUDGED}]
        )
        arguments = ("eval", rows, "-m", server.model, *rubric)
        done = assay(*arguments, "-o", "run")
        assert done.code == 2
        assert "no judge was named: name one with --judge" in done.err
        assert (server.requests, Path("run").exists()) == ([], False)
        # Only the first row is asked, which code checks.
        assert assay(*arguments, "--limit", "1").code == 0
