"""Secrets: what must not be written into a run is struck out."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

STRUCK = "***"

SHORTEST_KEY = 8
"""Characters of the shortest key that is looked for in what others say; less may be a word."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset({
    "apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "passphrase",
    "passwd", "password", "pwd", "secret",
})  # fmt: skip
_HARMLESS = {
    "key": frozenset({
        "answer", "cache", "column", "data", "dict", "field", "group", "id", "image", "input", "json",
        "label", "map", "output", "primary", "prompt", "question", "reward", "row", "sort",
    }),
    "token": frozenset({
        "bos", "cls", "end", "eos", "first", "last", "mask", "next", "pad", "per", "sep", "special",
        "start", "stop", "unk",
    }),
}  # fmt: skip
"""What a name may be about that ends in a word for a secret and is none: `sort_key`, `eos_token`."""

_SECRET_VALUE = re.compile(
    r"\b[spr]k-(?=[\w\-]*\d)[\w\-]{16,}"  # OpenAI, Anthropic, Stripe and their like
    r"|\b(?:gh[pousr]_|hf_|npm_|gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{24,}"
    r"|\b(?:github_pat_|tgp_v1_|glpat-|xox[abprs]-|pypi-)[\w\-]{16,}"
    r"|\bAIza[\w\-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*"  # a JSON web token
    r"|(?<=Bearer )\S{8,}|(?<=Basic )[\w+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_URL_SECRET = re.compile(
    r"(?<=[?&])([\w\-.]*(?:key|token|secret|password|signature|sig|auth)=)[^&\s#]+", re.IGNORECASE
)


def struck(value: Any, name: str = "") -> Any:
    """A value of JSON with every secret in it struck out.

    >>> struck({"api_key": "abc", "max_tokens": 5, "url": "https://me:pw@host/v1?token=abc&n=2"})
    {'api_key': '***', 'max_tokens': 5, 'url': 'https://***@host/v1?token=***&n=2'}
    """
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {_in_text(key): struck(inner, key) for key, inner in items}
    if isinstance(value, str):
        return STRUCK if value and is_secret_name(name) else _in_text(value)
    if isinstance(value, Sequence):
        return [struck(inner, name) for inner in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    return STRUCK if is_secret_name(name) else value


def texts_struck(value: Any) -> Any:
    """A value of JSON with every secret in its texts struck out, and every key of our environment.

    For what others say, who may repeat a key to whoever sent it.
    """
    return _texts_struck(value, _keys_of_environment())


def _texts_struck(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, str):
        for key in keys:
            value = value.replace(key, STRUCK)
        return _in_text(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {name: _texts_struck(inner, keys) for name, inner in items}
    if isinstance(value, list | tuple):
        return [_texts_struck(inner, keys) for inner in cast("Sequence[Any]", value)]
    return value


def _keys_of_environment() -> list[str]:
    named = (value for name, value in os.environ.items() if is_secret_name(name))
    # The longest first, since one may be the beginning of another.
    return sorted({key for key in named if len(key) >= SHORTEST_KEY}, key=len, reverse=True)


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether a field of that name holds a secret: `OPENAI_API_KEY`, `authToken`; not `max_tokens`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[-1] in _ALWAYS:
        return True
    return words[-1] in _HARMLESS and not _HARMLESS[words[-1]].intersection(words[-2:-1])


def _in_text(text: str) -> str:
    text = _SECRET_VALUE.sub(STRUCK, text)
    if "://" in text:
        text = _URL_LOGIN.sub(STRUCK, text)
    return _URL_SECRET.sub(rf"\1{STRUCK}", text)
