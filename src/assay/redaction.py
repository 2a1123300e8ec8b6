"""Strike keys, passwords and logins out of everything that leaves the process: errors, logs, runs and printed lines.

Secrets are known by their shape, by the environment variable that holds them, or because a model was given them.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # loaded where it is needed: worker processes start with this module
    import logging

STRUCK = "***"

SHORTEST_KEY = (
    8  # characters of the shortest key that is looked for in what others say; less may be a word
)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
    }
)
# What a name may be about that ends in a word for a secret and is none: `sort_key`, `eos_token`.
_HARMLESS = {
    "key": frozenset(
        {
            "answer",
            "cache",
            "column",
            "data",
            "dict",
            "field",
            "group",
            "id",
            "image",
            "input",
            "json",
            "label",
            "map",
            "output",
            "primary",
            "prompt",
            "question",
            "reward",
            "row",
            "sort",
        }
    ),
    "token": frozenset(
        {
            "bos",
            "cls",
            "end",
            "eos",
            "first",
            "last",
            "mask",
            "next",
            "pad",
            "per",
            "sep",
            "special",
            "start",
            "stop",
            "unk",
        }
    ),
}

_kept: set[str] = set()


def keep_secret(*secrets: str | None) -> None:
    """Have these struck out of everything from now on; one that is too short to be found is passed over."""
    _kept.update(secret for secret in secrets if secret and len(secret) >= SHORTEST_KEY)


def redacted(value: Any) -> Any:
    """A text, or a value of JSON, with every secret in its texts struck out.

    >>> redacted("https://me:pw@host/v1?token=abc&n=2 refuses Bearer 0123456789")
    'https://***@host/v1?token=***&n=2 refuses Bearer ***'
    """
    named = (value for name, value in os.environ.items() if is_secret_name(name))
    # A path is no secret: PWD, GOOGLE_APPLICATION_CREDENTIALS.
    keys = {key for key in named if len(key) >= SHORTEST_KEY and not key.startswith(("/", "~"))}
    # The longest first, since one may begin another.
    known = sorted(keys | _kept, key=len, reverse=True)
    return _in_texts(value, lambda text: _without_patterns(_struck(text, known)))


def redacted_settings(value: Any, name: str = "") -> Any:
    """Return the same, with every value struck out that stands under the name of a secret."""
    if isinstance(value, Mapping):
        return {
            redacted(key): redacted_settings(inner, key)
            for key, inner in cast("Mapping[str, Any]", value).items()
        }
    if isinstance(value, str):
        return STRUCK if value and is_secret_name(name) else redacted(value)
    if isinstance(value, Sequence):
        return [redacted_settings(inner, name) for inner in cast("Sequence[Any]", value)]
    return value if value is None or isinstance(value, bool) or not is_secret_name(name) else STRUCK


def without(secrets: Iterable[str], value: Any) -> Any:
    """Return a value of JSON without these secrets, which its sender was given."""
    known = tuple(secrets)
    return _in_texts(value, lambda text: _struck(text, known))


def telltale(*secrets: str | None) -> tuple[str, ...]:
    """Return those that can be looked for in what a model says, since they are no words, as `EMPTY` is."""
    found = (secret for secret in secrets if secret and len(secret) >= SHORTEST_KEY)
    return tuple(
        secret
        for secret in found
        if any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    )


def parted_from_login(url: str) -> tuple[str, str, str]:
    """Return an address without its login, the login as it stands there, and its password."""
    from urllib.parse import unquote

    scheme, slashes, rest = url.partition("://")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, at, host = place.rpartition("@")
    if not at:
        return url, "", ""
    return (
        f"{scheme}{slashes}{rest.replace(place, host, 1)}",
        login,
        unquote(login.partition(":")[2]),
    )


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether a field of that name holds a secret: `OPENAI_API_KEY`, `authToken`; not `max_tokens`."""
    *before, last = ["", *(word.lower() for word in _WORDS.findall(name))]
    return last in _ALWAYS or (last in _HARMLESS and not _HARMLESS[last].intersection(before[-1:]))


def logger_of(name: str) -> "logging.Logger":
    """The logger of that name, whose records hold no secret and can be written as UTF-8."""
    import logging

    logger = logging.getLogger(name)
    logger.addFilter(_redact_record)
    return logger


def _redact_record(record: "logging.LogRecord") -> bool:
    import logging

    record.msg, record.args = _printable(redacted(record.getMessage())), None
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    if record.exc_text:
        record.exc_text = _printable(redacted(record.exc_text))
    return True


def _printable(text: str) -> str:
    # A completion may hold half an emoji, which no log file or test runner can write.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with its texts changed; tuples become lists."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            name: _in_texts(inner, change)
            for name, inner in cast("Mapping[str, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_in_texts(inner, change) for inner in cast("Sequence[Any]", value)]
    return value


def _struck(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, STRUCK)
    return text


def _without_patterns(text: str) -> str:
    value, login, query = _patterns()
    text = value.sub(STRUCK, text)
    if "://" in text:
        text = login.sub(STRUCK, text)
    return query.sub(rf"\1{STRUCK}", text)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Match secrets by look, logins, and secrets in queries; each starts where a run does, for linear time."""
    value = (
        r"(?<![\w\-])[spr]k-(?=[\w\-]*\d)[\w\-]{16,}"  # OpenAI, Anthropic, Stripe and their like
        r"|\b(?:gh[pousr]_|hf_|npm_|gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{24,}"
        r"|\b(?:github_pat_|tgp_v1_|glpat-|xox[abprs]-|pypi-)[\w\-]{16,}"
        r"|\bAIza[\w\-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
        r"|(?<![\w\-])eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*"  # a JSON web token
        r"|(?<=Bearer )\S{8,}|(?<=Basic )[\w+/=]{8,}"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    )
    login = r"(?<=://)[^/\s@]+(?=@)"
    query = r"(?<=[?&])([\w\-.]*(?:key|token|secret|password|signature|sig|auth)=)[^&\s#]+"
    return re.compile(value), re.compile(login), re.compile(query, re.IGNORECASE)
