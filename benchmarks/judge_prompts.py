"""Measure what shorter judge prompts change: `python benchmarks/judge_prompts.py --data FOLDER --model MODEL`.

Asks one judge the same questions with the prompts of this version and with those of an earlier commit,
and prints for both the tokens of a call and the agreement with people and with recorded verdicts of
GPT-4. FOLDER holds the sets of LLMBar and `recorded_verdicts.csv`. Without a model, only tokens are
measured. The figures are written into benchmarks/RESULTS.md.

A judge on another machine needs no network: `--write-requests` saves the requests of both versions,
`judge_margins.py` answers them there, and `--margins` reads what it wrote. Then the response of a pair
with the larger margin (the log-probability of MET minus that of UNMET) is the one that the judge prefers.
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


class RequestRecorder:
    """A model that keeps the messages it is sent, and answers MET."""

    id = "recorder"

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    async def __call__(self, request: Request) -> Reply:
        self.messages = [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ]
        assert request.schema is not None
        verdict = request.schema(explanation="-", criterion_status="MET")
        return Reply(verdict.model_dump_json(), verdict)


async def write_requests(pairs: Sequence[Pair], before: str, path: Path) -> None:
    """Save the requests about all responses, with the earlier prompts and with those of this version."""
    recorder = RequestRecorder()
    with path.open("w", encoding="utf-8") as file:
        for title, commit in (("earlier", before), ("this version", None)):
            with prompts_of(commit):
                grader = PerCriterionGrader(model=recorder)
                rubric = Rubric([{"requirement": CRITERION, "name": "right"}], judge=grader)
                for pair_index, pair in enumerate(pairs):
                    for response_index, response in enumerate(pair.responses):
                        await rubric.score([{"prompt": pair.instruction, "completion": response}])
                        line = {
                            "prompts": title,
                            "pair": pair_index,
                            "response": response_index,
                            "messages": recorder.messages,
                        }
                        file.write(json.dumps(line) + "\n")


def read_margins(pairs: Sequence[Pair], path: Path) -> Table:
    """Return the table for what `judge_margins.py` wrote."""
    margins: dict[tuple[str, int, int], float] = {}
    tokens: dict[str, list[int]] = {}
    judge_name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        saved = json.loads(line)
        judge_name = saved["judge"]
        margins[saved["prompts"], saved["pair"], saved["response"]] = saved["margin"]
        tokens.setdefault(saved["prompts"], []).append(saved["input_tokens"])
    rows: list[tuple[str, ...]] = []
    is_right: dict[str, list[bool]] = {}
    for title in ("earlier", "this version"):
        with_recorded: list[bool] = []
        is_right[title] = []
        for index, pair in enumerate(pairs):
            choice = int(margins[title, index, 1] > margins[title, index, 0])
            is_right[title].append(choice == pair.preferred)
            if pair.recorded is not None:
                with_recorded.append(choice == pair.recorded)
        shares = (share(is_right[title]), share(with_recorded))
        rows.append((title, f"{fmean(tokens[title]):.0f}", *shares))
    both = list(zip(is_right["earlier"], is_right["this version"], strict=True))
    only_earlier = sum(before and not now for before, now in both)
    only_current = sum(now and not before for before, now in both)
    rows.append(("only the earlier prompts agree with people", "", f"{only_earlier} pairs", ""))
    rows.append(("only those of this version do", "", f"{only_current} pairs", ""))
    columns = ("prompts", "input tokens a call", "agree with people", "with GPT-4")
    return Table(
        f"Judge prompts on LLMBar, {len(pairs)} pairs, judge {judge_name}", columns, tuple(rows)
    )


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


async def measure(pairs: Sequence[Pair], options: argparse.Namespace, model: str) -> Table:
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
    parser.add_argument(
        "--write-requests", type=Path, help="save the requests here, and ask nobody"
    )
    parser.add_argument("--margins", type=Path, help="what judge_margins.py wrote for the requests")
    add_options(parser, [])
    options = parser.parse_args()
    pairs = read_pairs(Path(options.data), options.limit)
    if options.write_requests:
        asyncio.run(write_requests(pairs, options.before, options.write_requests))
        return
    notes: list[str] = []
    if options.margins:
        table = read_margins(pairs, options.margins)
    else:
        # Without a judge, a server on this machine counts tokens: 4 characters each.
        with ModelServer("MET") as server:
            table = asyncio.run(measure(pairs, options, options.model or server.model))
        if options.model is None:
            notes.append(
                "No judge was available on this machine, so only tokens were measured, at 4 characters "
                "each, including query and response. `--model JUDGE` measures agreement."
            )
    print(plain_table(table))
    save_results("judge prompts", [table], notes, options, peers=())


if __name__ == "__main__":
    main()
