"""RubricStage: a rubric as a stage of a Ray Data pipeline, for those who hold their data there."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from assay.backends.job import Make, Permits
from assay.backends.shared import sharing
from assay.concurrency import run_sync
from assay.report import EvaluationReport


class RubricStage:
    """For `dataset.map_batches(RubricStage, fn_constructor_args=(make,), batch_format="pyarrow", …)`.

    It adds the columns `reward` and `score`, which are null where a row is unscored, and `errors`, as
    text. `make` gives the rubric and its grader, and is called once in every actor. Give the actors less
    than the processors of the cluster, or there is none left to read with: `num_cpus=0.5` will do.
    """

    def __init__(self, make: Make, permits: str | None = None) -> None:
        """`permits` is the address of a `PermitServer`, where limits are to hold for all actors together."""
        self._rubric, grader = make()
        self._options = {} if grader is None else {"autograder": grader}
        self._permits = None if permits is None else Permits(permits)

    def __call__(self, batch: Any) -> Any:
        """The batch with its columns: a table of Arrow, or a mapping of arrays as Ray gives unless told."""
        if isinstance(batch, Mapping):
            arrays = cast("Mapping[str, Any]", batch)
            columns = [(name, array.tolist()) for name, array in arrays.items()]
            rows = [
                dict(zip(arrays, values, strict=True))
                for values in zip(*(values for _, values in columns), strict=True)
            ]
            return {**arrays, **self._found(rows)}
        arrow = import_module("pyarrow")
        types = {"reward": arrow.float64(), "score": arrow.float64(), "errors": arrow.string()}
        for name, values in self._found(batch.to_pylist()).items():
            # With its type, or a batch in which all is null would have a column of another one.
            column = arrow.array(values, types[name])
            place = batch.schema.get_field_index(name)
            batch = batch.append_column(name, column) if place < 0 else batch.set_column(place, name, column)
        return batch

    def _found(self, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        reports = run_sync(self._score(rows))
        return {
            "reward": [report.raw_score for report in reports],
            "score": [report.score for report in reports],
            "errors": ["; ".join((report.errors | report.why_unscored).values()) for report in reports],
        }

    async def _score(self, rows: list[dict[str, Any]]) -> list[EvaluationReport]:
        async with sharing(self._permits):
            return await self._rubric.score(rows, **self._options)
