"""RubricStage: a rubric as a stage of a Ray Data pipeline, for those who hold their data there."""

from collections.abc import Mapping
from typing import Any

from assay.concurrency import run_sync


class RubricStage:
    """For `dataset.map_batches(RubricStage, fn_constructor_args=(make,), ...)`: adds columns to a batch.

    `make` is a function of a module that gives the rubric, called once in every actor. The columns are
    `reward` and `score`, which are null where a row is unscored, and `errors`, as text. Give the actors
    fewer processors than the cluster has, or reading starves: `num_cpus=0.5` will do.
    """

    def __init__(self, make: Any) -> None:
        self.rubric = make()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        names = list(batch)
        rows = [
            dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)
        ]
        reports = run_sync(self.rubric.score(rows))
        return {
            **batch,
            "reward": [report.raw_score if report.scored else None for report in reports],
            "score": [report.score if report.scored else None for report in reports],
            "errors": ["; ".join(report.errors.values()) for report in reports],
        }
