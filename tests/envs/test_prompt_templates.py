"""Prompt templates: how rows become prompts, from files and in Python."""

import pytest

from assay.envs import PromptError, PromptTemplate, SingleTurnEnv

ROW = {"question": "2 + 3?", "language": "French", "info": {"unit": "apples"}}


def texts(messages):
    """Role and text of every message."""
    return [(message["role"], message["content"]) for message in messages]


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_filled_in_every_message():
    template = PromptTemplate(
        system="Answer in {language}.",
        few_shot=(
            {"role": "user", "content": "1 {info.unit}?"},
            {"role": "assistant", "content": "{language}: 1"},
        ),
        user="Q: {question}",
    )
    assert texts(template.fill(ROW)) == [
        ("system", "Answer in French."),
        ("user", "1 apples?"),
        ("assistant", "French: 1"),
        ("user", "Q: 2 + 3?"),
    ]


def test_an_environment_asks_by_a_template():
    env = SingleTurnEnv([ROW], prompt=PromptTemplate(system="In {language}.", user="Q: {question}"))
    assert texts(env.get_eval_dataset()[0]["prompt"]) == [
        ("system", "In French."),
        ("user", "Q: 2 + 3?"),
    ]


def test_without_a_user_message_the_row_asks():
    template = PromptTemplate(system="In {language}.")
    [example] = SingleTurnEnv([ROW], prompt=template).get_eval_dataset()
    assert texts(example["prompt"]) == [("system", "In French."), ("user", "2 + 3?")]


def test_the_system_prompt_of_a_row_replaces_that_of_the_template():
    own = [{"role": "system", "content": "Be rude."}, {"role": "user", "content": "Hi"}]
    [example] = SingleTurnEnv(
        [{"prompt": own}], prompt=PromptTemplate(system="Be kind.")
    ).get_eval_dataset()
    assert texts(example["prompt"]) == [("system", "Be rude."), ("user", "Hi")]


def test_a_missing_column_is_named_with_those_that_there_are():
    with pytest.raises(PromptError, match=r"row 0 .*no column 'langage' \(columns: .*language"):
        SingleTurnEnv([ROW], prompt=PromptTemplate(user="{langage}: {question}"))


def test_braces_that_name_no_column_stay():
    template = PromptTemplate(user='Reply as {"answer": 1}. {question}')
    assert texts(template.fill(ROW)) == [("user", 'Reply as {"answer": 1}. 2 + 3?')]


def test_braces_in_values_are_not_filled():
    row = {"question": "What is {language}?", "language": "French"}
    assert texts(PromptTemplate(user="{question}").fill(row)) == [("user", "What is {language}?")]


def test_a_text_file_is_the_user_message(tmp_path):
    template = PromptTemplate.from_file(write(tmp_path, "short.txt", "Briefly: {question}\n"))
    assert template.name == "short"
    assert texts(template.fill(ROW)) == [("user", "Briefly: 2 + 3?")]


@pytest.mark.parametrize(
    "text",
    [
        "system: Add.\nfew_shot:\n- {user: '1 + 1?', assistant: '2'}\nuser: '{question}'\n",
        "messages:\n- {role: system, content: Add.}\n- {role: user, content: '1 + 1?'}\n"
        "- {role: assistant, content: '2'}\n- {role: user, content: '{question}'}\n",
        "- {role: system, content: Add.}\n- {role: user, content: '1 + 1?'}\n"
        "- {role: assistant, content: '2'}\n- {role: user, content: '{question}'}\n",
    ],
)
def test_a_yaml_file_holds_parts_or_messages(tmp_path, text):
    template = PromptTemplate.from_file(write(tmp_path, "a.yaml", text))
    assert texts(template.fill(ROW)) == [
        ("system", "Add."),
        ("user", "1 + 1?"),
        ("assistant", "2"),
        ("user", "2 + 3?"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sistem: Add.\nuser: x", "did you mean 'system'"),
        ("5", "give a list of messages"),
        ("system: 5", "system is 5: give a text"),
        ("{question}", "holds {question} without quotes"),
        ("user: {question}", "give a text, and quote one that starts with a brace"),
        ("few_shot: [{user: '1'}]", "give pairs such as"),
        ("- {role: assistant, content: x}", "does not end with a user message"),
        ("- {role: tool, content: x}", "has the role 'tool'"),
        ("messages: [{role: user, content: x}]\nuser: y", "put all into messages"),
    ],
)
def test_a_wrong_file_says_what_to_write(tmp_path, text, message):
    with pytest.raises(PromptError, match=message):
        PromptTemplate.from_file(write(tmp_path, "a.yaml", text))


def test_rows_become_few_shot_examples():
    template = PromptTemplate(system="Add.", user="Q: {question}")
    rows = [{"question": "1 + {x}?", "answer": 2}, {"question": "2 + 2?", "answer": "4"}]
    assert texts(template.with_examples(rows, 1).fill(ROW)) == [
        ("system", "Add."),
        ("user", "Q: 1 + {x}?"),
        ("assistant", "2"),
        ("user", "Q: 2 + 3?"),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "1 + 1?"}], "has no `completion` or `answer`"),
        ([{"answer": "2"}], "has no `prompt` or `question`"),
        ([{"question": "1 + 1?", "answer": "2"}], "there are 1 few-shot rows"),
    ],
)
def test_wrong_few_shot_rows_are_refused(rows, message):
    with pytest.raises(PromptError, match=message):
        PromptTemplate().with_examples(rows, 2)


def test_a_template_and_a_system_prompt_are_not_given_together():
    with pytest.raises(ValueError, match="put them into the PromptTemplate"):
        SingleTurnEnv([ROW], prompt=PromptTemplate(), system_prompt="Add.")


def test_categories_are_the_tasks_of_rows_without_one():
    env = SingleTurnEnv([ROW | {"category": "sums"}, ROW | {"category": "sums", "task": "hard"}])
    assert [example["task"] for example in env.get_eval_dataset()] == ["sums", "hard"]
