"""The reward server: one rubric over HTTP, for every trainer that can call a URL.

settings    where it listens, what it allows, who judges
app         one request: key, admission, body, scoring, reply; pages, what is not scoring
native      `POST /v1/score`; openrlhf, slime and nemo_gym, the routes of trainers
reading     a body, read and decoded; refusals, what is said instead of a reply
served      the rubric that is served; gathering, small requests scored together; rewards, numbers and none
gate        how much is under way at once; patience, how long anybody waits for a body; keys, who may ask
board       counts that worker processes share; metrics, which ones, as Prometheus reads them
openapi     the document that describes all of it
listening   uvicorn on a socket of ours, and its end; accepting, who takes which connection
supervisor  the socket and the worker processes; handle, worker, both ends of one; control, what they say
watch       the rubric file, looked at again and again; sources, from its text to a rubric and its judge
thread      `RewardServer`, for programs and tests
client      `RemoteRubric`; remote, packing, sending, what it needs

It needs the extra `server`; `RemoteRubric` needs none. Nothing is loaded before it is used.
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
        if package not in ("msgspec", "starlette", "uvicorn"):
            raise
        raise MissingExtraError("the reward server", package=package, extra="server") from None
