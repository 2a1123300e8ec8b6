"""Rubrics that come ready made. Each loads when first used."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
