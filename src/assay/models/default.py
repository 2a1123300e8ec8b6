"""Who is asked when nobody is named: `configure(model=…)`, else `ASSAY_MODEL`, else nobody.

With `ASSAY_CACHE`, a folder, file or `postgresql://` URL, the model of `ASSAY_MODEL` is not asked twice.
"""

import os
from functools import cache
from typing import Any

from assay.errors import Refused
from assay.models.base import Model
from assay.models.names import ModelSource, model_of

THREE_WAYS = (
    "name a model with its key in the environment (ASSAY_MODEL=openai/gpt-5-mini), an endpoint "
    "(ASSAY_MODEL=http://127.0.0.1:8000/v1#name) or a local model (ASSAY_MODEL=local)"
)

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
        raise Refused(f"no default model is configured: {THREE_WAYS}")
    return model


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
