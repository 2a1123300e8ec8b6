"""A rubric that was given no parser reads with its environment's. No right answer is a silent zero."""

import pytest

from assay import JudgeRubric, MathRubric, Parser, Rubric, RubricError, RubricGroup, XMLParser
from assay.envs import SingleTurnEnv
from assay.testing import FakeModel

ROWS = [{"question": "2 + 2?", "answer": "4"}]
TAGGED = XMLParser(["think", "answer"])


def correct(parser, completion, answer):
    return parser.parse_answer(completion) == answer


class Own(Rubric):
    """A rubric whose check reads with `self.parser`."""

    def correct(self, completion, answer):
        return self.parser.parse(completion).answer == answer


@pytest.fixture
def tagged(serve):
    """A model that answers in tags."""
    return serve("<think>2 + 2</think><answer>4</answer>").model


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rubric([correct]),
        lambda: Own([Own.correct]),
        lambda: RubricGroup([Rubric([correct])]),
        lambda: RubricGroup([RubricGroup([Rubric([correct])])]),
        lambda: Rubric([Rubric([correct]).as_criterion()]),
        lambda: MathRubric(),
    ],
)
def test_the_environments_parser_is_handed_down(tagged, make):
    """Into groups, nested rubrics, and presets that have a parser of their own liking."""
    env = SingleTurnEnv(ROWS, parser=TAGGED, rubric=make())
    assert env.evaluate(model=tagged)["reward"] == [1.0]


def test_a_parser_of_the_rubrics_own_wins(tagged):
    """It was given on purpose."""
    rubric = Rubric([correct], parser=Parser(lambda text: "4"))
    env = SingleTurnEnv(ROWS, parser=Parser(), rubric=rubric)
    assert env.evaluate(model=tagged)["reward"] == [1.0]
    assert type(env.parser) is Parser


@pytest.mark.parametrize("how", ["setter", "class object"])
def test_one_that_is_given_later_is_given_too(how):
    """By either door."""
    rubric = Rubric([correct])
    if how == "setter":
        rubric.parser = TAGGED
    else:
        rubric.add_class_object("parser", TAGGED)
    SingleTurnEnv(ROWS, parser=Parser(), rubric=rubric)
    assert rubric.parser is TAGGED


def test_the_nearest_parser_that_was_given_is_inherited():
    """A group's own goes before the environment's."""
    inner = Rubric([correct])
    SingleTurnEnv(ROWS, parser=Parser(), rubric=RubricGroup([inner], parser=TAGGED))
    assert inner.parser is TAGGED


def test_without_one_the_environment_reads_as_its_rubric_does():
    """And changes nothing about it."""
    rubric = MathRubric()
    parser = rubric.parser
    env = SingleTurnEnv(ROWS, rubric=rubric)
    assert env.parser is rubric.parser is parser


def test_a_rubric_in_two_environments_reads_as_each_does(tagged):
    """One after the other."""
    rubric = Rubric([correct])
    first = SingleTurnEnv(ROWS, parser=TAGGED, rubric=rubric)
    second = SingleTurnEnv(ROWS, parser=Parser(), rubric=rubric)
    assert first.evaluate(model=tagged)["reward"] == [1.0]
    assert second.evaluate(model=tagged)["reward"] == [0.0]
    assert first.evaluate(model=tagged)["reward"] == [1.0]


def test_what_reads_a_judges_replies_is_not_replaced():
    """It is none that reads completions."""
    rubric = JudgeRubric(judge_models=[FakeModel("7")], template="{completion} Score from 0-10:")
    SingleTurnEnv(ROWS, parser=TAGGED, rubric=rubric)
    assert type(rubric.parser) is Parser
    rubric = JudgeRubric(judge_model=FakeModel("yes"))
    SingleTurnEnv(ROWS, parser=TAGGED, rubric=rubric)
    assert rubric.parser is TAGGED


def test_a_rubric_that_is_none_is_refused():
    """A list of functions, for one."""
    with pytest.raises(RubricError, match="give a Rubric"):
        SingleTurnEnv(ROWS, rubric=[correct])
