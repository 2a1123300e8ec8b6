"""Limit how long all checks about one rollout may work together."""

import asyncio
from contextvars import ContextVar


class WorkBudget:
    """How long all checks of one rollout may work together, here and in worker processes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent = 0.0  # seconds that they have worked so far
        # Held during a call in a worker, so that two calls cannot both use the time that is left.
        self.lock = asyncio.Lock()

    @property
    def remaining(self) -> float:
        """Seconds that are left; negative if the checks worked longer than they may."""
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
