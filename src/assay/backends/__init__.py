"""Backends score one run with many workers, and write the rows that one process would write, each once."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
