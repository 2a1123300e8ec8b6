"""The rubric file may change while it is served; a half-written file is never used."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay import Rollout
from assay.server import RemoteRubric

pytestmark = pytest.mark.slow

ONE_POINT = '- {check: {contains: "4"}, weight: 1}\n'
FIVE_POINTS = '- {check: {contains: "4"}, weight: 1}\n- {check: {max_words: 3}, weight: 4}\n'


def get_reward(server):
    return server.score("4").data["items"][0]["reward"]


def replace_file(path, text):
    """Replace a file atomically."""
    new_path = path.with_suffix(".new")
    new_path.write_text(text)
    new_path.replace(path)


def test_a_changed_file_is_reloaded_by_all_workers(start_server, wait_until):
    """1 point becomes 1 + 4, under another hash; no request is refused meanwhile."""
    server = start_server(ONE_POINT, workers=2)
    before = server.ready()["rubric"]
    replace_file(server.rubric, FIVE_POINTS)
    seen = set()

    def all_answers_are_new():
        answers = [server.score("4") for _ in range(8)]
        assert all(answer.status == 200 for answer in answers)
        pairs = {(a.data["rubric"], a.data["items"][0]["reward"]) for a in answers}
        seen.update(pairs)
        return {reward for _, reward in pairs} == {5.0}

    wait_until(all_answers_are_new)
    assert len({reward for _, reward in seen}) == len({digest for digest, _ in seen})
    wait_until(lambda: server.ready()["rubric"] != before)
    assert server.metrics()["assay_rubric_reloads_total"] == 1


def test_every_response_under_load_comes_from_one_version(start_server, wait_until):
    """Four clients send requests without a pause while the rubric changes three times."""
    server = start_server(ONE_POINT, workers=2)
    stop = threading.Event()

    def send_requests_until_stopped():
        answers = []
        while not stop.is_set():
            answers.append(server.score("4", "4 and 4 and 4"))
        return answers

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(send_requests_until_stopped) for _ in range(4)]
        for weight in (2, 3, 4):
            replace_file(server.rubric, ONE_POINT.replace("weight: 1", f"weight: {weight}"))
            wait_until(lambda weight=weight: {get_reward(server) for _ in range(10)} == {weight})
        stop.set()
        answers = [answer for future in clients for answer in future.result()]
    assert {answer.status for answer in answers} == {200}
    rewards = {}
    for answer in answers:
        items = tuple(item["reward"] for item in answer.data["items"])
        rewards.setdefault(answer.data["rubric"], set()).add(items)
    assert sorted(rewards.values(), key=sorted) == [{(w, w)} for w in (1.0, 2.0, 3.0, 4.0)]


def test_an_invalid_file_leaves_the_previous_rubric_in_use(start_server, wait_until):
    """The error is shown in readiness and metrics until the file is fixed."""
    server = start_server(ONE_POINT)
    replace_file(server.rubric, "- {check: exakt_match}\n")
    failed = wait_until(lambda: server.ready() if server.ready()["reload_failed"] else None)
    assert failed["ready"] is True
    assert "rubric.yaml:1: criterion 1" in failed["reload_error"]
    assert "exakt_match" in failed["reload_error"]
    assert server.metrics()["assay_rubric_reload_failed"] == 1
    assert get_reward(server) == 1.0
    replace_file(server.rubric, FIVE_POINTS)
    wait_until(lambda: get_reward(server) == 5.0)
    assert server.ready()["reload_failed"] is False
    metrics = server.metrics()
    assert metrics["assay_rubric_reload_failed"] == 0
    assert metrics["assay_rubric_reload_failures_total"] == 1


def test_a_file_that_is_still_being_written_is_not_loaded(start_server, wait_until):
    """Its first half is a valid rubric too, of 1 point; only the whole file, of 1 + 4, is ever served."""
    server = start_server("- {check: {max_words: 3}, weight: 9}\n")
    with server.rubric.open("w") as file:
        file.write(ONE_POINT)
        file.flush()
        seen = {get_reward(server) for _ in range(400)}
        file.write(FIVE_POINTS.removeprefix(ONE_POINT))
    wait_until(lambda: seen.add(get_reward(server)) or 5.0 in seen)
    assert seen == {9.0, 5.0}


def test_sighup_replaces_the_workers_one_by_one(start_server, wait_until):
    """Python code that a rubric names is loaded again; requests meanwhile are answered or get 503."""
    server = start_server('- {check: "steered:made_of_four"}', workers=2)
    assert get_reward(server) == 1.0
    before = set(server.workers())
    checks = server.rubric.with_name("steered.py")
    # The new source is longer: Python reuses bytecode of a source with the same size and second.
    checks.write_text(checks.read_text().replace("MADE_OF_FOUR = 1.0", "MADE_OF_FOUR = 3.0  # new"))
    server.process.send_signal(signal.SIGHUP)
    answers = []
    wait_until(
        lambda: answers.append(server.score("4").status) or before.isdisjoint(server.workers()), 60
    )
    assert set(answers) <= {200, 503}
    assert {get_reward(server) for _ in range(8)} == {3.0}


def test_workers_stay_until_replacements_can_start(start_server, wait_until):
    """The code is broken when all workers should be replaced, and repaired later."""
    server = start_server('- {check: "steered:made_of_four"}', workers=2)
    before = set(server.workers())
    checks = server.rubric.with_name("steered.py")
    valid_source = checks.read_text()
    checks.write_text("raise RuntimeError('this code is broken')")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.metrics()["assay_worker_restarts_total"] >= 3)
    assert before <= set(server.workers())
    assert {get_reward(server) for _ in range(8)} == {1.0}
    checks.write_text(valid_source.replace("MADE_OF_FOUR = 1.0", "MADE_OF_FOUR = 3.0  # new"))
    wait_until(lambda: before.isdisjoint(server.workers()), 60)
    assert {get_reward(server) for _ in range(8)} == {3.0}


def test_a_replaced_worker_serves_the_last_valid_version(start_server, wait_until):
    """Even while the file is invalid."""
    server = start_server(ONE_POINT, workers=2)
    replace_file(server.rubric, FIVE_POINTS)
    wait_until(lambda: server.metrics()["assay_rubric_reloads_total"] == 1)
    server.rubric.write_text("nonsense: [")
    wait_until(lambda: server.ready()["reload_failed"])
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: server.metrics()["assay_worker_restarts_total"] == 2)
    wait_until(lambda: server.ready()["ready"])
    assert {get_reward(server) for _ in range(10)} == {5.0}
    assert server.ready()["reload_failed"] is True


def test_a_file_that_is_missing_for_a_moment_is_ignored(start_server, wait_until):
    """Some editors save under another name first."""
    server = start_server(ONE_POINT)
    server.rubric.unlink()
    assert get_reward(server) == 1.0
    server.rubric.write_text(FIVE_POINTS)
    wait_until(lambda: get_reward(server) == 5.0)


async def test_a_pinned_remote_rubric_keeps_its_version_until_it_is_updated(
    start_server, wait_until
):
    """Rollouts before and after the file changes have the same hash and reward, until `update()`."""
    server = start_server(ONE_POINT, workers=2)
    pinned = RemoteRubric(server.url, pinned=True)
    before = await pinned.score([Rollout(completion="4")] * 2)
    replace_file(server.rubric, FIVE_POINTS)
    # 40 requests, so that both workers answer some of them.
    wait_until(lambda: {server.score("4").data["items"][0]["reward"] for _ in range(40)} == {5.0})
    after = [(await pinned.score([Rollout(completion="4")]))[0] for _ in range(8)]
    assert {report.raw_score for report in before + after} == {1.0}
    assert {report.version for report in before + after} == {before[0].version}
    assert await pinned.update() != before[0].version
    updated = await pinned.score([Rollout(completion="4")] * 2)
    assert [report.raw_score for report in updated] == [5.0, 5.0]
    assert {report.version for report in updated} == {pinned.version}


async def test_all_rollouts_of_one_call_are_scored_by_one_version(
    start_server, wait_until, tmp_path
):
    """The file changes after the first of four requests: in the end all four are of the new version."""
    gate = tmp_path / "gate"
    old = '- {check: "steered:when_told", weight: 1}\n'
    server = start_server(old)
    remote = RemoteRubric(server.url, batch_size=1, at_once=1)
    first = (await remote.score([Rollout(completion="4")]))[0].version
    group = [Rollout(completion=text) for text in ("4", str(gate), "4", "4")]
    scoring = asyncio.create_task(remote.score(group))
    await asyncio.to_thread(
        wait_until, lambda: list(tmp_path.glob("gate.began-*"))
    )  # the second request is in progress
    replace_file(server.rubric, old.replace("weight: 1", "weight: 3"))
    await asyncio.to_thread(wait_until, lambda: get_reward(server) == 3.0)
    gate.touch()
    reports = await scoring
    assert {(report.raw_score, report.version) for report in reports} == {
        (3.0, await remote.update())
    }
    assert remote.version != first


def test_an_unknown_version_is_answered_with_409(start_server):
    """Any route accepts `rubric=HASH`: the version that is served is used, and any other is refused."""
    server = start_server(ONE_POINT)
    served = server.ready()["rubric"]
    body = {"rollouts": [{"completion": "4"}]}
    assert server.request(f"/v1/score?rubric={served}", body).data["rubric"] == served
    refused = server.request("/slime?rubric=abc", {"response": "4"})
    assert refused.status == 409
    assert "not the version 'abc'" in refused.error
