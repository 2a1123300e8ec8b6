"""RemoteRubric has the methods of a rubric, and asks a reward server for the scores."""

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import BaseModel, Field, ValidationError

from assay.base_rubric import BaseRubric
from assay.concurrency import run_concurrently, run_sync
from assay.errors import AssayError, RubricError
from assay.graders.grader import Grader
from assay.graders.judge_input import read_to_grade
from assay.models.http import HttpAddress
from assay.models.retry import backoff, retry_after
from assay.report import CriterionReport, EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.types import OnError, ScoringMethod
from assay.wording import describe_error, format_value

# Statuses after which another try may succeed. None: the server was not reached. 409: the worker does
# not have the version of the rubric that was asked for.
TEMPORARY_STATUSES: Final = frozenset({None, 408, 409, 429, 502, 503, 504})
# How long one reply may take. The server limits how long scoring takes; this limit is for a server
# that is gone.
ANSWER_SECONDS: Final = 900.0
ENVELOPE_BYTES: Final = 64  # bytes of a request besides its rollouts
VERSION_TRIES: Final = 3  # how often rollouts are sent if the rubric changes meanwhile
_FIELDS: Final = frozenset({"prompt", "completion", "answer", "task", "info"})


class ServerRefused(AssayError):  # noqa: N818 - named as `Refused` is
    """A reward server did not score. `status` is None if it was never reached."""

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
    compares: list[str]  # the criteria that compare the rollouts of a request with each other
    max_batch: int
    max_bytes: int

    def report_failure(self, error: str) -> EvaluationReport:
        """Return the report on a rollout that could not be scored, with this error on every line."""
        lines = [
            CriterionReport(
                name=criterion.name,
                weight=criterion.weight,
                counted=criterion.counts,
                error=error,
            )
            for criterion in self.criteria
        ]
        return aggregate(lines)

    def split(self, rows: Sequence[bytes], batch_size: int) -> list[Sequence[bytes]]:
        """Split rows into batches that the server accepts; rows that are compared stay together."""
        if self.compares:
            self._check_group_size(rows)
            return [rows]
        max_rows = min(batch_size, self.max_batch)
        batches: list[Sequence[bytes]] = []
        batch: list[bytes] = []
        size = ENVELOPE_BYTES
        for row in rows:
            row_size = len(row) + 1  # and a comma
            if batch and (len(batch) >= max_rows or size + row_size > self.max_bytes):
                batches.append(batch)
                batch = []
                size = ENVELOPE_BYTES
            batch.append(row)
            size += row_size
        batches.append(batch)
        return batches

    def _check_group_size(self, rows: Sequence[bytes]) -> None:
        """Raise ValueError if rows that have to be compared do not fit into one request."""
        size = sum(len(row) + 1 for row in rows) + ENVELOPE_BYTES
        if len(rows) > self.max_batch or size > self.max_bytes:
            raise ValueError(
                f"{self.compares[0]!r} compares rollouts with each other, and {len(rows)} of {size} "
                f"bytes are more than the server takes at once ({self.max_batch}, "
                f"{self.max_bytes}): score group by group"
            )


@dataclass
class _ServerReply:
    """What came back from a server; `status` is None if nothing did."""

    status: int | None
    data: Any = None
    error: str = ""  # why there are no scores
    retry_after: float | None = None  # seconds that the server asks clients to wait


class RemoteRubric(BaseRubric):
    """Scores by asking a reward server, with the same calls and the same reports as a local rubric.

    If a server is full or stopping, or a worker dies, the request is repeated for `patience` seconds,
    each time after the delay that the server names. A rollout without an answer after that is
    unscored, with the error on every line; never 0. With `on_error="raise"` the error is raised.
    A wrong key or an invalid request is always raised.

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
        """Each request has up to `batch_size` rollouts, and up to `at_once` requests run concurrently.

        With `pinned`, the version of the rubric that is served first is used until `update` is
        called, even if the server takes over another.
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
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Made here, so that a wrong URL is an error now.
        self._description_address = HttpAddress(
            f"{self.url}/v1/rubric", self._headers, method="GET"
        )
        self._is_pinned = pinned
        self._batch_size = batch_size
        self._at_once = at_once
        self._patience = patience
        self._on_error = on_error
        self._description: Description | None = None  # None until the server was asked

    async def describe(self) -> Description:
        """Return the server's description of its rubric.

        It is requested once, and again after the hash has changed.
        """
        if self._description is None:
            data = await self._request(self._description_address, b"")
            try:
                self._description = Description.model_validate(data)
            except ValidationError as error:
                raise ServerRefused(f"{self.url} is not a reward server: {error}") from None
        return self._description

    async def update(self) -> str:
        """Take over the rubric that the server has now, as between two training steps; return its hash."""
        self._description = None
        return (await self.describe()).hash

    async def pinned(self) -> "RemoteRubric":
        """Return this rubric pinned to the version that the server has now.

        A rubric that is pinned already is returned as it is.
        """
        if self._is_pinned:
            return self
        await self.update()
        pinned = copy(self)
        pinned._is_pinned = True
        return pinned

    @property
    def version(self) -> str:
        """The hash that the server last sent; empty before the first request."""
        if self._description is None:
            return ""
        return self._description.hash

    @property
    def content_hash(self) -> str:
        """The hash of the rubric that scored last."""
        return run_sync(self.describe()).hash

    @property
    def compares(self) -> bool:
        """Whether a criterion compares the rollouts of a group."""
        return bool(run_sync(self.describe()).compares)

    @property
    def counted_weights(self) -> dict[str, float]:
        """The weights of the criteria that count, by name."""
        criteria = run_sync(self.describe()).criteria
        return {criterion.name: criterion.weight for criterion in criteria if criterion.counts}

    async def _prepare(self) -> None:
        await self.describe()

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        if grader is not None:
            raise RubricError("a remote rubric has the judge of its server: leave judge out")
        if not rollouts:
            return []
        description = await self.describe()
        reports: list[EvaluationReport | None] = [None] * len(rollouts)
        readable: list[Rollout] = []
        for index, rollout in enumerate(rollouts):
            try:
                readable.append(rollout.with_readable_completion())
            except TypeError as error:
                # A completion that cannot be read is an error of its own rollout, and is not sent.
                if self._on_error == "raise":
                    raise
                reports[index] = description.report_failure(describe_error(error))
        scored, version = await self._score_rows(_encode_rollouts(readable), description)
        remaining = iter(scored)
        completed = [next(remaining) if report is None else report for report in reports]
        return [report.model_copy(update={"version": version}) for report in completed]

    async def _score_rows(
        self, rows: Sequence[bytes], description: Description
    ) -> tuple[list[EvaluationReport], str]:
        """Return one report per row, and the version of the rubric that made all of them.

        If the rubric changes meanwhile, all rows are sent again.
        """
        if not rows:
            return [], description.hash
        batches = description.split(rows, self._batch_size)
        for _ in range(VERSION_TRIES):
            versions: set[str] = set()

            async def score_batch(
                batch: Sequence[bytes], versions: set[str] = versions
            ) -> list[EvaluationReport]:
                reports, version = await self._score_batch(batch, description)
                if version is not None:
                    versions.add(version)
                return reports

            reports = await run_concurrently(score_batch, batches, limit=self._at_once)
            if versions - {description.hash}:
                self._description = None  # the server has another rubric now
            if len(versions) <= 1:
                version = versions.pop() if versions else description.hash
                return [report for batch in reports for report in batch], version
        raise ServerRefused(
            f"the rubric of {self.url} changed during {VERSION_TRIES} tries, and scores of several "
            "rubrics cannot be compared: score again once it no longer changes"
        )

    async def _score_batch(
        self, rows: Sequence[bytes], description: Description
    ) -> tuple[list[EvaluationReport], str | None]:
        """Return one report per row, and the version of the rubric; None if no rubric scored them."""
        url = f"{self.url}/v1/score"
        if self._is_pinned:
            url += f"?rubric={description.hash}"
        body = b'{"rollouts":[' + b",".join(rows) + b'],"report":true}'
        try:
            reply = await self._request(HttpAddress(url, self._headers), body)
        except ServerRefused as error:
            if self._on_error == "raise" or error.status not in TEMPORARY_STATUSES:
                raise
            return [description.report_failure(describe_error(error))] * len(rows), None
        reports = [EvaluationReport.from_dict(item["report"]) for item in reply["items"]]
        if len(reports) != len(rows):
            raise ServerRefused(f"the server sent {len(reports)} reports on {len(rows)} rollouts")
        return reports, reply["rubric"]

    async def _request(self, address: HttpAddress, body: bytes) -> Any:
        """Return the JSON of a reply; repeat the request while the server is full, stopping or gone."""
        deadline: float | None = None
        attempt = 0
        while True:
            reply = await _send(address, body)
            if reply.status == 200:
                return reply.data
            if deadline is None:  # patience counts from the first failure
                deadline = time.monotonic() + self._patience
            if reply.retry_after is None:
                wait = backoff(attempt, latency=None)
            else:
                # A little later than asked, or all refused clients would come back together.
                wait = reply.retry_after * random.uniform(1, 1.5)
            attempt += 1
            is_late = time.monotonic() + wait > deadline
            if is_late or reply.status not in TEMPORARY_STATUSES:
                tries = f" after {attempt} tries" if attempt > 1 else ""
                raise ServerRefused(f"{self.url}{tries}: {reply.error}", reply.status)
            await asyncio.sleep(wait)

    def _raise_if_group_needed(self) -> None:
        compares = run_sync(self.describe()).compares
        if compares:
            raise RubricError(f"check {compares[0]!r} scores a whole group: use score_group")

    def _get_reward_func_names(self) -> list[str]:
        return [criterion.name for criterion in run_sync(self.describe()).criteria]

    def __repr__(self) -> str:
        return f"<RemoteRubric at {self.url}>"


async def _send(address: HttpAddress, body: bytes) -> _ServerReply:
    """Send a request once."""
    try:
        answer = await address.send(body, ANSWER_SECONDS)
    except OSError as error:  # a TimeoutError is one too
        return _ServerReply(status=None, error=describe_error(error))
    data: Any = answer.data
    message: Any = None
    if isinstance(data, dict):
        message = cast("dict[str, Any]", data).get("error")
    if not isinstance(message, str):
        message = answer.text[:200]
    return _ServerReply(
        status=answer.status,
        data=data,
        error=f"{answer.status}, {message}".rstrip(", "),
        retry_after=retry_after(answer.headers),
    )


def _encode_rollouts(rollouts: Sequence[Rollout]) -> list[bytes]:
    """Return each rollout as JSON; raise TypeError if one cannot be sent."""
    encoded: list[bytes] = []
    for index, rollout in enumerate(rollouts):
        _check_judge_text(rollout)
        try:
            encoded.append(_encode_json(_build_body(rollout)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"rollout {index} cannot be sent to a server: {error}") from None
    return encoded


def _check_judge_text(rollout: Rollout) -> None:
    """Raise TypeError if a judge here would read a text that the server would not get."""
    text = rollout.judge_text
    if text is None:
        return
    _, server_text = read_to_grade(rollout.fields["completion"])
    if server_text != text:
        raise TypeError(
            "a remote rubric grades a text or messages: join thinking and output into one text"
        )


def _build_body(rollout: Rollout) -> dict[str, Any]:
    """Return a rollout as `POST /v1/score` takes it: by fields, or as a state that has all of them."""
    fields = rollout.fields
    if rollout.is_state or "completion" not in fields:
        return {"state": dict(fields)}
    body = {name: fields[name] for name in fields if name in _FIELDS}
    columns = {name: fields[name] for name in fields if name not in _FIELDS}
    if rollout.state:
        body["state"] = dict(rollout.state)
    if columns:
        body["columns"] = columns
    return body


def _encode_json(body: Mapping[str, Any]) -> bytes:
    options: dict[str, Any] = {
        "separators": (",", ":"),
        "allow_nan": False,
        "default": _convert_to_json,
    }
    try:
        return json.dumps(body, ensure_ascii=False, **options).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold only as an escape
        return json.dumps(body, **options).encode()


def _convert_to_json(value: object) -> object:
    """Return a model or mapping as what JSON can hold; raise TypeError for anything else."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"JSON cannot hold {format_value(value)}")
