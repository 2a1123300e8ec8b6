"""Each trainer gets what it takes, from what it sends; and no number that nobody found."""

import json

import pytest

from assay import Rubric, XMLParser
from assay.server import RewardServer


def test_openrlhf_gets_rewards_scores_and_every_criterion(server):
    """What the model wrote is the query less its prompt and less the token that ends it: a plain 4."""
    prompt = "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    body = {"query": [f"{prompt}4<|im_end|>\n"], "prompts": [prompt], "labels": ["4"]}
    assert server.ask("/openrlhf", body).data == {
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


def test_openrlhf_asks_its_further_servers_for_nothing(server):
    """Empty lists in, empty lists out."""
    answer = server.ask("/openrlhf", {"query": [], "prompts": [], "labels": []}).data
    assert (answer["rewards"], answer["scores"]) == ([], [])


def test_a_tokenizer_may_change_spaces_in_the_prompt(server):
    """A space before the question mark was lost; what follows is still 4."""
    body = {"query": ["What is 2 + 2? 4"], "prompts": ["What is 2 + 2 ?"], "labels": ["4"]}
    assert server.ask("/openrlhf", body).data["rewards"] == [3.5]


def test_older_openrlhf_sends_queries_alone(server):
    """Then all of it is what the model wrote, and fields that we do not know do no harm."""
    body = {"query": ["4"], "labels": ["4"], "from": "elsewhere"}
    assert server.ask("/openrlhf", body).data["rewards"] == [3.5]


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
def test_what_cannot_be_told_apart_is_refused(server, body, words):
    """Rather than scored with the prompt in it."""
    answer = server.ask("/openrlhf", body)
    assert answer.status == 400
    assert words in answer.error


def test_slime_gets_a_bare_number(server):
    """For a sample as it sends it."""
    body = {"prompt": "2+2?", "response": "4", "label": "4"}
    answer = server.ask("/slime", body)
    assert (answer.body, answer.headers["content-type"]) == (b"3.5", "application/json")


def test_slime_may_send_the_prompt_as_messages(server):
    """A chat is a prompt like any other."""
    body = {"prompt": [{"role": "user", "content": "2+2?"}], "response": "4", "label": "4"}
    assert server.ask("/slime", body).data == 3.5


def test_a_group_of_slime_gets_a_list(server):
    """Right, and wrong but short."""
    samples = [{"response": response, "label": "4"} for response in ("4", "five")]
    assert server.ask("/slime", samples).data == [3.5, 1.0]


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
    """And what each criterion added, which comes to the reward."""
    assert server.ask("/verify", ROW).data == ROW | {
        "reward": 3.5,
        "reward_components": {"exact_match": 2.0, "max_words": 1.0, "contains": 0.5},
    }


def test_nemo_gym_collects_the_metrics_of_all_rows_at_the_end(server):
    """As its collector asks: the reward of task 0 is 1 and 0, of task 1 it is 1; a masked row counts as masked only."""
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
    answer = server.ask("/aggregate_metrics", {"verify_responses": rows}).data
    assert [group["mean/reward"] for group in answer["group_level_metrics"]] == [0.5, 1.0]
    assert [group["_ng_task_index"] for group in answer["group_level_metrics"]] == [0, 1]
    assert answer["key_metrics"] == {
        "mean/reward": pytest.approx(2 / 3),
        "mean/mask_sample": 0.25,
        "mean/total_tokens": 10,
    }
    assert answer["agent_metrics"]["max/reward"] == 1.0
    empty = {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}
    assert server.ask("/aggregate_metrics", {"verify_responses": []}).data == empty


def test_checks_get_a_single_reply_of_nemo_gym_as_text(asking):
    """As from every other trainer; with calls of tools they get the messages."""

    def is_four(completion):
        return completion == "4"

    output = ROW["response"]["output"]
    with RewardServer(Rubric([is_four])) as server:
        assert asking(server.url, "/verify", ROW).data["reward"] == 0.0
        alone = ROW | {"response": {"output": [output[0], output[-1]]}}
        assert asking(server.url, "/verify", alone).data["reward"] == 1.0


def test_nemo_gym_may_say_which_rollout_it_is_in_the_path(server):
    """As it does when it records what happens."""
    assert server.ask("/ng-rollout/7-0/verify", ROW).data["reward"] == 3.5


def test_a_row_that_is_verified_again_forgets_what_failed_before(server):
    """Marks of an earlier failure are no part of the new reply."""
    stale = ROW | {"reward": 0.0, "_ng_failure_class": "judge_failed", "mask_sample": True}
    answer = server.ask("/verify", stale).data
    assert answer["reward"] == 3.5
    assert answer.keys() == ROW.keys() | {"reward", "reward_components"}


def test_nemo_gym_finds_a_session_and_its_mode(server):
    """Nothing is kept, so any rollout can be verified again."""
    assert server.ask("/seed_session", ROW).data == {}
    assert server.ask("/reverify_mode", method="GET").data == "stateless"


OWN = [{"check": {"contains": "Paris"}, "weight": 7}]


@pytest.mark.parametrize(
    ("path", "body", "paid"),
    [
        ("/slime", {"response": "In Paris", "label": {"rubric": OWN}}, 7.0),
        (
            "/openrlhf",
            {"query": ["In Paris", "4"], "labels": [json.dumps({"rubric": OWN}), "4"]},
            [7.0, 3.5],
        ),
        ("/verify", ROW | {"rubric": [{"check": {"contains": "4"}, "weight": 7}]}, 7.0),
    ],
)
def test_a_row_may_bring_its_own_rubric(server, path, body, paid):
    """It replaces the served one for that row, as in files."""
    answer = server.ask(path, body).data
    assert (answer if path == "/slime" else answer.get("rewards", answer.get("reward"))) == paid


def test_own_rubrics_stand_among_others(server):
    """In order; and one that cannot be read is an error of its rollout alone."""
    bad = [{"chekc": "contains"}]
    rows = [{"completion": "4", "answer": "4"}] + [
        {"completion": "In Paris", "columns": {"rubric": rubric}} for rubric in (OWN, bad)
    ]
    items = server.ask("/v1/score", {"rollouts": rows}).data["items"]
    assert [item["reward"] for item in items] == [3.5, 7.0, None]
    assert "unknown field 'chekc'" in str(items[2]["errors"])


# Three rollouts of two prompts, of which one has no score: the check fails where a label is missing.
GROUP = [
    {"prompt": "p", "response": "4", "label": "4"},
    {"prompt": "p", "response": "4", "label": None},
    {"prompt": "p", "response": "5 6 7 8", "label": "4"},
]
LONE = {"prompt": "q", "response": "4", "label": None}
FAILING = """\
- {check: exact_match, weight: 2}
- check: {max_words: 3}
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory, request):
    """Servers by what they do with unscored rollouts, each started once."""
    servers = {}
    make = request.getfixturevalue("running_kind")

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
    def test_by_default_the_request_is_refused(self, started, path):
        """With an error that says what was missing, and counted."""
        server = started("raise")
        bodies = {"/slime": LONE, "/openrlhf": {"query": ["4"], "labels": [None]}}
        answer = server.ask(path, bodies[path])
        assert answer.status == 422
        assert "exact_match: ValueError" in answer.error
        assert "--unscored" in answer.error
        counted = f'assay_unscored_fallbacks_total{{fallback="raise",route="{path.strip("/")}"}}'
        assert server.metrics()[counted] == 1

    @pytest.mark.slow
    def test_zero_is_sent_where_the_operator_says_so(self, started):
        """And counted."""
        server = started("zero")
        assert server.ask("/slime", GROUP).data == [3.0, 0.0, 0.0]
        assert server.ask("/slime", LONE).data == 0.0
        counted = 'assay_unscored_fallbacks_total{fallback="zero",route="slime"}'
        assert server.metrics()[counted] == 2

    @pytest.mark.slow
    def test_the_mean_of_the_group_leaves_its_baseline_alone(self, started):
        """(3 + 0) / 2; a rollout alone has no group, and is refused."""
        server = started("group_mean")
        assert server.ask("/slime", GROUP).data == [3.0, 1.5, 0.0]
        assert server.ask("/slime", LONE).status == 422
        prompts = ["p", "p", "q"]
        body = {"query": ["p4", "p4", "q4"], "prompts": prompts, "labels": ["4", None, "4"]}
        answer = server.ask("/openrlhf", body).data
        assert (answer["rewards"], answer["scores"]) == ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0])
        assert answer["extra_logs"] == {
            "outcome": [3.0] * 3,
            "exact_match": [1.0] * 3,
            "max_words": [1.0] * 3,
            "unscored": [0.0, 1.0, 0.0],
        }

    @pytest.mark.slow
    def test_a_dropped_one_is_null(self, started):
        """Where numbers stand in a list."""
        assert started("drop").ask("/slime", GROUP).data == [3.0, None, 0.0]

    @pytest.mark.slow
    @pytest.mark.parametrize("unscored", ["raise", "drop"])
    def test_nemo_gym_sets_a_failed_row_aside(self, started, unscored):
        """By default too, since its reply has marks for it."""
        answer = started(unscored).ask("/verify", ROW | {"expected_answer": None}).data
        assert answer["_ng_failure_class"] == answer["failure_kind"] == "judge_failed"
        assert answer["mask_sample"] is True
        assert "exact_match: ValueError" in answer["failure_reason"]

    @pytest.mark.slow
    def test_the_native_route_needs_no_such_word(self, started):
        """It says null, and why."""
        rollouts = [{"completion": s["response"], "answer": s["label"]} for s in GROUP]
        items = started("zero").ask("/v1/score", {"rollouts": rollouts}).data["items"]
        assert [item["reward"] for item in items] == [3.0, None, 0.0]
        assert "ValueError" in items[1]["errors"]["exact_match"]


def test_every_route_names_the_rubric_in_a_header(server):
    """So that rewards of two rubrics are never mixed unseen."""
    body = {"prompt": "2+2?", "response": "4", "label": "4"}
    assert len(server.ask("/slime", body).headers["x-assay-rubric"]) == 64


def test_json_that_clients_write_by_default_is_taken(server):
    """With spaces and escapes, as Python's own."""
    body = json.dumps({"prompt": "2+2?", "response": "4", "label": "4", "é": "ü"}).encode()
    assert server.ask("/slime", body).data == 3.5


def test_reasoning_items_of_nemo_gym_count_as_reasoning_in_the_text(asking):
    """A text check does not read them, and a format reward does, also of a reply that was cut off."""
    parser = XMLParser(["think", "answer"])
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "5?"}]}
    rubric = Rubric([{"check": {"contains": "5"}}, parser.get_format_reward_func()], parser=parser)
    text = [{"type": "output_text", "text": "<answer>4</answer>"}]
    message = {"type": "message", "role": "assistant", "content": text}
    with RewardServer(rubric) as server:
        whole = ROW | {"response": {"output": [thought, message]}}
        assert asking(server.url, "/verify", whole).data["reward"] == 1.0
        cut = ROW | {"response": {"output": [thought]}}
        assert asking(server.url, "/verify", cut).data["reward"] == 0.6
