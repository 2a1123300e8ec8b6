"""A rubric that may change during training. Each score carries the hash of its version."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from assay.criterion import Criterion
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.rubric import Rubric, RubricGroup
from assay.types import RewardFunc, ScoringMethod
from assay.wording import suggest_word


class VersionedRubric(RubricGroup):
    """A rubric whose criteria can be added, retired or reweighted between training steps.

    A call that is running when the rubric changes is finished with the version it began with. The
    names of retired criteria stay in the metrics, without values.

    >>> rubric = VersionedRubric(Rubric([lambda completion: "4" in completion], weights=[2.0]))
    >>> before = rubric.grade_sync("4")
    >>> version = rubric.update(weights={"check_1": 3.0})
    >>> before.raw_score, rubric.grade_sync("4").raw_score
    (2.0, 3.0)
    >>> rubric.versions == [before.version, version]
    True
    """

    def __init__(self, rubric: Rubric) -> None:
        # The hash of each version, in order.
        self.versions: list[str] = []
        # The names of the criteria of all versions, in order (a dict as an ordered set).
        self._names: dict[str, None] = {}
        super().__init__([rubric])
        self.update(rubric)

    @property
    def rubric(self) -> Rubric:
        """The current version."""
        return self.rubrics[0]

    def update(
        self,
        rubric: Rubric | None = None,
        *,
        add: Sequence[Any] = (),
        retire: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> str:
        """Make a new version and return its hash; the next call is scored with it.

        Give either a new rubric, or changes of the current one: `add` holds new criteria, `retire`
        names of criteria to remove, and `weights` new weights by the name of the criterion.
        """
        if rubric is not None and (add or retire or weights):
            raise RubricError("a rubric and changes were given: give either a rubric or changes")
        if rubric is None:
            rubric = self._change_criteria(add, retire, weights or {})
        self._version = rubric.content_hash
        self.rubrics = [rubric]
        self.on_error = rubric.on_error
        self.name = rubric.name
        self.grader = rubric.grader
        self.versions.append(self._version)
        for name in rubric.get_reward_func_names():
            self._names[name] = None
        return self._version

    def _change_criteria(
        self, add: Sequence[Any], retire: Sequence[str], weights: Mapping[str, float]
    ) -> Rubric:
        """Return a copy of the current rubric with some criteria changed.

        Raises `RubricError` for a subclass of `Rubric`, which may need other arguments.
        """
        current = self.rubric
        if type(current) is not Rubric:
            raise RubricError(
                f"the criteria of a {type(current).__name__} cannot be changed one by one: "
                "give update(rubric)"
            )
        names = [criterion.name for criterion in current.criteria]
        for name in (*retire, *weights):
            if name not in names:
                raise RubricError(
                    f"there is no criterion {name!r} to change: {suggest_word(name, names)}"
                )
        criteria: list[Any] = []
        for criterion in current.criteria:
            if criterion.name not in retire:
                weight = weights.get(criterion.name, criterion.weight)
                criteria.append(criterion.with_fields(weight=weight))
        return current.with_criteria([*criteria, *add])

    @property
    def version(self) -> str:
        """The hash of the current version."""
        return self._version

    content_hash = version  # pyright: ignore[reportIncompatibleMethodOverride]

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check, which makes a new version."""
        self.update(add=[Criterion.of(func, weight)])

    async def pinned(self) -> "VersionedRubric":
        """Return a copy that stays at the current version."""
        return copy(self)

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Score rollouts, and write the version they are scored with into each report."""
        version = self._version  # read now: the rubric may be updated while this call is scored
        reports = await super()._score_by_criteria(rollouts, grader, called_method)
        return [report.model_copy(update={"version": version}) for report in reports]

    def _get_reward_func_names(self) -> list[str]:
        """Return the names of the criteria of all versions, including retired ones."""
        return list(self._names)
