"""`verifiers.rubrics.smola_tool_rubric`."""

from assay.presets import SmolaToolRubric

__all__ = ["SmolaToolRubric"]
