"""Check pairs with one subject and print cost and verdicts as one JSON line.

Started in a fresh process by `subjects.py`; its only argument is the task as JSON: `subject`,
`pairs` (a JSON file), `timeout`. The subject is imported and warm before the clock starts, on
integrals that are in no set; the pairs themselves it has never seen.
"""

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any

from math_checkers import Checker, Pairs, Verdict, checker_of, leave
from math_processes import seconds_of, seconds_so_far

_SIGNS: dict[Verdict, str] = {True: "1", False: "0", None: "?"}


def measure(checker: Checker, pairs: Pairs) -> dict[str, Any]:
    """CPU seconds of this process and its children, and a character a verdict."""
    ready = seconds_so_far()
    checker.tiers.clear()
    gc.collect()
    verdicts, seconds = seconds_of(lambda: asyncio.run(checker.check_many(pairs)))
    return {
        "answers": len(verdicts),
        "cpu_seconds": seconds,
        "start_seconds": ready,
        "verdicts": "".join(_SIGNS[verdict] for verdict in verdicts),
        "tiers": dict(checker.tiers),
    }


def main() -> None:
    task: dict[str, Any] = json.loads(sys.argv[1])
    pairs = [(gold, answer) for gold, answer in json.loads(Path(task["pairs"]).read_text())]
    checker = checker_of(task["subject"], timeout=task["timeout"])
    print(json.dumps(measure(checker, pairs)))
    leave(checker)


if __name__ == "__main__":
    main()
