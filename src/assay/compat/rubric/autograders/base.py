"""`rubric.autograders.base`."""

from assay.graders.base import Autograder

__all__ = ["Autograder"]
