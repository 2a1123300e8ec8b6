"""Pairing: the answers of two runs to the same questions about the same rollouts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assay.identity import hash_of
from assay.lines import CriterionReport
from assay.runs.row import Row
from assay.trust.questions import Answer, Question


class Twice(NamedTuple):
    """One question about one rollout, answered in two runs. None where there was no answer."""

    example: str
    sample: int
    criterion: str
    before: Answer | None
    after: Answer | None


@dataclass(frozen=True)
class Paired:
    """What two runs say about the same completions."""

    answers: tuple[Twice, ...]
    rollouts: int
    """Rollouts that both runs have, with the same completion."""
    changed: int
    """Rollouts that both have with another completion: they say nothing about the judge."""
    only_one: int
    """Rollouts that one of the runs does not have."""


def pair_answers(
    before: Iterable[Row], after: Iterable[Row], questions: Mapping[str, Question]
) -> Paired:
    """Put the judge's answers in two runs side by side, where the rollout is the same."""
    seen = {row.key: (_print(row), _answers(row, questions)) for row in before}
    answers: list[Twice] = []
    rollouts = changed = strangers = 0
    for row in after:
        was = seen.pop(row.key, None)
        if was is None:
            strangers += 1
        elif was[0] != _print(row):
            changed += 1
        else:
            rollouts += 1
            now = _answers(row, questions)
            names = [name for name in was[1] if name in now]
            answers += [Twice(*row.key, name, was[1][name], now[name]) for name in names]
    return Paired(tuple(answers), rollouts, changed, strangers + len(seen))


def _print(row: Row) -> str:
    return hash_of(row.fields.get("completion"))


def _answers(row: Row, questions: Mapping[str, Question]) -> dict[str, Answer | None]:
    lines: Iterable[CriterionReport] = row.report.lines
    return {
        line.name: questions[line.name].answered(line) for line in lines if line.name in questions
    }
