"""The public names: all there, all documented, all listed once."""

import importlib
import inspect
import pickle

import pytest

import assay


@pytest.mark.parametrize("name", assay.__all__)
def test_every_public_name_is_there(name):
    """And can be found by `dir`."""
    assert getattr(assay, name) is not None
    assert name in dir(assay)


@pytest.mark.parametrize("name", [n for n in assay.__all__ if inspect.isclass(getattr(assay, n))])
def test_every_public_class_has_a_docstring(name):
    """Its own, not one it inherits."""
    assert getattr(assay, name).__doc__


def test_the_modules_people_reach_for_are_there():
    """Without importing them first."""
    assert assay.checks.Contains("a")("cat")
    assert assay.testing.make_rollout().answer == "4"
    assert assay.math.MathOptions is assay.MathOptions
    assert assay.isolation.Outcome(1).ok


def test_an_unknown_name_is_an_attribute_error():
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'Rubrik'"):
        _ = assay.Rubrik


VERIFIERS = {
    "": "Rubric RubricGroup JudgeRubric MathRubric ToolRubric SmolaToolRubric Parser XMLParser ThinkParser MaybeThinkParser State Messages RewardFunc "
    "GroupRewardFunc IndividualRewardFunc RolloutInput RolloutTiming RolloutScore RolloutScores "
    "extract_boxed_answer extract_hash_answer setup_logging Error ModelError "
    "InvalidModelResponseError EmptyModelResponseError OverlongPromptError ToolError "
    "ToolParseError ToolCallError InfraError",
    ".types": "State Messages RewardFunc GroupRewardFunc RolloutInput RolloutTiming",
    ".errors": "Error ModelError ToolError InfraError",
    ".parsers": "Parser XMLParser ThinkParser MaybeThinkParser",
    ".parsers.parser": "Parser",
    ".parsers.xml_parser": "XMLParser",
    ".parsers.think_parser": "ThinkParser",
    ".parsers.maybe_think_parser": "MaybeThinkParser",
    ".envs": "Environment SingleTurnEnv MultiTurnEnv ToolEnv",
    ".decorators": "stop cleanup teardown",
    ".rubrics": "Rubric RubricGroup JudgeRubric MathRubric ToolRubric SmolaToolRubric",
    ".rubrics.tool_rubric": "ToolRubric",
    ".rubrics.smola_tool_rubric": "SmolaToolRubric",
    ".tools": "calculator python",
    ".rubrics.rubric": "Rubric",
    ".rubrics.rubric_group": "RubricGroup",
    ".rubrics.math_rubric": "MathRubric",
    ".rubrics.judge_rubric": "JudgeRubric DEFAULT_JUDGE_PROMPT",
    ".utils.data_utils": "load_example_dataset extract_boxed_answer extract_hash_answer BOXED_SYSTEM_PROMPT "
    "THINK_BOXED_SYSTEM_PROMPT strip_non_numeric",
    ".utils.async_utils": "maybe_await",
}


@pytest.mark.parametrize("module", VERIFIERS)
def test_the_names_of_verifiers_stand_where_its_programs_look(module):
    """Only the first word of the import changes."""
    mirror = importlib.import_module(f"assay.compat.verifiers{module}")
    for name in VERIFIERS[module].split():
        assert hasattr(mirror, name), name


def test_mirrored_modules_are_modules():
    """A deep import binds every step of its path, its classes travel by pickle, and what is not there is said."""
    import assay.compat.verifiers.rubrics.math_rubric
    from assay.compat.verifiers.rubrics.math_rubric import MathRubric

    from assay.compat.verifiers.rubrics import math_rubric

    assert assay.compat.verifiers.rubrics.math_rubric is math_rubric
    assert math_rubric.__all__ == ["MathRubric"]
    assert type(pickle.loads(pickle.dumps(MathRubric()))) is assay.compat.verifiers.MathRubric
    with pytest.raises(ImportError, match="cannot import name 'Rubrik'"):
        exec("from assay.compat.verifiers.rubrics import Rubrik")
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        importlib.import_module("assay.compat.verifiers.rubrics.no_such")


async def test_a_program_for_verifiers_runs():
    """Its error tree, its small functions and its scoring."""
    vf = importlib.import_module("assay.compat.verifiers")
    maybe_await = importlib.import_module("assay.compat.verifiers.utils.async_utils").maybe_await
    assert issubclass(vf.EmptyModelResponseError, vf.ModelError)
    assert await maybe_await(len, "abc") == 3
    rubric = vf.Rubric(funcs=[lambda completion, **kwargs: 1.0])
    state: vf.State = {"prompt": "", "completion": "", "answer": "", "task": "", "timing": {}}
    with vf.quiet_verifiers():
        await rubric.score_rollout(state)
    assert state["reward"] == 1.0
