"""Decide whether two mathematical answers are equal, by the cheapest tier that is certain."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
