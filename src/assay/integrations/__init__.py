"""A rubric where trainers and test runners want it, with the same numbers everywhere. No trainer is imported."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
