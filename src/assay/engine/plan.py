"""Plan: the criteria of a rubric made ready, so that what can fail at construction fails there."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from types import FunctionType
from typing import Any

from assay.aggregation import Aggregation, stakes
from assay.call import Call
from assay.criterion import Criterion, Scorer, is_scorer
from assay.engine.isolated import isolated
from assay.errors import RubricError


@dataclass(frozen=True, slots=True)
class Question:
    """One criterion in its place, with its check ready to call."""

    index: int
    criterion: Criterion
    call: Call | None
    """None when a model or a nested rubric answers."""

    @property
    def reads_completion(self) -> bool:
        """Whether it needs a completion that can be read. A rubric inside sees to that by itself."""
        if self.criterion.judged or self.call is None:
            return self.criterion.judged
        return self.call.everything or any(a.field == "completion" for a in self.call.arguments)

    @property
    def is_group(self) -> bool:
        """Whether it weighs the rollouts of a group against each other."""
        return self.call is not None and self.call.compares


@dataclass(frozen=True, slots=True)
class Phase:
    """Questions that can be asked at the same time."""

    by_code: tuple[Question, ...]
    judged: tuple[Question, ...]
    runs: tuple[tuple[Question, ...], ...]
    """Those for code, cut wherever the whole batch must be done before going on."""
    criteria: list[Criterion]
    """Those for a model, as a grader is given them."""

    @classmethod
    def of(cls, questions: Sequence[Question]) -> "Phase":
        by_code = tuple(question for question in questions if not question.criterion.judged)
        judged = tuple(question for question in questions if question.criterion.judged)
        return cls(by_code, judged, runs_of(by_code), [q.criterion for q in judged])


def runs_of(questions: Sequence[Question]) -> tuple[tuple[Question, ...], ...]:
    """Questions in order, cut before and after each that needs the whole batch."""
    runs: list[list[Question]] = []
    together = False
    for question in questions:
        single = question.call is not None and not question.call.is_group
        if single and together:
            runs[-1].append(question)
        else:
            runs.append([question])
        together = single
    return tuple(tuple(run) for run in runs)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every question of a rubric, in the phases they are asked in."""

    questions: tuple[Question, ...]
    phases: tuple[Phase, ...]
    """A question with a `when` stands in a phase after the ones it depends on."""
    aggregation: Aggregation
    criteria: tuple[Criterion, ...]
    names: tuple[str, ...]
    plain: bool
    """Whether full answers are a plain weighted sum: no veto, condition or line left out."""
    stakes: tuple[float, float]
    """What the counted weights could gain and lose, all answered."""
    weights: tuple[float, ...]
    weighted: tuple[int, ...]
    """Where the criteria with a weight other than 0 stand."""
    counted: int
    """How many criteria count."""
    judged: bool
    """Whether a model answers any."""
    by_code: bool
    """Whether code answers any."""

    @classmethod
    def of(
        cls, criteria: Sequence[Criterion], aggregation: Aggregation, known: "Plan | None" = None
    ) -> "Plan":
        """The plan for these criteria; those that open the `known` plan are not read again."""
        ready = known.questions if known is not None else ()
        rest = enumerate(criteria[len(ready) :], start=len(ready))
        questions = (*ready, *(_question(index, criterion) for index, criterion in rest))
        if aggregation.name == "tree":
            _refuse_negative(criteria)
        special = any(c.required or c.report_only or c.when for c in criteria)
        return cls(
            questions=questions,
            phases=_phases(questions),
            aggregation=aggregation,
            criteria=tuple(criteria),
            names=tuple(criterion.name for criterion in criteria),
            plain=aggregation.sums and not special,
            weights=tuple(criterion.weight for criterion in criteria),
            weighted=tuple(q.index for q in questions if q.criterion.weight),
            stakes=stakes([criterion.weight for criterion in criteria]),
            counted=sum(criterion.counts for criterion in criteria),
            judged=any(criterion.judged for criterion in criteria),
            by_code=not all(criterion.judged for criterion in criteria),
        )

    def index_of(self, name: str) -> int:
        return self.names.index(name)

    @property
    def scorers(self) -> list[Scorer]:
        """The rubrics inside."""
        return [q.criterion.check for q in self.questions if is_scorer(q.criterion.check)]


def _question(index: int, criterion: Criterion) -> Question:
    check: Any = criterion.check
    if check is None or is_scorer(check):
        return Question(index, criterion, None)
    call = Call(check, criterion.name)
    if call.compares and criterion.when:
        raise RubricError(
            f"criterion {criterion.name!r} scores a whole group and has a `when`, which holds for "
            "single rollouts: drop one of the two"
        )
    return Question(index, criterion, isolated(call, criterion) if criterion.isolate else call)


def _phases(questions: Sequence[Question]) -> tuple[Phase, ...]:
    if not any(question.criterion.when for question in questions):
        return (Phase.of(questions),) if questions else ()
    depths = _depths({question.criterion.name: question.criterion for question in questions})
    deepest = max(depths.values())
    return tuple(
        Phase.of([q for q in questions if depths[q.criterion.name] == depth])
        for depth in range(deepest + 1)
    )


def _depths(criteria: Mapping[str, Criterion]) -> dict[str, int]:
    """How many criteria must be known before each one; refuses unknown names and rings."""
    depths = {name: 0 for name, criterion in criteria.items() if not criterion.when}
    waiting = [criterion for criterion in criteria.values() if criterion.when]
    for criterion in waiting:
        _refuse_bad_conditions(criterion, criteria)
    while waiting:
        ready = [c for c in waiting if all(w.criterion in depths for w in c.when)]
        if not ready:
            names = ", ".join(repr(criterion.name) for criterion in waiting)
            raise RubricError(f"the `when` of {names} wait for each other: break the ring")
        for criterion in ready:
            depths[criterion.name] = 1 + max(depths[w.criterion] for w in criterion.when)
        waiting = [criterion for criterion in waiting if criterion.name not in depths]
    return depths


def _refuse_bad_conditions(criterion: Criterion, criteria: Mapping[str, Criterion]) -> None:
    for other, verdicts in criterion.when:
        if other not in criteria:
            raise RubricError(
                f"criterion {criterion.name!r} is asked when {other!r} holds, and there is no such "
                f"criterion: name one of {', '.join(criteria)}"
            )
        offered = (*criteria[other].choices, "N/A")
        for verdict in verdicts:
            if verdict not in offered:
                raise RubricError(
                    f"criterion {criterion.name!r} is asked when {other!r} is {verdict!r}, which "
                    f"can never be: it offers {', '.join(offered)}"
                )


def _refuse_negative(criteria: Sequence[Criterion]) -> None:
    for criterion in criteria:
        if criterion.weight < 0:
            raise RubricError(
                f"criterion {criterion.name!r} has weight {criterion.weight}, and a tree takes none "
                "below 0: state the requirement positively, or use another aggregation"
            )


def named_apart(criteria: Sequence[Criterion], taken: Collection[str] = ()) -> list[Criterion]:
    """The criteria with a name each and no name twice: `length`, `length_2`; a lambda is `check_1`."""
    used = set(taken)
    seen: Counter[str] = Counter()
    named: list[Criterion] = []
    for place, criterion in enumerate(criteria, start=len(used) + 1):
        base = criterion.name or f"{'criterion' if criterion.judged else 'check'}_{place}"
        name = base
        while name in used:
            seen[base] += 1
            name = f"{base}_{seen[base] + 1}"
        used.add(name)
        named.append(criterion if name == criterion.name else criterion.with_fields(name=name))
    return named


def bound_to(owner: object, check: Any) -> Any:
    """A check that is a method of the owner's class, bound to the owner; any other as it is."""
    if not isinstance(check, FunctionType):
        return check
    for cls in type(owner).__mro__[:-1]:
        static: Callable[..., Any] | None = getattr_static(cls, check.__name__, None)
        if static is check:
            return check.__get__(owner)
    return check
