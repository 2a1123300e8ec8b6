"""Replies: the score and the reason in what a judge wrote, read through a parser."""

from typing import Any

from assay.errors import JudgeError
from assay.graders.prompting import system_prompt
from assay.models.structured import without_thoughts
from assay.parsers import Parser, XMLParser
from assay.presets.ratings import SHOWN, Points, read_rating
from assay.report import Score
from assay.wording import short_repr

SCORES = ("score", "rating", "grade", "points", "verdict", "judgment", "judgement", "decision")
"""What a field with the score is called, most likely first; else the parser's answer, or its first."""


def form_of(parser: Parser) -> str:
    """How a judge is told to reply, for this parser to read it; nothing for one without a form."""
    if not isinstance(parser, XMLParser):
        return ""
    return f"{system_prompt('judge_form')}\n\n{parser.get_format_str()}"


def rated(reply: str, parser: Parser, points: Points | None) -> Score:
    """The score in a reply, 0 to 1, with its reason. Raises `JudgeError` when there is none."""
    answer = without_thoughts(reply)
    if isinstance(parser, XMLParser):
        return _of_fields(answer, parser, points)
    found: Any = parser.parse(answer)
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = f"{found:f}"
    if not isinstance(found, str):
        raise JudgeError(f"the parser reads {short_repr(found)} out of the reply {reply[:SHOWN]!r}")
    return Score(read_rating(found, points), answer.strip())


def _of_fields(answer: str, parser: XMLParser, points: Points | None) -> Score:
    names = [name for names in parser.fields for name in names]
    parsed = vars(parser.parse(answer))
    wanted = [*SCORES, parser.answer_field, names[0]]
    offered = [name for name in wanted if parsed.get(name)]
    if not offered:
        if any(f"<{name}>" in answer for name in names):
            raise JudgeError(
                f"the reply has no {_first(wanted, names)!r} in its tags: {answer[:SHOWN]!r}"
            )
        # A judge that leaves every tag out may still have said something clear.
        return Score(read_rating(answer, points), answer.strip())
    value = read_rating(parsed[offered[0]], points)
    for other in getattr(parser.parse_all(answer), offered[0]):
        _refuse_another(other, value, answer, points)
    reasons = [text for name, text in parsed.items() if text and name != offered[0]]
    return Score(value, "\n".join(reasons))


def _refuse_another(other: str, value: float, answer: str, points: Points | None) -> None:
    """Raise `JudgeError` when another tag of the same name gives another score."""
    try:
        found = read_rating(other, points)
    except JudgeError:
        return
    if found != value:
        raise JudgeError(f"the reply gives two different verdicts: {answer[:SHOWN]!r}")


def _first(wanted: list[str], names: list[str]) -> str:
    return next(name for name in wanted if name in names)
