"""A model asked, and its answers scored."""

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from assay.cli.eval import Asking
from assay.cli.judges import judging_with, see_to_engine
from assay.cli.options import Input, Judging, Rubrics, Saving, Showing
from assay.cli.runner import Conditions, Running, Work, say
from assay.cli.sources import rubric_of
from assay.envs import SingleTurnEnv
from assay.runs import Run, Summary
from assay.tables import TableError, rows_of


def evaluate(
    given: Input,
    asking: Asking,
    rubrics: Rubrics,
    saving: Saving,
    judging: Judging,
    showing: Showing,
) -> int:
    """Ask and score what is given, print it, and give the exit code."""
    rubric = rubric_of(rubrics)
    # A path is handed on as it is, so that errors name the file and the line.
    data = rows_of(given.data, mapping=dict(given.mapping)) if given.mapping else given.data
    environment = SingleTurnEnv(
        eval_dataset=data, rubric=rubric, system_prompt=asking.system_prompt
    )
    if not environment.eval_dataset:
        raise TableError(f"{given.data} has no rows: there is nothing to ask")
    names = [criterion.name for criterion in rubric.criteria]
    running = Running(given.data, names, judging, saving, showing)
    if not judging.dry_run:
        see_to_engine(asking.model, quiet=showing.quiet)
    with judging_with(judging, rubric, quiet=showing.quiet) as grader:
        if grader is not None and judging.judge == asking.model:
            say(f"{asking.model} judges its own answers: name another with --judge", showing)
        work = _work(environment, given, asking, saving)
        return (running.rehearse if judging.dry_run else running.carry_out)(work, grader)


def _work(environment: SingleTurnEnv, given: Input, asking: Asking, saving: Saving) -> Work:
    async def work(under: Conditions) -> Summary:
        if under.folder is not None:
            return await asked(under, under.folder)
        # The rollouts of a run that is not kept are printed from a folder that is not kept.
        with TemporaryDirectory(prefix="assay-") as folder:
            summary = await asked(under, folder)
            if under.on_row is not None:
                for row in Run.open(folder).rows():
                    under.on_row(row)
            return summary

    async def asked(under: Conditions, folder: str) -> Summary:
        results = await environment.evaluate(
            model=asking.model,
            num_examples=-1 if given.limit is None else given.limit,
            rollouts_per_example=asking.samples,
            max_concurrent=saving.concurrency,
            sampling_args=_sampling(asking),
            grader=under.grader,
            run=folder,
            exchanges=saving.exchanges,
            resume=under.resume,
            on_progress=under.on_progress,
            stopping=under.stopping,
        )
        return results.summary

    return work


def _sampling(asking: Asking) -> Mapping[str, Any]:
    said = {"temperature": asking.temperature, "max_tokens": asking.max_tokens}
    return {name: value for name, value in said.items() if value is not None}
