"""Run untrusted checks in worker processes, each with a deadline that holds."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
