"""Score whether the final answer is mathematically equal to the expected one."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, TypeVar

from assay import isolation
from assay.checks.math_equal import MathEqual
from assay.criterion import Criterion, Scorer
from assay.errors import GradingError, RubricError
from assay.math import MathOptions
from assay.parsers import MaybeThinkParser, Parser, extract_boxed_answer
from assay.parsers.named import strictly_boxed
from assay.rubric import Rubric
from assay.types import Messages, RewardFunc
from assay.wording import format_value

Result = TypeVar("Result")


class MathRubric(Rubric):
    r"""Scores 1.0 if the final answer is mathematically equal to `answer`, else 0.0.

    The criterion is called `correct_answer`, and comes after those of `funcs`.

    >>> MathRubric().grade_sync(r"Half of it: \boxed{0.5}", answer=r"\frac{1}{2}").raw_score
    1.0
    """

    # The upper limit of `timeout_seconds`. A comparison that reaches it is logged as a warning.
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
        r"""Set how the answer is read and compared.

        The default parser is `MaybeThinkParser(extract_fn=extract_boxed_answer)`. At most
        `max_workers` comparisons run in worker processes at once, each for at most
        `timeout_seconds`, and never longer than `HARD_TIMEOUT_SECONDS`.

        With `strict`, only the last `\boxed{…}` after any thought is read as the answer; with
        `extract_answer=False`, the whole text is. With `normalize=False`, units and `x =` are part
        of the answer. `options` says what counts as the same answer.
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
            raise RubricError(
                "strict=True reads only the box, and extract_answer=False reads the whole text: "
                "give one of them"
            )
        rules = options or MathOptions()
        if rules.solved is None:
            # Otherwise a model could be rewarded for handing back the question.
            rules = replace(rules, solved=True)
        if not normalize:
            rules = replace(rules, units=False, assignments=False)
        self._check = MathEqual(
            strict=strict,
            extract=extract_answer,
            timeout_seconds=min(timeout_seconds, self.HARD_TIMEOUT_SECONDS),
            max_workers=max_workers,
            warn_from=self.HARD_TIMEOUT_SECONDS,
            **asdict(rules),
        )
        self.max_workers = max_workers
        self.timeout_seconds = timeout_seconds
        self._strict = strict
        super().__init__(funcs, weights, parser, **rubric)
        check: Any = self._check
        is_overridden = type(self).correct_answer is not MathRubric.correct_answer
        if is_overridden:
            check = self.correct_answer
        # A rubric that was loaded from a file may have this check already.
        if check not in self.funcs:
            criterion: Any = Criterion(check=check, name="correct_answer")
            self.add_reward_func(criterion)

    def _default_parser(self) -> Parser:
        return MaybeThinkParser(strictly_boxed if self._strict else extract_boxed_answer)

    @cached_property
    def executor(self) -> "WorkerExecutor":
        """Runs your own functions in the shared worker processes, within this rubric's limits."""
        return WorkerExecutor(self.max_workers, self._check.timeout_seconds)

    async def correct_answer(
        self, parser: Parser, completion: Messages, answer: Any, **kwargs: Any
    ) -> float:
        """Return 1.0 if the answer is mathematically equal to `answer`, else 0.0.

        Raises a `GradingError` if they cannot be compared. A subclass may override this method.
        """
        [score] = await self._check([completion], [answer], parser)
        if score.error is not None:
            raise GradingError(score.error.removeprefix("GradingError: "))
        return float(score.value or 0.0)


class WorkerExecutor(ThreadPoolExecutor):
    """Runs importable functions in the worker processes that all rubrics share.

    A function that takes longer than `timeout` seconds raises a `TimeoutError`.

    >>> WorkerExecutor(max_workers=2, timeout=5.0).submit(math.sqrt, 16.0).result()
    4.0
    """

    def __init__(self, max_workers: int, timeout: float) -> None:
        super().__init__(max_workers, thread_name_prefix="assay-executor")
        self._timeout = timeout

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> "Future[Result]":
        """Run the function in a worker process, and return a future of its result.

        A thread of this executor waits for the worker.
        """

        def run_in_worker() -> Any:
            """Return the result of the function, or raise what went wrong in the worker."""
            pool = isolation.shared_pool()
            future = pool.submit(fn, *args, timeout=self._timeout, keywords=kwargs)
            outcome = future.result()
            if outcome.ok:
                return outcome.value
            if outcome.kind == "timeout":
                raise TimeoutError(outcome.message)
            if outcome.kind == "memory":
                raise MemoryError(outcome.message)
            raise RuntimeError(outcome.message)

        return super().submit(run_in_worker)

    def __reduce__(self) -> tuple[Any, ...]:
        # Threads cannot be copied, so a copy starts with threads of its own and without calls.
        return type(self), (self._max_workers, self._timeout)
