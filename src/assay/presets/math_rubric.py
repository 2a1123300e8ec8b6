"""Score whether the final answer is right, as mathematics."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, TypeVar

from assay import isolation
from assay.checks.math_equal import MathEqual, strictly_boxed
from assay.criterion import Criterion, Scorer
from assay.errors import GradingError, RubricError
from assay.math import MathOptions
from assay.parsers import MaybeThinkParser, Parser, extract_boxed_answer
from assay.rubric import Rubric
from assay.types import Messages, RewardFunc
from assay.wording import format_value

Result = TypeVar("Result")


class MathRubric(Rubric):
    r"""Pays 1.0 for the same mathematics as `answer`: the criterion `correct_answer`, which comes after `funcs`.

    >>> MathRubric().grade_sync(r"Half of it: \boxed{0.5}", answer=r"\frac{1}{2}").raw_score
    1.0
    """

    # The most that `timeout_seconds` can be; an answer that runs into this is worth a warning.
    HARD_TIMEOUT_SECONDS: float = 120

    def __init__(
        self,
        funcs: Sequence[RewardFunc | Criterion | Mapping[str, Any] | Scorer] | None = None,
        weights: Sequence[float | None] | None = None,
        parser: Parser | None = None,
        max_workers: int = 50,
        timeout_seconds: float = 5,
        extract_answer: bool = True,
        normalize: bool = True,
        *,
        strict: bool = False,
        options: MathOptions | None = None,
        **rubric: Any,
    ) -> None:
        r"""The parser is `MaybeThinkParser(extract_fn=extract_boxed_answer)` unless you give one.

        `max_workers` comparisons are in worker processes at once, each with `timeout_seconds` of work.
        `extract_answer=False`: the whole text is the answer. `normalize=False`: units and `x =` are part of it.
        `strict`: only the last `\boxed{…}` after any thought is. `options`: what counts as the same answer.
        """
        if type(max_workers) is not int or max_workers < 1:
            raise RubricError(
                f"max_workers is {format_value(max_workers)}: give a whole number above 0"
            )
        if type(timeout_seconds) not in (int, float) or not 0 < timeout_seconds < math.inf:
            raise RubricError(
                f"timeout_seconds is {format_value(timeout_seconds)}: give a number above 0"
            )
        if strict and not extract_answer:
            raise RubricError("strict reads the box and extract_answer=False nothing: drop one")
        rules = options or MathOptions()
        if rules.solved is None:
            rules = replace(rules, solved=True)
        if not normalize:
            rules = replace(rules, units=False, assignments=False)
        hard, fields = self.HARD_TIMEOUT_SECONDS, asdict(rules)
        fields |= {
            "timeout_seconds": min(timeout_seconds, hard),
            "max_workers": max_workers,
            "warn_from": hard,
        }
        self._check = MathEqual(strict=strict, extract=extract_answer, **fields)
        self.max_workers, self.timeout_seconds, self._strict = max_workers, timeout_seconds, strict
        super().__init__(funcs, weights, parser, **rubric)
        # A subclass may have its own idea of a correct answer, and a file may hold ours already.
        own = type(self).correct_answer is MathRubric.correct_answer
        check = self._check if own else self.correct_answer
        if check not in self.funcs:
            named: Any = Criterion(check=check, name="correct_answer")
            self.add_reward_func(named)

    def _default_parser(self) -> Parser:
        return MaybeThinkParser(strictly_boxed if self._strict else extract_boxed_answer)

    @cached_property
    def executor(self) -> "WorkerExecutor":
        """The worker processes that all rubrics share, for functions of your own, within this rubric's limits."""
        return WorkerExecutor(self.max_workers, self._check.timeout_seconds)

    async def correct_answer(
        self, parser: Parser, completion: Messages, answer: Any, **kwargs: Any
    ) -> float:
        """Return 1.0 for the same mathematics as `answer`, else 0.0; raises `GradingError` when that cannot be said."""
        [score] = await self._check([completion], [answer], parser)
        if score.error is not None:
            raise GradingError(score.error.removeprefix("GradingError: "))
        return float(score.value or 0.0)


class WorkerExecutor(ThreadPoolExecutor):
    """Runs importable functions in the worker processes that all rubrics share; `TimeoutError` after `timeout` s.

    >>> WorkerExecutor(max_workers=2, timeout=5.0).submit(math.sqrt, 16.0).result()
    4.0
    """

    def __init__(self, max_workers: int, timeout: float) -> None:
        super().__init__(max_workers, thread_name_prefix="assay-executor")
        self._timeout = timeout

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> "Future[Result]":
        def work() -> Any:
            outcome = (
                isolation.shared_pool()
                .submit(fn, *args, timeout=self._timeout, keywords=kwargs)
                .result()
            )
            if outcome.ok:
                return outcome.value
            errors: dict[Any, type[Exception]] = {"timeout": TimeoutError, "memory": MemoryError}
            raise errors.get(outcome.kind, RuntimeError)(outcome.message)

        return super().submit(work)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has calls of its own, and threads cannot be copied.
        return type(self), (self._max_workers, self._timeout)
