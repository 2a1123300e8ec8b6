"""What tests of tools share: processes that can be told apart by a mark on their command line."""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from assay.tools import Interpreter, interpreter

PROC = Path("/proc")


class Mark:
    """A word that no other process has on its command line."""

    def __init__(self) -> None:
        self.word = f"mark-{uuid.uuid4()}"

    def sleeper(self, *, daemon: bool = False) -> str:
        """Code that starts a process with this mark, which sleeps for ever."""
        options = "start_new_session=True" if daemon else ""
        command = f"[sys.executable, '-c', 'import time; time.sleep(600)', {self.word!r}]"
        return f"import subprocess, sys\nsubprocess.Popen({command}, {options})\n"

    def bearers(self) -> list[int]:
        """Processes with the mark. The dead that nobody has buried have no command line."""
        found: list[int] = []
        for folder in PROC.iterdir():
            with suppress(OSError, ValueError):
                if self.word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def until(self, holds: Callable[[list[int]], bool]) -> list[int]:
        """Wait until something holds of its bearers, half a minute at most; returns them."""
        late = time.monotonic() + 30
        while not holds(found := self.bearers()) and time.monotonic() < late:
            time.sleep(0.005)
        return found


@pytest.fixture
def mark() -> Mark:
    if not PROC.exists():
        pytest.skip("this system does not list its processes")
    return Mark()


@pytest.fixture(scope="session")
def standing() -> frozenset[str]:
    """The fences that this system can put up."""
    return Interpreter().fences()


@pytest.fixture
def need(standing: frozenset[str]) -> Callable[..., None]:
    """Skips a test where a fence cannot be put up."""

    def needed(*fences: str) -> None:
        if missing := [fence for fence in fences if fence not in standing]:
            pytest.skip(f"this system has no fence for {', '.join(missing)}")

    return needed


@pytest.fixture
def with_fences(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts up these fences only, as on a system that has no others."""
    return lambda *fences: monkeypatch.setattr(interpreter, "FENCES", fences)
