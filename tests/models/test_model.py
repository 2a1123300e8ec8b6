"""The identity of requests and replies."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from assay.models import Model, Reply, Request, Usage


class Answer(BaseModel):
    why: str
    verdict: str


class Other(BaseModel):
    verdict: str


SAID = Request.of("You judge.", "One.", "Two.", schema=Answer)


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": Other},
        {"schema": None},
        {"temperature": 1.0},
        {"temperature": None},
        {"max_tokens": 100},
        {"seed": 1},
        {"logprobs": 5},
        {"sample": 1},
        {"messages": SAID.messages[:-1]},
        {"messages": (*SAID.messages[:-1], {"role": "user", "content": "two."})},
        {"messages": (*SAID.messages[:-1], {"role": "assistant", "content": "Two."})},
    ],
    ids=str,
)
def test_everything_that_can_change_the_reply_changes_the_content(changed: dict[str, Any]) -> None:
    """So that neither a cache nor deduplication mixes up replies."""
    assert replace(SAID, **changed).content != SAID.content


@pytest.mark.parametrize(
    "changed",
    [{"shared": 0}, {"question": "q1"}, {"check": lambda value: None}],
    ids=["shared", "question", "check"],
)
def test_hints_and_labels_do_not_change_the_content(changed: dict[str, Any]) -> None:
    assert replace(SAID, **changed).content == SAID.content


def test_the_division_of_a_prompt_does_not_change_the_content() -> None:
    """It is sent in one piece."""
    assert Request.of("You judge.", "One.Two.", schema=Answer).content == SAID.content


def test_no_text_can_imitate_the_division_into_messages() -> None:
    """Lengths are part of the content."""
    first = Request(({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}))
    imitation = Request(({"role": "user", "content": "aassistant 1 1 b"},))
    assert first.content != imitation.content


def test_parts_other_than_text_change_the_content() -> None:
    """A picture is content."""
    pictures = [
        Request(({"role": "user", "content": [{"type": "image_url", "image_url": url}]},))
        for url in ("one", "two")
    ]
    assert pictures[0].content != pictures[1].content


def test_token_counts_are_added() -> None:
    """For each kind."""
    assert Usage(10, 8, 2) + Usage(1, 0, 1, 1) == Usage(11, 8, 3, 1)


def test_a_function_with_an_id_is_a_model() -> None:
    """There is no base class."""

    class Parrot:
        id = "parrot"

        async def __call__(self, request: Request) -> Reply:
            return Reply(request.user)

    assert isinstance(Parrot(), Model)
    assert not isinstance(lambda request: request, Model)
