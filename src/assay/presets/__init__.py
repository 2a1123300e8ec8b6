"""Rubrics that come ready made."""

from assay.presets.math import MathRubric

__all__ = ["MathRubric"]
