"""Records, exceptions and clients have the shapes and names of those in `verifiers`; exceptions hang below our own root."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pkgutil import get_data
from types import GenericAlias
from typing import Any, TypeAlias, cast

from assay import errors
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.envs.dataset import copy_nested
from assay.envs.model_under_test import ModelUnderTest
from assay.errors import AssayError, Refused
from assay.models import Limits, Model, Price, model_of
from assay.redaction import get_logger
from assay.wording import describe_error, format_value

MessageType: TypeAlias = str


class Error(AssayError):
    """The root of what `verifiers` raises."""


class ModelError(Error, errors.ModelError): ...


class InvalidModelResponseError(ModelError): ...


class EmptyModelResponseError(InvalidModelResponseError): ...


class OverlongPromptError(Error, Refused): ...


class ToolError(Error): ...


class ToolParseError(ToolError): ...


class ToolCallError(ToolError): ...


class InfraError(Error): ...


class SandboxError(InfraError): ...


class MissingKeyError(ValueError):
    """An environment needs variables that are not set."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        super().__init__(
            f"environment variables are not set: {', '.join(keys)}: set them before the environment loads"
        )


_DEFAULTS: dict[str, dict[str, Any]] = json.loads(
    get_data("assay.compat.verifiers", "config_defaults.json") or b""
)


class Config(AttributeRecord):
    """Settings, each with a default that stands until another is given; only what was given is kept, and handed on."""

    def __missing__(self, name: str) -> Any:
        return copy_nested(_DEFAULTS[type(self).__name__][name])

    def model_dump(self, *, exclude_none: bool = False, **options: Any) -> dict[str, Any]:
        every = AttributeRecord(copy_nested(_DEFAULTS[type(self).__name__]), **self)
        return every.model_dump(exclude_none=exclude_none)


class ClientConfig(Config):
    """Where a model is, and how it is asked. What takes a client takes this in its place."""

    def __init__(self, *given: Mapping[str, Any], **fields: Any) -> None:
        super().__init__(*given, **fields)
        every = [EndpointClientConfig(each) for each in self.endpoint_configs]
        self |= {"endpoint_configs": every} if every else {}
        if any(each.get("endpoint_configs") for each in every):
            raise ValueError(
                "endpoint_configs cannot include endpoint_configs: list every endpoint side by side"
            )


class SandboxRequest(Config):
    """What a client of sandboxes is asked for; the engine here has no use for it."""


EndpointClientConfig, EvalConfig, EvalRunConfig = (
    type(name, (Config,), {}) for name in list(_DEFAULTS)[:3]
)


async def _its_own(self: Any, *asked: Any, **given: Any) -> Any:
    """What the class of a program says itself, in the words of its API."""


class Client(ABC):  # noqa: B024 - its abstract methods are those that follow
    """The base of a program's own clients: they say how their API is asked, and `get_response` joins the parts."""

    __class_getitem__ = classmethod(
        cast("Any", GenericAlias)
    )  # for the type variables that theirs has
    setup_client: Any = abstractmethod(_its_own)
    to_native_tool = to_native_prompt = get_native_response = raise_from_native_response = (
        setup_client
    )
    from_native_response = close = setup_client

    def __init__(self, client_or_config: Any) -> None:
        self.logger = get_logger("assay")
        self._config = client_or_config if isinstance(client_or_config, ClientConfig) else None
        self._client = client_or_config if self._config is None else self.setup_client(self._config)

    client = property(attrgetter("_client"))

    async def to_native_tools(self, tools: Any) -> list[Any] | None:
        return None if tools is None else [await self.to_native_tool(tool) for tool in tools]

    def _build_state_headers(self, state: Mapping[str, Any] | None) -> dict[str, str]:
        """The headers of one call whose values are fields of the rollout's state."""
        named: dict[str, str] = self._config.extra_headers_from_state if self._config else {}
        return {
            name: str(state[field])
            for name, field in named.items()
            if state and state.get(field) is not None
        }

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any:
        """What the model says. An error that is none of `vf.Error` becomes the cause of a `vf.ModelError`."""
        try:
            if headers := self._build_state_headers(kwargs.get("state")):
                kwargs["extra_headers"] = headers
            asked, more = await self.to_native_prompt(prompt)
            native_tools = await self.to_native_tools(tools)
            said = await self.get_native_response(
                asked, model, sampling_args, native_tools, **more, **kwargs
            )
            await self.raise_from_native_response(said)
            return await self.from_native_response(said)
        except Exception as error:
            # Those of the SDKs too, as theirs does: every other call would be refused as well.
            if isinstance(error, Error) or type(error).__name__ in (
                "AuthenticationError",
                "PermissionDeniedError",
            ):
                raise
            raise ModelError(describe_error(error)) from error


class ClientUnderTest(ModelUnderTest):
    """A client of a program's own class as the model that an evaluation asks."""

    def __init__(
        self, client: Client, model: Any, sampling_args: Any = None, *, at_once: int | None = None
    ) -> None:
        self.client, self.model, self.name, self.at_once = client, client, str(model), at_once
        # As theirs gives them to a client.
        self.sampling_args: dict[str, Any] = {"n": 1, "extra_body": {}} | dict(sampling_args or {})


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
        config = self.config
        if config.client_type == "anthropic_messages":
            return super()._make_model(self._sdk_client, model, extra)
        if config.client_type == "openai_responses":
            extra["api"] = "responses"
        timeout = extra.pop("timeout", config.timeout)
        return model_of(
            f"{config.api_base_url}#{model}",
            api_key=os.environ.get(config.api_key_var) or "EMPTY",
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
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self._sdk_client, name)

    async def close(self) -> None:
        """Close the client of the SDK, if a program has used it."""
        if "_sdk_client" in vars(self):
            await self._sdk_client.close()


Client.register(ModelUnderTest)  # what a state has as its client is one


def own_client(client: Any) -> Client | None:
    """The client of a program's own class; None for any other."""
    own = cast("object", client.client if isinstance(client, ClientUnderTest) else client)
    return own if isinstance(own, Client) and not isinstance(own, ModelUnderTest) else None


def resolve_client_configs(config: ClientConfig) -> list[ClientConfig]:
    """The configuration of each of its endpoints, whose own settings go before; or the one alone."""
    every: list[dict[str, Any]] = config.endpoint_configs or [{}]
    return [ClientConfig({**config, "endpoint_configs": []}, **own) for own in every]


def resolve_client_config(config: ClientConfig) -> ClientConfig:
    """The configuration of the endpoint that `client_idx` names."""
    every = resolve_client_configs(config)
    return every[int(config.client_idx) % len(every)]


def resolve_client(client: Any) -> Any:
    """The client of an SDK: the one given, or that of a `ClientConfig`; theirs puts it into a class by its kind."""
    if not isinstance(client, ClientConfig):
        return client
    config = resolve_client_config(client)
    sdk = (
        ("anthropic", "AsyncAnthropic")
        if config.client_type == "anthropic_messages"
        else ("openai", "AsyncOpenAI")
    )
    given = {"base_url": config.api_base_url, "default_headers": config.extra_headers}
    given |= {"timeout": config.timeout, "max_retries": config.max_retries}
    return getattr(import_module(sdk[0]), sdk[1])(
        api_key=os.environ.get(config.api_key_var) or "EMPTY", **given
    )


class SdkClient:
    """Stands for their class of each API, which wraps the client of an SDK. Here that is asked as it is."""

    def __new__(cls, client_or_config: Any) -> Any:
        return resolve_client(client_or_config)

    def __init_subclass__(cls) -> None:
        told = f"{cls.__name__} is derived from the client for one API"
        raise TypeError(f"{told}: derive it from vf.Client, and write all of its methods")


def in_turn(
    order: dict[str, int], models: Sequence[ModelUnderTest], again: int, example: Any
) -> ModelUnderTest:
    """The model for a rollout: they take turns by the example, in the `order` kept; asked again it is `again` turns later."""
    sample = example.get("sample")
    turn = order.setdefault(str(example["example_id"]), len(order))
    return models[(turn + again * (sample if type(sample) is int else 0)) % len(models)]


TASK_INPUT_FIELDS = {"prompt", "answer", "info", "example_id"}


def assert_json_serializable(value: object) -> None:
    try:
        json.dumps(value)
    except TypeError as error:
        raise TypeError(
            f"a value of a task or a state is no JSON ({error}): give plain data"
        ) from error


def normalize_task_payload(value: object) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise TypeError(f"the task is {format_value(value)}: give an object of JSON")
    return dict(cast("Mapping[str, Any]", found))


def task_payload_from_info(info: object) -> dict[str, Any] | None:
    told: object = json.loads(info) if isinstance(info, str) else info
    task = cast("Mapping[str, Any]", told).get("task") if isinstance(told, Mapping) else None
    return None if task is None else normalize_task_payload(task)


def flatten_task_input(input_data: Mapping[str, Any]) -> dict[str, Any]:
    """The task of a row of input: that of its info, its own, or else the row itself."""
    task, own = task_payload_from_info(input_data.get("info")), input_data.get("task")
    if task is None and own not in (None, "default"):  # `default` is what ours say of no task
        task = normalize_task_payload(own)
    return dict(input_data) if task is None else task
