"""Measure the reward server against FastAPI: `python benchmarks/server.py`.

Requests per CPU second for the same rubric, latency when three times as much is asked as can be done, and
what becomes of requests while workers are killed. Prints a table and writes it into benchmarks/RESULTS.md.
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

# Ask a server, in a process of its own. Its only argument is the task as JSON; prints figures as JSON.

# `count` requests of `rows` rollouts over `connections`, each as soon as the one before is answered; or, with
# `per_second`, one every so often for `seconds`, whether those before are answered or not.


async def load_main(task: dict[str, Any]) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=task.get("connections", 0))
    async with aiohttp.ClientSession(task["url"], connector=connector) as session:
        if "per_second" in task:
            return await steadily(session, task)
        return await back_to_back(session, task)


async def back_to_back(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    numbers = iter(range(task["count"]))
    wrong = 0

    async def ask() -> None:
        nonlocal wrong
        for number in numbers:
            first = number * task["rows"]
            wanted = range(first, first + task["rows"])
            body = {"rollouts": [rollout(one) for one in wanted]}
            async with session.post("/v1/score", json=body) as response:
                items = (await response.json())["items"]
            found = [item["reward"] for item in items]
            wrong += found != [expected(one) for one in wanted]

    await asyncio.gather(*(ask() for _ in range(task["connections"])))
    return {"wrong": wrong}


async def steadily(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    seconds: dict[int, list[float]] = {200: [], 429: []}
    others: Counter[str] = Counter()

    async def ask(number: int) -> None:
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
    begun = time.perf_counter()
    asked: list[asyncio.Task[None]] = []
    for number in range(total):
        wait = begun + number / task["per_second"] - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        asked.append(asyncio.create_task(ask(number)))
    await asyncio.gather(*asked)
    return {
        "asked": total,
        "served": len(seconds[200]),
        "refused": len(seconds[429]),
        "others": dict(others),
        "p50": _share(seconds[200], 0.50),
        "p99": _share(seconds[200], 0.99),
        "refused_p99": _share(seconds[429], 0.99),
    }


def _share(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


# Score many rollouts by `RemoteRubric`, one a request, while somebody kills the server's workers.

# Its only argument is the task as JSON: `url` and `count`. Prints how many were answered, unanswered and wrong.


async def kill_main(url: str, count: int) -> dict[str, float]:
    remote = RemoteRubric(url, batch_size=1, at_once=32, patience=120)
    started = time.perf_counter()
    reports = await remote.score([Rollout(**rollout(number)) for number in range(count)])
    answered = [report for report in reports if report.scored]
    wrong = sum(
        report.scored and report.raw_score != expected(number)
        for number, report in enumerate(reports)
    )
    return {
        "answered": len(answered),
        "unanswered": count - len(answered),
        "wrong": wrong,
        "seconds": time.perf_counter() - started,
    }


# Servers in processes of their own, the CPU time they take, and clients that ask them.

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
    process: subprocess.Popen[str]

    def workers(self) -> list[int]:
        """Its child processes, less the one that multiprocessing has for itself."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [
            int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()
        ]

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


def client(interpreter: Path, program: str, **task: Any) -> subprocess.Popen[str]:
    """A client that has begun to ask."""
    command = [str(interpreter), *worker(program), json.dumps(task)]
    return subprocess.Popen(
        command, env=_environment(), cwd=HERE, stdout=subprocess.PIPE, text=True
    )


def figures(asking: subprocess.Popen[str]) -> dict[str, Any]:
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


# What is measured of the reward server, and the targets it is held to.

Say = Callable[[str], None]

AT_ONCE = 32
"""Requests that the overloaded server has under way."""
BUSY_AT_ONCE = 8
"""The same, where each takes the processor for itself."""


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are what the targets speak of."""

    requests: int = 2000
    batches: int = 200
    rounds: int = 21
    seconds: float = 10.0
    kills: int = 10_000
    """Requests during which workers are killed."""


QUICK = Sizes(requests=500, batches=40, rounds=2, seconds=2.0, kills=500)


def measure_rate(peer: Path, sizes: Sizes, say: Say) -> list[Any]:
    """Requests per CPU second of one rubric, both servers in turn, with the same reader of HTTP."""
    found: list[Any] = []
    pairs = [(peer, "httptools")]
    if not has_httptools(HERE_INTERPRETER):
        pairs.append((HERE_INTERPRETER, "h11"))
    for ours, http in pairs:
        with assay_server(ours, "cheap") as server, fastapi_server(peer, "cheap", http) as other:
            for rows, count, clients in (
                (1, sizes.requests, 2),
                (1, sizes.requests, 1),
                (64, sizes.batches, 1),
            ):
                say(
                    f"rate, {http}: {clients} times {count} requests of {rows}, {sizes.rounds} rounds each"
                )
                rates = _rates(peer, [server, other], rows, count, sizes.rounds, clients)
                # One client alone is slower than our server, which then pays for waking up at nearly every request; FastAPI
                # always has some waiting. Two keep both of them busy, and what a busy server can do is what is claimed.
                load = "both always busy" if clients > 1 else "one client"
                label = f"requests of {rows} rollout{'s' * (rows > 1)}, {load}, uvicorn with {http}"
                target = Target(1.3, "at least") if clients > 1 else None
                found.append(Row(label, rates[0], rates[1], "/CPU-s", "FastAPI", target))
    return found


def _rates(
    asker: Path, servers: list[Server], rows: int, count: int, rounds: int, clients: int = 1
) -> list[float]:
    """Requests per CPU second of each, by so many clients at once: the median of rounds in which they take turns."""
    taken: list[list[float]] = [[] for _ in servers]
    for round_ in range(rounds + 1):
        for place, server in enumerate(servers):
            before = server.cpu_seconds()
            task = {"url": server.url, "rows": rows, "count": count, "connections": 16}
            asking = [client(asker, "server.py:load", **task) for _ in range(clients)]
            wrong = sum(figures(each)["wrong"] for each in asking)
            if wrong:
                raise RuntimeError(f"{wrong} answers of {server.url} are wrong")
            if round_:  # the first is to warm up
                taken[place].append(server.cpu_seconds() - before)
    return [clients * count / median(each) for each in taken]


def measure_overload(peer: Path, sizes: Sizes, say: Say) -> list[Any]:
    """Three times as many requests as can be served: how long those wait that are served."""
    capacity = CAPACITY / SECONDS
    bounds = {"at_once": AT_ONCE}
    say(f"overload: {3 * capacity:.0f} requests a second for {sizes.seconds:g} s, each server")
    with assay_server(HERE_INTERPRETER, "judged", bounds=bounds) as server:
        ours = _pressed(peer, server, 3 * capacity, sizes)
    with fastapi_server(peer, "judged", "httptools") as server:
        theirs = _pressed(peer, server, 3 * capacity, sizes)
    with assay_server(HERE_INTERPRETER, "working", bounds={"at_once": BUSY_AT_ONCE}) as server:
        working = _pressed(peer, server, 3 / SECONDS, sizes)
    with fastapi_server(peer, "working", "httptools") as server:
        jammed = _pressed(peer, server, 3 / SECONDS, sizes)
    # A full house takes so long; twice that is what chance and a busy machine may add.
    bound = 2 * AT_ONCE / CAPACITY * SECONDS
    label = f"a judge's {capacity:.0f} requests/s, three times as many asked, {AT_ONCE} at once"
    busy = f"{SECONDS * 1000:.0f} ms of CPU each, three times too many, {BUSY_AT_ONCE} at once"
    return [
        Row(f"{label}: p50 of the served", ours["p50"], theirs["p50"], "s", "FastAPI"),
        Row(f"{label}: p99", ours["p99"], None, "s", target=Limit(bound, "at most", "s")),
        Row(f"{label}: p99", ours["p99"], theirs["p99"], "s", "FastAPI"),
        Row(f"{label}: p99 of a refusal", ours["refused_p99"], None, "s"),
        _shares(label, ours),
        Row(f"{busy}: p99", working["p99"], jammed["p99"], "s", "FastAPI"),
        _shares(busy, working),
    ]


def _pressed(asker: Path, server: Server, per_second: float, sizes: Sizes) -> dict[str, Any]:
    asking = client(
        asker, "server.py:load", url=server.url, per_second=per_second, seconds=sizes.seconds
    )
    return figures(asking)


def _shares(label: str, found: dict[str, Any]) -> Check:
    served, refused = (found[kind] / found["asked"] for kind in ("served", "refused"))
    other = found["asked"] - found["served"] - found["refused"]
    told = f"{served:.0%} served, {refused:.0%} refused, {other} neither"
    return Check(f"{label}: what became of them", told, "0 neither", other == 0)


def measure_kills(peer: Path, sizes: Sizes, say: Say) -> list[Any]:
    """Workers killed at random while one client asks and asks again."""
    say(f"kills: {sizes.kills} requests, two workers, one killed now and then")
    with assay_server(HERE_INTERPRETER, "cheap", workers=2) as server:
        asking = client(HERE_INTERPRETER, "server.py:kill", url=server.url, count=sizes.kills)
        kills = _kill_now_and_then(server, asking)
        found = figures(asking)
    told = f"{found['answered']:.0f} answered, {found['unanswered']:.0f} not, {found['wrong']:.0f} wrong"
    holds = found["unanswered"] == found["wrong"] == 0
    label = f"{sizes.kills:,} requests, {kills} workers killed"
    return [Check(label, told, "all answered, none wrong", holds)]


def _kill_now_and_then(server: Server, asking: Any) -> int:
    """Kill one of the workers, at random, soon after all are up."""
    chance = random.Random(7)
    kills = 0
    while asking.poll() is None:
        time.sleep(chance.uniform(0.1, 0.5))
        if is_ready(server):
            os.kill(chance.choice(server.workers()), signal.SIGKILL)
            kills += 1
    return kills


MEASURES = {"rate": measure_rate, "overload": measure_overload, "kills": measure_kills}

FASTAPI = Peer(
    "fastapi",
    "0.162.4",
    (
        "uvicorn==0.54.0",
        "httptools==0.9.0",
        "uvloop==0.23.0",  # as `uvicorn[standard]` has it, with the reader of HTTP above
        "starlette==1.10.0",
        "pydantic==2.14.3",
        "msgspec==0.22.0",
        "pyyaml>=6",
        "prometheus-client==0.26.0",
        "watchfiles==1.3.0",
        "aiohttp==3.14.5",  # the client that asks all of them
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [MEASURES[name] for name in MEASURES if not options.only or name in options.only]
    sizes = QUICK if options.quick else Sizes()
    installed = install({"fastapi"}, say=say, peers=[FASTAPI])
    if "fastapi" not in installed.interpreters:
        say(installed.failures[0])
        return 1
    interpreter = installed.interpreters["fastapi"]
    try:
        rows: list[Any] = [row for measure in chosen for row in measure(interpreter, sizes, say)]
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


def load_client() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(asyncio.run(load_main(json.loads(sys.argv[1])))))


def kill_client() -> None:
    task = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(kill_main(task["url"], task["count"]))))


if __name__ == "__main__":
    run_worker(sys.argv, {"load": load_client, "kill": kill_client})
    sys.exit(main())
