"""Run a worker that may freeze, read what it tells, and end it from outside when it must be."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from math_processes import descendants
from subjects import HERE, environment

_STEP_SECONDS = 0.25
_GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class Watched:
    """What a worker told, and how it came to its end."""

    lines: list[dict[str, Any]]
    end: str
    """`ended` by itself, `frozen` when it was silent for too long, or `late`."""
    seconds: float
    silence: float
    """The longest time without a line."""
    left: int
    """Processes it started that were still alive a second after it had ended."""

    @property
    def verdicts(self) -> dict[int, Any]:
        return {line["case"]: line["verdict"] for line in self.lines if "case" in line}

    @property
    def words(self) -> dict[int, str]:
        """Verdicts in the subject's own words, where it has any."""
        return {line["case"]: line["words"] for line in self.lines if line.get("words")}

    @property
    def seconds_of(self) -> dict[int, float]:
        return {line["case"]: line["seconds"] for line in self.lines if "case" in line}

    @property
    def last(self) -> dict[str, Any]:
        """The closing line; empty when there was none."""
        done = self.lines and not {"case", "beat"} & self.lines[-1].keys()
        return self.lines[-1] if done else {}

    @property
    def remains(self) -> tuple[int, int] | None:
        """Processes and threads that were left; None when the worker never got so far."""
        if not self.last:
            return None
        return self.left + self.last["processes_left"], self.last["threads_left"]


def watch(interpreter: Path, worker: str, task: dict[str, Any], *, quiet: float, total: float) -> Watched:
    """Run it until it ends, is silent for `quiet` seconds or has had `total` seconds.

    Silence counts from the first line: before it, packages are imported.
    """
    process = subprocess.Popen(
        (str(interpreter), str(HERE / worker), json.dumps(task)),
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _listen(process, quiet=quiet, total=total)
    finally:
        _end(process, descendants(process.pid))


def _listen(process: "subprocess.Popen[bytes]", *, quiet: float, total: float) -> Watched:
    assert process.stdout is not None
    began = heard = time.monotonic()
    buffer, lines, silence, end = b"", list[dict[str, Any]](), 0.0, "ended"
    family: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            exited = process.poll() is not None
            text = b""
            if selector.select(_STEP_SECONDS):
                text = os.read(process.stdout.fileno(), 1 << 16)
            now = time.monotonic()
            buffer += text
            *whole, buffer = buffer.split(b"\n")
            new = [json.loads(line) for line in whole if line.startswith(b"{")]
            if new:
                silence = max(silence, now - heard) if lines else 0.0
                heard = now
                lines += new
            family |= {member.pid for member in descendants(process.pid)}
            if exited and not text:
                break
            if lines and now - heard > quiet:
                end = "frozen"
                break
            if now - began > total:
                end = "late"
                break
    left = _alive(family) if end == "ended" else 0
    return Watched(lines, end, time.monotonic() - began, max(silence, now - heard), left)


def _alive(family: set[int]) -> int:
    deadline = time.monotonic() + _GRACE_SECONDS
    while family and time.monotonic() < deadline:
        time.sleep(0.05)
        family = {pid for pid in family if Path(f"/proc/{pid}").exists()}
    return len(family)


def _end(process: "subprocess.Popen[bytes]", family: list[Any]) -> None:
    for pid in [process.pid, *(member.pid for member in family)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
