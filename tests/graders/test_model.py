"""Graders on a model: what is asked, and what its replies come to."""

from collections.abc import Iterator
from typing import Any

import pytest

import assay.compat.rubric as compat
from assay import (
    Criterion,
    Limits,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rubric,
    RubricAsJudgeGrader,
    configure,
    model_of,
)
from assay.testing import FakeModel, Fault, ModelServer

LIMITS = Limits(timeout=5)
SCALE = Criterion(requirement="Is kind", choices=("cold", "polite", "warm"))


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts one server."""
    started: list[ModelServer] = []

    def make(*args: Any, **kwargs: Any) -> ModelServer:
        started.append(ModelServer(*args, **kwargs).__enter__())
        return started[-1]

    yield make
    for server in started:
        server.__exit__(None, None, None)


def at(server: ModelServer) -> Any:
    return model_of(server.model, limits=LIMITS)


def by_requirement(system: str, user: str) -> str:
    return "MET" if "Holds 1" in user else "UNMET"


async def test_one_call_a_criterion(make_rubric: Any, serve: Any) -> None:
    """3 of 4 are met, by the words of each."""
    server = serve(by_requirement)
    report = await make_rubric(3, 1).grade("a text", judge=PerCriterionGrader(model=at(server)))
    assert (report.score, server.calls) == (0.75, 2)
    assert [line.reason for line in report.report] == ["because the rule says so"] * 2


async def test_one_call_for_all(make_rubric: Any, serve: Any) -> None:
    """With the schema of a list."""
    server = serve(("MET", "UNMET"))
    grader = PerCriterionOneShotGrader(model=at(server))
    assert (await make_rubric(3, 1).grade("a text", judge=grader)).score == 0.75
    schema = server.requests[0].body["response_format"]["json_schema"]
    assert (schema["name"], server.calls) == ("OneShotOutput", 1)


async def test_one_number_for_all(make_rubric: Any, serve: Any) -> None:
    """From 0 to 100."""
    server = serve(85)
    grader = RubricAsJudgeGrader(model=at(server))
    assert (await make_rubric(3, 1).grade("a text", judge=grader)).score == 0.85


async def test_prompts_about_one_response_share_their_start(make_rubric: Any, serve: Any) -> None:
    """Byte for byte, up to the criterion: with ten criteria over nine tenths of all tokens."""
    server = serve("MET")
    text = "A sentence of the response. " * 100
    await make_rubric(*[1] * 10).grade(text, judge=PerCriterionGrader(model=at(server)))
    users = {asked.user.partition("<criterion_type>")[0] for asked in server.requests}
    assert len(users) == 1
    assert server.cached_tokens > 0.85 * server.prompt_tokens


async def test_a_failure_fails_its_criterion_alone(
    make_rubric: Any, grade_partially: Any, serve: Any
) -> None:
    """An error and no value, never UNMET."""
    server = serve(lambda s, u: "no idea" if "Holds 2" in u else "MET")
    report = await grade_partially(make_rubric(1, 1, 1), PerCriterionGrader(model=at(server)))
    assert [line.value for line in report.report] == [1.0, None, 1.0]
    assert "Unreadable" in report.report[1].error


async def test_a_cut_off_reply_is_no_verdict(
    make_rubric: Any, grade_partially: Any, serve: Any
) -> None:
    """On a fault it would be full credit."""
    server = serve(faults=lambda call: Fault.truncated())
    report = await grade_partially(make_rubric(-1), PerCriterionGrader(model=at(server)))
    assert report.score is None
    assert "Truncated" in report.report[0].error


async def test_labels_are_asked_for_and_checked(serve: Any) -> None:
    """One that was not on offer is asked for again, and what is on offer counts."""
    cool = '{"explanation": "so", "choice": "cool"}'
    warm = cool.replace("cool", "Warm")
    server = serve(warm, faults=[Fault.saying(cool)])
    report = await Rubric([SCALE]).grade("x", judge=PerCriterionGrader(model=at(server)))
    assert (report.report[0].verdict, report.score) == ("warm", 1.0)
    assert "'cool' is not one of the choices (cold, polite, warm)" in server.requests[1].user
    assert server.requests[0].body["response_format"]["json_schema"]["name"] == "ChoiceOutput"


async def test_labels_never_on_offer_are_an_error(grade_partially: Any, serve: Any) -> None:
    """After two tries."""
    server = serve('{"explanation": "so", "choice": "cool"}')
    report = await grade_partially(Rubric([SCALE]), PerCriterionGrader(model=at(server)))
    assert report.report[0].error.startswith("OffMenu")


async def test_the_defaults_of_rubric_ask_the_configured_model() -> None:
    """Its programs run as they are, with a model named once."""
    configure(judge=FakeModel("MET"))
    try:
        reply = await compat.default_per_criterion_generate_fn("system", "user")
    finally:
        configure(judge=None)
    assert reply.criterion_status == "MET"
