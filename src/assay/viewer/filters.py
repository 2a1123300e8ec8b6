"""Filters say what to show of a run, in a line such as `criterion:polite verdict:UNMET -task:math score<0.5`.

The page reads the same language in JavaScript, and both are held to one table of cases.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from assay.errors import AssayError
from assay.wording import suggest_word

NUMBERS: Final = ("score", "reward", "seconds", "cost", "sample")
WORDS: Final = ("example", "task", "error", "text", "criterion", "verdict", "tag")
FLAGS: Final = {
    "error": "errors <> ''",
    "label": "labelled",
    "unscored": "NOT scored",
    "disagreement": "disagreement > 0",
}  # terms that may stand alone: rows that have one
_SEARCHED: Final = {
    # Texts are kept apart and in small letters: a table without them is read in a tenth of the time.
    "text": "(SELECT text FROM texts WHERE texts.place = rows.place)",
    "error": "lower(errors)",
}
_TERM = re.compile(
    r"""(?P<minus>-)?
    (?:
        (?P<name>[A-Za-z_]+)(?P<operator><=|>=|[:~<>=])(?:"(?P<quoted>[^"]*)"?|(?P<value>[^\s"]*))
      | "(?P<words>[^"]*)"?
      | (?P<word>\S+)
    )""",
    re.VERBOSE,
)


class FilterError(AssayError, ValueError):
    """A filter that cannot be read."""


class Term(NamedTuple):
    """One condition."""

    name: str
    operator: str  # `has` for a flag, `:` for equal words, `~` for a part of them, and those that compare numbers
    value: str
    negated: bool


def terms_of(text: str) -> list[Term]:
    """The terms of a filter, which must all hold."""
    return [_term(found) for found in _TERM.finditer(text)]


def _term(found: re.Match[str]) -> Term:
    negated = found["minus"] is not None
    words = found["words"] if found["words"] is not None else found["word"]
    if words is not None:
        is_flag = found["word"] in FLAGS
        return Term(words, "has", "", negated) if is_flag else Term("text", "~", words, negated)
    name, operator = found["name"].lower(), found["operator"]
    value = found["quoted"] if found["quoted"] is not None else found["value"]
    if name in NUMBERS and operator != "~":
        try:
            float(value)
        except ValueError:
            raise FilterError(f"{name} is compared with {value!r}: give a number") from None
        return Term(name, "=" if operator == ":" else operator, value, negated)
    if name in WORDS and operator in (":", "~", "="):
        return Term(
            name, "~" if operator == "~" or name in ("text", "error") else ":", value, negated
        )
    if name not in (*NUMBERS, *WORDS):
        raise FilterError(
            f"there is no {name!r} to filter by: {suggest_word(name, (*NUMBERS, *WORDS))}"
        )
    kind = "text, so use : or <" if name in NUMBERS else "number, so use : or ~"
    raise FilterError(f"{name}{operator}{value} cannot be read: {name} is no {kind}")


def where(
    terms: Sequence[Term], criteria: Collection[str], tags: Mapping[str, Collection[str]]
) -> tuple[str, list[object]]:
    """A condition of SQL for the terms over the table `rows`, and what it is filled with.

    `criterion:` and `verdict:` belong together: one criterion has to have the verdict.
    """

    def named_by(term: Term) -> Collection[str]:
        if term.name == "tag":
            return tags.get(term.value, ())
        wanted = term.value.lower()
        exact = [name for name in criteria if name.lower() == wanted]
        return exact or [name for name in criteria if wanted in name.lower()]

    def said(among: Collection[str], verdict: str | None = None) -> tuple[str, list[object]]:
        """That one of these criteria has a verdict, or this one."""
        test = "key IN (SELECT value FROM json_each(?))" + (
            "" if verdict is None else " AND lower(value) = ?"
        )
        values = [json.dumps(list(among)), *([] if verdict is None else [verdict])]
        return f"EXISTS (SELECT 1 FROM json_each(rows.verdicts) WHERE {test})", list(values)

    def condition(term: Term) -> tuple[str, list[object]]:
        name, value = term.name, term.value.lower()
        if term.operator == "has":
            return FLAGS[name], []
        if name in ("criterion", "tag"):
            return said(asked if term in named else named_by(term))
        if name == "verdict":
            return said(asked, value)
        if name in NUMBERS:
            return f"{name} {term.operator} ?", [float(value)]
        if term.operator == "~":
            return f"instr({_SEARCHED.get(name, f'lower({name})')}, ?) > 0", [value]
        return f"lower({name}) = ?", [value]

    named = [term for term in terms if term.name in ("criterion", "tag") and not term.negated]
    asked = list(criteria)
    for term in named:
        asked = [name for name in asked if name in named_by(term)]
    asks_verdict = any(term.name == "verdict" and not term.negated for term in terms)
    parts: list[str] = []
    values: list[object] = []
    for term in terms:
        if term in named and asks_verdict:
            continue
        sql, given = condition(term)
        # What is missing meets no condition, and so meets the opposite of each.
        parts.append(f"({sql}) IS NOT TRUE" if term.negated else f"({sql})")
        values += given
    return " AND ".join(parts) or "1", values
