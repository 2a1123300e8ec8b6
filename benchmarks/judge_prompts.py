"""Measure what shorter judge prompts change: `python benchmarks/judge_prompts.py --data FOLDER --model MODEL`.

Asks one judge the same questions with the prompts of this version and with those of an earlier commit,
and prints for both the tokens of a call and the agreement with people and with recorded verdicts of
GPT-4. FOLDER holds the sets of LLMBar and `recorded_verdicts.csv`. Without a model, only tokens are
measured. The figures are written into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from harness import Table, add_options, plain_table, save_results, say
from local_judge import SETS, share

from assay import PerCriterionGrader, Rubric
from assay.graders import prompt_text
from assay.models import Reply, Request, model_of
from assay.testing import ModelServer

LONG_PROMPTS = "c97eebe1^"  # the last commit with the prompts of twice the length
CRITERION = "The response does exactly what was asked."
PROMPT_FOLDER = "src/assay/graders/prompts"
VERSION = re.compile(r"<!-- version \d+ -->\s*")


@dataclass(frozen=True)
class Pair:
    """Two responses to one instruction; people and a recorded judge prefer one of them."""

    instruction: str
    responses: tuple[str, str]
    preferred: int  # by people: 0 or 1
    recorded: int | None  # by GPT-4 with a plain prompt; None if it gave no verdict


@dataclass(frozen=True)
class JudgeResult:
    """The verdicts of a judge with one set of prompts."""

    verdicts: Sequence[tuple[str, str]]  # of both responses of each pair
    tokens: float  # of input in a call, on average


def read_pairs(folder: Path, limit: int | None) -> list[Pair]:
    recorded = read_recorded(folder / "recorded_verdicts.csv")
    pairs: list[Pair] = []
    for name, file in SETS.items():
        subset = "LLMBar/Natural" if name == "Natural" else f"LLMBar/Adversarial/{name}"
        rows = json.loads((folder / file).read_text(encoding="utf-8"))
        for index, row in enumerate(rows[:limit]):
            pairs.append(
                Pair(
                    instruction=str(row["input"]),
                    responses=(str(row["output_1"]), str(row["output_2"])),
                    preferred=int(row["label"]) - 1,
                    recorded=recorded.get((subset, index)),
                )
            )
    return pairs


def read_recorded(path: Path) -> dict[tuple[str, int], int]:
    """Return which response GPT-4 preferred, by subset and row, with the plain prompt."""
    winners: dict[tuple[str, int], int] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            is_plain = row["model"] == "GPT-4" and row["strategy"] == "Vanilla"
            if is_plain and row["swapped"] == "0" and row["winner"] in ("1", "2"):
                winners[row["subset"], int(row["idx"])] = int(row["winner"]) - 1
    return winners


@contextmanager
def prompts_of(commit: str | None) -> Generator[None]:
    """Use the judge prompts of a commit inside the block; None uses those of the working tree."""
    if commit is None:
        yield
        return

    def read_prompt(name: str, package: str = "assay.graders") -> str:
        path = f"{commit}:{PROMPT_FOLDER}/{name}.md"
        done = subprocess.run(["git", "show", path], capture_output=True, text=True, check=True)
        return VERSION.sub("", done.stdout, count=1).strip()

    with patch.object(prompt_text, "system_prompt", read_prompt):
        yield


class TokenCounter:
    """A model that counts the input tokens of its calls."""

    def __init__(self, name: str) -> None:
        self.model = model_of(name)
        self.id = self.model.id
        self.tokens: list[int] = []

    async def __call__(self, request: Request) -> Reply:
        reply = await self.model(request)
        self.tokens.append(reply.usage.prompt)
        return reply


async def judge(pairs: Sequence[Pair], name: str, commit: str | None) -> JudgeResult:
    """Judge both responses of each pair with the prompts of a commit."""
    counter = TokenCounter(name)
    rows = [
        {"prompt": pair.instruction, "completion": response}
        for pair in pairs
        for response in pair.responses
    ]
    with prompts_of(commit):
        grader = PerCriterionGrader(model=counter)
        rubric = Rubric([{"requirement": CRITERION, "name": "right"}], judge=grader)
        reports = await rubric.score(rows)
    verdicts = [report.lines[0].verdict or "none" for report in reports]
    return JudgeResult(
        verdicts=list(zip(verdicts[::2], verdicts[1::2], strict=True)),
        tokens=fmean(counter.tokens),
    )


def row_of(title: str, result: JudgeResult, pairs: Sequence[Pair], *, has_model: bool) -> list[str]:
    """Return a line of the table: how often the judge agrees with people and with GPT-4."""
    if not has_model:
        return [title, f"{result.tokens:.0f}", "–", "–", "–"]
    with_people: list[bool] = []
    with_recorded: list[bool] = []
    ties = 0
    for pair, verdicts in zip(pairs, result.verdicts, strict=True):
        if sorted(verdicts) != ["MET", "UNMET"]:
            ties += 1
            continue
        choice = verdicts.index("MET")
        with_people.append(choice == pair.preferred)
        if pair.recorded is not None:
            with_recorded.append(choice == pair.recorded)
    shares = [share(flags) if flags else "–" for flags in (with_people, with_recorded)]
    return [title, f"{result.tokens:.0f}", *shares, f"{ties} of {len(pairs)}"]


async def measure(options: argparse.Namespace, model: str) -> Table:
    pairs = read_pairs(Path(options.data), options.limit)
    rows: list[list[str]] = []
    results: dict[str, JudgeResult] = {}
    for title, commit in (("earlier", options.before), ("this version", None)):
        results[title] = await judge(pairs, model, commit)
        rows.append(row_of(title, results[title], pairs, has_model=options.model is not None))
        say(" | ".join(rows[-1]))
    if options.model is not None:
        earlier = [verdict for pair in results["earlier"].verdicts for verdict in pair]
        current = [verdict for pair in results["this version"].verdicts for verdict in pair]
        is_same = [before == after for before, after in zip(earlier, current, strict=True)]
        rows.append(["same verdict with both", "", share(is_same), "", ""])
    columns = ["prompts", "input tokens a call", "agree with people", "with GPT-4", "no choice"]
    title = f"Judge prompts on LLMBar, {len(pairs)} pairs, judge {options.model or 'none'}"
    return Table(title, tuple(columns), tuple(map(tuple, rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("--data", required=True, help="the folder with the sets of LLMBar")
    parser.add_argument("--model", help="the judge; without one, only tokens are measured")
    parser.add_argument("--before", default=LONG_PROMPTS, help="the commit of the earlier prompts")
    parser.add_argument("--limit", type=int, help="pairs of each set; by default all")
    add_options(parser, [])
    options = parser.parse_args()
    # Without a judge, a server on this machine counts tokens: 4 characters each.
    with ModelServer("MET") as server:
        table = asyncio.run(measure(options, options.model or server.model))
    print(plain_table(table))
    notes: list[str] = []
    if options.model is None:
        notes.append(
            "No judge could be reached from this machine, so only tokens are measured, at 4 characters "
            "each, query and response included. `--model JUDGE` measures agreement."
        )
    save_results("judge prompts", [table], notes, options, peers=())


if __name__ == "__main__":
    main()
