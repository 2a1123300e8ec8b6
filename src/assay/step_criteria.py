"""Ask criteria about the steps of a rollout, and compute the rewards of its turns.

A criterion is about steps if its `scope` is `step` or `call`, or if it credits the steps that its
reason cites. A rubric without such criteria never runs this code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from assay.criterion import Criterion
from assay.errors import JudgeError, RubricError
from assay.graders.judge_input import JudgeInput
from assay.graders.prompt_text import system_prompt
from assay.graders.verdicts import check_score
from assay.report import Answer, EvaluationReport, Score
from assay.rollout import Rollout
from assay.trajectory import (
    TrajectoryStep,
    assign_to_turns,
    combine_steps,
    cut_at_steps,
    read_steps,
)

# A check gets all messages up to its step, so the cost grows with the square of this number.
MAX_STEPS = 3000


def is_about_steps(criterion: Criterion) -> bool:
    """Return whether a criterion asks about steps or credits the steps that its reason cites."""
    return criterion.scope != "rollout" or criterion.credit != "rollout"


def about_one_step(criterion: Criterion) -> Criterion:
    """Return the question that a criterion asks about each single step."""
    return criterion.with_fields(scope="rollout", combine="all", when=())


def split_into_steps(rollout: Rollout, criterion: Criterion) -> Iterator[tuple[str, Rollout]]:
    """Return an iterator over the address of each step, with the rollout up to that step.

    The rollouts are made one at a time: each has all messages before its step, so all of them
    together may take much memory. Raises RubricError at once if there are too many steps.
    """
    steps = read_steps(rollout.fields, criterion.scope)
    if len(steps) > MAX_STEPS:
        raise RubricError(
            f"the rollout has {len(steps):,} steps, but a check is asked about at most "
            f"{MAX_STEPS:,}: shorten the rollout, or ask about the whole of it"
        )
    fields_at_steps = cut_at_steps(rollout.fields, steps)
    return (
        (step.address, Rollout.from_fields(fields, rollout.state))
        for step, fields in zip(steps, fields_at_steps, strict=True)
    )


def questions_by_step(
    criterion: Criterion, fields: Mapping[str, Any], judge_input: JudgeInput
) -> dict[str, Criterion]:
    """Return what a judge is asked about each step, by the address of the step.

    A criterion about the whole rollout gives one question, under the address "". Every question
    shows the judge the same text, so that the prompts share a prefix. Raises JudgeError if the
    judge is not shown one of the steps.
    """
    if criterion.scope == "rollout":
        return {"": criterion}
    steps = read_steps(fields, criterion.scope)
    question_hash = criterion.question_hash
    questions: dict[str, Criterion] = {}
    for step in steps:
        _raise_if_hidden(criterion, step, steps, judge_input)
        has_address = bool(judge_input.parts)  # a single reply is shown without one
        question = _make_question(criterion, step.address, has_address)
        # Caches and graders have to know which step the question is about.
        question.memo["question_hash"] = f"{question_hash}@{step.address}"
        if "template_hash" in criterion.memo:
            question.memo["template_hash"] = f"{criterion.memo['template_hash']}@{step.address}"
        question.memo["step"] = step.address
        questions[step.address] = question
    return questions


def _make_question(criterion: Criterion, address: str, has_address: bool) -> Criterion:
    """Return the question about one step, as an ordinary criterion of the whole rollout."""
    requirement = criterion.requirement
    if has_address:
        address_line = system_prompt("step").format(address=address)
        requirement = f"{requirement}\n\n{address_line}"
    return criterion.with_fields(
        requirement=requirement,
        name=f"{criterion.name}@{address}",
        scope="rollout",
        combine="all",
    )


def _raise_if_hidden(
    criterion: Criterion,
    step: TrajectoryStep,
    steps: Sequence[TrajectoryStep],
    judge_input: JudgeInput,
) -> None:
    """Raise JudgeError if the judge is not shown this step."""
    if judge_input.parts:
        # A call has an address of its own, a turn has that of its message.
        is_shown = any(step.address in (part.address, part.message) for part in judge_input.parts)
    else:
        # A single reply is shown without an address, so only that turn can be asked about.
        is_shown = len(steps) == 1 and criterion.scope != "call"
    if not is_shown:
        raise JudgeError(
            f"criterion {criterion.name!r} asks about {step.address}, which the judge is not "
            "shown: include it in `shows`, or leave `scope` out"
        )


def join_answers_about_steps(
    criteria: Sequence[Criterion],
    questions: Sequence[Mapping[str, Criterion]],
    scores: Sequence[Score],
) -> list[Score]:
    """Return one score per criterion, from the scores of all its questions.

    `questions` has, for each criterion, its questions by the address of the step. `scores` has one
    score for each of these questions, in the same order.
    """
    joined: list[Score] = []
    start = 0  # of the scores of this criterion
    for criterion, questions_by_address in zip(criteria, questions, strict=True):
        end = start + len(questions_by_address)
        criterion_scores = scores[start:end]
        start = end
        if criterion.scope == "rollout":
            joined.extend(criterion_scores)
        else:
            answers = [check_score(criterion, score) for score in criterion_scores]
            joined.append(combine_steps(criterion, list(questions_by_address), answers))
    return joined


def compute_turn_rewards(
    report: EvaluationReport,
    fields: Mapping[str, Any],
    compute_reward: Callable[[list[Answer]], float | None],
) -> dict[str, float | None]:
    """Return the reward of each turn of the assistant, by the address of the turn.

    The reward of a turn is the reward that the rollout would have if every turn had the answers
    of this one. A criterion that has no answer about the turn keeps its answer about the rollout.
    In an unscored report, every turn is unscored. `compute_reward` returns the reward for a list
    with one answer per criterion.
    """
    turns = [step.address for step in read_steps(fields, "step")]
    if not report.scored or report.answers is None:
        return dict.fromkeys(turns, report.raw_score)
    # Both lists have one entry per criterion.
    rollout_answers: list[Answer] = []
    answers_by_turn: list[Mapping[str, Answer]] = []
    for criterion, line in zip(report.criteria, report.lines, strict=True):
        rollout_answers.append(line.as_score)
        answers_by_turn.append(assign_to_turns(criterion, line, turns))
    rewards: dict[str, float | None] = {}
    for turn in turns:
        turn_answers: list[Answer] = []
        for rollout_answer, by_turn in zip(rollout_answers, answers_by_turn, strict=True):
            turn_answers.append(by_turn.get(turn, rollout_answer))
        rewards[turn] = compute_reward(turn_answers)
    return rewards
