"""Rubric: weighted criteria, a parser to read with and a grader to ask. Rollouts in, reports out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from assay.aggregation import aggregation_of
from assay.criterion import Criterion, Scorer
from assay.doors import Doors
from assay.engine import Engine, Found, Plan, bound_to, named_apart
from assay.errors import RubricError
from assay.graders.base import Autograder
from assay.loading import Loadable, criterion_of
from assay.messages import read_completion
from assay.parsers import Parser
from assay.rollout import Batch
from assay.types import OnError, RewardFunc
from assay.wording import shown


class Rubric(Doors, Loadable):
    """Weighted criteria whose answers add up. The same rubric evaluates, rewards and filters.

    The first argument holds functions, `Criterion`s, mappings or whole rubrics, in any mix.

    >>> def exact(completion, answer):
    ...     return completion == answer
    >>> rubric = Rubric([exact, lambda completion: len(completion) < 10], weights=[0.8, 0.2])
    >>> rubric.score_rollout_sync(prompt="2+2?", completion="4", answer="4")
    {'exact': 1.0, 'check_2': 1.0, 'reward': 1.0}
    """

    def __init__(
        self,
        funcs: Sequence[RewardFunc | Criterion | Mapping[str, Any] | Scorer] | None = None,
        weights: Sequence[float | None] | None = None,
        parser: Parser | None = None,
        *,
        autograder: Autograder | None = None,
        aggregation: Any = "weighted",
        on_error: OnError = "record",
        name: str = "",
    ) -> None:
        """`on_error="raise"` re-raises what a check or judge raises, instead of recording it.

        `aggregation` is `weighted`, `mean`, `sum`, `tree`, `healthbench`, `all_pass`, `any_pass`
        or a function from the answered report lines to a number.
        """
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        self.name = name
        self._stand_in = self._default_parser()
        self.class_objects: dict[str, Any] = {
            "parser": parser if parser is not None else self._stand_in
        }
        self.autograder = autograder
        self.on_error: OnError = on_error
        self.aggregation = aggregation_of(aggregation)
        criteria = self._bound(_weighed(_listed(funcs), weights))
        self._plan = Plan.of(named_apart(criteria), self.aggregation)

    @property
    def parser(self) -> Parser:
        """What checks read with: the class object of that name."""
        return self.class_objects["parser"]

    @parser.setter
    def parser(self, parser: Parser) -> None:
        self.class_objects["parser"] = parser

    def inherit_parser(self, parser: Parser) -> None:
        """Read with this parser if none was given: an environment hands its own down.

        The rubrics inside inherit too, from the nearest one around them that was given a parser.
        """
        if self.parser is self._stand_in:
            self._stand_in = self.parser = parser
        for inner in self._inside():
            if isinstance(inner, Rubric):
                inner.inherit_parser(self.parser)

    def _default_parser(self) -> Parser:
        """What is read with when nobody gives a parser."""
        return Parser()

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Every criterion, in order, under the name it is reported by."""
        return tuple(self._plan.criteria)

    @property
    def funcs(self) -> list[Any]:
        """The functions of the criteria that code answers, in order; a copy."""
        return [c.check for c in self.criteria if not c.judged]

    @property
    def weights(self) -> list[float]:
        """The weight of each of `funcs`; a copy."""
        return [c.weight for c in self.criteria if not c.judged]

    @property
    def compares(self) -> bool:
        return (
            "score_group" in self._own_methods()
            or any(question.is_group for question in self._plan.questions)
            or any(isinstance(inner, Rubric) and inner.compares for inner in self._inside())
        )

    @property
    def own_methods(self) -> frozenset[str]:
        inside = (inner.own_methods for inner in self._inside() if isinstance(inner, Rubric))
        return self._own_methods().union(*inside)

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check at the end, with this weight."""
        added = named_apart(self._bound(_weighed([func], [weight])), self._plan.names)
        refuse_ring(self, [criterion.check for criterion in added])
        criteria = (*self._plan.criteria, *added)
        self._plan = Plan.of(criteria, self.aggregation, known=self._plan)

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Add a check that is reported and, with weight 0, never counted."""
        self.add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Let checks name `obj` as an argument; it goes before a field of the same name."""
        self.class_objects[name] = obj

    def as_criterion(self, weight: float = 1.0, name: str = "") -> Criterion:
        """This rubric as one line of another, worth its normalised score."""
        return Criterion(check=self, weight=weight, name=name or self.name or "rubric")

    def __len__(self) -> int:
        return len(self.criteria)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        names = ", ".join(f"{c.name} {c.weight:+g}" for c in self.criteria[:8])
        more = f", … {len(self) - 8} more" if len(self) > 8 else ""
        title = f" {self.name}" if self.name else ""
        return f"<{type(self).__name__}{title} [{names}{more}]>"

    def _find(self, batch: Batch, autograder: Autograder | None = None) -> Found:
        grader = autograder if autograder is not None else self.autograder
        read = self._read_completion
        return Engine(self._plan, self.class_objects, grader, self.on_error, read).answer(batch)

    def _read_completion(self, completion: object) -> Any:
        """The completion as its criteria read it; a TypeError says why it cannot be read."""
        return read_completion(completion)

    def _refuse_alone(self) -> None:
        if self._own_methods() & {"score_rollout", "score"}:
            return
        if not self._plan.questions:
            raise RubricError(
                "this rubric has no criteria, so there is nothing to score: add_reward_func(...)"
            )
        for question in self._plan.questions:
            if question.is_group:
                raise RubricError(
                    f"check {question.criterion.name!r} scores a whole group: use score_group"
                )

    def _bound(self, criteria: Sequence[Criterion]) -> list[Criterion]:
        """The criteria, with methods of this very class bound to this rubric."""
        bound: list[Criterion] = []
        for criterion in criteria:
            check = bound_to(self, criterion.check)
            same = check is criterion.check
            bound.append(criterion if same else criterion.with_fields(check=check))
        return bound

    def _inside(self) -> Sequence[object]:
        """The rubrics that this one asks."""
        return self._plan.scorers

    # The names of the systems it grew from.

    def _get_reward_func_names(self) -> list[str]:
        return [criterion.name for criterion in self.criteria]

    def _get_reward_funcs(self) -> list[Any]:
        return self.funcs

    def _get_reward_weights(self) -> list[float]:
        return self.weights

    def get_reward_funcs(self) -> list[Any]:
        """The same as `funcs`."""
        return self._get_reward_funcs()

    def get_reward_weights(self) -> list[float]:
        """The same as `weights`."""
        return self._get_reward_weights()

    @property
    def reward_funcs(self) -> list[Any]:
        """The same as `funcs`."""
        return self._get_reward_funcs()

    @property
    def reward_weights(self) -> list[float]:
        """The same as `weights`."""
        return self._get_reward_weights()


def _listed(funcs: Any) -> list[Any]:
    if funcs is None:
        return []
    if isinstance(funcs, (str, bytes, Mapping, Criterion)) or not hasattr(funcs, "__iter__"):
        raise RubricError(
            f"a rubric takes a list of criteria, and this is {shown(cast('object', funcs))}: put it in brackets"
        )
    return list(funcs)


def _weighed(questions: list[Any], weights: Iterable[float | None] | None) -> list[Criterion]:
    if weights is not None and not hasattr(weights, "__iter__"):
        raise RubricError(f"weights is {shown(weights)}: give a list, one a function")
    given = [] if weights is None else list(weights)
    given = given or [None] * len(questions)
    if len(given) != len(questions):
        raise RubricError(
            f"Number of weights ({len(given)}) must match number of functions ({len(questions)})"
        )
    pairs = enumerate(zip(questions, given, strict=True))
    return [Criterion.of(_read(index, question), weight) for index, (question, weight) in pairs]


def _read(index: int, question: Any) -> Any:
    """A mapping as a rubric file would have it; anything else as it is."""
    if not isinstance(question, Mapping):
        return question
    return criterion_of(cast("Mapping[str, Any]", question), index, Rubric)


def refuse_ring(rubric: Rubric, inside: Sequence[object], above: tuple[int, ...] = ()) -> None:
    """Raise when a rubric is somewhere inside itself, since it could never be scored."""
    above = (*above, id(rubric))
    for inner in inside:
        if id(inner) in above:
            raise RubricError(
                "a rubric cannot be inside itself: take it out of its own criteria or .rubrics"
            )
        if isinstance(inner, Rubric):
            refuse_ring(inner, inner._inside(), above)  # pyright: ignore[reportPrivateUsage]
