"""Score what language models write: one rubric, checked by code or judged by a model.

The public names are listed in `__init__.pyi` and loaded when they are first used, so that
`import assay` is fast.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["__version__"]
__version__ = "0.1.0"
