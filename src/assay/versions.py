"""A VersionedRubric may change while training runs: every call is scored by one version, whose hash each score carries."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from assay.engine import BatchResult, Traits
from assay.errors import RubricError
from assay.graders.autograder import Autograder
from assay.rollout import Batch
from assay.rubric import BaseRubric, Rubric
from assay.wording import did_you_mean


class VersionedRubric(BaseRubric):
    """A rubric whose criteria are added, retired or weighted anew between steps, as by a callback of the trainer.

    What is under way when it changes is finished by the version it began with. Names of retired criteria stay, without values.

    >>> rubric = VersionedRubric(Rubric([lambda completion: "4" in completion], weights=[2.0]))
    >>> before = rubric.grade_sync("4")
    >>> version = rubric.update(weights={"check_1": 3.0})
    >>> after = rubric.grade_sync("4")
    >>> before.raw_score, after.raw_score, before.version == rubric.versions[0], after.version == version
    (2.0, 3.0, True, True)
    """

    def __init__(self, rubric: Rubric) -> None:
        self.versions: list[str] = []  # the hash of each, in order
        self._names: dict[str, None] = {}
        self.update(rubric)

    def update(
        self,
        rubric: Rubric | None = None,
        *,
        add: Sequence[Any] = (),
        retire: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> str:
        """Score by this rubric from the next call on, or by the one there is with these changes; returns its hash."""
        if rubric is None:
            old, changed = self.rubric, dict(weights or {})
            if type(old) is not Rubric:
                raise RubricError(
                    f"the criteria of a {type(old).__name__} cannot be changed one by one: give update(rubric)"
                )
            known = [criterion.name for criterion in old.criteria]
            for name in (*retire, *changed):
                if name not in known:
                    raise RubricError(f"there is no criterion {name!r} to change: {did_you_mean(name, known)}")
            kept = [
                c.with_fields(weight=changed.get(c.name, c.weight)) for c in old.criteria if c.name not in {*retire}
            ]
            rubric = Rubric(
                [*kept, *add], parser=old.parser, autograder=old.autograder, aggregation=old.aggregation,
                on_error=old.on_error, name=old.name, shows=old.shows, shaping=old.shaping,
            )  # fmt: skip
        elif add or retire or weights:
            raise RubricError("a whole rubric and changes were given: give one of the two")
        self.rubric, self._version, self.on_error = rubric, rubric.content_hash, rubric.on_error
        self.versions.append(self._version)
        self._names |= dict.fromkeys(rubric.get_reward_func_names())
        return self._version

    async def pinned(self) -> "VersionedRubric":
        return copy(self)

    async def _ask_criteria(self, batch: Batch, autograder: Autograder | None = None) -> BatchResult:
        version = self._version  # another one may be there when the scores are
        result = await self.rubric.score_batch(batch, autograder)
        return BatchResult(list(result), is_shaped=result.is_shaped, version=version)

    def _refuse_alone(self) -> None:
        self.rubric._refuse_alone()  # pyright: ignore[reportPrivateUsage]

    def _get_reward_func_names(self) -> list[str]:
        return list(self._names)

    @property
    def version(self) -> str:
        """The hash of the rubric that scores now."""
        return self._version

    content_hash = version

    @property
    def autograder(self) -> Autograder | None:
        return self.rubric.autograder

    @property
    def traits(self) -> Traits:
        return self.rubric.traits

    @property
    def compares(self) -> bool:
        return self.rubric.compares

    @property
    def counted_weights(self) -> dict[str, float]:
        return self.rubric.counted_weights

    def __repr__(self) -> str:
        return f"<VersionedRubric {len(self.versions)} {self.rubric!r}>"
