"""Manner: how questions are put to a model, beyond their words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Manner:
    """What graders around a grader may change about the way it asks.

    A function of two prompts takes part in what changes a prompt; the rest is for models alone.
    """

    sample: int = 0
    """Which of several answers to one question; each is asked, and cached, for itself."""
    temperature: float | None = 0.0
    """None leaves it to the endpoint."""
    logprobs: int | None = None
    """How many alternatives to ask for with each token; None asks for none."""
    reverse: bool = False
    """Whether the choices are listed the other way round."""
    examples: str = ""
    """What follows the system prompt: judged examples."""


Change: TypeAlias = Callable[[Manner], Manner]
"""One manner to another."""
