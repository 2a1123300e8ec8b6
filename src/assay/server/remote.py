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

# HTTP statuses after which another try may succeed. None stands for a server that was not reached.
# 409 says that the worker which got the request does not have the version of the rubric that was
# asked for; another worker may have it.
TEMPORARY_STATUSES: Final = frozenset({None, 408, 409, 429, 502, 503, 504})
# How long one reply may take. The server itself limits how long scoring takes, so this limit matters
# only if the server does not reply at all.
REPLY_SECONDS: Final = 900.0
ENVELOPE_BYTES: Final = 64  # the size of a request without its rollouts, or a little more
VERSION_TRIES: Final = 3  # how often rollouts are sent if the rubric changes while they are scored
# Fields of a rollout that the server takes by these names; all others are sent as `columns`.
_ROLLOUT_FIELDS: Final = frozenset({"prompt", "completion", "answer", "task", "info"})


class ServerRefused(AssayError):  # noqa: N818 - named as `Refused` is
    """A reward server did not score. `status` is that of its last reply; None if there was none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Criterion(BaseModel):
    """A criterion as its server describes it."""

    name: str
    weight: float
    counts: bool  # whether it counts in the score; False for a metric


class Description(BaseModel):
    """A rubric as its server describes it, and the limits of requests to that server."""

    hash: str = Field(alias="rubric")
    criteria: list[_Criterion]
    compares: list[str]  # the criteria that compare the rollouts of a request with each other
    max_batch: int  # rollouts in one request
    max_bytes: int  # the size of one request

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
        """Split rollouts, each encoded as JSON, into the batches that are sent in one request each.

        A batch has at most `batch_size` rows, and is not larger than the server accepts. Rows that
        are compared with each other stay together; raise ValueError if they do not fit.
        """
        if self.compares:
            self._check_group_size(rows)
            return [rows]
        max_rows = min(batch_size, self.max_batch)
        batches: list[Sequence[bytes]] = []
        batch: list[bytes] = []
        size = ENVELOPE_BYTES  # of the request with the rows of this batch
        for row in rows:
            row_size = len(row) + 1  # with the comma after it
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
    """The reply of a server to one request, or the lack of one."""

    status: int | None  # None if the server could not be reached
    data: Any = None  # the decoded JSON of the reply
    error: str = ""  # why there are no scores, if the status is not 200
    retry_after: float | None = None  # seconds that the server asks clients to wait


class RemoteRubric(BaseRubric):
    """Scores by asking a reward server, with the same methods and the same reports as a local rubric.

    If a server is full or stopping, or a worker dies, the request is repeated for `patience` seconds,
    each time after the delay that the server names. If there is still no answer, the rollouts are
    unscored, with the error on every line of their reports; with `on_error="raise"`, the error is
    raised. A wrong key or an invalid request always raises an error.

    >>> from assay import Rollout, Rubric
    >>> from assay.server import RewardServer
    >>> with RewardServer(Rubric([lambda completion, answer: completion == answer])) as server:
    ...     remote = RemoteRubric(server.url)
    ...     remote.grade_sync("4", answer="4").score
    1.0
    """

    reads_row_rubrics = True  # the server scores a row that has a `rubric` by that rubric

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
        """`url` is the address of the server, and `key` its key, if it has one.

        Each request has up to `batch_size` rollouts, and up to `at_once` requests run concurrently.
        With `pinned`, the version of the rubric that is served first is used until `update` is
        called, even if the server takes over another.
        """
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        for name, value, minimum in (
            ("batch_size", batch_size, 1),
            ("at_once", at_once, 1),
            ("patience", patience, 0),
        ):
            if not value >= minimum:  # also true for NaN
                raise ValueError(f"{name} is {value!r}: give {minimum} or more")
        self.url = url.rstrip("/")  # the address of the server
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Raises if the URL is not valid.
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

        It is requested when it is first needed, and again after the rubric of the server has changed.
        """
        if self._description is None:
            data = await self._request(self._description_address, b"")
            try:
                self._description = Description.model_validate(data)
            except ValidationError as error:
                raise ServerRefused(f"{self.url} is not a reward server: {error}") from None
        return self._description

    async def update(self) -> str:
        """Use the rubric that the server has now, and return its hash.

        A pinned rubric is used until this is called, such as between two training steps.
        """
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
        """The hash of the rubric that the server described last. Asks the server if it has not yet."""
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
        """Ask the server for its rubric, so that properties that depend on it are known."""
        await self.describe()

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Let the server score rollouts; return one report per rollout, in order."""
        if grader is not None:
            raise RubricError("a remote rubric has the judge of its server: leave judge out")
        if not rollouts:
            return []
        description = await self.describe()
        # Reports on rollouts that are not sent, because their completion is neither text nor messages.
        failures: dict[int, EvaluationReport] = {}  # by the index of the rollout
        readable: list[Rollout] = []
        for index, rollout in enumerate(rollouts):
            try:
                readable.append(rollout.with_readable_completion())
            except TypeError as error:
                if self._on_error == "raise":
                    raise
                failures[index] = description.report_failure(describe_error(error))
        server_reports, version = await self._score_rows(_encode_rollouts(readable), description)
        next_report = iter(server_reports)
        reports: list[EvaluationReport] = []
        for index in range(len(rollouts)):
            report = failures[index] if index in failures else next(next_report)
            reports.append(report.model_copy(update={"version": version}))
        return reports

    async def _score_rows(
        self, rows: Sequence[bytes], description: Description
    ) -> tuple[list[EvaluationReport], str]:
        """Return one report per row, and the version (the hash) of the rubric that scored all of them.

        If the server loads another rubric before the last row is scored, all rows are sent again.
        """
        if not rows:
            return [], description.hash
        batches = description.split(rows, self._batch_size)
        for _ in range(VERSION_TRIES):
            results = await run_concurrently(
                lambda batch: self._score_batch(batch, description), batches, limit=self._at_once
            )
            versions = {result.version for result in results if result.version is not None}
            if versions - {description.hash}:
                # The server has another rubric now: ask for its description the next time.
                self._description = None
            if len(versions) <= 1:
                version = versions.pop() if versions else description.hash
                reports = [report for result in results for report in result.reports]
                return reports, version
        raise ServerRefused(
            f"the rubric of {self.url} changed during {VERSION_TRIES} tries, and scores of several "
            "rubrics cannot be compared: score again once it no longer changes"
        )

    async def _score_batch(self, rows: Sequence[bytes], description: Description) -> "_BatchResult":
        """Let the server score rows in one request.

        If the server cannot be reached or is overloaded, every row is reported as failed.
        """
        url = f"{self.url}/v1/score"
        if self._is_pinned:
            url += f"?rubric={description.hash}"
        body = b'{"rollouts":[' + b",".join(rows) + b'],"report":true}'
        try:
            reply = await self._request(HttpAddress(url, self._headers), body)
        except ServerRefused as error:
            if self._on_error == "raise" or error.status not in TEMPORARY_STATUSES:
                raise
            failure = description.report_failure(describe_error(error))
            return _BatchResult([failure] * len(rows), version=None)
        reports = [EvaluationReport.from_dict(item["report"]) for item in reply["items"]]
        if len(reports) != len(rows):
            raise ServerRefused(f"the server sent {len(reports)} reports on {len(rows)} rollouts")
        return _BatchResult(reports, version=reply["rubric"])

    async def _request(self, address: HttpAddress, body: bytes) -> Any:
        """Return the decoded JSON of the reply to a request.

        The request is repeated while the server is full, is stopping or cannot be reached, for up to
        `patience` seconds. Then, and for any other refusal, raise `ServerRefused`.
        """
        deadline: float | None = None
        attempt = 0
        while True:
            reply = await _send(address, body)
            if reply.status == 200:
                return reply.data
            if deadline is None:  # `patience` is counted from the first failure
                deadline = time.monotonic() + self._patience
            if reply.retry_after is None:
                wait = backoff(attempt, latency=None)
            else:
                # Wait a random time longer than the server asks, so that not all the clients that it
                # refused come back at the same moment.
                wait = reply.retry_after * random.uniform(1, 1.5)
            attempt += 1
            is_too_late = time.monotonic() + wait > deadline
            if is_too_late or reply.status not in TEMPORARY_STATUSES:
                tries = f" after {attempt} tries" if attempt > 1 else ""
                raise ServerRefused(f"{self.url}{tries}: {reply.error}", reply.status)
            await asyncio.sleep(wait)

    def _raise_if_group_needed(self) -> None:
        """Raise RubricError if the rubric cannot score a single rollout."""
        compares = run_sync(self.describe()).compares
        if compares:
            raise RubricError(f"check {compares[0]!r} scores a whole group: use score_group")

    def _get_reward_func_names(self) -> list[str]:
        """Return the names of the criteria."""
        return [criterion.name for criterion in run_sync(self.describe()).criteria]

    def __repr__(self) -> str:
        return f"<RemoteRubric at {self.url}>"


@dataclass(frozen=True)
class _BatchResult:
    """The reports on the rows of one request."""

    reports: list[EvaluationReport]
    version: str | None  # the hash of the rubric that scored them; None if the request failed


async def _send(address: HttpAddress, body: bytes) -> _ServerReply:
    """Send a request once, and return the reply of the server, even if it is an error."""
    try:
        reply = await address.send(body, REPLY_SECONDS)
    except OSError as error:  # TimeoutError is a subclass of it
        return _ServerReply(status=None, error=describe_error(error))
    data: Any = reply.data
    message: Any = None
    if isinstance(data, dict):
        message = cast("dict[str, Any]", data).get("error")
    if not isinstance(message, str):  # the reply comes from another server, such as a proxy
        message = reply.text[:200]
    return _ServerReply(
        status=reply.status,
        data=data,
        error=f"{reply.status}, {message}".rstrip(", "),  # no comma if the message is empty
        retry_after=retry_after(reply.headers),
    )


def _encode_rollouts(rollouts: Sequence[Rollout]) -> list[bytes]:
    """Return each rollout as the JSON that the server takes; raise TypeError if one cannot be sent."""
    encoded: list[bytes] = []
    for index, rollout in enumerate(rollouts):
        _check_judge_text(rollout)
        try:
            encoded.append(_encode_json(_build_body(rollout)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"rollout {index} cannot be sent to a server: {error}") from None
    return encoded


def _check_judge_text(rollout: Rollout) -> None:
    """Raise TypeError if the judge of the server would read another text than a local judge.

    Only the completion is sent. `judge_text` is a text that was made of several parts here; None if
    judges read the completion.
    """
    text = rollout.judge_text
    if text is None:
        return
    _, text_on_server = read_to_grade(rollout.fields["completion"])
    if text_on_server != text:
        raise TypeError(
            "a remote rubric grades a text or messages: join thinking and output into one text"
        )


def _build_body(rollout: Rollout) -> dict[str, Any]:
    """Return a rollout as `POST /v1/score` takes it: as fields, or as one state that holds all of them."""
    fields = rollout.fields
    if rollout.is_state or "completion" not in fields:
        return {"state": dict(fields)}
    body = {name: value for name, value in fields.items() if name in _ROLLOUT_FIELDS}
    columns = {name: value for name, value in fields.items() if name not in _ROLLOUT_FIELDS}
    if rollout.state:
        body["state"] = dict(rollout.state)
    if columns:
        body["columns"] = columns
    return body


def _encode_json(body: Mapping[str, Any]) -> bytes:
    """Return a value as compact JSON; raise TypeError or ValueError for what JSON cannot hold."""
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
    """Return a pydantic model or a mapping as a dict; raise TypeError for any other value.

    `json.dumps` calls this for values that it cannot encode itself.
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"JSON cannot hold {format_value(value)}")
