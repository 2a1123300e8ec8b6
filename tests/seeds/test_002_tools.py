"""Seed 002, "ToolRubric: Evaluating Tool Use": the example, and what it says it includes."""

import importlib

from assay.compat.verifiers.tools import calculator, python

from assay.compat.verifiers.rubrics import SmolaToolRubric, ToolRubric

tool_rubric = ToolRubric(
    tools=[calculator],
    weights=[0.5, 0.3, 0.2],  # correct_answer, tool_execution, format
)


def chat(*turns):
    """Turns of model and environment, one after the other."""
    roles = ("assistant", "user")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]


def call(expression):
    body = f'{{"name": "calculator", "args": {{"expression": "{expression}"}}}}'
    return f"<reasoning>I need the calculator.</reasoning>\n<tool>\n{body}\n</tool>"


def reply(expression):
    return f"<result>\n{calculator(expression)}\n</result>"


ANSWER = "<reasoning>That is it.</reasoning>\n<answer>\n42\n</answer>"


def test_it_includes_what_it_says():
    """The three, and three for the tool."""
    assert tool_rubric.get_reward_func_names() == [
        "correct_answer_reward_func",
        "tool_execution_reward_func",
        "format_reward_func",
        "calculator_reward",
        "calculator_count",
        "calculator_attempt",
    ]
    assert tool_rubric.get_reward_weights() == [0.5, 0.3, 0.2, 0.0, 0.0, 0.0]


def test_one_call_that_succeeds_earns_everything():
    """0.5 + 0.3 + 0.2."""
    scores = tool_rubric.score_rollout_sync(
        prompt="What is 6 * 7?", completion=chat(call("6*7"), reply("6*7"), ANSWER), answer="42"
    )
    assert scores == {
        "correct_answer_reward_func": 1.0,
        "tool_execution_reward_func": 1.0,
        "format_reward_func": 1.0,
        "calculator_reward": 1.0,
        "calculator_count": 1.0,
        "calculator_attempt": 1.0,
        "reward": 1.0,
    }


def test_the_rewards_of_a_tool_are_what_the_list_says():
    """Used successfully at all; how often; and how often it was tried."""
    turns = (
        call("6*7"),
        reply("6*7"),
        call("1/0"),
        reply("1/0"),
        call("2*2"),
        reply("2*2"),
        ANSWER,
    )
    scores = tool_rubric.score_rollout_sync(completion=chat(*turns), answer="42")
    assert scores["calculator_reward"] == 1.0
    assert scores["calculator_count"] == 2.0
    assert scores["calculator_attempt"] == 3.0
    assert round(scores["reward"], 9) == round(0.5 + 0.3 * 2 / 3 + 0.2, 9)
    unused = tool_rubric.score_rollout_sync(completion=chat(ANSWER), answer="42")
    assert (unused["calculator_reward"], unused["calculator_attempt"]) == (0.0, 0.0)
    assert round(unused["reward"], 9) == 0.7


def test_the_class_tree_of_the_document_is_there():
    """`SmolaToolRubric` for smolagents, and all under the names that programs import."""
    vf = importlib.import_module("assay.compat.verifiers")
    assert issubclass(SmolaToolRubric, ToolRubric)
    assert issubclass(vf.SmolaToolRubric, vf.ToolRubric)
    assert issubclass(vf.ToolRubric, vf.Rubric)
    for module, name in (("tool_rubric", "ToolRubric"), ("smola_tool_rubric", "SmolaToolRubric")):
        mirror = importlib.import_module(f"assay.compat.verifiers.rubrics.{module}")
        assert getattr(mirror, name) is getattr(vf, name)
    assert python("print(calculator.__name__)").startswith("Error:")
    assert python("print(6 * 7)") == "42"
