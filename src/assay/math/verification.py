"""Verify answers against golds: the first two tiers in this process, what they leave open in a worker process."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, cast

from assay import isolation  # loads its pool when that is used: a number is compared without one
from assay.errors import MissingExtraError, import_extra
from assay.math import normalization
from assay.math.answer_text import last_box
from assay.math.verdict import DEFAULT, MathOptions, MathVerdict, Open, read_simplification
from assay.wording import describe_error

HARD_TIMEOUT: Final = (
    120.0  # seconds after which a comparison ends in any case, however busy the machine is
)
_MOST_KNOWN: Final = 50_000
# What workers found, so that a group of rollouts asks once. Only what will not change is kept.
_known: dict[tuple[Open, MathOptions], MathVerdict] = {}

Pair = tuple[object, object]


def verify(
    gold: object, answer: object, *, options: MathOptions | None = None, timeout: float = 5.0
) -> MathVerdict:
    r"""Whether the answer equals the gold, and why. `timeout` is in seconds of work.

    >>> verify(r"\frac12", "0.5")
    MathVerdict(status='equal', reason='equal as numbers: 1/2', tier='normalize')
    """
    return verify_many([(gold, answer)], options=options, timeout=timeout)[0]


def verify_many(
    pairs: Iterable[Pair], *, options: MathOptions | None = None, timeout: float = 5.0
) -> list[MathVerdict]:
    """A verdict a pair, in order."""
    rules = options or DEFAULT
    findings = [_settled(gold, answer, rules) for gold, answer in pairs]
    futures = {
        question: _pool().submit(
            *_call(question, rules), timeout=timeout, hard_timeout=HARD_TIMEOUT
        )
        for question in _open(findings)
    }
    found = {
        question: _remembered(question, rules, future.result(), timeout)
        for question, future in futures.items()
    }
    return [found[finding] if isinstance(finding, Open) else finding for finding in findings]


async def verify_async(
    gold: object, answer: object, *, options: MathOptions | None = None, timeout: float = 5.0
) -> MathVerdict:
    """As `verify`, without holding the event loop."""
    return (await verify_many_async([(gold, answer)], options=options, timeout=timeout))[0]


async def verify_many_async(
    pairs: Iterable[Pair],
    *,
    options: MathOptions | None = None,
    timeout: float = 5.0,
    at_once: int | None = None,
) -> list[MathVerdict]:
    """As `verify_many`; the event loop breathes between comparisons.

    At most `at_once` of them are with the workers at one time; None is as many as are scored side by side anywhere.
    """
    from assay.concurrency import MAX_CONCURRENT, map_with_pauses, run_concurrently

    rules = options or DEFAULT
    findings = await map_with_pauses(lambda pair: _settled(*pair, rules), pairs)

    async def compared(question: Open) -> "isolation.Outcome":
        return await _pool().run(
            *_call(question, rules), timeout=timeout, hard_timeout=HARD_TIMEOUT
        )

    questions = _open(findings)
    outcomes = zip(
        questions,
        await run_concurrently(compared, questions, limit=at_once or MAX_CONCURRENT),
        strict=True,
    )
    found = {
        question: _remembered(question, rules, outcome, timeout) for question, outcome in outcomes
    }
    return [found[finding] if isinstance(finding, Open) else finding for finding in findings]


def _open(findings: Sequence[MathVerdict | Open]) -> list[Open]:
    return list(dict.fromkeys(finding for finding in findings if isinstance(finding, Open)))


# The first two tiers.


def _settled(gold: object, answer: object, options: MathOptions) -> MathVerdict | Open:
    """The verdict of the first two tiers, or one a worker gave before; else what is left open.

    An exception is the error of this pair alone, since the others of a batch have nothing to do with it.
    """
    try:
        one, two = _written(gold), _written(answer)
        verdict = normalization.settled(one, two, options)
        if verdict is not None:
            return verdict
        finding = _by_algebra(one, two, options)
    except MissingExtraError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the reading of one answer fails with
        return MathVerdict("error", f"the comparison failed: {describe_error(error)}", "algebra")
    if isinstance(finding, Open):
        return _known.get((finding, options), finding)
    return finding


def _written(value: object) -> str:
    """A value as an answer is written: a list is its items, since `[1, 2]` would be an interval."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_written, cast("list[object]", value)))
    return "" if value is None else str(value)


@lru_cache(maxsize=32768)
def _by_algebra(gold: str, answer: str, options: MathOptions) -> MathVerdict | Open:
    if not answer.strip():
        return MathVerdict("no_answer", "there is no answer", "normalize")
    if not gold.strip():
        return MathVerdict("gold_unparsable", "the gold answer is empty", "normalize")
    what = "mathematics beyond plain numbers"
    algebra = import_extra("assay.math.algebra", what, extra="math", package="python-flint")
    boxed = last_box(answer)
    return algebra.decided(last_box(gold) or gold, answer if boxed is None else boxed, options)


# The last tier: math-verify in a worker.


def _pool() -> "isolation.Pool":
    return isolation.shared_pool("assay.math.symbolic")


def _call(question: Open, options: MathOptions) -> tuple[str, str, str, int | MathOptions]:
    if _is_large(question):
        return "assay.math.algebra:decide_in_worker", question.gold, question.answer, options
    return "assay.math.symbolic:compare", question.gold, question.answer, options.rounding


def _remembered(
    question: Open, options: MathOptions, outcome: "isolation.Outcome", timeout: float
) -> MathVerdict:
    """The verdict that an outcome is, kept when it will be the same next time."""
    if _is_large(question):
        verdict = _large_verdict(question, outcome, timeout)
    else:
        verdict = _verdict(question, outcome, timeout)
    if outcome.ok:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[question, options] = verdict
    return verdict


def _is_large(question: Open) -> bool:
    return question.gold_is_large or question.answer_is_large


def _large_verdict(question: Open, outcome: "isolation.Outcome", timeout: float) -> MathVerdict:
    """Return the worker's verdict on a pair of which one side is large.

    If the worker failed, the answer is too large, or the gold where only that is large.
    """
    if outcome.ok:
        return MathVerdict(*outcome.value)
    if outcome.kind == "lost":
        return MathVerdict("error", f"the worker failed: {outcome.message}", "algebra")
    if not question.answer_is_large:
        reason = f"the gold is too large to compare: {outcome.message}"
        return MathVerdict("gold_unparsable", reason, "algebra")
    if outcome.kind == "timeout":
        reason = f"undecided after {timeout:g} seconds of work"
        return MathVerdict("out_of_time", reason, "algebra")
    reason = f"the answer is too large to compare: {outcome.message}"
    return MathVerdict("too_large", reason, "algebra")


def _verdict(question: Open, outcome: "isolation.Outcome", timeout: float) -> MathVerdict:
    """Return the verdict of math-verify, or what its failure says about the answer."""
    if outcome.ok:
        return read_simplification(question, outcome.value)
    if outcome.kind == "timeout":
        reason = f"undecided after {timeout:g} seconds of work"
        return MathVerdict("out_of_time", reason, "symbolic")
    if outcome.kind == "memory":
        reason = "the comparison needs more memory than a worker may take"
        return MathVerdict("too_large", reason, "symbolic")
    not_installed = outcome.message.startswith(("ImportError", "ModuleNotFoundError"))
    if outcome.kind == "raised" and not not_installed:
        reason = f"math-verify failed: {outcome.message}"
        return MathVerdict("answer_unparsable", reason, "symbolic")
    return MathVerdict("error", f"the worker failed: {outcome.message}", "symbolic")
