"""Rewards: the number that a trainer gets for a report, or what stands in its place."""

from collections.abc import Sequence

from assay.aggregation import Fallback, Policy, UnscoredError
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.refusals import Refusal

Numbers = list[float | None]


def filled(numbers: Numbers, rollouts: Sequence[Rollout], unscored: Policy) -> Numbers:
    """The numbers, with something in the place of each that is missing; a prompt makes a group."""
    if None not in numbers:
        return numbers
    groups = [repr(rollout.prompt) for rollout in rollouts]
    try:
        return Fallback(unscored).fill(numbers, groups)
    except UnscoredError as error:
        raise Refusal(422, str(error)) from None


def refuse_unscored(reports: Sequence[EvaluationReport]) -> None:
    """Refuse to give numbers for rollouts that have none, and say why they have none."""
    missing = [place for place, report in enumerate(reports) if not report.scored]
    if missing:
        errors = reports[missing[0]].why_unscored
        listed = "; ".join(f"{name}: {error}" for name, error in list(errors.items())[:3])
        raise Refusal(
            422,
            f"{len(missing)} of {len(reports)} rollouts have no score, and this route takes numbers "
            f"only (rollout {missing[0]}: {listed}): ask again, or start the server with --unscored "
            "zero, group_mean or drop",
        )
