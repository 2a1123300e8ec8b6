"""`verifiers.rubrics`."""

from assay import JudgeRubric, MathRubric, Rubric, RubricGroup

__all__ = ["JudgeRubric", "MathRubric", "Rubric", "RubricGroup"]
