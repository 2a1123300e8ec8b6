"""Who answers the criteria that a model judges."""

from assay.graders.base import Autograder

__all__ = ["Autograder"]
