"""`verifiers.rubrics.rubric`."""

from assay import Rubric

__all__ = ["Rubric"]
