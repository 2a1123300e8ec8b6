"""`POST /openrlhf`: as OpenRLHF asks its remote reward model.

A query is the prompt and the response, as one text with special tokens. What the model wrote is what
follows the prompt, up to the token that ends it.
"""

from collections.abc import Sequence
from typing import Any, Required, TypedDict

import msgspec

from assay.aggregation import Policy
from assay.integrations.openrlhf import response_of
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.reading import decoded
from assay.server.refusals import Refusal
from assay.server.rewards import filled
from assay.server.routes import Asked
from assay.server.served import Served


class OpenRLHFBody(TypedDict, total=False):
    """One list each, of one length; OpenRLHF sends lists of one, and empty ones to further servers."""

    query: Required[list[str]]
    prompts: list[str]
    labels: list[Any]


class OpenRLHFReply(msgspec.Struct):
    """`rewards` are sums of weights, `scores` lie between 0 and 1, `extra_logs` has every criterion."""

    rewards: list[float | None]
    scores: list[float | None]
    extra_logs: dict[str, list[float | None]]


class OpenRLHF:
    """Numbers for a trainer that takes nothing else."""

    name = "openrlhf"
    numbers_only = True

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(OpenRLHFBody)

    def read(self, body: bytes) -> Asked:
        request = decoded(body, self._decoder, is_open=True)
        queries = request["query"]
        prompts = _as_many(request, "prompts", len(queries))
        labels = _as_many(request, "labels", len(queries))
        rows = zip(queries, prompts, labels, strict=True)
        return Asked([_rollout(place, *row) for place, row in enumerate(rows)])

    def write(
        self,
        asked: Asked,
        reports: Sequence[EvaluationReport],
        served: Served,
        unscored: Policy,
    ) -> OpenRLHFReply:
        rollouts = asked.rollouts
        rewards = [report.raw_score for report in reports]
        scores = [report.score for report in reports]
        values = [report.metrics for report in reports]
        logs = {name: [row.get(name) for row in values] for name in served.steady}
        return OpenRLHFReply(
            filled(rewards, rollouts, unscored),
            filled(scores, rollouts, unscored),
            {name: filled(column, rollouts, unscored) for name, column in logs.items()},
        )


def _as_many(request: Any, name: str, count: int) -> list[Any]:
    given = request.get(name) or [None] * count
    if len(given) != count:
        raise Refusal(400, f"there are {count} queries and {len(given)} {name}: give one of each")
    return given


def _rollout(place: int, query: str, prompt: str | None, label: Any) -> Rollout:
    written = _after(query, prompt or "")
    if written is None:
        raise Refusal(
            400,
            f"query {place} does not begin with its prompt, so what the model wrote cannot be told "
            "apart: send the prompt as the model read it",
        )
    answer = "" if label is None else label
    return Rollout(prompt=prompt or "", completion=response_of(written, ""), answer=answer)


def _after(query: str, prompt: str) -> str | None:
    """What follows the prompt; None when the query begins with something else.

    A tokenizer may give other spaces back than it was given, so those do not count.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    place = 0
    for sign in prompt:
        if sign.isspace():
            continue
        while query[place : place + 1].isspace():
            place += 1
        if query[place : place + 1] != sign:
            return None
        place += 1
    return query[place:]
