"""The providers behind names such as `openai/gpt-5-mini`: their addresses, their keys, and what tokens cost."""

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from assay.models.model import Price


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


class _BaseUrl(NamedTuple):
    """How an SDK is told its provider's address; ours is that address with a path after it."""

    variable: str
    usual: str
    path: str


_BASE_URLS = {
    "openai": _BaseUrl("OPENAI_BASE_URL", "https://api.openai.com/v1", ""),
    "anthropic": _BaseUrl("ANTHROPIC_BASE_URL", "https://api.anthropic.com", "/v1"),
    "gemini": _BaseUrl("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", "/v1beta/openai"),
}

_CLOUDS = ("amazonaws.com", "googleapis.com", "azure.com")


def url_of(provider: str) -> str:
    """A provider's address, or the one that the variable of its SDK gives.

    >>> os.environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:8000"
    >>> url_of("anthropic")
    'http://127.0.0.1:8000/v1'
    >>> del os.environ["ANTHROPIC_BASE_URL"]
    """
    base = _BASE_URLS.get(provider)
    elsewhere = os.environ.get(base.variable, "").rstrip("/") if base else ""
    if base is None or not elsewhere:
        return PROVIDERS[provider].url
    return elsewhere if elsewhere.endswith(base.path) else elsewhere + base.path


def provider_at(url: str) -> str | None:
    """The provider whose address this is, as we write it or as its SDK does; None for any other."""
    url = url.rstrip("/")
    known = (name for name, provider in PROVIDERS.items() if provider.url == url)
    usual = (name for name, base in _BASE_URLS.items() if base.usual == url)
    return next(known, None) or next(usual, None)


def is_cloud(url: str) -> bool:
    """Whether a cloud that sells the models of others is at this address: Bedrock, Vertex, Azure."""
    host = urlsplit(url).hostname or ""
    return any(host.endswith(f".{cloud}") for cloud in _CLOUDS)


_KEEP_PREFIXES = frozenset(
    {"anthropic", "deepseek", "fireworks", "gemini", "groq", "ollama", "openai", "openrouter", "xai"}
)


def keeps_prefixes(model: str) -> bool:
    """Whether the endpoint of a model's id remembers how prompts began, and reads that part faster.

    Inference servers at an address of your own do. The local engine orders its requests itself.

    >>> keeps_prefixes("anthropic/claude-sonnet-5"), keeps_prefixes("mistral/mistral-small")
    (True, False)
    """
    provider = model.partition("/")[0]
    return provider in _KEEP_PREFIXES or model.startswith(("http://", "https://"))


_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
_SOLD = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$")
"""What Bedrock puts around a model's name: `us.anthropic.claude-haiku-4-5-20251001-v1:0`."""


def price_of(provider: str, name: str) -> Price | None:
    """The price of a provider's model, in the user's table or else ours; None when in neither.

    An endpoint of one's own stands in the table under its address.

    >>> price_of("openai", "gpt-5-mini-2025-08-07") == price_of("openai", "gpt-5-mini")
    True
    >>> price_of("anthropic", "us.anthropic.claude-haiku-4-5-20251001-v1:0").output
    5.0
    """
    tables = [_table(Path(own))] if (own := os.environ.get("ASSAY_PRICES")) else []
    for table in (*tables, _table(None)):
        models = table.get(provider, {})
        for known in (name, _DATED.sub("", name), _DATED.sub("", _SOLD.sub("", name))):
            if known in models:
                return models[known]
    return None


@cache
def _table(path: Path | None) -> Mapping[str, Mapping[str, Price]]:
    source = files("assay.models").joinpath("prices.toml") if path is None else path
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
        return {provider: _prices(models) for provider, models in data.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the prices in {path} cannot be read ({error}): write a [provider] and under it "
            '"model" = { input = 0.25, cached = 0.025, output = 2.00 }, dollars for a million tokens'
        ) from None


def _prices(models: Mapping[str, Any]) -> dict[str, Price]:
    return {name: Price(**{k: float(v) for k, v in m.items()}) for name, m in models.items()}
