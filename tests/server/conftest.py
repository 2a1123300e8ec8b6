"""Real servers: one for a whole test run, and others for tests that end or break theirs."""

import http.client
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

RUBRIC = """\
name: arithmetic
criteria:
- {check: exact_match, weight: 2}
- check: {max_words: 3}
- {check: {contains: "4"}, weight: 0.5}
"""
"""Worth 2 + 1 + 0.5 = 3.5 points."""

CHECKS = '''\
"""Checks that tests steer from outside."""

import asyncio
import os
import time
from pathlib import Path


async def when_told(completion):
    """1 once the file that the completion names is there; says that it waits by a file beside it."""
    if "/" not in completion:
        return float(completion == "4")
    Path(f"{completion}.began-{os.getpid()}").touch()
    while not Path(completion).exists():
        await asyncio.sleep(0.005)
    return 1.0


def hangs(completion):
    """Holds up the whole process when it is told to."""
    while completion == "hang":
        time.sleep(0.01)
    return 1.0


def blocks(completion):
    """Holds up the whole process for a moment."""
    time.sleep(0.05)
    return 1.0


MADE_OF_FOUR = 1.0


def made_of_four(completion):
    """A check whose code a test changes."""
    return MADE_OF_FOUR


def fails(completion):
    raise ValueError(f"no judge for {completion!r}")


def made():
    """A rubric written in Python."""
    from assay import Rubric

    return Rubric([hangs], name="made")


def made_by_the_supervisor_alone():
    """A rubric that worker processes cannot make."""
    import multiprocessing

    from assay import Rubric

    if multiprocessing.parent_process() is not None:
        raise RuntimeError("no license here")
    return Rubric([hangs])


def longest(completions) -> list[float]:
    """1 for the longest of a group."""
    most = max(map(len, completions))
    return [float(len(completion) == most) for completion in completions]
'''

PROGRAM = """\
import json, logging, sys
from assay.server import Bounds, JudgeSettings, Settings, serve

logging.basicConfig()
given = json.loads(sys.argv[2])
bounds = Bounds(**given.pop("bounds", {}))
judge = given.pop("judge", None)
if isinstance(judge, dict):
    judge = JudgeSettings(**judge)
serve(
    sys.argv[1], Settings(port=0, bounds=bounds, **given), judge, allow_code=True,
    started=lambda url: print(url, flush=True),
)
"""


_SOURCES = os.environ["PYTHONPATH"].split(os.pathsep) if "PYTHONPATH" in os.environ else []


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.data["error"]


def again_after_a_kill(look: Callable[[], Any]) -> Any:
    """What a client does: a connection that a killed worker had taken is reset, and another worker answers."""
    for _ in range(4):
        try:
            return look()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
    return look()


def ask(
    url: str,
    path: str,
    body: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own; a body that is no bytes goes as JSON."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if data is not None else {}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, data, sent | (headers or {}))
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def read_metrics(url: str) -> dict[str, float]:
    """Every metric of a server by name and labels, which stand in the order of their names."""
    text = ask(url, "/metrics", method="GET").body.decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


class Running:
    """A server in processes of its own."""

    def __init__(self, rubric: Path, where: str = "", **settings: Any) -> None:
        self.rubric = rubric
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, where or str(rubric), json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(rubric.parent), *_SOURCES])},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def ask(self, path: str, body: Any = None, **options: Any) -> Answer:
        return ask(self.url, path, body, **options)

    def score(self, *completions: str, **fields: Any) -> Answer:
        rollouts = [{"completion": c, "answer": "4", **fields} for c in completions]
        return self.ask("/v1/score", {"rollouts": rollouts})

    def ready(self) -> Any:
        return again_after_a_kill(lambda: self.ask("/ready", method="GET").data)

    def metrics(self) -> dict[str, float]:
        """Every metric by name and labels, which stand in the order of their names."""
        return again_after_a_kill(lambda: read_metrics(self.url))

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        of, found = self.process.pid, []
        for child in Path(f"/proc/{of}/task/{of}/children").read_text().split():
            with suppress(OSError):  # one may end while it is looked at
                # Python's multiprocessing has a process of its own beside those that it is asked for.
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
        return found

    def stop(self, number: int = signal.SIGTERM) -> str:
        """End it, and give what it said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return said


@pytest.fixture
def until():
    """Wait until something holds; it is looked at again and again."""

    def wait(holds, seconds=30.0):
        ends = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < ends, "it never came to hold"
            time.sleep(0.01)
        return found

    return wait


@pytest.fixture
def rubric_file(tmp_path):
    """Write a rubric file, beside the checks that it may name."""

    def write(text=RUBRIC):
        (tmp_path / "steered.py").write_text(CHECKS)
        path = tmp_path / "rubric.yaml"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def start(rubric_file):
    """Start a server of one's own; it is ended with the test."""
    running: list[Running] = []

    def begin(text=RUBRIC, **settings):
        server = Running(rubric_file(text), **settings)
        running.append(server)
        return server

    yield begin
    for server in running:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)  # workers too, whatever state they are in
        server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that nobody ends, for all who only ask."""
    path = tmp_path_factory.mktemp("server") / "rubric.yaml"
    path.write_text(RUBRIC)
    running = Running(path, bounds={"max_bytes": 200_000, "max_batch": 64})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def asking():
    """The function that asks a server."""
    return ask


@pytest.fixture(scope="session")
def metrics_of():
    """The function that reads the metrics of a server."""
    return read_metrics


@pytest.fixture(scope="session")
def running_kind():
    """The class of servers, for fixtures that keep several."""
    return Running
