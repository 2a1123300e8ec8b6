"""ModelUnderTest is the model that an evaluation asks, with the settings it is asked with."""

import asyncio
import inspect
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from assay.errors import Refused
from assay.media import read_message_media
from assay.models import Limits, Model, Price, Reply, Request, model_of
from assay.models.endpoint_model import EndpointModel
from assay.models.model import Tool, ask_and_log
from assay.models.sdk import format_of_client
from assay.redaction import redact
from assay.types import Message
from assay.wording import format_value

# The event loop in which each client was first used.
_client_loops: "weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop]" = (
    weakref.WeakKeyDictionary()
)

_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
# Sampling arguments that an SDK's client takes for the call itself, and does not send.
_CALL_ARGUMENTS = ("timeout", "extra_headers", "extra_query")


class ModelUnderTest:
    """The model that an evaluation asks: an SDK's `client` and a name, or what `model_of` takes."""

    def __init__(
        self,
        client: Any,
        model: Any,
        sampling_args: Mapping[str, Any] | None = None,
        *,
        at_once: int | None = None,
        price: Price | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`at_once` is the number of calls under way at the same time, if the caller has set it.

        `price` is the price of a model that is given by its name, its URL or a client, and
        `limits` are those of its endpoint.
        """
        self.client = client
        self.at_once = at_once
        self.price = price
        self.limits = limits
        self.sampling_args = _check_sampling_args(sampling_args or {})
        name = model if isinstance(model, str) else str(getattr(model, "id", model or client))
        self.name: str = redact(name)  # as the caller calls the model, without a login
        self._request = self._make_request()
        # Arguments for which a request has no field are sent with every call.
        in_request = ("temperature", "seed", *_TOKEN_LIMITS)
        other_arguments = {
            name: value for name, value in self.sampling_args.items() if name not in in_request
        }
        self.model = self._make_model(client, model, other_arguments)
        if at_once is not None and isinstance(self.model, EndpointModel):
            self.model.endpoint.limiter.expect(at_once)  # so many calls from the start

    def _make_request(self) -> Request:
        """Return the request without messages, with the sampling arguments it has fields for."""
        arguments = self.sampling_args
        max_tokens = None
        for name in reversed(_TOKEN_LIMITS):  # if both are given, the first name counts
            max_tokens = arguments.get(name, max_tokens)
        return Request(
            messages=(),
            temperature=arguments.get("temperature"),
            max_tokens=max_tokens,
            seed=arguments.get("seed"),
            verbatim=True,  # send the messages as they are, and accept a reply that is cut off
        )

    def _make_model(self, client: Any, model: Any, extra: dict[str, Any]) -> Model:
        """Return the model to ask, which sends the arguments in `extra` with every call."""
        if client is None and model is None:
            raise Refused(
                "no model is named: give model='openai/gpt-5-mini', an address such as "
                "'http://127.0.0.1:8000/v1#name', or a client and the name of a model"
            )
        if client is not None and format_of_client(client) is not None:
            client = use_client_in_this_loop(client)
            return model_of(
                client, model, shared=False, price=self.price, limits=self.limits, **extra
            )
        source = model if client is None else client
        if isinstance(source, str):
            for name in _CALL_ARGUMENTS:
                if name in extra:
                    raise Refused(
                        f"sampling_args has {name!r}, which is for a client of your own: make one, "
                        "or use model_of(..., limits=Limits(...), headers={...})"
                    )
            # `extra_body` is how SDKs take more fields of the call.
            body_fields = extra.pop("extra_body", {})
            fields = {**extra, **body_fields}
            return model_of(source, shared=False, price=self.price, limits=self.limits, **fields)
        if extra:
            raise Refused(
                f"sampling_args has {', '.join(extra)}, but {format_value(source)} exists already: "
                "give them to model_of(...), or name the model"
            )
        return model_of(source, price=self.price, limits=self.limits)

    def __getattr__(self, name: str) -> Any:
        # An environment can ask the client something else: client.chat.completions.create(...).
        if name.startswith("_") or self.client is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.client, name)

    @property
    def base_url(self) -> str | None:
        """The address of its endpoint; None if it has none."""
        return self.model.endpoint.address if isinstance(self.model, EndpointModel) else None

    async def __call__(
        self, messages: Sequence[Message], *, tools: tuple[Tool, ...] = (), sample: int = 0
    ) -> Reply:
        """Return the reply to these messages; raise a `ModelError` if there is none.

        Every sample of an example has its own seed, or else all samples would be equal.
        """
        complete_messages: list[Message] = []
        for message in messages:
            is_text = type(message.get("content")) is str
            if not is_text:  # it may name images, which are sent with it
                message = await read_message_media(message)
            complete_messages.append(message)
        seed = self._request.seed
        if type(seed) is int:
            seed += sample
        request = replace(
            self._request,
            messages=tuple(complete_messages),
            tools=tools,
            sample=sample,
            seed=seed,
        )
        return await ask_and_log(self.model, request, role="model")


def use_client_in_this_loop(client: Any) -> Any:
    """Return the client for use in the running event loop.

    That is a copy if another loop is running that uses it, as in a notebook.
    """
    is_async = inspect.iscoroutinefunction(getattr(client, "close", None))
    if not is_async:  # it belongs to no event loop
        return client
    current_loop = asyncio.get_running_loop()
    first_loop = _client_loops.setdefault(client, current_loop)
    if first_loop is current_loop or not first_loop.is_running():
        _client_loops[client] = current_loop
        return client
    package = import_module(type(client).__module__.partition(".")[0])
    make_http_client = getattr(package, "DefaultAsyncHttpxClient", None)
    # A copy needs a transport of its own. That of the caller may have proxies and certificates, which
    # a new one would not have, so only the default one is replaced.
    has_default_transport = (
        type(getattr(client, "_client", None)).__name__ == "AsyncHttpxClientWrapper"
    )
    if make_http_client is None or not has_default_transport:
        raise Refused(
            "the client is in use by another event loop: await the evaluation, or give a sync client"
        )
    return client.copy(http_client=make_http_client())


def _check_sampling_args(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are set; raise `ValueError` for what the environment decides."""
    kept = {name: value for name, value in arguments.items() if value is not None}
    if kept.pop("n", 1) != 1:
        raise ValueError(
            f"sampling_args has n={arguments['n']!r}: give rollouts_per_example, which asks once "
            "for each"
        )
    if kept.pop("stream", False):
        raise ValueError("sampling_args has stream=True: leave it out, replies are read as a whole")
    for name in ("messages", "model", "tools"):
        if name in kept:
            raise ValueError(
                f"sampling_args has {name!r}, which the environment gives: leave it out"
            )
    return kept
