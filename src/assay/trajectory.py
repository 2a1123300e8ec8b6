"""Read the steps of a rollout (assistant turns or tool calls), and combine the answers about them."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from assay.aggregation import total
from assay.criterion import Criterion
from assay.messages import read_conversation, read_parts
from assay.report import CriterionReport, Score, make_line

# A tool call as `read_parts` writes it: `name(arguments)`.
_CALL = re.compile(r'([^\s({"]+)\((.*)\)', re.DOTALL)


class TrajectoryStep(NamedTuple):
    """One step of the model: an assistant turn, or one tool call."""

    # `m3` for a turn, `m3.call1` for a call.
    address: str
    # The text of the turn, or the name and arguments of the call.
    text: str
    # The name of the tool; empty for a turn, and for a call that cannot be read.
    name: str = ""
    # The arguments as the model wrote them: JSON text, which may be broken.
    arguments: str = ""
    # The tool's reply; None if there is none.
    result: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the tool replied with an error.

        That is `Error: …`, a traceback, or a JSON object with a non-empty `error` field.
        """
        if self.result is None:
            return False
        result = self.result.lstrip()
        if result[:6].lower() == "error:":
            return True
        if result.startswith("Traceback (most recent call last)"):
            return True
        if not result.startswith("{") or '"error"' not in result:
            return False
        try:
            reply = cast("dict[str, object]", json.loads(result))
        except (ValueError, RecursionError):
            return False
        return bool(reply.get("error"))

    @property
    def succeeded(self) -> bool:
        """Whether the tool replied, and not with an error."""
        return self.result is not None and not self.failed


def read_steps(row: Mapping[str, Any], scope: str) -> list[TrajectoryStep]:
    """Return the steps of a completion in order: its tool calls for the scope "call", else turns."""
    prompt = row.get("prompt")
    completion = row.get("completion")
    if scope == "call":
        return read_calls(prompt, completion)
    texts_by_turn: dict[str, list[str]] = {}
    for part in read_parts(prompt, completion):
        if part.role != "assistant" or part.in_prompt or part.kind == "thinking":
            continue
        # A turn without text, such as one that only calls tools, is a step too.
        texts = texts_by_turn.setdefault(part.message, [])
        if part.kind == "text":
            texts.append(part.text)
    return [TrajectoryStep(address, " ".join(texts)) for address, texts in texts_by_turn.items()]


def read_calls(prompt: object, completion: object) -> list[TrajectoryStep]:
    """Return the tool calls of a completion in order, each with its result.

    All message formats that `read_parts` reads are supported.

    >>> call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    >>> reply = {"role": "tool", "tool_call_id": "a", "content": "found"}
    >>> messages = [{"role": "assistant", "tool_calls": [call]}, reply]
    >>> [(step.address, step.name, step.result) for step in read_calls("Where is it?", messages)]
    [('m2.call1', 'search', 'found')]
    """
    parts = [part for part in read_parts(prompt, completion) if not part.in_prompt]
    calls = {part.address: part.text for part in parts if part.kind == "call"}
    results: dict[str, str] = {}
    unmatched_results: list[str] = []
    for part in parts:
        if part.kind != "result":
            continue
        if part.call in calls:
            results[part.call] = part.text
        else:
            unmatched_results.append(part.text)
    # A result without the id of a call belongs to the next call that has no result.
    next_results = iter(unmatched_results)
    steps: list[TrajectoryStep] = []
    for address, text in calls.items():
        match = _CALL.fullmatch(text)
        if match is None:
            name, arguments = "", text
        else:
            name, arguments = match.groups()
        result = results[address] if address in results else next(next_results, None)
        steps.append(TrajectoryStep(address, text, name, arguments, result))
    return steps


def cut_at_steps(
    row: Mapping[str, Any], steps: Iterable[TrajectoryStep]
) -> Iterator[dict[str, Any]]:
    """Yield a copy of the rollout for each step: cut after the step's message, with `step` added."""
    completion = row.get("completion")
    prompt_length = len(read_conversation(row.get("prompt"), "user"))
    messages = read_conversation(completion, "assistant")
    for step in steps:
        if isinstance(completion, str):
            completion_so_far = completion
        else:
            message_address = step.address.partition(".")[0]
            message_number = int(message_address.removeprefix("m"))
            completion_so_far = messages[: message_number - prompt_length]
        yield {**row, "completion": completion_so_far, "step": step}


def combine_steps(
    criterion: Criterion, addresses: Sequence[str], answers: Sequence[float | Score]
) -> Score:
    """Combine the answers about steps into one; if one of them is an error, so is the result."""
    lines: list[CriterionReport] = []
    for address, answer in zip(addresses, answers, strict=True):
        line = make_line(criterion, answer)
        update = {"name": address, "requirement": None, "tags": (), "step": True}
        lines.append(line.model_copy(update=update))
    for line in lines:
        if line.error is not None:
            error_type, _, message = line.error.partition(": ")
            error = f"{error_type}: about {line.name}: {message}"
            return Score(error=error, lines=tuple(lines))
    combined = _combine(criterion, [line for line in lines if line.applies])
    return combined._replace(lines=tuple(lines))


def _combine(criterion: Criterion, lines: Sequence[CriterionReport]) -> Score:
    """Combine the answers about steps by the criterion's `combine`; all of them have a value."""
    if not lines:
        return Score.not_applicable(f"there is no {criterion.scope} that it applies to")
    values = [line.value or 0.0 for line in lines]
    if criterion.combine == "all":
        return _answer_of_step(lines[values.index(min(values))])
    if criterion.combine == "any":
        return _answer_of_step(lines[values.index(max(values))])
    failures = [index for index, line in enumerate(lines) if not line.passed]
    reason = _cite_step(lines[failures[0]]) if failures else ""
    if criterion.combine == "mean":
        return Score(total(values) / len(values), reason)
    # What remains is "first_failure": the share of steps before it.
    share = failures[0] / len(values) if failures else 1.0
    if criterion.weight < 0:
        share = 1 - share
    return Score(share, reason)


def _answer_of_step(line: CriterionReport) -> Score:
    return line.as_score._replace(reason=_cite_step(line), lines=())


def _cite_step(line: CriterionReport) -> str:
    """Return the reason of a step's answer with the address of the step in front."""
    return f"[{line.name}] {line.reason}".rstrip()


def assign_to_turns(
    criterion: Criterion, line: CriterionReport, turns: Collection[str]
) -> dict[str, float | Score]:
    """Return the answer that counts in the reward of each turn; turns without one are left out.

    A turn's answer is that about its own steps. With `credit: cited`, a failure is shared among
    the turns that its reason cites, and every other turn counts as fully right.
    """
    if criterion.credit == "cited" and line.passed is False and line.value is not None:
        # A citation that could not be found in the rollout has the key "found", with False.
        cited_parts = [
            citation.get("part", "") for citation in line.citations if "found" not in citation
        ]
        cited_turns = {part.partition(".")[0] for part in cited_parts}.intersection(turns)
        if not cited_turns:
            return {}
        best = 1.0 if criterion.weight >= 0 else 0.0
        share_of_failure = (line.value - best) / len(cited_turns)
        return {turn: best + share_of_failure * (turn in cited_turns) for turn in turns}
    steps_by_turn: defaultdict[str, list[CriterionReport]] = defaultdict(list)
    for step in line.lines:
        if step.step and step.applies:
            turn = step.name.partition(".")[0]
            steps_by_turn[turn].append(step)
    return {turn: _combine(criterion, steps) for turn, steps in steps_by_turn.items()}
