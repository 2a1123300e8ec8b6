"""Ready-made rubrics. Each is loaded when it is first used."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
