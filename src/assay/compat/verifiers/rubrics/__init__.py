"""`verifiers.rubrics`."""

from assay import Rubric, RubricGroup

__all__ = ["Rubric", "RubricGroup"]
