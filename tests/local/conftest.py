"""The real engine with the smallest model. A machine without it fails these tests, and says why."""

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
def question() -> Callable[..., Request]:
    """A request about a response of 230 tokens."""

    def make(words: str = "Does it name a river? Yes or No?", **options: Any) -> Request:
        asked = Request.of("You judge a response.", RESPONSE, f"\n</response>\n{words}")
        if (
            options.get("max_tokens") == 1
        ):  # one token is asked for its likelihood, or else the reply is cut off
            options.setdefault("logprobs", 1)
        return replace(asked, **options)

    return make


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No model is named or pulled; the folder where they would be."""
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path))
    monkeypatch.delenv("ASSAY_LOCAL_MODEL", raising=False)
    return tmp_path
