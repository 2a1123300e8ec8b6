"""The protocols that clients speak: our own, and those of OpenRLHF, slime and NeMo-Gym.

A protocol reads rollouts from the JSON of a request and writes the reply from their reports. Its types also make the
OpenAPI document.
"""

import json
import math
from collections.abc import Callable, Sequence
from statistics import fmean, median, stdev
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.aggregation import Policy, fill_unscored, group_by_key
from assay.integrations.reward_functions import fields_of_label, response_of, rewards_of
from assay.integrations.step import Scored
from assay.messages import as_text_if_single, split_message
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.service import RubricService
from assay.tables import RepeatedFieldError, refuse_repeated_fields
from assay.wording import format_value

Value = TypeVar("Value")
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Chat: TypeAlias = list[dict[str, Any]]  # messages, each with its role and content
Number: TypeAlias = float | None
Asked: TypeAlias = tuple[
    list[Rollout], Any
]  # the rollouts of a request, and what the reply needs of it besides


class HttpRefusal(Exception):  # noqa: N818 - the request is in error, the server is not
    """A request is answered with this status and sentence, and not with a reply."""

    def __init__(self, status: int, sentence: str, headers: Headers = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers

    @property
    def body(self) -> bytes:
        # Not by msgspec: a sentence may quote half a surrogate pair, which only an escape can carry.
        return json.dumps({"error": str(self)}).encode()


def decode(body: bytes) -> Any:
    """The value in a body; refuses what is not JSON, or names a key twice in one object."""
    # Not by msgspec, which would be faster, but keeps the last of two equal keys and no half of a surrogate pair.
    try:
        return _STRICT.decode(body.decode())
    except RecursionError:
        raise HttpRefusal(400, "the JSON is nested too deep: flatten it") from None
    except RepeatedFieldError as error:
        raise HttpRefusal(400, str(error)) from None
    except ValueError as error:
        raise HttpRefusal(400, f"the body is no JSON: {error}") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{format_value(digits)} is no finite number")
    return number


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=refuse_repeated_fields, parse_float=_finite, parse_constant=_finite
)
_ENCODER: Final = msgspec.json.Encoder()


def encode(reply: Any) -> bytes:
    try:
        return _ENCODER.encode(reply)
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return json.dumps(msgspec.to_builtins(reply)).encode()


def _convert(value: Any, kind: type[Value]) -> Value:
    """A decoded value as one of a type, or a refusal that says where it is not."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        hint = "; what checks name goes into columns" if "unknown field" in str(error) else ""
        raise HttpRefusal(400, f"the request is not as it should be: {error}{hint}") from None


class ScoredRequest(NamedTuple):
    """A request with the reports on its rollouts, from which its reply is written."""

    rollouts: list[Rollout]
    detail: Any
    reports: Sequence[EvaluationReport]
    service: RubricService
    unscored: Policy

    @property
    def groups(self) -> list[str]:
        return [repr(rollout.prompt) for rollout in self.rollouts]

    def filled(self, numbers: Sequence[Number]) -> list[Number]:
        """The numbers, with what the policy says in the place of each that is missing; those of one prompt are a group."""
        if None not in numbers:
            return list(numbers)
        return fill_unscored(numbers, self.unscored, self.groups)


class ScoringProtocol(NamedTuple):
    """One way to ask for scores."""

    name: str  # the `route` in metrics
    path: str
    summary: str
    request: Any
    reply: Any
    read: Callable[
        [Any], Asked
    ]  # what a decoded body asks for; raises `HttpRefusal` when it is not as it should be
    write: Callable[
        [ScoredRequest], Any
    ]  # the reply; raises `UnscoredError` when there can be none
    numbers_only: bool = True  # whether a reply has no place for a rollout without a score
    marks: bool = False  # whether a reply can still mark such a rollout as failed, so that it need not be refused


# POST /v1/score: our own protocol


class RolloutBody(Struct, forbid_unknown_fields=True):
    """A rollout: its completion and further fields that checks name; or a state alone, which holds everything."""

    prompt: str | Chat | UnsetType = UNSET
    completion: Any = (
        UNSET  # a text or messages. Anything else is an error of this rollout, not of the request
    )
    answer: Any = UNSET
    task: str | UnsetType = UNSET
    info: dict[str, Any] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType = UNSET
    columns: dict[str, Any] | UnsetType = UNSET


class ScoreBody(Struct, forbid_unknown_fields=True):
    """What to score. With `report`, every item has its report, line by line."""

    rollouts: list[RolloutBody]
    report: bool = False


class Item(Struct, omit_defaults=True):
    """What came of one rollout. Without a score, `reward` and `score` are null and `errors` says why."""

    reward: Number
    score: Number
    errors: dict[str, str] | None = None
    partial_reward: Number = None  # the sum of what was answered, where there is no reward
    outcome: Number = None  # the reward before shaping, where the rubric shapes it
    report: dict[str, Any] | None = None


class ScoreReply(Struct):
    """One item a rollout, in order, and the hash of the rubric that they were scored with."""

    rubric: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    items: list[Item]


def _read_score(value: Any) -> Asked:
    body = _convert(value, ScoreBody)
    rollouts: list[Rollout] = []
    for given in value["rollouts"]:  # each as it was sent, which is just what it was found to be
        if "completion" in given:
            rollouts.append(Rollout(**given))
        elif given.keys() == {"state"}:
            rollouts.append(Rollout.from_state(given["state"]))
        else:
            raise HttpRefusal(
                400, "a rollout has no completion: give one, or a state alone that holds everything"
            )
    return rollouts, body.report


def _write_score(scored: ScoredRequest) -> ScoreReply:
    items = [
        Item(report.raw_score, report.score, outcome=report.unshaped)
        if report.scored
        else Item(None, None, report.errors or report.why_unscored, report.partial_reward)
        for report in scored.reports
    ]
    if scored.detail:
        for item, report in zip(items, scored.reports, strict=True):
            item.report = report.to_dict()
    return ScoreReply(scored.service.hash, items)


# POST /openrlhf: as OpenRLHF asks its remote reward model


class OpenRLHFBody(Struct):
    """One list each, of one length; OpenRLHF sends lists of one, and empty ones to further servers."""

    query: list[str]  # the prompt and the response, as one text with special tokens
    prompts: list[str] = []
    labels: list[Any] = []


class OpenRLHFReply(Struct):
    """`rewards` are sums of weights, `scores` lie between 0 and 1, `extra_logs` has every criterion and `unscored`."""

    rewards: list[Number]
    scores: list[Number]
    extra_logs: dict[str, list[Number]]


def _read_openrlhf(value: Any) -> Asked:
    body = _convert(value, OpenRLHFBody)
    count = len(body.query)
    prompts, labels = body.prompts or [""] * count, body.labels or [""] * count
    for name, column in (("prompts", prompts), ("labels", labels)):
        if len(column) != count:
            raise HttpRefusal(
                400, f"there are {count} queries and {len(column)} {name}: give one of each"
            )
    rollouts: list[Rollout] = []
    for place, (query, prompt, label) in enumerate(zip(body.query, prompts, labels, strict=True)):
        try:
            response = response_of(query, prompt)
        except ValueError as error:
            raise HttpRefusal(400, f"query {place}: {error}") from None
        rollouts.append(_labelled(prompt, response, label))
    return rollouts, None


def _labelled(prompt: str | Chat, completion: str, label: Any) -> Rollout:
    fields = fields_of_label(label)
    return Rollout(prompt, completion, fields.pop("answer"), columns=fields)


def _write_openrlhf(scored: ScoredRequest) -> OpenRLHFReply:
    found = [Scored.of(report, scored.service.names) for report in scored.reports]
    return OpenRLHFReply(**rewards_of(found, scored.unscored, scored.groups))


# POST /slime: as slime asks with `--rm-type remote_rm`; and a list of samples for a group


class SlimeSample(Struct):
    """What slime sends of a sample."""

    response: str
    prompt: str | Chat = ""
    label: Any = ""


SlimeReply: TypeAlias = Number | list[Number]


def _read_slime(value: Any) -> Asked:
    is_group = isinstance(value, list)
    samples = _convert(value if is_group else [value], list[SlimeSample])
    return [_labelled(s.prompt, s.response, s.label) for s in samples], is_group


def _write_slime(scored: ScoredRequest) -> SlimeReply:
    rewards = scored.filled([report.raw_score for report in scored.reports])
    return rewards if scored.detail else rewards[0]


# POST /verify: as NeMo-Gym asks a resources server; its reply is the request with a reward

# Fields of a row that hold what a good answer would be; the first that is there counts.
ANSWERS: Final = ("answer", "expected_answer", "ground_truth", "label")


class ResponsesRequest(Struct):
    """What the model was asked."""

    input: str | Chat


class ModelResponse(Struct):
    """What it did: messages, reasoning, calls of tools and their results."""

    output: Chat


class VerifyBody(Struct):
    """A request to the model, its response, and the fields of the dataset row beside them."""

    responses_create_params: ResponsesRequest
    response: ModelResponse


class VerifyReply(Struct):
    """The request, and what came of it beside its fields."""

    reward: float
    reward_components: dict[str, float] = {}
    mask_sample: bool = False
    failure_kind: str = ""
    failure_reason: str = ""


# Fields of a reply, which a row that is verified again may still have from the time before.
_REPLIED: Final = {*VerifyReply.__struct_fields__, "_ng_failure_class", "_ng_failure_judge_error"}


def _read_verify(value: Any) -> Asked:
    body = _convert(value, VerifyBody)
    row = {name: field for name, field in value.items() if name not in _REPLIED}
    asked, info = body.responses_create_params.input, row.get("info")
    rollout = Rollout(
        prompt=asked if isinstance(asked, str) else _chat(asked),
        completion=as_text_if_single(_chat(body.response.output)),
        answer=next((row[name] for name in ANSWERS if row.get(name) is not None), ""),
        info=cast("dict[str, Any]", info) if isinstance(info, dict) else {},
        columns=row,
    )
    return [rollout], row


def _chat(items: Chat) -> Chat:
    """Return items of the Responses API as messages of a chat.

    Reasoning belongs to the message or call that follows it.
    """
    chat: Chat = []
    reasoning: dict[str, Any] = {}
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            text = split_message({"role": "assistant", "content": [item]}).reasoning
            reasoning = {"reasoning_content": text} if text else {}
        elif kind == "function_call":
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls = [{"id": item.get("call_id"), "type": "function", "function": call}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            chat.append(message | reasoning)
            reasoning = {}
        elif kind == "function_call_output":
            chat.append(
                {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            )
        elif kind == "message":
            message = {"role": item.get("role", "assistant"), "content": item.get("content")}
            if message["role"] == "assistant":
                message |= reasoning
                reasoning = {}
            chat.append(message)
    if reasoning:  # it was cut off before the answer
        chat.append({"role": "assistant", "content": ""} | reasoning)
    return chat


def _write_verify(scored: ScoredRequest) -> dict[str, Any]:
    [report], row = scored.reports, scored.detail
    # A row can be marked, so there is no reason to refuse it.
    [reward] = (
        [report.raw_score] if scored.unscored == "raise" else scored.filled([report.raw_score])
    )
    if reward is None:
        # NeMo-Gym keeps a row that is marked so out of its metrics; the 0 stands for nothing.
        errors = "; ".join(f"{name}: {error}" for name, error in report.why_unscored.items())
        kind = "judge_failed"
        failure = {
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": kind,
            "failure_reason": errors,
        }
        return row | failure | {"_ng_failure_class": kind, "_ng_failure_judge_error": errors}
    parts: dict[str, float] = {}
    for line in report.lines:
        if line.counted and line.value is not None:
            parts[line.name] = parts.get(line.name, 0.0) + line.weight * line.value
    # With a veto, a mean or a shaping the parts do not come to the reward, and are left out.
    adds_up = math.isclose(math.fsum(parts.values()), reward, rel_tol=1e-9, abs_tol=1e-9)
    outcome = {} if report.unshaped is None else {"outcome": report.unshaped}
    return (
        row
        | {"reward": reward}
        | outcome
        | ({"reward_components": parts} if parts and adds_up else {})
    )


# POST /aggregate_metrics: NeMo-Gym's collector asks last for the metrics of all rows that were verified

TASK_INDEX: Final = "_ng_task_index"


class VerifiedRow(Struct):
    """A reply of `/verify`, with the number of its task; all other numbers in it are summed up too."""

    task: int = msgspec.field(name=TASK_INDEX, default=0)
    response: dict[str, Any] | None = None
    mask_sample: bool = False


class AggregateBody(Struct):
    """The rows that were verified."""

    verify_responses: list[VerifiedRow]


class AggregateReply(Struct):
    """Statistics of every number in the replies, as `mean/reward`: a task each, of all, and those to look at first."""

    group_level_metrics: list[dict[str, float]]
    agent_metrics: dict[str, float]
    key_metrics: dict[str, float]


def _read_aggregate(value: Any) -> Asked:
    rows = _convert(value, AggregateBody).verify_responses
    return [], list(zip(rows, value["verify_responses"], strict=True))


def _write_aggregate(scored: ScoredRequest) -> AggregateReply:
    rows = cast("list[tuple[VerifiedRow, dict[str, Any]]]", scored.detail)
    tasks: dict[int, list[dict[str, float]]] = {}
    for row, fields in rows:
        usage: Any = (row.response or {}).get("usage")
        more = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
        # The reward of a row that is masked stands for nothing.
        told = {**({} if row.mask_sample else fields | more), "mask_sample": row.mask_sample}
        # Numbers beyond all sense would only overflow.
        numbers = {
            name: float(number)
            for name, number in told.items()
            if isinstance(number, (bool, int, float))
            and abs(number) < 1e100
            and not name.startswith("_ng_")
        }
        tasks.setdefault(row.task, []).append(numbers)
    of_all = _statistics([numbers for own in tasks.values() for numbers in own])
    of_tasks = [_statistics(own) | {TASK_INDEX: task} for task, own in sorted(tasks.items())]
    means = {name: number for name, number in of_all.items() if name.startswith("mean/")}
    return AggregateReply(of_tasks, of_all, means)


def _statistics(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    columns = group_by_key((name, number) for row in rows for name, number in row.items())
    return {
        f"{what}/{name}": of(column)
        for name, column in columns.items()
        for what, of in _STATISTICS.items()
    }


_STATISTICS: Final[dict[str, Callable[[list[float]], float]]] = {
    "mean": fmean,
    "max": max,
    "min": min,
    "median": median,
    "std": lambda column: stdev(column) if column[1:] else 0.0,
}


PROTOCOLS: Final = (
    ScoringProtocol(
        "score",
        "/v1/score",
        "Score rollouts; one without a score says why.",
        ScoreBody,
        ScoreReply,
        _read_score,
        _write_score,
        numbers_only=False,
    ),
    ScoringProtocol(
        "openrlhf",
        "/openrlhf",
        "Score as OpenRLHF asks.",
        OpenRLHFBody,
        OpenRLHFReply,
        _read_openrlhf,
        _write_openrlhf,
    ),
    ScoringProtocol(
        "slime",
        "/slime",
        "Score as slime asks.",
        SlimeSample | list[SlimeSample],
        SlimeReply,
        _read_slime,
        _write_slime,
    ),
    ScoringProtocol(
        "nemo_gym",
        "/verify",
        "Score as NeMo-Gym asks.",
        VerifyBody,
        VerifyReply,
        _read_verify,
        _write_verify,
        marks=True,
    ),
    ScoringProtocol(
        "nemo_gym_metrics",
        "/aggregate_metrics",
        "Sum verified rows up as NeMo-Gym asks.",
        AggregateBody,
        AggregateReply,
        _read_aggregate,
        _write_aggregate,
        numbers_only=False,
    ),
)
