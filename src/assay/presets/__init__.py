"""Rubrics that come ready made. Each loads when first used."""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.presets.judge import JudgeRubric as JudgeRubric
    from assay.presets.math import MathRubric as MathRubric
    from assay.presets.smola import SmolaToolRubric as SmolaToolRubric
    from assay.presets.tools import ToolRubric as ToolRubric

_MODULE_OF = {
    "JudgeRubric": "judge",
    "MathRubric": "math",
    "SmolaToolRubric": "smola",
    "ToolRubric": "tools",
}

__all__ = ["JudgeRubric", "MathRubric", "SmolaToolRubric", "ToolRubric"]


__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
