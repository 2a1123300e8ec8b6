"""RemoteRubric scores by asking a reward server, with the methods of a rubric that is here."""

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Final, cast

from pydantic import BaseModel, Field, ValidationError

from assay.base_rubric import BaseRubric
from assay.concurrency import run_concurrently, run_sync
from assay.errors import AssayError, RubricError
from assay.graders.grader import Grader
from assay.graders.judge_input import read_to_grade
from assay.models.http import HttpAddress
from assay.models.retry import backoff, retry_after
from assay.overrides import ScoringMethod
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.types import OnError
from assay.wording import describe_error, format_value

# Statuses that another try may change; None is a server that was never reached, 409 a worker without that version.
TEMPORARY: Final = frozenset({None, 408, 409, 429, 502, 503, 504})
# How long one answer may take. The server limits how long scoring takes; this is for one that is gone.
ANSWER_SECONDS: Final = 900.0
AROUND: Final = 64  # bytes of a request around its rollouts
_FIELDS: Final = frozenset({"prompt", "completion", "answer", "task", "info"})


class ServerRefused(AssayError):  # noqa: N818 - named as `Refused` is
    """A reward server would not, or could not, score. `status` is None when it was never reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Criterion(BaseModel):
    name: str
    weight: float
    counts: bool


class Description(BaseModel):
    """A rubric as its server describes it."""

    hash: str = Field(alias="rubric")
    criteria: list[_Criterion]
    compares: list[str]  # the criteria that weigh the rollouts of a request against each other
    max_batch: int
    max_bytes: int

    def failed(self, error: str) -> EvaluationReport:
        """The report on a rollout that could not be scored at all."""
        each = [
            CriterionReport(name=c.name, weight=c.weight, counted=c.counts, error=error)
            for c in self.criteria
        ]
        return aggregate(each)

    def cuts(self, rows: Sequence[bytes], most: int) -> list[int]:
        """Where to cut rows into requests that the server takes; rows that compare stay together."""
        size = sum(map(len, rows)) + len(rows) + AROUND
        if self.compares:
            if len(rows) > self.max_batch or size > self.max_bytes:
                limits = f"{len(rows)} of {size} bytes are more than the server takes at once ({self.max_batch}, {self.max_bytes})"
                told = f"{self.compares[0]!r} compares rollouts with each other, and {limits}"
                raise ValueError(f"{told}: score group by group")
            return [0, len(rows)]
        cuts, size = [0], AROUND
        for place, row in enumerate(rows):
            size += len(row) + 1
            is_full = place - cuts[-1] >= min(most, self.max_batch) or size > self.max_bytes
            if is_full and place > cuts[-1]:
                cuts.append(place)
                size = AROUND + len(row) + 1
        return [*cuts, len(rows)]


class RemoteRubric(BaseRubric):
    """Scores by asking a reward server: the same calls and the same reports as on the spot.

    A server that is full or stopping, or a worker that dies, is asked again for `patience` seconds, after
    as long as it says. What is still unanswered then is unscored, with the error on every line; never 0. With
    `on_error="raise"` it is raised. A wrong key or a request that makes no sense is raised in any case.

    >>> from assay import Rollout, Rubric
    >>> from assay.server import RewardServer
    >>> with RewardServer(Rubric([lambda completion, answer: completion == answer])) as server:
    ...     remote = RemoteRubric(server.url)
    ...     remote.grade_sync("4", answer="4").score
    1.0
    """

    reads_row_rubrics = True  # the server scores a row with a `rubric` of its own by that one

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        batch_size: int = 256,
        at_once: int = 8,
        patience: float = 60.0,
        on_error: OnError = "record",
        pinned: bool = False,
    ) -> None:
        """`batch_size` rollouts go into one request, and `at_once` requests are under way together.

        With `pinned` the version of the rubric that is found first stays, whatever the server takes over, until `update`.
        """
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("at_once", at_once, 1),
            ("patience", patience, 0),
        ):
            if not value >= least:
                raise ValueError(f"{name} is {value!r}: give {least} or more")
        self.url = url.rstrip("/")  # the address of the server
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._describing = HttpAddress(f"{self.url}/v1/rubric", headers, method="GET")
        self._headers, self._is_pinned = headers, pinned
        self._batch_size, self._at_once = batch_size, at_once
        self._patience, self._on_error = patience, on_error
        self._known: Description | None = None

    async def describe(self) -> Description:
        """What the server says of its rubric; asked once, and again when its hash changes."""
        if self._known is None:
            try:
                self._known = Description.model_validate(await self._ask(self._describing, b""))
            except ValidationError as error:
                raise ServerRefused(f"that is no reward server of ours: {error}") from None
        return self._known

    async def update(self) -> str:
        """Take over the rubric that the server has now, as between two steps of training; returns its hash."""
        self._known = None
        return (await self.describe()).hash

    async def pinned(self) -> "RemoteRubric":
        """This rubric at the version that the server has now; as it is where it is pinned already."""
        if self._is_pinned:
            return self
        await self.update()
        pinned = copy(self)
        pinned._is_pinned = True
        return pinned

    @property
    def version(self) -> str:
        """The hash that was last heard of; empty before."""
        return "" if self._known is None else self._known.hash

    @property
    def content_hash(self) -> str:
        """The hash of the rubric that was last scored with."""
        return run_sync(self.describe()).hash

    @property
    def compares(self) -> bool:
        return bool(run_sync(self.describe()).compares)

    @property
    def counted_weights(self) -> dict[str, float]:
        return {one.name: one.weight for one in run_sync(self.describe()).criteria if one.counts}

    async def _prepare(self) -> None:
        await self.describe()

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        autograder: Grader | None,
        called: ScoringMethod,
    ) -> list[EvaluationReport]:
        if autograder is not None:
            raise RubricError("a remote rubric has the judge of its server: leave autograder out")
        if not rollouts:
            return []
        known = await self.describe()
        reports: list[EvaluationReport | None] = [None] * len(rollouts)
        sent: list[Rollout] = []
        for index, rollout in enumerate(rollouts):
            try:
                sent.append(rollout.with_readable_completion())
            except TypeError as error:
                # A completion that cannot be read is an error of its own rollout, and is not sent.
                if self._on_error == "raise":
                    raise
                reports[index] = known.failed(describe_error(error))
        scored, version = await self._score(_encode_rollouts(sent), known)
        remaining = iter(scored)
        completed = [next(remaining) if report is None else report for report in reports]
        return [report.model_copy(update={"version": version}) for report in completed]

    async def _score(
        self, rows: Sequence[bytes], known: Description
    ) -> tuple[list[EvaluationReport], str]:
        """A report a row, and the version of all; all are asked for again when the rubric changed in between."""
        scoring = HttpAddress(
            f"{self.url}/v1/score{f'?rubric={known.hash}' if self._is_pinned else ''}",
            self._headers,
        )
        pieces = list(pairwise(known.cuts(rows, self._batch_size))) if rows else []
        for _ in range(3):
            hashes: set[str] = set()

            async def ask(
                piece: tuple[int, int], seen: set[str] = hashes
            ) -> list[EvaluationReport]:
                some = rows[slice(*piece)]
                try:
                    answer = await self._ask(
                        scoring, b'{"rollouts":[' + b",".join(some) + b'],"report":true}'
                    )
                except ServerRefused as error:
                    if self._on_error == "raise" or error.status not in TEMPORARY:
                        raise
                    return [known.failed(describe_error(error))] * len(some)
                seen.add(answer["rubric"])
                reports = [EvaluationReport.from_dict(item["report"]) for item in answer["items"]]
                if len(reports) != len(some):
                    raise ServerRefused(
                        f"the server gave {len(reports)} reports on {len(some)} rollouts"
                    )
                return reports

            found = await run_concurrently(ask, pieces, limit=self._at_once)
            if hashes - {known.hash}:
                self._known = None
            if len(hashes) <= 1:
                return [report for piece in found for report in piece], next(
                    iter(hashes), known.hash
                )
        raise ServerRefused("the server's rubric keeps changing: its scores would not compare")

    async def _ask(self, address: HttpAddress, body: bytes) -> Any:
        """The answer to a request, as JSON, asked again while the server is full, stopping or away."""
        attempt, ends = 0, None
        while True:
            attempt += 1
            wait, status = backoff(attempt - 1, None), None
            try:
                answer = await address.send(body, ANSWER_SECONDS)
            except OSError as error:  # a TimeoutError is one too
                sentence = describe_error(error)
            else:
                status = answer.status
                if status == 200:
                    return answer.data
                said: Any = answer.data
                told = cast("dict[str, Any]", said).get("error") if isinstance(said, dict) else None
                sentence = (
                    f"{status}, {told if isinstance(told, str) else answer.text[:200]}".rstrip(", ")
                )
                asked = retry_after(answer.headers)
                if asked is not None:
                    # A little later than asked, or all clients that were refused come back together.
                    wait = asked * random.uniform(1, 1.5)
            ends = time.monotonic() + self._patience if ends is None else ends
            if status not in TEMPORARY or time.monotonic() + wait > ends:
                tries = f" after {attempt} tries" if attempt > 1 else ""
                raise ServerRefused(f"{self.url}{tries}: {sentence}", status)
            await asyncio.sleep(wait)

    def _raise_if_group_needed(self) -> None:
        compares = run_sync(self.describe()).compares
        if compares:
            raise RubricError(f"check {compares[0]!r} scores a whole group: use score_group")

    def _get_reward_func_names(self) -> list[str]:
        return [criterion.name for criterion in run_sync(self.describe()).criteria]

    def __repr__(self) -> str:
        return f"<RemoteRubric at {self.url}>"


def _encode_rollouts(rollouts: Sequence[Rollout]) -> list[bytes]:
    """Return each rollout as JSON; raise TypeError for what JSON cannot hold."""
    encoded: list[bytes] = []
    for index, rollout in enumerate(rollouts):
        fields = rollout.fields
        text = rollout.judge_text
        if text is not None and read_to_grade(fields["completion"])[1] != text:
            # A judge would read this text here, but the server does not get it.
            raise TypeError(
                "a remote rubric grades a text or messages: join thinking and output into one text"
            )
        body: dict[str, Any] = {"state": dict(fields)}
        if not rollout.is_state and "completion" in fields:
            body = {name: fields[name] for name in fields if name in _FIELDS}
            if rollout.state:
                body["state"] = dict(rollout.state)
            columns = {name: fields[name] for name in fields if name not in _FIELDS}
            if columns:
                body["columns"] = columns
        try:
            encoded.append(_encode_json(body))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"rollout {index} cannot be sent to a server: {error}") from None
    return encoded


def _encode_json(body: Mapping[str, Any]) -> bytes:
    options: dict[str, Any] = {"separators": (",", ":"), "allow_nan": False, "default": _plain}
    try:
        return json.dumps(body, ensure_ascii=False, **options).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
        return json.dumps(body, **options).encode()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"JSON has no form for {format_value(value)}")
