"""Records and exceptions have the shapes and names of those in `verifiers`; exceptions hang below our own root."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypedDict

from assay import errors
from assay.envs import Results
from assay.errors import AssayError, Refused
from assay.types import Info, Messages

GenerateOutputs: TypeAlias = Results
SamplingArgs: TypeAlias = dict[str, Any]
RolloutOutput: TypeAlias = dict[str, Any]


DatasetBuilder: TypeAlias = Callable[[], Any]


class TrajectoryStep(TypedDict):
    """One turn: what the model was asked, and what it said."""

    prompt: Any
    completion: Any
    response: Any
    tokens: Any
    reward: float | None
    advantage: float | None
    is_truncated: bool
    trajectory_id: str
    extras: dict[str, Any]


class RolloutTiming(TypedDict, total=False):
    start_time: float
    generation_ms: float
    scoring_ms: float
    total_ms: float


class RolloutInput(TypedDict, total=False):
    prompt: Messages
    example_id: int
    task: str
    answer: str
    info: Info


class RolloutScore(TypedDict):
    reward: float
    metrics: dict[str, Any]


class RolloutScores(TypedDict):
    reward: list[float]
    metrics: dict[str, list[Any]]


class Error(AssayError):
    """The root of what `verifiers` raises."""


class ModelError(Error, errors.ModelError):
    """A model could not be asked, or gave nothing usable."""


class InvalidModelResponseError(ModelError):
    """A model's reply cannot be read."""


class EmptyModelResponseError(InvalidModelResponseError):
    """A model's reply is empty."""


class OverlongPromptError(Error, Refused):
    """A prompt is longer than the model takes."""


class ToolError(Error):
    """A tool could not be used."""


class ToolParseError(ToolError):
    """A tool call cannot be read."""


class ToolCallError(ToolError):
    """A tool call failed."""


class InfraError(Error):
    """Something outside model and tools failed."""


class SandboxError(InfraError):
    """A sandbox could not be made, or failed."""


class MissingKeyError(ValueError):
    """An environment needs variables that are not set."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        super().__init__(f"environment variables are not set: {', '.join(keys)}: set them before the environment loads")
