"""Tokens: about how many a request will read and write, before anybody has counted."""

from assay.models.base import Request, Usage
from assay.models.schema import schema_text

CHARACTERS = 4.0
"""Characters in a token of English prose."""
REPLY = 150.0
"""Tokens of a reply: a reason of two sentences and a verdict, with room."""
_MEMORY = 0.05


class Tokens:
    """Guesses by the number of characters, and learns from what an endpoint counts.

    >>> tokens = Tokens()
    >>> request = Request.of("s" * 100, "u" * 300)
    >>> tokens.expected(request)
    Usage(prompt=100, cached=0, completion=150, stored=0)
    >>> for _ in range(200):
    ...     tokens.learn(request, Usage(prompt=200, completion=10))
    >>> tokens.expected(request).prompt
    200
    """

    def __init__(self) -> None:
        self.characters = CHARACTERS
        """In a token, by and large."""
        self.reply = REPLY
        """Tokens in a reply, by and large."""

    def expected(self, request: Request) -> Usage:
        """What a call will use, by and large; nothing of it from a cache."""
        written = self.reply if request.max_tokens is None else min(self.reply, request.max_tokens)
        return Usage(prompt=round(_length(request) / self.characters), completion=round(written))

    def guessed(self, request: Request, text: str) -> Usage:
        """What a call has used, for an endpoint that does not count."""
        length = round(len(text) / self.characters)
        return Usage(prompt=round(_length(request) / self.characters), completion=length)

    def learn(self, request: Request, usage: Usage) -> None:
        """Take into account what was counted."""
        if usage.prompt > 0:
            found = _length(request) / usage.prompt
            self.characters += _MEMORY * (found - self.characters)
        self.reply += _MEMORY * (usage.completion - self.reply)


def _length(request: Request) -> int:
    """Characters that are read, those of the schema included."""
    said = sum([len(str(message["content"])) for message in request.messages])
    return said + (0 if request.schema is None else len(schema_text(request.schema)))
