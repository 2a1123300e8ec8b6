"""Refusals: what is said instead of a reply, as a status and a sentence; and how a client hears it."""

import json
from collections.abc import Sequence

from assay.errors import AssayError

Headers = Sequence[tuple[bytes, bytes]]

AGAIN: Headers = ((b"retry-after", b"1"),)
"""Come back in a second."""
PASSING = frozenset({408, 429, 502, 503, 504})
"""Statuses that another try may change."""
CLOSE: Headers = ((b"connection", b"close"),)


class Refusal(Exception):  # noqa: N818 - what was asked for may be in error, this is not
    """A request is answered with this status and sentence, and not with a reply."""

    def __init__(self, status: int, sentence: str, headers: Headers = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers

    @property
    def body(self) -> bytes:
        return error_body(str(self))


def error_body(sentence: str) -> bytes:
    """A sentence as every error is written. Half a character, which no reply can hold, is escaped."""
    return json.dumps({"error": sentence}).encode()


class ServerRefused(AssayError):  # noqa: N818 - named as `Refused` is
    """A reward server would not, or could not, score. `status` is None when it was never reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether it was for a while that it could not, and not for good that it would not."""
        return self.status is None or self.status in PASSING
