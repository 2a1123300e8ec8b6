"""The names of `rubric` 2.0 on our engine. Where it gives a wrong number this does not: missing verdicts are errors."""

from assay.compat.mirror import mirror
from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

_HERE = "assay.compat.rubric.judged_rubric"
_GRADERS, _VERDICTS, _LENGTH = "assay.graders", "assay.graders.verdicts", "assay.graders.length"
_OUTPUTS = "OneShotOutput PerCriterionOutput RubricAsJudgeOutput"

mirror(
    __name__,
    {
        "rubric": {_HERE: "Rubric"},
        "types": {
            _HERE: "Criterion ToGradeInput",
            "assay.report": "CriterionReport EvaluationReport",
            "assay.graders.judge_input": "ThinkingOutputDict",
            _LENGTH: "CountFn LengthPenalty PenaltyType",
            _VERDICTS: "OneShotGenerateFn PerCriterionGenerateFn RubricAsJudgeGenerateFn",
        },
        "utils": {
            _HERE: "default_oneshot_generate_fn default_per_criterion_generate_fn default_rubric_as_judge_generate_fn",
            _LENGTH: "compute_length_penalty normalize_to_grade_input parse_thinking_output word_count",
        },
        "autograders": {
            _GRADERS: "Autograder PerCriterionGrader PerCriterionOneShotGrader RubricAsJudgeGrader",
            _VERDICTS: _OUTPUTS,
        },
        "autograders.base": {_GRADERS: "Autograder"},
        "autograders.per_criterion_grader": {
            _GRADERS: "PerCriterionGrader",
            _HERE: "DEFAULT_SYSTEM_PROMPT=PER_CRITERION_PROMPT",
        },
        "autograders.per_criterion_one_shot_grader": {
            _GRADERS: "PerCriterionOneShotGrader",
            _HERE: "DEFAULT_SYSTEM_PROMPT=ONE_SHOT_PROMPT",
        },
        "autograders.rubric_as_judge_grader": {
            _GRADERS: "RubricAsJudgeGrader",
            _HERE: "DEFAULT_SYSTEM_PROMPT=WHOLE_PROMPT",
        },
        "autograders.schemas": {_VERDICTS: f"CriterionEvaluation {_OUTPUTS}"},
    },
)
