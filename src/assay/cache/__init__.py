"""The verdict cache: what a judge answered once is not asked, or paid for, again."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
