"""The requests that NeMo-Gym sends to a resources server: verify a rollout, and aggregate verified rows.

A resources server is what NeMo-Gym calls a server that gives rewards. To verify is to score a rollout.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from assay.messages import as_text_if_single, split_message
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.payloads import convert_body
from assay.server.protocols import Chat, ScoringRequest, ScoringResults

# Fields of a row that may hold the expected answer; the first one that a row has is used.
ANSWER_FIELDS: Final = ("answer", "expected_answer", "ground_truth", "label")
TASK_INDEX: Final = "_ng_task_index"
# Larger numbers in a row are left out of the statistics: their sums would overflow.
LARGEST_NUMBER: Final = 1e100


# POST /verify: the reply is the request with a reward


class ResponsesRequest(Struct):
    """What the model was asked."""

    input: str | Chat


class ModelResponse(Struct):
    """What the model did: messages, reasoning, tool calls and their results."""

    output: Chat


class VerifyBody(Struct):
    """A request to the model, its response, and the fields of the dataset row beside them."""

    responses_create_params: ResponsesRequest
    response: ModelResponse


class VerifyReply(Struct):
    """The request, with these fields added."""

    reward: float
    reward_components: dict[str, float] = {}
    mask_sample: bool = False
    failure_kind: str = ""
    failure_reason: str = ""


# Fields that a reply adds to the row. A row that is verified again may still have them.
REPLY_FIELDS: Final = frozenset(
    {*VerifyReply.__struct_fields__, "_ng_failure_class", "_ng_failure_judge_error"}
)


class VerifyRequest(ScoringRequest):
    """`POST /verify`."""

    name = "nemo_gym"
    path = "/verify"
    summary = "Score as NeMo-Gym asks."
    body_type = VerifyBody
    reply_type = VerifyReply
    marks_failures = True

    def __init__(self, body: Any) -> None:
        parsed = convert_body(body, VerifyBody)
        # The body is a row of data to which the model's response was added.
        self._row = {name: value for name, value in body.items() if name not in REPLY_FIELDS}
        prompt = parsed.responses_create_params.input
        if not isinstance(prompt, str):
            prompt = convert_to_chat(prompt)
        info = self._row.get("info")
        rollout = Rollout(
            prompt=prompt,
            completion=as_text_if_single(convert_to_chat(parsed.response.output)),
            answer=_find_answer(self._row),
            info=cast("dict[str, Any]", info) if isinstance(info, dict) else {},
            columns=self._row,
        )
        self.rollouts = [rollout]

    def write_reply(self, results: ScoringResults) -> dict[str, Any]:
        """Return the row with its reward, or marked as failed if it has none."""
        [report] = results.reports
        if results.unscored == "raise":
            # None if the row is unscored. The reply can mark it as failed, so nothing is raised.
            reward = report.raw_score
        else:
            [reward] = results.fill_rewards()
        if reward is None:
            return self._row | _describe_failure(report)
        reply = self._row | {"reward": reward}
        if report.unshaped is not None:
            reply["outcome"] = report.unshaped  # the reward before the rubric shaped it
        components = _compute_components(report)
        # NeMo-Gym expects that the components add up to the reward. If the rubric has a veto, a mean
        # or a shaping, they may not; then they are left out.
        total = math.fsum(components.values())
        if components and math.isclose(total, reward, rel_tol=1e-9, abs_tol=1e-9):
            reply["reward_components"] = components
        return reply


def _find_answer(row: Mapping[str, Any]) -> Any:
    """Return the expected answer of a row; an empty text if it has none."""
    for name in ANSWER_FIELDS:
        if row.get(name) is not None:
            return row[name]
    return ""


def _describe_failure(report: EvaluationReport) -> dict[str, Any]:
    """Return the fields that mark a row as failed, so that NeMo-Gym leaves it out of its metrics.

    A reply must have a reward, so it has 0, which NeMo-Gym ignores in such a row. "judge_failed" is its
    name for a row that could not be scored, whatever the reason.
    """
    reason = "; ".join(f"{name}: {error}" for name, error in report.why_unscored.items())
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": reason,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": reason,
    }


def _compute_components(report: EvaluationReport) -> dict[str, float]:
    """Return what each criterion adds to the reward, by its name.

    A group of rubrics may have several criteria of the same name; these are added up.
    """
    components: dict[str, float] = {}
    for line in report.lines:
        if line.counted and line.value is not None:
            contribution = line.weight * line.value
            components[line.name] = components.get(line.name, 0.0) + contribution
    return components


def convert_to_chat(items: Chat) -> Chat:
    """Return items of the Responses API as the messages of a chat.

    In the Responses API, reasoning is an item of its own. In a chat it is a field of the message of
    the assistant, or of the tool call, that follows it.
    """
    chat: Chat = []
    reasoning: dict[str, Any] = {}  # this field, until the message that follows is reached
    for item in items:
        item_type = item.get("type", "message")
        if item_type == "reasoning":
            text = split_message({"role": "assistant", "content": [item]}).reasoning
            reasoning = {"reasoning_content": text} if text else {}
        elif item_type == "function_call":
            chat.append(_convert_tool_call(item) | reasoning)
            reasoning = {}
        elif item_type == "function_call_output":  # the result of the tool
            chat.append(
                {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            )
        elif item_type == "message":
            message = {"role": item.get("role", "assistant"), "content": item.get("content")}
            if message["role"] == "assistant":
                message |= reasoning
                reasoning = {}
            chat.append(message)
    if reasoning:  # the response was cut off before the answer
        chat.append({"role": "assistant", "content": ""} | reasoning)
    return chat


def _convert_tool_call(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function call of the Responses API as a message of a chat."""
    call = {
        "id": item.get("call_id"),
        "type": "function",
        "function": {"name": item.get("name"), "arguments": item.get("arguments")},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# POST /aggregate_metrics: when all rows are verified, NeMo-Gym asks for their metrics


class VerifiedRow(Struct):
    """A reply of `/verify`, with the index of its task. It may have any other fields."""

    task: int = msgspec.field(name=TASK_INDEX, default=0)
    response: dict[str, Any] | None = None
    mask_sample: bool = False  # whether the row was marked as failed


class AggregateBody(Struct):
    """The rows that were verified."""

    verify_responses: list[VerifiedRow]


class AggregateReply(Struct):
    """Statistics of every number in the rows, with keys such as `mean/reward`."""

    group_level_metrics: list[dict[str, float]]  # of the rows of each task
    agent_metrics: dict[str, float]  # of all rows
    key_metrics: dict[str, float]  # only the means of all rows


class AggregateRequest(ScoringRequest):
    """`POST /aggregate_metrics`, which has no rollouts to score."""

    name = "nemo_gym_metrics"
    path = "/aggregate_metrics"
    summary = "Sum verified rows up as NeMo-Gym asks."
    body_type = AggregateBody
    reply_type = AggregateReply
    takes_numbers_only = False

    def __init__(self, body: Any) -> None:
        # Each row as its known fields, and as the dict of all its fields.
        self._rows = convert_body(body, AggregateBody).verify_responses
        self._fields: list[dict[str, Any]] = body["verify_responses"]
        self.rollouts = []

    def write_reply(self, results: ScoringResults) -> AggregateReply:
        """Return the statistics of the rows that were sent.

        `results` is empty, since this request asks to score nothing.
        """
        all_numbers: list[dict[str, float]] = []
        numbers_of_task: dict[int, list[dict[str, float]]] = {}
        for row, fields in zip(self._rows, self._fields, strict=True):
            numbers = _read_numbers(row, fields)
            all_numbers.append(numbers)
            numbers_of_task.setdefault(row.task, []).append(numbers)
        task_metrics = [
            _compute_statistics(numbers) | {TASK_INDEX: task}
            for task, numbers in sorted(numbers_of_task.items())
        ]
        metrics = _compute_statistics(all_numbers)
        means = {name: value for name, value in metrics.items() if name.startswith("mean/")}
        return AggregateReply(
            group_level_metrics=task_metrics, agent_metrics=metrics, key_metrics=means
        )


def _read_numbers(row: VerifiedRow, fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row and of its token usage, by name.

    Of a row that was marked as failed, only the mark is returned: its reward means nothing.
    """
    if row.mask_sample:
        return {"mask_sample": 1.0}
    usage: Any = (row.response or {}).get("usage")
    if not isinstance(usage, dict):
        usage = {}
    numbers = {"mask_sample": 0.0}
    for name, value in {**fields, **cast("dict[str, Any]", usage)}.items():
        is_number = isinstance(value, bool | int | float) and abs(value) < LARGEST_NUMBER
        # Fields that start with `_ng_` are indices that NeMo-Gym adds to rows.
        if is_number and not name.startswith("_ng_"):
            numbers[name] = float(value)
    return numbers


def _compute_statistics(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the statistics of every column, with keys such as `mean/reward`."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    statistics: dict[str, float] = {}
    for name, values in columns.items():
        for statistic, compute in _STATISTICS.items():
            statistics[f"{statistic}/{name}"] = compute(values)
    return statistics


def _compute_deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    return stdev(values)


_STATISTICS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "mean": fmean,
    "max": max,
    "min": min,
    "median": median,
    "std": _compute_deviation,
}
