"""Read the steps of a rollout, which are its turns or its calls of tools, and join the answers about them."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.aggregation import total
from assay.criterion import Criterion
from assay.messages import parts_of, turns_of
from assay.report import CriterionReport, Score, line_of
from assay.tools import is_failure


class TrajectoryStep(NamedTuple):
    """One thing that the model did: a turn of the assistant, or one call of a tool."""

    address: str  # `m3` for a turn, `m3.call1` for a call
    text: str  # what the turn says; of a call its name and arguments
    name: str = ""  # the tool that is called; empty for a turn, and where a call cannot be read
    arguments: str = ""  # as the model wrote them: JSON text, which may be broken
    result: str | None = None  # what the tool replied; None without a reply

    @property
    def failed(self) -> bool:
        """Whether the tool replied with an error: `Error: …`, a traceback, or JSON with an `error` in it."""
        said = (self.result or "").lstrip()
        if is_failure(said[:6].capitalize()) or said.startswith(
            "Traceback (most recent call last)"
        ):
            return True
        try:
            return (
                said.startswith("{") and '"error"' in said and bool(json.loads(said).get("error"))
            )
        except (ValueError, RecursionError):
            return False

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not self.failed


def steps_of(row: Mapping[str, Any], scope: str) -> list[TrajectoryStep]:
    """The turns of the assistant in the completion of a rollout, or its calls of tools, in order."""
    prompt, completion = row.get("prompt"), row.get("completion")
    if scope == "call":
        return calls_of(prompt, completion)
    turns: dict[str, list[str]] = {}
    for part in parts_of(prompt, completion):
        if part.role == "assistant" and not part.in_prompt and part.kind != "thinking":
            turns.setdefault(part.message, []).extend([part.text] if part.kind == "text" else ())
    return [TrajectoryStep(address, " ".join(texts)) for address, texts in turns.items()]


def as_it_stood(
    row: Mapping[str, Any], steps: Iterable[TrajectoryStep]
) -> Iterator[dict[str, Any]]:
    """A rollout up to the message of each step and no further, with the step as the field `step`; one at a time."""
    completion, asked = row.get("completion"), len(turns_of(row.get("prompt"), "user"))
    said = turns_of(completion, "assistant")
    for step in steps:
        number = int(step.address.partition(".")[0][1:]) - asked
        yield {
            **row,
            "completion": completion if isinstance(completion, str) else said[:number],
            "step": step,
        }


def calls_of(prompt: object, completion: object) -> list[TrajectoryStep]:
    """The calls of tools in a completion in order, each with its result, from every shape that `parts_of` knows.

    >>> call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    >>> said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "found"}]
    >>> [(step.address, step.name, step.result) for step in calls_of("Where is it?", said)]
    [('m2.call1', 'search', 'found')]
    """
    own = [part for part in parts_of(prompt, completion) if not part.in_prompt]
    # A result goes by the id of its call, and in order where it has none.
    calls = {part.address: part.text for part in own if part.kind == "call"}
    results = {part.call: part.text for part in own if part.kind == "result" and part.call in calls}
    others = (part.text for part in own if part.kind == "result" and part.call not in calls)
    found: list[TrajectoryStep] = []
    for address, text in calls.items():
        read = re.fullmatch(r'([^\s({"]+)\((.*)\)', text, re.DOTALL)
        name, arguments = read.groups() if read else ("", text)
        result = results[address] if address in results else next(others, None)
        found.append(TrajectoryStep(address, text, name, arguments, result))
    return found


def join_steps(
    criterion: Criterion, addresses: Sequence[str], answers: Sequence[float | Score]
) -> Score:
    """The answer that those about steps come to; none when one of them has none."""
    lines = [line_of(criterion, answer) for answer in answers]
    own = {"requirement": None, "tags": (), "step": True}
    named = tuple(
        line.model_copy(update={"name": name, **own})
        for name, line in zip(addresses, lines, strict=True)
    )
    for line in named:
        if line.error is not None:
            kind, _, why = line.error.partition(": ")
            return Score(error=f"{kind}: about {line.name}: {why}", lines=named)
    return _joined(criterion, [line for line in named if line.applies])._replace(lines=named)


def _joined(criterion: Criterion, lines: Sequence[CriterionReport]) -> Score:
    if not lines:
        return Score.not_applicable(f"there is no {criterion.scope} that it applies to")
    values = [line.value or 0.0 for line in lines]
    bad = next((place for place, line in enumerate(lines) if not line.passed), None)
    if criterion.combine in ("all", "any"):
        place = values.index((min if criterion.combine == "all" else max)(values))
        return lines[place].as_score._replace(
            reason=f"[{lines[place].name}] {lines[place].reason}".rstrip(), lines=()
        )
    reason = "" if bad is None else f"[{lines[bad].name}] {lines[bad].reason}".rstrip()
    if criterion.combine == "mean":
        return Score(total(values) / len(values), reason)
    share = 1.0 if bad is None else bad / len(values)
    return Score(share if criterion.weight >= 0 else 1 - share, reason)


def by_turn(
    criterion: Criterion, line: CriterionReport, turns: Collection[str]
) -> dict[str, float | Score]:
    """A line's answer as it counts in the reward of a turn: by what the turn did, or by its share of a failure."""
    steps: defaultdict[str, list[CriterionReport]] = defaultdict(list)
    for step in line.lines:
        if step.step and step.applies:
            steps[step.name.partition(".")[0]].append(step)
    if criterion.credit == "rollout" or line.passed is not False or line.value is None:
        return {turn: _joined(criterion, own) for turn, own in steps.items()}
    parts = [cited.get("part", "") for cited in line.citations if "found" not in cited]
    blamed = {part.partition(".")[0] for part in parts}.intersection(turns)
    best = float(criterion.weight >= 0)
    return (
        {turn: best + (turn in blamed) * (line.value - best) / len(blamed) for turn in turns}
        if blamed
        else {}
    )
