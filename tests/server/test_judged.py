"""Rubrics with a judge: verdicts are cached, calls are counted, and an outage never becomes a zero."""

import pytest

from assay import BudgetExceeded, Price
from assay.server import JudgeSettings, serve
from assay.server.reload import RubricLoader
from assay.server.server_folder import PublishedRubric
from assay.server.settings import SettingsError
from assay.testing import Fault, ModelServer

pytestmark = pytest.mark.slow

JUDGED = "- {requirement: Names the capital, weight: 2}\n- check: {max_words: 3}\n"


def answer_by_text(system, user):
    return "MET" if "Paris" in user else "UNMET"


@pytest.fixture
def judge():
    with ModelServer(answer_by_text) as server:
        yield server


def test_verdicts_of_the_judge_are_cached_across_restarts(start_server, judge, tmp_path):
    """2 + 1 for Paris, 0 + 1 for Lyon; the second request and the second server call no judge."""
    cache = str(tmp_path / "verdicts")
    server = start_server(JUDGED, judge={"judge": judge.model, "cache": cache})
    for _ in range(2):
        items = server.score("Paris", "Lyon").data["items"]
        assert [item["reward"] for item in items] == [3.0, 1.0]
    assert judge.calls == 2
    standard_error = server.stop()
    assert "Traceback" not in standard_error
    restarted = start_server(JUDGED, judge={"judge": judge.model, "cache": cache})
    assert restarted.score("Paris").data["items"][0]["reward"] == 3.0
    assert judge.calls == 2


def test_judge_calls_and_tokens_are_counted(start_server, judge, wait_until):
    """The judge may be given by its name only."""
    server = start_server(JUDGED, judge=judge.model)
    server.score("Paris", "Lyon")
    wait_until(lambda: server.metrics()["assay_judge_calls_total"] == 2)
    metrics = server.metrics()
    assert metrics['assay_judge_tokens_total{kind="prompt"}'] == judge.prompt_tokens
    assert metrics['assay_judge_tokens_total{kind="completion"}'] == judge.completion_tokens


def test_the_number_of_judge_calls_is_limited(start_server, judge):
    """The second rollout has no verdict and therefore no score."""
    server = start_server(JUDGED, judge={"judge": judge.model, "max_calls": 1})
    items = server.score("Paris", "Lyon").data["items"]
    assert sorted(item["reward"] is None for item in items) == [False, True]
    assert len(judge.requests) == 1


def test_a_budget_in_dollars_needs_the_price_of_the_judge(rubric_file, judge):
    """Without the price the rubric is refused before anything is served."""
    rubric = PublishedRubric.read(str(rubric_file(JUDGED)))
    with pytest.raises(BudgetExceeded, match="--price"):
        RubricLoader(JudgeSettings(judge.model, budget=1.0)).load(rubric)
    priced = JudgeSettings(judge.model, budget=1.0, price=Price(input=0, output=0))
    assert RubricLoader(priced).load(rubric).grader is not None


def test_the_judge_of_the_server_replaces_the_judge_of_the_rubric(tmp_path, judge, monkeypatch):
    """In a rubric group too. Without a server judge, each rubric keeps its own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "served_with_judge.py").write_text(
        "from assay import Rubric, RubricGroup\n"
        "from assay.testing import FakeModel\n"
        "own = Rubric([{'requirement': 'Names Paris'}], judge=FakeModel('UNMET'))\n"
        "group = RubricGroup([own])\n"
    )
    published = PublishedRubric.read("served_with_judge:group", allow_code=True)
    without_server_judge = RubricLoader(JudgeSettings()).load(published)
    assert without_server_judge.grade_sync("Paris").score == 0.0
    with_server_judge = RubricLoader(JudgeSettings(judge.model)).load(published)
    assert with_server_judge.grade_sync("Paris").score == 1.0


def test_a_judge_that_cannot_be_sent_to_workers_is_refused(rubric_file):
    with pytest.raises(SettingsError, match="cannot be sent to worker processes"):
        serve(str(rubric_file(JUDGED)), judge=lambda system_prompt, user_prompt: "MET")


def test_an_outage_of_the_judge_leaves_rollouts_unscored(start_server):
    """The native route returns null and the error; routes that return plain numbers return an error status."""
    with ModelServer(faults=lambda number: Fault.refusing("no such model")) as judge:
        server = start_server(JUDGED, judge={"judge": judge.model})
        [item] = server.score("Paris").data["items"]
        refused = server.request("/slime", {"response": "Paris"})
    assert (item["reward"], item["score"]) == (None, None)
    assert "no such model" in item["errors"]["names_the_capital"]
    assert refused.status == 422
    assert "no such model" in refused.error


def test_a_judge_that_hangs_leaves_only_its_rollout_unscored(start_server):
    """Of two rollouts, the one whose judge call is answered gets its score."""

    def faults(number):
        return Fault.hanging() if number == 0 else None

    with ModelServer(answer_by_text, faults=faults) as judge:
        server = start_server(JUDGED, judge={"judge": judge.model}, bounds={"item_seconds": 1})
        items = server.score("Paris", "Paris, too").data["items"]
        server.stop()
    assert sorted(item["reward"] or 0 for item in items) == [0, 3.0]
    assert sum("errors" in item for item in items) == 1


def test_a_judged_rubric_without_a_judge_does_not_start(
    rubric_file, server_process_class, monkeypatch
):
    """The error says what to do."""
    monkeypatch.delenv("ASSAY_JUDGE", raising=False)
    server = server_process_class(rubric_file(JUDGED))
    standard_error = server.stop()
    assert server.process.returncode == 1
    assert "ASSAY_JUDGE" in standard_error


def test_the_server_decides_what_the_judge_is_shown(start_server):
    """Its setting overrides the one of the rubric, also for rubrics of single rollouts."""
    chat = [
        {"role": "assistant", "content": "Paris"},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]
    row_rubric = {"criteria": [{"requirement": "Names Paris"}], "shows": "all"}
    rollouts = [
        {"prompt": "Capital?", "completion": chat},
        {"prompt": "Capital?", "completion": chat, "columns": {"rubric": row_rubric}},
    ]
    with ModelServer(
        lambda system, user: "MET" if "Paris</turn>" in user.replace("\n", "") else "UNMET"
    ) as judge:
        for shows, scores in (([], [1.0, 1.0]), (["last"], [0.0, 0.0])):
            server = start_server(
                "- requirement: Says Paris\n", judge={"judge": judge.model, "shows": shows}
            )
            items = server.request("/v1/score", {"rollouts": rollouts}).data["items"]
            assert [item["score"] for item in items] == scores
