"""`POST /v1/score`: rollouts in, scores out, and each that has none says why."""

import pytest

ROLLOUT = {"prompt": "2+2?", "completion": "4", "answer": "4"}


def test_rewards_are_sums_and_scores_are_shares(server):
    """Right, short and with a 4: 3.5 of 3.5; only short: 1 of 3.5."""
    body = {"rollouts": [ROLLOUT, ROLLOUT | {"completion": "five"}]}
    items = server.ask("/v1/score", body).data["items"]
    assert items == [{"reward": 3.5, "score": 1.0}, {"reward": 1.0, "score": 1 / 3.5}]


def test_no_rollouts_give_no_items(server):
    """Nothing in, nothing out."""
    assert server.ask("/v1/score", {"rollouts": []}).data["items"] == []


def test_a_reply_names_its_rubric_by_hash(server):
    """In the body, in a header and where the rubric is described."""
    answer = server.ask("/v1/score", {"rollouts": [ROLLOUT]})
    described = server.ask("/v1/rubric", method="GET").data
    assert answer.data["rubric"] == answer.headers["x-assay-rubric"] == described["rubric"]
    assert [criterion["name"] for criterion in described["criteria"]] == [
        "exact_match",
        "max_words",
        "contains",
    ]


def test_reports_come_on_request_line_by_line(server):
    """With weights and values."""
    body = {"rollouts": [ROLLOUT], "report": True}
    [item] = server.ask("/v1/score", body).data["items"]
    lines = [(line["name"], line["weight"], line["value"]) for line in item["report"]["report"]]
    assert lines == [("exact_match", 2.0, 1.0), ("max_words", 1.0, 1.0), ("contains", 0.5, 1.0)]


def test_a_chat_is_read_by_its_last_reply(server):
    """As everywhere else."""
    chat = [{"role": "assistant", "content": "5"}, {"role": "assistant", "content": "4"}]
    [item] = server.ask("/v1/score", {"rollouts": [ROLLOUT | {"completion": chat}]}).data["items"]
    assert item["reward"] == 3.5


def test_a_state_alone_holds_everything(server):
    """Its fields are the rollout's."""
    state = {"completion": "4", "answer": "4", "turn": 3}
    [item] = server.ask("/v1/score", {"rollouts": [{"state": state}]}).data["items"]
    assert item["reward"] == 3.5


def test_half_a_character_is_scored_like_any_other(server):
    """Models under test write them: short, and not right."""
    body = b'{"rollouts": [{"completion": "\\ud800", "answer": "4"}]}'
    [item] = server.ask("/v1/score", body).data["items"]
    assert item["reward"] == 1.0


STEERED = """\
- {{check: "steered:{check}", name: steered}}
- check: {{max_words: 3}}
"""


@pytest.mark.slow
def test_one_that_fails_leaves_the_others_their_scores(start):
    """The check raises for every rollout here; a column that is missing concerns one of two."""
    server = start("""\
        - {check: "steered:fails"}
        - check: {max_words: 3}
    """)
    [item] = server.score("x").data["items"]
    assert (item["reward"], item["score"]) == (None, None)
    assert item["errors"] == {"fails": "ValueError: no judge for 'x'"}
    metrics = server.metrics()
    assert metrics['assay_rollouts_total{outcome="unscored",route="score"}'] == 1


@pytest.mark.slow
def test_the_rollouts_of_a_request_are_one_group(start):
    """The longest of three gets the point."""
    server = start('- {check: "steered:longest"}')
    items = server.score("a", "bcd", "ef").data["items"]
    assert [item["reward"] for item in items] == [0.0, 1.0, 0.0]
    assert server.ask("/v1/rubric", method="GET").data["compares"] == ["longest"]
