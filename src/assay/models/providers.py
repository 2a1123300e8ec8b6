"""Providers: the addresses behind names such as `openai/gpt-5-mini`, and where their keys are."""

import os
from typing import NamedTuple


class Provider(NamedTuple):
    """An endpoint with a name."""

    url: str
    key: str | None = None
    """The environment variable that holds the key; None when none is needed."""


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
}

BASE_URLS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""Environment variables by which people send a provider's calls elsewhere."""


def url_of(provider: str) -> str:
    """A provider's address, or the one that the environment gives it."""
    elsewhere = os.environ.get(BASE_URLS.get(provider, ""), "").rstrip("/")
    return elsewhere or PROVIDERS[provider].url


def provider_at(url: str) -> str | None:
    """The provider whose address this is; None when it is nobody's we know."""
    known = (name for name, provider in PROVIDERS.items() if provider.url == url.rstrip("/"))
    return next(known, None)


_KEEP_PREFIXES = frozenset(
    {
        "anthropic",
        "deepseek",
        "fireworks",
        "gemini",
        "groq",
        "ollama",
        "openai",
        "openrouter",
        "xai",
    }
)


def keeps_prefixes(model: str) -> bool:
    """Whether the endpoint of a model's id remembers how prompts began, and reads that part faster.

    Inference servers at an address of your own do. The local engine orders its requests itself.

    >>> keeps_prefixes("anthropic/claude-sonnet-5"), keeps_prefixes("mistral/mistral-small")
    (True, False)
    """
    provider = model.partition("/")[0]
    return provider in _KEEP_PREFIXES or model.startswith(("http://", "https://"))
