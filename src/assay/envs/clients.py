"""Clients in their loops: an async client belongs to the event loop that it first spoke in."""

import asyncio
import inspect
import weakref
from importlib import import_module
from typing import Any

from assay.errors import Refused

_homes: "weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop]" = weakref.WeakKeyDictionary()


def at_home(client: Any) -> Any:
    """The client, for use in the running loop; a copy of it when another loop that runs has it.

    So it is in a notebook, where one evaluation is awaited and the next is read without: that one
    has a loop of its own, in which the connections of the first are of no use.
    """
    if not inspect.iscoroutinefunction(getattr(client, "close", None)):
        return client
    here = asyncio.get_running_loop()
    home = _homes.setdefault(client, here)
    if home is here:
        return client
    if home.is_running():
        return _copy(client)
    _homes[client] = here
    return client


def _copy(client: Any) -> Any:
    """A client like it with connections of its own."""
    package = import_module(type(client).__module__.partition(".")[0])
    fresh = getattr(package, "DefaultAsyncHttpxClient", None)
    # A transport that somebody set up may have proxies and certificates that a fresh one has not.
    usual = type(getattr(client, "_client", None)).__name__ == "AsyncHttpxClientWrapper"
    if fresh is None or not usual:
        raise Refused(
            "the client is in use by an event loop that runs: await the evaluation, or give a sync "
            "client"
        )
    return client.copy(http_client=fresh())
