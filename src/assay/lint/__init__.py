"""Find what a rubric says in a way that judges will stumble over, before any model is asked."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
