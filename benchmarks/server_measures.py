"""What is measured of the reward server, and the targets it is held to."""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rows import Check, Limit, Row, Target
from server_processes import (
    HERE_INTERPRETER,
    Server,
    assay_server,
    client,
    fastapi_server,
    figures,
    has_httptools,
    is_ready,
)
from server_rubric import CAPACITY, SECONDS

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
            for rows, count in ((1, sizes.requests), (64, sizes.batches)):
                say(f"rate, {http}: {count} requests of {rows}, {sizes.rounds} rounds each")
                rates = _rates(peer, [server, other], rows, count, sizes.rounds)
                plural = "rollout" if rows == 1 else "rollouts"
                label = f"requests of {rows} {plural}, uvicorn with {http}"
                target = Target(2, "at least") if rows == 1 else None
                found.append(Row(label, rates[0], rates[1], "/CPU-s", "FastAPI", target))
    return found


def _rates(asker: Path, servers: list[Server], rows: int, count: int, rounds: int) -> list[float]:
    """Requests per CPU second of each: the median of rounds in which they take turns."""
    taken: list[list[float]] = [[] for _ in servers]
    for round_ in range(rounds + 1):
        for place, server in enumerate(servers):
            before = server.cpu_seconds()
            answer = figures(client(asker, "server_load.py", url=server.url, rows=rows, count=count, connections=16))
            if answer["wrong"]:
                raise RuntimeError(f"{answer['wrong']} answers of {server.url} are wrong")
            if round_:  # the first is to warm up
                taken[place].append(server.cpu_seconds() - before)
    return [count / median(each) for each in taken]


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
    asking = client(asker, "server_load.py", url=server.url, per_second=per_second, seconds=sizes.seconds)
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
        asking = client(HERE_INTERPRETER, "server_kill_worker.py", url=server.url, count=sizes.kills)
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
