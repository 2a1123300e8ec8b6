"""Environments: examples to ask a model about, and a rubric that scores its answers. The names load when first used."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
