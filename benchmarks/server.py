"""Measure the reward server against FastAPI: `python benchmarks/server.py`.

Requests per CPU second for the same rubric, latency when three times as much is asked as can be done, and
what becomes of requests while workers are killed. Prints a table and adds it to benchmarks/RESULTS.md.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from core import say
from peers import Peer, install
from report import add_options, append_results, as_table, plain_table
from server_measures import MEASURES, QUICK, Sizes

FASTAPI = Peer(
    "fastapi",
    "0.162.4",
    (
        "uvicorn==0.54.0",
        "httptools==0.9.0",
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
    if not options.no_save:
        append_results([table], [], quick=options.quick, subject="reward server", peers=[FASTAPI])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="server.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
