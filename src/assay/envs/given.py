"""Given: what an environment is made from."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from assay.parsers import Parser
from assay.rubric import Rubric
from assay.types import Message


class Given(TypedDict, total=False):
    """What every environment is made from, besides the data set that comes first."""

    eval_dataset: Any
    """What `evaluate` asks about; the data set when there is none."""
    system_prompt: str | None
    few_shot: Sequence[Message] | None
    """Messages between the system prompt and the question."""
    parser: Parser | None
    """How answers are read, by a rubric too that was given no parser."""
    rubric: Rubric | None
    sampling_args: Mapping[str, Any] | None
    """For every call; those given to `evaluate` go before."""
    env_id: str
    """Its name, and the task of examples that name none."""
