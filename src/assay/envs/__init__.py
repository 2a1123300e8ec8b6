"""Environments: examples to ask a model about, and a rubric that scores what it makes of them.

base_env          Environment: data, rubric, evaluate and generate; stop, cleanup and teardown mark its hooks
multi_turn        MultiTurnEnv and SingleTurnEnv; tool_use, ToolEnv
dataset           rows as they are asked; model_under_test, what is asked
evaluate          an evaluation from end to end; results, what came of it, by rollout and by column

The names load when first used.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
