"""Score what language models write: one rubric, checked by code or judged by a model.

The public names stand here and load when first used, so `import assay` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.lazy import lazily
from assay.version import VERSION

if TYPE_CHECKING:
    from assay.aggregation import advantages as advantages
    from assay.criterion import Criterion as Criterion
    from assay.envs import Environment as Environment
    from assay.envs import Evaluation as Evaluation
    from assay.envs import MultiTurnEnv as MultiTurnEnv
    from assay.envs import Results as Results
    from assay.envs import SingleTurnEnv as SingleTurnEnv
    from assay.envs import ToolEnv as ToolEnv
    from assay.envs import cleanup as cleanup
    from assay.envs import stop as stop
    from assay.envs import teardown as teardown
    from assay.errors import AssayError as AssayError
    from assay.errors import BudgetExceeded as BudgetExceeded
    from assay.errors import CircuitOpen as CircuitOpen
    from assay.errors import DeadlineExceeded as DeadlineExceeded
    from assay.errors import GradingError as GradingError
    from assay.errors import JudgeError as JudgeError
    from assay.errors import MissingExtraError as MissingExtraError
    from assay.errors import ModelError as ModelError
    from assay.errors import NotAsked as NotAsked
    from assay.errors import OffMenu as OffMenu
    from assay.errors import Overloaded as Overloaded
    from assay.errors import RateLimited as RateLimited
    from assay.errors import Refused as Refused
    from assay.errors import RubricError as RubricError
    from assay.errors import RubricFileError as RubricFileError
    from assay.errors import SignatureError as SignatureError
    from assay.errors import Truncated as Truncated
    from assay.errors import Unreadable as Unreadable
    from assay.graders import Anchor as Anchor
    from assay.graders import Anchored as Anchored
    from assay.graders import Autograder as Autograder
    from assay.graders import Cascade as Cascade
    from assay.graders import ChoiceOutput as ChoiceOutput
    from assay.graders import CriterionEvaluation as CriterionEvaluation
    from assay.graders import EarlyStop as EarlyStop
    from assay.graders import Expectation as Expectation
    from assay.graders import Guarded as Guarded
    from assay.graders import LengthPenalty as LengthPenalty
    from assay.graders import OneShotOutput as OneShotOutput
    from assay.graders import Panel as Panel
    from assay.graders import PerBatchGrader as PerBatchGrader
    from assay.graders import PerCriterionGrader as PerCriterionGrader
    from assay.graders import PerCriterionOneShotGrader as PerCriterionOneShotGrader
    from assay.graders import PerCriterionOutput as PerCriterionOutput
    from assay.graders import Referenced as Referenced
    from assay.graders import RubricAsJudgeGrader as RubricAsJudgeGrader
    from assay.graders import RubricAsJudgeOutput as RubricAsJudgeOutput
    from assay.graders import Samples as Samples
    from assay.graders import Swapped as Swapped
    from assay.graders import Tournament as Tournament
    from assay.graders import Transcript as Transcript
    from assay.math import MathOptions as MathOptions
    from assay.math import MathVerdict as MathVerdict
    from assay.models import Limits as Limits
    from assay.models import Model as Model
    from assay.models import Price as Price
    from assay.models import Reply as Reply
    from assay.models import Request as Request
    from assay.models import Usage as Usage
    from assay.models import budget as budget
    from assay.models import configure as configure
    from assay.models import default_model as default_model
    from assay.models import model_of as model_of
    from assay.models import rehearsal as rehearsal
    from assay.parsers import MaybeThinkParser as MaybeThinkParser
    from assay.parsers import Parser as Parser
    from assay.parsers import ThinkParser as ThinkParser
    from assay.parsers import XMLParser as XMLParser
    from assay.parsers import extract_boxed_answer as extract_boxed_answer
    from assay.parsers import extract_hash_answer as extract_hash_answer
    from assay.presets import JudgeRubric as JudgeRubric
    from assay.presets import MathRubric as MathRubric
    from assay.presets import SmolaToolRubric as SmolaToolRubric
    from assay.presets import ToolRubric as ToolRubric
    from assay.report import CriterionReport as CriterionReport
    from assay.report import EvaluationReport as EvaluationReport
    from assay.report import Score as Score
    from assay.rollout import Rollout as Rollout
    from assay.rubric import Rubric as Rubric
    from assay.rubric import RubricGroup as RubricGroup
    from assay.runs import Run as Run
    from assay.runs import RunError as RunError
    from assay.runs import Summary as Summary
    from assay.runs import rescore as rescore
    from assay.runs import score_rows as score_rows
    from assay.tables import TableError as TableError
    from assay.tables import rows_of as rows_of
    from assay.types import GroupRewardFunc as GroupRewardFunc
    from assay.types import IndividualRewardFunc as IndividualRewardFunc
    from assay.types import Info as Info
    from assay.types import Message as Message
    from assay.types import Messages as Messages
    from assay.types import RewardFunc as RewardFunc
    from assay.types import State as State

__version__ = VERSION

_HOMES = {
    "aggregation": ("advantages",),
    "criterion": ("Criterion",),
    "errors": (
        "AssayError", "BudgetExceeded", "CircuitOpen", "DeadlineExceeded", "GradingError",
        "JudgeError", "MissingExtraError", "ModelError", "NotAsked", "OffMenu", "Overloaded",
        "RateLimited", "Refused", "RubricError", "RubricFileError", "SignatureError", "Truncated",
        "Unreadable",
    ),
    "graders": (
        "Anchor", "Anchored", "Autograder", "Cascade", "ChoiceOutput", "CriterionEvaluation",
        "EarlyStop", "Expectation", "Guarded", "LengthPenalty", "OneShotOutput", "Panel",
        "PerBatchGrader", "PerCriterionGrader", "PerCriterionOneShotGrader", "PerCriterionOutput",
        "Referenced", "RubricAsJudgeGrader", "RubricAsJudgeOutput", "Samples", "Swapped",
        "Tournament", "Transcript",
    ),
    "envs": (
        "Environment", "Evaluation", "MultiTurnEnv", "Results", "SingleTurnEnv", "ToolEnv", "cleanup", "stop",
        "teardown",
    ),
    "models": (
        "Limits", "Model", "Price", "Reply", "Request", "Usage", "budget", "configure",
        "default_model", "model_of", "rehearsal",
    ),
    "parsers": (
        "MaybeThinkParser", "Parser", "ThinkParser", "XMLParser", "extract_boxed_answer",
        "extract_hash_answer",
    ),
    "math": ("MathOptions", "MathVerdict"),
    "presets": ("JudgeRubric", "MathRubric", "SmolaToolRubric", "ToolRubric"),
    "report": ("CriterionReport", "EvaluationReport", "Score"),
    "rollout": ("Rollout",),
    "rubric": ("Rubric", "RubricGroup"),
    "runs": ("Run", "RunError", "Summary", "rescore", "score_rows"),
    "tables": ("TableError", "rows_of"),
    "types": (
        "GroupRewardFunc", "IndividualRewardFunc", "Info", "Message", "Messages", "RewardFunc",
        "State",
    ),
}  # fmt: skip
_MODULES = (
    "checks", "envs", "graders", "integrations", "isolation", "math", "models", "parsers", "runs", "server", "tables",
    "testing", "tools", "trust",
)  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Anchor",
    "Anchored",
    "AssayError",
    "Autograder",
    "BudgetExceeded",
    "Cascade",
    "ChoiceOutput",
    "CircuitOpen",
    "Criterion",
    "CriterionEvaluation",
    "CriterionReport",
    "DeadlineExceeded",
    "EarlyStop",
    "Environment",
    "Evaluation",
    "EvaluationReport",
    "Expectation",
    "GradingError",
    "GroupRewardFunc",
    "Guarded",
    "IndividualRewardFunc",
    "Info",
    "JudgeError",
    "JudgeRubric",
    "LengthPenalty",
    "Limits",
    "MathOptions",
    "MathRubric",
    "MathVerdict",
    "MaybeThinkParser",
    "Message",
    "Messages",
    "MissingExtraError",
    "Model",
    "ModelError",
    "MultiTurnEnv",
    "NotAsked",
    "OffMenu",
    "OneShotOutput",
    "Overloaded",
    "Panel",
    "Parser",
    "PerBatchGrader",
    "PerCriterionGrader",
    "PerCriterionOneShotGrader",
    "PerCriterionOutput",
    "Price",
    "RateLimited",
    "Referenced",
    "Refused",
    "Reply",
    "Request",
    "Results",
    "RewardFunc",
    "Rollout",
    "Rubric",
    "RubricAsJudgeGrader",
    "RubricAsJudgeOutput",
    "RubricError",
    "RubricFileError",
    "RubricGroup",
    "Run",
    "RunError",
    "Samples",
    "Score",
    "SignatureError",
    "SingleTurnEnv",
    "SmolaToolRubric",
    "State",
    "Summary",
    "Swapped",
    "TableError",
    "ThinkParser",
    "ToolEnv",
    "ToolRubric",
    "Tournament",
    "Transcript",
    "Truncated",
    "Unreadable",
    "Usage",
    "XMLParser",
    "__version__",
    "advantages",
    "budget",
    "cleanup",
    "configure",
    "default_model",
    "extract_boxed_answer",
    "extract_hash_answer",
    "model_of",
    "rehearsal",
    "rescore",
    "rows_of",
    "score_rows",
    "stop",
    "teardown",
]


_named = lazily(__name__, _MODULE_OF)


def __getattr__(name: str) -> Any:
    return import_module(f"assay.{name}") if name in _MODULES else _named(name)


def __dir__() -> list[str]:
    return __all__
