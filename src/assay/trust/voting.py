"""Votes inside an answer: what a judge said when it was asked again, or the other way round.

`Samples` and `Swapped` keep every answer on the lines of the answer they make; so does `Panel`, whose
votes go by the names of its judges.
"""

import re
from collections.abc import Iterator, Sequence

from assay.lines import CriterionReport, Lines
from assay.score import Score

# The names that `Samples` and `Swapped` give their votes.
_SAMPLE = re.compile(r"sample \d+")
_ORDERS = {"usual order", "opposite order"}


def have_votes(lines: Sequence[CriterionReport]) -> bool:
    """Whether any answer is made of votes, found without making a line."""
    if isinstance(lines, Lines):
        return any(isinstance(answer, Score) and answer.lines for answer in lines.answers)
    return any(line.lines for line in lines)


def swapped(line: CriterionReport) -> Iterator[tuple[CriterionReport, CriterionReport]]:
    """Every two answers that differ in the order of what was shown alone."""
    for votes in _ballots(line):
        if {vote.name for vote in votes} == _ORDERS:
            yield votes[0], votes[1]


def repeated(line: CriterionReport) -> Iterator[Sequence[CriterionReport]]:
    """The answers of one judge that was asked the same more than once."""
    for votes in _ballots(line):
        if len(votes) > 1 and all(_SAMPLE.fullmatch(vote.name) for vote in votes):
            yield votes


def members(line: CriterionReport) -> Sequence[CriterionReport]:
    """The votes of a panel's judges; none when one judge answered alone."""
    names = [vote.name for vote in line.lines]
    alone = all(_SAMPLE.fullmatch(name) or name in _ORDERS for name in names)
    return () if alone or line.requirement is None else line.lines


def _ballots(line: CriterionReport) -> Iterator[Sequence[CriterionReport]]:
    """The votes on a judged line, and the votes on each of those."""
    if line.lines:
        yield line.lines
        for vote in line.lines:
            yield from _ballots(vote)
