"""Settings: an option overrides the environment, which overrides the config file."""

import sys
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.cli.config import SETTINGS, Config, ConfigError
from assay.cli.root import COMMANDS, root

RUBRIC = [{"requirement": "Names Paris"}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> Path:
    """The folder of a project, which is the current folder."""
    inside = tmp_path / "project" / "deep" / "inside"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    return tmp_path / "project"


class TestPrecedence:
    def test_an_option_overrides_the_environment_and_that_the_file(
        self, folder: Path, write_file: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Three judges; each is called if the ones before it are not named."""
        flag, variable, file = serve("MET"), serve("MET"), serve("MET")
        (folder / "assay.toml").write_text(f'judge = "{file.model}"\n')
        monkeypatch.setenv("ASSAY_JUDGE", variable.model)
        command = ["grade", "It is Paris", "-r", write_file("rubric.json", RUBRIC), "--no-cache"]
        assert main([*command, "--judge", flag.model]) == 0
        assert (flag.calls, variable.calls, file.calls) == (1, 0, 0)
        assert main(command) == 0
        assert (flag.calls, variable.calls, file.calls) == (1, 1, 0)
        monkeypatch.delenv("ASSAY_JUDGE")
        assert main(command) == 0
        assert (flag.calls, variable.calls, file.calls) == (1, 1, 1)

    def test_the_model_under_test_is_not_the_judge(
        self,
        folder: Path,
        write_file: Any,
        serve: Any,
        capsys: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Neither the one of the file nor the one of the environment."""
        server = serve("MET")
        (folder / "assay.toml").write_text(f'model = "{server.model}"\n')
        monkeypatch.setenv("ASSAY_MODEL", server.model)
        assert main(["grade", "It is Paris", "-r", write_file("rubric.json", RUBRIC)]) == 2
        assert "no judge was named" in capsys.readouterr().err
        assert server.calls == 0

    def test_numbers_and_flags_are_read_from_the_file(
        self, folder: Path, write_file: Any, capsys: Any
    ) -> None:
        """Like the options of the same name."""
        (folder / "assay.toml").write_text('fail-under = 0.5\nformat = "csv"\nquiet = true\n')
        rubric = write_file("rubric.json", [{"check": {"contains": "Paris"}}])
        assert main(["grade", "It is Rome", "-r", rubric]) == 100
        said = capsys.readouterr()
        assert said.out.startswith("example,")
        assert said.err == ""
        assert main(["grade", "It is Rome", "-r", rubric, "--fail-under", "0"]) == 0

    def test_every_setting_is_an_option_of_some_command(self) -> None:
        """Under the same name."""
        ctx = root.make_context("assay", ["math"], resilient_parsing=True)
        params = [p for name in COMMANDS for p in _params(root.get_command(ctx, name))]
        assert set(SETTINGS) <= set(params)


def _params(command: Any) -> list[str]:
    inner = [p for each in getattr(command, "commands", {}).values() for p in _params(each)]
    return [*inner, *(param.name for param in command.params)]


class TestFindingTheFile:
    def test_the_file_in_the_nearest_parent_folder_is_used(self, folder: Path) -> None:
        """`assay.toml` takes precedence over `pyproject.toml`."""
        assert Config.find(Path.cwd()) == Config()
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.assay]\nbudget = 1\n')
        assert Config.find(Path.cwd()).settings == {"budget": 1}
        (folder / "assay.toml").write_text("budget = 2\n")
        assert Config.find(Path.cwd()).settings == {"budget": 2}
        (folder / "deep" / "pyproject.toml").write_text('[project]\nname = "y"\n')
        assert Config.find(Path.cwd()).settings == {"budget": 2}
        (folder / "deep" / "assay.toml").write_text("budget = 3\n")
        assert Config.find(Path.cwd()).settings == {"budget": 3}

    def test_paths_are_relative_to_the_folder_of_the_file(self, folder: Path) -> None:
        """Wherever the current folder is; other values are not changed."""
        (folder / "assay.toml").write_text('rubric = "rubrics/a.yaml"\ncache = "/var/verdicts"\n')
        found = Config.find(Path.cwd()).settings
        assert found == {"rubric": str(folder / "rubrics/a.yaml"), "cache": "/var/verdicts"}
        (folder / "assay.toml").write_text(
            'rubric = "my.rubrics:essay"\ncache = "postgresql://d/b"\n'
        )
        found = Config.find(Path.cwd()).settings
        assert found == {"rubric": "my.rubrics:essay", "cache": "postgresql://d/b"}

    def test_an_invalid_pyproject_without_our_table_is_ignored(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("[tool.")
        assert Config.find(Path.cwd()) == Config()


class TestTrust:
    @pytest.fixture
    def grade(self, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Run `assay grade` with a config file that was found, and a module that must not be imported."""
        monkeypatch.setenv("ASSAY_API_KEY", "s3cret")
        (folder / "unasked_code.py").write_text(
            "from pathlib import Path\nfrom assay import Rubric\n"
            "Path(__file__).with_name('ran').touch()\n"
            "rubric = Rubric.from_dict([{'check': {'contains': 'Paris'}}])\n"
        )
        # After the file is there: what an import saw of a folder is remembered.
        monkeypatch.syspath_prepend(str(folder))

        def run(*arguments: str) -> tuple[int, str]:
            code = main(["grade", "--text", "It is Paris", *arguments])
            return code, capsys.readouterr().err

        yield run
        sys.modules.pop("unasked_code", None)

    def test_a_found_file_may_not_name_python_code(self, grade: Any, folder: Path) -> None:
        """With --allow-code, or if it is named by --config, it may."""
        (folder / "assay.toml").write_text('rubric = "unasked_code:rubric"\n')
        code, said = grade()
        assert code == 2
        assert "'unasked_code:rubric', which runs Python code" in said
        assert "--allow-code" in said
        assert f"--config {folder / 'assay.toml'}" in said
        assert not (folder / "ran").exists()
        for allowed in (["--allow-code"], ["--config", str(folder / "assay.toml")]):
            code, said = grade(*allowed)
            assert code == 0, said
        assert (folder / "ran").exists()

    @pytest.mark.parametrize("table", ["assay.toml", "pyproject.toml"])
    @pytest.mark.parametrize(
        "model",
        [
            "http://evil.example/v1#m",
            "https://api.openai.com.evil.example/v1#m",
            "http://127.0.0.1@evil.example/v1#m",
            "http://[::1/v1#m",
        ],
    )
    def test_a_judge_on_another_machine_from_a_found_file_is_not_called(
        self, grade: Any, folder: Path, write_file: Any, table: str, model: str
    ) -> None:
        """The API keys of the user must not be sent there."""
        head = "[tool.assay]\n" if table == "pyproject.toml" else ""
        (folder / table).write_text(f'{head}judge = "{model}"\n')
        code, said = grade("-r", write_file("rubric.json", RUBRIC), "--no-cache")
        assert code == 2
        assert f"{folder / table}: judge is 'http" in said
        assert "which may be sent keys" in said
        assert f"--config {folder / table}" in said

    def test_a_shared_cache_on_another_machine_from_a_found_file_is_not_used(
        self, grade: Any, folder: Path, write_file: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """libpq would send it the password of the environment."""
        monkeypatch.delenv("ASSAY_CACHE")
        (folder / "assay.toml").write_text('cache = "postgresql://evil.example/verdicts"\n')
        code, said = grade("-r", write_file("rubric.json", RUBRIC))
        assert code == 2
        assert "cache is 'postgresql://evil.example/verdicts', which may be sent keys" in said

    def test_a_file_named_by_the_user_is_trusted(
        self, grade: Any, folder: Path, write_file: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By --config or ASSAY_CONFIG. Settings that the command has no option for are ignored."""
        server = serve("MET")
        named = write_file("other.toml", "")
        Path(named).write_text(f'judge = "{server.model}"\n')
        (folder / "assay.toml").write_text('judge = "http://evil.example/v1#m"\n')
        by = ["-r", write_file("rubric.json", RUBRIC), "--no-cache"]
        assert grade(*by, "--config", named)[0] == 0
        monkeypatch.setenv("ASSAY_CONFIG", named)
        assert grade(*by)[0] == 0
        monkeypatch.delenv("ASSAY_CONFIG")
        assert grade(*by, "--judge", server.model)[0] == 0
        assert server.calls == 3

    def test_a_named_file_must_exist(self, grade: Any, folder: Path) -> None:
        assert "no.toml is not a file" in grade("--config", "no.toml")[1]
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
        code, said = grade("--config", str(folder / "pyproject.toml"))
        assert code == 2
        assert "has no table [tool.assay]" in said


class TestWrongFiles:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('modle = "x"\n', "there is no setting 'modle': did you mean 'model'?"),
            ('api-key = "s3cret"\n', "there is no setting 'api-key': use rubric, model"),
            ("budget = true\n", "budget must be a number, not True"),
            ("model = 3\n", "model must be a string in quotes, not 3"),
            ("samples = 1.5\n", "samples must be a whole number, not 1.5"),
            ('quiet = "yes"\n', "quiet must be true or false, not 'yes'"),
            ("model = \n", "is not valid TOML"),
            ("[grade]\nmoney = 1\n", "there is no setting 'grade'"),
        ],
    )
    def test_the_error_for_a_wrong_setting_names_file_and_key(
        self, folder: Path, write_file: Any, capsys: Any, text: str, words: str
    ) -> None:
        """It comes before the command does anything."""
        (folder / "assay.toml").write_text(text)
        rubric = write_file("rubric.json", [{"check": {"contains": "Paris"}}])
        assert main(["grade", "It is Paris", "-r", rubric]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"assay grade: {folder / 'assay.toml'}")
        assert words in said.err

    def test_a_tool_assay_entry_that_is_not_a_table_is_refused(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("[tool]\nassay = 1\n")
        with pytest.raises(ConfigError, match=r"tool\.assay must be a table, not 1"):
            Config.find(Path.cwd())

    def test_the_error_for_an_invalid_value_names_the_file(
        self, folder: Path, write_file: Any, capsys: Any
    ) -> None:
        """So that nobody looks for it on the command line."""
        (folder / "assay.toml").write_text("budget = -1\n")
        assert main(["grade", "x", "-r", write_file("r.json", RUBRIC)]) == 2
        assert "from the config file: Invalid value for '--budget'" in capsys.readouterr().err

    def test_help_works_with_an_invalid_file(self, folder: Path, capsys: Any) -> None:
        """The user may be looking for what to write there."""
        (folder / "assay.toml").write_text("modle = 1\n")
        assert main(["grade", "--help"]) == 0
        assert main(["init", "new"]) == 0
