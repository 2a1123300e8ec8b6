"""Rows and outputs: what is kept of a rollout, and how it is given to the caller."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.aggregation import advantages
from assay.envs.work import Job
from assay.models import Ledger
from assay.report import EvaluationReport
from assay.runs import Row, Spending
from assay.runs.spending import NOTHING
from assay.types import State

KEPT = ("is_truncated", "stop_condition", "tool_failures")
"""Fields of a state that are kept with every rollout that has them."""


class Scored(NamedTuple):
    """What scoring gave for one rollout, and what it took."""

    report: EvaluationReport
    spent: Spending = NOTHING
    seconds: float = 0.0
    exchanges: tuple[Mapping[str, Any], ...] = ()
    """What judges were asked and said about its group, on the first of it."""


UNSCORED = Scored(EvaluationReport())


def row_of(job: Job, scored: Scored, columns: Sequence[str]) -> Row:
    """What is kept of a rollout."""
    state = job.state or State()
    fields = {**job.example, "completion": state.get("completion")}
    fields |= {name: state[name] for name in (*KEPT, *columns) if state.get(name)}
    replies = state.get("responses")
    return Row(
        *job.key,
        fields=fields,
        report=scored.report,
        error=job.error,
        spent=job.spent if scored.spent is NOTHING else job.spent + scored.spent,
        timing={"generation": round(job.seconds, 6), "scoring": round(scored.seconds, 6)},
        model=replies[-1].model or None if replies else None,
        exchanges=scored.exchanges,
        number=job.number,
    )


def state_of(row: Row) -> State:
    """The state of a rollout that was kept earlier, as far as it was kept."""
    fields = dict(row.fields)
    return State(
        input=fields,
        completion=fields.pop("completion", None),
        reward=row.report.raw_score,
        metrics=row.report.metrics,
        error=row.error,
    )


def shares(ledger: Ledger, count: int) -> list[Spending]:
    """What a group took, as one part a rollout; the parts add up."""
    if not ledger.calls and not ledger.hits:
        return [NOTHING] * count
    spent = Spending.of(ledger)
    names = ("calls", "hits", "prompt", "completion", "unpriced")
    parts = {name: _parts(getattr(spent, name), count) for name in names}
    cost = (spent.cost or 0.0) / count
    return [
        Spending(cost=cost, **{name: part[place] for name, part in parts.items()})
        for place in range(count)
    ]


def _parts(number: int, count: int) -> list[int]:
    each, rest = divmod(number, count)
    return [each + (place < rest) for place in range(count)]


def outputs_of(jobs: Sequence[Job]) -> Iterator[dict[str, Any]]:
    """One dict a rollout that is done, in order; every metric stands under its own name too."""
    compared = {id(job.group): _advantages(job) for job in jobs if len(job.group.jobs) > 1}
    for job in jobs:
        if job.row is not None:
            output = _output(job.row, job.metrics)
            if id(job.group) in compared:
                output["advantage"] = compared[id(job.group)].get(job.key[1])
            named = {n: v for n, v in output["metrics"].items() if n not in output}
            yield output | named


def _advantages(job: Job) -> dict[int, float | None]:
    """Of each rollout in a job's group, by sample."""
    rows = [other.row for other in job.group.jobs if other.row is not None]
    worth = advantages([row.reward for row in rows])
    return {row.sample: advantage for row, advantage in zip(rows, worth, strict=True)}


def _output(row: Row, metrics: Mapping[str, float]) -> dict[str, Any]:
    fields = dict(row.fields)
    unscored = row.error is None and not row.scored
    return {
        "example_id": fields.pop("example_id", row.example),
        "sample": row.sample,
        "prompt": fields.pop("prompt", None),
        "completion": fields.pop("completion", None),
        "answer": fields.pop("answer", None),
        "task": fields.pop("task", None),
        "info": fields.pop("info", None),
        "reward": row.reward,
        **({"partial_reward": row.report.partial_reward} if unscored else {}),
        "score": row.score,
        "metrics": metrics,
        "errors": row.errors,
        "error": row.error,
        "is_truncated": fields.pop("is_truncated", False),
        "stop_condition": fields.pop("stop_condition", None),
        "timing": {f"{part}_ms": 1000 * seconds for part, seconds in row.timing.items()},
        "token_usage": {"input_tokens": row.spent.prompt, "output_tokens": row.spent.completion},
        "cost": row.spent.cost,
        "model": row.model,
        **{name: value for name, value in fields.items() if name != "sample"},
    }
