"""The same rubric in each trainer's own shape, with the same numbers."""

import inspect
import json
import pickle
from types import SimpleNamespace

import pytest

from assay import Rubric, RubricError
from assay.aggregation import UnscoredError
from assay.integrations import (
    as_skyrl_env,
    as_trl_reward,
    compute_score_of,
    compute_scores_of,
    custom_rm_of,
    reward_func_of,
)
from assay.integrations.reward_functions import cut_response
from assay.integrations.verl import compute_score, compute_score_sync
from assay.runs.row_rubric import RowRubric
from tests.integrations.conftest import exact


def sample(response, label="4", **fields):
    fields = {"metadata": {}, "remove_sample": False} | fields
    return SimpleNamespace(prompt="2+2?", response=response, label=label, **fields)


class TestVerl:
    async def test_a_right_short_answer_is_paid_both_weights(self, rubric):
        """1 × 1 + 0.5 × 1, with every part beside it."""
        told = await compute_score_of(rubric)("gsm8k", "4", "4")
        assert told == {"score": 1.5, "unscored": 0.0, "outcome": 1.5, "exact": 1.0, "short": 1.0}

    def test_it_is_a_plain_async_function(self, rubric):
        """verl takes an object with an async `__call__` for a synchronous one."""
        assert inspect.iscoroutinefunction(compute_score_of(rubric))
        assert inspect.iscoroutinefunction(compute_score)

    async def test_the_question_comes_with_the_extra_info(self):
        """And the other fields of it can be named by checks."""

        def asks(prompt, task, hard):
            return (prompt, task, hard) == ("2+2?", "gsm8k", True)

        score = compute_score_of(Rubric([asks]))
        told = await score("gsm8k", "4", "4", {"question": "2+2?", "hard": True, "num_turns": 1})
        assert told["score"] == 1.0

    async def test_a_missing_score_is_an_error_unless_said_otherwise(self, failing_rubric):
        with pytest.raises(UnscoredError, match="the judge is down"):
            await compute_score_of(failing_rubric)("gsm8k", "judge me", "4")

    async def test_every_sample_has_a_number_under_every_key(self, failing_rubric, caplog):
        """One NaN would make all advantages of GDPO NaN, so a part without an answer is 0, and the log says why."""
        score = compute_score_of(failing_rubric, unscored="zero")
        good, bad = await score("gsm8k", "4", "4"), await score("gsm8k", "judge me", "4")
        assert good.keys() == bad.keys()
        assert bad == {
            "score": 0.0,
            "unscored": 1.0,
            "outcome": 0.0,
            "exact": 0.0,
            "short": 0.0,
            "judged": 0.0,
        }
        assert "the judge is down" in caplog.text

    def test_one_sample_is_no_group(self, rubric):
        with pytest.raises(RubricError, match="does not support unscored='group_mean'"):
            compute_score_of(rubric, unscored="group_mean")

    async def test_a_file_is_named_in_the_keywords(self, tmp_path):
        path = tmp_path / "rubric.yaml"
        path.write_text("criteria:\n- check: {exact_match: {}}\n  name: exact\n")
        told = await compute_score("gsm8k", "4", "4", rubric=str(path), reward_router_address="x")
        assert told["exact"] == 1.0

    def test_the_batch_form_fills_from_its_group(self, failing_rubric):
        """The scored samples of question 0 are paid 2.5 and 1: the unscored one 1.75, whatever question 1 got.

        Both questions have the answer 4; the `index` that verl's data sets keep tells them apart.
        """
        infos = [{"index": 0}, {"index": 0}, {"index": 0}, {"index": 1}]
        told = compute_scores_of(failing_rubric, unscored="group_mean")(
            ["m"] * 4, ["4", "judge me", "nothing right", "4"], ["4"] * 4, infos
        )
        assert [one["score"] for one in told] == [2.5, 1.75, 1.0, 2.5]
        assert [one["unscored"] for one in told] == [0, 1, 0, 0]
        assert [one["judged"] for one in told] == [1, 1, 1, 1]

    def test_samples_whose_group_cannot_be_told_are_no_group(self, failing_rubric):
        """Two prompts that share an answer would be merged."""
        with pytest.raises(RubricError, match="keep the question in it"):
            compute_scores_of(failing_rubric, unscored="group_mean")(["m"], ["4"], ["4"])

    def test_the_remote_manager_gets_a_plain_function(self, tmp_path):
        """It refuses an async one."""
        path = tmp_path / "rubric.yaml"
        path.write_text("criteria:\n- check: {exact_match: {}}\n  name: exact\n")
        assert not inspect.iscoroutinefunction(compute_score_sync)
        told = compute_score_sync(
            data_source="m", solution_str="4", ground_truth="4", extra_info={}, rubric=str(path)
        )
        assert told["score"] == 1.0

    def test_a_criterion_must_not_take_the_key_that_verl_reads(self):
        def score(completion):
            return 1.0

        with pytest.raises(RubricError, match="called 'score', which verl reads"):
            compute_score_of(Rubric([score]))


class TestOpenRlhf:
    def test_it_is_called_with_lists_of_one(self, rubric):
        """The reward is 0.5 of 1.5; `scores`, by which OpenRLHF filters, lie between 0 and 1."""
        told = reward_func_of(rubric)(["2+2? 5<|im_end|>"], ["2+2?"], ["4"])
        assert told["rewards"] == [0.5]
        assert told["scores"] == [pytest.approx(1 / 3)]
        assert told["extra_logs"] == {
            "unscored": [0.0],
            "outcome": [0.5],
            "exact": [0.0],
            "short": [1.0],
        }

    def test_every_row_has_the_same_keys(self, failing_rubric):
        """Also one whose judge failed: it is paid 0, which `unscored` tells from a bad answer."""
        told = reward_func_of(failing_rubric, unscored="zero")(
            ["4", "judge me"], ["", ""], ["4", "4"]
        )
        assert told["rewards"] == [2.5, 0.0]
        assert told["extra_logs"]["unscored"] == [0.0, 1.0]
        assert told["extra_logs"]["judged"] == [1.0, 0.0]

    def test_a_query_without_its_prompt_is_unscored(self, rubric):
        """As when the prompt was cut to fit: prompt and response are never scored together."""
        assert reward_func_of(rubric, unscored="zero")(["is 2+2? 4"], ["What is 2+2?"], ["4"])[
            "rewards"
        ] == [0.0]
        with pytest.raises(UnscoredError, match="does not begin with its prompt"):
            reward_func_of(rubric)(["is 2+2? 4"], ["What is 2+2?"], ["4"])

    def test_no_samples_are_no_rewards(self, rubric):
        assert reward_func_of(rubric)([], [], [])["rewards"] == []

    def test_what_is_unscored_is_logged_where_it_is_seen(self, failing_rubric, caplog):
        """OpenRLHF swallows the exception."""
        with pytest.raises(UnscoredError):
            reward_func_of(failing_rubric)(["judge me"], [""], ["4"])
        assert "a rollout is unscored: judged: ConnectionError" in caplog.text

    @pytest.mark.parametrize(
        "ending",
        [
            "</s><|endoftext|>",
            "<|im_end|>\n",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
            "<|return|>",
            "<|eot|>",
            "<|END_OF_TURN_TOKEN|>",
            "[EOS]",
            "<|user|>",
        ],
    )
    def test_special_tokens_at_the_end_are_no_part_of_the_response(self, ending):
        """Of Mistral, Qwen, DeepSeek, gpt-oss, Llama 4, Cohere, Kimi and GLM."""
        assert cut_response(f"Q A{ending}", "Q") == "A"

    def test_a_tokenizer_says_which_tokens_are_special(self, rubric):
        tokenizer = SimpleNamespace(all_special_tokens=["<stop>"])
        assert reward_func_of(rubric, tokenizer=tokenizer)(["4<stop>"], [""], ["4"])["rewards"] == [
            1.5
        ]


class TestSlime:
    async def test_a_sample_gets_a_float(self, rubric):
        """And its parts are left with it."""
        one = sample("4")
        assert await custom_rm_of(rubric)(None, one) == 1.5
        assert one.metadata["assay"] == {
            "unscored": False,
            "outcome": 1.5,
            "exact": 1.0,
            "short": 1.0,
        }

    async def test_a_group_gets_a_list(self, rubric):
        assert await custom_rm_of(rubric)(None, [sample("4"), sample("5")]) == [1.5, 0.5]

    async def test_a_dropped_sample_is_marked_and_shifts_nothing(self, failing_rubric):
        """It is paid the mean of 2.5 and 1.5."""
        samples = [sample("4"), sample("judge me"), sample("5")]
        paid = await custom_rm_of(failing_rubric, unscored="drop")(None, samples)
        assert paid == [2.5, 2.0, 1.5]
        assert [one.remove_sample for one in samples] == [False, True, False]

    async def test_without_a_group_there_is_nothing_to_drop_it_from(self, failing_rubric):
        with pytest.raises(
            RubricError, match="slime without --group-rm does not support unscored='drop'"
        ):
            await custom_rm_of(failing_rubric, unscored="drop")(None, sample("4"))

    async def test_checks_that_compare_see_the_group(self):
        def longest(completions):
            return [float(len(c) == max(map(len, completions))) for c in completions]

        paid = await custom_rm_of(Rubric([longest]))(None, [sample("a"), sample("bbb")])
        assert paid == [0.0, 1.0]


OWN = [{"check": {"contains": "Paris"}, "weight": 3}]


class TestRowRubrics:
    """Each row's own rubric pays 3 for Paris, and ours pays 1.5 for the right short answer."""

    async def test_verl_finds_it_in_the_extra_info(self, rubric):
        told = await compute_score_of(rubric)("m", "In Paris", "4", {"rubric": OWN})
        assert told == {"score": 3.0, "unscored": 0.0, "outcome": 3.0, "exact": 0.0, "short": 0.0}

    async def test_slime_finds_it_in_the_metadata(self, rubric):
        samples = [sample("In Paris", metadata={"rubric": OWN}), sample("4")]
        assert await custom_rm_of(rubric)(None, samples) == [3.0, 1.5]

    @pytest.mark.parametrize("write", [dict, json.dumps])
    def test_openrlhf_finds_it_in_the_label(self, rubric, write):
        """Which is the only column that it hands over: a mapping, or its JSON."""
        label = write({"rubric": OWN, "answer": "Paris"})
        assert reward_func_of(rubric)(["In Paris", "4"], ["", ""], [label, "4"])["rewards"] == [
            3.0,
            1.5,
        ]

    async def test_one_that_cannot_be_read_is_an_error_of_its_row(self, rubric):
        with pytest.raises(UnscoredError, match="unknown field 'chekc'"):
            await compute_score_of(rubric)("m", "4", "4", {"rubric": [{"chekc": "contains"}]})

    async def test_equal_rubrics_are_built_once(self, rubric, monkeypatch):
        """A thousand rows with fifty rubrics build fifty."""
        built = []
        build = RowRubric.from_dict
        monkeypatch.setattr(RowRubric, "from_dict", lambda data: built.append(data) or build(data))
        score = compute_score_of(rubric)
        for n in range(1000):
            own = [{"check": {"contains": f"word {n % 50}"}}]
            assert (await score("m", f"word {n % 50}", "", {"rubric": own}))["score"] == 1.0
        assert len(built) == 50


@pytest.mark.parametrize(
    "make", [as_trl_reward, compute_score_of, compute_scores_of, custom_rm_of, reward_func_of]
)
def test_every_adapter_can_be_pickled(make):
    """As trainers do that score in processes of their own."""
    adapter = pickle.loads(pickle.dumps(make(Rubric([exact], name="sums"))))
    if make is reward_func_of:
        assert adapter(["4"], [""], ["4"])["rewards"] == [1.0]
    if make is as_trl_reward:
        assert adapter.__name__ == "sums"


def test_skyrl_is_imported_only_when_asked_for(rubric):
    """It is not installed here; tests/trainers runs it where it is."""
    with pytest.raises(ImportError):
        as_skyrl_env(rubric)
