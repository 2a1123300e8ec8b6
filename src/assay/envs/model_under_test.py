"""ModelUnderTest is the model that an evaluation asks, with the settings it is asked with."""

import asyncio
import inspect
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from assay.errors import Refused
from assay.media import read_message_media
from assay.models import Model, Price, Reply, Request, model_of
from assay.models.endpoint_model import EndpointModel
from assay.models.model import Tool
from assay.models.sdk import format_of_client
from assay.redaction import redact
from assay.types import Message
from assay.wording import format_value

_homes: "weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop]" = weakref.WeakKeyDictionary()


def at_home(client: Any) -> Any:
    """Return the client for use in the running loop: a copy when another loop runs with it, as in a notebook."""
    if not inspect.iscoroutinefunction(getattr(client, "close", None)):
        return client
    here = asyncio.get_running_loop()
    home = _homes.setdefault(client, here)
    if home is here or not home.is_running():
        _homes[client] = here
        return client
    package = import_module(type(client).__module__.partition(".")[0])
    fresh = getattr(package, "DefaultAsyncHttpxClient", None)
    # A transport of the caller's may have proxies and certificates that a fresh one has not.
    usual = type(getattr(client, "_client", None)).__name__ == "AsyncHttpxClientWrapper"
    if fresh is None or not usual:
        raise Refused(
            "the client is in use by an event loop that runs: await the evaluation, or give a sync client"
        )
    return client.copy(http_client=fresh())


_LIMITS = ("max_tokens", "max_completion_tokens")
_ABOUT_THE_CALL = ("timeout", "extra_headers", "extra_query")


class ModelUnderTest:
    """The model that an evaluation asks, and how: an SDK's `client` with a name, or a `model` that `model_of` takes."""

    def __init__(
        self,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
        *,
        at_once: int | None = None,
        price: Price | None = None,
    ) -> None:
        """`at_once` is how many calls will be under way together, where the caller has said so.

        `price` is that of a model that is given by its name, its address or a client.
        """
        given = _checked(sampling_args or {})
        self.client = client
        self.at_once = at_once
        self.price = price
        self.sampling_args = given
        named = model if isinstance(model, str) else str(getattr(model, "id", model or client))
        self.name: str = redact(named)  # what the caller calls the model, without a login
        limits = [given[name] for name in _LIMITS if name in given]
        self._settings: dict[str, Any] = {
            "temperature": given.get("temperature"),
            "max_tokens": limits[0] if limits else None,
            "seed": given.get("seed"),
        }
        # What a request has no field for goes into every call as it is.
        extra = {
            name: value for name, value in given.items() if name not in (*self._settings, *_LIMITS)
        }
        self.model = self._make_model(client, model, extra)
        if at_once is not None and isinstance(self.model, EndpointModel):
            self.model.endpoint.limiter.expect(at_once)

    def _make_model(self, client: Any, model: Any, extra: dict[str, Any]) -> Model:
        """Return the model to ask; `extra` are the sampling arguments that a request has no field for."""
        if client is None and model is None:
            raise Refused(
                "no model is named: give model='openai/gpt-5-mini', an address such as "
                "'http://127.0.0.1:8000/v1#name', or a client and the name of a model"
            )
        if client is not None and format_of_client(client) is not None:
            return model_of(at_home(client), model, shared=False, price=self.price, **extra)
        source = model if client is None else client
        if isinstance(source, str):
            for name in _ABOUT_THE_CALL:
                if name in extra:
                    raise Refused(
                        f"sampling_args has {name!r}, which is for a client of your own: make one, "
                        "or see to it with model_of(..., limits=Limits(...), headers={...})"
                    )
            # `extra_body` is how an SDK is told of more fields of the call.
            more = extra.pop("extra_body", {})
            return model_of(source, shared=False, price=self.price, **extra | more)
        if extra:
            raise Refused(
                f"sampling_args has {', '.join(extra)}, and {format_value(source)} is made "
                "already: give them to model_of(...), or name the model"
            )
        return model_of(source, price=self.price)

    def __getattr__(self, name: str) -> Any:
        # So that an environment can ask the client of the rollout something else: client.chat.completions.create(...).
        if name.startswith("_") or self.client is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.client, name)

    @property
    def base_url(self) -> str | None:
        """The address of its endpoint; None when it has none."""
        return self.model.endpoint.address if isinstance(self.model, EndpointModel) else None

    async def __call__(
        self, messages: Sequence[Message], *, tools: tuple[Tool, ...] = (), sample: int = 0
    ) -> Reply:
        """What the model says to these messages. Raises a `ModelError` when that is nothing."""
        whole = [
            each if type(each.get("content")) is str else await read_message_media(each)
            for each in messages
        ]
        request = Request(tuple(whole), tools=tools, sample=sample, verbatim=True, **self._settings)
        return await self.model(request)


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are set; refuses what an environment sees to itself."""
    kept = {name: value for name, value in given.items() if value is not None}
    if kept.pop("n", 1) != 1:
        raise ValueError(
            f"sampling_args has n={given['n']!r}: give rollouts_per_example, which asks once for each"
        )
    if kept.pop("stream", False):
        raise ValueError("sampling_args has stream=True: leave it out, replies are taken whole")
    for name in ("messages", "model", "tools"):
        if name in kept:
            raise ValueError(
                f"sampling_args has {name!r}, which the environment gives: leave it out"
            )
    return kept
