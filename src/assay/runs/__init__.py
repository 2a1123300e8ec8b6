"""A run is a folder: what was run, a line for each finished rollout, and a summary."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
