"""Measure what the adaptive concurrency limit gains: `python benchmarks/limits.py`.

The same number of calls is made to local endpoints of three kinds, with several rules for the
number of concurrent calls. Prints a table and adds it to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from harness import Table, add_options, plain_table, run_worker, save_results, worker

from assay.models import Limits, Request, model_of
from assay.models.endpoint_model import EndpointModel
from assay.models.limiter import INITIAL_CONCURRENCY, MAX_CONCURRENCY, AdaptiveLimit, Outcome

LATENCY = 0.05  # seconds that an answer takes
CAPACITY = 24  # concurrent calls that the endpoints can handle
REFUSED_SHARE = 0.3  # of the calls, at the endpoint that refuses at random
CALLS = 1000
QUICK_CALLS = 100
REPEATS = 2  # of which the run with the least time counts


# The endpoint, in a process of its own.


class SimulatedEndpoint:
    """Answers every call with the same text, as far as its kind lets it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.active = 0
        self.refused = 0
        self._random = random.Random(1)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.path.endswith("/stats"):
            return web.json_response({"refused": self.refused})
        await request.read()
        if self._refuses():
            self.refused += 1
            return web.json_response({"error": {"message": "too many calls"}}, status=429)
        self.active += 1
        try:
            await asyncio.sleep(self._latency())
        finally:
            self.active -= 1
        choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        return web.json_response({"choices": [choice], "usage": usage, "model": "m"})

    def _refuses(self) -> bool:
        if self.kind == "refuses beyond its capacity":
            return self.active >= CAPACITY
        if self.kind == "refuses at random":
            return self._random.random() < REFUSED_SHARE
        return False

    def _latency(self) -> float:
        if self.kind == "slows down":
            return LATENCY * max(1.0, self.active / CAPACITY)
        return LATENCY


KINDS = ("refuses beyond its capacity", "refuses at random", "slows down")


def server_main() -> None:
    asyncio.run(serve(json.loads(sys.argv[1])["kind"]))


async def serve(kind: str) -> None:
    """Print the address and serve until the standard input closes."""
    runner = web.ServerRunner(web.Server(SimulatedEndpoint(kind).handle, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def serving(kind: str) -> Generator[str]:
    command = [sys.executable, *worker("limits.py:server"), json.dumps({"kind": kind})]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


# The rules for the number of concurrent calls.


class FixedLimit(AdaptiveLimit):
    """Never changes."""

    def record(self, outcome: Outcome, *, is_full: bool) -> None:
        pass


class PlainAimd(AdaptiveLimit):
    """Adds one call per round of answers, and halves the limit at every refusal.

    All refusals of one round count as one.
    """

    def __init__(self, fixed_maximum: int | None) -> None:
        super().__init__(fixed_maximum)
        self._exact_limit = float(self.limit)
        self._ignored = 0  # calls of this round whose refusal does not count any more

    def record(self, outcome: Outcome, *, is_full: bool) -> None:
        self._ignored = max(0, self._ignored - 1)
        if outcome == "busy" and not self._ignored:
            self._exact_limit = max(1.0, self._exact_limit / 2)
            self._ignored = int(self._exact_limit)
        elif outcome == "answered" and is_full:
            increase = 1 / self._exact_limit
            self._exact_limit = min(MAX_CONCURRENCY, self._exact_limit + increase)
        self.limit = int(self._exact_limit)


RULES: dict[str, Callable[[], AdaptiveLimit]] = {
    "assay": lambda: AdaptiveLimit(None),
    "plain AIMD": lambda: PlainAimd(None),
    f"fixed at {CAPACITY}": lambda: FixedLimit(CAPACITY),
    f"fixed at {INITIAL_CONCURRENCY}": lambda: FixedLimit(INITIAL_CONCURRENCY),
    f"fixed at {MAX_CONCURRENCY}": lambda: FixedLimit(MAX_CONCURRENCY),
}


@dataclass(frozen=True)
class Figures:
    seconds: float
    refused: int


async def measure(url: str, rule: Callable[[], AdaptiveLimit] | None, calls: int) -> float:
    """Return the seconds that the calls take. Without a rule, assay's own is used."""
    model: Any = model_of(f"{url}#m", limits=Limits(attempts=1000), shared=False)
    assert isinstance(model, EndpointModel)
    if rule is not None:
        model.endpoint.limiter.concurrency = rule()
    start = time.perf_counter()
    await asyncio.gather(*(model(Request.of("s", str(number))) for number in range(calls)))
    return time.perf_counter() - start


def measure_best(kind: str, rule: Callable[[], AdaptiveLimit] | None, calls: int) -> Figures:
    """Return the figures of the fastest of several runs, each with an endpoint of its own."""
    runs: list[Figures] = []
    for _ in range(REPEATS):
        with serving(kind) as url:
            seconds = asyncio.run(measure(url, rule, calls))
            runs.append(Figures(seconds, asyncio.run(count_refused(url))))
    return min(runs, key=lambda figures: figures.seconds)


async def count_refused(url: str) -> int:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{url}/stats") as response:
        return (await response.json())["refused"]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    calls = QUICK_CALLS if options.quick else CALLS
    lines: list[tuple[str, ...]] = []
    for kind in KINDS:
        if options.only and kind not in options.only:
            continue
        for name, rule in RULES.items():
            figures = measure_best(kind, rule, calls)
            print(f"{kind}, {name}: {figures.seconds:.2f} s, {figures.refused} refused", flush=True)
            lines.append((kind, name, f"{figures.seconds:.2f} s", f"{figures.refused:,}"))
    headings = ("endpoint", "concurrent calls", "time", "refused calls")
    table = Table(f"{calls:,} calls, {LATENCY * 1000:.0f} ms each", headings, tuple(lines))
    print(plain_table(table))
    notes = [
        f"The endpoints take {CAPACITY} calls at once; the ideal time is "
        f"{calls / CAPACITY * LATENCY:.2f} s where that is a limit.",
        f"The endpoint that refuses at random refuses {REFUSED_SHARE:.0%} of all calls, however "
        "few there are.",
    ]
    save_results("limits of concurrency", [table], notes, options, peers=())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="limits.py", description=(__doc__ or "").strip())
    add_options(parser, list(KINDS))
    return parser


if __name__ == "__main__":
    run_worker(sys.argv, {"server": server_main})
    sys.exit(main())
