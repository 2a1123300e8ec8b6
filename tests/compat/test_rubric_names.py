"""The names of `rubric` 2.0.0, where its programs look for them."""

import importlib

import pytest

import assay
from assay.compat import rubric
from assay.compat.rubric.autograders import PerCriterionGrader
from assay.models.providers import PROVIDERS

ROOT = """Rubric Criterion CriterionReport EvaluationReport CriterionEvaluation
    PerCriterionGenerateFn OneShotGenerateFn RubricAsJudgeGenerateFn
    default_per_criterion_generate_fn default_oneshot_generate_fn
    default_rubric_as_judge_generate_fn LengthPenalty PenaltyType CountFn ThinkingOutputDict
    ToGradeInput compute_length_penalty normalize_to_grade_input parse_thinking_output word_count
    PerCriterionOutput OneShotOutput RubricAsJudgeOutput"""
GRADERS = """Autograder PerCriterionGrader PerCriterionOneShotGrader RubricAsJudgeGrader
    OneShotOutput PerCriterionOutput RubricAsJudgeOutput"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("", ROOT),
        (".rubric", "Rubric"),
        (
            ".types",
            """Criterion CriterionReport EvaluationReport PerCriterionGenerateFn OneShotGenerateFn
            RubricAsJudgeGenerateFn LengthPenalty PenaltyType CountFn ThinkingOutputDict
            ToGradeInput""",
        ),
        (
            ".utils",
            """default_per_criterion_generate_fn default_oneshot_generate_fn
            default_rubric_as_judge_generate_fn compute_length_penalty normalize_to_grade_input
            parse_thinking_output word_count""",
        ),
        (".autograders", GRADERS),
        (".autograders.base", "Autograder"),
        (".autograders.per_criterion_grader", "PerCriterionGrader DEFAULT_SYSTEM_PROMPT"),
        (
            ".autograders.per_criterion_one_shot_grader",
            "PerCriterionOneShotGrader DEFAULT_SYSTEM_PROMPT",
        ),
        (".autograders.rubric_as_judge_grader", "RubricAsJudgeGrader DEFAULT_SYSTEM_PROMPT"),
        (
            ".autograders.schemas",
            "PerCriterionOutput CriterionEvaluation OneShotOutput RubricAsJudgeOutput",
        ),
    ],
)
def test_every_name_is_there(module: str, names: str) -> None:
    """Importable, and listed in `__all__`, where it was."""
    mirror = importlib.import_module(f"assay.compat.rubric{module}")
    for name in names.split():
        assert hasattr(mirror, name)
        assert name in getattr(mirror, "__all__", [name])


def test_the_graders_are_ours() -> None:
    """There is one engine, and these are names for it."""
    assert PerCriterionGrader is assay.PerCriterionGrader
    assert rubric.EvaluationReport is assay.EvaluationReport
    assert issubclass(rubric.Rubric, assay.Rubric)
    assert issubclass(rubric.Criterion, assay.Criterion)


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_JUDGE", raising=False)
    for provider in PROVIDERS.values():
        if provider.key_variable is not None:
            monkeypatch.delenv(provider.key_variable, raising=False)


@pytest.mark.parametrize(
    "name",
    [
        "default_per_criterion_generate_fn",
        "default_oneshot_generate_fn",
        "default_rubric_as_judge_generate_fn",
    ],
)
async def test_there_is_no_default_model(name: str, without_keys: None) -> None:
    """Without a key no provider is asked, and the sentence says what to set."""
    with pytest.raises(assay.JudgeError, match="no default judge is configured: set"):
        await getattr(rubric, name)("system", "user")


async def test_grading_without_a_grader_says_so(without_keys: None) -> None:
    """The default grader has no model to ask."""
    with pytest.raises(assay.JudgeError, match="no default judge"):
        await rubric.Rubric.from_dict([{"weight": 1, "requirement": "x"}]).grade("a text")
