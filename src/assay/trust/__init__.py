"""Measure how far a judge can be trusted. Statistics need the extra `cli`."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
