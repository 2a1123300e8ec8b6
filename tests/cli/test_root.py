"""The `assay` command: its help, exit codes and error messages."""

import os
import re
import shlex
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest
from click.types import FuncParamType

from assay import MissingExtraError, Overloaded, Refused, RubricError, Unreadable
from assay.cli import main
from assay.cli.base_command import Group
from assay.cli.root import COMMANDS, choose_error_code, root
from assay.errors import CacheError
from assay.runs import RunError, RunRefused

HEAVY = {"pydantic", "yaml", "asyncio", "rich", "assay.rubric", "assay.math", "assay.models"}


def commands(group: Any = root, names: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the name of every command and group."""
    completions = [names] if names else []
    if isinstance(group, click.Group):
        ctx = click.Context(group)
        for name in group.list_commands(ctx):
            completions += commands(group.get_command(ctx, name), (*names, name))
    return completions


def command_of(names: tuple[str, ...]) -> Any:
    ctx, command = click.Context(root), root
    for name in names:
        command = command.get_command(ctx, name)
    return command


class TestHelp:
    def test_the_help_lists_every_command_with_its_purpose(self, capsys: Any) -> None:
        """One line for each, in order."""
        assert main(["--help"]) == 0
        out = capsys.readouterr().out
        for name, purpose in COMMANDS.items():
            assert re.search(rf"^  {name} +{re.escape(purpose[:30])}", out, re.MULTILINE)

    @pytest.mark.parametrize("names", commands(), ids=" ".join)
    def test_the_help_of_every_command_ends_with_an_example(
        self, names: tuple[str, ...], capsys: Any
    ) -> None:
        """Which uses that command."""
        assert main([*names, "--help"]) == 0
        help_text, _, example = capsys.readouterr().out.partition("\nExample:\n")
        assert help_text.startswith(f"Usage: assay {' '.join(names)}")
        assert re.search(rf"assay (\w+ )?{names[-1]}\b", example)

    def test_help_imports_no_slow_modules(self) -> None:
        """The same holds for completion, which a shell requests at every key press.

        All commands print their help in one process, whose modules are those of all of them. It ends
        at the first command that imports one of them.
        """
        code = """\
import sys
from assay.cli import main
for names in [line.split() for line in sys.argv[2:]]:
    main([*names, "--help"])
    heavy = set(sys.argv[1].split()) & sys.modules.keys()
    assert not heavy, (names, heavy)
"""
        lines = ["", *map(" ".join, commands())]
        command = [sys.executable, "-c", code, " ".join(HEAVY), *lines]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Usage: assay") == len(lines)

    @pytest.mark.parametrize("names", commands(), ids=" ".join)
    def test_every_option_has_a_help_text_and_a_metavar(self, names: tuple[str, ...]) -> None:
        for option in command_of(names).params:
            if isinstance(option, click.Option):
                assert option.help, option.name
                assert option.metavar or not isinstance(option.type, FuncParamType), option.name

    def test_every_command_module_is_registered(self) -> None:
        folder = Path(str(resources.files("assay.cli")))
        modules = {
            path.stem
            for path in folder.glob("*.py")
            if re.search(r"^def command\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        assert modules == set(COMMANDS)

    def test_options_about_the_same_thing_are_listed_together(self, capsys: Any) -> None:
        assert main(["score", "--help"]) == 0
        sections = re.findall(r"^(\w.*):\n((?:  .*\n)+)", capsys.readouterr().out, re.MULTILINE)
        options = dict(sections)
        assert "--workers" in options["Workers"]
        assert "--budget" in options["Judge"]
        assert "--resume" in options["Run"]

    @pytest.mark.parametrize(
        ("command", "first_options"),
        [
            ("score", ["-r", "--judge", "-o", "--limit", "--dry-run"]),
            ("eval", ["-m", "-r", "--judge", "-o", "--limit"]),
        ],
    )
    def test_the_most_important_options_are_listed_first(
        self, command: str, first_options: list[str], capsys: Any
    ) -> None:
        assert main(["help", command]) == 0
        _, _, rest = capsys.readouterr().out.partition("Main options:\n")
        main_options = rest.partition("\n\n")[0]
        completions = re.findall(r"^  (?:-m, --model, )?(-[\w-]+)", main_options, re.MULTILINE)
        assert completions == first_options

    def test_help_is_also_a_command(self, capsys: Any) -> None:
        """For any command, by its name."""
        for names in ([], ["score"], ["rubric", "show"]):
            assert main(["help", *names]) == 0
            shown = capsys.readouterr().out
            assert main([*names, "--help"]) == 0
            assert shown == capsys.readouterr().out
        assert main(["help", "rubric", "shwo"]) == 2
        assert "there is no command 'rubric shwo'" in capsys.readouterr().err

    def test_h_prints_the_help(self, capsys: Any) -> None:
        """On every level."""
        assert main(["cache", "inspect", "-h"]) == 0
        assert "Usage: assay cache inspect" in capsys.readouterr().out


class TestUsageErrors:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["grad"], "assay: No such command 'grad'. Did you mean 'grade'?"),
            (["cache", "prun"], "assay cache: No such command 'prun'. Did you mean 'prune'?"),
            (["--verbose"], "assay: No such option '--verbose'"),
            (["grade", "--rubrik", "x"], "No such option '--rubrik'. Did you mean '--rubric'?"),
            (["grade"], "assay grade: Missing argument 'TEXT...'"),
            (["grade", "x"], "Missing option '-r' / '--rubric' (env var: 'ASSAY_RUBRIC')"),
            (["grade", "x", "-r"], "assay grade: Option '-r' requires an argument"),
            (["grade", "x", "-r", "no.yaml"], "assay grade: File not found: no.yaml"),
            (["grade", "x", "--budget", "1", "--budget", "2"], "--budget was given 2 times"),
            (["grade", "x", "--judge", "a", "--judge", "b"], "--judge was given 2 times"),
            (["grade", "x", "--model", "a"], "No such option '--model'. Did you mean '--judge'?"),
            (["math", "1", "1", "--units", "--no-units"], "--units was given 2 times"),
            (["init", "a", "b"], "Got unexpected extra argument (b)"),
            (
                ["cache", "inspect", "--limit", "few"],
                "Invalid value for '--limit': 'few' is not a whole number",
            ),
        ],
    )
    def test_a_usage_error_is_one_line_with_what_to_do(
        self, arguments: list[str], sentence: str, capsys: Any, cache_folder: Any
    ) -> None:
        """Exit code 2, and no standard output."""
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert sentence in said.err

    @pytest.mark.parametrize("arguments", [[], ["cache"]])
    def test_a_group_without_a_subcommand_prints_its_help(
        self, arguments: list[str], capsys: Any
    ) -> None:
        """With exit code 2."""
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert "Example:" in said.out + said.err

    def test_the_error_for_a_wrong_environment_variable_names_it(
        self, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is not on the command line."""
        monkeypatch.setenv("ASSAY_BUDGET", "much")
        assert main(["grade", "x", "-r", "y.yaml"]) == 2
        assert "ASSAY_BUDGET" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RubricError("no such field"), 2),
        (Refused("it needs a key"), 2),
        (CacheError("it cannot be opened"), 2),
        (MissingExtraError("it", package="rich", extra="cli"), 2),
        (FileNotFoundError("no.yaml"), 2),
        (PermissionError("secret.yaml"), 2),
        (RunRefused("it holds another run"), 2),
        (RunError("it is being written by another process"), 1),
        (Overloaded("it does not answer"), 1),
        (Unreadable("it is not a verdict"), 1),
        (OSError(28, "No space left on device"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_input_errors_give_exit_code_2_and_failures_1(error: Any, code: int) -> None:
    """2 is for the user who typed the command, 1 for whoever runs the machines."""
    assert choose_error_code(error) == code


def test_the_error_without_click_says_how_to_install_it(tmp_path: Path) -> None:
    """One sentence, exit code 2."""
    code = "import sys; sys.modules['click'] = None\nfrom assay.cli import main\nsys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "the package 'click', which is not installed: pip install" in done.stderr
    assert done.stderr.endswith("[cli]'\n")


def test_a_group_lists_its_commands_in_definition_order() -> None:
    """Not alphabetically."""
    group = Group("tools", example="assay tools saw")
    for name in ("saw", "axe"):
        group.add_command(click.Command(name))
    assert group.list_commands(click.Context(group)) == ["saw", "axe"]


@pytest.mark.skipif(sys.platform == "win32", reason="shells are others there")
@pytest.mark.parametrize(
    ("closing", "code", "said"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("<&-", 2, "assay score: standard input is closed: open it, or name a file\n"),
    ],
)
def test_closed_standard_streams_are_not_an_error(
    closing: str, code: int, said: str, tmp_path: Path
) -> None:
    """cron and some services start programs without them."""
    assert main(["init", str(tmp_path)]) == 0
    data = "-" if closing == "<&-" else "rollouts.jsonl"
    line = f"{shlex.quote(sys.executable)} -m assay score {data} -r rubric.yaml {closing}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (code, said)


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_completion_script_of_a_shell_is_printed(self, shell: str, capsys: Any) -> None:
        assert main(["completion", shell]) == 0
        assert "_ASSAY_COMPLETE" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "completions"),
        [
            ("assay gr", ["grade"]),
            ("assay cache ", ["inspect", "prune", "export", "import"]),
            ("assay grade --gr", ["--grader"]),
            ("assay grade --grader o", ["one-shot"]),
        ],
    )
    def test_completions_for_bash(self, words: str, completions: list[str]) -> None:
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        environment = {**os.environ, **asked, "_ASSAY_COMPLETE": "bash_complete"}
        command = [sys.executable, "-m", "assay"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert [line.partition(",")[2] for line in done.stdout.splitlines()] == completions

    def test_an_unknown_shell_is_refused(self, capsys: Any) -> None:
        """The error lists the supported ones."""
        assert main(["completion", "tcsh"]) == 2
        assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
