"""Retry: which failures are worth another try, and when to make it."""

import errno
import random
import re
import socket
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

REFUSING = frozenset({429, 503, 529})
"""The endpoint asks to be left alone for a while."""
FAILING = frozenset({408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524})
"""The endpoint failed; another try may do better."""

LONGEST = 30.0
"""Seconds between two tries at most, unless the endpoint asks for more."""
SOONEST, LATEST = 0.05, 1.0
"""Bounds for the first wait, in seconds."""


def is_retriable(status: int, body: str) -> bool:
    """Whether another try can help: not with money that has run out, or a schema it cannot take."""
    hopeless = "insufficient_quota" in body or "response_format" in body
    return (status in REFUSING or status in FAILING) and not hopeless


def is_hopeless(error: BaseException | None) -> bool:
    """Whether nothing is there to connect to: a port that refuses, a name or a certificate that is wrong."""
    while error is not None:
        refused = isinstance(error, ConnectionRefusedError | ssl.SSLCertVerificationError)
        unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN
        # Of a name with several addresses all errors stand in one text.
        numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
        if refused or unknown or numbers == {str(errno.ECONNREFUSED)}:
            return True
        error = error.__cause__ or error.__context__
    return False


_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def backoff(attempt: int, typical: float | None, health: float = 0.0) -> float:
    """Seconds to wait after so many tries: about the time of a call, doubling, with jitter.

    `health` is the share of recent attempts, of everybody, that were answered. Where most are, a call
    that had no luck gains nothing by waiting long: it doubles only as failures outnumber answers.
    Half of the wait is at random, or all who failed together come back together.
    """
    first = min(LATEST, max(SOONEST, typical if typical is not None else LATEST / 2))
    failures = (1 - health) / max(health, 0.001)
    needed = first * max(1.0, failures**2)
    longest = min(LONGEST, needed, first * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the endpoint asks to wait; None when it does not say, or not readably.

    >>> retry_after({"retry-after-ms": "250"}), retry_after({"retry-after": "2"})
    (0.25, 2.0)
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"})
    0.0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None or asked is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
