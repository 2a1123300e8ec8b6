"""The verdict cache: a question that a judge has answered is not asked, or paid for, again."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
