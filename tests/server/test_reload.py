"""The rubric file may change while it is served; a half-written one never counts."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay import Rollout
from assay.server import RemoteRubric

pytestmark = pytest.mark.slow

ONE = '- {check: {contains: "4"}, weight: 1}\n'
TWO = '- {check: {contains: "4"}, weight: 1}\n- {check: {max_words: 3}, weight: 4}\n'


def reward(server):
    return server.score("4").data["items"][0]["reward"]


def replace(path, text):
    """Write a file beside it, then put it in its place: all at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_a_changed_file_is_served_by_all_workers(start, until):
    """1 point becomes 1 + 4, under another hash; no request is refused meanwhile."""
    server = start(ONE, workers=2)
    before = server.ready()["rubric"]
    replace(server.rubric, TWO)
    seen = set()

    def all_new():
        answers = [server.score("4") for _ in range(8)]
        assert all(answer.status == 200 for answer in answers)
        pairs = {(a.data["rubric"], a.data["items"][0]["reward"]) for a in answers}
        seen.update(pairs)
        return {points for _, points in pairs} == {5.0}

    until(all_new)
    assert len({number for _, number in seen}) == len({digest for digest, _ in seen})
    until(lambda: server.ready()["rubric"] != before)
    assert server.metrics()["assay_rubric_reloads_total"] == 1


def test_replies_under_load_are_of_one_version_each(start, until):
    """Four clients ask without a pause while the rubric changes three times: each reply is of one version."""
    server = start(ONE, workers=2)
    over = threading.Event()

    def ask_again_and_again():
        answers = []
        while not over.is_set():
            answers.append(server.score("4", "4 and 4 and 4"))
        return answers

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask_again_and_again) for _ in range(4)]
        for weight in (2, 3, 4):
            replace(server.rubric, ONE.replace("weight: 1", f"weight: {weight}"))
            until(lambda weight=weight: {reward(server) for _ in range(10)} == {weight})
        over.set()
        answers = [answer for future in asking for answer in future.result()]
    assert {answer.status for answer in answers} == {200}
    rewards = {}
    for answer in answers:
        items = tuple(item["reward"] for item in answer.data["items"])
        rewards.setdefault(answer.data["rubric"], set()).add(items)
    assert sorted(rewards.values(), key=sorted) == [{(w, w)} for w in (1.0, 2.0, 3.0, 4.0)]


def test_a_file_that_cannot_be_read_leaves_the_old_one_in_place(start, until):
    """What is wrong stands in readiness and metrics, until it is mended."""
    server = start(ONE)
    replace(server.rubric, "- {check: exakt_match}\n")
    failed = until(lambda: server.ready() if server.ready()["reload_failed"] else None)
    assert failed["ready"] is True
    assert "rubric.yaml:1: criterion 1" in failed["reload_error"]
    assert "exakt_match" in failed["reload_error"]
    assert server.metrics()["assay_rubric_reload_failed"] == 1
    assert reward(server) == 1.0
    replace(server.rubric, TWO)
    until(lambda: reward(server) == 5.0)
    assert server.ready()["reload_failed"] is False
    metrics = server.metrics()
    assert metrics["assay_rubric_reload_failed"] == 0
    assert metrics["assay_rubric_reload_failures_total"] == 1


def test_a_file_that_is_still_being_written_is_left_alone(start, until):
    """Its first half is a rubric too, of 1 point; only the whole, of 1 + 4, is ever served."""
    server = start("- {check: {max_words: 3}, weight: 9}\n")
    with server.rubric.open("w") as file:
        file.write(ONE)
        file.flush()
        seen = {reward(server) for _ in range(400)}
        file.write(TWO.removeprefix(ONE))
    until(lambda: seen.add(reward(server)) or 5.0 in seen)
    assert seen == {9.0, 5.0}


def test_sighup_replaces_the_workers_one_by_one(start, until):
    """So that Python code that a rubric names is loaded anew; a request is answered or told to come back."""
    server = start('- {check: "steered:made_of_four"}', workers=2)
    assert reward(server) == 1.0
    before = set(server.workers())
    checks = server.rubric.with_name("steered.py")
    # Longer, since Python takes a source of the same size and second for the one it compiled.
    checks.write_text(checks.read_text().replace("MADE_OF_FOUR = 1.0", "MADE_OF_FOUR = 3.0  # new"))
    server.process.send_signal(signal.SIGHUP)
    answers = []
    until(
        lambda: answers.append(server.score("4").status) or before.isdisjoint(server.workers()), 60
    )
    assert set(answers) <= {200, 503}
    assert {reward(server) for _ in range(8)} == {3.0}


def test_a_worker_that_is_replaced_serves_what_the_others_do(start, until):
    """Also while the file is broken: the last good one counts."""
    server = start(ONE, workers=2)
    replace(server.rubric, TWO)
    until(lambda: server.metrics()["assay_rubric_reloads_total"] == 1)
    server.rubric.write_text("nonsense: [")
    until(lambda: server.ready()["reload_failed"])
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)
    until(lambda: server.metrics()["assay_worker_restarts_total"] == 2)
    until(lambda: server.ready()["ready"])
    assert {reward(server) for _ in range(10)} == {5.0}
    assert server.ready()["reload_failed"] is True


def test_a_file_that_is_gone_for_a_moment_is_no_news(start, until):
    """As when an editor saves under another name first."""
    server = start(ONE)
    server.rubric.unlink()
    assert reward(server) == 1.0
    server.rubric.write_text(TWO)
    until(lambda: reward(server) == 5.0)


async def test_a_pinned_group_is_finished_by_the_version_it_began_with(start, until):
    """Two rollouts before the file changes, and two after: the same hash and reward, until the trainer moves on."""
    server = start(ONE, workers=2)
    pinned = RemoteRubric(server.url, pinned=True)
    before = await pinned.score([Rollout(completion="4")] * 2)
    replace(server.rubric, TWO)
    # So many that both workers are among those that answer.
    until(lambda: {server.score("4").data["items"][0]["reward"] for _ in range(40)} == {5.0})
    after = [(await pinned.score([Rollout(completion="4")]))[0] for _ in range(8)]
    assert {report.raw_score for report in before + after} == {1.0}
    assert {report.version for report in before + after} == {before[0].version}
    assert await pinned.update() != before[0].version
    moved = await pinned.score([Rollout(completion="4")] * 2)
    assert [report.raw_score for report in moved] == [5.0, 5.0]
    assert {report.version for report in moved} == {pinned.version}


async def test_one_call_has_one_version_whatever_is_reloaded_in_the_middle(start, until, tmp_path):
    """Four requests one after the other; the file changes after the first: all four are of the new version in the end."""
    gate = tmp_path / "gate"
    old = '- {check: "steered:when_told", weight: 1}\n'
    server = start(old)
    remote = RemoteRubric(server.url, batch_size=1, at_once=1)
    first = (await remote.score([Rollout(completion="4")]))[0].version
    group = [Rollout(completion=text) for text in ("4", str(gate), "4", "4")]
    scoring = asyncio.create_task(remote.score(group))
    await asyncio.to_thread(
        until, lambda: list(tmp_path.glob("gate.began-*"))
    )  # the second is under way
    replace(server.rubric, old.replace("weight: 1", "weight: 3"))
    await asyncio.to_thread(until, lambda: reward(server) == 3.0)
    gate.touch()
    reports = await scoring
    assert {(report.raw_score, report.version) for report in reports} == {
        (3.0, await remote.update())
    }
    assert remote.version != first


def test_a_version_that_is_not_there_is_said_so(start):
    """Any route takes `rubric=HASH`: one that is served is scored by, and another is 409."""
    server = start(ONE)
    served = server.ready()["rubric"]
    body = {"rollouts": [{"completion": "4"}]}
    assert server.ask(f"/v1/score?rubric={served}", body).data["rubric"] == served
    refused = server.ask("/slime?rubric=abc", {"response": "4"})
    assert refused.status == 409
    assert "not the version 'abc'" in refused.error
