"""Jobs: the rollouts of an evaluation, in groups of one example each, and what came of them."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.envs.examples import Example
from assay.models.budgets import RolloutSpending
from assay.runs.pipeline import Numbering
from assay.runs.row import Key, Row
from assay.runs.spending import NOTHING, Spending
from assay.types import State


@dataclass(slots=True)
class Job:
    """One rollout to do; what follows its group is filled in as it goes."""

    key: Key
    example: Example
    group: "Group"
    number: int
    """Its place among all of them."""
    state: State | None = None
    """What the rollout left behind, once it is over."""
    error: str | None = None
    """Why there is nothing to score."""
    spent: Spending = NOTHING
    """What it asked of models, without its scoring."""
    seconds: float = 0.0
    """How long it took, without its scoring."""
    row: Row | None = None
    """What is kept of it, once it is scored."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The value of every criterion that has one, by name."""
        # Scoring left them in the state; out of the report they would have to be made anew.
        found = self.state.get("metrics") if self.state is not None else None
        return found or {}


@dataclass(slots=True)
class Group:
    """The rollouts of one example, which are scored together."""

    jobs: list[Job] = field(default_factory=list[Job])
    spending: RolloutSpending | None = None
    """What it has asked of models so far, where money is limited and it has begun."""
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def over(self) -> bool:
        """Whether all of them can be scored."""
        return all(job.state is not None for job in self.jobs)


def jobs_of(examples: Iterable[Example], *, times: int = 1) -> list[Job]:
    """Every rollout, in order. An example that comes again, or is to be asked again, is sampled again."""
    jobs: list[Job] = []
    groups: dict[str, Group] = {}
    numbering = Numbering()
    for example in examples:
        own = example.get("sample")
        known = {"example_id": example["example_id"], "sample": own if times == 1 else None}
        for _ in range(times):
            key = numbering.key_of(known)
            group = groups.setdefault(key[0], Group())
            # A column of that name with something else in it is the data set's own affair.
            numbered = own is None or type(own) is int
            job = Job(key, {**example, "sample": key[1]} if numbered else example, group, len(jobs))
            group.jobs.append(job)
            jobs.append(job)
    return jobs
