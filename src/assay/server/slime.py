"""`POST /slime`: as slime asks with `--rm-type remote_rm`; and a list of samples for a group."""

from collections.abc import Sequence
from typing import Any, Required, TypedDict, cast

import msgspec

from assay.aggregation import Policy
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.reading import decoded
from assay.server.rewards import filled
from assay.server.routes import Asked, Chat
from assay.server.served import Served


class SlimeSample(TypedDict, total=False):
    """What slime sends of a sample."""

    prompt: str | Chat
    response: Required[str]
    label: Any


SlimeBody = SlimeSample | list[SlimeSample]
SlimeReply = float | None | list[float | None]


class Slime:
    """A bare number for a sample, a list of them for a list."""

    name = "slime"
    numbers_only = True

    def __init__(self) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(SlimeBody)

    def read(self, body: bytes) -> Asked:
        request: Any = decoded(body, self._decoder, is_open=True)
        is_group = isinstance(request, list)
        samples = cast("list[SlimeSample]", request if is_group else [request])
        return Asked(list(map(_rollout, samples)), is_group)

    def write(
        self,
        asked: Asked,
        reports: Sequence[EvaluationReport],
        served: Served,
        unscored: Policy,
    ) -> SlimeReply:
        rewards = filled([report.raw_score for report in reports], asked.rollouts, unscored)
        return rewards if asked.request else rewards[0]


def _rollout(sample: SlimeSample) -> Rollout:
    label = sample.get("label")
    return Rollout(
        prompt=sample.get("prompt", ""),
        completion=sample["response"],
        answer="" if label is None else label,
    )
