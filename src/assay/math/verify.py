"""Verify: whether an answer equals the gold, decided by the cheapest tier that is sure."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from assay.concurrency import SIDE_BY_SIDE, side_by_side
from assay.errors import MissingExtraError
from assay.isolation import Outcome
from assay.math import normalize
from assay.math.extract import last_box
from assay.math.finding import Open
from assay.math.options import DEFAULT, MathOptions
from assay.math.simplify import asked, known, remembered, submitted
from assay.math.verdict import MathVerdict
from assay.wording import described

_BREATH: Final = 0.004
"""Seconds of work between two breaths of the event loop."""

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
    pairs: Iterable[Pair],
    *,
    options: MathOptions | None = None,
    timeout: float = 5.0,
    progress: Callable[[int], object] | None = None,
) -> list[MathVerdict]:
    """A verdict a pair, in order. `progress` is told how many are done."""
    rules = options or DEFAULT
    findings = [settled(gold, answer, rules) for gold, answer in pairs]
    futures = {question: submitted(question, rules, timeout) for question in _open(findings)}
    done = sum(isinstance(finding, MathVerdict) for finding in findings)
    found: dict[Open, MathVerdict] = {}
    for question, future in futures.items():
        if progress is not None:
            progress(done)
        found[question] = remembered(question, rules, future.result(), timeout)
        done += 1
    if progress is not None:
        progress(len(findings))
    return _filled(findings, found)


async def verify_async(
    gold: object,
    answer: object,
    *,
    options: MathOptions | None = None,
    timeout: float = 5.0,  # noqa: ASYNC109
) -> MathVerdict:
    """As `verify`, without holding the event loop."""
    return (await verify_many_async([(gold, answer)], options=options, timeout=timeout))[0]


async def verify_many_async(
    pairs: Iterable[Pair],
    *,
    options: MathOptions | None = None,
    timeout: float = 5.0,  # noqa: ASYNC109
    at_once: int = SIDE_BY_SIDE,
) -> list[MathVerdict]:
    """As `verify_many`; the event loop breathes between comparisons.

    At most `at_once` of them are with the workers at one time.
    """
    rules = options or DEFAULT
    findings: list[MathVerdict | Open] = []
    resume = time.perf_counter() + _BREATH
    for gold, answer in pairs:
        findings.append(settled(gold, answer, rules))
        if time.perf_counter() > resume:
            await asyncio.sleep(0)
            resume = time.perf_counter() + _BREATH

    async def compared(question: Open) -> Outcome:
        return await asked(question, rules, timeout)

    questions = _open(findings)
    outcomes = await side_by_side(compared, questions, limit=at_once)
    found = {
        question: remembered(question, rules, outcome, timeout)
        for question, outcome in zip(questions, outcomes, strict=True)
    }
    return _filled(findings, found)


def _written(value: object) -> str:
    """A value as an answer is written: a list is its items, since `[1, 2]` would be an interval."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_written, cast("list[object]", value)))
    return "" if value is None else str(value)


def _open(findings: Sequence[MathVerdict | Open]) -> list[Open]:
    """What is left for the workers, each question once."""
    return list(dict.fromkeys(finding for finding in findings if isinstance(finding, Open)))


def _filled(
    findings: Sequence[MathVerdict | Open], found: Mapping[Open, MathVerdict]
) -> list[MathVerdict]:
    return [found[finding] if isinstance(finding, Open) else finding for finding in findings]


def settled(gold: object, answer: object, options: MathOptions) -> MathVerdict | Open:
    """The verdict of the first two tiers, or one a worker gave before; else what is left open.

    An exception is the error of this pair alone, since the others of a batch have nothing to do with it.
    """
    try:
        return _settled(_written(gold), _written(answer), options)
    except MissingExtraError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the reading of one answer fails with
        return MathVerdict("error", f"the comparison failed: {described(error)}", "algebra")


def _settled(gold: str, answer: str, options: MathOptions) -> MathVerdict | Open:
    verdict = normalize.settled(gold, answer, options)
    if verdict is not None:
        return verdict
    finding = _by_algebra(gold, answer, options)
    if isinstance(finding, Open):
        before = known(finding, options)
        return finding if before is None else before
    return finding


@lru_cache(maxsize=32768)
def _by_algebra(gold: str, answer: str, options: MathOptions) -> MathVerdict | Open:
    if not answer.strip():
        return MathVerdict("no_answer", "there is no answer", "normalize")
    if not gold.strip():
        return MathVerdict("gold_unparsable", "the gold answer is empty", "normalize")
    try:
        from assay.math.algebra import decided
    except ImportError as error:
        raise MissingExtraError(
            "mathematics beyond plain numbers", package=error.name or "python-flint", extra="math"
        ) from None
    boxed = last_box(answer)
    return decided(last_box(gold) or gold, answer if boxed is None else boxed, options)
