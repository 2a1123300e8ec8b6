"""Graders around graders, on a real endpoint: what goes over the wire, and what is asked again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay import (
    Anchor,
    Anchored,
    Cascade,
    Criterion,
    EarlyStop,
    Expectation,
    Limits,
    Panel,
    PerBatchGrader,
    PerCriterionGrader,
    Rubric,
    Samples,
    Swapped,
    Tournament,
    budget,
    model_of,
)
from assay.testing import Fault, ModelServer, make_state

LIMITS = Limits(timeout=5)
SCALE = Criterion(requirement="Is kind", choices=("cold", "polite", "warm"))


def by_requirement(system: str, user: str) -> str:
    return "MET" if "Holds 1" in user else "UNMET"


def first_listed(system: str, user: str) -> dict[str, str]:
    """Takes the first label it sees."""
    return in_form(user, user.partition("<choices")[2].split("\n")[1])


def in_form(user: str, verdict: str) -> dict[str, str]:
    """A reply as the prompt asks for it: a choice where choices are listed."""
    return {"explanation": "so", "choice" if "<choices" in user else "criterion_status": verdict}


def judge(server: ModelServer, cache: Any = None) -> PerCriterionGrader:
    return PerCriterionGrader(model=model_of(server.model, limits=LIMITS, cache=cache))


async def test_samples_are_asked_and_kept_each(make_rubric: Any, tmp_path: Path) -> None:
    """Three calls at temperature 1; the second time all come from the cache, and differ still."""
    said = iter(["MET", "UNMET", "MET"])
    with ModelServer(lambda system, user: next(said)) as server:
        grader = Samples(judge(server, tmp_path), 3, rule="mean")
        for _ in range(2):
            report = await make_rubric(1).grade("a text", judge=grader)
            assert report.score == pytest.approx(2 / 3)
            assert report.disagreements == {"holds_1": pytest.approx(2 / 3)}
        assert [asked.body["temperature"] for asked in server.requests] == [1.0] * 3


async def test_more_samples_ask_only_for_the_new_ones(make_rubric: Any, tmp_path: Path) -> None:
    """Samples of samples have numbers of their own; two and then three are three calls."""
    with ModelServer("MET") as server:
        for count, calls in [(2, 2), (3, 3)]:
            grader = Samples(judge(server, tmp_path), count)
            await make_rubric(1).grade("a text", judge=grader)
            assert server.calls == calls
        nested = Samples(Samples(judge(server, tmp_path), 2), 2)
        await make_rubric(1).grade("another text", judge=nested)
        assert server.calls == 7


@pytest.mark.parametrize(("confidence", "apart"), [(0.9, 0.18), (0.75, 0.375)])
async def test_log_probabilities_come_over_the_wire(
    make_rubric: Any, confidence: float, apart: float
) -> None:
    """MET with a probability of p is worth p, and UNMET 1 - p."""
    with ModelServer(by_requirement, confidence=confidence) as server:
        report = await make_rubric(1, 1).grade("a text", judge=Expectation(judge(server)))
        assert server.requests[0].body["top_logprobs"] == 20
    assert report.metrics == {
        "holds_1": pytest.approx(confidence),
        "holds_2": pytest.approx(1 - confidence),
    }
    assert report.disagreements["holds_1"] == pytest.approx(apart)


async def test_log_probabilities_are_kept_too(make_rubric: Any, tmp_path: Path) -> None:
    """The same expectation from the cache."""
    with ModelServer("MET", confidence=0.8) as server:
        for _ in range(2):
            grader = Expectation(judge(server, tmp_path))
            report = await make_rubric(1).grade("a text", judge=grader)
            assert report.score == pytest.approx(0.8)
        assert server.calls == 1


async def test_an_endpoint_without_them_gives_verdicts(make_rubric: Any, caplog: Any) -> None:
    """It refuses the field once, and is not sent it again."""
    with ModelServer("MET", refuses=["logprobs"]) as server:
        grader = Expectation(judge(server))
        first = await make_rubric(1).grade("a text", judge=grader)
        second = await make_rubric(1).grade("another", judge=grader)
        assert ["logprobs" in asked.body for asked in server.requests] == [True, False, False]
    assert (first.score, first.disagreements, second.score) == (1.0, {}, 1.0)
    assert "gave no log-probabilities" in caplog.text


async def test_a_cascade_pays_the_dear_judge_for_doubts_alone(make_rubric: Any) -> None:
    """Ten criteria, one of which the cheap judge contradicts itself about."""

    def cheap_rule(system: str, user: str) -> Any:
        contradicts = "Holds 7<" in user and "<choices" not in user
        return in_form(user, "UNMET" if contradicts else "MET")

    with ModelServer(cheap_rule, name="cheap") as cheap, ModelServer("MET", name="dear") as dear:
        grader = Cascade([Swapped(judge(cheap)), judge(dear)])
        report = await make_rubric(*[1] * 10).grade("a text", judge=grader)
        assert (cheap.calls, dear.calls, report.score) == (20, 1, 1.0)
    assert [len(line.lines) for line in report.report].count(2) == 10
    assert report.report[6].lines[1].name.endswith("#dear")


async def test_the_second_order_of_labels(make_rubric: Any) -> None:
    """A judge that takes the first label it sees: cold, then warm; half each."""
    with ModelServer(first_listed) as server:
        report = await Rubric([SCALE]).grade("a text", judge=Swapped(judge(server)))
    assert (report.score, report.report[0].verdict, report.disagreements) == (
        0.5,
        "polite",
        {"is_kind": 1.0},
    )


async def test_both_orders_of_met_and_unmet_are_held_to_a_schema(make_rubric: Any) -> None:
    """Each to one constant schema, in whose order the verdicts are listed."""
    with ModelServer(lambda system, user: in_form(user, "MET")) as server:
        report = await make_rubric(1, 1).grade("a text", judge=Swapped(judge(server)))
        schemas = [asked.body["response_format"]["json_schema"] for asked in server.requests]
    assert report.disagreements == {"holds_1": 0.0, "holds_2": 0.0}
    assert sorted(s["name"] for s in schemas) == ["PerCriterionOutput"] * 2 + ["TurnedOutput"] * 2
    turned = next(s for s in schemas if s["name"] == "TurnedOutput")
    assert turned["schema"]["properties"]["choice"]["enum"] == ["UNMET", "MET"]


async def test_a_judge_that_is_down_leaves_a_panel_of_two(make_rubric: Any) -> None:
    """Its error stands in the report; its criterion has an answer."""
    with (
        ModelServer("MET", name="one") as one,
        ModelServer("MET", name="two") as two,
        ModelServer(faults=lambda call: Fault.refusing("no such model", 404), name="down") as down,
    ):
        grader = Panel([judge(one), judge(down), judge(two)])
        report = await make_rubric(1).grade("a text", judge=grader)
    [line] = report.report
    assert (line.value, report.scored) == (1.0, True)
    assert "2 of 2 judges, 1 failed" in line.reason
    assert [vote.error is None for vote in line.lines] == [True, False, True]


async def test_garbage_from_every_judge_is_no_zero(make_rubric: Any, grade_partially: Any) -> None:
    """On a fault it would be full credit."""
    with ModelServer("no idea") as server:
        report = await grade_partially(make_rubric(-1), Panel([judge(server), judge(server)]))
    assert (report.score, report.report[0].value) == (None, None)
    assert "0 of 2 judges answered" in report.report[0].error


async def test_batches_share_their_schema_and_prefix(make_rubric: Any) -> None:
    """Six criteria by two: three calls of one schema that start alike."""
    with ModelServer(("MET", "UNMET")) as server:
        grader = PerBatchGrader(model=model_of(server.model, limits=LIMITS), size=2)
        report = await make_rubric(*[1] * 6).grade("a text " * 50, judge=grader)
        assert (report.score, server.calls) == (0.5, 3)
        assert {a.body["response_format"]["json_schema"]["name"] for a in server.requests} == {
            "OneShotOutput"
        }
        assert len({asked.user.partition("<criteria>")[0] for asked in server.requests}) == 1


async def test_anchors_are_part_of_the_shared_start(make_rubric: Any) -> None:
    """Of all prompts, whatever the response and the criterion."""
    anchors = [Anchor("Holds 1", f"example {n} " * 50, "MET") for n in range(3)]
    with ModelServer("MET") as server:
        grader = Anchored(judge(server), anchors)
        for text in ("one text", "another text"):
            await make_rubric(1, 1).grade(text, judge=grader)
        assert len({asked.system for asked in server.requests}) == 1
        assert server.cached_tokens > 0.6 * server.prompt_tokens


async def test_an_early_stop_saves_calls(make_rubric: Any) -> None:
    """A veto and nine others, over three texts of which one passes the veto: 1 + 1 + 10 calls."""

    def rule(system: str, user: str) -> str:
        return "MET" if "good" in user or "Holds" in user else "UNMET"

    rubric = Rubric(
        [Criterion(requirement="Is safe", required=True), *make_rubric(*[1] * 9).criteria]
    )
    with ModelServer(rule) as server:
        rubric.grader = EarlyStop(judge(server))
        states = [make_state(text) for text in ("bad", "good", "worse")]
        reports = await rubric.score_group(states)
        assert server.calls == 12
    assert [state["reward"] for state in states] == [0.0, 10.0, 0.0]
    assert [report.unneeded for report in reports] == [9, 0, 9]


async def test_a_tournament_of_samples_within_a_budget() -> None:
    """Three texts, three games, two orders, two samples: twelve calls are counted."""

    def longer(system: str, user: str) -> dict[str, str]:
        first, second = user.split("<first>")[1].split("</second>")[0].split("<second>")
        better = "FIRST" if first.count("x") > second.count("x") else "SECOND"
        return {"explanation": "so", "choice": better}

    with ModelServer(longer) as server, budget() as spent:
        tournament = Tournament(Samples(judge(server), 2), "Says more")
        states = [make_state("x" * size) for size in (1, 3, 2)]
        await Rubric([tournament]).score_group(states)
        assert (server.calls, spent.calls) == (12, 12)
    assert [state["reward"] for state in states] == [0.0, 1.0, 0.5]


async def test_stopping_a_panel_stops_its_judges(make_rubric: Any) -> None:
    """A run that is cancelled is not taken for judges that failed."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def hang(call: int) -> Fault:
        loop.call_soon_threadsafe(arrived.set)
        return Fault.hanging()

    with ModelServer(faults=hang) as server:
        grader = Panel([judge(server), judge(server)])
        run = asyncio.ensure_future(make_rubric(1).grade("a text", judge=grader))
        await arrived.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
