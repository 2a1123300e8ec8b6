"""Each trainer sends its own format and gets the format that it reads, with no invented numbers."""

import json

import pytest

from assay import Rubric, XMLParser
from assay.server import RewardServer


def test_openrlhf_gets_rewards_scores_and_every_criterion(server):
    """The completion is the query without its prompt and without the end token: a plain 4."""
    prompt = "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    body = {"query": [f"{prompt}4<|im_end|>\n"], "prompts": [prompt], "labels": ["4"]}
    assert server.request("/openrlhf", body).data == {
        "rewards": [3.5],
        "scores": [1.0],
        "extra_logs": {
            "outcome": [3.5],
            "exact_match": [1.0],
            "max_words": [1.0],
            "contains": [1.0],
            "unscored": [0.0],
        },
    }


def test_an_empty_request_of_openrlhf_gets_empty_lists(server):
    """It sends one to its further servers."""
    answer = server.request("/openrlhf", {"query": [], "prompts": [], "labels": []}).data
    assert (answer["rewards"], answer["scores"]) == ([], [])


def test_spaces_in_the_prompt_may_differ_from_the_query(server):
    """The tokenizer lost a space before the question mark; the completion is still 4."""
    body = {"query": ["What is 2 + 2? 4"], "prompts": ["What is 2 + 2 ?"], "labels": ["4"]}
    assert server.request("/openrlhf", body).data["rewards"] == [3.5]


def test_a_query_without_a_prompt_is_the_completion(server):
    """Older versions of OpenRLHF send no prompts. Unknown fields are ignored."""
    body = {"query": ["4"], "labels": ["4"], "from": "elsewhere"}
    assert server.request("/openrlhf", body).data["rewards"] == [3.5]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"query": ["3+3? 6"], "prompts": ["2+2?"], "labels": [""]},
            "does not begin with its prompt",
        ),
        ({"query": ["4", "5"], "prompts": ["2+2?"]}, "2 queries and 1 prompts"),
        ({"query": ["4"], "labels": ["4", "5"]}, "1 queries and 2 labels"),
    ],
)
def test_a_query_that_does_not_match_its_prompt_is_refused(server, body, words):
    """It must not be scored with the prompt in it. Lists of unequal length are refused too."""
    answer = server.request("/openrlhf", body)
    assert answer.status == 400
    assert words in answer.error


def test_slime_gets_a_plain_number(server):
    body = {"prompt": "2+2?", "response": "4", "label": "4"}
    answer = server.request("/slime", body)
    assert (answer.body, answer.headers["content-type"]) == (b"3.5", "application/json")


def test_slime_may_send_the_prompt_as_messages(server):
    body = {"prompt": [{"role": "user", "content": "2+2?"}], "response": "4", "label": "4"}
    assert server.request("/slime", body).data == 3.5


def test_a_group_of_slime_samples_gets_a_list(server):
    """One answer is correct, the other wrong but short."""
    samples = [{"response": response, "label": "4"} for response in ("4", "five")]
    assert server.request("/slime", samples).data == [3.5, 1.0]


ROW = {
    "responses_create_params": {"input": [{"role": "user", "content": "2+2?"}]},
    "response": {
        "id": "resp_1",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "4"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "4", "annotations": []}],
            },
        ],
    },
    "expected_answer": "4",
    "difficulty": 3,
}


def test_nemo_gym_gets_its_request_back_with_a_reward(server):
    """The reward components sum to the reward."""
    assert server.request("/verify", ROW).data == ROW | {
        "reward": 3.5,
        "reward_components": {"exact_match": 2.0, "max_words": 1.0, "contains": 0.5},
    }


def test_nemo_gym_can_aggregate_the_metrics_of_all_rows(server):
    """The rewards of task 0 are 1 and 0, that of task 1 is 1; a masked row counts only as masked."""
    rows = [
        {
            "_ng_task_index": 0,
            "_ng_rollout_index": 0,
            "reward": 1.0,
            "response": {"usage": {"total_tokens": 10}},
        },
        {"_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.0},
        {"_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 1.0},
        {"_ng_task_index": 1, "_ng_rollout_index": 1, "reward": 0.0, "mask_sample": True},
    ]
    answer = server.request("/aggregate_metrics", {"verify_responses": rows}).data
    assert [group["mean/reward"] for group in answer["group_level_metrics"]] == [0.5, 1.0]
    assert [group["_ng_task_index"] for group in answer["group_level_metrics"]] == [0, 1]
    assert answer["key_metrics"] == {
        "mean/reward": pytest.approx(2 / 3),
        "mean/mask_sample": 0.25,
        "mean/total_tokens": 10,
    }
    assert answer["agent_metrics"]["max/reward"] == 1.0
    empty = {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}
    assert server.request("/aggregate_metrics", {"verify_responses": []}).data == empty


def test_checks_get_a_single_message_of_nemo_gym_as_text(send_request):
    """As from every other trainer; with tool calls they get all messages."""

    def is_four(completion):
        return completion == "4"

    output = ROW["response"]["output"]
    with RewardServer(Rubric([is_four])) as server:
        assert send_request(server.url, "/verify", ROW).data["reward"] == 0.0
        alone = ROW | {"response": {"output": [output[0], output[-1]]}}
        assert send_request(server.url, "/verify", alone).data["reward"] == 1.0


def test_nemo_gym_may_put_the_rollout_id_into_the_path(server):
    """It does so when it records requests."""
    assert server.request("/ng-rollout/7-0/verify", ROW).data["reward"] == 3.5


def test_failure_marks_of_an_earlier_verification_are_removed(server):
    stale = ROW | {"reward": 0.0, "_ng_failure_class": "judge_failed", "mask_sample": True}
    answer = server.request("/verify", stale).data
    assert answer["reward"] == 3.5
    assert answer.keys() == ROW.keys() | {"reward", "reward_components"}


def test_nemo_gym_gets_a_session_and_the_stateless_mode(server):
    """The server keeps no state, so any rollout can be verified again."""
    assert server.request("/seed_session", ROW).data == {}
    assert server.request("/reverify_mode", method="GET").data == "stateless"


ROW_RUBRIC = [{"check": {"contains": "Paris"}, "weight": 7}]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/slime", {"response": "In Paris", "label": {"rubric": ROW_RUBRIC}}, 7.0),
        (
            "/openrlhf",
            {"query": ["In Paris", "4"], "labels": [json.dumps({"rubric": ROW_RUBRIC}), "4"]},
            [7.0, 3.5],
        ),
        ("/verify", ROW | {"rubric": [{"check": {"contains": "4"}, "weight": 7}]}, 7.0),
    ],
)
def test_a_row_may_contain_its_own_rubric(server, path, body, expected):
    """It replaces the served rubric for that row, as in files."""
    answer = server.request(path, body).data
    assert (answer if path == "/slime" else answer.get("rewards", answer.get("reward"))) == expected


def test_rows_with_and_without_their_own_rubric_can_be_mixed(server):
    """The order is kept, and an invalid rubric is an error of its rollout only."""
    bad = [{"chekc": "contains"}]
    rows = [{"completion": "4", "answer": "4"}] + [
        {"completion": "In Paris", "columns": {"rubric": rubric}} for rubric in (ROW_RUBRIC, bad)
    ]
    items = server.request("/v1/score", {"rollouts": rows}).data["items"]
    assert [item["reward"] for item in items] == [3.5, 7.0, None]
    assert "unknown field 'chekc'" in str(items[2]["errors"])


# A group of three rollouts. The second has no score, because the check fails without a label.
GROUP = [
    {"prompt": "p", "response": "4", "label": "4"},
    {"prompt": "p", "response": "4", "label": None},
    {"prompt": "p", "response": "5 6 7 8", "label": "4"},
]
SINGLE = {"prompt": "q", "response": "4", "label": None}
FAILING = """\
- {check: exact_match, weight: 2}
- check: {max_words: 3}
"""


@pytest.fixture(scope="module")
def server_with_unscored(tmp_path_factory, request):
    """Return a server with this `unscored` setting. Each is started once."""
    servers = {}
    make = request.getfixturevalue("server_process_class")

    def get(unscored):
        if unscored not in servers:
            path = tmp_path_factory.mktemp(unscored) / "rubric.yaml"
            path.write_text(FAILING)
            servers[unscored] = make(path, unscored=unscored)
        return servers[unscored]

    yield get
    for server in servers.values():
        server.stop()


class TestUnscored:
    """Rewards: 2 + 1 = 3 for the first, none for the second, 0 + 0 for the third."""

    @pytest.mark.slow
    @pytest.mark.parametrize("path", ["/slime", "/openrlhf"])
    def test_by_default_a_request_with_an_unscored_rollout_gets_422(
        self, server_with_unscored, path
    ):
        """The error says what was missing, and the request is counted."""
        server = server_with_unscored("raise")
        bodies = {"/slime": SINGLE, "/openrlhf": {"query": ["4"], "labels": [None]}}
        answer = server.request(path, bodies[path])
        assert answer.status == 422
        assert "exact_match: ValueError" in answer.error
        assert "--unscored" in answer.error
        metric = f'assay_unscored_fallbacks_total{{fallback="raise",route="{path.strip("/")}"}}'
        assert server.metrics()[metric] == 1

    @pytest.mark.slow
    def test_zero_is_sent_if_the_operator_chose_it(self, server_with_unscored):
        """The fallbacks are counted."""
        server = server_with_unscored("zero")
        assert server.request("/slime", GROUP).data == [3.0, 0.0, 0.0]
        assert server.request("/slime", SINGLE).data == 0.0
        metric = 'assay_unscored_fallbacks_total{fallback="zero",route="slime"}'
        assert server.metrics()[metric] == 2

    @pytest.mark.slow
    def test_the_group_mean_can_stand_in_for_a_missing_reward(self, server_with_unscored):
        """(3 + 0) / 2 = 1.5; a single rollout has no group, and is refused."""
        server = server_with_unscored("group_mean")
        assert server.request("/slime", GROUP).data == [3.0, 1.5, 0.0]
        assert server.request("/slime", SINGLE).status == 422
        prompts = ["p", "p", "q"]
        body = {"query": ["p4", "p4", "q4"], "prompts": prompts, "labels": ["4", None, "4"]}
        answer = server.request("/openrlhf", body).data
        assert (answer["rewards"], answer["scores"]) == ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0])
        assert answer["extra_logs"] == {
            "outcome": [3.0] * 3,
            "exact_match": [1.0] * 3,
            "max_words": [1.0] * 3,
            "unscored": [0.0, 1.0, 0.0],
        }

    @pytest.mark.slow
    def test_a_dropped_rollout_is_null_in_the_list(self, server_with_unscored):
        assert server_with_unscored("drop").request("/slime", GROUP).data == [3.0, None, 0.0]

    @pytest.mark.slow
    @pytest.mark.parametrize("unscored", ["raise", "drop"])
    def test_nemo_gym_gets_a_masked_row_for_an_unscored_rollout(
        self, server_with_unscored, unscored
    ):
        """By default too, since its format has marks for failures."""
        answer = (
            server_with_unscored(unscored).request("/verify", ROW | {"expected_answer": None}).data
        )
        assert answer["_ng_failure_class"] == answer["failure_kind"] == "judge_failed"
        assert answer["mask_sample"] is True
        assert "exact_match: ValueError" in answer["failure_reason"]

    @pytest.mark.slow
    def test_the_native_route_ignores_the_unscored_setting(self, server_with_unscored):
        """It returns null and the error."""
        rollouts = [{"completion": s["response"], "answer": s["label"]} for s in GROUP]
        items = (
            server_with_unscored("zero").request("/v1/score", {"rollouts": rollouts}).data["items"]
        )
        assert [item["reward"] for item in items] == [3.0, None, 0.0]
        assert "ValueError" in items[1]["errors"]["exact_match"]


def test_every_route_returns_the_hash_of_the_rubric_in_a_header(server):
    """So that rewards of two rubrics are not mixed unnoticed."""
    body = {"prompt": "2+2?", "response": "4", "label": "4"}
    assert len(server.request("/slime", body).headers["x-assay-rubric"]) == 64


def test_json_with_spaces_and_escapes_is_accepted(server):
    """Python's `json.dumps` writes it by default."""
    body = json.dumps({"prompt": "2+2?", "response": "4", "label": "4", "é": "ü"}).encode()
    assert server.request("/slime", body).data == 3.5


def test_reasoning_items_of_nemo_gym_are_treated_as_reasoning(send_request):
    """A text check does not read them, but a format reward does, also if the reply was cut off."""
    parser = XMLParser(["think", "answer"])
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "5?"}]}
    rubric = Rubric([{"check": {"contains": "5"}}, parser.get_format_reward_func()], parser=parser)
    text = [{"type": "output_text", "text": "<answer>4</answer>"}]
    message = {"type": "message", "role": "assistant", "content": text}
    with RewardServer(rubric) as server:
        whole = ROW | {"response": {"output": [thought, message]}}
        assert send_request(server.url, "/verify", whole).data["reward"] == 1.0
        cut = ROW | {"response": {"output": [thought]}}
        assert send_request(server.url, "/verify", cut).data["reward"] == 0.6
