"""Measure the reward server against FastAPI: `python benchmarks/server.py`.

It measures the requests per CPU second for the same rubric, the latency at three times the capacity, and
what happens to requests while workers are killed. Prints a table and writes it into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from harness import (
    Check,
    Limit,
    Peer,
    Row,
    Target,
    add_options,
    as_table,
    environment,
    install,
    plain_table,
    run_worker,
    save_results,
    say,
    worker,
)
from server_rubric import CAPACITY, SECONDS, expected, rollout

from assay import Rollout
from assay.server import RemoteRubric

# Send requests to a server from a process of its own. Its only argument is the task as JSON; it prints
# figures as JSON.

# It sends `count` requests of `rows` rollouts over `connections`, each as soon as the previous one is
# answered. With `per_second`, it sends requests at this rate for `seconds`, without waiting for answers.


async def run_load(task: dict[str, Any]) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=task.get("connections", 0))
    async with aiohttp.ClientSession(task["url"], connector=connector) as session:
        if "per_second" in task:
            return await send_at_rate(session, task)
        return await send_back_to_back(session, task)


async def send_back_to_back(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    """Send requests over several connections; return how many answers were wrong."""
    waiting = iter(range(task["count"]))  # shared by the connections
    wrong_requests: list[int] = []

    async def use_connection() -> None:
        for request in waiting:
            first = request * task["rows"]
            numbers = range(first, first + task["rows"])
            body = {"rollouts": [rollout(number) for number in numbers]}
            async with session.post("/v1/score", json=body) as response:
                items = (await response.json())["items"]
            rewards = [item["reward"] for item in items]
            if rewards != [expected(number) for number in numbers]:
                wrong_requests.append(request)

    await asyncio.gather(*(use_connection() for _ in range(task["connections"])))
    return {"wrong": len(wrong_requests)}


async def send_at_rate(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    """Send requests at a constant rate; return how many were served, and how long they took."""
    seconds: dict[int, list[float]] = {200: [], 429: []}
    others: Counter[str] = Counter()

    async def send(number: int) -> None:
        started = time.perf_counter()
        try:
            body = {"rollouts": [rollout(number)]}
            async with session.post("/v1/score", json=body) as response:
                await response.read()
                status = response.status
        except aiohttp.ClientError as error:
            others[type(error).__name__] += 1
            return
        if status in seconds:
            seconds[status].append(time.perf_counter() - started)
        else:
            others[str(status)] += 1

    total = int(task["per_second"] * task["seconds"])
    started = time.perf_counter()
    requests: list[asyncio.Task[None]] = []
    for number in range(total):
        wait = started + number / task["per_second"] - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        requests.append(asyncio.create_task(send(number)))
    await asyncio.gather(*requests)
    return {
        "asked": total,
        "served": len(seconds[200]),
        "refused": len(seconds[429]),
        "others": dict(others),
        "p50": _quantile(seconds[200], 0.50),
        "p99": _quantile(seconds[200], 0.99),
        "refused_p99": _quantile(seconds[429], 0.99),
    }


def _quantile(values: list[float], share: float) -> float | None:
    if not values:
        return None
    index = min(len(values) - 1, int(share * len(values)))
    return sorted(values)[index]


# Score many rollouts by `RemoteRubric`, one per request, while the server's workers are killed.

# Its only argument is the task as JSON: `url` and `count`. Prints how many were answered, unanswered and wrong.


async def score_during_kills(url: str, count: int) -> dict[str, float]:
    remote = RemoteRubric(url, batch_size=1, at_once=32, patience=120)
    started = time.perf_counter()
    reports = await remote.score([Rollout.from_state(rollout(number)) for number in range(count)])
    answered = wrong = 0
    for number, report in enumerate(reports):
        if report.scored:
            answered += 1
            wrong += report.raw_score != expected(number)
    return {
        "answered": answered,
        "unanswered": count - answered,
        "wrong": wrong,
        "seconds": time.perf_counter() - started,
    }


# Servers in processes of their own, their CPU time, and clients of them.

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"

SERVE = """\
import json, sys
from assay.server import Bounds, Settings, serve
options = json.loads(sys.argv[2])
serve(
    sys.argv[1], Settings(port=0, workers=options["workers"], bounds=Bounds(**options["bounds"])),
    started=lambda url: print(url, flush=True),
)
"""


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    def workers(self) -> list[int]:
        """Return its child processes, without the resource tracker of multiprocessing."""
        pid = self.process.pid
        workers: list[int] = []
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                workers.append(int(child))
        return workers

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes so far."""
        return sum(_cpu_seconds(pid) for pid in (self.process.pid, *self.workers()))


def _cpu_seconds(pid: int) -> float:
    # These are nanoseconds; /proc/PID/stat has hundredths of a second.
    nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        nanoseconds += int(thread.read_text().split()[0])
    return nanoseconds / 1e9


def _environment() -> dict[str, str]:
    return environment() | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}


@contextmanager
def assay_server(
    interpreter: Path, rubric: str, *, workers: int = 1, bounds: Mapping[str, Any] | None = None
) -> Generator[Server]:
    """Run `assay serve` with one of the rubrics."""
    options = json.dumps({"workers": workers, "bounds": bounds or {}})
    command = [str(interpreter), "-c", SERVE, f"server_rubric:{rubric}", options]
    with subprocess.Popen(
        command, env=_environment(), cwd=HERE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Server(process.stdout.readline().strip(), process)
        finally:
            process.terminate()


@contextmanager
def fastapi_server(interpreter: Path, rubric: str, http: str) -> Generator[Server]:
    """Run the same rubric behind FastAPI."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = free_socket.getsockname()[1]
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
    raise TimeoutError(f"no server listens on port {port}")


def start_client(interpreter: Path, program: str, **task: Any) -> subprocess.Popen[str]:
    command = [str(interpreter), *worker(program), json.dumps(task)]
    return subprocess.Popen(
        command, env=_environment(), cwd=HERE, stdout=subprocess.PIPE, text=True
    )


def read_figures(client: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a client to end, and return the figures that it printed."""
    output, _ = client.communicate()
    if client.returncode:
        raise RuntimeError(f"the client ended with {client.returncode}")
    return json.loads(output.splitlines()[-1])


def is_ready(server: Server) -> bool:
    """Return whether all of its workers accept requests."""
    try:
        with urllib.request.urlopen(f"{server.url}/ready", timeout=5):
            return True
    except OSError:  # also for a status other than 200
        return False


def has_httptools(interpreter: Path) -> bool:
    """Return whether uvicorn can use its faster HTTP parser."""
    command = [str(interpreter), "-c", "import httptools"]
    return subprocess.run(command, capture_output=True).returncode == 0


THIS_INTERPRETER = Path(sys.executable)


# Measure the reward server.

Say = Callable[[str], None]

AT_ONCE = 32  # concurrent requests of the overloaded server
BUSY_AT_ONCE = 8  # the same if each request needs the CPU all the time


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the targets are for the defaults."""

    requests: int = 2000
    batches: int = 200
    rounds: int = 21
    seconds: float = 10.0
    kills: int = 10_000  # requests while workers are killed


QUICK = Sizes(requests=500, batches=40, rounds=2, seconds=2.0, kills=500)


def measure_rate(peer: Path, sizes: Sizes, say: Say) -> list[Row | Check]:
    """Compare the requests per CPU second, with the same HTTP parser in both servers."""
    table_rows: list[Row | Check] = []
    settings = [(peer, "httptools")]
    if not has_httptools(THIS_INTERPRETER):
        settings.append((THIS_INTERPRETER, "h11"))
    for ours, http in settings:
        with assay_server(ours, "cheap") as server, fastapi_server(peer, "cheap", http) as other:
            for rows, count, clients in (
                (1, sizes.requests, 2),
                (1, sizes.requests, 1),
                (64, sizes.batches, 1),
            ):
                say(
                    f"rate, {http}: {clients} times {count} requests of {rows}, {sizes.rounds} rounds each"
                )
                rates = _compare_rates(
                    peer, [server, other], rows, count, rounds=sizes.rounds, clients=clients
                )
                # A single client is slower than our server, which then has to wake up for nearly every request, while
                # requests always wait at FastAPI. Two clients keep both servers busy, and the target is about busy servers.
                load = "one client"
                target = None
                if clients > 1:
                    load = "both always busy"
                    target = Target(1.3, "at least")
                size = "1 rollout" if rows == 1 else f"{rows} rollouts"
                label = f"requests of {size}, {load}, uvicorn with {http}"
                table_rows.append(Row(label, rates[0], rates[1], "/CPU-s", "FastAPI", target))
    return table_rows


def _compare_rates(
    interpreter: Path, servers: list[Server], rows: int, count: int, *, rounds: int, clients: int
) -> list[float]:
    """Return the requests per CPU second of each server, the median of rounds that take turns."""
    cpu_seconds: list[list[float]] = [[] for _ in servers]
    for round_number in range(rounds + 1):
        for index, server in enumerate(servers):
            before = server.cpu_seconds()
            task = {"url": server.url, "rows": rows, "count": count, "connections": 16}
            running = [start_client(interpreter, "server.py:load", **task) for _ in range(clients)]
            wrong = sum(read_figures(client)["wrong"] for client in running)
            if wrong:
                raise RuntimeError(f"{wrong} answers of {server.url} are wrong")
            if round_number > 0:  # the first round warms up
                cpu_seconds[index].append(server.cpu_seconds() - before)
    return [clients * count / median(seconds) for seconds in cpu_seconds]


def measure_overload(peer: Path, sizes: Sizes, say: Say) -> list[Row | Check]:
    """Send three times as many requests as can be served, and measure the latency of the served."""
    capacity = CAPACITY / SECONDS
    say(f"overload: {3 * capacity:.0f} requests a second for {sizes.seconds:g} s, each server")
    with assay_server(THIS_INTERPRETER, "judged", bounds={"at_once": AT_ONCE}) as server:
        ours = _overload(peer, server, 3 * capacity, sizes)
    with fastapi_server(peer, "judged", "httptools") as server:
        theirs = _overload(peer, server, 3 * capacity, sizes)
    with assay_server(THIS_INTERPRETER, "working", bounds={"at_once": BUSY_AT_ONCE}) as server:
        our_busy = _overload(peer, server, 3 / SECONDS, sizes)
    with fastapi_server(peer, "working", "httptools") as server:
        their_busy = _overload(peer, server, 3 / SECONDS, sizes)
    # A full queue takes half of this; the rest allows for chance and other work on the machine.
    limit = Limit(2 * AT_ONCE / CAPACITY * SECONDS, "at most", "s")
    label = f"a judge's {capacity:.0f} requests/s, three times as many asked, {AT_ONCE} at once"
    busy = f"{SECONDS * 1000:.0f} ms of CPU each, three times too many, {BUSY_AT_ONCE} at once"
    return [
        Row(f"{label}: p50 of the served", ours["p50"], theirs["p50"], "s", "FastAPI"),
        Row(f"{label}: p99", ours["p99"], None, "s", target=limit),
        Row(f"{label}: p99", ours["p99"], theirs["p99"], "s", "FastAPI"),
        Row(f"{label}: p99 of a refusal", ours["refused_p99"], None, "s"),
        _check_answers(label, ours),
        Row(f"{busy}: p99", our_busy["p99"], their_busy["p99"], "s", "FastAPI"),
        _check_answers(busy, our_busy),
    ]


def _overload(interpreter: Path, server: Server, per_second: float, sizes: Sizes) -> dict[str, Any]:
    client = start_client(
        interpreter,
        "server.py:load",
        url=server.url,
        per_second=per_second,
        seconds=sizes.seconds,
    )
    return read_figures(client)


def _check_answers(label: str, figures: dict[str, Any]) -> Check:
    """Check that every request was either served or refused."""
    served = figures["served"] / figures["asked"]
    refused = figures["refused"] / figures["asked"]
    neither = figures["asked"] - figures["served"] - figures["refused"]
    finding = f"{served:.0%} served, {refused:.0%} refused, {neither} neither"
    return Check(f"{label}: what became of them", finding, "0 neither", neither == 0)


def measure_kills(peer: Path, sizes: Sizes, say: Say) -> list[Row | Check]:
    """Kill workers at random while a client sends requests and repeats them."""
    say(f"kills: {sizes.kills} requests, two workers, one killed now and then")
    with assay_server(THIS_INTERPRETER, "cheap", workers=2) as server:
        client = start_client(THIS_INTERPRETER, "server.py:kill", url=server.url, count=sizes.kills)
        kills = _kill_workers(server, while_running=client)
        figures = read_figures(client)
    return [
        Check(
            f"{sizes.kills:,} requests, {kills} workers killed",
            f"{figures['answered']:.0f} answered, {figures['unanswered']:.0f} not, "
            f"{figures['wrong']:.0f} wrong",
            "all answered, none wrong",
            figures["unanswered"] == 0 and figures["wrong"] == 0,
        )
    ]


def _kill_workers(server: Server, while_running: subprocess.Popen[str]) -> int:
    """Kill random workers, each soon after all are ready. Return how many were killed."""
    rng = random.Random(7)
    kills = 0
    while while_running.poll() is None:
        time.sleep(rng.uniform(0.1, 0.5))
        if is_ready(server):
            os.kill(rng.choice(server.workers()), signal.SIGKILL)
            kills += 1
    return kills


MEASURES = {"rate": measure_rate, "overload": measure_overload, "kills": measure_kills}

FASTAPI = Peer(
    "fastapi",
    "0.162.4",
    (
        "uvicorn==0.54.0",
        "httptools==0.9.0",
        "uvloop==0.23.0",  # like httptools, a part of `uvicorn[standard]`
        "starlette==1.10.0",
        "pydantic==2.14.3",
        "msgspec==0.22.0",
        "pyyaml>=6",
        "prometheus-client==0.26.0",
        "watchfiles==1.3.0",
        "aiohttp==3.14.5",  # the client of all servers
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    installed = install({"fastapi"}, say=say, peers=[FASTAPI])
    if "fastapi" not in installed.interpreters:
        say(installed.failures[0])
        return 1
    interpreter = installed.interpreters["fastapi"]
    rows: list[Row | Check] = []
    try:
        for name in options.only or MEASURES:
            rows += MEASURES[name](interpreter, sizes, say)
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    table = as_table(rows)
    print(plain_table(table))
    save_results("reward server", [table], [], options, peers=[FASTAPI])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="server.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    return parser


def load_main() -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    print(json.dumps(asyncio.run(run_load(json.loads(sys.argv[1])))))


def kill_main() -> None:
    task = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(score_during_kills(task["url"], task["count"]))))


if __name__ == "__main__":
    run_worker(sys.argv, {"load": load_main, "kill": kill_main})
    sys.exit(main())
