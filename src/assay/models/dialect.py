"""Dialect: what one model behind one endpoint does not take, known by its name or from its complaints."""

import re
from collections.abc import Set

SCHEMA, TEMPERATURE, SEED, LOGPROBS = "schema", "temperature", "seed", "logprobs"
MAX_TOKENS, MAX_COMPLETION_TOKENS = "max_tokens", "max_completion_tokens"

_NAMED = {
    SCHEMA: re.compile(r"response_format|json_schema|structured|grammar|tool_choice|\btools?\b"),
    TEMPERATURE: re.compile("temperature"),
    MAX_COMPLETION_TOKENS: re.compile("max_completion_tokens"),
    MAX_TOKENS: re.compile("max_tokens"),
    SEED: re.compile(r"\bseed\b"),
    LOGPROBS: re.compile("logprobs"),
}
_COMPLAINING = frozenset({400, 404, 405, 415, 422, 500, 501})
_VAGUE = frozenset({400, 404, 405, 415, 422, 501})
"""A complaint of this kind that names nothing may still be about the schema."""


_REASONING = re.compile(r"(?:gpt-(?:[5-9]|\d\d)|o\d)(?!\w)(?!-chat)", re.IGNORECASE)


def refused_by(name: str) -> frozenset[str]:
    """What a model of this name refuses: OpenAI's reasoning models take no temperature.

    >>> sorted(refused_by("gpt-5-mini")), sorted(refused_by("openai/o3")), sorted(refused_by("gpt-4.1"))
    (['max_tokens', 'temperature'], ['max_tokens', 'temperature'], [])
    """
    reasons = _REASONING.match(name.rpartition("/")[2])
    # They know the limit of tokens by its newer name, `max_completion_tokens`.
    return frozenset({TEMPERATURE, MAX_TOKENS}) if reasons else frozenset()


def is_named(part: str, complaint: str) -> bool:
    """Whether a complaint says which part of a request it is about."""
    return _NAMED[part].search(complaint.lower()) is not None


def to_leave_out(status: int | None, complaint: str, used: Set[str]) -> str | None:
    """The part of a request to try without, after such a complaint; None when there is none.

    >>> to_leave_out(400, "Unsupported value: 'temperature' must be 1", {"schema", "temperature"})
    'temperature'
    >>> to_leave_out(400, "Bad Request", {"schema"}), to_leave_out(401, "Who are you?", {"schema"})
    ('schema', None)
    """
    if status not in _COMPLAINING:
        return None
    words = complaint.lower()
    for feature, pattern in _NAMED.items():
        if feature in used and pattern.search(words):
            return feature
    return SCHEMA if status in _VAGUE and SCHEMA in used else None
