"""Cascade: a cheap judge first; what it is not sure of goes up to the next."""

from collections.abc import Sequence

from assay.criterion import Criterion
from assay.graders.base import Autograder
from assay.graders.composite import Composite, named, scores_from
from assay.graders.length import LengthPenalty
from assay.graders.votes import Vote, line_of_vote
from assay.report import Score
from assay.types import OnError


class Cascade(Composite):
    """Asks the first judge about all criteria, and each next one about those still in doubt.

    A judge is in doubt when it failed, when its answers were further apart than `doubt`, and when
    it cannot say how sure it is: put it in `Expectation`, `Samples`, `Swapped` or a `Panel`, which can.
    What the last judge says counts, and its failure is one. The `lines` of a criterion that went up
    show every step.

    >>> from assay import Panel, PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> split = lambda system, user: "UNMET" if "kind" in user else "MET"
    >>> cheap = Panel([PerCriterionGrader(FakeModel(split)), PerCriterionGrader(FakeModel("MET"))])
    >>> dear = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Is short"}, {"requirement": "Is kind"}])
    >>> rubric.grade_sync("Thanks!", Cascade([cheap, PerCriterionGrader(dear)])).score
    1.0
    >>> len(dear.calls)
    1
    """

    def __init__(
        self,
        judges: Sequence[Autograder],
        *,
        doubt: float = 0.1,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`judges` go from cheap to dear. Choose `doubt` on labelled examples.

        One of 10 samples that differs is a `disagreement` of 0.2, and so is a probability of 0.89.
        """
        if not 0 <= doubt < 1:
            raise ValueError(f"doubt is {doubt}: give 0 to less than 1")
        super().__init__(judges, normalize=normalize, length_penalty=length_penalty)
        self.names = tuple(named(judges))
        self.doubt = doubt

    def doubts(self, score: Score) -> bool:
        """Whether an answer has to go up."""
        return (
            score.error is not None or score.disagreement is None or score.disagreement > self.doubt
        )

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion, each from the last judge that was asked about it."""
        steps: list[list[Vote]] = [[] for _ in criteria]
        left = list(range(len(criteria)))
        last = len(self.inner) - 1
        for number, judge in enumerate(self.inner):
            asked = [criteria[place] for place in left]
            rule: OnError = on_error if number == last else "record"
            scores = await scores_from(judge, to_grade, asked, query, rule)
            for place, score in zip(left, scores, strict=True):
                steps[place].append(Vote(self.names[number], score))
            left = [place for place in left if self.doubts(steps[place][-1].score)]
        return [
            _settled(criterion, votes) for criterion, votes in zip(criteria, steps, strict=True)
        ]


def _settled(criterion: Criterion, steps: Sequence[Vote]) -> Score:
    """What the last step says, with every step where there was more than one."""
    score = steps[-1].score
    if len(steps) == 1:
        return score
    return score._replace(lines=tuple(line_of_vote(criterion, step) for step in steps))
