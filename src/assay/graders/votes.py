"""Votes: several answers to one question, made into one, and how far apart they were."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

from assay.aggregation import weighted_sum
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.report import CriterionReport, Score, line_of

Rule: TypeAlias = Literal["majority", "mean", "worst"]
"""The verdict of most, the mean value, or the answer that leaves the lowest score."""

RULES: tuple[Rule, ...] = ("majority", "mean", "worst")


class Vote(NamedTuple):
    """Who said what, and how much it counts."""

    who: str
    score: Score
    weight: float = 1.0


def outcome(
    criterion: Criterion,
    votes: Sequence[Vote],
    rule: Rule,
    *,
    quorum: int = 1,
    noun: str = "judges",
) -> Score:
    """The answer that these come to. Those who failed are not counted, and it says so.

    `noun` is what the voters are called. With fewer than `quorum` answers there is none.
    """
    given = [vote for vote in votes if vote.score.error is None]
    lines = tuple(line_of_vote(criterion, vote) for vote in votes)
    if len(given) < max(1, quorum):
        return Score.failed(_too_few(votes, len(given), quorum, noun))._replace(lines=lines)
    score = _RULES[rule](criterion, given)
    return score._replace(
        reason=_reason(score, given, votes, noun),
        lines=lines,
        disagreement=disagreement([vote.score for vote in given]),
    )


def disagreement(scores: Sequence[Score]) -> float | None:
    """The mean distance between two of these answers, 0 to 1; None when there are not two.

    For MET and UNMET it is the share of pairs that differ. N/A is as far as can be from a value.

    >>> disagreement([Score(1.0), Score(1.0), Score(0.0)])
    0.6666666666666666
    """
    pairs = list(combinations([score.value for score in scores], 2))
    if not pairs:
        return None
    return sum(_distance(one, other) for one, other in pairs) / len(pairs)


def _distance(one: float | None, other: float | None) -> float:
    if one is None or other is None:
        return float(one is not other)
    return min(1.0, abs(one - other))


def line_of_vote(criterion: Criterion, vote: Vote) -> CriterionReport:
    """A vote as a line under the criterion's own, by the name and weight of the voter."""
    line = line_of(criterion, vote.score)
    own = {"name": vote.who, "weight": vote.weight, "requirement": None, "tags": ()}
    return line.model_copy(update={**own, "counted": False})


def nearest(criterion: Criterion, value: float) -> str:
    """The choice that is worth the most like this value; of two as near, the worse one."""
    sign = 1 if criterion.weight >= 0 else -1
    worths = criterion.values
    return min(
        criterion.choices,
        key=lambda choice: (round(abs(worths[choice] - value), 12), sign * worths[choice]),
    )


def _majority(criterion: Criterion, given: Sequence[Vote]) -> Score:
    tally: dict[str | float | None, list[Vote]] = {}
    for vote in given:
        key = vote.score.verdict if vote.score.verdict is not None else vote.score.value
        tally.setdefault(key, []).append(vote)
    most = max(sum(vote.weight for vote in votes) for votes in tally.values())
    leading = [v for v in tally.values() if sum(x.weight for x in v) >= most - 1e-9]
    winner = _worst(criterion, [votes[0] for votes in leading])
    verdict = winner.verdict
    if verdict is None or verdict not in criterion.values:
        return winner
    return winner._replace(value=criterion.values[verdict])


def _mean(criterion: Criterion, given: Sequence[Vote]) -> Score:
    held = [vote for vote in given if vote.score.value is not None]
    weight, others = sum(v.weight for v in held), sum(v.weight for v in given if v not in held)
    if not held or others > weight:
        return Score.not_applicable()
    values = [vote.score.value or 0.0 for vote in held]
    value = weighted_sum([vote.weight for vote in held], values) / weight
    verdict = nearest(criterion, value) if any(vote.score.verdict for vote in held) else None
    return Score(value, verdict=verdict)


def _worst(criterion: Criterion, given: Sequence[Vote]) -> Score:
    """The answer that leaves the lowest score: of a fault, that it is there."""
    held = [vote.score for vote in given if vote.score.value is not None]
    if not held:
        return given[0].score
    sign = 1 if criterion.weight >= 0 else -1
    return min(held, key=lambda score: sign * (score.value or 0.0))


_RULES = {"majority": _majority, "mean": _mean, "worst": _worst}


def _reason(score: Score, given: Sequence[Vote], votes: Sequence[Vote], noun: str) -> str:
    """How many agree with the outcome, who failed, and why, in the words of one who agrees."""
    like = [vote for vote in given if vote.score.verdict == score.verdict]
    counted = f"{len(like)} of {len(given)} {noun}"
    failed = [vote for vote in votes if vote.score.error is not None]
    if failed:
        counted += f", {len(failed)} failed ({failed[0].who}: {failed[0].score.error})"
    words = like[0].score.reason if like else ""
    return f"{counted}: {words}" if words else counted


def _too_few(votes: Sequence[Vote], answered: int, quorum: int, noun: str) -> JudgeError:
    failed = [vote for vote in votes if vote.score.error is not None]
    listed = "; ".join(f"{vote.who}: {vote.score.error}" for vote in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    needed = f", and {quorum} must" if quorum > 1 else ""
    return JudgeError(f"{answered} of {len(votes)} {noun} answered{needed} ({listed}{more})")
