"""Public fakes and factories for tests, and a local model endpoint that answers by rule and fails on demand."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
