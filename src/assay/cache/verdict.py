"""What is kept: a verdict, under a key that changes with anything that could change it."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from assay.errors import CacheError
from assay.identity import hash_of


def text_hash(text: str) -> str:
    """The SHA-256 of a text. Take it once a response and share it over that response's keys.

    >>> text_hash("Paris.")[:12]
    'bdff8c417ab5'
    """
    # Half of a surrogate pair is no text, but models under test write it.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class VerdictKey:
    """Which question about which text was put to which judge, and how.

    >>> key = VerdictKey(question="q1", text=text_hash("Paris."), judge="openai/gpt-5-mini", prompt="3")
    >>> key.digest == VerdictKey("q1", text_hash("Paris."), "openai/gpt-5-mini", "3", sample=1).digest
    False
    """

    question: str
    """The criterion's `question_hash`."""
    text: str
    """The `text_hash` of all else the judge reads: the response, the query, a reference answer."""
    judge: str
    """The model and whatever else changes its answers: endpoint, temperature, reasoning effort."""
    prompt: str
    """The version of the prompt."""
    sample: int = 0
    """Which of several samples of one judge; without it k samples would collapse into one."""

    def __post_init__(self) -> None:
        for name in ("question", "text", "judge", "prompt"):
            if "\0" in getattr(self, name):
                raise CacheError(
                    f"{name} {getattr(self, name)!r:.200} holds a NUL, which a database cannot: leave it out"
                )

    @cached_property
    def digest(self) -> str:
        """The five parts as one SHA-256; what a store looks up."""
        return hash_of([self.question, self.text, self.judge, self.prompt, self.sample])


@dataclass(frozen=True)
class CachedVerdict:
    """A verdict, and what it took to get it.

    >>> CachedVerdict("MET", reason="It names Paris.", usage={"prompt_tokens": 310}, cost=0.0002).verdict
    'MET'
    """

    verdict: str | float
    """The choice, number or whole reply the judge gave. Failures and cut-off replies are none."""
    reason: str = ""
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tokens by kind, as the endpoint counted them."""
    cost: float | None = None
    """US dollars paid for it, once; None when the price is not known."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Anything else worth keeping that JSON can hold: resolved model id, log-probabilities."""
    created: float = field(default_factory=time.time)
    """Seconds since 1970."""

    def __post_init__(self) -> None:
        # A stored failure would be given as an answer for ever, and nobody would see it.
        if self.verdict in ("", None):
            raise CacheError(
                f"{self.verdict!r} is no verdict and is not cached: keep only what a judge answered"
            )

    @cached_property
    def line(self) -> str:
        """The verdict as one line of JSON. Raises `CacheError` when JSON cannot hold it."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields |= {"usage": dict(self.usage), "details": dict(self.details)}
        try:
            return json.dumps(fields, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CacheError(
                f"{self!r:.200} cannot be cached ({error}): use only what JSON can hold"
            ) from None

    @classmethod
    def of(cls, line: str) -> "CachedVerdict":
        """The verdict of such a line; fields that this version does not know are passed over."""
        try:
            data = json.loads(line)
            return cls(**{name: data[name] for name in _FIELDS if name in data})
        except (ValueError, TypeError) as error:
            raise CacheError(
                f"the cache holds {line!r:.200}, which is no verdict ({error}): prune it away"
            ) from None


_FIELDS = tuple(CachedVerdict.__dataclass_fields__)

Item: TypeAlias = tuple[VerdictKey, CachedVerdict]
