"""Functions of two prompts, as used by other libraries, can be models."""

from typing import Any

import pytest

from assay import Unreadable, budget
from assay.graders import PerCriterionOutput
from assay.models import Reply, Request, model_of

ASKED = Request.of("You judge.", "One. ", "Two.", schema=PerCriterionOutput)
MET = PerCriterionOutput(explanation="so", criterion_status="MET")


async def named(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
    assert (system_prompt, user_prompt) == ("You judge.", "One. Two.")
    return MET


async def positional(first: str, second: str, /) -> PerCriterionOutput:
    assert (first, second) == ("You judge.", "One. Two.")
    return MET


async def with_retries(system_prompt: str, user_prompt: str, max_retries: int = 3) -> Any:
    return MET


async def anything(**kwargs: Any) -> Any:
    assert set(kwargs) == {"system_prompt", "user_prompt"}
    return MET


def plain(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
    return MET


def texting(system_prompt: str, user_prompt: str) -> str:
    return f"```json\n{MET.model_dump_json()}\n```"


def replying(system_prompt: str, user_prompt: str) -> Reply:
    return Reply("x", value=MET)


@pytest.mark.parametrize(
    "function", [named, positional, with_retries, anything, plain, texting, replying]
)
async def test_a_function_is_a_model(function: Any) -> None:
    """With keyword or positional arguments, async or sync, returning a model or text."""
    with budget() as spent:
        reply = await model_of(function)(ASKED)
    assert reply.value == MET
    assert spent.calls == 1


async def test_a_returned_mapping_is_passed_on() -> None:
    """Graders read it by its keys."""
    reply = await model_of(lambda s, u: {"criterion_status": "MET"})(ASKED)
    assert reply.value == {"criterion_status": "MET"}


async def test_returned_text_is_parsed_or_refused() -> None:
    """A function is called once: retrying is up to it."""
    with pytest.raises(Unreadable):
        await model_of(lambda s, u: "no idea")(ASKED)


def test_the_id_of_a_function_contains_its_name() -> None:
    """With its module, and a hash of its code."""
    assert ":named@" in model_of(named).id
