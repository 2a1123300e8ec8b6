"""An unreadable reply is requested once more, and then it is an error."""

from typing import Any

import pytest

from assay import OffMenu, Unreadable, budget
from assay.graders import PerCriterionOutput
from assay.models import Price, Usage
from assay.testing import Fault

SCHEMA = {"schema": PerCriterionOutput}


async def test_an_unreadable_reply_is_requested_again(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """With the error after the same prompt; the second reply counts, and both are paid."""
    server = serve("MET", faults=[Fault.saying("The criterion is met.")])
    reply = await model_at(server, price=Price(1.0, 1.0))(make_request(**SCHEMA))
    assert (reply.value.criterion_status, len(server.requests)) == ("MET", 2)
    first, second = (asked.body["messages"] for asked in server.requests)
    assert second[: len(first)] == first
    assert second[-2] == {"role": "assistant", "content": "The criterion is met."}
    assert "cannot be used" in second[-1]["content"]
    assert reply.usage == Usage(
        server.prompt_tokens, server.cached_tokens, server.completion_tokens
    )
    assert reply.cost == pytest.approx(
        (server.prompt_tokens + server.completion_tokens) / 1_000_000
    )


async def test_an_unreadable_reply_is_requested_again_only_once(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Two unreadable replies are an error; their tokens and dollars are counted."""
    server = serve(faults=[Fault.saying("no")] * 5)
    with budget() as spent, pytest.raises(Unreadable, match="asked twice"):
        await model_at(server, price=Price(1.0, 1.0))(make_request(**SCHEMA))
    assert len(server.requests) == spent.calls == 2
    assert spent.usage.prompt == server.prompt_tokens
    assert spent.cost > 0
    assert spent.errors == {"Unreadable": 1}


async def test_a_verdict_that_was_not_offered_is_requested_again(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Then it is an error of its own class, a subclass of JudgeError."""
    odd = '{"explanation": "so", "criterion_status": "MAYBE"}'
    server = serve("MET", faults=[Fault.saying(odd)])
    assert (await model_at(server)(make_request(**SCHEMA))).value.criterion_status == "MET"
    server = serve(faults=[Fault.saying(odd)] * 2)
    with pytest.raises(OffMenu, match="MAYBE"):
        await model_at(server)(make_request(**SCHEMA))


async def test_an_empty_reply_to_a_schema_is_requested_again_with_a_description(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Some endpoints return nothing if they have to follow a schema."""
    server = serve("MET", faults=[Fault.saying("")])
    assert (await model_at(server)(make_request(**SCHEMA))).value.criterion_status == "MET"
    assert ["response_format" in asked.body for asked in server.requests] == [True, False]


async def test_braces_in_model_output_are_not_filled_in(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """They stay as they are."""
    server = serve("MET", faults=[Fault.saying("{schema} {problem} {0}")])
    assert (await model_at(server)(make_request(**SCHEMA))).value.criterion_status == "MET"
    assert "{schema} {problem} {0}" in server.requests[1].user
