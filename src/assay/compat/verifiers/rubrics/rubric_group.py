"""`verifiers.rubrics.rubric_group`."""

from assay import RubricGroup

__all__ = ["RubricGroup"]
