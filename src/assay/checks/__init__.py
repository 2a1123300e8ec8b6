"""Check completions by code: the checks that come with the library, for Python and for rubric files."""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
