"""Records and exceptions have the shapes and names of those in `verifiers`; exceptions hang below our own root."""

import os
from importlib import import_module
from typing import Any, TypeAlias

from assay import errors
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.errors import AssayError, Refused

DEFAULT_URL = "https://api.pinference.ai/api/v1"

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


class ClientConfig(AttributeRecord, client_type="openai_chat_completions", client_idx=0, api_key_var="PRIME_API_KEY"):
    """Where a model is, and how it is asked. What takes a client takes this in its place."""

    OPTIONAL = ("api_base_url", "endpoint_configs", "timeout", "max_retries", "extra_headers")


def resolve_client(client: Any) -> Any:
    """The client of an SDK: the one given, or that of a `ClientConfig`; theirs puts it into a class by its kind."""
    if not isinstance(client, ClientConfig):
        return client
    several = client.endpoint_configs
    config = ClientConfig(client, **(several[client.client_idx % len(several)] if several else {}))
    sdk = ("anthropic", "AsyncAnthropic") if config.client_type == "anthropic_messages" else ("openai", "AsyncOpenAI")
    given = {"base_url": config.api_base_url or DEFAULT_URL, "default_headers": config.extra_headers}
    given |= {"timeout": config.timeout or 3600.0, "max_retries": config.max_retries or 10}
    return getattr(import_module(sdk[0]), sdk[1])(api_key=os.environ.get(config.api_key_var) or "EMPTY", **given)
