"""The exception tree of `verifiers`, hung below our own root."""

from assay.errors import AssayError


class Error(AssayError):
    """The root of what `verifiers` raises."""


class ModelError(Error):
    """A model could not be asked, or gave nothing usable."""


class InvalidModelResponseError(ModelError):
    """A model's reply cannot be read."""


class EmptyModelResponseError(InvalidModelResponseError):
    """A model's reply is empty."""


class OverlongPromptError(Error):
    """A prompt is longer than the model takes."""


class ToolError(Error):
    """A tool could not be used."""


class ToolParseError(ToolError):
    """A tool call cannot be read."""


class ToolCallError(ToolError):
    """A tool call failed."""


class InfraError(Error):
    """Something outside model and tools failed."""
