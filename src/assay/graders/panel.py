"""Panel: several judges, or several answers of one, made into one answer a criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.graders.base import Autograder
from assay.graders.composite import Composite, gives_whole, named, scores_from
from assay.graders.length import LengthPenalty
from assay.graders.manner import Manner
from assay.graders.scoring import refuse_errors
from assay.graders.votes import RULES, Rule, Vote, outcome
from assay.graders.wholes import whole_from, whole_report
from assay.report import EvaluationReport, Score
from assay.types import OnError
from assay.wording import did_you_mean

Item = TypeVar("Item")


class Panel(Composite):
    """Asks every judge about every criterion, side by side, and lets them vote.

    The line of a criterion says what came of it and how far apart the judges were
    (`disagreement`); its own `lines` say who voted how. A judge that fails is not counted.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judges = [PerCriterionGrader(FakeModel(said)) for said in ("MET", "MET", "UNMET")]
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> [line] = rubric.grade_sync("Thank you.", Panel(judges)).report
    >>> line.verdict, line.reason, round(line.disagreement, 2)
    ('MET', '2 of 3 judges: because the rule says so', 0.67)
    """

    takes_wholes = True
    noun: ClassVar[str] = "judges"
    """What those who vote are called."""

    def __init__(
        self,
        judges: Sequence[Autograder] | Mapping[str, Autograder],
        *,
        rule: Rule = "majority",
        weights: Sequence[float] | None = None,
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`judges` may be given by name; `weights`, one a judge, count in a majority and a mean.

        A tie goes to the answer that leaves the lowest score, and `worst` always does. With fewer
        than `quorum` answers a criterion has none.
        """
        by_name = named(judges)
        super().__init__(list(by_name.values()), normalize=normalize, length_penalty=length_penalty)
        if rule not in RULES:
            raise ValueError(f"rule is {rule!r}: {did_you_mean(rule, RULES)}")
        if not 1 <= quorum <= len(by_name):
            raise ValueError(
                f"quorum is {quorum}: give 1 to {len(by_name)}, the {self.noun} there are"
            )
        self._refuse_mixture()
        if self.judges_whole and rule == "majority":
            raise ValueError("numbers have no majority: give rule='mean' or rule='worst'")
        self.names = tuple(by_name)
        self.rule: Rule = rule
        self.weights = _weights(weights, len(by_name))
        self.quorum = quorum

    def _refuse_mixture(self) -> None:
        wholes = [grader.title for grader in self.inner if gives_whole(grader)]
        if wholes and len(wholes) < len(self.inner):
            raise ValueError(
                f"{wholes[0]} gives one number for all criteria, and others here an answer to each: "
                "let those vote that give the same"
            )

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        """One score a criterion, or one report for the whole; fails when too few have answered."""
        if self.judges_whole:
            return await self._whole(to_grade, criteria, query)

        async def asked(place: int) -> list[Score]:
            listed = self._listed(place, criteria)
            scores = await scores_from(self.inner[place], to_grade, listed, query)
            return self._listed(place, scores)

        answers = await side_by_side(asked, range(len(self.inner)))
        scores = [
            self._outcome(criterion, [scores[place] for scores in answers])
            for place, criterion in enumerate(criteria)
        ]
        if on_error == "raise":
            refuse_errors(criteria, scores)
        return scores

    def _listed(self, place: int, items: list[Item]) -> list[Item]:
        """Things in the order in which the grader at this place is given them, or back again."""
        return items

    async def _whole(
        self, to_grade: str, criteria: list[Criterion], query: str | None
    ) -> EvaluationReport:
        async def asked(place: int) -> Score:
            listed = self._listed(place, criteria)
            return await whole_from(self.inner[place], to_grade, listed, query)

        scores = await side_by_side(asked, range(len(self.inner)))
        votes = list(map(Vote, self.names, scores, self.weights))
        options: dict[str, Any] = {"quorum": self.quorum, "noun": self.noun, "scale": self.scale}
        return whole_report(criteria, votes, self.rule, **options)

    def _outcome(self, criterion: Criterion, scores: Sequence[Score]) -> Score:
        votes = list(map(Vote, self.names, scores, self.weights))
        return outcome(criterion, votes, self.rule, quorum=self.quorum, noun=self.noun)


class Samples(Panel):
    """Asks one judge several times, and lets its answers vote.

    Each sample has a number of its own, so a cache keeps all of them. A judge of your own is
    asked again and again as it is.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judge = PerCriterionGrader(FakeModel(["MET", "UNMET", "MET", "MET"]))
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> rubric.grade_sync("Thank you.", Samples(judge, 4, rule="mean")).score
    0.75
    """

    noun = "samples"

    def __init__(
        self,
        grader: Autograder,
        count: int = 3,
        *,
        rule: Rule = "majority",
        temperature: float | None = 1.0,
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`temperature` is what a model is asked with: at 0 all samples would be one."""
        if count < 1:
            raise ValueError(f"count is {count}: ask at least once")
        self._refuse(grader)

        def sample(number: int) -> Autograder:
            def change(manner: Manner) -> Manner:
                # Samples of samples have numbers of their own too.
                own = manner.sample * count + number
                return replace(manner, sample=own, temperature=temperature)

            return grader.asking(change)

        super().__init__(
            {f"sample {number + 1}": sample(number) for number in range(count)},
            rule=rule,
            quorum=quorum,
            normalize=normalize,
            length_penalty=length_penalty,
        )


class Swapped(Panel):
    """Asks a judge twice: the second time with criteria and choices in the opposite order.

    A judge that prefers what comes first contradicts itself then, which `disagreement` shows.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> judge = PerCriterionGrader(FakeModel(["MET", "UNMET"]))
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> report = rubric.grade_sync("Thank you.", Swapped(judge))
    >>> report.score, report.disagreements
    (0.5, {'is_polite': 1.0})
    """

    noun = "orders"

    def __init__(
        self,
        grader: Autograder,
        *,
        rule: Rule = "mean",
        quorum: int = 1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """With `quorum=2` a criterion has no answer when one of the orders has none."""
        self._refuse(grader)
        turned = grader.asking(lambda manner: replace(manner, reverse=not manner.reverse))
        if turned is grader:
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so its choices cannot be turned "
                "round: use a grader that asks a model through `model=` or `generate_fn=`"
            )
        super().__init__(
            {"usual order": grader, "opposite order": turned},
            rule=rule,
            quorum=quorum,
            normalize=normalize,
            length_penalty=length_penalty,
        )

    def _listed(self, place: int, items: list[Item]) -> list[Item]:
        return items[::-1] if place else items


def _weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    given = tuple([1.0] * count if weights is None else weights)
    if len(given) != count:
        raise ValueError(f"there are {len(given)} weights for {count} judges: give one each")
    if not all(0 < weight < float("inf") for weight in given):
        raise ValueError(f"weights are {list(given)}: give finite numbers above 0")
    return given
