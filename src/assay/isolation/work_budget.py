"""Limit how long all checks about one rollout may work together."""

import asyncio
from contextvars import ContextVar


class WorkBudget:
    """The seconds that checks may still work on one rollout, here and in worker processes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent = 0.0
        # Held during a call in a worker: calls at the same time could each take all that is left.
        self.lock = asyncio.Lock()

    @property
    def remaining(self) -> float:
        return self.seconds - self.spent

    def raise_if_spent(self) -> None:
        """Raise `TimeoutError` if no time is left."""
        if self.remaining <= 0:
            raise TimeoutError(
                f"the checks worked longer than the {self.seconds:g} s that they may take together: "
                "write a cheaper rubric, or set a RowBudget with more seconds"
            )


# The budget of the rollout that is being checked; None if there is no limit.
current_work_budget: ContextVar[WorkBudget | None] = ContextVar("work_budget", default=None)
