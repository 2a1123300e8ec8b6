"""Ask models by the clients of `verifiers`: a `ClientConfig`, or a class derived from `vf.Client`."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from types import GenericAlias
from typing import Any, cast

from assay.compat.verifiers.records import Config, Error, ModelError
from assay.envs.model_under_test import ModelUnderTest
from assay.models import Limits, Model, Price, model_of
from assay.redaction import get_logger
from assay.wording import describe_error


class EndpointClientConfig(Config):
    """One of several endpoints of a `ClientConfig`."""


class ClientConfig(Config):
    """The address of a model and how it is asked. It can be given wherever a client can."""

    def __init__(self, record: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        super().__init__(record, **fields)
        endpoints = [EndpointClientConfig(endpoint) for endpoint in self.endpoint_configs]
        if endpoints:
            self["endpoint_configs"] = endpoints
        if any(endpoint.get("endpoint_configs") for endpoint in endpoints):
            raise ValueError(
                "endpoint_configs cannot include endpoint_configs: list every endpoint side by side"
            )


def resolve_client_configs(config: ClientConfig) -> list[ClientConfig]:
    """Return a configuration for each endpoint, or only this one if it lists no endpoints.

    The settings of an endpoint take precedence over those of the whole configuration.
    """
    endpoints: list[dict[str, Any]] = config.endpoint_configs or [{}]
    configs: list[ClientConfig] = []
    for endpoint in endpoints:
        configs.append(ClientConfig({**config, "endpoint_configs": []}, **endpoint))
    return configs


def resolve_client_config(config: ClientConfig) -> ClientConfig:
    """Return the configuration of the endpoint whose index is `client_idx`."""
    configs = resolve_client_configs(config)
    return configs[int(config.client_idx) % len(configs)]


def resolve_client(client: Any) -> Any:
    """Return an SDK's client for a `ClientConfig`; any other client is returned unchanged."""
    if not isinstance(client, ClientConfig):
        return client
    config = resolve_client_config(client)
    if config.client_type == "anthropic_messages":
        make_client = import_module("anthropic").AsyncAnthropic
    else:
        make_client = import_module("openai").AsyncOpenAI
    return make_client(
        api_key=_read_api_key(config),
        base_url=config.api_base_url,
        default_headers=config.extra_headers,
        timeout=config.timeout,
        max_retries=config.max_retries,
    )


def _read_api_key(config: ClientConfig) -> str:
    # Endpoints without a login get a placeholder, since the clients of SDKs require a key.
    return os.environ.get(config.api_key_var) or "EMPTY"


class SdkClient:
    """Stands for verifiers' client class of each API. Calling it returns the client of the SDK."""

    def __new__(cls, client_or_config: Any) -> Any:
        return resolve_client(client_or_config)

    def __init_subclass__(cls) -> None:
        # The methods that a subclass would override are never called.
        raise TypeError(
            f"{cls.__name__} is derived from the client for one API: derive it from vf.Client, "
            "and write all of its methods"
        )


class Client(ABC):
    """The base class of a program's own clients.

    Their methods translate to and from an API. `get_response` calls them in turn.
    """

    # In verifiers it has type variables: `class MyClient(vf.Client[...])`.
    __class_getitem__ = classmethod(cast("Any", GenericAlias))

    def __init__(self, client_or_config: Any) -> None:
        self.logger = get_logger("assay")
        self._config: ClientConfig | None = None
        if isinstance(client_or_config, ClientConfig):
            self._config = client_or_config
            self._client = self.setup_client(client_or_config)
        else:
            self._client = client_or_config

    @property
    def client(self) -> Any:
        """The client of the API: the one given, or the one that `setup_client` returned."""
        return self._client

    @abstractmethod
    def setup_client(self, config: Any) -> Any:
        """Return the client of the API for a `ClientConfig`."""

    @abstractmethod
    async def to_native_tool(self, tool: Any) -> Any:
        """Return a tool as the API takes it."""

    @abstractmethod
    async def to_native_prompt(self, messages: Any) -> Any:
        """Return a prompt as the API takes it, and further arguments for `get_native_response`."""

    @abstractmethod
    async def get_native_response(
        self, prompt: Any, model: Any, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any:
        """Call the API and return its response."""

    @abstractmethod
    async def raise_from_native_response(self, response: Any) -> Any:
        """Raise an error if a response of the API is one."""

    @abstractmethod
    async def from_native_response(self, response: Any) -> Any:
        """Return a response of the API as a `vf.Response`."""

    @abstractmethod
    async def close(self) -> Any:
        """Close the client of the API."""

    async def to_native_tools(self, tools: Any) -> list[Any] | None:
        """Return tools as the API takes them; None if there are none."""
        if tools is None:
            return None
        return [await self.to_native_tool(tool) for tool in tools]

    def _build_state_headers(self, state: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the HTTP headers whose values are fields of the rollout's state."""
        if not self._config or not state:
            return {}
        headers: dict[str, str] = {}
        for header, field in self._config.extra_headers_from_state.items():
            value = state.get(field)
            if value is not None:
                headers[header] = str(value)
        return headers

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any:
        """Ask the model. An error other than a `vf.Error` becomes the cause of a `vf.ModelError`."""
        try:
            headers = self._build_state_headers(kwargs.get("state"))
            if headers:
                kwargs["extra_headers"] = headers
            native_prompt, prompt_arguments = await self.to_native_prompt(prompt)
            native_tools = await self.to_native_tools(tools)
            response = await self.get_native_response(
                native_prompt, model, sampling_args, native_tools, **prompt_arguments, **kwargs
            )
            await self.raise_from_native_response(response)
            return await self.from_native_response(response)
        except Exception as error:
            if isinstance(error, Error):
                raise
            # As in verifiers, errors of a login are raised as they are: every other call would be
            # refused, too. They are recognized by name, since any SDK may raise them.
            if type(error).__name__ in ("AuthenticationError", "PermissionDeniedError"):
                raise
            raise ModelError(describe_error(error)) from error


# So that `isinstance(state["client"], vf.Client)` holds for every rollout.
Client.register(ModelUnderTest)


def find_custom_client(client: Any) -> Client | None:
    """Return the client if its class is a program's own; None for any other client.

    It may be wrapped in a `ClientUnderTest`.
    """
    unwrapped = cast("object", client.client if isinstance(client, ClientUnderTest) else client)
    if isinstance(unwrapped, ModelUnderTest):  # registered as a `Client`, but one of ours
        return None
    return unwrapped if isinstance(unwrapped, Client) else None


class ClientUnderTest(ModelUnderTest):
    """A program's own client as the model that an evaluation asks."""

    def __init__(
        self, client: Client, model: Any, sampling_args: Any = None, *, at_once: int | None = None
    ) -> None:
        # Without `super().__init__`, which would make one of our models.
        self.client = client
        self.model = client
        self.name = str(model)
        self.at_once = at_once
        # verifiers adds these two defaults.
        self.sampling_args: dict[str, Any] = {"n": 1, "extra_body": {}, **(sampling_args or {})}


class ConfiguredModel(ModelUnderTest):
    """The model that a `ClientConfig` describes, asked through our own client.

    A program that calls `state["client"].chat.completions.create(...)` itself gets the client of an
    SDK, which is made when it is first used.
    """

    def __init__(
        self,
        config: ClientConfig,
        model: Any,
        sampling_args: Any = None,
        *,
        at_once: int | None = None,
        price: Price | None = None,
    ) -> None:
        self.config = config
        super().__init__(None, model, sampling_args, at_once=at_once, price=price)

    def _make_model(self, client: Any, model: Any, extra: dict[str, Any]) -> Model:
        """Return the model to ask, which sends the sampling arguments in `extra` with every call."""
        config = self.config
        if config.client_type == "anthropic_messages":
            return super()._make_model(self._sdk_client, model, extra)
        if config.client_type == "openai_responses":
            extra["api"] = "responses"
        timeout = extra.pop("timeout", config.timeout)
        return model_of(
            f"{config.api_base_url}#{model}",
            api_key=_read_api_key(config),
            limits=Limits(
                timeout=timeout,
                deadline=max(timeout, Limits().deadline),
                attempts=config.max_retries + 1,
            ),
            price=self.price,
            headers={**config.extra_headers, **extra.pop("extra_headers", {})},
            shared=False,
            **extra.pop("extra_body", {}),
            **extra,
        )

    @cached_property
    def _sdk_client(self) -> Any:
        return resolve_client(self.config)

    def __getattr__(self, name: str) -> Any:
        # An attribute of the SDK's client.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self._sdk_client, name)

    async def close(self) -> None:
        """Close the client of the SDK, if a program has used it."""
        if "_sdk_client" in vars(self):
            await self._sdk_client.close()


class ModelRotation:
    """Chooses the model for each rollout: the models take turns from one example to the next."""

    def __init__(self, models: Sequence[ModelUnderTest], *, turns_per_sample: int) -> None:
        """`turns_per_sample` is how many turns one sample of an example is after the sample before.

        With 0, all samples of an example are sent to the same model.
        """
        self._models = models
        self._turns_per_sample = turns_per_sample
        self._turns: dict[
            str, int
        ] = {}  # by the example's id, in the order of their first rollouts

    def __call__(self, example: Mapping[str, Any]) -> ModelUnderTest:
        """Return the model for a rollout of an example, whose number is its `sample`."""
        turn = self._turns.setdefault(str(example["example_id"]), len(self._turns))
        sample = example.get("sample")
        if type(sample) is int:
            turn += self._turns_per_sample * sample
        return self._models[turn % len(self._models)]
