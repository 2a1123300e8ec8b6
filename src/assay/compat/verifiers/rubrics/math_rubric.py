"""`verifiers.rubrics.math_rubric`."""

from assay import MathRubric

__all__ = ["MathRubric"]
