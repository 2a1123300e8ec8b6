"""Routes: what each way to ask for scores has to say about itself."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from assay.aggregation import Policy
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.served import Served

Chat: TypeAlias = list[dict[str, Any]]
"""Messages, each with its role and content."""


class Asked(NamedTuple):
    """A request that was understood: the rollouts to score, and what its reply needs besides."""

    rollouts: list[Rollout]
    request: Any = None


class Route(Protocol):
    """One way to ask for scores."""

    @property
    def name(self) -> str:
        """What it is called in metrics."""
        ...

    @property
    def numbers_only(self) -> bool:
        """Whether its replies have no place for a rollout without a score."""
        ...

    def read(self, body: bytes) -> Asked:
        """What a body asks for; raises `Refusal` when it cannot be told."""
        ...

    def write(
        self,
        asked: Asked,
        reports: Sequence[EvaluationReport],
        served: Served,
        unscored: Policy,
    ) -> Any:
        """The reply; raises `Refusal` when there can be none."""
        ...


_encoder = msgspec.json.Encoder()


def encoded(reply: Any) -> bytes:
    """A reply as JSON."""
    try:
        return _encoder.encode(reply)
    except UnicodeEncodeError:
        return _escaped(reply)


def _escaped(reply: Any) -> bytes:
    """A reply that holds half a character, such as an error about one does."""
    import json

    return json.dumps(msgspec.to_builtins(reply)).encode()
