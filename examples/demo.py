"""Score nine shipped rollouts with one mixed rubric and print what was found. `make demo` runs it.

The judged criteria are answered by the few rules below, which stand in for a model: nothing is
downloaded and no key is needed. One of its answers fails on purpose, to show where errors go.
"""

import asyncio
import json
import logging
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from assay import Autograder, CriterionReport, EvaluationReport, Rubric, XMLParser

HERE = Path(__file__).parent / "demo"
WORDS = {
    "shows_the_factor": ("1.609", "1.6 km", "5/9", "0.4536", "0.45359237", "2.2"),
    "explains_rounding": ("rounded", "rounding", "call it"),
    "polite": ("happy to help", "please"),
}


class RuleJudge(Autograder):
    """A judge without a model: a criterion is met when one of its words is in the text."""

    async def judge(self, to_grade: str, rubric: list[Any], query: str | None = None) -> list[str]:
        if "divide by 2.2" in to_grade:
            raise TimeoutError("the judge did not answer within 30 s")
        text = to_grade.lower()
        return ["MET" if any(w in text for w in WORDS[c.name]) else "UNMET" for c in rubric]


def mark(line: CriterionReport) -> Text:
    """One cell: errors apart from scores, and neither apart from what does not apply."""
    if line.error:
        return Text("error", style="bold white on red")
    if not line.applies:
        return Text("n/a", style="dim")
    good = line.passed if line.weight else None
    style = {True: "green", False: "yellow", None: "dim"}[good]
    return Text(line.verdict.lower() if line.verdict else f"{line.value:g}", style=style)


def rollout_table(states: list[dict[str, Any]], reports: list[EvaluationReport]) -> Table:
    table = Table(title="Nine rollouts, three to a prompt", title_justify="left", expand=False)
    table.add_column("prompt", no_wrap=True)
    for line in reports[0].lines:
        table.add_column(f"{line.name.replace('_', ' ')}\n{line.weight:+g}", justify="center")
    for name in ("reward", "score", "advantage"):
        table.add_column(name, justify="right")
    for state, report in zip(states, reports, strict=True):
        advantage = state["advantage"]
        numbers = (
            ("unscored", "–", "–")
            if advantage is None
            else (f"{state['reward']:+.1f}", f"{report.score:.2f}", f"{advantage:+.2f}")
        )
        question = state["prompt"][0]["content"]
        table.add_row(f"{question[:19]}…", *map(mark, report.lines), *numbers)
    return table


def criterion_table(reports: list[EvaluationReport]) -> Table:
    table = Table(title="By criterion", title_justify="left")
    for name in ("criterion", "weight", "answered", "n/a", "errors", "mean"):
        table.add_column(name, justify="left" if name == "criterion" else "right")
    for lines in zip(*(report.lines for report in reports), strict=True):
        values = [line.value for line in lines if line.value is not None]
        errors = sum(line.error is not None for line in lines)
        skipped = sum(not line.applies for line in lines)
        mean = f"{sum(values) / len(values):.2f}" if values else "–"
        red = "bold red" if errors else "dim"
        table.add_row(
            lines[0].name, f"{lines[0].weight:+g}", str(len(values)), str(skipped),
            Text(str(errors), style=red), mean,
        )  # fmt: skip
    return table


def summary(reports: list[EvaluationReport]) -> Panel:
    """Errors first, then means over what was scored."""
    scored = [report for report in reports if report.scored and report.score is not None]
    lines = [Text(f"{len(reports) - len(scored)} of {len(reports)} rollouts unscored", "bold red")]
    causes = {error for report in reports for error in report.errors.values()}
    lines += [Text(f"  {cause}", "red") for cause in sorted(causes)]
    mean = sum(report.score or 0 for report in scored) / len(scored)
    lines.append(Text(f"mean score {mean:.3f} over the {len(scored)} that were scored", "bold"))
    for tag in ("facts", "form", "reasoning"):
        values = [report.tag_scores[tag] for report in scored]
        known = [value for value in values if value is not None]
        lines.append(Text(f"  {tag:<10}{sum(known) / len(known):.3f}"))
    return Panel(Group(*lines), title="Summary", title_align="left", expand=False)


async def score() -> tuple[list[dict[str, Any]], list[EvaluationReport]]:
    """Every group of rollouts of one prompt, scored; rewards and advantages are in the states."""
    rubric = Rubric.from_file(HERE / "rubric.yaml", parser=XMLParser(["think", "answer"]), autograder=RuleJudge())
    rows = (HERE / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    states = [json.loads(row) for row in rows]
    reports: list[EvaluationReport] = []
    for _, group in groupby(states, key=lambda state: state["example_id"]):
        reports += await rubric.score_group(list(group))
    return states, reports


def show(console: Console) -> None:
    """Print the three parts. The log is silent, since the errors are in the table."""
    logging.getLogger("assay").setLevel(logging.CRITICAL)
    states, reports = asyncio.run(score())
    console.print(rollout_table(states, reports))
    console.print(criterion_table(reports))
    console.print(summary(reports))


if __name__ == "__main__":
    show(Console(width=132))
    print("The judged criteria were answered by rules in examples/demo.py, not by a model.")
