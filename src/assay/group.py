"""RubricGroup: rubrics whose reports are summed."""

from collections.abc import Sequence
from typing import Any, Self

from assay.criterion import Criterion
from assay.engine import Findings, Summed
from assay.errors import RubricError
from assay.graders.base import Autograder
from assay.loading import inner_options
from assay.loading.read import group_parts, is_group
from assay.loading.source import Place
from assay.loading.write import group_hash
from assay.redaction import logger_of
from assay.rollout import Batch
from assay.rubric import Rubric, refuse_ring
from assay.types import RewardFunc
from assay.wording import shown

logger = logger_of("assay")


class RubricGroup(Rubric):
    """Several rubrics as one: rewards are added, and metrics of one name too.

    Each child keeps its own parser, class objects, aggregation and grader.

    >>> group = RubricGroup([Rubric([lambda: 1.0]), Rubric([lambda: 0.5], weights=[0.8])])
    >>> group.score_rollout_sync()["reward"]
    1.4
    """

    def __init__(self, rubrics: Sequence[Rubric], **kwargs: Any) -> None:
        if not rubrics:
            raise RubricError("RubricGroup must have at least one rubric")
        for rubric in rubrics:
            if not isinstance(rubric, Rubric):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise RubricError(f"a RubricGroup takes rubrics, and this is {shown(rubric)}")
        super().__init__(**kwargs)
        if self._plan.questions:
            raise RubricError("a RubricGroup has no criteria of its own: put them in a Rubric")
        self.rubrics: list[Rubric] = list(rubrics)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria of every child, in order; equal names are summed in metrics."""
        return tuple(criterion for child in self._children() for criterion in child.criteria)

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check to the first rubric of the group."""
        self._warn_first("reward function")
        self.rubrics[0].add_reward_func(func, weight)

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Add a metric to the first rubric of the group."""
        self._warn_first("metric")
        self.rubrics[0].add_metric(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Let the checks of the first rubric name `obj`."""
        self._warn_first("class object")
        self.rubrics[0].add_class_object(name, obj)

    @classmethod
    def _read(cls, place: Place, allow_code: bool, options: dict[str, Any]) -> Self:
        """A group from a mapping with `rubrics`, a list in which each is a rubric or a group."""
        parts, given = group_parts(place)
        inner = inner_options(options)
        kinds = [RubricGroup if is_group(part) else Rubric for part in parts]
        rubrics = [
            kind._read(part, allow_code, inner) for kind, part in zip(kinds, parts, strict=True)
        ]
        return cls(rubrics, **given | options)

    def to_dict(self) -> dict[str, Any]:
        """The group as `from_dict` reads it back: its rubrics, each as it would write itself."""
        name = {"name": self.name} if self.name else {}
        return {**name, "rubrics": [child.to_dict() for child in self._children()]}

    @property
    def content_hash(self) -> str:
        """A SHA-256 of its name and its rubrics in order."""
        return group_hash(self.name, [child.content_hash for child in self._children()])

    def _warn_first(self, what: str) -> None:
        logger.warning("the %s goes to the first rubric of the group only", what)

    async def _find(self, batch: Batch, autograder: Autograder | None = None) -> Findings:
        # One after the other: a later rubric may read what an earlier one left in the state.
        return Summed.of([await self._ask(child, batch, autograder) for child in self._children()])

    async def _ask(self, child: Rubric, batch: Batch, given: Autograder | None) -> Findings:
        """A grader given for this call goes before the child's own, and that before the group's."""
        grader = given or child.autograder or self.autograder
        return await child._findings(batch, grader)  # pyright: ignore[reportPrivateUsage]

    def _refuse_alone(self) -> None:
        children = [child for child in self._children() if len(child) or child.own_methods]
        if not children:
            super()._refuse_alone()
        for child in children:
            child._refuse_alone()  # pyright: ignore[reportPrivateUsage]

    def _children(self) -> list[Rubric]:
        # Looked at each time, since `rubrics` is the caller's to change.
        refuse_ring(self, self.rubrics)
        return self.rubrics

    def _inside(self) -> Sequence[object]:
        return self.rubrics
