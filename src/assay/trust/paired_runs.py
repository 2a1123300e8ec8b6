"""Pair the answers of two runs to the same questions about the same rollouts."""

from collections.abc import Mapping
from typing import NamedTuple

from assay.criterion import hash_json
from assay.errors import TrustError
from assay.runs import Run
from assay.runs.row import Row
from assay.trust.questions import Answer, Question, questions_of


class PairedRuns(NamedTuple):
    """The answers of two runs about the same completions."""

    # Judged criteria that both runs have in the same wording.
    questions: Mapping[str, Question]
    answers: "tuple[TwoAnswers, ...]"
    rollouts: int  # rollouts that both runs have, with the same completion
    # Rollouts that both have with different completions, which say nothing about the judge.
    changed: int
    only_one: int  # rollouts that only one of the runs has


class TwoAnswers(NamedTuple):
    """One question about one rollout, answered in two runs. None where there was no answer."""

    example: str
    sample: int
    criterion: str
    before: Answer | None
    after: Answer | None


def pair_runs(before: Run, after: Run) -> PairedRuns:
    """Pair the judge's answers in two runs; raise `TrustError` if there is nothing in common."""
    questions = _find_common_questions(before, after)
    rows_before = {row.key: _read_row(row, questions) for row in before.rows()}
    answers: list[TwoAnswers] = []
    rollouts = 0  # in both runs, with the same completion
    changed = 0  # in both runs, with different completions
    only_after = 0
    for row in after.rows():
        row_before = rows_before.pop(row.key, None)  # what is left is only in the first run
        if row_before is None:
            only_after += 1
            continue
        row_after = _read_row(row, questions)
        if row_before.completion_hash != row_after.completion_hash:
            changed += 1
            continue
        rollouts += 1
        for name, answer_before in row_before.answers.items():
            if name in row_after.answers:
                pair = TwoAnswers(
                    example=row.example,
                    sample=row.sample,
                    criterion=name,
                    before=answer_before,
                    after=row_after.answers[name],
                )
                answers.append(pair)
    if not rollouts:
        raise TrustError(
            "no rollout is the same in both runs, so a change of the judge cannot be told from a "
            "change of the rollouts: judge the saved rollouts of one run again"
        )
    return PairedRuns(
        questions=questions,
        answers=tuple(answers),
        rollouts=rollouts,
        changed=changed,
        only_one=only_after + len(rows_before),
    )


def _find_common_questions(before: Run, after: Run) -> dict[str, Question]:
    """Return the judged questions that both runs asked in the same wording."""
    questions_before = questions_of(before)
    questions_after = questions_of(after)
    common: dict[str, Question] = {}
    for name, question in questions_before.items():
        other = questions_after.get(name)
        if other is None or not question.judged:
            continue
        have_same_wording = bool(question.guidelines & other.guidelines)  # hashes of wordings
        if have_same_wording:
            common[name] = question
    if not common:
        raise TrustError(
            "the runs have no judged criterion in the same words: compare runs that share one"
        )
    return common


class _RowAnswers(NamedTuple):
    """What a row of a run holds about the questions."""

    completion_hash: str
    answers: dict[str, Answer | None]  # by criterion


def _read_row(row: Row, questions: Mapping[str, Question]) -> _RowAnswers:
    answers: dict[str, Answer | None] = {}
    for line in row.report.lines:
        if line.name in questions:
            answers[line.name] = questions[line.name].read_answer(line)
    return _RowAnswers(hash_json(row.fields.get("completion")), answers)
