"""The reward server answers with the rewards of one rubric over HTTP, for every trainer that can call a URL.

It needs the extra `server`; `RemoteRubric`, the client, the extra `judge` alone.
"""

from typing import Any

from assay.errors import MissingExtraError
from assay.lazy import attach

_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used; if a package is missing, name the extra to install."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        # These are the packages of the extra. Any other missing module is an error of its own.
        if package not in (
            "msgspec",
            "prometheus_client",
            "starlette",
            "uvicorn",
            "watchfiles",
        ):
            raise
        raise MissingExtraError("the reward server", package=package, extra="server") from None
