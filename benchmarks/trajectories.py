"""Score recorded trajectories by checks alone, beside the recorded rewards: `python benchmarks/trajectories.py --data FOLDER`.

The 200 airline trajectories of GPT-4o are those of tau-bench. Its own program replays the calls of a trajectory on a
database and compares the result with that of the task's expected actions; then it looks for the task's outputs in what the
assistant said. Here a rubric of built-in checks reads the messages, and nothing is replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from harness import Check, Table, add_options, as_table, plain_table, save_results, say

from assay import Criterion, EvaluationReport, Rubric
from assay.checks import Trajectory

VARIABLE = "ASSAY_DATA"
FILE = Path("judge") / "tau_bench_airline" / "gpt-4o-airline.json"
SOURCE = "historical_trajectories/gpt-4o-airline.json of github.com/sierra-research/tau-bench (MIT)"
LEAST = 190

WRITERS = (
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
)
"""The tools that change the database. What the others return, a task may be solved without."""

_CUT = "calls and outputs are as expected, but the dialogue was cut after 30 turns, and tau-bench then pays 0 unseen"
EXPLAINED = {
    (2, 1): _CUT,
    (
        5,
        1,
    ): "the flights have two keys more than expected, origin and destination, which leave the database the same",
    (46, 3): _CUT,
}
"""Why the checks and the recorded reward differ, by task and trial, each from its messages."""


def says_outputs(completion: list[dict[str, Any]], info: dict[str, Any]) -> bool:
    """Whether the assistant says every output of the task, as tau-bench looks for it."""
    said = [
        str(turn.get("content") or "").lower().replace(",", "")
        for turn in completion
        if turn["role"] == "assistant"
    ]
    return all(any(output.lower() in text for text in said) for output in info["task"]["outputs"])


RUBRIC = Rubric(
    [
        Criterion(
            name="expected_changes",
            check=Trajectory(
                expected_in="info.task.actions", match="unordered", tools=WRITERS, succeeded=True
            ),
        ),
        Criterion(name="says_outputs", check=says_outputs),
    ],
    aggregation="all_pass",
)


def find_data(given: str | None) -> Path | None:
    """The file, by option or environment variable."""
    folder = given or os.environ.get(VARIABLE)
    places = [Path(folder) / FILE, Path(folder) / Path(*FILE.parts[1:])] if folder else []
    return next((place for place in places if place.is_file()), None)


def measure(rows: list[dict[str, Any]]) -> tuple[list[Check], list[Table], list[str]]:
    """How often the rubric gives the recorded reward, and what it says where it does not."""
    rollouts = [
        {
            "prompt": row["traj"][:2],
            "completion": row["traj"][2:],
            "info": row["info"],
            "recorded": row["reward"],
        }
        for row in rows
    ]
    reports = asyncio.run(RUBRIC.score(rollouts))
    pairs = list(zip(rows, reports, strict=True))
    differ = [(row, report) for row, report in pairs if report.score != row["reward"]]
    names = [(row["task_id"], row["trial"]) for row, _ in differ]
    unknown = [name for name in names if name not in EXPLAINED]
    unread = sum(not report.scored for report in reports)
    same = len(rows) - len(differ)
    checks = [
        Check(
            "rewards as recorded",
            f"{same} of {len(rows)}",
            f"≥ {LEAST} of 200",
            same >= LEAST * len(rows) / 200,
        ),
        Check("rollouts without a score", str(unread), "0", unread == 0),
        Check(
            "differences explained below",
            f"{len(differ) - len(unknown)} of {len(differ)}",
            "all",
            not unknown,
        ),
    ]
    lines = tuple(
        (
            f"{task} / {trial}",
            f"{row['reward']:g}",
            f"{report.score:g}",
            why(report),
            EXPLAINED.get((task, trial), "?"),
        )
        for (task, trial), (row, report) in zip(names, differ, strict=True)
    )
    table = Table(
        "Where they differ:",
        ("task / trial", "recorded", "checks", "reason of the check", "why"),
        lines,
    )
    failed = [report for report in reports if report.score == 0]
    notes = [
        f"Of the {len(failed)} failures, {sum(names_a_call(report) for report in failed)} name the call at fault by its "
        "address, or say which is missing; in the others an output was not said.",
        "Without `succeeded`, calls that the tool refused count as changes: "
        f"{agreement(rollouts, succeeded=False)} of {len(rows)} agree. With `match: superset`, further changes are forgiven: "
        f"{agreement(rollouts, match='superset')} agree. With every tool compared, reading ones too: "
        f"{agreement(rollouts, tools=None)} agree.",
        f"Ids of calls occur twice in {sum(map(has_twice, rollouts))} trajectories: a result is that of the last call before it that has its id.",
    ]
    return checks, [table], notes


def has_twice(rollout: dict[str, Any]) -> bool:
    ids = [call["id"] for turn in rollout["completion"] for call in turn.get("tool_calls") or ()]
    return len(ids) > len(set(ids))


def names_a_call(report: EvaluationReport) -> bool:
    [line] = [line for line in report.lines if line.name == "expected_changes"]
    return not line.passed and (".call" in line.reason or "not called" in line.reason)


def agreement(rollouts: list[dict[str, Any]], **changes: Any) -> int:
    """How many rewards are as recorded with the check made otherwise."""
    fields: dict[str, Any] = {"match": "unordered", "tools": WRITERS, "succeeded": True, **changes}
    rubric = Rubric(
        [Trajectory(expected_in="info.task.actions", **fields), says_outputs],
        aggregation="all_pass",
    )
    reports = asyncio.run(rubric.score(rollouts))
    return sum(
        report.score == rollout["recorded"]
        for report, rollout in zip(reports, rollouts, strict=True)
    )


def why(report: EvaluationReport) -> str:
    """The reasons of the lines that failed."""
    # Without the arguments: nothing of the data is kept here.
    return (
        "; ".join(
            line.reason.partition("(")[0] or line.name for line in report.lines if not line.passed
        )
        or "-"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", help=f"the folder that holds {FILE}; else {VARIABLE}")
    add_options(parser, ("agreement",))
    options = parser.parse_args()
    place = find_data(options.data)
    if place is None:
        say(f"name the folder that holds {FILE} with --data or in {VARIABLE}: the file is {SOURCE}")
        return 2
    rows = json.loads(place.read_text(encoding="utf-8"))
    checks, tables, notes = measure(rows[:40] if options.quick else rows)
    tables = [as_table(checks), *tables]
    say("\n\n".join([*map(plain_table, tables), *notes]))
    save_results("trajectories without a model", tables, notes, options, peers=())
    return 0 if options.quick or all(check.holds for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
