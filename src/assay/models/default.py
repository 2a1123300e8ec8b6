"""Who is asked when nobody is named: `configure(model=…)`, else `ASSAY_MODEL`, else nobody.

With `ASSAY_CACHE`, a folder, file or `postgresql://` URL, the model of `ASSAY_MODEL` is not asked twice.
"""

import os
from functools import cache
from typing import Any

from assay.errors import Refused
from assay.models.base import Model
from assay.models.names import ModelSource, model_of

BY_KEY = {
    "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-5-5",
}
"""The variable of a key, and a model to try it with."""

_configured: list[Model] = []


def configure(*, model: ModelSource | None = None, **options: Any) -> None:
    """Name the model to ask where nobody names one; None goes back to the environment.

    `options` are those of `model_of`.

    >>> from assay.testing import FakeModel
    >>> configure(model=FakeModel("MET"))
    >>> default_model().id
    'assay.testing.fakes:FakeModel'
    >>> configure(model=None)
    """
    _configured[:] = [] if model is None else [model_of(model, **options)]


def default_model() -> Model:
    """The model that `configure` or `ASSAY_MODEL` names. Never one that nobody asked for."""
    model = configured_model()
    if model is None:
        raise Refused(f"no default model is configured: {what_to_set()}")
    return model


def model_by_key() -> Model | None:
    """A model of the first provider whose key is in the environment; None when there is no key.

    It is asked only on behalf of programs that were written for a library which does so itself.
    """
    name = next((name for variable, name in BY_KEY.items() if os.environ.get(variable)), None)
    return None if name is None else _by_name(name, os.environ.get("ASSAY_CACHE", ""))


def what_to_set() -> str:
    """The end of a message where no model is named: what to set, and to what."""
    for variable, name in BY_KEY.items():
        if os.environ.get(variable):
            return f"{variable} is set, so set ASSAY_MODEL={name} to use it"
    return (
        "set ASSAY_MODEL to a model whose key is in the environment (openai/gpt-5-mini and "
        "OPENAI_API_KEY), to an endpoint (http://127.0.0.1:8000/v1#name) or to local"
    )


def configured_model() -> Model | None:
    """The default model; None when nobody has named one."""
    if _configured:
        return _configured[0]
    name = os.environ.get("ASSAY_MODEL", "").strip()
    return _by_name(name, os.environ.get("ASSAY_CACHE", "")) if name else None


@cache
def _by_name(name: str, place: str) -> Model:
    """One object a name: it remembers what its endpoint does not understand."""
    return model_of(name, cache=place or None)
