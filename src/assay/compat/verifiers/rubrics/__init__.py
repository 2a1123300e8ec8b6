"""`verifiers.rubrics`."""

from assay import MathRubric, Rubric, RubricGroup

__all__ = ["MathRubric", "Rubric", "RubricGroup"]
