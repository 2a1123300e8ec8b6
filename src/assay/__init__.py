"""Score what language models write: one rubric, checked by code or judged by a model.

The public names stand here and load when first used, so `import assay` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.advantage import advantages as advantages
    from assay.criterion import Criterion as Criterion
    from assay.errors import AssayError as AssayError
    from assay.errors import GradingError as GradingError
    from assay.errors import JudgeError as JudgeError
    from assay.errors import MissingExtraError as MissingExtraError
    from assay.errors import RubricError as RubricError
    from assay.errors import RubricFileError as RubricFileError
    from assay.errors import SignatureError as SignatureError
    from assay.graders import Autograder as Autograder
    from assay.graders import ChoiceOutput as ChoiceOutput
    from assay.graders import CriterionEvaluation as CriterionEvaluation
    from assay.graders import LengthPenalty as LengthPenalty
    from assay.graders import OneShotOutput as OneShotOutput
    from assay.graders import PerCriterionGrader as PerCriterionGrader
    from assay.graders import PerCriterionOneShotGrader as PerCriterionOneShotGrader
    from assay.graders import PerCriterionOutput as PerCriterionOutput
    from assay.graders import RubricAsJudgeGrader as RubricAsJudgeGrader
    from assay.graders import RubricAsJudgeOutput as RubricAsJudgeOutput
    from assay.group import RubricGroup as RubricGroup
    from assay.lines import CriterionReport as CriterionReport
    from assay.math import MathOptions as MathOptions
    from assay.math import MathVerdict as MathVerdict
    from assay.parsers import MaybeThinkParser as MaybeThinkParser
    from assay.parsers import Parser as Parser
    from assay.parsers import ThinkParser as ThinkParser
    from assay.parsers import XMLParser as XMLParser
    from assay.parsers import extract_boxed_answer as extract_boxed_answer
    from assay.parsers import extract_hash_answer as extract_hash_answer
    from assay.presets import MathRubric as MathRubric
    from assay.report import EvaluationReport as EvaluationReport
    from assay.rollout import Rollout as Rollout
    from assay.rubric import Rubric as Rubric
    from assay.score import Score as Score
    from assay.types import GroupRewardFunc as GroupRewardFunc
    from assay.types import IndividualRewardFunc as IndividualRewardFunc
    from assay.types import Info as Info
    from assay.types import Message as Message
    from assay.types import Messages as Messages
    from assay.types import RewardFunc as RewardFunc
    from assay.types import State as State

__version__ = "0.1.0"

_HOMES = {
    "advantage": ("advantages",),
    "criterion": ("Criterion",),
    "errors": (
        "AssayError", "GradingError", "JudgeError", "MissingExtraError", "RubricError",
        "RubricFileError", "SignatureError",
    ),
    "graders": (
        "Autograder", "ChoiceOutput", "CriterionEvaluation", "LengthPenalty", "OneShotOutput",
        "PerCriterionGrader", "PerCriterionOneShotGrader", "PerCriterionOutput",
        "RubricAsJudgeGrader", "RubricAsJudgeOutput",
    ),
    "group": ("RubricGroup",),
    "parsers": (
        "MaybeThinkParser", "Parser", "ThinkParser", "XMLParser", "extract_boxed_answer",
        "extract_hash_answer",
    ),
    "lines": ("CriterionReport",),
    "math": ("MathOptions", "MathVerdict"),
    "presets": ("MathRubric",),
    "report": ("EvaluationReport",),
    "rollout": ("Rollout",),
    "rubric": ("Rubric",),
    "score": ("Score",),
    "types": (
        "GroupRewardFunc", "IndividualRewardFunc", "Info", "Message", "Messages", "RewardFunc",
        "State",
    ),
}  # fmt: skip
_MODULES = ("checks", "graders", "isolation", "math", "parsers", "testing")
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AssayError",
    "Autograder",
    "ChoiceOutput",
    "Criterion",
    "CriterionEvaluation",
    "CriterionReport",
    "EvaluationReport",
    "GradingError",
    "GroupRewardFunc",
    "IndividualRewardFunc",
    "Info",
    "JudgeError",
    "LengthPenalty",
    "MathOptions",
    "MathRubric",
    "MathVerdict",
    "MaybeThinkParser",
    "Message",
    "Messages",
    "MissingExtraError",
    "OneShotOutput",
    "Parser",
    "PerCriterionGrader",
    "PerCriterionOneShotGrader",
    "PerCriterionOutput",
    "RewardFunc",
    "Rollout",
    "Rubric",
    "RubricAsJudgeGrader",
    "RubricAsJudgeOutput",
    "RubricError",
    "RubricFileError",
    "RubricGroup",
    "Score",
    "SignatureError",
    "State",
    "ThinkParser",
    "XMLParser",
    "__version__",
    "advantages",
    "extract_boxed_answer",
    "extract_hash_answer",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"assay.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    value = getattr(import_module(f"assay.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
