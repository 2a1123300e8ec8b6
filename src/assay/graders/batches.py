"""PerBatchGrader: a few criteria a call, anything between one and all."""

from typing import Any

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.graders.composite import Composite, scores_from
from assay.graders.degenerate import Degenerate
from assay.graders.length import LengthPenalty
from assay.graders.one_shot import PerCriterionOneShotGrader
from assay.graders.per_criterion import PerCriterionGrader
from assay.report import Score
from assay.types import OnError


class PerBatchGrader(Composite):
    """Asks about `size` criteria a call, the calls side by side. A call that fails fails its batch.

    With 1 it asks as `PerCriterionGrader` does, with None as `PerCriterionOneShotGrader`. In between
    a judge reads the response less often, and minds more than one thing at a time.

    >>> from assay import Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel(("MET", "MET"))
    >>> rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
    >>> rubric.grade_sync("a text", PerBatchGrader(model, size=2)).score, len(model.calls)
    (1.0, 2)
    """

    def __init__(
        self,
        generate_fn: Any = None,
        *,
        size: int | None,
        model: Any = None,
        system_prompt: str | None = None,
        normalize: bool = True,
        length_penalty: LengthPenalty | None = None,
        degenerate: Degenerate = "lowest",
    ) -> None:
        """`generate_fn` returns a `PerCriterionOutput` for a size of 1, else a `OneShotOutput`."""
        if size is not None and size < 1:
            raise ValueError(f"size is {size}: ask about at least 1 at a time, or None for all")
        kind = PerCriterionGrader if size == 1 else PerCriterionOneShotGrader
        grader = kind(generate_fn, model=model, system_prompt=system_prompt, degenerate=degenerate)
        super().__init__([grader], normalize=normalize, length_penalty=length_penalty)
        self.size = size

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion, from as many calls as there are batches."""

        async def asked(batch: list[Criterion]) -> list[Score]:
            return await scores_from(self.inner[0], to_grade, batch, query, on_error)

        if self.size is None or self.size == 1:
            return await asked(criteria)
        found = await side_by_side(asked, batches(criteria, self.size))
        return [score for scores in found for score in scores]


def batches(criteria: list[Criterion], size: int) -> list[list[Criterion]]:
    """The criteria in order, in as few batches of at most `size` as there can be, evenly filled.

    >>> [len(batch) for batch in batches([Criterion(requirement="Holds")] * 7, 3)]
    [3, 2, 2]
    """
    count = -(-len(criteria) // size)
    least, more = divmod(len(criteria), count) if count else (0, 0)
    cut: list[list[Criterion]] = []
    start = 0
    for number in range(count):
        end = start + least + (number < more)
        cut.append(criteria[start:end])
        start = end
    return cut
