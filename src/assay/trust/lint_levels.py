"""Levels: whether a scale of choices says what each of them means, and runs from worst to best."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from assay.criterion import BINARY, Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_lexicon import pattern, words
from assay.trust.lint_text import Text

_RATING = pattern(
    r"^\W*(?:rate|score|grade|assign|evaluate|judge|give)\b.{0,200}?"
    r"(?:\bon a scale\b|\bout of (?:5|7|10|100|five|seven|ten)\b|\bfrom [01] to \d+\b"
    r"|\b[01]\s*[-–]\s*(?:5|7|10|100)\b)"
)
_DESCRIBING = 3
"""Words from which a label says itself what it means."""


def explains_levels(criterion: Criterion, text: Text) -> bool:
    """Whether it offers more than two choices, and says what each of them means."""
    return len(criterion.choices) > 2 and not _without_meaning(criterion.choices, text.said)


def unanchored(criterion: Criterion, text: Text) -> Iterator[Hit]:
    """Levels without a description of each."""
    if len(criterion.choices) == 2:
        if criterion.choices == BINARY and _RATING.search(text.plain):
            yield Hit(
                "R003",
                "it asks for a rating, and the judge may only say MET or UNMET",
                "list the levels under `choices`, and say in the requirement what each one means",
            )
        return
    missing = _without_meaning(criterion.choices, text.said)
    if missing:
        shown = ", ".join(f"'{label}'" for label in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield Hit(
            "R003",
            f"nothing says when a response deserves {shown}{more}",
            "describe each level, in the requirement or in the label itself",
            "choices",
        )


def _without_meaning(choices: Sequence[str], said: str) -> list[str]:
    return [
        label
        for label in choices
        if len(label.split()) < _DESCRIBING and not _described(label, said)
    ]


def _described(label: str, said: str) -> bool:
    """Whether the label stands in the requirement with something said about it."""
    with_words = rf"(?<!\w){re.escape(label.strip())}(?!\w)\W*\w+\W+\w+"
    return re.search(with_words, said, re.IGNORECASE) is not None


_BEST: Final = words(
    "met yes true pass passed good great excellent perfect best full fully complete correct strong high always "
    "outstanding"
)
_WORST: Final = words(
    "unmet no false fail failed bad poor terrible worst none incomplete incorrect wrong weak low never "
    "unacceptable inadequate"
)


def upside_down(criterion: Criterion, *, asks_for_fault: bool) -> Iterator[Hit]:
    """Choices from best to worst, which make the best response worth nothing.

    For a fault that is asked about as a question, `yes` is the worst answer, and may come first.
    """
    choices = [choice.strip().casefold() for choice in criterion.choices]
    if not _runs_down(choices) or (asks_for_fault and choices[0] not in ("met", "pass", "passed")):
        return
    first, last = criterion.choices[0], criterion.choices[-1]
    yield Hit(
        "R011",
        f"the choices run from '{first}' to '{last}', and the first one listed is worth 0",
        "list the choices from worst to best",
        "choices",
        # Of a question it is not certain which answer is the better one.
        "warning" if choices[0] in ("yes", "true") else None,
    )


def _runs_down(choices: Sequence[str]) -> bool:
    if all(re.fullmatch(r"\d{1,4}", choice) for choice in choices):
        numbers = [int(choice) for choice in choices]
        return numbers == sorted(numbers, reverse=True)
    return choices[0] in _BEST and choices[-1] in _WORST
