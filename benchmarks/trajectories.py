"""Compare scores of recorded trajectories by checks with the recorded rewards: `python benchmarks/trajectories.py --data FOLDER`.

The 200 airline trajectories of GPT-4o are from tau-bench. Its own program replays the calls of a trajectory on a database,
and compares the result with that of the expected actions; then it looks for the outputs of the task in the messages of the
assistant. Here, a rubric of built-in checks reads the messages, and no call is replayed.
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
MIN_AGREEMENT = 190  # of the 200 trajectories

# The tools that change the database. A task may be solved without what the others return.
WRITERS = (
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
)

_CUT = (
    "calls and outputs are as expected, but the dialogue was cut after 30 turns, for which "
    "tau-bench gives 0 in any case"
)
_MORE_KEYS = (
    "the flights have two keys more than expected, origin and destination, which do not change "
    "the database"
)
# Why the checks and the recorded reward differ, by task and trial, as read from the messages.
EXPLAINED = {(2, 1): _CUT, (5, 1): _MORE_KEYS, (46, 3): _CUT}


def says_outputs(completion: list[dict[str, Any]], info: dict[str, Any]) -> bool:
    """Return whether the assistant says every output of the task, by the rule of tau-bench."""
    texts: list[str] = []
    for message in completion:
        if message["role"] == "assistant":
            texts.append(str(message.get("content") or "").lower().replace(",", ""))
    missing = [
        output
        for output in info["task"]["outputs"]
        if not any(output.lower() in text for text in texts)
    ]
    return not missing


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


def find_data(folder_option: str | None) -> Path | None:
    """Return the file, by option or environment variable; None if it is not there."""
    folder = folder_option or os.environ.get(VARIABLE)
    if not folder:
        return None
    for path in (Path(folder) / FILE, Path(folder) / Path(*FILE.parts[1:])):
        if path.is_file():
            return path
    return None


def measure(rows: list[dict[str, Any]]) -> tuple[list[Check], list[Table], list[str]]:
    """Count how often the rubric gives the recorded reward, and list the differences."""
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
    lines: list[tuple[str, ...]] = []
    explained = 0
    for row, report in zip(rows, reports, strict=True):
        if report.score == row["reward"]:
            continue
        explanation = EXPLAINED.get((row["task_id"], row["trial"]))
        explained += explanation is not None
        lines.append(
            (
                f"{row['task_id']} / {row['trial']}",
                f"{row['reward']:g}",
                "none" if report.score is None else f"{report.score:g}",
                describe_failure(report),
                explanation or "?",
            )
        )
    same = len(rows) - len(lines)
    unscored = sum(not report.scored for report in reports)
    checks = [
        Check(
            "rewards as recorded",
            f"{same} of {len(rows)}",
            f"≥ {MIN_AGREEMENT} of 200",
            same >= MIN_AGREEMENT * len(rows) / 200,
        ),
        Check("rollouts without a score", str(unscored), "0", unscored == 0),
        Check(
            "differences explained below",
            f"{explained} of {len(lines)}",
            "all",
            explained == len(lines),
        ),
    ]
    headings = ("task / trial", "recorded", "checks", "reason of the check", "why")
    table = Table("Where they differ:", headings, tuple(lines))
    failed = [report for report in reports if report.score == 0]
    with_call = sum(names_a_call(report) for report in failed)
    notes = [
        f"Of the {len(failed)} failures, {with_call} name the wrong call by its address, or the "
        "missing one; in the others, the assistant did not say an output.",
        "Without `succeeded`, calls that the tool refused count as changes: "
        f"{count_agreement(rollouts, succeeded=False)} of {len(rows)} agree. With "
        "`match: superset`, further changes are allowed: "
        f"{count_agreement(rollouts, match='superset')} agree. With all tools compared, including "
        f"those that only read: {count_agreement(rollouts, tools=None)} agree.",
        f"{sum(map(repeats_call_ids, rollouts))} trajectories repeat the ids of calls: a result "
        "belongs to the last call before it with its id.",
    ]
    return checks, [table], notes


def repeats_call_ids(rollout: dict[str, Any]) -> bool:
    ids: list[str] = []
    for message in rollout["completion"]:
        ids += [call["id"] for call in message.get("tool_calls") or ()]
    return len(ids) > len(set(ids))


def names_a_call(report: EvaluationReport) -> bool:
    """Return whether the reason for a failure names a call."""
    [line] = [line for line in report.lines if line.name == "expected_changes"]
    return not line.passed and (".call" in line.reason or "not called" in line.reason)


def count_agreement(rollouts: list[dict[str, Any]], **changes: Any) -> int:
    """Return how many rewards are as recorded if these arguments of the check are changed."""
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


def describe_failure(report: EvaluationReport) -> str:
    """Return the reasons of the criteria that failed."""
    reasons: list[str] = []
    for line in report.lines:
        if not line.passed:
            # Without the arguments of calls, so that RESULTS.md holds none of the data.
            reason = line.reason.partition("(")[0]
            reasons.append(reason or line.name)
    return "; ".join(reasons) or "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", help=f"the folder that holds {FILE}; else {VARIABLE}")
    add_options(parser, ("agreement",))
    options = parser.parse_args()
    path = find_data(options.data)
    if path is None:
        say(f"name the folder that holds {FILE} with --data or in {VARIABLE}: the file is {SOURCE}")
        return 2
    rows = json.loads(path.read_text(encoding="utf-8"))
    checks, tables, notes = measure(rows[:40] if options.quick else rows)
    tables = [as_table(checks), *tables]
    say("\n\n".join([*map(plain_table, tables), *notes]))
    save_results("trajectories without a model", tables, notes, options, peers=())
    return 0 if options.quick or all(check.holds for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
