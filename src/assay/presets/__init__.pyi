from assay.presets.judge_rubric import JudgeRubric as JudgeRubric
from assay.presets.math_rubric import MathRubric as MathRubric
from assay.presets.smolagents import SmolaToolRubric as SmolaToolRubric
from assay.presets.tool_rubric import ToolRubric as ToolRubric
