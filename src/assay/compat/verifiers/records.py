"""Records and exceptions have the shapes and names of those in `verifiers`; exceptions hang below our own root."""

import json
import os
from importlib import import_module
from pkgutil import get_data
from typing import Any, TypeAlias

from assay import errors
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.envs.dataset import copied
from assay.errors import AssayError, Refused

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
        super().__init__(f"environment variables are not set: {', '.join(keys)}: set them before the environment loads")


_DEFAULTS: dict[str, dict[str, Any]] = json.loads(get_data("assay.compat.verifiers", "config_defaults.json") or b"")


class Config(AttributeRecord):
    """Settings, each with a default that stands until another is given; only what was given is kept, and handed on."""

    def __missing__(self, name: str) -> Any:
        return copied(_DEFAULTS[type(self).__name__][name])

    def model_dump(self, *, exclude_none: bool = False, **options: Any) -> dict[str, Any]:
        every = AttributeRecord(copied(_DEFAULTS[type(self).__name__]), **self)
        return every.model_dump(exclude_none=exclude_none)


class ClientConfig(Config):
    """Where a model is, and how it is asked. What takes a client takes this in its place."""


class SandboxRequest(Config):
    """What a client of sandboxes is asked for; the engine here has no use for it."""


EndpointClientConfig, EvalConfig, EvalRunConfig = (type(name, (Config,), {}) for name in list(_DEFAULTS)[:3])


def resolve_client(client: Any) -> Any:
    """The client of an SDK: the one given, or that of a `ClientConfig`; theirs puts it into a class by its kind."""
    if not isinstance(client, ClientConfig):
        return client
    several = client.endpoint_configs
    config = ClientConfig(client, **(several[client.client_idx % len(several)] if several else {}))
    sdk = ("anthropic", "AsyncAnthropic") if config.client_type == "anthropic_messages" else ("openai", "AsyncOpenAI")
    given = {"base_url": config.api_base_url, "default_headers": config.extra_headers}
    given |= {"timeout": config.timeout, "max_retries": config.max_retries}
    return getattr(import_module(sdk[0]), sdk[1])(api_key=os.environ.get(config.api_key_var) or "EMPTY", **given)
