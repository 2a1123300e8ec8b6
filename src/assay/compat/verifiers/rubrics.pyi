from assay.compat.verifiers.numeric_rubrics import JudgeRubric as JudgeRubric
from assay.compat.verifiers.numeric_rubrics import MathRubric as MathRubric
from assay.compat.verifiers.numeric_rubrics import Rubric as Rubric
from assay.compat.verifiers.numeric_rubrics import RubricGroup as RubricGroup
from assay.compat.verifiers.numeric_rubrics import SmolaToolRubric as SmolaToolRubric
from assay.compat.verifiers.numeric_rubrics import ToolRubric as ToolRubric
