"""A VersionedRubric may change while training runs: every call is scored by one version, whose hash each score carries."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from assay.criterion import Criterion
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.overrides import ScoringMethod
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.rubric import Rubric, RubricGroup
from assay.types import RewardFunc
from assay.wording import did_you_mean


class VersionedRubric(RubricGroup):
    """A rubric whose criteria are added, retired or weighted anew between steps, as by a callback of the trainer.

    What is under way when it changes is finished by the version it began with. Names of retired criteria stay, without values.

    >>> rubric = VersionedRubric(Rubric([lambda completion: "4" in completion], weights=[2.0]))
    >>> before = rubric.grade_sync("4")
    >>> version = rubric.update(weights={"check_1": 3.0})
    >>> before.raw_score, rubric.grade_sync("4").raw_score, rubric.versions == [before.version, version]
    (2.0, 3.0, True)
    """

    def __init__(self, rubric: Rubric) -> None:
        self.versions: list[str] = []  # the hash of each, in order
        self._names: dict[str, None] = {}
        super().__init__([rubric])
        self.update(rubric)

    @property
    def rubric(self) -> Rubric:
        """The version that scores now."""
        return self.rubrics[0]

    def update(
        self,
        rubric: Rubric | None = None,
        *,
        add: Sequence[Any] = (),
        retire: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> str:
        """Score by this rubric from the next call on, or by the one there is with these changes; returns its hash."""
        if rubric is not None and (add or retire or weights):
            raise RubricError("a whole rubric and changes were given: give one of the two")
        rubric = self._changed(add, retire, weights or {}) if rubric is None else rubric
        self._version, self.rubrics, self.on_error = rubric.content_hash, [rubric], rubric.on_error
        self.name, self.autograder = rubric.name, rubric.autograder
        self.versions.append(self._version)
        self._names |= dict.fromkeys(rubric.get_reward_func_names())
        return self._version

    def _changed(
        self, add: Sequence[Any], retire: Sequence[str], weights: Mapping[str, float]
    ) -> Rubric:
        old = self.rubric
        if type(old) is not Rubric:
            said = f"the criteria of a {type(old).__name__} cannot be changed one by one"
            raise RubricError(f"{said}: give update(rubric)")
        known = [criterion.name for criterion in old.criteria]
        for name in (*retire, *weights):
            if name not in known:
                raise RubricError(
                    f"there is no criterion {name!r} to change: {did_you_mean(name, known)}"
                )
        kept = [
            c.with_fields(weight=weights.get(c.name, c.weight))
            for c in old.criteria
            if c.name not in {*retire}
        ]
        return Rubric(
            [*kept, *add],
            parser=old.parser,
            autograder=old.autograder,
            aggregation=old.aggregation,
            on_error=old.on_error,
            name=old.name,
            shows=old.shows,
            shaping=old.shaping,
        )

    @property
    def version(self) -> str:
        return self._version

    content_hash = version  # pyright: ignore[reportIncompatibleMethodOverride]

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check, which makes another version."""
        self.update(add=[Criterion.of(func, weight)])

    async def pinned(self) -> "VersionedRubric":
        return copy(self)

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        autograder: Grader | None,
        called: ScoringMethod,
    ) -> list[EvaluationReport]:
        version = self._version  # the rubric may be updated while this call is scored
        reports = await super()._score_by_criteria(rollouts, autograder, called)
        return [report.model_copy(update={"version": version}) for report in reports]

    def _get_reward_func_names(self) -> list[str]:
        return list(self._names)
