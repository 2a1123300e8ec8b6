"""Environments: examples to ask a model about, and a rubric that scores what it makes of them.

base         Environment: data, rubric, evaluate and generate
single_turn  SingleTurnEnv; multi_turn, MultiTurnEnv; tools, ToolEnv
hooks        stop, cleanup, teardown: methods that end, tidy and close
results      Results: what came of it, by rollout and by column
examples     rows as they are asked; sets, where they come from; speaker, the model under test
functions    a function as a tool; docstrings, what is said of its arguments
carrying     an evaluation from end to end; evaluator, its rollouts; scoring, their rows; keeping, where those go

The names load when first used.
"""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.envs.base import Environment as Environment
    from assay.envs.functions import ToolError as ToolError
    from assay.envs.hooks import cleanup as cleanup
    from assay.envs.hooks import stop as stop
    from assay.envs.hooks import teardown as teardown
    from assay.envs.multi_turn import MultiTurnEnv as MultiTurnEnv
    from assay.envs.options import Options as Options
    from assay.envs.results import Evaluation as Evaluation
    from assay.envs.results import Results as Results
    from assay.envs.single_turn import SingleTurnEnv as SingleTurnEnv
    from assay.envs.tools import ToolEnv as ToolEnv

_HOMES = {
    "base": ("Environment",),
    "functions": ("ToolError",),
    "hooks": ("cleanup", "stop", "teardown"),
    "multi_turn": ("MultiTurnEnv",),
    "options": ("Options",),
    "results": ("Evaluation", "Results"),
    "single_turn": ("SingleTurnEnv",),
    "tools": ("ToolEnv",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Environment",
    "Evaluation",
    "MultiTurnEnv",
    "Options",
    "Results",
    "SingleTurnEnv",
    "ToolEnv",
    "ToolError",
    "cleanup",
    "stop",
    "teardown",
]


__getattr__ = lazily(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
