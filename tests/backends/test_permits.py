"""Limits and money are shared: what holds for one process holds for all workers together."""

import asyncio
import json
import os
import signal
from contextlib import closing, suppress
from multiprocessing import active_children

import pytest

from assay import PerCriterionGrader, Rubric
from assay.backends import PermitServer, Processes, score_shards
from assay.backends.client import PermitClient
from assay.backends.job import Permits
from assay.backends.shared import sharing
from assay.errors import BudgetExceeded, Overloaded
from assay.models import Limits, budget, model_of
from assay.models.model import Price
from assay.testing import ModelServer

WHERE = "http://judge"
DOLLAR = 1_000_000.0
"""A price a million tokens: each token costs a dollar."""


@pytest.fixture
def permits():
    with PermitServer() as server:
        yield server


async def held(turns):
    await turns.enter(1, again=False)
    return turns


class TestTurns:
    async def test_two_workers_share_a_limit(self, permits):
        """Two of three enter; the third when one of them leaves, though it is at another worker."""
        one, other = (PermitClient(permits.address) for _ in range(2))
        limits = Limits(concurrency=2)
        first = await held(one.turns(WHERE, limits))
        await held(other.turns(WHERE, limits))
        third = asyncio.create_task(held(other.turns(WHERE, limits)))
        await still_waits(third, one, limits)
        first.leave("answered", 0.1)
        await third
        await one.close()
        await other.close()

    async def test_endpoints_have_limits_of_their_own(self, permits):
        client = PermitClient(permits.address)
        await held(client.turns(WHERE, Limits(concurrency=1)))
        await held(client.turns("http://another", Limits(concurrency=1)))
        await client.close()

    async def test_whoever_hangs_up_gives_everything_back(self, permits):
        """Also the turn it still waits for."""
        one, other = (PermitClient(permits.address) for _ in range(2))
        limits = Limits(concurrency=1)
        await held(one.turns(WHERE, limits))
        waiting = asyncio.create_task(held(one.turns(WHERE, limits)))
        await still_waits(waiting, other, limits)
        await one.close()
        with pytest.raises(Overloaded, match="has gone"):
            await waiting
        await held(other.turns(WHERE, limits))
        await other.close()

    async def test_a_call_that_is_cancelled_takes_no_turn(self, permits):
        """Neither while it waits, nor when its turn has come and it does not know yet."""
        client = PermitClient(permits.address)
        limits = Limits(concurrency=1)
        turns = client.turns(WHERE, limits)
        await held(turns)
        waiting = asyncio.create_task(held(turns))
        await still_waits(waiting, client, limits)
        waiting.cancel()
        turns.leave(None)
        await held(turns)
        turns.leave(None)
        unaware = asyncio.create_task(held(turns))
        await asyncio.sleep(0)  # it has asked, and cannot have heard
        unaware.cancel()
        await asyncio.wait([waiting, unaware])
        await held(turns)
        await client.close()

    async def test_a_turn_of_a_broken_connection_is_given_back_once(self, permits):
        """Whoever left it twice would let in one too many."""
        client = PermitClient(permits.address)
        turns = client.turns(WHERE, Limits(concurrency=1))
        await held(turns)
        await client.close()
        await held(turns)
        turns.leave(None)  # the one from before
        second = asyncio.create_task(held(turns))
        await still_waits(second, client, Limits(concurrency=1))
        turns.leave(None)
        await second
        await client.close()


async def still_waits(task, client, limits):
    """By the time that somebody else has had a turn, it would have had one."""
    for _ in range(3):
        other = client.turns("http://free", limits)
        await held(other)
        other.leave(None)
    assert not task.done()


class TestDoor:
    @pytest.mark.parametrize("secret", [b"wrong", b"", b"\xff" * 70_000])
    async def test_a_wrong_secret_is_shown_the_door(self, permits, secret):
        """Without a word, however it is wrong."""
        host, port = permits.address.partition("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        with closing(writer):
            writer.write(secret + b'\n{"reserve": 0, "id": 1}\n')
            with suppress(ConnectionResetError):  # it may hang up before all was said
                assert await reader.read() == b""

    @pytest.mark.parametrize("said", [b"5", b"{", b"[]", b'{"leave": 1}', b'{"enter": "x", "id": 2}'])
    async def test_what_nobody_understands_ends_the_connection(self, permits, said):
        """And no other one."""
        client = PermitClient(permits.address)
        await held(client.turns(WHERE, Limits(concurrency=1)))
        place, secret = permits.address.split("/")
        reader, writer = await asyncio.open_connection(*place.split(":"))
        with closing(writer):
            writer.write(secret.encode() + b"\n" + said + b"\n")
            assert await reader.read() == b""
        await held(client.turns("http://free", Limits(concurrency=1)))
        await client.close()

    async def test_without_a_server_there_is_no_score(self):
        """An error on the line, which is not a zero."""
        with PermitServer() as gone:
            address = gone.address
        with ModelServer("UNMET") as judge:
            grader = PerCriterionGrader(model=model_of(judge.model))
            rubric = Rubric.from_dict([{"requirement": "Is rude", "weight": -1}])
            async with sharing(Permits(address)):
                [report] = await rubric.score([{"completion": "x"}], autograder=grader)
        assert not report.scored
        assert "nobody hands out turns at 127.0.0.1" in str(report.errors)
        assert judge.asked == []


class TestMoney:
    async def test_workers_spend_from_one_purse(self):
        """Ten dollars: 4 and 4 are set aside, 3 more have to wait until it is known what was spent."""
        with PermitServer(money=10.0) as server:
            one, other = (PermitClient(server.address) for _ in range(2))
            number = await one.here.reserve(4.0)
            await other.here.reserve(4.0)
            third = asyncio.create_task(other.here.reserve(3.0))
            await still_waits(third, one, Limits())
            one.tell({"spent": [9, 0, 1, 0], "cost": 3.0, "model": "m", "rollout": None})
            one.tell({"settle": number})  # 3 spent, 4 set aside, 3 left
            await third
            await one.close()
            await other.close()

    async def test_what_a_lost_worker_had_set_aside_counts_as_spent(self):
        """Its endpoint may have answered, and then it costs."""
        with PermitServer(money=10.0) as server:
            lost, other = (PermitClient(server.address) for _ in range(2))
            await lost.here.reserve(6.0)
            await lost.close()
            with pytest.raises(BudgetExceeded, match=r"\$6.0000 of \$10.0000 are spent"):
                await other.here.reserve(5.0)
            await other.close()

    async def test_what_is_cancelled_costs_nothing(self):
        with PermitServer(money=10.0) as server:
            client = PermitClient(server.address)
            unaware = asyncio.create_task(client.here.reserve(8.0))
            await asyncio.sleep(0)
            unaware.cancel()
            await asyncio.wait([unaware])
            await client.here.reserve(9.0)
            await client.close()


def judged(url, limits, price):
    """What workers make: a rubric that a server judges."""
    model = model_of(url, limits=Limits(**limits), price=price and Price(**price))
    return Rubric.from_dict([{"requirement": "Says yes"}]), PerCriterionGrader(model=model)


class Making:
    """A `Make` that travels."""

    def __init__(self, url, price=None, **limits):
        self.arguments = (url, limits, price)

    def __call__(self):
        return judged(*self.arguments)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"completion": f"text {n}"}) + "\n" for n in range(60)))
    return path


@pytest.mark.slow
class TestWorkers:
    def test_a_limit_is_one_for_all_workers(self, rows, tmp_path):
        """Three at once, though two workers have sixty rows to ask for. Progress tells of the calls."""
        seen = []
        with ModelServer("MET", latency=0.02) as judge:
            found = score_shards(
                Making(judge.model, concurrency=3), [rows], tmp_path / "run",
                engine=Processes(2), rows=10, on_progress=seen.append,
            )  # fmt: skip
            assert (found.rollouts, found.score.mean, found.spent.calls) == (60, 1.0, 60)
            assert judge.most_at_once == 3
        assert (seen[-1].done, seen[-1].calls) == (60, 60)

    def test_the_turns_of_a_killed_worker_come_back(self, rows, tmp_path):
        """With one turn for all, a turn that was lost would be the last."""
        killed = []

        def answer(system, user):
            if len(judge.asked) == 10 and not killed:
                killed.append(active_children()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            return "MET"

        with ModelServer(answer) as judge:
            found = score_shards(
                Making(judge.model, concurrency=1), [rows], tmp_path / "run",
                engine=Processes(2), rows=10,
            )  # fmt: skip
        assert killed
        assert (found.rollouts, found.unscored, found.score.mean) == (60, 0, 1.0)

    def test_money_is_one_sum_for_all_workers(self, rows, tmp_path):
        """Every token costs a dollar. What is left unasked is an error, and counted."""
        price = {"input": DOLLAR, "output": DOLLAR}
        with ModelServer("MET") as judge, budget(dollars=5000.0) as spent:
            found = score_shards(
                Making(judge.model, price=price), [rows], tmp_path / "run",
                engine=Processes(2), rows=10,
            )  # fmt: skip
            tokens = judge.prompt_tokens + judge.completion_tokens
        assert spent.cost == pytest.approx(tokens)
        assert spent.cost <= 5000
        assert 0 < found.scored < 60
        assert found.errors == {"BudgetExceeded": found.unscored}
        assert spent.errors["BudgetExceeded"] == found.unscored
