"""Prompts of probe and suggest: prose in `prompts/`, each with a version in its first line."""

import re
from functools import cache
from importlib.resources import files

_VERSION = re.compile(r"<!-- version (\d+) -->\s*")


@cache
def instructions(name: str) -> str:
    """The words of a prompt."""
    return _VERSION.sub("", _file(name), count=1).strip()


@cache
def version(name: str) -> str:
    """The name and version of a prompt, such as `suggest_pairs/1`; part of every cache key."""
    found = _VERSION.match(_file(name))
    assert found is not None, f"prompts/{name}.md does not open with its version"
    return f"{name}/{found[1]}"


def _file(name: str) -> str:
    path = files("assay.trust").joinpath("prompts", f"{name}.md")
    return path.read_text(encoding="utf-8")
