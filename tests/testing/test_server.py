"""The test server does what a test asks of it."""

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from assay.testing import Fault, ModelServer, mixed


def post(server: ModelServer, **body: Any) -> Any:
    """By the standard library, so that no client of ours is in between."""
    request = urllib.request.Request(
        f"{server.url}/chat/completions",
        json.dumps({"model": "m", "messages": []} | body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, dict(answer.headers), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.loads(error.read())


def said(*contents: str) -> list[dict[str, str]]:
    roles = ("system", "user")
    return [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]


def test_it_answers_by_rule_and_remembers() -> None:
    """Tokens are a quarter of the characters."""
    with ModelServer(lambda system, user: f"{system} and {user}") as server:
        status, _, data = post(server, messages=said("one", "two"))
        assert (status, data["choices"][0]["message"]["content"]) == (200, "one and two")
        assert data["usage"]["prompt_tokens"] == server.prompt_tokens == 1
        assert (server.requests[0].system, server.requests[0].user) == ("one", "two")


def test_it_sees_which_prompts_start_alike() -> None:
    """In blocks of 64 characters, 16 tokens."""
    with ModelServer("x") as server:
        for end in ("!", "?"):
            _, _, data = post(server, messages=said("s" * 63, "u" * 640 + end))
    assert data["usage"]["prompt_tokens_details"]["cached_tokens"] == 176
    assert server.stats()["cached_tokens"] == 176


def test_faults_come_in_order() -> None:
    """And then no more."""
    faults = [Fault.rate_limited(2), Fault.failing(502), Fault.refusing("no", 404), None]
    with ModelServer("x", faults=faults) as server:
        answers = [post(server) for _ in range(5)]
    assert [status for status, _, _ in answers] == [429, 502, 404, 200, 200]
    assert answers[0][1]["Retry-After"] == "2"
    assert server.outcomes == {"rate_limited": 1, "failing": 1, "refusing": 1, "answered": 2}
    assert server.calls == 2


def test_faults_at_random_come_in_their_shares() -> None:
    """The same for the same seed."""
    plan = mixed({Fault.failing(): 0.3, Fault.hanging(): 0.1}, seed=7)
    drawn = [fault.kind if fault else "" for fault in map(plan, range(2000))]
    assert 540 < drawn.count("failing") < 660
    assert 150 < drawn.count("hanging") < 250
    assert drawn == [fault.kind if fault else "" for fault in map(plan, range(2000))]
    with pytest.raises(ValueError, match="more than 1"):
        mixed({Fault.failing(): 0.7, Fault.hanging(): 0.7})


async def test_a_busy_one_refuses() -> None:
    """Whoever comes while two are being served."""
    with ModelServer("x", capacity=2, latency=0.2) as server:
        answers = await asyncio.gather(*(asyncio.to_thread(post, server) for _ in range(4)))
    assert sorted(status for status, _, _ in answers)[-1] == 429
    assert server.calls >= 2


def test_it_lists_its_model_and_its_counts() -> None:
    """Over HTTP too, for who is in another process."""
    with ModelServer("x", name="mine") as server:
        post(server)
        with urllib.request.urlopen(f"{server.url}/models") as answer:
            assert json.loads(answer.read())["data"][0]["id"] == "mine"
        urllib.request.urlopen(f"{server.url}/stats").close()
        with urllib.request.urlopen(f"{server.url}/stats") as answer:
            assert json.loads(answer.read())["calls"] == 1
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/reset", b"")).close()
        assert server.calls == 0


def test_an_answer_that_raises_is_a_failure_of_the_server() -> None:
    """500, with what was raised."""
    with ModelServer(ValueError("broken rule")) as server:
        status, _, data = post(server)
    assert (status, "broken rule" in data["error"]["message"]) == (500, True)
