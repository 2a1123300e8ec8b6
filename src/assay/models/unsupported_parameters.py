"""Find out from its name, or from an error, which optional parameters a model does not accept."""

import re
from collections.abc import Set

# OpenAI's reasoning models: gpt-5 and later, o1, o3 and so on, but not the chat models among them
# (gpt-5-chat-latest).
_REASONING_MODEL = re.compile(r"(?:gpt-(?:[5-9]|\d\d)|o\d)(?!\w)(?!-chat)", re.IGNORECASE)

# How endpoints refer to each optional parameter in an error message.
_MENTIONS = {
    "schema": re.compile(r"response_format|json_schema|structured|grammar|tool_choice|\btools?\b"),
    "temperature": re.compile("temperature"),
    "max_completion_tokens": re.compile("max_completion_tokens"),
    "max_tokens": re.compile("max_tokens"),
    "logprobs": re.compile("logprobs"),
    "seed": re.compile(r"\bseed\b"),
}
# Statuses of endpoints that do not understand a request.
_BAD_REQUEST_STATUSES = frozenset({400, 404, 405, 415, 422, 501})
_SCHEMA_ERROR_STATUS = 500  # some servers answer so to a schema they do not know, and name it


def parameters_refused_by(model_name: str) -> frozenset[str]:
    """Return the parameters that a model of this name is known to refuse.

    OpenAI's reasoning models accept no temperature, and accept the token limit only as
    `max_completion_tokens`.
    """
    without_organisation = model_name.rpartition("/")[2]
    if _REASONING_MODEL.match(without_organisation):
        return frozenset({"temperature", "max_tokens"})
    return frozenset()


def mentions_parameter(error_message: str, parameter: str) -> bool:
    """Return True if an error message mentions this optional parameter."""
    return _MENTIONS[parameter].search(error_message.lower()) is not None


def find_unsupported_parameter(
    status: int | None, error_message: str, used: Set[str]
) -> str | None:
    """Return the parameter that an endpoint refused, judging by the status and text of its error.

    It is one of the optional parameters in `used`. None if the error seems to have another cause.
    """
    if status != _SCHEMA_ERROR_STATUS and status not in _BAD_REQUEST_STATUSES:
        return None
    for parameter in _MENTIONS:
        if parameter in used and mentions_parameter(error_message, parameter):
            return parameter
    if status in _BAD_REQUEST_STATUSES and "schema" in used:
        # The message names no parameter. The schema is the most likely cause.
        return "schema"
    return None
