"""A model server, models that call it, and requests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import BaseModel

from assay import configure
from assay.models import Limits, Model, Request, model_of
from assay.testing import ModelServer

QUICK = Limits(timeout=5.0, deadline=20.0)


class Verdict(BaseModel):
    """A reason and a verdict, in the schema of graders."""

    explanation: str
    criterion_status: str


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """Start model servers that stop at the end of the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(ModelServer(*args, **kwargs))


@pytest.fixture
def model_at() -> Callable[..., Model]:
    """Return a model that calls a server, with limits for tests."""

    def make(server: ModelServer, *, limits: Limits = QUICK, **options: Any) -> Model:
        return model_of(server.model, limits=limits, **options)

    return make


@pytest.fixture
def make_request() -> Callable[..., Request]:
    """Make a request whose content does not matter."""

    def make(words: str = "Is it even?", **options: Any) -> Request:
        shared_messages = (
            {"role": "system", "content": "You judge."},
            {"role": "user", "content": "<response>4</response>\n"},
        )
        messages = (*shared_messages, {"role": "user", "content": words})
        return Request(messages, **{"shared": len(shared_messages)} | options)

    return make


@pytest.fixture(autouse=True)
def ignore_configuration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide default models, keys and prices of this machine."""
    for name in ("ASSAY_JUDGE", "ASSAY_CACHE", "ASSAY_PRICES", "ASSAY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE_GEMINI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    yield
    configure(judge=None)
