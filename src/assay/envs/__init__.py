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

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
