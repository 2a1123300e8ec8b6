"""Reward servers in processes of their own: one for the session, and one for each test that needs it."""

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
    """Return 1 once the file named by the completion exists; create a `.began-PID` file beside it first."""
    if "/" not in completion:
        return float(completion == "4")
    Path(f"{completion}.began-{os.getpid()}").touch()
    while not Path(completion).exists():
        await asyncio.sleep(0.005)
    return 1.0


def hangs(completion):
    """Block the whole process if the completion is `hang`."""
    while completion == "hang":
        time.sleep(0.01)
    return 1.0


def blocks(completion):
    """Block the whole process for 50 ms."""
    time.sleep(0.05)
    return 1.0


MADE_OF_FOUR = 1.0


def made_of_four(completion):
    """Return a constant that a test changes in the source file."""
    return MADE_OF_FOUR


def fails(completion):
    raise ValueError(f"no judge for {completion!r}")


def made():
    """Make a rubric in Python code."""
    from assay import Rubric

    return Rubric([hangs], name="made")


def made_by_the_supervisor_alone():
    """Make a rubric in the supervisor, and fail in a worker process."""
    import multiprocessing

    from assay import Rubric

    if multiprocessing.parent_process() is not None:
        raise RuntimeError("no license here")
    return Rubric([hangs])


def longest(completions) -> list[float]:
    """Score the longest completions of a group 1, and the others 0."""
    most = max(map(len, completions))
    return [float(len(completion) == most) for completion in completions]
'''

PROGRAM = """\
import json, logging, sys
from assay.server import Bounds, JudgeSettings, Settings, serve

logging.basicConfig()
options = json.loads(sys.argv[2])
bounds = Bounds(**options.pop("bounds", {}))
judge = options.pop("judge", None)
if isinstance(judge, dict):
    judge = JudgeSettings(**judge)
serve(
    sys.argv[1], Settings(port=0, bounds=bounds, **options), judge, allow_code=True,
    started=lambda url: print(url, flush=True),
)
"""


_SOURCES = os.environ["PYTHONPATH"].split(os.pathsep) if "PYTHONPATH" in os.environ else []


class Answer(NamedTuple):
    """A response of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.data["error"]


def retry_after_a_killed_worker(request: Callable[[], Any]) -> Any:
    """Retry a request whose connection was reset because its worker was killed."""
    for _ in range(4):
        try:
            return request()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
    return request()


def send_http_request(
    url: str,
    path: str,
    body: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request on a new connection. A body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request_headers = {"Content-Type": "application/json"} if data is not None else {}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, data, request_headers | (headers or {}))
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def read_metrics(url: str) -> dict[str, float]:
    """Return the value of every metric, by its name and labels, sorted by name."""
    text = send_http_request(url, "/metrics", method="GET").body.decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


class ServerProcess:
    """A reward server that runs in processes of its own."""

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

    def request(self, path: str, body: Any = None, **options: Any) -> Answer:
        return send_http_request(self.url, path, body, **options)

    def score(self, *completions: str, **fields: Any) -> Answer:
        rollouts = [{"completion": c, "answer": "4", **fields} for c in completions]
        return self.request("/v1/score", {"rollouts": rollouts})

    def ready(self) -> Any:
        return retry_after_a_killed_worker(lambda: self.request("/ready", method="GET").data)

    def metrics(self) -> dict[str, float]:
        """Return the value of every metric, by its name and labels, sorted by name."""
        return retry_after_a_killed_worker(lambda: read_metrics(self.url))

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        supervisor = self.process.pid
        worker_pids = []
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            with suppress(OSError):  # the process may end meanwhile
                # multiprocessing also starts a resource tracker, which is not a worker.
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    worker_pids.append(int(child))
        return worker_pids

    def stop(self, signal_number: int = signal.SIGTERM) -> str:
        """Send a signal to the server, wait until it ends, and return its standard error."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        _, standard_error = self.process.communicate(timeout=60)
        return standard_error


@pytest.fixture
def wait_until():
    """Poll a condition until it is true, and return its value."""

    def wait(condition, seconds=30.0):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never became true"
            time.sleep(0.01)
        return value

    return wait


@pytest.fixture
def rubric_file(tmp_path):
    """Write a rubric file, with the module of checks that it may name beside it."""

    def write(text=RUBRIC):
        (tmp_path / "steered.py").write_text(CHECKS)
        path = tmp_path / "rubric.yaml"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def start_server(rubric_file):
    """Start a server for this test only."""
    servers: list[ServerProcess] = []

    def start(text=RUBRIC, **settings):
        server = ServerProcess(rubric_file(text), **settings)
        servers.append(server)
        return server

    yield start
    for server in servers:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)  # workers too, whatever state they are in
        server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server shared by all tests that only send requests to it."""
    path = tmp_path_factory.mktemp("server") / "rubric.yaml"
    path.write_text(RUBRIC)
    process = ServerProcess(path, bounds={"max_bytes": 200_000, "max_batch": 64})
    yield process
    process.stop()


@pytest.fixture(scope="session")
def send_request():
    """Return the function that sends a request to any server."""
    return send_http_request


@pytest.fixture(scope="session")
def read_server_metrics():
    """Return the function that reads the metrics of any server."""
    return read_metrics


@pytest.fixture(scope="session")
def server_process_class():
    """Return the class of server processes, for fixtures that keep several."""
    return ServerProcess
