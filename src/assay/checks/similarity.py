"""How alike two texts are, in any language."""

from dataclasses import dataclass
from typing import Any, Literal

from assay.checks.answers import required
from assay.checks.base import BuiltinCheck
from assay.checks.fields import Flag, Text
from assay.errors import MissingExtraError
from assay.messages import completion_text
from assay.types import Messages

_MOST_PAIRS = 10_000_000_000
"""Characters times characters that are compared: about half a second of work."""


@dataclass(frozen=True)
class Similarity(BuiltinCheck):
    """How alike the text and `to` are, from 0 to 1; without `to`, the text and `answer`.

    `ratio` compares letter by letter, `token_sort_ratio` whatever the order of the words, and
    `token_set_ratio` whatever their order and number.

    >>> Similarity(to="the cat sat")("the cat sat")
    1.0
    >>> Similarity(method="token_sort_ratio")("sat the cat", answer="the cat sat")
    1.0
    """

    to: Text | None = None
    method: Literal["ratio", "token_sort_ratio", "token_set_ratio"] = "ratio"
    ignore_case: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _comparison(self.method)

    def __call__(self, completion: Messages, answer: Any = None) -> float:
        text = completion_text(completion)
        other = self.to if self.to is not None else str(required(answer))
        if len(text) * len(other) > _MOST_PAIRS:
            raise ValueError(
                f"{len(text):,} and {len(other):,} characters are too many to compare: shorten one"
            )
        if self.ignore_case:
            text, other = text.casefold(), other.casefold()
        return _comparison(self.method)(text, other) / 100


def _comparison(method: str) -> Any:
    try:
        from rapidfuzz import fuzz
    except ImportError:
        raise MissingExtraError("similarity", package="rapidfuzz", extra="checks") from None
    return getattr(fuzz, method)
