"""Limits: how hard an endpoint may be pressed, and how long to try."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one endpoint is asked at most, by everything in this process together.

    >>> Limits(concurrency=64, requests_per_minute=500).attempts
    10
    """

    concurrency: int | None = None
    """Calls under way at once, at most; fewer while the endpoint refuses. None finds it out."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Read and written together."""
    timeout: float = 180.0
    """Seconds for one attempt. A call that hangs is given up then, and tried again."""
    deadline: float = 900.0
    """Seconds for a call with all its attempts, from the first on: waiting for its turn is free."""
    attempts: int = 10
    """Tries of one call in all."""
    outage: float = 60.0
    """Seconds that an endpoint may fail all calls before those that wait for it fail too."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "attempts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value!r}: give 1 or more")
        for name in ("requests_per_minute", "tokens_per_minute", "timeout", "deadline"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}: give more than 0")
