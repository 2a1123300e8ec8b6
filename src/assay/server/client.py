"""RemoteRubric: a rubric behind a reward server, with the doors of one that is here."""

from collections.abc import Sequence
from itertools import pairwise

from assay.concurrency import run_sync, side_by_side
from assay.engine import Findings, Reported
from assay.errors import RubricError
from assay.graders.base import Autograder
from assay.report import EvaluationReport
from assay.rollout import Batch
from assay.rubric import BaseRubric
from assay.server.packing import bodies, rows_of
from assay.server.refusals import ServerRefused
from assay.server.remote import Description
from assay.server.sending import Sender
from assay.types import OnError
from assay.wording import described


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

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        batch_size: int = 256,
        at_once: int = 8,
        patience: float = 60.0,
        on_error: OnError = "record",
    ) -> None:
        """`batch_size` rollouts go into one request, and `at_once` requests are under way together."""
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        for name, value in (("batch_size", batch_size), ("at_once", at_once)):
            if not value >= 1:
                raise ValueError(f"{name} is {value!r}: give 1 or more")
        self._sender = Sender(url, key, patience)
        self._batch_size = batch_size
        self._at_once = at_once
        self.on_error: OnError = on_error
        self._known: Description | None = None

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._sender.url

    async def describe(self) -> Description:
        """What the server says of its rubric; asked once, and again when its hash changes."""
        if self._known is None:
            self._known = Description.of(await self._sender.get("/v1/rubric"))
        return self._known

    @property
    def content_hash(self) -> str:
        """The hash of the rubric that was last scored with."""
        return run_sync(self.describe()).hash

    @property
    def compares(self) -> bool:
        return bool(run_sync(self.describe()).compares)

    async def _prepare(self) -> None:
        await self.describe()

    async def _find(self, batch: Batch, autograder: Autograder | None = None) -> Findings:
        if autograder is not None:
            raise RubricError("a remote rubric has the judge of its server: leave autograder out")
        if not len(batch):
            return Reported([])
        known = await self.describe()
        batch, unreadable = batch.readable()
        if unreadable and self.on_error == "raise":
            raise TypeError(next(iter(unreadable.values())).removeprefix("TypeError: "))
        rest = [place for place in range(len(batch)) if place not in unreadable]
        rows = rows_of(batch.select(rest) if unreadable else batch)
        cuts = known.cuts(rows, self._batch_size)
        found = await self._ask_all(rows, cuts, known) if rows else []
        reports = iter([report for reports in found for report in reports])
        return Reported(
            [
                known.failed(unreadable[place]) if place in unreadable else next(reports)
                for place in range(len(batch))
            ]
        )

    async def _ask_all(
        self, rows: Sequence[bytes], cuts: Sequence[int], known: Description
    ) -> list[list[EvaluationReport]]:
        """The reports of every piece; all again when the rubric changed in between."""
        for _ in range(3):
            hashes: set[str] = set()

            async def ask(
                piece: tuple[int, int], seen: set[str] = hashes
            ) -> list[EvaluationReport]:
                return await self._ask(rows[slice(*piece)], known, seen)

            found = await side_by_side(ask, list(pairwise(cuts)), limit=self._at_once)
            if hashes - {known.hash}:
                self._known = None
            if len(hashes) <= 1:
                return found
        raise ServerRefused("the server's rubric keeps changing: its scores would not compare")

    async def _ask(
        self, rows: Sequence[bytes], known: Description, seen: set[str]
    ) -> list[EvaluationReport]:
        try:
            answer = await self._sender.post("/v1/score", bodies(rows))
        except ServerRefused as error:
            if self.on_error == "raise" or not error.is_passing:
                raise
            return [known.failed(described(error))] * len(rows)
        seen.add(answer["rubric"])
        reports = [EvaluationReport.from_dict(item["report"]) for item in answer["items"]]
        if len(reports) != len(rows):
            raise ServerRefused(f"the server gave {len(reports)} reports on {len(rows)} rollouts")
        return reports

    def _refuse_alone(self) -> None:
        compares = run_sync(self.describe()).compares
        if compares:
            raise RubricError(f"check {compares[0]!r} scores a whole group: use score_group")

    def _get_reward_func_names(self) -> list[str]:
        return [line.name for line in run_sync(self.describe()).lines]

    def __repr__(self) -> str:
        return f"<RemoteRubric at {self.url}>"
