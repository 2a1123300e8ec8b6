from assay.compat.rubric.judged_rubric import Criterion as Criterion
from assay.compat.rubric.judged_rubric import Rubric as Rubric
from assay.compat.rubric.judged_rubric import ToGradeInput as ToGradeInput
from assay.compat.rubric.judged_rubric import (
    default_oneshot_generate_fn as default_oneshot_generate_fn,
)
from assay.compat.rubric.judged_rubric import (
    default_per_criterion_generate_fn as default_per_criterion_generate_fn,
)
from assay.compat.rubric.judged_rubric import (
    default_rubric_as_judge_generate_fn as default_rubric_as_judge_generate_fn,
)
from assay.graders.length import CountFn as CountFn
from assay.graders.length import LengthPenalty as LengthPenalty
from assay.graders.length import PenaltyType as PenaltyType
from assay.graders.length import compute_length_penalty as compute_length_penalty
from assay.graders.length import normalize_to_grade_input as normalize_to_grade_input
from assay.graders.length import parse_thinking_output as parse_thinking_output
from assay.graders.length import word_count as word_count
from assay.graders.verdicts import CriterionEvaluation as CriterionEvaluation
from assay.graders.verdicts import OneShotGenerateFn as OneShotGenerateFn
from assay.graders.verdicts import OneShotOutput as OneShotOutput
from assay.graders.verdicts import PerCriterionGenerateFn as PerCriterionGenerateFn
from assay.graders.verdicts import PerCriterionOutput as PerCriterionOutput
from assay.graders.verdicts import RubricAsJudgeGenerateFn as RubricAsJudgeGenerateFn
from assay.graders.verdicts import RubricAsJudgeOutput as RubricAsJudgeOutput
from assay.report import CriterionReport as CriterionReport
from assay.report import EvaluationReport as EvaluationReport
from assay.types import ThinkingOutputDict as ThinkingOutputDict
