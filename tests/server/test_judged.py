"""A rubric that a model judges: the server asks, keeps, counts, and never takes an outage for a zero."""

import pytest

from assay import BudgetExceeded, Price
from assay.server import JudgeSettings, serve
from assay.server.reload import RubricLoader
from assay.server.server_folder import PublishedRubric
from assay.server.settings import SettingsError
from assay.testing import Fault, ModelServer

pytestmark = pytest.mark.slow

JUDGED = "- {requirement: Names the capital, weight: 2}\n- check: {max_words: 3}\n"


def by_the_text(system, user):
    return "MET" if "Paris" in user else "UNMET"


@pytest.fixture
def judge():
    with ModelServer(by_the_text) as server:
        yield server


def test_a_judge_is_asked_and_its_verdicts_are_kept(start, judge, tmp_path):
    """2 + 1 for Paris, 0 + 1 for Lyon; asked again, nobody is asked."""
    place = str(tmp_path / "verdicts")
    server = start(JUDGED, judge={"judge": judge.model, "cache": place})
    for _ in range(2):
        items = server.score("Paris", "Lyon").data["items"]
        assert [item["reward"] for item in items] == [3.0, 1.0]
    assert judge.calls == 2
    said = server.stop()
    assert "Traceback" not in said
    again = start(JUDGED, judge={"judge": judge.model, "cache": place})
    assert again.score("Paris").data["items"][0]["reward"] == 3.0
    assert judge.calls == 2


def test_what_is_asked_is_counted(start, judge, until):
    """Calls and tokens, for Prometheus. The judge may be given by its name alone."""
    server = start(JUDGED, judge=judge.model)
    server.score("Paris", "Lyon")
    until(lambda: server.metrics()["assay_judge_calls_total"] == 2)
    metrics = server.metrics()
    assert metrics['assay_judge_tokens_total{kind="prompt"}'] == judge.prompt_tokens
    assert metrics['assay_judge_tokens_total{kind="completion"}'] == judge.completion_tokens


def test_calls_are_limited(start, judge):
    """The second rollout has no answer and therefore no score."""
    server = start(JUDGED, judge={"judge": judge.model, "max_calls": 1})
    items = server.score("Paris", "Lyon").data["items"]
    assert sorted(item["reward"] is None for item in items) == [False, True]
    assert len(judge.asked) == 1


def test_a_budget_in_dollars_needs_the_price_of_the_judge(rubric_file, judge):
    """Refused before anything is served; with the price it is served."""
    rubric = PublishedRubric.read(str(rubric_file(JUDGED)))
    with pytest.raises(BudgetExceeded, match="--price"):
        RubricLoader(JudgeSettings(judge.model, budget=1.0)).load(rubric)
    priced = JudgeSettings(judge.model, budget=1.0, price=Price(input=0, output=0))
    assert RubricLoader(priced).load(rubric).grader is not None


def test_the_judge_of_the_server_takes_the_place_of_that_of_the_rubric(
    tmp_path, judge, monkeypatch
):
    """In a group too; without one, each rubric keeps its own, and none is needed."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "served_with_judge.py").write_text(
        "from assay import Rubric, RubricGroup\n"
        "from assay.testing import FakeModel\n"
        "own = Rubric([{'requirement': 'Names Paris'}], judge=FakeModel('UNMET'))\n"
        "group = RubricGroup([own])\n"
    )
    published = PublishedRubric.read("served_with_judge:group", allow_code=True)
    unnamed = RubricLoader(JudgeSettings()).load(published)
    assert unnamed.grade_sync("Paris").score == 0.0
    named = RubricLoader(JudgeSettings(judge.model)).load(published)
    assert named.grade_sync("Paris").score == 1.0


def test_a_judge_that_cannot_be_sent_to_workers_is_refused(rubric_file):
    with pytest.raises(SettingsError, match="cannot be sent to worker processes"):
        serve(str(rubric_file(JUDGED)), judge=lambda system_prompt, user_prompt: "MET")


def test_an_outage_leaves_rollouts_without_a_score(start):
    """Null and the error on the native route, an error status where only numbers go."""
    with ModelServer(faults=lambda number: Fault.refusing("no such model")) as judge:
        server = start(JUDGED, judge={"judge": judge.model})
        [item] = server.score("Paris").data["items"]
        refused = server.ask("/slime", {"response": "Paris"})
    assert (item["reward"], item["score"]) == (None, None)
    assert "no such model" in item["errors"]["names_the_capital"]
    assert refused.status == 422
    assert "no such model" in refused.error


def test_a_judge_that_hangs_ends_at_the_deadline(start):
    """Of two rollouts, the one whose judge answers has its score."""

    def faults(number):
        return Fault.hanging() if number == 0 else None

    with ModelServer(by_the_text, faults=faults) as judge:
        server = start(JUDGED, judge={"judge": judge.model}, bounds={"item_seconds": 1})
        items = server.score("Paris", "Paris, too").data["items"]
        server.stop()
    assert sorted(item["reward"] or 0 for item in items) == [0, 3.0]
    assert sum("errors" in item for item in items) == 1


def test_a_judged_rubric_without_a_judge_does_not_start(rubric_file, running_kind, monkeypatch):
    """It says what to do."""
    monkeypatch.delenv("ASSAY_JUDGE", raising=False)
    server = running_kind(rubric_file(JUDGED))
    said = server.stop()
    assert server.process.returncode == 1
    assert "ASSAY_JUDGE" in said


def test_what_the_judge_is_shown_is_said_by_the_server(start):
    """Before what the rubric says, and for the rubrics that rollouts bring too."""
    chat = [
        {"role": "assistant", "content": "Paris"},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]
    own = {"criteria": [{"requirement": "Names Paris"}], "shows": "all"}
    rollouts = [
        {"prompt": "Capital?", "completion": chat},
        {"prompt": "Capital?", "completion": chat, "columns": {"rubric": own}},
    ]
    with ModelServer(
        lambda system, user: "MET" if "Paris</turn>" in user.replace("\n", "") else "UNMET"
    ) as judge:
        for shows, scores in (([], [1.0, 1.0]), (["last"], [0.0, 0.0])):
            server = start(
                "- requirement: Says Paris\n", judge={"judge": judge.model, "shows": shows}
            )
            found = server.ask("/v1/score", {"rollouts": rollouts}).data["items"]
            assert [each["score"] for each in found] == scores
