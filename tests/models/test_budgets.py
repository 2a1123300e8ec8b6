"""Counting calls, tokens and dollars, and budgets for them."""

import asyncio
from contextvars import Context, copy_context
from typing import Any

import pytest

from assay import (
    BudgetExceeded,
    DeadlineExceeded,
    Guarded,
    Limits,
    NotAsked,
    Panel,
    PerCriterionGrader,
    Rollout,
    Rubric,
    Truncated,
    budget,
    dry_run,
)
from assay.graders import PerCriterionOutput
from assay.models import Price, Usage, model_of, price_of
from assay.models.budgets import Ledger, count_call, reserve_dollars, rollout_spending
from assay.models.endpoint_model import EndpointModel
from assay.testing import Fault

DEAR = Price(input=1000.0, output=1000.0)
"""A thousandth of a dollar per token."""


async def test_tokens_and_costs_of_every_call_are_counted(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """As reported by the endpoint; retries are counted separately."""
    server = serve("hello", faults=[None, Fault.failing()])
    model = model_at(server, price=DEAR)
    with budget() as spent:
        for words in ("one", "two"):
            await model(make_request(words))
    assert (spent.calls, spent.retries, spent.hits) == (2, 1, 0)
    assert spent.usage == Usage(
        server.prompt_tokens, server.cached_tokens, server.completion_tokens
    )
    total = server.prompt_tokens + server.completion_tokens
    assert spent.cost == pytest.approx(total / 1000)


async def test_the_cost_of_a_truncated_reply_is_counted(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """It is useless, but was paid for."""
    server = serve(faults=[Fault.truncated()])
    with budget() as spent, pytest.raises(Truncated):
        await model_at(server, price=DEAR)(make_request())
    assert (spent.calls, spent.errors) == (1, {"Truncated": 1})
    assert spent.cost > 0


async def test_a_run_never_exceeds_its_budget(serve: Any, model_at: Any) -> None:
    """Verdicts within the budget are kept; the others are errors of their criteria."""
    server = serve("MET", latency=0.001)
    model = model_at(server, price=DEAR, limits=Limits(concurrency=8))
    rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
    rollouts = [Rollout(prompt="q", completion=f"text {n}") for n in range(10)]
    with budget(dollars=20.0) as spent:
        reports = await rubric.score(rollouts, judge=PerCriterionGrader(model=model))
    lines = [line for report in reports for line in report.report or []]
    errors = [line.error for line in lines if line.error]
    assert 0 < spent.cost <= 20.0
    assert len(lines) - len(errors) == spent.calls == server.calls
    assert 0 < len(errors) < 40
    assert all(error.startswith("BudgetExceeded: $") for error in errors)
    assert all(line.value is None for line in lines if line.error)


async def test_a_sufficient_budget_does_not_stop_a_run(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Estimates are too high at first, so calls in flight are awaited before one is refused."""
    server = serve("hi", latency=0.001)
    model = model_at(server, price=DEAR, limits=Limits(concurrency=16))
    with budget() as counted:
        await asyncio.gather(*(model(make_request(f"count {n}")) for n in range(40)))
    with budget(dollars=counted.cost * 1.2) as spent:
        await asyncio.gather(*(model(make_request(f"pay {n:2}")) for n in range(40)))
    assert spent.calls == 40


async def test_a_budget_in_dollars_without_a_price_is_refused(make_request: Any) -> None:
    """Before anything is spent."""
    model = model_of("http://203.0.113.1:9/v1#test")
    with budget(dollars=1.0) as spent, pytest.raises(BudgetExceeded, match="price=Price"):
        await model(make_request())
    assert spent.calls == 0


@pytest.mark.parametrize("cached", [False, True])
async def test_a_run_without_a_price_is_refused_as_a_whole(cached: bool, tmp_path: Any) -> None:
    """With one error before the first call, and not one for each criterion; also with a cache in front."""
    model = model_of("http://203.0.113.1:9/v1#test", cache=tmp_path if cached else None)
    rubric = Rubric.from_dict([{"requirement": "Holds"}])
    grader = Panel([PerCriterionGrader(model=model)])
    said = r"the price of http://203\.0\.113\.1:9/v1#test is not known.*ASSAY_PRICES"
    with budget(dollars=1.0) as spent, pytest.raises(BudgetExceeded, match=said):
        await rubric.score([Rollout(completion="x")], judge=grader)
    assert (spent.calls, spent.errors) == (0, {})


async def test_an_inner_budget_counts_towards_the_outer_one(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """The outer limit holds inside."""
    model = model_at(serve("hello"), price=DEAR)
    with budget(dollars=0.0001) as outer:
        with budget() as inner, pytest.raises(BudgetExceeded):
            await model(make_request())
        assert (inner.calls, outer.calls) == (0, 0)
    with budget() as outer:
        with budget() as inner:
            await model(make_request())
        assert inner.cost == outer.cost > 0


async def test_concurrent_tasks_have_separate_budgets(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """A task uses the ledger of the context in which it was created."""
    model = model_at(serve("hello"))

    async def run(calls: int) -> int:
        with budget() as spent:
            await asyncio.gather(*(model(make_request(f"{calls} {n}")) for n in range(calls)))
        return spent.calls

    assert await asyncio.gather(run(1), run(3), run(5)) == [1, 3, 5]
    assert Ledger.current() is None


def test_synchronous_calls_are_counted(serve: Any, model_at: Any) -> None:
    """Including those that use a thread because a loop is running."""
    server = serve("MET")
    grader = PerCriterionGrader(model=model_at(server))
    rubric = Rubric.from_dict([{"requirement": "Holds"}])

    async def in_a_notebook() -> None:
        rubric.grade_sync("two", grader)

    with budget() as spent:
        rubric.grade_sync("one", grader)
        asyncio.run(in_a_notebook())
    assert spent.calls == 2


async def test_a_run_ends_at_its_deadline(serve: Any, model_at: Any, make_request: Any) -> None:
    """For calls in flight, and for those that wait for their turn."""
    server = serve(faults=lambda call: Fault.hanging())
    model = model_at(server, limits=Limits(concurrency=1))
    with budget(seconds=0.2):
        results = await asyncio.gather(
            *(model(make_request(str(n))) for n in range(3)), return_exceptions=True
        )
    assert [type(result) for result in results] == [DeadlineExceeded] * 3
    assert len(server.requests) == 1


@pytest.mark.parametrize("wrong", [{"dollars": -1}, {"seconds": float("nan")}], ids=str)
def test_an_invalid_budget_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give 0 or more"), budget(**wrong):
        pass


async def test_a_dry_run_estimates_calls_tokens_and_dollars(serve: Any, model_at: Any) -> None:
    """Calls exactly; tokens and dollars approximately."""
    server = serve("MET")
    model = model_at(server, price=DEAR)
    rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
    rollouts = [Rollout(prompt="q", completion=f"text {n}") for n in range(3)]
    grader = PerCriterionGrader(model=model)
    with dry_run() as plan:
        await rubric.score(rollouts, judge=grader)
    assert (plan.calls, len(server.requests)) == (12, 0)
    with budget() as spent:
        await rubric.score(rollouts, judge=grader)
    assert spent.calls == 12
    assert plan.usage.prompt == pytest.approx(spent.usage.prompt, rel=0.25)
    assert plan.cost == pytest.approx(spent.cost, rel=0.5)


async def test_a_dry_run_raises_an_error_where_a_reply_is_needed(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """No reply is invented."""
    with dry_run(), pytest.raises(NotAsked, match="dry run"):
        await model_at(serve())(make_request(schema=PerCriterionOutput))


def test_prices_are_per_million_tokens_of_each_kind() -> None:
    """1000 fresh at $3, 8000 cached at $0.30, 1000 stored at $3.75, 500 written at $15."""
    price = price_of("anthropic", "claude-sonnet-4-5")
    assert price is not None
    usage = Usage(prompt=10_000, cached=8_000, completion=500, stored=1_000)
    assert price.of(usage) == pytest.approx(0.003 + 0.0024 + 0.00375 + 0.0075)


def test_a_custom_price_table_takes_precedence(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For known and unknown models."""
    table = tmp_path / "prices.toml"
    table.write_text('[openai]\n"gpt-5-mini" = { input = 7, output = 8 }\n', encoding="utf-8")
    monkeypatch.setenv("ASSAY_PRICES", str(table))
    assert price_of("openai", "gpt-5-mini") == Price(7, 8)
    assert price_of("openai", "gpt-5-nano") is not None
    assert price_of("openai", "gpt-99") is None


def test_a_custom_endpoint_has_its_price_under_its_url(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a run with it can have a budget."""
    table = tmp_path / "prices.toml"
    table.write_text('["http://203.0.113.1:9/v1"]\n"x" = { input = 7, output = 8 }\n', "utf-8")
    monkeypatch.setenv("ASSAY_PRICES", str(table))
    model = model_of("http://203.0.113.1:9/v1#x", shared=False)
    assert isinstance(model, EndpointModel)
    assert model.price == Price(7, 8)


FOUR = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])


async def cost_of_one(grader: Any) -> float:
    """Return the cost of one rollout."""
    with budget() as spent:
        await FOUR.score([Rollout(prompt="q", completion="text 00")], judge=grader)
    return spent.cost


@pytest.mark.parametrize("warm", [False, True])
async def test_a_budget_is_spent_on_whole_rollouts(serve: Any, model_at: Any, warm: bool) -> None:
    """A budget for eight and a half of sixty rollouts scores the first eight, and starts no other."""
    model = model_at(serve("MET", latency=0.001), price=DEAR, limits=Limits(concurrency=64))
    grader = PerCriterionGrader(model=model, warm=warm)
    dollars = 8.5 * await cost_of_one(grader)
    rollouts = [Rollout(prompt="q", completion=f"text {n:02}") for n in range(60)]
    with budget(dollars=dollars) as spent:
        reports = await FOUR.score(rollouts, judge=grader)
    assert [report.scored for report in reports] == [True] * 8 + [False] * 52
    assert (spent.calls, spent.cost <= dollars) == (32, True)


async def test_rollouts_with_equal_requests_do_not_deadlock(serve: Any, model_at: Any) -> None:
    """Equal requests are sent once, even if one rollout may start and the other not yet."""
    server = serve("MET", latency=0.001)
    grader = PerCriterionGrader(model=model_at(server, price=DEAR), warm=True)
    rollouts = [Rollout(prompt="q", completion="text 00") for _ in range(20)]
    with budget(dollars=3.5 * await cost_of_one(grader)) as spent:
        async with asyncio.timeout(60):
            reports = await FOUR.score(rollouts, judge=grader)
    assert all(report.scored for report in reports[:3])
    assert spent.calls <= 14


async def test_cached_verdicts_need_no_budget(serve: Any, model_at: Any, tmp_path: Any) -> None:
    """A rollout that was judged before is scored, even if the budget is used up."""
    model = model_at(serve("MET"), price=DEAR, cache=tmp_path / "cache.sqlite")
    grader = PerCriterionGrader(model=model)
    known, unknown = (Rollout(prompt="q", completion=f"text {n}") for n in range(2))
    await FOUR.score([known], judge=grader)
    with budget(dollars=0.0) as spent:
        reports = await FOUR.score([unknown, known], judge=grader)
    assert [report.scored for report in reports] == [False, True]
    assert (spent.calls, spent.hits) == (0, 4)


async def test_spending_of_earlier_sessions_counts(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """A budget applies to the whole run, however often it is resumed."""
    model = model_at(serve("hello"), price=DEAR)
    with (
        budget(dollars=10.0, spent=9.999),
        pytest.raises(
            BudgetExceeded,
            match=r"\$9.9990 of \$10.0000 are spent \(\$9.9990 of it in earlier sessions\)",
        ),
    ):
        await model(make_request())


@pytest.mark.parametrize(
    "faults",
    [
        {"answer": "no verdict at all"},
        {"faults": lambda call: Fault.failing() if call % 3 else None},
        {"refuses": ["response_format", "temperature"]},
    ],
    ids=["repairs", "retries", "complaints"],
)
async def test_the_worst_case_of_a_dry_run_is_never_exceeded(
    serve: Any, model_at: Any, faults: Any
) -> None:
    """With unreadable replies, failed attempts, and parameters that an endpoint refuses."""
    server = serve(**{"answer": "MET", **faults})
    model = model_at(server, price=DEAR, limits=Limits(attempts=4, concurrency=4))
    rubric = Rubric.from_dict(
        [{"name": "a", "requirement": "First"}, {"name": "b", "requirement": "Second", "when": "a"}]
    )
    grader = Guarded(PerCriterionGrader(model=model))
    rollouts = [Rollout(prompt="q", completion=f"text {n}") for n in range(5)]
    with dry_run() as expected:
        await rubric.score(rollouts, judge=grader)
    assert server.requests == []
    with budget() as spent:
        await rubric.score(rollouts, judge=grader)
    assert len(server.requests) <= expected.most_calls
    assert spent.cost <= expected.most_cost
    assert expected.calls == 20  # of each text two questions, and before each the guard's


async def spend_rollout(dollars: float, order: list[str], name: str = "") -> None:
    """A rollout with one call, which costs as much as expected."""
    async with rollout_spending():
        order.append(name)
        async with reserve_dollars(dollars):
            await asyncio.sleep(0)
            count_call(Usage(), dollars)


def start_rollout(name: str, order: list[str], context: Context, dollars: float = 0.4) -> Any:
    """Start a rollout in a task of its own; the context is one outside of other rollouts."""
    return asyncio.create_task(spend_rollout(dollars, order, name), context=context.copy())


async def turn_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_rollout_that_is_cancelled_while_it_waits_for_dollars_never_runs() -> None:
    """The rollouts behind it run when it is their turn."""
    order: list[str] = []
    with budget(dollars=1.0, rollout=0.4) as spent:
        context = copy_context()
        async with rollout_spending(), reserve_dollars(0.9):
            waiting = [start_rollout(name, order, context) for name in ("cancelled", "next")]
            await turn_the_loop()
            assert order == []
            waiting[0].cancel()
            await turn_the_loop()
            assert waiting[0].cancelled()
            assert order == []
        await asyncio.wait_for(waiting[1], 60)
        await turn_the_loop()
    assert order == ["next"]
    assert (spent.calls, spent.cost, spent.reserved) == (1, 0.4, 0.0)


async def test_a_rollout_that_is_cancelled_at_its_turn_gives_its_dollars_back() -> None:
    order: list[str] = []
    with budget(dollars=1.0, rollout=0.4) as spent:
        context = copy_context()
        async with rollout_spending(), reserve_dollars(0.9):
            first, second = (start_rollout(name, order, context) for name in ("first", "second"))
            await turn_the_loop()
        first.cancel()
        await asyncio.wait([first, second], timeout=60)
        await spend_rollout(0.4, order, "third")
    assert order == ["second", "third"]
    assert spent.cost == 0.8


async def test_a_call_that_is_cancelled_while_it_waits_for_dollars_reserves_nothing() -> None:
    with budget(dollars=1.0) as spent:

        async def call() -> None:
            async with reserve_dollars(0.8):
                raise AssertionError("it must not run")

        async with reserve_dollars(0.5):
            waiting = asyncio.create_task(call())
            await turn_the_loop()
            waiting.cancel()
            await turn_the_loop()
            assert waiting.cancelled()
            assert spent.reserved == 0.5
        assert spent.reserved == 0.0


@pytest.mark.parametrize(("dollars", "scored"), [(0.2, 1), (0.39, 1), (0.4, 2)])
async def test_no_rollout_starts_without_the_dollars_of_an_average_one(
    dollars: float, scored: int
) -> None:
    """The first rollout cost $0.40; these dollars are left for the second."""
    order: list[str] = []
    with budget(dollars=0.4 + dollars) as spent:
        await spend_rollout(0.4, order, "first")

        async def second() -> None:
            async with rollout_spending(), reserve_dollars(0.1):
                order.append("second")
                count_call(Usage(), 0.1)

        if scored == 1:
            with pytest.raises(BudgetExceeded):
                await second()
        else:
            await second()
    assert len(order) == scored
    assert spent.calls == scored


@pytest.mark.parametrize(("left", "starts"), [(0.7999, False), (0.8, True)])
async def test_two_rollouts_run_concurrently_if_there_are_dollars_for_both(
    left: float, starts: bool
) -> None:
    """Each may cost $0.40."""
    order: list[str] = []
    with budget(dollars=left, rollout=0.4):
        context = copy_context()
        async with rollout_spending():
            second = start_rollout("second", order, context, dollars=0.1)
            await turn_the_loop()
            assert order == (["second"] if starts else [])
        await asyncio.wait([second], timeout=60)


@pytest.mark.parametrize(("dollars", "fits"), [(0.5, True), (0.5001, False)])
async def test_a_call_is_made_up_to_the_last_dollar(dollars: float, fits: bool) -> None:
    with budget(dollars=0.5):
        if fits:
            async with reserve_dollars(dollars):
                pass
        else:
            with pytest.raises(BudgetExceeded, match=r"\$0\.0000 of \$0\.5000 are spent"):
                async with reserve_dollars(dollars):
                    raise AssertionError("it must not run")
