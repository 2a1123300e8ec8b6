"""Simplification: what the algebra leaves open, asked of math-verify in a worker process."""

from concurrent.futures import Future
from typing import Final

from assay.isolation import Outcome, Pool, shared_pool
from assay.math.finding import Open
from assay.math.options import MathOptions
from assay.math.verdict import MathVerdict

HARD_TIMEOUT: Final = 120.0
"""Seconds after which a comparison ends in any case, however busy the machine is."""
_FUNCTION: Final = "assay.math.symbolic:compare"
_NOT_INSTALLED: Final = ("ImportError", "ModuleNotFoundError")
_MOST_KNOWN: Final = 50_000
_known: dict[tuple[Open, int], MathVerdict] = {}
"""What workers found, so that a group of rollouts asks once. Only what will not change is kept."""


def known(question: Open, options: MathOptions) -> MathVerdict | None:
    """What a worker found before."""
    return _known.get((question, options.rounding))


def submitted(question: Open, options: MathOptions, timeout: float) -> Future[Outcome]:
    """The question, on its way to a worker."""
    return _pool().submit(*_call(question, options), timeout=timeout, hard_timeout=HARD_TIMEOUT)


async def asked(question: Open, options: MathOptions, timeout: float) -> Outcome:  # noqa: ASYNC109
    """What a worker says."""
    return await _pool().run(*_call(question, options), timeout=timeout, hard_timeout=HARD_TIMEOUT)


def _call(question: Open, options: MathOptions) -> tuple[str, str, str, int]:
    return _FUNCTION, question.gold, question.answer, options.rounding


def _pool() -> Pool:
    return shared_pool("assay.math.symbolic")


def remembered(
    question: Open, options: MathOptions, outcome: Outcome, timeout: float
) -> MathVerdict:
    """The verdict that an outcome is, kept when it will be the same next time."""
    verdict = _verdict(question, outcome, timeout)
    if outcome.ok:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[question, options.rounding] = verdict
    return verdict


def _verdict(question: Open, outcome: Outcome, timeout: float) -> MathVerdict:
    """What a worker's outcome says of the pair."""
    if outcome.ok:
        return _found(question, outcome.value)
    if outcome.kind == "timeout":
        return MathVerdict(
            "out_of_time", f"undecided after {timeout:g} seconds of work", "symbolic"
        )
    if outcome.kind == "memory":
        reason = "the comparison needs more memory than a worker may take"
        return MathVerdict("too_large", reason, "symbolic")
    if outcome.kind == "raised" and not outcome.message.startswith(_NOT_INSTALLED):
        return MathVerdict(
            "answer_unparsable", f"math-verify failed: {outcome.message}", "symbolic"
        )
    return MathVerdict("error", f"the worker failed: {outcome.message}", "symbolic")


def _found(question: Open, found: dict[str, bool]) -> MathVerdict:
    if found["equal"]:
        return MathVerdict("equal", "equal by simplification (math-verify)", "symbolic")
    if not found["gold"] and not question.gold_is_read:
        return MathVerdict(
            "gold_unparsable", "the gold answer cannot be read as mathematics", "symbolic"
        )
    if not found["answer"]:
        return MathVerdict(
            "answer_unparsable", "the answer cannot be read as mathematics", "symbolic"
        )
    return MathVerdict("different", "not equal after simplification (math-verify)", "symbolic")
