"""`verifiers.rubrics.tool_rubric`."""

from assay import presets
from assay.compat.verifiers.rubrics.rubric import Rubric


class ToolRubric(Rubric, presets.ToolRubric):
    """Ours, under their name, with a reward that is always a number."""


__all__ = ["ToolRubric"]
