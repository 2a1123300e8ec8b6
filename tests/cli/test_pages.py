"""Every command in a `console` block of README and docs is run, in order, and prints what the page shows.

A block with a title (```yaml title="rubric.yaml") is a file that the commands after it use. A block that is marked `sh` is not
run: it starts a server, or needs a machine that a test does not have. `make examples` writes what is printed anew.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.cli.config import SETTINGS
from assay.cli.root import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MODEL = "http://127.0.0.1:8000/v1#qwen"
BIG_MODEL = "http://127.0.0.1:8001/v1#big"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# What differs from one printing to the next: times, versions of programs, and the version of a
# rubric, which covers the code of its checks.
CHANGING = re.compile(
    rf"{STARTED.pattern}|\b[\d.]+ m?s\b|\b(?:[0-9a-f]{{8}}|[0-9a-f]{{12}})\b|assay [\d.]+, python [\d.]+"
)
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if "```console" in path.read_text()
]


class Session:
    """A folder, two model servers, and the exit code of the last command."""

    def __init__(self, capsys: Any, model: str, big_model: str) -> None:
        self.capsys = capsys
        self.model = model
        self.big_model = big_model
        self.code = 0

    def as_run(self, text: str) -> str:
        """Replace the URLs of the page by those of the servers."""
        return text.replace(MODEL, self.model).replace(BIG_MODEL, self.big_model)

    def run_and_format(self, line: str) -> str:
        """Run a command, and return its output and then its error output."""
        if line == "echo $?":
            return f"{self.code}\n"
        if line.startswith("cd "):
            os.chdir(line.removeprefix("cd "))
            return ""
        line = self.as_run(line.partition("  # ")[0])
        if "|" in line or ">" in line or not line.startswith("assay "):
            environment = {
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            done = subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=60
            )
            self.code = done.returncode
            return self.as_shown(done.stdout + done.stderr)
        self.code = main(shlex.split(line)[1:])
        run_and_format = self.capsys.readouterr()
        return self.as_shown(run_and_format.out + run_and_format.err)

    def as_shown(self, printed: str) -> str:
        """Replace the URLs of the servers by those of the page."""
        openai = f"{self.model.partition('#')[0]}#gpt-5"
        printed = printed.replace(self.model, MODEL).replace(self.big_model, BIG_MODEL)
        return printed.replace(openai, "openai/gpt-5")


def answer(system: str, user: str) -> Any:
    """Answer as a model that is right about apples and buses, and as a judge that believes every thank-you."""
    if "criterion" in system:
        criterion = user.rpartition("<criterion>")[2]
        if "reference" in criterion or "policy" in criterion:
            return judge_by_words(user, criterion)
        thanks = "hank" in user.partition("<response>")[2].partition("</response>")[0]
        sarcastic = "when it comes" in user and "sarcas" in user
        run_and_format = 'It says "Thank you".' if thanks else "It gives no thanks."
        run_and_format = "The thanks are sarcastic." if sarcastic else run_and_format
        return {
            "explanation": run_and_format,
            "criterion_status": "MET" if thanks and not sarcastic else "UNMET",
        }
    run_and_format = {
        "apples": "She has 3 and buys 4, so it is 7.",
        "bus": "27",
        "cake": "It is 12 and then 5 less, so 8.",
    }
    question = user.rpartition("\n")[2]
    if "capital" in question:
        return "Santiago." if "Chile" in question else "I am not sure."
    if "return" in question:
        return "Yes, you can return it within 30 days."
    return next((words for name, words in run_and_format.items() if name in user), "12 or so")


def answer_better(system: str, user: str) -> Any:
    """Answer as a model that knows capitals, and does sums if the prompt tells it to take its time."""
    question = user.rpartition("\n")[2]
    if "capital" in question:
        return "Oslo." if "Norway" in question else "Santiago."
    if "cake" in question and "step" in system:
        return "12 pieces less 5 are 7."
    return answer(system, user)


def judge_by_words(user: str, criterion: str) -> Any:
    """Judge by searching the response for the reference, or for the days of a policy."""
    response = user.partition("<response>")[2].partition("</response>")[0]
    wanted = user.partition("<reference>")[2].partition("</reference>")[0].strip()
    if "policy" in criterion:
        wanted = next(iter(re.findall(r"\d+ days", criterion)), "?")
    found = wanted in response
    return {
        "explanation": f"It says {wanted}." if found else f"It does not say {wanted}.",
        "criterion_status": "MET" if found else "UNMET",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("cache_folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_the_actual_output(
    page: Path,
    request: Any,
    capsys: Any,
    serve: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Except for times and rubric versions."""
    server = serve(answer, name="qwen")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.model.partition("#")[0])
    monkeypatch.setenv("OPENAI_API_KEY", "a key for a test")
    session = Session(capsys, server.model, serve(answer_better, name="big").model)
    updating = request.config.getoption("update_examples")
    text = page.read_text(encoding="utf-8")

    def printed_anew(command: re.Match[str]) -> str:
        line, shown = command.groups()
        printed = session.run_and_format(line)
        if CHANGING.sub("…", printed) == CHANGING.sub("…", shown):
            return command[0]
        assert updating, f"{line}\n{printed}"
        return f"$ {line}\n{STARTED.sub('2026-01-31T09:30:00Z', printed)}"

    def run(block: re.Match[str]) -> str:
        language, title, content = block.groups()
        if title:
            Path(title).write_text(session.as_run(content), encoding="utf-8")
        return (
            block[0]
            if language != "console"
            else f"```console\n{COMMAND.sub(printed_anew, content)}```"
        )

    anew = BLOCK.sub(run, text)
    if updating and anew != text:
        page.write_text(anew, encoding="utf-8")


def test_every_command_and_setting_is_documented() -> None:
    """Commands on any page, settings in the table of the command line."""
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    for name in COMMANDS:
        assert f"assay {name}" in pages
    page = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    for setting in SETTINGS:
        assert re.search(rf"^\| [^|]*`{setting.replace('_', '-')}`", page, re.MULTILINE)
