"""The names of `rubric` 2.0 on our engine: change the import line, keep the program.

Where that package gives a wrong number this one does not: a missing verdict is an error and not
UNMET, a weight or score that is not finite is refused, and nothing judged is None and not 0.
"""

from assay.compat.rubric.autograders.schemas import (
    CriterionEvaluation,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)
from assay.compat.rubric.rubric import Rubric
from assay.compat.rubric.types import (
    CountFn,
    Criterion,
    CriterionReport,
    EvaluationReport,
    LengthPenalty,
    OneShotGenerateFn,
    PenaltyType,
    PerCriterionGenerateFn,
    RubricAsJudgeGenerateFn,
    ThinkingOutputDict,
    ToGradeInput,
)
from assay.compat.rubric.utils import (
    compute_length_penalty,
    default_oneshot_generate_fn,
    default_per_criterion_generate_fn,
    default_rubric_as_judge_generate_fn,
    normalize_to_grade_input,
    parse_thinking_output,
    word_count,
)

__all__ = [
    "CountFn",
    "Criterion",
    "CriterionEvaluation",
    "CriterionReport",
    "EvaluationReport",
    "LengthPenalty",
    "OneShotGenerateFn",
    "OneShotOutput",
    "PenaltyType",
    "PerCriterionGenerateFn",
    "PerCriterionOutput",
    "Rubric",
    "RubricAsJudgeGenerateFn",
    "RubricAsJudgeOutput",
    "ThinkingOutputDict",
    "ToGradeInput",
    "compute_length_penalty",
    "default_oneshot_generate_fn",
    "default_per_criterion_generate_fn",
    "default_rubric_as_judge_generate_fn",
    "normalize_to_grade_input",
    "parse_thinking_output",
    "word_count",
]
