"""LocalProcess: a local server in a process of its own, there while somebody needs it.

Apart from us a crash of native code or a lack of memory ends a child and not a training run, and the
engine's threads do not wait in ours.
"""

import atexit
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from typing import IO

from assay.errors import Refused
from assay.models.local_server import CONTEXT

STOP_SECONDS = 10.0


class LocalProcess:
    """Starts on first need, starts again when it has died, ends with this process."""

    def __init__(
        self, model: str, *, threads: int | None = None, context: int = CONTEXT, slots: int = 1
    ) -> None:
        self.key = secrets.token_urlsafe(24)
        self._arguments = ["--model", model, "--context", str(context), "--slots", str(slots)]
        self._arguments += ["--threads", str(threads)] if threads else []
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = os.getpid()
        self._url = ""
        _RUNNING.add(self)

    @property
    def pid(self) -> int | None:
        """The number of the process; None while it does not run."""
        process = self._process
        # Only a parent can know, so a forked child believes that it still runs.
        is_gone = process is None or (self._owner == os.getpid() and process.poll() is not None)
        return None if process is None or is_gone else process.pid

    @property
    def url(self) -> str:
        """Where it answers; empty while it does not run."""
        return self._url if self.pid is not None else ""

    def start(self) -> str:
        """Where it answers, once it does. Waits while the model loads: call it off the loop."""
        with self._lock:
            if not self.url:
                self._url = self._started()
            return self._url

    def stop(self) -> None:
        """End it. A later `start` starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        # A forked child has a copy of this, and the server is its parent's.
        if process is None or self._owner != os.getpid():
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> str:
        self._end()
        command = [sys.executable, "-m", "assay.models.local_server", "--until-eof"]
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
            self._owner = os.getpid()
            process = subprocess.Popen(
                command + self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=self._environment(),
            )
            self._process = process
            return _address(process, complaints)

    def _environment(self) -> dict[str, str]:
        # Threads that spin while they wait bring the engine to a crawl on a busy machine.
        return os.environ | {"ASSAY_LOCAL_KEY": self.key, "OMP_WAIT_POLICY": "passive"}


def _address(process: "subprocess.Popen[str]", complaints: IO[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if line:
        return str(json.loads(line)["url"])
    status = process.wait()
    complaints.seek(0)
    said = complaints.read().strip()[-1000:] or "it said nothing"
    raise Refused(f"the local engine did not start (exit status {status}): {said}")


_RUNNING: weakref.WeakSet[LocalProcess] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for process in list(_RUNNING):
        process.stop()
