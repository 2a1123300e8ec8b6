"""Read the steps of a rollout (assistant turns or tool calls), and combine the answers about them."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from assay.aggregation import total
from assay.criterion import Criterion
from assay.messages import Part, read_conversation, read_parts
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
    """Return the steps of a completion in order.

    For the scope "call" these are its tool calls, otherwise its assistant turns.
    """
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
    call_parts = [part for part in parts if part.kind == "call"]
    result_parts = [part for part in parts if part.kind == "result"]
    results = _match_results(call_parts, result_parts)
    steps: list[TrajectoryStep] = []
    for part in call_parts:
        match = _CALL.fullmatch(part.text)
        if match is None:
            name, arguments = "", part.text
        else:
            name, arguments = match.groups()
        result = results.get(part.address)
        steps.append(TrajectoryStep(part.address, part.text, name, arguments, result))
    return steps


def _match_results(calls: Sequence[Part], results: Sequence[Part]) -> dict[str, str]:
    """Return the text of the result of each call, by the address of the call.

    A result that names no call is the result of the first call that has none yet.
    """
    call_addresses = {call.address for call in calls}
    text_by_call: dict[str, str] = {}
    unmatched_texts: list[str] = []
    for result in results:
        if result.call in call_addresses:
            text_by_call[result.call] = result.text
        else:
            unmatched_texts.append(result.text)
    calls_without_result = [call.address for call in calls if call.address not in text_by_call]
    # There may be fewer results than calls, or more.
    text_by_call.update(zip(calls_without_result, unmatched_texts, strict=False))
    return text_by_call


def cut_at_steps(
    row: Mapping[str, Any], steps: Iterable[TrajectoryStep]
) -> Iterator[dict[str, Any]]:
    """Yield, for each step, the rollout as it was after the message of that step.

    Each is a copy of the row with a shorter completion, and with the step in the field `step`.
    """
    completion = row.get("completion")
    prompt_length = len(read_conversation(row.get("prompt"), "user"))
    messages = read_conversation(completion, "assistant")
    for step in steps:
        if isinstance(completion, str):  # a plain text is a single message
            completion_so_far = completion
        else:
            # The address begins with the number of the message, such as `m3`, and messages are
            # numbered from 1 through prompt and completion.
            message_number = int(_get_turn(step.address).removeprefix("m"))
            completion_so_far = messages[: message_number - prompt_length]
        yield {**row, "completion": completion_so_far, "step": step}


def _get_turn(address: str) -> str:
    """Return the address of the turn that holds a step: `m3` for `m3.call1`."""
    return address.partition(".")[0]


def combine_steps(
    criterion: Criterion, addresses: Sequence[str], answers: Sequence[float | Score]
) -> Score:
    """Combine the answers about steps into one answer, with a line for each step.

    If any answer is an error, the combined answer is the first error.
    """
    lines: list[CriterionReport] = []
    for address, answer in zip(addresses, answers, strict=True):
        line = make_line(criterion, answer)
        # A line about a step is named by its address; the line above it has the other fields.
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
    """Combine the answers about steps by the rule `criterion.combine`.

    No line is an error, and the criterion applies to the step of each.
    """
    if not lines:
        return Score.not_applicable(f"there is no {criterion.scope} that it applies to")
    values = [line.value or 0.0 for line in lines]  # none of them is None
    if criterion.combine == "all":
        return _answer_of_step(lines[values.index(min(values))])
    if criterion.combine == "any":
        return _answer_of_step(lines[values.index(max(values))])
    first_failure = None  # the index of the first step that fails
    for index, line in enumerate(lines):
        if not line.passed:
            first_failure = index
            break
    reason = "" if first_failure is None else _cite_step(lines[first_failure])
    if criterion.combine == "mean":
        return Score(total(values) / len(values), reason)
    # What remains is "first_failure": the share of steps before the first failure.
    share = 1.0 if first_failure is None else first_failure / len(values)
    if criterion.weight < 0:  # the criterion describes a fault, so the best value is 0
        share = 1 - share
    return Score(share, reason)


def _answer_of_step(line: CriterionReport) -> Score:
    """Return the answer about one step as the answer about the whole rollout."""
    return line.as_score._replace(reason=_cite_step(line), lines=())


def _cite_step(line: CriterionReport) -> str:
    """Return the reason of a step's answer with the address of the step in front."""
    return f"[{line.name}] {line.reason}".rstrip()


def assign_to_turns(
    criterion: Criterion, line: CriterionReport, turns: Collection[str]
) -> dict[str, float | Score]:
    """Return the answers of a criterion from which turns get their rewards, by turn.

    `line` is the criterion's line in the report of the rollout. The answer for a turn combines the
    answers about the steps of this turn; a turn without such answers is left out. If the criterion
    has `credit: cited` and failed, the failure is instead shared among the turns that its reason
    cites.
    """
    if criterion.credit == "cited" and line.passed is False and line.value is not None:
        return dict(_share_failure(criterion, line, line.value, turns))
    steps_by_turn: defaultdict[str, list[CriterionReport]] = defaultdict(list)
    for step_line in line.lines:
        if step_line.step and step_line.applies:
            steps_by_turn[_get_turn(step_line.name)].append(step_line)
    return {turn: _combine(criterion, lines) for turn, lines in steps_by_turn.items()}


def _share_failure(
    criterion: Criterion, line: CriterionReport, value: float, turns: Collection[str]
) -> dict[str, float]:
    """Return the value of each turn if a criterion failed and its reason cites some of the turns.

    `value` is that of the failure. What it lacks to the best value is divided equally among the
    cited turns; all other turns have the best value. If no turn is cited, the result is empty.
    """
    cited_turns: set[str] = set()
    for citation in line.citations:
        is_found = "found" not in citation  # only a citation of what is not there has this key
        turn = _get_turn(citation.get("part", ""))
        if is_found and turn in turns:
            cited_turns.add(turn)
    if not cited_turns:
        return {}
    best = 1.0 if criterion.weight >= 0 else 0.0
    value_of_cited = best + (value - best) / len(cited_turns)
    return {turn: value_of_cited if turn in cited_turns else best for turn in turns}
