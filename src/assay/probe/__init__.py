"""Attack a judge on responses that deserve to fail, and count how often they pass. It needs the extra `cli`."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
