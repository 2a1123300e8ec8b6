from assay.presets.judge import JudgeRubric as JudgeRubric
from assay.presets.math import MathRubric as MathRubric
from assay.presets.smolagents import SmolaToolRubric as SmolaToolRubric
from assay.presets.tools import ToolRubric as ToolRubric
