"""List the providers, with one entry for each.

The name of a provider comes before that of a model: `openai/gpt-5-mini`. To add one, add an entry.
"""

import os
from dataclasses import dataclass

from assay.models.anthropic_messages import AnthropicFormat
from assay.models.openai_chat import NEW_TOKEN_LIMIT, OLD_TOKEN_LIMIT, OpenAIChatFormat
from assay.models.wire_format import WireFormat


@dataclass(frozen=True, kw_only=True)
class Provider:
    """An endpoint with a name.

    Only the name, the URL and the key's variable are needed in most entries.
    """

    name: str  # written before the slash in the name of a model
    url: str  # the base URL, to which the wire format appends its path
    key_variable: str | None  # the environment variable that holds the key; None if there is no key
    wire_format: type[WireFormat] = OpenAIChatFormat
    # The environment variable by which the provider's SDK is given another base URL. Some SDKs
    # expect that URL without its last part, the `url_suffix`: then it is appended, unless it is
    # there.
    url_variable: str | None = None
    url_suffix: str = ""
    # A cheap model to propose to users whose environment holds the key but names no model. It needs
    # a price.
    proposed_model: str | None = None
    # The name of the token limit in chat completions; the other name is used if the endpoint
    # refuses this one.
    token_limit_name: str = OLD_TOKEN_LIMIT
    # Kinds of media that the endpoint at `url` accepts for none of its models.
    unsupported_media: frozenset[str] = frozenset()
    has_prompt_cache: bool = True  # whether prompts with a known beginning are read faster


# In the order in which they are listed in messages. The first whose key is set is proposed as the
# default judge.
_ENTRIES = (
    Provider(
        name="gemini",
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable="GEMINI_API_KEY",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        url_suffix="/v1beta/openai",
        proposed_model="gemini-3.8-flash",
        unsupported_media=frozenset({"file"}),
    ),
    Provider(
        name="openai",
        url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
        proposed_model="gpt-5-mini",
        token_limit_name=NEW_TOKEN_LIMIT,
    ),
    Provider(
        name="anthropic",
        url="https://api.anthropic.com/v1",
        key_variable="ANTHROPIC_API_KEY",
        wire_format=AnthropicFormat,
        url_variable="ANTHROPIC_BASE_URL",
        url_suffix="/v1",
        proposed_model="claude-haiku-5-5",
    ),
    Provider(
        name="openrouter",
        url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
    ),
    Provider(
        name="groq",
        url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
    ),
    Provider(
        name="together",
        url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        has_prompt_cache=False,
    ),
    Provider(
        name="fireworks",
        url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
    ),
    Provider(
        name="mistral",
        url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        has_prompt_cache=False,
    ),
    Provider(
        name="deepseek",
        url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
    ),
    Provider(
        name="xai",
        url="https://api.x.ai/v1",
        key_variable="XAI_API_KEY",
    ),
    Provider(
        name="ollama",
        url="http://127.0.0.1:11434/v1",
        key_variable=None,
    ),
)

PROVIDERS = {provider.name: provider for provider in _ENTRIES}


def provider_at(url: str) -> Provider | None:
    """Return the provider with this base URL; None for any other URL.

    Some SDKs are given it without its last part, such as `/v1`, so that may be missing.
    """
    url = url.rstrip("/")
    for provider in PROVIDERS.values():
        if url in (provider.url, provider.url.removesuffix(provider.url_suffix)):
            return provider
    return None


def has_prompt_cache(model_id: str) -> bool:
    """Return True if the endpoint of a model is known to cache the beginning of prompts.

    Callers then send requests with the same beginning in an order that uses the cache. A local
    model has such a cache too, but its engine orders the requests itself, so this returns False.
    """
    is_inference_server = model_id.startswith(("http://", "https://"))
    if is_inference_server:
        return True
    provider_name = model_id.partition("/")[0]
    provider = PROVIDERS.get(provider_name)
    return provider is not None and provider.has_prompt_cache


def propose_model() -> tuple[str, str] | None:
    """Return the first key variable that is set, and a model of its provider.

    Return None if no key is in the environment. Example: `("OPENAI_API_KEY", "openai/gpt-5-mini")`.
    """
    for provider in PROVIDERS.values():
        if provider.key_variable is None or provider.proposed_model is None:
            continue
        if os.environ.get(provider.key_variable):
            return provider.key_variable, f"{provider.name}/{provider.proposed_model}"
    return None
