"""Read completions: the whole text, tagged fields, or the text after the reasoning."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
