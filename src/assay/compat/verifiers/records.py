"""The exceptions and settings of `verifiers`. The exceptions are also exceptions of assay."""

import json
from collections.abc import Mapping
from pkgutil import get_data
from typing import Any, TypeAlias, cast

from assay import errors
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.envs.dataset import copy_nested
from assay.errors import AssayError, Refused
from assay.wording import format_value

MessageType: TypeAlias = str


class Error(AssayError):
    """The base class of the exceptions of `verifiers`."""


class ModelError(Error, errors.ModelError): ...


class InvalidModelResponseError(ModelError): ...


class EmptyModelResponseError(InvalidModelResponseError): ...


class OverlongPromptError(Error, Refused): ...


class ToolError(Error): ...


class ToolParseError(ToolError): ...


class ToolCallError(ToolError): ...


class InfraError(Error): ...


class SandboxError(InfraError): ...


class MissingKeyError(ValueError):
    """An environment needs environment variables that are not set."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        super().__init__(
            f"environment variables are not set: {', '.join(keys)}: "
            "set them before the environment is loaded"
        )


# The default of every setting, by the name of the class and of the setting.
_DEFAULTS: dict[str, dict[str, Any]] = json.loads(
    get_data("assay.compat.verifiers", "config_defaults.json") or b""
)


class Config(AttributeRecord):
    """Settings with defaults. As a dict, it has only the settings that were given or changed."""

    def __missing__(self, name: str) -> Any:
        return copy_nested(_DEFAULTS[type(self).__name__][name])

    def model_dump(self, *, exclude_none: bool = False, **options: Any) -> dict[str, Any]:
        """Return all settings, with the defaults of those that were not given."""
        defaults = copy_nested(_DEFAULTS[type(self).__name__])
        return AttributeRecord(defaults, **self).model_dump(exclude_none=exclude_none)


class EvalConfig(Config):
    """The settings of an evaluation."""


class EvalRunConfig(Config):
    """The settings of a run of several evaluations."""


class SandboxRequest(Config):
    """What an environment asks a client of sandboxes for. Our own client ignores it."""


# Tasks, which are JSON objects in a row or in its `info`.

TASK_INPUT_FIELDS = {"prompt", "answer", "info", "example_id"}


def assert_json_serializable(value: object) -> None:
    """Raise `TypeError` for a value that JSON cannot represent."""
    try:
        json.dumps(value)
    except TypeError as error:
        raise TypeError(
            f"a value of a task or a state cannot be written as JSON ({error}): give plain data"
        ) from error


def normalize_task_payload(value: object) -> dict[str, Any]:
    """Return a task, which is a mapping or JSON text, as a dict."""
    task = json.loads(value) if isinstance(value, str) else value
    if not isinstance(task, Mapping):
        raise TypeError(f"the task is {format_value(value)}: give a JSON object")
    return dict(cast("Mapping[str, Any]", task))


def task_payload_from_info(info: object) -> dict[str, Any] | None:
    """Return the `task` in the info of a row, which may be JSON text; None if there is none."""
    fields: object = json.loads(info) if isinstance(info, str) else info
    if not isinstance(fields, Mapping):
        return None
    task = cast("Mapping[str, Any]", fields).get("task")
    return None if task is None else normalize_task_payload(task)


def flatten_task_input(input_data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task of a row: the one in its `info`, in its column `task`, or the row itself."""
    task = task_payload_from_info(input_data.get("info"))
    if task is not None:
        return task
    task_column = input_data.get("task")
    if task_column not in (None, "default"):  # "default" is what assay writes if there is no task
        return normalize_task_payload(task_column)
    return dict(input_data)
