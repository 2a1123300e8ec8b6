"""Programs that tests run in Ray: `python ray_programs.py score|judged|stage ROWS FOLDER`."""

import asyncio
import json
import sys
import time

from assay import PerCriterionGrader, Rubric
from assay.backends import RayTasks, RubricStage, score_shards
from assay.models import Limits, model_of
from assay.testing import ModelServer


def slow_check(completion):
    time.sleep(0.05)
    if completion.endswith("7"):
        raise ConnectionError("away")
    return len(completion) / 8


def make_rubric():
    return Rubric([slow_check]), None


class JudgedRubricMaker:
    """A rubric that a server judges, with at most three calls at a time."""

    def __init__(self, url):
        self.url = url

    def __call__(self):
        model = model_of(self.url, limits=Limits(concurrency=3))
        return Rubric.from_dict([{"requirement": "x"}]), PerCriterionGrader(model=model)


def score(rows, folder):
    """Score shards as tasks, and resume an interrupted run."""
    summary = score_shards(make_rubric, [rows], folder, backend=RayTasks(), rows=4, resume=True)
    return {"rollouts": summary.rollouts}


def judged(rows, folder):
    """Score with a judge that all tasks call."""

    async def answer(system, user):
        while judge.most_at_once < 3:  # noqa: ASYNC110 - until both tasks have called
            await asyncio.sleep(0.01)
        return "MET"

    with ModelServer(answer, latency=0.02) as judge:
        summary = score_shards(
            JudgedRubricMaker(judge.model), [rows], folder, backend=RayTasks(), rows=10
        )
        return {"scored": summary.scored, "most": judge.most_at_once}


def stage(rows, folder):
    """Score in a pipeline of Ray Data."""
    import ray.data

    ray.init(log_to_driver=False)
    data = ray.data.read_json(rows, lines=True).map_batches(
        RubricStage,
        fn_constructor_args=(make_rubric,),
        batch_format="pyarrow",
        batch_size=10,
        num_cpus=0.5,
        concurrency=2,
    )
    return {"rows": data.take_all()}


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(globals()[program](*arguments)))
