"""Verify: whether an answer equals the gold, decided by the cheapest tier that is sure."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from assay.concurrency import SIDE_BY_SIDE, side_by_side
from assay.errors import MissingExtraError
from assay.isolation import Outcome, Pool, shared_pool
from assay.math import normalize
from assay.math.extract import last_box
from assay.math.options import DEFAULT, MathOptions
from assay.math.verdict import MathVerdict

HARD_TIMEOUT: Final = 120.0
"""Seconds after which a comparison ends in any case, however busy the machine is."""
_NOT_INSTALLED: Final = ("ImportError", "ModuleNotFoundError", "MissingExtraError")
"""What a worker raises when it has no math-verify: our failure, and no word on the answer."""
_SYMBOLIC: Final = "assay.math.symbolic:compare"
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
    texts = _texts(pairs)
    rules = options or DEFAULT
    verdicts = [_settled(gold, answer, rules) for gold, answer in texts]
    open_pairs = _open(texts, verdicts)
    done = len(texts) - sum(verdict is None for verdict in verdicts)
    if progress is not None:
        progress(done)
    pool = _pool() if open_pairs else None
    futures = [(pair, _submitted(pool, pair, rules, timeout)) for pair in open_pairs]
    found: dict[tuple[str, str], MathVerdict] = {}
    for pair, future in futures:
        found[pair] = _remembered(pair, rules, future.result(), timeout)
        if progress is not None:
            done += 1
            progress(done)
    return _filled(texts, verdicts, found)


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
    texts = _texts(pairs)
    rules = options or DEFAULT
    verdicts: list[MathVerdict | None] = []
    resume = time.perf_counter() + _BREATH
    for gold, answer in texts:
        verdicts.append(_settled(gold, answer, rules))
        if time.perf_counter() > resume:
            await asyncio.sleep(0)
            resume = time.perf_counter() + _BREATH
    open_pairs = _open(texts, verdicts)
    found: dict[tuple[str, str], MathVerdict] = {}
    if open_pairs:
        pool = _pool()

        async def compared(pair: tuple[str, str]) -> Outcome:
            return await pool.run(
                _SYMBOLIC, *pair, rules.rounding, timeout=timeout, hard_timeout=HARD_TIMEOUT
            )

        outcomes = await side_by_side(compared, open_pairs, limit=at_once)
        for pair, outcome in zip(open_pairs, outcomes, strict=True):
            found[pair] = _remembered(pair, rules, outcome, timeout)
    return _filled(texts, verdicts, found)


def _texts(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    return [
        (
            gold if isinstance(gold, str) else _written(gold),
            answer if isinstance(answer, str) else _written(answer),
        )
        for gold, answer in pairs
    ]


def _written(value: object) -> str:
    """A value as an answer is written: a list is its items, since `[1, 2]` would be an interval."""
    if isinstance(value, list):
        return ", ".join(map(_written, cast("list[object]", value)))
    return "" if value is None else str(value)


def _open(
    texts: Sequence[tuple[str, str]], verdicts: Sequence[MathVerdict | None]
) -> list[tuple[str, str]]:
    """The pairs that are left for the workers, each once."""
    undecided = (pair for pair, verdict in zip(texts, verdicts, strict=True) if verdict is None)
    return list(dict.fromkeys(undecided))


def _filled(
    texts: Sequence[tuple[str, str]],
    verdicts: Sequence[MathVerdict | None],
    found: dict[tuple[str, str], MathVerdict],
) -> list[MathVerdict]:
    return [
        verdict if verdict is not None else found[pair]
        for pair, verdict in zip(texts, verdicts, strict=True)
    ]


_KNOWN: dict[tuple[str, str, MathOptions], MathVerdict] = {}
"""What workers found, so that a group of rollouts asks once. Only what will not change is kept."""
_MOST_KNOWN: Final = 50_000


def _settled(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
    """The verdict of the first two tiers, or one a worker gave before; else None."""
    verdict = normalize.settled(gold, answer, options)
    if verdict is not None:
        return verdict
    verdict = _by_algebra(gold, answer, options)
    return verdict if verdict is not None else _KNOWN.get((gold, answer, options))


@lru_cache(maxsize=32768)
def _by_algebra(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
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


def _pool() -> Pool:
    return shared_pool("assay.math.symbolic")


def _submitted(pool: Any, pair: tuple[str, str], options: MathOptions, timeout: float) -> Any:
    return pool.submit(
        _SYMBOLIC, *pair, options.rounding, timeout=timeout, hard_timeout=HARD_TIMEOUT
    )


def _remembered(
    pair: tuple[str, str], options: MathOptions, outcome: Outcome, timeout: float
) -> MathVerdict:
    verdict = _verdict(outcome, timeout)
    if outcome.ok:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[*pair, options] = verdict
    return verdict


def _verdict(outcome: Outcome, timeout: float) -> MathVerdict:
    """What a worker's outcome says of the pair."""
    if outcome.kind == "timeout":
        return MathVerdict(
            "out_of_time", f"undecided after {timeout:g} seconds of work", "symbolic"
        )
    if outcome.kind == "memory":
        return MathVerdict(
            "too_large", "the comparison needs more memory than a worker may take", "symbolic"
        )
    if outcome.kind == "raised" and not outcome.message.startswith(_NOT_INSTALLED):
        return MathVerdict(
            "answer_unparsable", f"math-verify failed: {outcome.message}", "symbolic"
        )
    if not outcome.ok:
        return MathVerdict("error", f"the worker failed: {outcome.message}", "symbolic")
    found: dict[str, bool] = outcome.value
    if found["equal"]:
        return MathVerdict("equal", "equal by simplification (math-verify)", "symbolic")
    if not found["gold"]:
        return MathVerdict(
            "gold_unparsable", "the gold answer cannot be read as mathematics", "symbolic"
        )
    if not found["answer"]:
        return MathVerdict(
            "answer_unparsable", "the answer cannot be read as mathematics", "symbolic"
        )
    return MathVerdict("different", "not equal after simplification (math-verify)", "symbolic")
