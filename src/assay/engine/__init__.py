"""Engine: every question of a rubric answered for a batch of rollouts. Writes nothing.

plan      the criteria made ready, at construction
checking  those that code answers, by column
isolated  … and of these the ones that are run in another process
judging   those that a model answers, through the grader
settle    whatever came back, as answers
answers   what was found, kept by column until somebody wants a report
"""

from assay.engine.answers import Findings, Found, Reported, Reports, Rewards, Summed, rewards_of
from assay.engine.checking import CHUNK
from assay.engine.engine import Engine, logging_once
from assay.engine.plan import Plan, bound_to, named_apart

__all__ = [
    "CHUNK",
    "Engine",
    "Findings",
    "Found",
    "Plan",
    "Reported",
    "Reports",
    "Rewards",
    "Summed",
    "bound_to",
    "logging_once",
    "named_apart",
    "rewards_of",
]
