"""A run is a folder with one SQLite file: settings, finished rollouts and a summary."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
