"""Measure the local engine: `python benchmarks/local_judge.py accuracy --model smoke --data FOLDER`.

accuracy   how often the model prefers the response that people prefer, on LLMBar
prefix     ten criteria about one long response: with the criterion last, and first
start      seconds until the first answer, and memory

The prompt has the form that works best with small models: one plain question, with the criterion last. The
answer is the log-odds of Yes against No for the first token.
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
from typing import Any, Literal

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


def make_request(response: str, criterion: str, *, criterion_first: bool = False) -> Request:
    """Return a question about a response. The criterion belongs behind it, so prompts share it."""
    response_part = f"<response>\n{response}\n</response>\n"
    criterion_part = f"What was asked: {criterion}\n"
    question = "Does the response do exactly what was asked? Yes or No?"
    if criterion_first:
        request = Request.of(SYSTEM, criterion_part, response_part, question)
    else:
        request = Request.of(SYSTEM, response_part, criterion_part + question)
    return replace(request, max_tokens=1, logprobs=ALTERNATIVES)


def log_odds(reply: Reply) -> float:
    """Return the log-odds of Yes against No for the first token, ignoring case and spaces."""
    assert reply.logprobs
    probabilities = {"yes": 1e-9, "no": 1e-9}  # the odds are finite if a token is missing
    for token, logprob in reply.logprobs[0].alternatives.items():
        word = token.strip().casefold()
        if word in probabilities:
            probabilities[word] += math.exp(logprob)
    return math.log(probabilities["yes"] / probabilities["no"])


@dataclass(frozen=True)
class Pair:
    """Two responses to one instruction."""

    instruction: str
    better: str  # the one that people prefer
    worse: str

    @classmethod
    def of(cls, row: Mapping[str, str | int]) -> "Pair":
        better = str(row["output_1"])
        worse = str(row["output_2"])
        if row["label"] != 1:
            better, worse = worse, better
        return cls(str(row["input"]), better, worse)


async def judge_pairs(model: LocalModel, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
    """Return the log-odds of the better and of the worse response of each pair."""
    odds: list[tuple[float, float]] = []
    for pair in pairs:
        better = await model(make_request(pair.better, pair.instruction))
        worse = await model(make_request(pair.worse, pair.instruction))
        odds.append((log_odds(better), log_odds(worse)))
    return odds


def share(flags: Iterable[bool]) -> str:
    """Return a share in per cent, with its 95 % interval (Wilson) and the number of flags."""
    values = list(flags)
    count = len(values)
    p = sum(values) / count
    z = 1.96
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return f"{p:.0%} ({middle - half:.0%} to {middle + half:.0%}, n = {count})"


def row_of(name: str, odds: Sequence[tuple[float, float]]) -> str:
    preferred = share(better > worse for better, worse in odds)
    yes_to_better = share(better > 0 for better, _ in odds)
    no_to_worse = share(worse < 0 for _, worse in odds)
    return f"| {name} | {preferred} | {yes_to_better} | {no_to_worse} |"


async def accuracy(model: LocalModel, folder: Path, limit: int | None) -> None:
    print("| set | better one preferred | Yes to the better | No to the worse |\n|---|---|---|---|")
    all_odds: list[tuple[float, float]] = []
    for name, file in SETS.items():
        rows = json.loads((folder / file).read_text(encoding="utf-8"))
        odds = await judge_pairs(model, [Pair.of(row) for row in rows[:limit]])
        all_odds += odds
        print(row_of(name, odds), flush=True)
    print(row_of("all", all_odds))


async def prefix(model: LocalModel, words: int, criteria: int, max_tokens: int) -> None:
    await model.start()
    options: dict[str, Any] = {"max_tokens": max_tokens}
    if max_tokens > 1:
        options["schema"] = Verdict
    sentence = "The miller opened the sluice at dawn, and the wheel began to turn. "
    for order in ("last", "first"):
        # The texts differ from the start, so that the second order cannot use the cache of the first.
        response = (f"{order.capitalize()}. " + sentence * words)[: words * 5]
        requests: list[Request] = []
        for number in range(criteria):
            criterion = f"names {number} kinds of corn"
            request = make_request(response, criterion, criterion_first=order == "first")
            requests.append(replace(request, **options))
        started = time.perf_counter()
        cpu_before = _cpu_seconds(model.pid)
        replies = [await model(request) for request in requests]
        seconds = time.perf_counter() - started
        cpu_seconds = _cpu_seconds(model.pid) - cpu_before
        usage = sum((reply.usage for reply in replies), Usage())
        print(
            f"criterion {order}: {seconds:.1f} s, {cpu_seconds:.1f} CPU s, "
            f"{replies[0].usage.prompt} tokens a prompt, "
            f"{usage.cached / usage.prompt:.0%} of {usage.prompt} read before, "
            f"{usage.completion} written",
            flush=True,
        )


async def start(model: LocalModel) -> None:
    started = time.perf_counter()
    await model.start()
    loaded = time.perf_counter() - started
    await model(make_request("4", "an even number"))
    answered = time.perf_counter() - started
    memory = _peak_memory(model.pid) / 1e6
    print(f"loaded {loaded:.2f} s, first answer {answered:.2f} s, memory {memory:.0f} MB")


def _cpu_seconds(pid: int | None) -> float:
    """Return the CPU seconds of the engine so far, which other work on the machine affects little."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _peak_memory(pid: int | None) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no line VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["accuracy", "prefix", "start"])
    parser.add_argument("--model", default="local", help="local, local:FILE or smoke")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, help="the folder of LLMBar's JSON files")
    parser.add_argument("--limit", type=int, help="pairs of each set at most")
    parser.add_argument("--words", type=int, default=1130, help="about 1,500 tokens")
    parser.add_argument("--criteria", type=int, default=10)
    parser.add_argument("--written", type=int, default=1, help="tokens; above 1 a JSON object")
    options = parser.parse_args()
    if options.what == "accuracy" and options.data is None:
        parser.error("accuracy needs --data")
    model = LocalModel(options.model, threads=options.threads)
    print(f"{model.id}")
    try:
        if options.what == "accuracy":
            asyncio.run(accuracy(model, options.data, options.limit))
        elif options.what == "prefix":
            asyncio.run(prefix(model, options.words, options.criteria, options.written))
        else:
            asyncio.run(start(model))
    finally:
        model.close()


if __name__ == "__main__":
    main()
