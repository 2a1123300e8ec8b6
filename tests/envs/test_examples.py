"""Rows of a data set become examples that can be asked."""

import json

import datasets
import pandas as pd
import pytest

from assay import TableError
from assay.envs import MultiTurnEnv, SingleTurnEnv

SYSTEM = {"role": "system", "content": "Add."}
SHOT = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
ASKED = {"role": "user", "content": "2 + 2?"}


class Talk(MultiTurnEnv):
    """A dialogue in which nobody says anything."""

    def env_response(self, messages, state):
        return []


def test_a_question_follows_the_system_prompt_and_the_examples():
    """In this order."""
    env = SingleTurnEnv([{"question": "2 + 2?"}], system_prompt="Add.", few_shot=SHOT)
    assert env.dataset[0]["prompt"] == [SYSTEM, *SHOT, ASKED]


def test_a_prompt_of_messages_keeps_its_own_system_prompt():
    """Which takes the place of the environment's; the examples follow it."""
    own = {"role": "system", "content": "Only the number."}
    rows = [{"prompt": [own, ASKED]}, {"prompt": [ASKED]}]
    env = SingleTurnEnv(rows, system_prompt="Add.", few_shot=SHOT)
    assert [row["prompt"] for row in env.dataset] == [[own, *SHOT, ASKED], [SYSTEM, *SHOT, ASKED]]


def test_a_plain_prompt_stays_plain_where_there_is_one_turn_and_nothing_before_it():
    """Text in, text out."""
    rows = [{"prompt": "2 + 2?"}]
    assert SingleTurnEnv(rows).dataset[0]["prompt"] == "2 + 2?"
    assert SingleTurnEnv(rows, system_prompt="Add.").dataset[0]["prompt"] == [SYSTEM, ASKED]
    assert Talk(rows).dataset[0]["prompt"] == [ASKED]


def test_what_a_row_does_not_say_has_a_default():
    """Its number for an id, no answer, no info, and the environment's name for a task."""
    [example] = SingleTurnEnv([{"question": "?"}], env_id="sums").dataset
    assert example == {
        "question": "?",
        "prompt": [{"role": "user", "content": "?"}],
        "answer": "",
        "task": "sums",
        "info": {},
        "example_id": 0,
    }


def test_other_columns_stay():
    """For checks to name."""
    row = {"question": "?", "difficulty": 3, "id": "q1", "task": "t", "info": {"k": 1}}
    [example] = SingleTurnEnv([row]).dataset
    assert (example["difficulty"], example["example_id"], example["task"]) == (3, "q1", "t")


def test_info_may_be_json_text():
    """As tables hold it."""
    rows = [{"question": "?", "info": '{"k": [1]}'}, {"question": "?", "info": None}]
    assert [row["info"] for row in SingleTurnEnv(rows).dataset] == [{"k": [1]}, {}]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "dataset", "frame", "function"])
def test_a_data_set_may_come_in_many_ways(tmp_path, kind):
    """Files, Hugging Face data sets, frames, and functions that give one."""
    rows = [{"question": "2 + 2?", "answer": "4"}]
    frame = pd.DataFrame(rows)
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text(json.dumps(rows[0]))
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    ways = {"dataset": datasets.Dataset.from_list(rows), "frame": frame, "function": lambda: rows}
    [example] = SingleTurnEnv(ways.get(kind, path)).dataset
    assert (example["prompt"], example["answer"]) == ([ASKED], "4")


def test_a_function_is_called_when_it_is_needed_and_once():
    """Building an environment loads nothing then."""
    calls = []
    env = SingleTurnEnv(lambda: calls.append(1) or [{"question": "?"}])
    assert calls == []
    assert len(env.get_dataset()) == len(env.get_eval_dataset()) == 1
    assert calls == [1]


def test_empty_cells_of_messages_are_left_out():
    """A table has a cell for every field that any message has."""
    rows = [
        {"prompt": [{**ASKED, "tool_calls": None, "name": None}]},
        {"prompt": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]},
    ]
    assert [row["prompt"] for row in SingleTurnEnv(rows).dataset] == [
        [ASKED],
        [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}],
    ]


def test_empty_cells_of_the_parts_of_a_message_are_left_out():
    """A data set that holds texts and images has a cell for every field of either, and endpoints may refuse a null."""
    text, image = (
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    )
    close = {"type": "image_url", "image_url": {"url": "data:,", "detail": "high"}}
    prompts = [[{"role": "user", "content": [text, image]}], [{"role": "user", "content": [close]}]]
    source = datasets.Dataset.from_list([{"prompt": prompt} for prompt in prompts])
    assert source[0]["prompt"][0]["content"][0]["image_url"] is None
    assert [row["prompt"] for row in SingleTurnEnv(source).dataset] == prompts


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "?", "label": 1}, "row 1 of dataset has the columns text, label: .*`question`"),
        ({}, "row 1 of dataset has the columns none"),
        ({"question": None}, "row 1 of dataset has the columns question"),
        ({"question": 5}, "row 1 of dataset: 5 is not a chat: give a text or a list of messages"),
        ({"prompt": ["hi"]}, "row 1 of dataset: 'hi' is not a message: give"),
        ({"prompt": [{"content": "hi"}]}, "is not a message"),
        ({"question": "?", "info": "{"}, "row 1 of dataset: info is not a JSON object"),
        ({"question": "?", "info": 5}, "row 1 of dataset: info is 5: give a mapping"),
    ],
)
def test_a_wrong_row_is_named(row, message):
    """With what was found, and what would do."""
    with pytest.raises(TableError, match=message):
        SingleTurnEnv([{"question": "fine"}, row])


def test_rows_of_a_file_are_named_by_it(tmp_path):
    """So that they can be found."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "?"}')
    with pytest.raises(TableError, match=r"row 0 of .*rows\.jsonl has the columns text"):
        SingleTurnEnv(str(path))


def test_without_a_data_set_there_is_no_environment():
    """In the words of the one it takes after."""
    with pytest.raises(ValueError, match="Either dataset or eval_dataset must be provided"):
        SingleTurnEnv()


def test_examples_can_be_shuffled_and_cut():
    """The same for the same seed, and the environment's own stay as they are."""
    env = SingleTurnEnv([{"question": str(n)} for n in range(10)])
    some = env.get_dataset(3, seed=1)
    assert some == env.get_dataset(3, seed=1)
    assert len(some) == 3
    assert some != env.get_dataset(3)
    assert [row["question"] for row in env.get_dataset(3)] == ["0", "1", "2"]


def test_evaluation_falls_back_on_the_data_set():
    """Training does not fall back silently on less: each has what it was given."""
    train, test = [{"question": "train"}], [{"question": "test"}]
    both = SingleTurnEnv(train, eval_dataset=test)
    assert both.get_eval_dataset()[0]["question"] == "test"
    assert both.get_dataset()[0]["question"] == "train"
    assert SingleTurnEnv(train).get_eval_dataset()[0]["question"] == "train"
    assert SingleTurnEnv(eval_dataset=test).get_dataset()[0]["question"] == "test"


def test_no_examples_is_no_number_of_them():
    """-1 is all."""
    with pytest.raises(ValueError, match="num_examples is 0"):
        SingleTurnEnv([{"question": "?"}]).get_dataset(0)
