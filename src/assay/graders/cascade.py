"""Ask a cheap judge first, and more expensive ones about the criteria that it is unsure of."""

from collections.abc import Sequence
from typing import Unpack

from assay.criterion import Criterion
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import JudgeSource, scores_from
from assay.graders.judge_input import JudgeInput
from assay.graders.panel import Vote, build_vote_line, name_graders
from assay.report import Score
from assay.types import OnError


class Cascade(Composite):
    """Asks the first judge about all criteria, and each next one about those still in doubt.

    A judge is in doubt about a criterion if it failed, if its answers were further apart than
    `doubt`, or if it cannot say how sure it is. `Expectation`, `Samples`, `Swapped` and `Panel` can
    say so: wrap the judge in one of them. The answer of the last judge that was asked counts. The
    `lines` of a criterion that several judges were asked about hold the answer of each.

    >>> from assay import Panel, PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> split = lambda system, user: "UNMET" if "kind" in user else "MET"
    >>> cheap = Panel([PerCriterionGrader(FakeModel(split)), PerCriterionGrader(FakeModel("MET"))])
    >>> expensive = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Is short"}, {"requirement": "Is kind"}])
    >>> rubric.grade_sync("Thanks!", Cascade([cheap, PerCriterionGrader(expensive)])).score
    1.0
    >>> len(expensive.calls)
    1
    """

    def __init__(
        self, judges: Sequence[JudgeSource], *, doubt: float = 0.1, **options: Unpack[WrapOptions]
    ) -> None:
        """`judges` are ordered from cheap to expensive.

        `doubt` is the largest `disagreement` that is accepted: the mean distance between two of a
        judge's answers. If one of 10 samples is 0 and the others are 1, it is 0.2, since 9 of their
        45 pairs differ.
        """
        if not 0 <= doubt < 1:
            raise ValueError(f"doubt is {doubt}: give a number from 0 to less than 1")
        super().__init__(judges, **options)
        self.names = tuple(name_graders(self.inner))
        self.doubt = doubt

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        """Return one score per criterion: that of the last judge that was asked about it."""
        votes_by_criterion: list[list[Vote]] = [[] for _ in criteria]
        to_ask = list(range(len(criteria)))  # the indices of the criteria for the next judge
        for name, judge in zip(self.names, self.inner, strict=True):
            if not to_ask:
                break
            # After a failure the next judge is asked, so only a failure of the last one is raised.
            is_last_judge = name == self.names[-1]
            judge_on_error = on_error if is_last_judge else "record"
            asked_criteria = [criteria[index] for index in to_ask]
            scores = await scores_from(judge, judge_input, asked_criteria, on_error=judge_on_error)
            still_doubtful: list[int] = []
            for index, score in zip(to_ask, scores, strict=True):
                votes_by_criterion[index].append(Vote(name, score, sub_answer="escalation"))
                if self._is_doubtful(score):
                    still_doubtful.append(index)
            to_ask = still_doubtful
        return [
            _take_last_score(criterion, votes)
            for criterion, votes in zip(criteria, votes_by_criterion, strict=True)
        ]

    def _is_doubtful(self, score: Score) -> bool:
        """Whether to ask the next judge. One that cannot say how sure it is counts as in doubt."""
        if score.error is not None or score.disagreement is None:
            return True
        return score.disagreement > self.doubt


def _take_last_score(criterion: Criterion, votes: Sequence[Vote]) -> Score:
    """Return the score of the last vote; if several judges voted, with a line for each of them."""
    score = votes[-1].score
    if len(votes) == 1:
        return score
    lines = tuple(build_vote_line(criterion, vote) for vote in votes)
    return score._replace(lines=lines)
