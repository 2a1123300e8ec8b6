"""Rubrics that come ready made. Each loads when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.presets.judge import JudgeRubric as JudgeRubric
    from assay.presets.math import MathRubric as MathRubric

_MODULE_OF = {"JudgeRubric": "judge", "MathRubric": "math"}

__all__ = ["JudgeRubric", "MathRubric"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay.presets' has no attribute {name!r}")
    value = getattr(import_module(f"assay.presets.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
