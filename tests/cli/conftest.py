"""A model server for the commands to call, and folders for what they save."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.testing import ModelServer


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """Start model servers that stop at the end of the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(ModelServer(*args, **kwargs))


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache, and hide the settings, keys and models of this machine."""
    for name in (
        "ASSAY_JUDGE",
        "ASSAY_MODEL",
        "ASSAY_LOCAL_MODEL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "no-models"))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[..., str]:
    """Write a file: text as it is, rows as JSON lines, and any other value as JSON."""

    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif name.endswith(".jsonl"):
            path.write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write
