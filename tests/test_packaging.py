"""The wheel, the source archive and the extras, as they are built from this tree."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from assay import MissingExtraError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def built(tree: Path, out: Path) -> dict[str, str]:
    """The hash of every archive that the tree builds, by name."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-d",
        str(out),
        "-t",
        "wheel",
        "-t",
        "sdist",
    ]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


@pytest.mark.slow
def test_the_wheel_and_the_source_archive_build_reproducibly(tmp_path):
    """Two copies of the tree with other times on their files give the same bytes."""
    ignored = shutil.ignore_patterns(
        ".*", "__pycache__", "*.egg-info", "benchmarks", "demo-run", "site"
    )
    hashes = []
    for name, moment in (("one", 1_700_000_000), ("two", 1_800_000_000)):
        tree = tmp_path / name
        shutil.copytree(ROOT, tree, ignore=ignored)
        for path in tree.rglob("*"):
            os.utime(path, (moment, moment))
        hashes.append(built(tree, tmp_path / f"{name}-out"))
    assert hashes[0] == hashes[1]
    assert sorted(hashes[0]) == [
        "assay_rubrics-0.1.0-py3-none-any.whl",
        "assay_rubrics-0.1.0.tar.gz",
    ]


def test_every_extra_is_tried_alone():
    """`make extras` has an environment for each, but for what only this project's own work needs."""
    spec = importlib.util.spec_from_file_location("try_extras", ROOT / "tools" / "try_extras.py")
    tried = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tried)
    assert set(EXTRAS) - set(tried.ENOUGH_FOR) <= {"dev", "docs", "trainers"}
    assert set(tried.NEEDED) <= set(tried.PROGRAMS)


def test_all_has_what_every_extra_for_users_has_but_the_trainers():
    included = set(re.search(r"\[(.*)\]", EXTRAS["all"][0])[1].split(","))
    assert set(EXTRAS) - included == {"all", "demo", "dev", "docs", "trainers"}


def test_the_readme_names_every_extra_for_users():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE))
    assert named == set(EXTRAS) - {"demo", "dev", "docs"}


def test_a_missing_extra_names_the_folder_that_assay_was_installed_from(monkeypatch, tmp_path):
    """The distribution is not on an index yet, and `assay` there is another package."""
    monkeypatch.chdir(ROOT)
    assert str(MissingExtraError("it", package="rich", extra="cli")).endswith(
        "pip install '.[cli]'"
    )
    monkeypatch.chdir(tmp_path)
    message = str(MissingExtraError("it", package="rich", extra="cli"))
    assert message.endswith(f"pip install '{ROOT}[cli]'")


def test_a_missing_extra_names_the_distribution_where_assay_came_from_an_index(monkeypatch):
    class Distribution:
        def read_text(self, name):
            return None

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Distribution())
    message = str(MissingExtraError("it", package="rich", extra="cli"))
    assert message.endswith("pip install 'assay-rubrics[cli]'")
