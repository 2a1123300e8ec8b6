"""The real engine with the smallest model. Without the model these tests fail, and say why."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from assay.local.llama_server import LocalServer
from assay.local.local_model import LocalModel
from assay.models import Request

RESPONSE = "<response>\n" + "The river rises in spring and the mill stands still. " * 20


class Verdict(BaseModel):
    """A short reason, then a verdict."""

    reason: str
    verdict: Literal["MET", "UNMET"]


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    """An OpenAI-compatible server in this process, on a free port of 127.0.0.1, one thread."""
    with LocalServer("smoke", threads=1, context=4096, key="sesame") as running:
        yield running


@pytest.fixture
async def model() -> AsyncIterator[LocalModel]:
    """The engine in a process of its own."""
    made = LocalModel("smoke", threads=1, context=4096)
    yield made
    made.close()


@pytest.fixture
def make_request() -> Callable[..., Request]:
    """Make a request about a response of 230 tokens."""

    def make(question: str = "Does it name a river? Yes or No?", **options: Any) -> Request:
        request = Request.of("You judge a response.", RESPONSE, f"\n</response>\n{question}")
        # A single token is requested for its log-probability; otherwise the reply would be truncated.
        if options.get("max_tokens") == 1:
            options.setdefault("logprobs", 1)
        return replace(request, **options)

    return make


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of models, with no model configured."""
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path))
    monkeypatch.delenv("ASSAY_LOCAL_MODEL", raising=False)
    return tmp_path
