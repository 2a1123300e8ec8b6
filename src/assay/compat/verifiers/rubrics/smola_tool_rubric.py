"""`verifiers.rubrics.smola_tool_rubric`."""

from assay import presets
from assay.compat.verifiers.rubrics.tool_rubric import ToolRubric


class SmolaToolRubric(ToolRubric, presets.SmolaToolRubric):
    """Ours, under their name, with a reward that is always a number."""


__all__ = ["SmolaToolRubric"]
