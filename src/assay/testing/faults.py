"""A Fault is what goes wrong between a caller and a model, and `mixed` draws them at random."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong with one call. Make them with the methods below."""

    kind: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    body: str | None = None  # the whole body, in place of a reply
    text: str | None = None  # what the model says, in place of its answer
    finish_reason: str = "stop"

    @classmethod
    def rate_limited(cls, retry_after: float | str | None = None) -> "Fault":
        """429; with seconds or a date after which to come again."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return cls("rate_limited", 429, headers, '{"error": {"message": "slow down"}}')

    @classmethod
    def failing(cls, status: int = 500) -> "Fault":
        """The endpoint's own fault."""
        return cls("failing", status, body='{"error": {"message": "something broke"}}')

    @classmethod
    def refusing(cls, complaint: str, status: int = 400) -> "Fault":
        """The endpoint complains about the request."""
        return cls("refusing", status, body=f'{{"error": {{"message": "{complaint}"}}}}')

    @classmethod
    def hanging(cls) -> "Fault":
        """Nothing comes, ever."""
        return cls("hanging")

    @classmethod
    def cut_off(cls) -> "Fault":
        """The connection breaks in the middle of the answer."""
        return cls("cut_off")

    @classmethod
    def garbage(cls) -> "Fault":
        """A success whose body is no JSON."""
        return cls("garbage", body="<html>502 Bad Gateway</html>")

    @classmethod
    def saying(cls, text: str) -> "Fault":
        """A reply that is not what was asked for."""
        return cls("saying", text=text)

    @classmethod
    def truncated(cls, text: str = '{"explanation": "It is pla') -> "Fault":
        """A reply that ran into the limit of tokens."""
        return cls("truncated", text=text, finish_reason="length")


FaultPlan: TypeAlias = Callable[[int], Fault | None] | Sequence[Fault | None]
"""The fault of each call, by its number from 0, or in order; None is none."""


def mixed(shares: Mapping[Fault, float], *, seed: int = 0) -> Callable[[int], Fault | None]:
    """Return a plan of faults at random, each with its share of the calls; the same for the same seed."""
    if sum(shares.values()) > 1:
        raise ValueError(f"the shares {list(shares.values())} come to more than 1")

    def fault_of(call: int) -> Fault | None:
        drawn = random.Random(f"{seed}:{call}").random()
        for fault, share in shares.items():
            if drawn < share:
                return fault
            drawn -= share
        return None

    return fault_of
