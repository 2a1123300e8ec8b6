"""One face for every subject: check a pair, check many, say what was found.

Imported by each subject's own interpreter; a subject's package is imported when it is asked for.
A verdict is True, False, or None when the subject itself says that it could not decide.
"""

import asyncio
import importlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

Verdict = bool | None
Pairs = Sequence[tuple[str, str]]

# Nobody's fast path: every subject has its symbolic machinery running after these.
WARM_UP = [(rf"\frac{{{n}}}{{{n + 1}}}", rf"\int_0^1 {n} x^{{{n}}} \, dx") for n in range(1, 9)]


class Checker(Protocol):
    """What a worker needs of a subject."""

    tiers: Counter[str]
    """How many verdicts each of the subject's tiers gave, if it has any."""
    last: str
    """The latest verdict in the subject's own words, if it has any."""

    async def check(self, gold: str, answer: str) -> Verdict: ...

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        """All of them asked at once."""
        ...

    def close(self) -> None:
        """End every process and thread that was started."""
        ...


def checker_of(subject: str, *, timeout: float, warm_up: Pairs = WARM_UP) -> Checker:
    """The subject's checker, started and warm."""
    kinds = {"assay": AssayChecker, "math-verify": BareChecker}
    checker = kinds.get(subject, VerifiersChecker)(timeout)
    asyncio.run(checker.check_many(warm_up))
    return checker


def leave(checker: Checker) -> None:
    """End this process, though verifiers' threads may go on for ever and hold up its exit."""
    checker.close()
    sys.stdout.flush()
    os._exit(0)


class AssayChecker:
    """assay.math; all tiers, the process-wide pool."""

    def __init__(self, timeout: float) -> None:
        self.math: Any = importlib.import_module("assay.math")
        self.timeout = timeout
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        return self._found(await self.math.verify_async(gold, answer, timeout=self.timeout))

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        verdicts = await self.math.verify_many_async(pairs, timeout=self.timeout)
        return [self._found(verdict) for verdict in verdicts]

    def close(self) -> None:
        importlib.import_module("assay.isolation").shared_pool().close()

    def _found(self, verdict: Any) -> Verdict:
        self.tiers[verdict.tier] += 1
        self.last = verdict.status.replace("_", " ")
        return verdict.equal if verdict.decided else None


class VerifiersChecker:
    """verifiers' MathRubric through its own reward function.

    Its default parser looks for a box; a plain one hands over the answer as it is, and costs less.
    """

    def __init__(self, timeout: float) -> None:
        verifiers: Any = importlib.import_module("verifiers")
        self.parser = verifiers.Parser()
        self.rubric = verifiers.MathRubric(parser=self.parser, timeout_seconds=timeout)
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        completion = [{"role": "assistant", "content": answer}]
        reward = await self.rubric.correct_answer(parser=self.parser, completion=completion, answer=gold)
        return reward == 1.0

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        return list(await asyncio.gather(*(self.check(gold, answer) for gold, answer in pairs)))

    def close(self) -> None:
        teardown = getattr(self.rubric, "teardown", None)
        if teardown is not None:
            asyncio.run(teardown())
        self.rubric.executor.shutdown(wait=False)


class BareChecker:
    """math-verify in a plain loop of the main thread, with its own alarm."""

    def __init__(self, timeout: float) -> None:
        self.module: Any = importlib.import_module("math_verify")
        self.timeout = int(timeout)
        self.tiers: Counter[str] = Counter()
        self.last = ""

    async def check(self, gold: str, answer: str) -> Verdict:
        parse, seconds = self.module.parse, self.timeout
        return self.module.verify(
            parse(f"\\boxed{{{gold}}}", parsing_timeout=seconds),
            parse(f"\\boxed{{{answer}}}", parsing_timeout=seconds),
            timeout_seconds=seconds,
        )

    async def check_many(self, pairs: Pairs) -> list[Verdict]:
        return [await self.check(gold, answer) for gold, answer in pairs]

    def close(self) -> None:
        """Nothing was started."""
