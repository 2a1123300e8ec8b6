"""Records and exceptions have the shapes and names of those in `verifiers`; exceptions hang below our own root."""

from collections.abc import Callable
from typing import Any, TypeAlias

from assay import errors
from assay.envs import Results
from assay.errors import AssayError, Refused

GenerateOutputs: TypeAlias = Results
DatasetBuilder: TypeAlias = Callable[[], Any]

MessageType: TypeAlias = str
# What theirs has a type of dict for, each; called, it makes a dict.
SamplingArgs: TypeAlias = dict[str, Any]
RolloutInput: TypeAlias = dict[str, Any]
RolloutOutput: TypeAlias = dict[str, Any]
RolloutScore: TypeAlias = dict[str, Any]
RolloutScores: TypeAlias = dict[str, Any]
RolloutTiming: TypeAlias = dict[str, Any]
TrajectoryStep: TypeAlias = dict[str, Any]


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
