"""Who answers the criteria that a model judges.

base           Autograder: subclass it for a judge of your own
per_criterion  one call a criterion; one_shot, one call for all; batches, any number between
holistic       one number for all
composite      graders around graders: panel, cascade, expectation, early_stop, guard
anchored       what a judge is shown beside the reply: judged examples; shown, the rest
tournament     the responses of a group, two by two
schemas        what a model replies; generate, the functions that ask it
prompting      what it is asked; prompts/, in prose; fence, around what is judged
degenerate     answers that are none; templates and ratings, a judge in the user's own words

Graders around graders load when first used: a rubric without them pays for none.
"""

from typing import TYPE_CHECKING

from assay.graders.base import Autograder
from assay.graders.generate import (
    OneShotGenerateFn,
    PerCriterionGenerateFn,
    RubricAsJudgeGenerateFn,
)
from assay.graders.holistic import RubricAsJudgeGrader
from assay.graders.length import LengthPenalty
from assay.graders.one_shot import PerCriterionOneShotGrader
from assay.graders.per_criterion import PerCriterionGrader
from assay.graders.schemas import (
    ChoiceEvaluation,
    ChoiceOutput,
    CriterionEvaluation,
    OneShotChoiceOutput,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)
from assay.graders.views import ThinkingOutputDict, ToGrade, View
from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.graders.anchored import Anchor as Anchor
    from assay.graders.anchored import Anchored as Anchored
    from assay.graders.batches import PerBatchGrader as PerBatchGrader
    from assay.graders.cascade import Cascade as Cascade
    from assay.graders.composite import Composite as Composite
    from assay.graders.early_stop import EarlyStop as EarlyStop
    from assay.graders.expectation import Expectation as Expectation
    from assay.graders.guard import Guarded as Guarded
    from assay.graders.panel import Panel as Panel
    from assay.graders.panel import Samples as Samples
    from assay.graders.panel import Swapped as Swapped
    from assay.graders.shown import Referenced as Referenced
    from assay.graders.shown import Transcript as Transcript
    from assay.graders.tournament import Tournament as Tournament
    from assay.graders.votes import Rule as Rule

_HOMES = {
    "anchored": ("Anchor", "Anchored"),
    "batches": ("PerBatchGrader",),
    "cascade": ("Cascade",),
    "composite": ("Composite",),
    "early_stop": ("EarlyStop",),
    "expectation": ("Expectation",),
    "guard": ("Guarded",),
    "panel": ("Panel", "Samples", "Swapped"),
    "shown": ("Referenced", "Transcript"),
    "tournament": ("Tournament",),
    "votes": ("Rule",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Anchor",
    "Anchored",
    "Autograder",
    "Cascade",
    "ChoiceEvaluation",
    "ChoiceOutput",
    "Composite",
    "CriterionEvaluation",
    "EarlyStop",
    "Expectation",
    "Guarded",
    "LengthPenalty",
    "OneShotChoiceOutput",
    "OneShotGenerateFn",
    "OneShotOutput",
    "Panel",
    "PerBatchGrader",
    "PerCriterionGenerateFn",
    "PerCriterionGrader",
    "PerCriterionOneShotGrader",
    "PerCriterionOutput",
    "Referenced",
    "RubricAsJudgeGenerateFn",
    "RubricAsJudgeGrader",
    "RubricAsJudgeOutput",
    "Rule",
    "Samples",
    "Swapped",
    "ThinkingOutputDict",
    "ToGrade",
    "Tournament",
    "Transcript",
    "View",
]


__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
