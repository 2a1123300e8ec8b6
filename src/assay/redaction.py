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
# A name that ends in one of these words is the name of a secret too, unless the word before it is
# one of the exceptions: `sort_key` and `eos_token` are not secrets.
_EXCEPTIONS_BY_SECRET_WORD = {
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
    """Register secrets to be removed from now on; None and those that are too short are ignored."""
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

    def redact_text(text: str) -> str:
        return _replace_patterns(_replace_secrets(text, longest_first))

    return _change_texts(value, redact_text)


def _list_environment_secrets() -> list[str]:
    """Return the values of the environment variables that have the names of secrets."""
    secrets: list[str] = []
    for name, value in os.environ.items():
        if not is_secret_name(name):
            continue
        is_path = value.startswith(("/", "~"))  # PWD, GOOGLE_APPLICATION_CREDENTIALS
        if len(value) >= SHORTEST_KEY and not is_path:
            secrets.append(value)
    return secrets


def redact_settings(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets.

    `name` is the name of the field that holds the value. If it is the name of a secret, the text or
    number in the field is masked as a whole, and so is each item of a list. None, True, False and
    the empty text are kept, since they can only show whether a secret is set.
    """
    if isinstance(value, Mapping):
        settings = cast("Mapping[Any, Any]", value)
        return {redact(key): redact_settings(inner, str(key)) for key, inner in settings.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact_settings(inner, name) for inner in cast("Sequence[Any]", value)]
    is_empty_text = isinstance(value, str) and not value
    if value is None or isinstance(value, bool) or is_empty_text:
        return value
    if is_secret_name(name):
        return MASK
    return redact(value)


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Return True if a field of this name holds a secret: `OPENAI_API_KEY`, not `max_tokens`."""
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    if not words:
        return False
    last_word = words[-1]
    if last_word in _SECRET_WORDS:
        return True
    if last_word not in _EXCEPTIONS_BY_SECRET_WORD:
        return False
    word_before = words[-2] if len(words) > 1 else ""
    return word_before not in _EXCEPTIONS_BY_SECRET_WORD[last_word]


def replace_secrets(secrets: Iterable[str], value: Any) -> Any:
    """Return a JSON value with these secrets replaced in its texts."""
    known_secrets = tuple(secrets)
    return _change_texts(value, lambda text: _replace_secrets(text, known_secrets))


def select_searchable(*secrets: str | None) -> tuple[str, ...]:
    """Return the secrets that can be searched for in the text of a model.

    A secret that is short, or that lacks digits or letters, could be an ordinary word or number.
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
    """Return the logger of this name. Its records are redacted, and can be written as UTF-8."""
    import logging

    logger = logging.getLogger(name)
    logger.addFilter(_redact_record)
    return logger


def _redact_record(record: "logging.LogRecord") -> bool:
    """Redact a log record in place. Return True, so that the logger keeps it."""
    import logging

    record.msg = _escape_surrogates(redact(record.getMessage()))
    record.args = None  # they are already part of the message
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    if record.exc_text:
        record.exc_text = _escape_surrogates(redact(record.exc_text))
    return True


def _escape_surrogates(text: str) -> str:
    """Return the text with lone surrogates escaped, since a log file in UTF-8 cannot hold them."""
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
    """Replace these secrets wherever they occur in the text."""
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
    """Patterns of secrets.

    Each can match only from the start of a word, so that a search takes linear time.
    """

    # A key, a token or a private key.
    key: re.Pattern[str]
    # The login in a URL: `me:password` in `https://me:password@host`.
    login: re.Pattern[str]
    # A parameter of a URL with a secret: `token=abc` in `https://host?token=abc`.
    query: re.Pattern[str]


@cache
def _compile_patterns() -> _Patterns:
    """Return the patterns of secrets. They are compiled when they are first needed."""
    keys = [
        # OpenAI, Anthropic, Stripe and others
        r"(?<![\w\-])[spr]k-(?=[\w\-]*\d)[\w\-]{16,}",
        # GitHub, Hugging Face, npm, Groq, Replicate, xAI, Perplexity
        r"\b(?:gh[pousr]_|hf_|npm_|gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{24,}",
        # GitHub, Together, GitLab, Slack, PyPI
        r"\b(?:github_pat_|tgp_v1_|glpat-|xox[abprs]-|pypi-)[\w\-]{16,}",
        # Google
        r"\bAIza[\w\-]{30,}",
        # AWS
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        # a JSON web token
        r"(?<![\w\-])eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*",
        # the header `Authorization`
        r"(?<=Bearer )\S{8,}",
        r"(?<=Basic )[\w+/=]{8,}",
        # a private key, which may be cut off
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ]
    login = r"(?<=://)[^/\s@]+(?=@)"
    query = r"(?<=[?&])([\w\-.]*(?:key|token|secret|password|signature|sig|auth)=)[^&\s#]+"
    return _Patterns(
        key=re.compile("|".join(keys)),
        login=re.compile(login),
        query=re.compile(query, re.IGNORECASE),
    )
