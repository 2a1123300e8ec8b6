"""Every provider has one entry: its URL, the variable of its key, and the wire format of its endpoint."""

from typing import Any

import pytest

from assay import Refused
from assay.models import model_of
from assay.models.providers import PROVIDERS, provider_at

ENTRIES = {
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "ollama": ("http://127.0.0.1:11434/v1", None),
}


def test_every_provider_is_tested_here() -> None:
    assert set(ENTRIES) == set(PROVIDERS)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_is_called_at_the_url_of_its_provider_with_its_key(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key the error names the variable to set."""
    url, key_variable = ENTRIES[name]
    if key_variable is not None:
        monkeypatch.delenv(key_variable, raising=False)
        with pytest.raises(Refused, match=f"set {key_variable}, or in Python pass api_key="):
            model_of(f"{name}/some-model")
        monkeypatch.setenv(key_variable, "k")
    model: Any = model_of(f"{name}/some-model", shared=False)
    assert (model.id, model.endpoint.address) == (f"{name}/some-model", url)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_provider_is_known_by_its_url(name: str) -> None:
    """With a slash at the end or without."""
    url, _ = ENTRIES[name]
    assert provider_at(url) == provider_at(f"{url}/") == PROVIDERS[name]
    assert model_of(f"{url}#some-model", api_key="k").id == f"{name}/some-model"


def test_another_url_belongs_to_no_provider() -> None:
    assert provider_at("https://api.example.com/v1") is None
