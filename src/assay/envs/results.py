"""Results: the rollouts of an evaluation, by row and by column. Evaluation: results that may be awaited."""

import asyncio
import json
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any

from assay.concurrency import run_sync
from assay.errors import import_extra
from assay.runs import Summary
from assay.runs.export import Record, make_frame
from assay.types import State


class Results(Mapping[str, list[Any]]):
    """The rollouts of an evaluation, as a mapping from column to values and as a list in `outputs`.

    Columns are `prompt`, `reward`, every metric and so on. A rollout that failed, or that a judge
    could not score, has the reward None and an error.
    """

    def __init__(
        self,
        outputs: Sequence[dict[str, Any]],
        states: Sequence[State],
        metadata: Mapping[str, Any],
        summary: Summary,
        records: Sequence[Record] = (),
    ) -> None:
        """`records` are the rollouts as flat mappings, in the layout of exports."""
        self.outputs = list(outputs)  # one mapping per rollout
        # The state of each rollout; what was saved of it, if an earlier session generated it.
        self.states = list(states)
        # What was run, how many rollouts failed, and the means over the others.
        self.metadata = dict(metadata)
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
        """The values of each column; None for a column that was not read yet."""
        columns: dict[str, list[Any] | None] = {}
        for output in self.outputs:
            columns |= dict.fromkeys(output)
        columns["state"] = self.states
        return columns

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, one per rollout; None for a rollout without the field."""
        return dict(self)

    def __getitem__(self, name: str) -> list[Any]:
        """Return the values of a column, one per rollout; None for a rollout without the field."""
        if name in ("outputs", "metadata"):  # as in the results of verifiers, which are mappings
            return getattr(self, name)
        if name not in self._columns:
            raise KeyError(f"there is no column {name!r}: use {', '.join(self._columns)}")
        values = self._columns[name]
        if values is None:  # the column was not read yet
            values = [output.get(name) for output in self.outputs]
            self._columns[name] = values
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    # Compared by identity, since asyncio puts evaluations into sets.

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

        names = [name for name in self._columns if name != "state"]
        rows: list[dict[str, Any]] = []
        for output in self.outputs:
            row = {name: output.get(name) for name in names}
            for name, value in row.items():
                # Mappings of different rows have different fields, which a table cannot have.
                if isinstance(value, Mapping):
                    row[name] = json.dumps(value, default=str)
            rows.append(row)
        return datasets.Dataset.from_list(rows)

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each rollout, as `Run.to_pandas` does."""
        return make_frame(self.records(), (), "pandas")


class Evaluation(Results, Coroutine[Any, Any, Results]):
    """Results that are awaited inside an event loop. Elsewhere the constructor waits for them.

    If they are read before they were awaited, the evaluation runs in another thread.
    """

    def __init__(self, work: Coroutine[Any, Any, Results]) -> None:
        self._work = work
        self._results: Results | None = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._results = run_sync(work)

    def _wait(self) -> Results:
        """Return the results, and run the evaluation first if it has not been run."""
        if self._results is None:
            self._results = run_sync(self._work)
        return self._results

    def __getattr__(self, name: str) -> Any:
        # The attributes of a `Results`, which this object does not have itself.
        if name in ("outputs", "states", "metadata", "_summary", "_records"):
            return getattr(self._wait(), name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __repr__(self) -> str:
        return "<Evaluation: await it>" if self._results is None else repr(self._results)

    def __bool__(self) -> bool:
        return True

    # The methods of a coroutine, so that asyncio.run, gather and create_task accept it.

    def __await__(self) -> Generator[Any, Any, Results]:
        if self._results is None:
            self._results = yield from self._work.__await__()
        return self._results

    def send(self, value: Any) -> Any:
        """Continue the evaluation; a `StopIteration` holds its results at the end."""
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
        """Raise an error inside the evaluation, as asyncio does to cancel it."""
        if error is None:
            return self._work.throw(kind)
        return self._work.throw(kind, error, traceback)

    def close(self) -> None:
        self._work.close()
