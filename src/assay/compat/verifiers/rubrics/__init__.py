"""`verifiers.rubrics`."""

from assay.compat.verifiers.rubrics.judge_rubric import JudgeRubric
from assay.compat.verifiers.rubrics.math_rubric import MathRubric
from assay.compat.verifiers.rubrics.rubric import Rubric
from assay.compat.verifiers.rubrics.rubric_group import RubricGroup
from assay.compat.verifiers.rubrics.smola_tool_rubric import SmolaToolRubric
from assay.compat.verifiers.rubrics.tool_rubric import ToolRubric

__all__ = ["JudgeRubric", "MathRubric", "Rubric", "RubricGroup", "SmolaToolRubric", "ToolRubric"]
