"""The reward server answers with the rewards of one rubric over HTTP, for every trainer that can call a URL.

settings   where it listens, what it allows, which model judges
app        RewardApp: one request, from its key to its reply
protocols  the JSON of `/v1/score`, OpenRLHF, slime and NeMo-Gym; openapi, the document that describes it
service    RubricService: a rubric, scored in batches or each rollout within its deadline
metrics    counts for Prometheus
runtime    serve: worker processes on uvicorn; RewardServer: one in a thread
reload     the rubric file, loaded, followed and handed to the workers
remote     RemoteRubric: the client, which needs the extra `judge` alone; all else needs the extra `server`
"""

from typing import Any

from assay.errors import MissingExtraError
from assay.lazy import attach

_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("httptools", "msgspec", "prometheus_client", "starlette", "uvicorn", "watchfiles"):
            raise
        raise MissingExtraError("the reward server", package=package, extra="server") from None
