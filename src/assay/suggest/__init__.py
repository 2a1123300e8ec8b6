"""Draft criteria by a model, and judge them before they are relied on. It needs the extra `cli`."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
