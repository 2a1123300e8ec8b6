"""Carry out an evaluation: from examples and a model to results."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from assay import __version__
from assay.engine import logging_once
from assay.envs.evaluator import Evaluator, Rolls
from assay.envs.examples import Example
from assay.envs.keeping import fingerprint, keeping
from assay.envs.options import Settings
from assay.envs.results import Results
from assay.envs.rows import outputs_of
from assay.envs.speaker import Speaker
from assay.envs.work import Job, jobs_of
from assay.models import budget
from assay.rubric import Rubric
from assay.runs import RunAbout, Summary
from assay.runs.metadata import judge_of
from assay.types import State


class Evaluated(Rolls, Protocol):
    """What is needed of an environment to evaluate it."""

    env_id: str

    @property
    def scoring(self) -> Rubric | None:
        """What scores its rollouts; None when nothing does."""
        ...


async def carry_out(
    environment: Evaluated,
    examples: Sequence[Example],
    speaker: Speaker,
    settings: Settings,
    *,
    data: Sequence[Example],
) -> Results:
    """Ask the model about every example, score what it says, and keep the rows if a folder is named.

    `data` is all there is to ask about, by which a run is known again when more of it is asked.
    """
    started = time.monotonic()
    rubric = environment.scoring
    about = _about(environment, data, speaker, settings, rubric)
    jobs = jobs_of(examples, times=settings.rollouts_per_example)
    with budget() as ledger, logging_once(), keeping(settings, about, len(jobs), ledger) as keep:
        to_do = keep.restore(jobs)
        await Evaluator(environment, rubric, speaker, settings, keep).run(to_do)
        summary = keep.finish(jobs)
    done = [job for job in jobs if job.row is not None]
    metadata = {
        "env_id": environment.env_id,
        "model": speaker.name,
        "base_url": speaker.base_url,
        "num_examples": len({job.key[0] for job in jobs}),
        "rollouts_per_example": settings.rollouts_per_example,
        "sampling_args": speaker.sampling_args,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "time_ms": 1000 * (time.monotonic() - started),
        **_outcome(done, summary),
        "path_to_save": None if settings.run is None else str(settings.run),
        "version_info": {"assay": __version__},
    }
    states = [job.state or State() for job in done]
    return Results(list(outputs_of(done)), states, metadata, summary)


def _about(
    environment: Evaluated,
    data: Sequence[Example],
    speaker: Speaker,
    settings: Settings,
    rubric: Rubric | None,
) -> RunAbout:
    """What run.json says, where one is written."""
    if settings.run is None:
        return RunAbout.of("evaluate")
    return RunAbout.of(
        "evaluate",
        rubric=rubric,
        judge=None if rubric is None else judge_of(rubric, settings.grader),
        model=speaker.name,
        config={"environment": type(environment).__name__, "sampling_args": speaker.sampling_args},
        options={
            "rollouts_per_example": settings.rollouts_per_example,
            "max_concurrent": settings.max_concurrent,
        },
        data={"rows": len(data), "fingerprint": fingerprint(data)},
    )


def _outcome(jobs: Sequence[Job], summary: Summary) -> dict[str, Any]:
    """What went wrong, and then the means over the rest."""
    count = len(jobs)
    return {
        "num_rollouts": count,
        "num_errors": summary.failed,
        "num_unscored": summary.unscored - summary.failed,
        "errors": dict(summary.errors),
        "avg_reward": summary.reward.mean,
        "avg_metrics": {name: line.value.mean for name, line in summary.criteria.items()},
        "avg_error": summary.failed / count if count else 0.0,
        "usage": {
            "input_tokens": summary.spent.prompt,
            "output_tokens": summary.spent.completion,
        },
        "cost": summary.spent.cost,
    }
