"""`POST /v1/score` returns a score for each rollout, or the reason why there is none."""

import pytest

ROLLOUT = {"prompt": "2+2?", "completion": "4", "answer": "4"}


def test_the_reward_is_the_weighted_sum_and_the_score_its_share_of_the_maximum(server):
    """A correct, short answer with a 4 gets 3.5 of 3.5; an answer that is only short gets 1 of 3.5."""
    body = {"rollouts": [ROLLOUT, ROLLOUT | {"completion": "five"}]}
    items = server.request("/v1/score", body).data["items"]
    assert items == [{"reward": 3.5, "score": 1.0}, {"reward": 1.0, "score": 1 / 3.5}]


def test_a_request_without_rollouts_gets_no_items(server):
    assert server.request("/v1/score", {"rollouts": []}).data["items"] == []


def test_a_response_contains_the_hash_of_the_rubric(server):
    """The hash is in the body, in a header and in the description of the rubric."""
    answer = server.request("/v1/score", {"rollouts": [ROLLOUT]})
    described = server.request("/v1/rubric", method="GET").data
    assert answer.data["rubric"] == answer.headers["x-assay-rubric"] == described["rubric"]
    assert [criterion["name"] for criterion in described["criteria"]] == [
        "exact_match",
        "max_words",
        "contains",
    ]


def test_a_report_with_every_criterion_is_returned_on_request(server):
    """Each line has its weight and value."""
    body = {"rollouts": [ROLLOUT], "report": True}
    [item] = server.request("/v1/score", body).data["items"]
    lines = [(line["name"], line["weight"], line["value"]) for line in item["report"]["report"]]
    assert lines == [("exact_match", 2.0, 1.0), ("max_words", 1.0, 1.0), ("contains", 0.5, 1.0)]


def test_a_chat_is_scored_by_its_last_assistant_message(server):
    chat = [{"role": "assistant", "content": "5"}, {"role": "assistant", "content": "4"}]
    [item] = server.request("/v1/score", {"rollouts": [ROLLOUT | {"completion": chat}]}).data[
        "items"
    ]
    assert item["reward"] == 3.5


def test_a_rollout_may_consist_of_a_state_only(server):
    """The fields of the state become the fields of the rollout."""
    state = {"completion": "4", "answer": "4", "turn": 3}
    [item] = server.request("/v1/score", {"rollouts": [{"state": state}]}).data["items"]
    assert item["reward"] == 3.5


def test_a_lone_surrogate_is_scored_like_other_text(server):
    """Models under test write them. This answer is short but wrong."""
    body = b'{"rollouts": [{"completion": "\\ud800", "answer": "4"}]}'
    [item] = server.request("/v1/score", body).data["items"]
    assert item["reward"] == 1.0


STEERED = """\
- {{check: "steered:{check}", name: steered}}
- check: {{max_words: 3}}
"""


@pytest.mark.slow
def test_a_failed_check_gives_null_and_the_error(start_server):
    """The failure is also counted in the metrics."""
    server = start_server("""\
        - {check: "steered:fails"}
        - check: {max_words: 3}
    """)
    [item] = server.score("x").data["items"]
    assert (item["reward"], item["score"]) == (None, None)
    assert item["errors"] == {"fails": "ValueError: no judge for 'x'"}
    metrics = server.metrics()
    assert metrics['assay_rollouts_total{outcome="unscored",route="score"}'] == 1


@pytest.mark.slow
def test_the_rollouts_of_a_request_are_compared_as_one_group(start_server):
    """The longest of three gets the point."""
    server = start_server('- {check: "steered:longest"}')
    items = server.score("a", "bcd", "ef").data["items"]
    assert [item["reward"] for item in items] == [0.0, 1.0, 0.0]
    assert server.request("/v1/rubric", method="GET").data["compares"] == ["longest"]
