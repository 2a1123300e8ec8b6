"""A grader of your own: three judges, and a criterion is met when two of them say so."""

import asyncio
from collections import Counter

from assay import Autograder, Criterion, Rubric, Score


class Majority(Autograder):
    """Asks several judges, each a function from criterion and text to a verdict."""

    def __init__(self, *judges):
        super().__init__()
        self.judges = judges

    async def judge(self, to_grade, rubric, query=None):
        return [self.vote(criterion, to_grade) for criterion in rubric]

    def vote(self, criterion: Criterion, text: str) -> Score:
        votes = Counter(judge(criterion, text) for judge in self.judges)
        verdict, count = votes.most_common(1)[0]
        reason = f"{count} of {len(self.judges)} judges"
        return Score(criterion.values[verdict], reason, verdict)


def strict(criterion, text):
    return "MET" if criterion.requirement.lower() in text.lower() else "UNMET"


def lenient(criterion, text):
    return "MET"


def by_length(criterion, text):
    return "MET" if len(text) > 20 else "UNMET"


async def main() -> None:
    rubric = Rubric.from_dict(
        [{"requirement": "Paris", "weight": 2}, {"requirement": "Lyon", "weight": 1}],
        judge=Majority(strict, lenient, by_length),
    )
    report = await rubric.grade("Paris.")
    for line in report.report:
        print(line.verdict, line.requirement, "-", line.reason)
    print("score", round(report.score, 3))


if __name__ == "__main__":
    asyncio.run(main())
