"""Questions: what can be answered to a criterion, and how a given answer is read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from assay.criterion import BINARY
from assay.lines import CriterionReport
from assay.score import NOT_APPLICABLE
from assay.wording import shown

Answer: TypeAlias = str | float
"""One of the choices, or `N/A`; a number where there are no choices."""

_BOOLEANS = {"true": 1.0, "false": 0.0}
_NEAR = 1e-9


@dataclass(frozen=True)
class Question:
    """What is known of a criterion when people and judge are held against each other."""

    name: str
    choices: tuple[str, ...] = BINARY
    """Worst to best; none when the answers are numbers."""
    guidelines: frozenset[str] = frozenset()
    """The hashes that its wording goes by; none when they are not known."""
    judged: bool = True
    """Whether a model answers, rather than code."""
    counts: bool = True
    """Whether its answers are part of the score."""

    @cached_property
    def worths(self) -> dict[str, float]:
        """What each choice is worth, from 0 for the worst to 1 for the best."""
        return {choice: rank / (len(self.choices) - 1) for rank, choice in enumerate(self.choices)}

    @cached_property
    def _spelled(self) -> dict[str, str]:
        known = (*self.choices, NOT_APPLICABLE)
        return {choice.strip().casefold(): choice for choice in known}

    def answer(self, given: object) -> Answer:
        """The answer that was meant: a choice however it is spelled, or the number that it is worth.

        >>> question = Question("polite")
        >>> question.answer(" met "), question.answer(True), question.answer("0"), question.answer("n/a")
        ('MET', 'MET', 'UNMET', 'N/A')
        """
        choice = self._spelled.get(_text(given).strip().casefold())
        if choice is not None:
            return choice
        number = _number(given)
        if number is None or (self.choices and self.choice_worth(number) is None):
            raise ValueError(f"{shown(given)} is no answer: {self._on_offer()}")
        return self.choice_worth(number) or number

    def answered(self, line: CriterionReport) -> Answer | None:
        """What the judge answered on this line of a report; None when there is no answer."""
        if line.error is not None or not line.asked:
            return None
        if line.verdict is not None and (self.choices or not line.applies):
            return line.verdict
        if line.value is None:
            return None
        return self.choice_worth(line.value) or line.value

    def worth(self, answer: Answer) -> float | None:
        """What an answer is worth; None for `N/A`."""
        return self.worths.get(answer) if isinstance(answer, str) else answer

    def choice_worth(self, number: float) -> str | None:
        """The choice that is worth this number, if any is."""
        near = (choice for choice, worth in self.worths.items() if abs(worth - number) < _NEAR)
        return next(near, None)

    def _on_offer(self) -> str:
        return f"give one of {', '.join(self.choices)}" if self.choices else "give a number"


def takes_numbers(choices: Sequence[str], line: CriterionReport) -> bool:
    """Whether this line shows that the criterion is answered by numbers, and not by its choices."""
    if line.value is None or line.verdict is not None:
        return False
    steps = line.value * (len(choices) - 1)
    return not (0 <= line.value <= 1 and abs(steps - round(steps)) < _NEAR)


def _text(given: object) -> str:
    is_whole = isinstance(given, float) and given.is_integer()
    return str(int(given)) if is_whole and isinstance(given, float) else str(given)


def _number(given: object) -> float | None:
    if isinstance(given, str):
        word = given.strip().casefold()
        if word in _BOOLEANS:
            return _BOOLEANS[word]
        try:
            number = float(word)
        except ValueError:
            return None
    elif isinstance(given, int | float):
        number = float(given)
    else:
        return None
    return number if math.isfinite(number) else None


def pooled(questions: Iterable[Question]) -> tuple[tuple[str, ...], bool]:
    """The choices of all these questions together, and whether they have one order.

    >>> pooled([Question("a"), Question("b")])
    (('UNMET', 'MET'), True)
    """
    scales = list(dict.fromkeys(question.choices for question in questions))
    if len(scales) == 1:
        return scales[0], True
    return tuple(dict.fromkeys(choice for choices in scales for choice in choices)), False
