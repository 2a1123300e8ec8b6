"""Sending: requests to a reward server, made again while it is full, stopping or away."""

import asyncio
import random
import time
from typing import Any, Final

from assay.models.http import HttpAddress
from assay.models.payload import RawReply
from assay.models.retry import backoff, retry_after
from assay.server.refusals import ServerRefused
from assay.wording import described

LONGEST: Final = 900.0
"""Seconds for one answer. How long scoring takes is for the server to limit; this is for one that is gone."""


class Sender:
    """Asks one server, with its key."""

    def __init__(self, url: str, key: str | None, patience: float) -> None:
        if not patience >= 0:
            raise ValueError(f"patience is {patience!r}: give 0 seconds or more")
        self.url = url.rstrip("/")
        self._patience = patience
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._addresses: dict[tuple[str, str], HttpAddress] = {}
        self._address("POST", "/v1/score")  # so that what is wrong with it is said at once

    async def get(self, path: str) -> Any:
        """What is at a path, as JSON; raises `ServerRefused` when nothing is."""
        return await self._until_answered(self._address("GET", path), b"")

    async def post(self, path: str, body: bytes) -> Any:
        """The reply to a body, as JSON; raises `ServerRefused` when there is none."""
        return await self._until_answered(self._address("POST", path), body)

    async def _until_answered(self, address: HttpAddress, body: bytes) -> Any:
        attempt, ends = 0, None
        while True:
            attempt += 1
            try:
                answer = await address.send(body, LONGEST)
            except OSError as error:  # a TimeoutError is one too
                failure, wait = ServerRefused(described(error)), backoff(attempt, None)
            else:
                if answer.status == 200:
                    return answer.data
                failure = ServerRefused(_sentence(answer), answer.status)
                asked = retry_after(answer.headers)
                # A little later than asked, or all who were refused come back together.
                wait = backoff(attempt, None) if asked is None else asked * random.uniform(1, 1.5)
            ends = time.monotonic() + self._patience if ends is None else ends
            if not failure.is_passing or time.monotonic() + wait > ends:
                tries = f" after {attempt} tries" if attempt > 1 else ""
                raise ServerRefused(f"{self.url}{tries}: {failure}", failure.status)
            await asyncio.sleep(wait)

    def _address(self, method: str, path: str) -> HttpAddress:
        if (method, path) not in self._addresses:
            made = HttpAddress(self.url + path, self._headers, method=method)
            self._addresses[method, path] = made
        return self._addresses[method, path]


def _sentence(answer: RawReply) -> str:
    said: Any = answer.data
    told = said.get("error") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{answer.status}, {told if isinstance(told, str) else answer.text[:200]}".rstrip(", ")
