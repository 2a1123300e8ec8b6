"""Measure the local engine: `python benchmarks/local_judge.py accuracy --model smoke --data FOLDER`.

accuracy   how often the response that people prefer is the one the model prefers, on LLMBar
prefix     ten criteria over one long response: criterion last against criterion first
start      seconds until it answers, and memory

The form is the one that serves small models best: one plain question, the criterion last, and the
log-odds of Yes against No for the first token.
"""

import argparse
import asyncio
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from assay.local.local_model import LocalModel
from assay.models import Reply, Request, Usage

SYSTEM = "You check whether a response does what was asked of it. Answer with one word, Yes or No."
SETS = {
    "Natural": "LLMBar_Natural.json",
    "Neighbor": "LLMBar_Adversarial_Neighbor.json",
    "GPTInst": "LLMBar_Adversarial_GPTInst.json",
    "GPTOut": "LLMBar_Adversarial_GPTOut.json",
    "Manual": "LLMBar_Adversarial_Manual.json",
}
ALTERNATIVES = 50
TICKS = os.sysconf("SC_CLK_TCK")


class Verdict(BaseModel):
    """About 40 tokens: a short reason and a verdict."""

    reason: str = Field(pattern="^[a-z ]{100,120}$")
    verdict: Literal["MET", "UNMET"]


def asked(response: str, criterion: str, *, first: bool = False) -> Request:
    """One question about a response; with `first`, the criterion before it, as it should not be."""
    shown = f"<response>\n{response}\n</response>\n"
    words = f"What was asked: {criterion}\n"
    plain = "Does the response do exactly what was asked? Yes or No?"
    parts = (words, shown, plain) if first else (shown, words + plain)
    return replace(Request.of(SYSTEM, *parts), max_tokens=1, logprobs=ALTERNATIVES)


def log_odds(reply: Reply) -> float:
    """Of Yes against No, by the first token, whatever its case and the blank before it."""
    yes, no = 0.0, 0.0
    for token, logprob in (reply.logprobs or ())[0].alternatives.items():
        word = token.strip().casefold()
        yes += math.exp(logprob) if word == "yes" else 0.0
        no += math.exp(logprob) if word == "no" else 0.0
    tiny = 1e-9
    return math.log((yes + tiny) / (no + tiny))


@dataclass(frozen=True)
class Pair:
    """Two responses to one instruction, the one people prefer first."""

    instruction: str
    better: str
    worse: str

    @classmethod
    def of(cls, row: Mapping[str, str | int]) -> "Pair":
        one, two = str(row["output_1"]), str(row["output_2"])
        better, worse = (one, two) if row["label"] == 1 else (two, one)
        return cls(str(row["input"]), better, worse)


async def judged(model: LocalModel, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
    """The log-odds of the better and of the worse response of each pair."""
    results: list[tuple[float, float]] = []
    for pair in pairs:
        odds = [
            log_odds(await model(asked(response, pair.instruction)))
            for response in (pair.better, pair.worse)
        ]
        results.append((odds[0], odds[1]))
    return results


def share(flags: Iterable[bool]) -> str:
    """A share in per cent, with its 95 % interval (Wilson) and the number behind it."""
    seen = list(flags)
    count, p, z = len(seen), sum(seen) / len(seen), 1.96
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return f"{p:.0%} ({middle - half:.0%} to {middle + half:.0%}, n = {count})"


def row_of(name: str, odds: Sequence[tuple[float, float]]) -> str:
    preferred = share(better > worse for better, worse in odds)
    said_yes = share(better > 0 for better, _ in odds)
    said_no = share(worse < 0 for _, worse in odds)
    return f"| {name} | {preferred} | {said_yes} | {said_no} |"


async def accuracy(model: LocalModel, folder: Path, limit: int | None) -> None:
    print("| set | better one preferred | Yes to the better | No to the worse |\n|---|---|---|---|")
    every: list[tuple[float, float]] = []
    for name, file in SETS.items():
        rows = json.loads((folder / file).read_text(encoding="utf-8"))
        odds = await judged(model, [Pair.of(row) for row in rows[:limit]])
        every += odds
        print(row_of(name, odds), flush=True)
    print(row_of("all", every))


async def prefix(model: LocalModel, words: int, criteria: int, written: int) -> None:
    await model.start()
    form = {"max_tokens": 1} if written == 1 else {"max_tokens": written, "schema": Verdict}
    sentence = "The miller opened the sluice at dawn, and the wheel began to turn. "
    for first in (False, True):
        response = (("First. " if first else "Last. ") + sentence * words)[: words * 5]
        start, cpu = time.perf_counter(), _cpu_seconds(model.pid)
        questions = [
            replace(asked(response, f"names {n} kinds of corn", first=first), **form)
            for n in range(criteria)
        ]
        replies = [await model(question) for question in questions]
        spent, cpu = time.perf_counter() - start, _cpu_seconds(model.pid) - cpu
        usage = sum((reply.usage for reply in replies), Usage())
        order = "first" if first else "last"
        print(
            f"criterion {order}: {spent:.1f} s, {cpu:.1f} CPU s, {replies[0].usage.prompt} tokens a "
            f"prompt, {usage.cached / usage.prompt:.0%} of {usage.prompt} read before, "
            f"{usage.completion} written",
            flush=True,
        )


async def start(model: LocalModel) -> None:
    before = time.perf_counter()
    await model.start()
    loaded = time.perf_counter() - before
    await model(asked("4", "an even number"))
    answered = time.perf_counter() - before
    memory = _peak_memory(model.pid) / 1e6
    print(f"loaded {loaded:.2f} s, first answer {answered:.2f} s, memory {memory:.0f} MB")


def _cpu_seconds(pid: int | None) -> float:
    """What the engine has used so far: a busy machine changes it less than the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _peak_memory(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["accuracy", "prefix", "start"])
    parser.add_argument("--model", default="local", help="local, local:FILE or smoke")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, help="the folder of LLMBar's JSON files")
    parser.add_argument("--limit", type=int, help="pairs of each set at most")
    parser.add_argument("--words", type=int, default=1130, help="about 1,500 tokens")
    parser.add_argument("--criteria", type=int, default=10)
    parser.add_argument("--written", type=int, default=1, help="tokens; above 1 a JSON object")
    said = parser.parse_args()
    model = LocalModel(said.model, threads=said.threads)
    print(f"{model.id}")
    work = {
        "accuracy": lambda: accuracy(model, said.data, said.limit),
        "prefix": lambda: prefix(model, said.words, said.criteria, said.written),
        "start": lambda: start(model),
    }
    if said.what == "accuracy" and said.data is None:
        parser.error("accuracy needs --data")
    try:
        asyncio.run(work[said.what]())
    finally:
        model.close()


if __name__ == "__main__":
    main()
