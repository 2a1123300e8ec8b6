"""`rubric.autograders.base`."""

from assay.graders.autograder import Autograder

__all__ = ["Autograder"]
