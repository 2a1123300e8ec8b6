"""Results: what an evaluation gave, by rollout and by column; Evaluation: results, awaited or not."""

import asyncio
import json
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import TracebackType
from typing import Any

from assay.concurrency import run_sync
from assay.errors import import_extra
from assay.runs import Summary
from assay.runs.export import Record, make_frame
from assay.types import State


class Results(Mapping[str, list[Any]]):
    """What came of every rollout: by column as a mapping (`prompt`, `reward`, every metric …), by rollout in `outputs`.

    A rollout that failed, or that a judge could not score, has the reward None and says why.
    """

    def __init__(
        self,
        outputs: Sequence[dict[str, Any]],
        states: Sequence[State],
        metadata: Mapping[str, Any],
        summary: Summary,
        records: Sequence[Record] = (),
    ) -> None:
        self.outputs = list(outputs)  # one dict a rollout
        self.states = list(
            states
        )  # what each rollout left behind; of one that was saved earlier, what was saved
        self.metadata = dict(metadata)
        """What was run, and what it came to: counts of errors first, then means over the rest."""
        self._summary = summary
        self._records = records

    def summary(self) -> Summary:
        """Return means with their errors, by criterion, task and tag, as `Run.summary()` does."""
        return self._summary

    def records(self) -> Iterator[Record]:
        """Yield every rollout as a flat mapping from column to value, as `Run.records()` does."""
        yield from self._records

    @cached_property
    def _columns(self) -> dict[str, list[Any] | None]:
        """One list a column, of equal length, once it was asked for."""
        return {**dict.fromkeys(chain.from_iterable(self.outputs)), "state": self.states}

    @property
    def columns(self) -> dict[str, list[Any]]:
        """One list a column, of equal length; None where a rollout has no such field."""
        return dict(self)

    def __getitem__(self, name: str) -> list[Any]:
        if name in ("outputs", "metadata"):
            return getattr(self, name)
        if name not in self._columns:
            raise KeyError(f"there is no column {name!r}: use {', '.join(self._columns)}")
        known = self._columns[name]
        if known is None:
            known = self._columns[name] = [output.get(name) for output in self.outputs]
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    # Two evaluations are not one because they came to the same; and asyncio keeps them in sets.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        about = self.metadata
        return (
            f"<{type(self).__name__} {about['num_rollouts']} rollouts, {about['num_errors']} failed, "
            f"{about['num_unscored']} unscored, mean reward {about['avg_reward']}>"
        )

    def to_dataset(self) -> Any:
        """Return a Hugging Face data set to train on, with the columns of `outputs`.

        Prompts and completions are messages. `info` and other mappings are JSON text.
        """
        datasets = import_extra("datasets", "a data set of results")

        # A mapping has other fields in every row, which a table does not: there it is a text.
        def cell(value: Any) -> Any:
            return json.dumps(value, default=str) if isinstance(value, Mapping) else value

        names = [name for name in self._columns if name != "state"]
        rows = [{name: cell(output.get(name)) for name in names} for output in self.outputs]
        return datasets.Dataset.from_list(rows)

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each rollout, as `Run.to_pandas` does."""
        return make_frame(self.records(), (), "pandas")


class Evaluation(Results, Coroutine[Any, Any, Results]):
    """Results that may still be on their way: where a loop runs, await them; read without that, they are worked out."""

    def __init__(self, work: Coroutine[Any, Any, Results]) -> None:
        self._work = work
        self._results: Results | None = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._results = run_sync(work)

    def _now(self) -> Results:
        if self._results is None:
            self._results = run_sync(self._work)
        return self._results

    def __getattr__(self, name: str) -> Any:
        # What a `Results` holds; everything else is found before this is asked.
        if name in ("outputs", "states", "metadata", "_summary", "_records"):
            return getattr(self._now(), name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __repr__(self) -> str:
        return "<Evaluation: await it>" if self._results is None else repr(self._results)

    def __bool__(self) -> bool:
        return True

    # The interface of a coroutine, so that asyncio.run, gather and create_task take it too.

    def __await__(self) -> Generator[Any, Any, Results]:
        if self._results is None:
            self._results = yield from self._work.__await__()
        return self._results

    def send(self, value: Any) -> Any:
        if self._results is not None:
            raise StopIteration(self._results)
        try:
            return self._work.send(value)
        except StopIteration as end:
            self._results = end.value
            raise

    def throw(
        self,
        kind: Any,
        error: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        return self._work.throw(kind) if error is None else self._work.throw(kind, error, traceback)

    def close(self) -> None:
        self._work.close()
