"""Who is asked when nobody is named: `configure(model=…)`, else `ASSAY_MODEL`, else nobody."""

import os
from typing import Any

from assay.errors import Refused
from assay.models.base import Model
from assay.models.names import ModelSource, model_of

_THREE_WAYS = (
    "no model is configured. Three ways to get one: name one with its key in the environment "
    "(ASSAY_MODEL=openai/gpt-5-mini), name an endpoint (ASSAY_MODEL=http://127.0.0.1:8000/v1#name), "
    "or a local model (ASSAY_MODEL=local). Or pass model= or generate_fn= to the grader"
)

_configured: list[Model] = []


def configure(*, model: ModelSource | None = None, **options: Any) -> None:
    """Name the model to ask where nobody names one; None goes back to the environment.

    `options` are those of `model_of`.

    >>> from assay.testing import FakeModel
    >>> configure(model=FakeModel("MET"))
    >>> default_model().id
    'FakeModel'
    >>> configure(model=None)
    """
    made = [] if model is None else [model_of(model, **options)]
    _configured[:] = made


def default_model() -> Model:
    """The model that `configure` or `ASSAY_MODEL` names. Never one that nobody asked for."""
    if _configured:
        return _configured[0]
    name = os.environ.get("ASSAY_MODEL", "").strip()
    if not name:
        raise Refused(_THREE_WAYS)
    return model_of(name)
