"""A server that answers by rule, the model behind it, and a question to ask."""

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
    """A reason and a verdict, as graders ask for them."""

    explanation: str
    criterion_status: str


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """Starts servers that stop when the test is over."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(ModelServer(*args, **kwargs))


@pytest.fixture
def model_at() -> Callable[..., Model]:
    """The model behind a server, with limits for a test."""

    def make(server: ModelServer, *, limits: Limits = QUICK, **options: Any) -> Model:
        return model_of(server.model, limits=limits, **options)

    return make


@pytest.fixture
def question() -> Callable[..., Request]:
    """A request whose words are of no importance."""

    def make(words: str = "Is it even?", **options: Any) -> Request:
        opened = (
            {"role": "system", "content": "You judge."},
            {"role": "user", "content": "<response>4</response>\n"},
        )
        asked = (*opened, {"role": "user", "content": words})
        return Request(asked, **{"shared": len(opened)} | options)

    return make


@pytest.fixture(autouse=True)
def nobody_is_configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees a default model, a key or a price of the machine it runs on."""
    for name in ("ASSAY_JUDGE", "ASSAY_CACHE", "ASSAY_PRICES", "ASSAY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE_GEMINI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    yield
    configure(judge=None)
