"""`verifiers.rubrics`."""

from assay import JudgeRubric, MathRubric, Rubric, RubricGroup
from assay.presets import SmolaToolRubric, ToolRubric

__all__ = [
    "JudgeRubric",
    "MathRubric",
    "Rubric",
    "RubricGroup",
    "SmolaToolRubric",
    "ToolRubric",
]
