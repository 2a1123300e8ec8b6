"""`POST /verify`: as NeMo-Gym asks a resources server; its reply is the request with a reward."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Required, TypedDict, cast

import msgspec

from assay.aggregation import Policy
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.reading import decoded
from assay.server.refusals import Refusal
from assay.server.rewards import filled
from assay.server.routes import Asked, Chat
from assay.server.served import Served

ANSWERS: Final = ("answer", "expected_answer", "ground_truth", "label")
"""Fields of a row that hold what a good answer would be; the first that is there counts."""
OURS: Final = (
    "reward", "reward_components", "mask_sample", "failure_kind", "failure_reason",
    "_ng_failure_class", "_ng_failure_judge_error",
)  # fmt: skip
"""What a reply says. A row that is verified again may still have it from the time before."""


class ResponsesRequest(TypedDict, total=False):
    """What the model was asked."""

    input: Required[str | Chat]


class Response(TypedDict, total=False):
    """What it did: messages, reasoning, calls of tools and their results."""

    output: Required[Chat]


class VerifyBody(TypedDict):
    """A request to the model, its response, and the fields of the dataset row beside them."""

    responses_create_params: ResponsesRequest
    response: Response


class NemoGym:
    """One rollout a request, echoed. A failed one is marked as its collector expects it."""

    name = "nemo_gym"
    numbers_only = True

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(dict[str, Any])

    def read(self, body: bytes) -> Asked:
        row = decoded(body, self._decoder)
        row = {name: value for name, value in row.items() if name not in OURS}
        known = _checked(row)
        answer = next((row[name] for name in ANSWERS if row.get(name) is not None), "")
        info = row.get("info")
        rollout = Rollout(
            prompt=_prompt(known["responses_create_params"]["input"]),
            completion=_chat(known["response"]["output"]),
            answer=answer,
            info=cast("dict[str, Any]", info) if isinstance(info, dict) else {},
            columns=row,
        )
        return Asked([rollout], row)

    def write(
        self,
        asked: Asked,
        reports: Sequence[EvaluationReport],
        served: Served,
        unscored: Policy,
    ) -> dict[str, Any]:
        [report] = reports
        [reward] = filled([report.raw_score], asked.rollouts, unscored)
        if reward is None:
            return asked.request | _marked_failed(report)
        return asked.request | {"reward": reward} | _components(report, reward)


def _checked(row: dict[str, Any]) -> VerifyBody:
    try:
        return msgspec.convert(row, VerifyBody)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the request is not as it should be: {error}") from None


def _prompt(given: str | Chat) -> str | Chat:
    return given if isinstance(given, str) else _chat(given)


def _chat(items: Chat) -> Chat:
    """Items of the Responses API as messages of a chat; reasoning is left out."""
    return [message for item in items if (message := _message(item)) is not None]


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = {"name": item.get("name"), "arguments": item.get("arguments")}
        calls = [{"id": item.get("call_id"), "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": item.get("call_id"),
            "content": item.get("output"),
        }
    if kind != "message":
        return None
    return {"role": item.get("role", "assistant"), "content": item.get("content")}


def _components(report: EvaluationReport, reward: float) -> dict[str, Any]:
    """What each criterion adds; left out where it does not add up, as with a veto or a mean."""
    parts: dict[str, float] = {}
    for line in report.lines:
        if line.counted and line.value is not None:
            parts[line.name] = parts.get(line.name, 0.0) + line.weight * line.value
    adds_up = math.isclose(math.fsum(parts.values()), reward, rel_tol=1e-9, abs_tol=1e-9)
    return {"reward_components": parts} if parts and adds_up else {}


def _marked_failed(report: EvaluationReport) -> dict[str, Any]:
    """A row that NeMo-Gym keeps out of its metrics; the 0 stands for nothing."""
    errors = "; ".join(f"{name}: {error}" for name, error in report.why_unscored.items())
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": errors,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": errors,
    }
