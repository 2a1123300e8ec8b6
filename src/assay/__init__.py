"""Score what language models write: one rubric, checked by code or judged by a model.

The public names stand in `__init__.pyi` and load when first used, so `import assay` costs next to nothing.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["__version__"]
__version__ = "0.1.0"
