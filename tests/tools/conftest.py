"""Processes that can be recognized by a marker on their command line, and sandboxes of this system."""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from assay.tools import Interpreter, interpreter

PROC = Path("/proc")


class ProcessMarker:
    """A word that no other process has on its command line."""

    def __init__(self) -> None:
        self.word = f"mark-{uuid.uuid4()}"

    def sleeper_code(self, *, daemon: bool = False) -> str:
        """Return code that starts a marked process, which sleeps forever."""
        options = "start_new_session=True" if daemon else ""
        command = f"[sys.executable, '-c', 'import time; time.sleep(600)', {self.word!r}]"
        return f"import subprocess, sys\nsubprocess.Popen({command}, {options})\n"

    def list_processes(self) -> list[int]:
        """Return the ids of marked processes. Zombies have no command line and are not listed."""
        pids: list[int] = []
        for folder in PROC.iterdir():
            with suppress(OSError, ValueError):
                if self.word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    pids.append(int(folder.name))
        return pids

    def wait_until(self, condition: Callable[[list[int]], bool]) -> list[int]:
        """Poll the marked processes until a condition holds, at most for half a minute; return them."""
        deadline = time.monotonic() + 30
        while not condition(pids := self.list_processes()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return pids


@pytest.fixture
def marker() -> ProcessMarker:
    if not PROC.exists():
        pytest.skip("this system does not list its processes")
    return ProcessMarker()


@pytest.fixture(scope="session")
def available_fences() -> frozenset[str]:
    """The sandbox layers ("fences") that this system supports."""
    return Interpreter().fences()


@pytest.fixture
def require_fences(available_fences: frozenset[str]) -> Callable[..., None]:
    """Skip a test if this system does not support a fence."""

    def require(*fences: str) -> None:
        if missing := [fence for fence in fences if fence not in available_fences]:
            pytest.skip(f"this system has no fence for {', '.join(missing)}")

    return require


@pytest.fixture
def use_only_fences(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Use only these fences, as on a system that has no others."""
    return lambda *fences: monkeypatch.setattr(interpreter, "FENCES", fences)
