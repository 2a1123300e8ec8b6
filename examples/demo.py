"""Score twelve shipped answers with one rubric of checked and judged criteria. `make demo` runs it.

The verdicts of the judge were recorded and stand beside the rollouts, so no key and no network is needed. One of them
is a failure of the judge's endpoint: that rollout is reported as unscored, and is in no mean.
"""

import argparse
import asyncio
import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay import (
    AssayError,
    Autograder,
    CriterionReport,
    Parser,
    PerCriterionGrader,
    Rubric,
    Run,
    Score,
    score_rows,
)
from assay.runs import MeanEstimate, Row

HERE = Path(__file__).parent / "demo"
LAST = Path("demo-run")  # where the run goes unless a folder is named
FENCE = re.compile(r"```sh\n(.+?)\n```", re.DOTALL)
STYLES = {True: "green", False: "yellow", None: "dim"}


class RecordedJudge(Autograder):
    """Gives the verdicts that were recorded for an answer."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.recorded = {row["completion"]: row["recorded"] for row in rows}

    async def judge(
        self, to_grade: str, rubric: list[Any], query: str | None = None
    ) -> list[Score]:
        found = self.recorded[to_grade]
        if isinstance(found, str):
            raise ConnectionError(found)
        verdicts = [found[criterion.name] for criterion in rubric]
        return [
            Score.not_applicable(reason)
            if verdict == "N/A"
            else Score(float(verdict == "MET"), reason, verdict)
            for verdict, reason in verdicts
        ]


def first_command(text: str) -> str:
    """The command of an answer: what stands in its first code block."""
    found = FENCE.search(text)
    return found[1] if found else ""


def mark(line: CriterionReport) -> Text:
    """One cell of the table: an error looks like no score, and a score like no error."""
    if line.error:
        return Text("error", style="bold white on red")
    if not line.applies:
        return Text("n/a", style="dim")
    return Text(
        line.verdict.lower() if line.verdict else f"{line.value:g}", style=STYLES[line.passed]
    )


def rollout_table(rows: list[Row]) -> Table:
    table = Table(title="1. Every rollout, every criterion", title_justify="left")
    table.add_column("question", no_wrap=True)
    for line in rows[0].report.lines:
        table.add_column(f"{line.name.replace('_', ' ')}\n{line.weight:+g}", justify="center")
    table.add_column("reward", justify="right")
    table.add_column("score", justify="right")
    for row in rows:
        report = row.report
        numbers = (
            (f"{report.raw_score:+.0f}", f"{report.score:.2f}")
            if report.scored
            else ("unscored", "–")
        )
        table.add_row(f"{row.fields['prompt'][:24]}…", *map(mark, report.lines), *numbers)
    return table


def summary_table(run: Run) -> Table:
    summary = run.summary()
    table = Table(title="2. What the run comes to, with 95 % intervals", title_justify="left")
    for name in ("", "mean", "95 %", "rollouts", "errors"):
        table.add_column(name, justify="left" if not name else "right")

    def add(name: str, found: MeanEstimate, errors: int) -> None:
        bounds = (
            "–"
            if found.low is None or found.high is None
            else f"{found.low:.2f} to {found.high:.2f}"
        )
        mean = "–" if found.mean is None else f"{found.mean:.2f}"
        table.add_row(
            name, mean, bounds, str(found.count), Text(str(errors), "bold red" if errors else "dim")
        )

    add("score", summary.score, summary.unscored)
    for name, criterion in summary.criteria.items():
        add(f"  {name}", criterion.value, criterion.errors)
    return table


def show(console: Console, folder: Path, model: str | None = None) -> None:
    """Score into a run folder, and print what came of it. With a model, that model judges."""
    logging.getLogger("assay").setLevel(logging.CRITICAL)  # the errors are in the tables
    rows = [
        json.loads(line)
        for line in (HERE / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    judge = PerCriterionGrader(model=model) if model else RecordedJudge(rows)
    rubric = Rubric.from_file(HERE / "rubric.yaml", parser=Parser(first_command), judge=judge)
    if folder == LAST and (folder / "run.assay").exists():
        shutil.rmtree(
            folder
        )  # the run of the last demo; a folder that the caller names is never removed
    asyncio.run(score_rows(rubric, rows, folder=folder))
    run = Run.open(folder)
    scored = list(run.rows())
    console.print(rollout_table(scored))
    console.print(summary_table(run))
    for row in scored:
        for error in sorted(set(row.errors.values())):
            console.print(
                f"Rollout {row.example!r} is unscored and in no mean. {error}",
                style="red",
                soft_wrap=True,
            )
    if model is None:
        console.print(
            "\nThe verdicts of the judge were recorded beforehand. To ask a real judge, set its key and run\n"
            "  OPENAI_API_KEY=... .venv/bin/python examples/demo.py --judge openai/gpt-5-mini",
            highlight=False,
            soft_wrap=True,
        )
    console.print(
        f"The run is saved in the folder {folder}. To see its page in the browser, run\n  .venv/bin/assay view {folder}",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description="Score the shipped rollouts and print what came of it."
    )
    options.add_argument(
        "--judge", metavar="MODEL", help="ask this model instead of the recorded verdicts"
    )
    options.add_argument(
        "--out", type=Path, default=LAST, help="the folder of the run (default: demo-run)"
    )
    given = options.parse_args()
    try:
        show(Console(width=132), given.out, given.judge)
    except AssayError as error:
        raise SystemExit(f"demo: {error}") from None
