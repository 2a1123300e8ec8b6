"""The documentation site: it builds without a warning, loads nothing from elsewhere, and every page has its Markdown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cli.root import COMMANDS

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_documentation_is_on_the_site(site):
    """As HTML, as Markdown beside it, and by name in llms.txt."""
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (site / "llms.txt").read_text()))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= listed
    for page in listed:
        assert (site / page).read_text().startswith("# ")
        assert (site / page).with_suffix(".html").is_file()


def test_nothing_is_loaded_from_another_host(site):
    """No script, style, font, picture or frame; a link that a reader may follow is no load."""
    loaded = re.compile(
        r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>\"]+"
    )
    found = {str(path): loaded.findall(path.read_text()) for path in site.rglob("*.html")}
    assert {path: hits for path, hits in found.items() if hits} == {}
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", path.read_text()), path


def test_the_reference_has_every_command(site):
    """From what `--help` prints."""
    page = (site / "reference" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"\nassay {name} " not in page] == []


def test_the_reference_is_made_from_docstrings(site):
    """As HTML, and as Markdown with the examples in fences."""
    assert "One weighted question" in (site / "reference" / "api" / "assay.html").read_text()
    page = (site / "reference" / "api" / "assay.md").read_text()
    assert "## Rubric\n" in page
    assert "```pycon\n>>> Criterion(" in page
    assert ":::" not in page
    assert "A plain text, or a chat." in page  # what a comment says of a type alias
    for name in ("runs.html", "runs.md"):  # what a comment says of a field, behind it and above it
        page = (site / "reference" / "api" / name).read_text()
        assert "What generation and judging took." in page
        assert (
            "Seconds of generation and of scoring, added up over the rollouts that were timed."
            in page
        )
