"""`POST /v1/score`: rollouts in, scores out; one that has none says why, and the others keep theirs."""

from collections.abc import Sequence
from typing import Annotated, Any, Required, TypedDict

import msgspec

from assay.aggregation import Policy
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.reading import decoded
from assay.server.refusals import Refusal
from assay.server.routes import Asked, Chat
from assay.server.served import Served


class RolloutBody(TypedDict, total=False):
    """A rollout: its completion and whatever else checks name; or a state alone, which holds it all."""

    prompt: str | Chat
    completion: Any
    """A text or messages. What is neither is an error of this rollout, and not of the request."""
    answer: Any
    task: str
    info: dict[str, Any]
    state: dict[str, Any]
    columns: dict[str, Any]


class ScoreBody(TypedDict, total=False):
    """What to score. With `report`, every item has its report, line by line."""

    rollouts: Required[list[RolloutBody]]
    report: bool


class Item(msgspec.Struct, omit_defaults=True):
    """What came of one rollout. Without a score, `reward` and `score` are null and `errors` says why."""

    reward: float | None
    score: float | None
    errors: dict[str, str] | None = None
    partial_reward: float | None = None
    """The sum of what was answered, where there is no reward."""
    report: dict[str, Any] | None = None


class ScoreReply(msgspec.Struct):
    """One item a rollout, in order, and the hash of the rubric that they were scored with."""

    rubric: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    items: list[Item]


class Native:
    """The route that says most."""

    name = "score"
    numbers_only = False

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(ScoreBody)

    def read(self, body: bytes) -> Asked:
        request = decoded(body, self._decoder)
        return Asked(list(map(rollout_of, request["rollouts"])), request.get("report", False))

    def write(
        self,
        asked: Asked,
        reports: Sequence[EvaluationReport],
        served: Served,
        unscored: Policy,
    ) -> ScoreReply:
        items = [_item(report) for report in reports]
        if asked.request:
            for item, report in zip(items, reports, strict=True):
                item.report = report.to_dict()
        return ScoreReply(served.hash, items)


def rollout_of(row: RolloutBody) -> Rollout:
    """The rollout that a row describes."""
    if "completion" in row:
        return Rollout(**row)
    if "state" in row and len(row) == 1:
        return Rollout.from_state(row["state"])
    raise Refusal(
        400, "a rollout has no completion: give one, or a state alone that holds everything"
    )


def _item(report: EvaluationReport) -> Item:
    if report.scored:
        return Item(report.raw_score, report.score)
    return Item(None, None, report.errors or report.why_unscored, report.partial_reward)
