"""model_of: a name, an endpoint, a client or a function as a `Model`."""

from collections.abc import Callable
from typing import Any, TypeAlias

from assay.models.base import Model

ModelSource: TypeAlias = str | Model | Callable[..., Any] | Any
"""A name, a `Model`, a function of two prompts, or the client object of an SDK."""


def model_of(source: ModelSource, name: str | None = None, **options: Any) -> Model:
    """The model behind a name, an endpoint, a client or a function.

    - `"openai/gpt-5-mini"`, `"anthropic/claude-sonnet-4-5"`: the key from the environment;
    - `"http://127.0.0.1:8000/v1#name"`: any OpenAI-compatible endpoint (vLLM, SGLang, llama.cpp);
    - `"local"`, `"local:PATH"`: the embedded engine;
    - an `openai` client, sync or async, with the `name` of the model;
    - a function of `(system_prompt, user_prompt)`, async or plain, that returns the reply;
    - a `Model`, which is returned as it is.
    """
    if isinstance(source, Model):
        return source
    raise NotImplementedError
