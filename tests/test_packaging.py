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
    assert sorted(hashes[0]) == ["assay-0.1.0-py3-none-any.whl", "assay-0.1.0.tar.gz"]


def test_every_extra_is_tried_alone():
    """`make extras` has a program for each, but for what only this project's own work needs."""
    spec = importlib.util.spec_from_file_location("try_extras", ROOT / "tools" / "try_extras.py")
    tried = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tried)
    assert set(EXTRAS) - set(tried.PROGRAMS) <= {"dev", "docs", "trl"}


def test_all_means_every_extra_but_the_trainers():
    """A new extra is part of `assay[all]`."""
    [requirement] = EXTRAS["all"]
    named = set(re.search(r"\[(.*)\]", requirement)[1].split(","))
    assert set(EXTRAS) - named == {"all", "demo", "dev", "docs", "trl"} & set(EXTRAS)


def test_the_table_of_the_readme_names_every_extra():
    """With what it adds."""
    rows = re.findall(
        r"^\| (`[\w`, ]+`) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(EXTRAS) - set(re.findall(r"`(\w+)`", " ".join(rows))) == set()
