"""`assay rubric`, `init` and `models`, and rubrics named by options."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from assay import Rubric
from assay.cli import main
from assay.loading import SCHEMA_FILE
from assay.local.weights import KNOWN

PYTHON = """
from assay import Criterion, Rubric

def short(completion):
    return len(completion) < 20

rubric = Rubric([short])
listed = [short, Criterion(check=lambda: 1.0, weight=3)]
number = 7

def made():
    return rubric

def broken():
    raise KeyError("no such thing")

class Holder:
    inner = rubric
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, of a name that no other test has loaded."""
    name = f"rubrics_{abs(hash(tmp_path)) % 10**12}"
    (tmp_path / f"{name}.py").write_text(PYTHON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return name


@pytest.mark.usefixtures("cache_folder")
class TestPythonRubrics:
    @pytest.mark.parametrize(
        ("path", "score"), [("rubric", 1), ("made", 1), ("listed", 1), ("Holder.inner", 1)]
    )
    def test_a_rubric_may_be_an_object_a_function_or_a_list(
        self, module: str, path: str, score: int, capsys: Any
    ) -> None:
        """In a module of the current folder."""
        assert main(["grade", "It is Paris", "-r", f"{module}:{path}"]) == 0
        assert capsys.readouterr().out.startswith(f"'It is Paris': {score}\n")

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("rubrik", "there is no 'rubrik' in it: did you mean 'rubric'?"),
            ("number", "is 7: name a Rubric, a function that returns one, or a list of criteria"),
            ("broken", "KeyError: 'no such thing'"),
            ("short", "name a list that holds it"),
        ],
    )
    def test_an_object_that_is_not_a_rubric_is_refused(
        self, module: str, path: str, words: str, capsys: Any
    ) -> None:
        """The error names it, and what is accepted."""
        assert main(["grade", "It is Paris", "-r", f"{module}:{path}"]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert words in said.err

    def test_a_file_may_name_functions_of_the_current_folder(
        self, module: str, write_file: Any, capsys: Any
    ) -> None:
        """With --allow-code, which the error without it names."""
        rubric = write_file("rubric.json", [{"check": f"{module}:short"}])
        assert main(["grade", "It is Paris", "-r", rubric]) == 2
        assert "names code: " in (said := capsys.readouterr().err)
        assert "--allow-code" in said
        assert main(["grade", "It is Paris", "-r", rubric, "--allow-code"]) == 0

    def test_a_module_that_cannot_be_imported_is_refused_with_the_reason(
        self, capsys: Any, module: str
    ) -> None:
        assert main(["grade", "It is Paris", "-r", "no_such_module_here:rubric"]) == 2
        assert "'no_such_module_here:rubric' cannot be imported" in capsys.readouterr().err


class TestShow:
    def test_every_criterion_is_printed_on_a_line(self, write_file: Any, capsys: Any) -> None:
        """With weight, kind, name and requirement; nested criteria below their own."""
        inner = {"name": "form", "criteria": [{"check": {"max_words": 9}}]}
        criteria = [
            {"requirement": "Names Paris", "weight": 3},
            {"check": "refusal", "weight": -2},
            {"rubric": inner},
        ]
        path = write_file("rubric.json", {"name": "essay", "criteria": criteria})
        assert main(["rubric", "show", path]) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.startswith("essay: 3 criteria, 1 of them judged by a model, ")
        assert lines == [
            "  +3  judge  names_paris: Names Paris",
            "  -2  check  refusal: refusal",
            "  +1  check  form: a rubric",
            '      +1  check  max_words: {"max_words": 9}',
        ]

    def test_the_json_output_is_a_rubric_file(self, write_file: Any, capsys: Any) -> None:
        """It loads as the same rubric."""
        path = write_file("rubric.json", [{"check": {"contains": "Paris"}, "weight": 2}])
        assert main(["rubric", "show", path, "--json"]) == 0
        assert Rubric.from_json(capsys.readouterr().out).content_hash == (
            Rubric.from_file(path).content_hash
        )


class TestConvert:
    @pytest.mark.parametrize("name", ["new.yaml", "new.json"])
    def test_the_converted_file_is_the_same_rubric(
        self, write_file: Any, tmp_path: Path, name: str
    ) -> None:
        """By its hash."""
        path = write_file("rubric.json", [{"check": {"contains": "Paris"}, "weight": 2}])
        assert main(["rubric", "convert", path, str(tmp_path / name)]) == 0
        assert Rubric.from_file(tmp_path / name).content_hash == Rubric.from_file(path).content_hash

    def test_a_rubric_group_can_be_converted(self, write_file: Any, capsys: Any) -> None:
        """To standard output, as YAML."""
        path = write_file("group.json", {"rubrics": [[{"check": "refusal", "weight": -1}]]})
        assert main(["rubric", "convert", path, "-"]) == 0
        assert capsys.readouterr().out.startswith("rubrics:\n- criteria:\n")

    @pytest.mark.parametrize(
        ("name", "words"), [("rubric.json", "would be overwritten"), ("a.txt", "must end in")]
    )
    def test_existing_files_and_unknown_formats_are_refused(
        self, write_file: Any, tmp_path: Path, name: str, words: str, capsys: Any
    ) -> None:
        """Exit code 2."""
        path = write_file("rubric.json", [{"check": "refusal"}])
        assert main(["rubric", "convert", path, str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err


class TestLint:
    def test_valid_rubrics_are_counted(self, write_file: Any, capsys: Any) -> None:
        """Exit code 0."""
        path = write_file("rubric.json", [{"check": {"contains": "Paris"}}])
        assert main(["rubric", "lint", path]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"{path}: 1 criterion, checked by code",
            "  contains: a check by code; MET adds 1 point",
        ]

    def test_every_invalid_rubric_is_named_with_its_line(
        self, write_file: Any, capsys: Any
    ) -> None:
        """The others are still checked."""
        bad = write_file("bad.yaml", "- requirement: Is kind\n  wieght: 3\n")
        good = write_file("good.json", [{"check": "refusal", "weight": -1}])
        assert main(["rubric", "lint", bad, "nowhere.yaml", good]) == 2
        first, second, third, _ = capsys.readouterr().out.splitlines()
        assert first.startswith(f"{bad}:2: ")
        assert "nowhere.yaml" in second
        assert third.startswith(f"{good}: 1 criterion")


def test_the_printed_schema_is_that_of_rubric_files(capsys: Any) -> None:
    """The one that is saved next to the loader."""
    assert main(["rubric", "schema"]) == 0
    out = capsys.readouterr().out
    assert out == SCHEMA_FILE.read_text(encoding="utf-8")
    assert json.loads(out)["$id"] == "urn:assay:rubric-file"


class TestInit:
    def test_the_files_of_init_can_be_graded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        """1 for a right answer with its working, 3/4 without, 1/4 for a wrong one, 0 for a refusal."""
        monkeypatch.chdir(tmp_path)
        assert main(["init", "sums"]) == 0
        assert (
            "next: cd sums && assay score rollouts.jsonl -r rubric.yaml" in capsys.readouterr().out
        )
        monkeypatch.chdir(tmp_path / "sums")
        assert main(["grade", "rollouts.jsonl", "-r", "rubric.yaml"]) == 0
        heads = [x for x in capsys.readouterr().out.splitlines() if not x.startswith(" ")]
        assert heads == ["apples: 1", "bus: 0.75", "cake: 0.25", "dice: 0"]

    def test_the_judged_criterion_only_has_to_be_uncommented(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As its comment says."""
        monkeypatch.chdir(tmp_path)
        main(["init"])
        text = (tmp_path / "rubric.yaml").read_text()
        head, _, commented = text.partition("  # - name: clear\n")
        uncommented = ("# - name: clear\n" + commented).replace("  #   ", "    ")
        judged = f"{head}  {uncommented.replace('# - ', '- ', 1)}"
        assert [c.name for c in Rubric.from_yaml(judged).criteria if c.judged] == ["clear"]

    def test_init_overwrites_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        """If one file exists, the other is not written either."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rubric.yaml").write_text("mine")
        assert main(["init"]) == 2
        assert "rubric.yaml would be overwritten" in capsys.readouterr().err
        assert [p.name for p in tmp_path.iterdir()] == ["rubric.yaml"]


@pytest.mark.usefixtures("cache_folder")
class TestModels:
    def test_the_list_shows_the_accuracy_of_models_and_the_default(
        self, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The default is a local model, if one is installed."""
        monkeypatch.chdir(tmp_path)
        assert main(["models", "list"]) == 0
        first, second, last = capsys.readouterr().out.splitlines()
        assert first.startswith("qwen2.5-coder-1.5b: not here, 1,117 MB, Apache-2.0; a small judge")
        assert second.startswith("smoke: ")
        assert last.startswith("judge: none is named, and none is here")
        (tmp_path / "assay.toml").write_text('judge = "openai/gpt-5-mini"\n')
        main(["models", "list"])
        assert f"openai/gpt-5-mini ({tmp_path / 'assay.toml'})" in capsys.readouterr().out
        monkeypatch.setenv("ASSAY_JUDGE", "http://127.0.0.1:1/v1#x")
        main(["models", "list"])
        assert "judge: http://127.0.0.1:1/v1#x (ASSAY_JUDGE)" in capsys.readouterr().out

    def test_a_model_is_downloaded_once(
        self, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Its path is printed on standard output, for scripts."""
        source = tmp_path / "tiny.gguf"
        source.write_bytes(b"GGUF and weights")
        digest = sha256(source.read_bytes()).hexdigest()
        tiny = replace(
            KNOWN["smoke"],
            name="tiny",
            file="t.gguf",
            size=16,
            sha256=digest,
            package="",
            url=source.as_uri(),
        )
        monkeypatch.setitem(KNOWN, "tiny", tiny)
        for _ in range(2):
            assert main(["models", "pull", "tiny"]) == 0
            assert capsys.readouterr().out == f"{tmp_path / 'no-models' / 't.gguf'}\n"
            source.write_bytes(b"something else")
        main(["models", "list"])
        assert "tiny: here, " in capsys.readouterr().out

    def test_an_unknown_model_is_refused(self, capsys: Any) -> None:
        """The error names a known one."""
        assert main(["models", "pull", "qwen2.5-coder"]) == 2
        assert "did you mean 'qwen2.5-coder-1.5b'?" in capsys.readouterr().err


class TestShowingARun:
    RUBRIC = """\
name: replies
aggregation: mean
ask_judge: if_checks_pass
shows: [last, no_media]
criteria:
- {check: {contains: Paris}, weight: 3}
- {requirement: Is polite, name: polite, required: true}
- {requirement: Tone, choices: [bad, ok, great], when: polite}
"""
    LINES = (
        "replies: 3 criteria, 2 of them judged by a model, version ",
        "  aggregation: mean",
        "  ask_judge: if_checks_pass",
        '  shows: ["last", "no_media"]',
        '  +3  check  contains: {"contains": "Paris"}',
        "  +1  judge  polite: Is polite (required: decides alone if it fails)",
        "  +1  judge  tone: Tone (only if polite, from worst to best: bad, ok, great)",
    )

    def test_settings_and_the_kind_condition_and_veto_of_every_criterion_are_printed(
        self, write_file: Any, serve: Any, cache_folder: Path, tmp_path: Path, capsys: Any
    ) -> None:
        """For a file, and for the run that used it, even if the file has changed."""
        rubric = write_file("rubric.yaml", self.RUBRIC)
        server = serve("MET")
        rows = write_file("rows.jsonl", [{"completion": "Paris"}])
        run = str(tmp_path / "run")
        main(["score", rows, "-r", rubric, "--judge", server.model, "-o", run, "-q"])
        capsys.readouterr()
        for name in (rubric, run):
            assert main(["rubric", "show", name]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[0].startswith(self.LINES[0])
            assert tuple(lines[1:]) == self.LINES[1:]
        version = lines[0].rpartition(" ")[2]
        Path(rubric).unlink()
        assert main(["rubric", "show", run, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == "replies"
        assert main(["show", run]) == 0
        assert f"rubric replies {version}; " in capsys.readouterr().out
