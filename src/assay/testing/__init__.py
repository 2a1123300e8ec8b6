"""Public fakes and makers for tests, and a model endpoint on this machine that answers by rule and fails on demand."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
