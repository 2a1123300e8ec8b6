"""docs/reference/command-line.md: every command on the page is run, in order, and prints what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.cli.root import COMMANDS, SETTINGS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
MODEL = "http://127.0.0.1:8000/v1#qwen"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
WHEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def commands() -> list[tuple[str, str]]:
    """What is typed on the page, and what it shows after that."""
    return [found for block in BLOCK.findall(PAGE) for found in COMMAND.findall(block)]


class Session:
    """A folder, a model to ask, and the exit code of the last command."""

    def __init__(self, capsys: Any, model: str) -> None:
        self.capsys = capsys
        self.model = model
        self.code = 0

    def said(self, line: str) -> str:
        """What a command prints: what it is asked for, and then what it has to say."""
        if line == "echo $?":
            return f"{self.code}\n"
        if line.startswith("cd "):
            os.chdir(line.removeprefix("cd "))
            return ""
        if "|" in line or ">" in line:
            environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=60)
            return done.stdout + done.stderr
        arguments = shlex.split(line.replace(MODEL, self.model))
        assert arguments.pop(0) == "assay"
        self.code = main(arguments)
        said = self.capsys.readouterr()
        return (said.out + said.err).replace(self.model, MODEL)


def answer(system: str, user: str) -> str:
    """Right about apples and buses, with its working about apples and cakes."""
    said = {"apples": "She has 3 and buys 4, so it is 7.", "bus": "27", "cake": "It is 12 and then 5 less, so 8."}
    return next((words for name, words in said.items() if name in user), "12 or so")


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_the_page_shows_what_is_printed(
    capsys: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the moment at which it was."""
    monkeypatch.chdir(tmp_path)
    session = Session(capsys, serve(answer).model)
    for line, shown in commands():
        printed = WHEN.sub("WHEN", session.said(line))
        assert printed == WHEN.sub("WHEN", shown), line


def test_every_command_and_every_setting_stands_in_the_documentation() -> None:
    """Commands on some page, settings in the table of this one."""
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    for name in COMMANDS:
        assert f"assay {name}" in pages
    for setting in SETTINGS:
        assert re.search(rf"^\| [^|]*`{setting.replace('_', '-')}`", PAGE, re.MULTILINE)
