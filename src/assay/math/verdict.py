"""Define the options of a comparison and its verdict: equal or different, why, and which tier decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

# How a comparison ended. Only `equal` is a yes; `gold_unparsable` and `error` say nothing of the answer.
Status = Literal[
    "equal",
    "different",
    "no_answer",
    "answer_unparsable",
    "gold_unparsable",
    "out_of_time",
    "too_large",
    "error",
]

Tier = Literal["normalize", "algebra", "symbolic"]


class MathVerdict(NamedTuple):
    """Whether an answer equals the gold, and the reason in words. True in a condition if equal.

    >>> MathVerdict("equal", "equal as numbers: 1/2", "normalize").equal
    True
    """

    status: Status
    reason: str  # in words: equal as what, different where, unparsable on which side
    tier: Tier  # which tier of the comparison decided

    @property
    def equal(self) -> bool:
        return self.status == "equal"

    @property
    def decided(self) -> bool:
        """Whether this is about the answer: False if the gold cannot be read or a worker failed."""
        return self.status not in ("gold_unparsable", "error")

    def __bool__(self) -> bool:
        return self.equal


@dataclass(frozen=True, slots=True)
class MathOptions:
    """What counts as the same answer. The defaults are math-verify's."""

    rounding: int = 6  # a decimal equals an exact number that agrees with it to so many places
    tolerance: float = 0.0  # the relative difference by which equal numbers may differ
    units: bool = True  # whether `5 cm` equals `5`. Different units are different in any case.
    # Whether `(1, 2)` differs from `(2, 1)`. Sets, and lists without brackets, have no order.
    ordered_tuples: bool = True
    percent: bool = False  # whether `7%` equals `7`. A gold of `7%` equals both 7 and 0.07.
    assignments: bool = True  # whether `x = 3` equals `3`
    rename_variables: bool = False  # whether `2x + 1` equals `2y + 1`
    # Whether variables stand for positive numbers, so that the root of x² is x.
    positive: bool = False
    # Whether an answer must be solved as far as the gold is, so that `2x + 3 = 7` does not equal
    # `x = 2`. None means False, except in rewards, where it means True.
    solved: bool | None = None
    symbolic: bool = True  # whether undecided pairs go to math-verify in a worker process


DEFAULT = MathOptions()


class Equality(NamedTuple):
    """Equal, different, or undecided (None), and why."""

    equal: bool | None
    reason: str
    is_too_large: bool = False  # undecided because a value is too large to compute


class OpenQuestion(NamedTuple):
    """A comparison that this process leaves to a worker process."""

    gold: str
    answer: str
    gold_is_read: bool  # whether our own grammar could read the gold
    # Whether exact arithmetic on the gold, or on the answer, may take long or need much memory. It
    # is then left to the worker too.
    gold_is_large: bool = False
    answer_is_large: bool = False


def read_simplification(question: OpenQuestion, result: Mapping[str, bool]) -> MathVerdict:
    """Return the verdict on a question, from the result that `symbolic.compare` returned for it.

    The result says whether the two are `equal`, and whether math-verify could read `gold` and
    `answer`.
    """
    if result["equal"]:
        return MathVerdict("equal", "equal by simplification (math-verify)", "symbolic")
    if not result["gold"] and not question.gold_is_read:
        reason = "the gold answer cannot be read as mathematics"
        return MathVerdict("gold_unparsable", reason, "symbolic")
    if not result["answer"]:
        reason = "the answer cannot be read as mathematics"
        return MathVerdict("answer_unparsable", reason, "symbolic")
    return MathVerdict("different", "not equal after simplification (math-verify)", "symbolic")


SAME: Final = Equality(True, "equal as expressions")


def undecided(reason: str) -> Equality:
    """Return that it is not known whether two sides are equal."""
    return Equality(None, reason)


def too_large(error: Exception) -> Equality:
    """Return that two sides are undecided, because a value is too large to compute."""
    return Equality(None, f"too large: {error}", is_too_large=True)


def different(reason: str) -> Equality:
    """Return that two sides are different."""
    return Equality(False, reason)


def combine(findings: list[Equality], *, kind: str) -> Equality:
    """Combine the comparisons of the parts of two objects into one of the objects.

    They are equal if all parts are, different if one part is, and else undecided, also if there
    are no parts. `kind` is what the reason calls the objects, such as "lists".
    """
    if not findings:
        return undecided("there is nothing to compare")
    for finding in findings:
        if finding.equal is False:
            return finding
    for finding in findings:
        if finding.equal is None:
            return finding
    return Equality(True, f"equal as {kind}")
