"""Servers in processes of their own, the CPU time they take, and clients that ask them."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subjects import environment

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"

SERVE = """\
import json, sys
from assay.server import Bounds, Settings, serve
given = json.loads(sys.argv[2])
serve(
    sys.argv[1], Settings(port=0, workers=given["workers"], bounds=Bounds(**given["bounds"])),
    started=lambda url: print(url, flush=True),
)
"""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    url: str
    process: "subprocess.Popen[str]"

    def workers(self) -> list[int]:
        """Its child processes, less the one that multiprocessing has for itself."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return sum(_cpu_seconds(pid) for pid in (self.process.pid, *self.workers()))


def _cpu_seconds(pid: int) -> float:
    # In nanoseconds, where /proc/PID/stat counts hundredths of a second.
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _environment() -> dict[str, str]:
    return environment() | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}


@contextmanager
def assay_server(
    interpreter: Path, rubric: str, *, workers: int = 1, bounds: Mapping[str, Any] | None = None
) -> Generator[Server]:
    """`assay serve` with one of the rubrics."""
    given = json.dumps({"workers": workers, "bounds": bounds or {}})
    command = [str(interpreter), "-c", SERVE, f"server_rubric:{rubric}", given]
    with subprocess.Popen(command, env=_environment(), cwd=HERE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(process.stdout.readline().strip(), process)
        finally:
            process.terminate()


@contextmanager
def fastapi_server(interpreter: Path, rubric: str, http: str) -> Generator[Server]:
    """The same rubric behind FastAPI."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(interpreter), "server_peer.py", rubric, str(port), http]
    with subprocess.Popen(command, env=_environment(), cwd=HERE, text=True) as process:
        try:
            _wait_for(port)
            yield Server(f"http://127.0.0.1:{port}", process)
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nobody listens on {port}")


def client(interpreter: Path, program: str, **task: Any) -> "subprocess.Popen[str]":
    """A client that has begun to ask."""
    command = [str(interpreter), program, json.dumps(task)]
    return subprocess.Popen(command, env=_environment(), cwd=HERE, stdout=subprocess.PIPE, text=True)


def figures(asking: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a client printed at its end."""
    printed, _ = asking.communicate()
    if asking.returncode:
        raise RuntimeError(f"the client ended with {asking.returncode}")
    return json.loads(printed.splitlines()[-1])


def is_ready(server: Server) -> bool:
    """Whether all of its workers take requests."""
    try:
        with urllib.request.urlopen(f"{server.url}/ready", timeout=5):
            return True
    except OSError:  # an answer other than 200 is one, too
        return False


def has_httptools(interpreter: Path) -> bool:
    """Whether uvicorn reads HTTP the faster way there."""
    looked = subprocess.run([str(interpreter), "-c", "import httptools"], capture_output=True)
    return looked.returncode == 0


HERE_INTERPRETER = Path(sys.executable)
