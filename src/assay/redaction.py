"""Remove keys, passwords and logins from everything that leaves the process: errors, logs, runs, output.

A secret is recognised by its form, by the name of the environment variable that holds it, or
because it was registered with `register_secret`.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:  # imported late: worker processes load this module first
    import logging

MASK = "***"

# The length in characters from which a secret is searched for in texts; shorter ones may be words.
SHORTEST_KEY = 8

# Splits `OPENAI_API_KEY` and `authToken` into words.
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# A name that ends in one of these words is the name of a secret.
_SECRET_WORDS = frozenset(
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
# A name that ends in one of these words is the name of a secret too, unless one of the words listed
# comes before it: `sort_key`, `eos_token`.
_SECRET_WORDS_UNLESS = {
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

# The secrets registered with `register_secret`.
_registered: set[str] = set()


def register_secret(*secrets: str | None) -> None:
    """Register secrets to be removed from now on; those that are too short are ignored."""
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_KEY:
            _registered.add(secret)


def redact(value: Any) -> Any:
    """Return a text, or a JSON value, with every secret in its texts replaced by `***`.

    >>> redact("https://me:pw@host/v1?token=abc&n=2 refuses Bearer 0123456789")
    'https://***@host/v1?token=***&n=2 refuses Bearer ***'
    """
    secrets = _registered.union(_list_environment_secrets())
    # The longest first, because a secret may be the beginning of another.
    longest_first = sorted(secrets, key=len, reverse=True)
    return _change_texts(
        value, lambda text: _replace_patterns(_replace_secrets(text, longest_first))
    )


def _list_environment_secrets() -> list[str]:
    secrets: list[str] = []
    for name, value in os.environ.items():
        if not is_secret_name(name):
            continue
        is_path = value.startswith(("/", "~"))  # PWD, GOOGLE_APPLICATION_CREDENTIALS
        if len(value) >= SHORTEST_KEY and not is_path:
            secrets.append(value)
    return secrets


def redact_settings(value: Any, name: str = "") -> Any:
    """Return a JSON value redacted; a value under the name of a secret is replaced as a whole.

    `name` is the name under which the value stands.
    """
    if isinstance(value, Mapping):
        settings = cast("Mapping[str, Any]", value)
        return {redact(key): redact_settings(inner, key) for key, inner in settings.items()}
    if isinstance(value, str):
        return MASK if value and is_secret_name(name) else redact(value)
    if isinstance(value, Sequence):
        return [redact_settings(inner, name) for inner in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    return MASK if is_secret_name(name) else value


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Return True if a field of this name holds a secret: `OPENAI_API_KEY`, not `max_tokens`."""
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    if not words:
        return False
    last_word = words[-1]
    if last_word in _SECRET_WORDS:
        return True
    if last_word not in _SECRET_WORDS_UNLESS:
        return False
    word_before = words[-2] if len(words) > 1 else ""
    return word_before not in _SECRET_WORDS_UNLESS[last_word]


def replace_secrets(secrets: Iterable[str], value: Any) -> Any:
    """Return a JSON value with these secrets replaced in its texts."""
    known_secrets = tuple(secrets)
    return _change_texts(value, lambda text: _replace_secrets(text, known_secrets))


def select_searchable(*secrets: str | None) -> tuple[str, ...]:
    """Return the secrets that can be searched for in the text of a model.

    Those that are short, or without both digits and letters, could be ordinary words.
    """
    searchable: list[str] = []
    for secret in secrets:
        if not secret or len(secret) < SHORTEST_KEY:
            continue
        has_digit = any(character.isdigit() for character in secret)
        has_letter = any(character.isalpha() for character in secret)
        if has_digit and has_letter:
            searchable.append(secret)
    return tuple(searchable)


def split_login(url: str) -> tuple[str, str, str]:
    """Return a URL without its login, the login as written in the URL, and its password."""
    from urllib.parse import unquote

    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]  # such as `user:password@host`
    login, at_sign, host = authority.rpartition("@")
    if not at_sign:
        return url, "", ""
    url_without_login = f"{scheme}{separator}{rest.replace(authority, host, 1)}"
    password = unquote(login.partition(":")[2])
    return url_without_login, login, password


def get_logger(name: str) -> "logging.Logger":
    """Return the logger of this name; its records have no secrets and can be written as UTF-8."""
    import logging

    logger = logging.getLogger(name)
    logger.addFilter(_redact_record)
    return logger


def _redact_record(record: "logging.LogRecord") -> bool:
    """Redact a log record in place. Return True, so that the logger keeps it."""
    import logging

    record.msg = _to_utf8(redact(record.getMessage()))
    record.args = None
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    if record.exc_text:
        record.exc_text = _to_utf8(redact(record.exc_text))
    return True


def _to_utf8(text: str) -> str:
    """Return the text with lone surrogates escaped: a log file cannot store half an emoji."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with all of its texts changed; tuples become lists."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {name: _change_texts(inner, change) for name, inner in fields.items()}
    if isinstance(value, list | tuple):
        return [_change_texts(inner, change) for inner in cast("Sequence[Any]", value)]
    return value


def _replace_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _replace_patterns(text: str) -> str:
    """Replace keys, logins in URLs and secrets in queries, recognised by their form."""
    patterns = _compile_patterns()
    text = patterns.key.sub(MASK, text)
    if "://" in text:
        text = patterns.login.sub(MASK, text)
    return patterns.query.sub(rf"\1{MASK}", text)


class _Patterns(NamedTuple):
    """Patterns of secrets. Each can only start where a run of characters starts: linear time."""

    key: re.Pattern[str]
    login: re.Pattern[str]
    query: re.Pattern[str]


@cache
def _compile_patterns() -> _Patterns:
    key = (
        r"(?<![\w\-])[spr]k-(?=[\w\-]*\d)[\w\-]{16,}"  # OpenAI, Anthropic, Stripe and others
        r"|\b(?:gh[pousr]_|hf_|npm_|gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{24,}"
        r"|\b(?:github_pat_|tgp_v1_|glpat-|xox[abprs]-|pypi-)[\w\-]{16,}"
        r"|\bAIza[\w\-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
        r"|(?<![\w\-])eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*"  # a JSON web token
        r"|(?<=Bearer )\S{8,}|(?<=Basic )[\w+/=]{8,}"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    )
    login = r"(?<=://)[^/\s@]+(?=@)"
    query = r"(?<=[?&])([\w\-.]*(?:key|token|secret|password|signature|sig|auth)=)[^&\s#]+"
    return _Patterns(
        key=re.compile(key),
        login=re.compile(login),
        query=re.compile(query, re.IGNORECASE),
    )
