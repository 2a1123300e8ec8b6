"""`verifiers.rubrics.tool_rubric`."""

from assay.presets import ToolRubric

__all__ = ["ToolRubric"]
