"""Filters: what to show of a run, in a line such as `criterion:polite verdict:UNMET -task:math score<0.5`.

Terms that stand next to each other must all hold; a minus before one turns it round. A word that is no
term is looked for in prompt and completion. The page reads the same language in JavaScript, and both are
held to one table of cases.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from assay.errors import AssayError
from assay.wording import did_you_mean

Operator: TypeAlias = Literal[":", "~", "<", "<=", ">", ">=", "=", "has"]

NUMBERS: Final = ("score", "reward", "seconds", "cost", "sample")
WORDS: Final = ("example", "task", "error", "text", "criterion", "verdict", "tag")
FLAGS: Final = ("error", "label", "unscored", "disagreement")
"""Terms that may stand alone: rows that have one."""

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


@dataclass(frozen=True)
class Term:
    """One condition."""

    name: str
    operator: Operator
    value: str
    negated: bool = False


def terms_of(text: str) -> list[Term]:
    """The terms of a filter.

    >>> [term.name for term in terms_of('error -task:math "two words"')]
    ['error', 'task', 'text']
    """
    return [_term(found) for found in _TERM.finditer(text)]


def _term(found: re.Match[str]) -> Term:
    negated = found["minus"] is not None
    words = found["words"] if found["words"] is not None else found["word"]
    if words is not None:
        if found["word"] in FLAGS:
            return Term(words, "has", "", negated)
        return Term("text", "~", words, negated)
    name, operator = found["name"].lower(), found["operator"]
    value = found["quoted"] if found["quoted"] is not None else found["value"]
    if name in NUMBERS and operator in ("<", "<=", ">", ">=", "=", ":"):
        _refuse_no_number(name, value)
        return Term(name, "=" if operator == ":" else operator, value, negated)
    if name in WORDS and operator in (":", "~", "="):
        return Term(name, "~" if operator == "~" or name in ("text", "error") else ":", value, negated)
    known = (*NUMBERS, *WORDS)
    if name in known:
        raise FilterError(f"{name}{operator}{value} cannot be read: {name} is no {_kind(name)}")
    raise FilterError(f"there is no {name!r} to filter by: {did_you_mean(name, known)}")


def _kind(name: str) -> str:
    return "text, so use : or <" if name in NUMBERS else "number, so use : or ~"


def _refuse_no_number(name: str, value: str) -> None:
    try:
        float(value)
    except ValueError:
        raise FilterError(f"{name} is compared with {value!r}: give a number") from None


@dataclass(frozen=True)
class Where:
    """A condition of SQL and what it is filled with."""

    sql: str
    values: tuple[object, ...]


def where(
    terms: Sequence[Term], criteria: Mapping[str, int], tags: Mapping[str, Sequence[int]], shared: int | None = None
) -> Where:
    """The terms over the table `rows`, whose columns `v0`, `v1`, … hold the verdicts of criteria.

    Only the first `shared` criteria have a column; verdicts of the others stand in the table `own`.
    `criterion:` and `verdict:` belong together: one criterion has to have the verdict.
    """
    shared = len(criteria) if shared is None else shared
    named = [term for term in terms if term.name in ("criterion", "tag") and not term.negated]
    columns = list(criteria.values())
    for term in named:
        columns = [c for c in columns if c in _columns(term, criteria, tags)]
    parts: list[str] = []
    values: list[object] = []
    for term in terms:
        if term in named:
            if any(other.name == "verdict" and not other.negated for other in terms):
                continue
            sql, given = _said(columns, shared, len(criteria))
        else:
            sql, given = _condition(term, columns, criteria, tags, shared)
        # What is missing meets no condition, and so meets the opposite of each.
        parts.append(f"({sql}) IS NOT TRUE" if term.negated else f"({sql})")
        values += given
    return Where(" AND ".join(parts) or "1", tuple(values))


def _columns(term: Term, criteria: Mapping[str, int], tags: Mapping[str, Sequence[int]]) -> Sequence[int]:
    if term.name == "tag":
        return tags.get(term.value, ())
    wanted = term.value.lower()
    exact = [place for name, place in criteria.items() if name.lower() == wanted]
    return exact or [place for name, place in criteria.items() if wanted in name.lower()]


def _condition(
    term: Term, columns: Sequence[int], criteria: Mapping[str, int], tags: Mapping[str, Sequence[int]], shared: int
) -> tuple[str, tuple[object, ...]]:
    name, value = term.name, term.value
    if term.operator == "has":
        return _HAS[name], ()
    if name in ("criterion", "tag"):
        return _said(_columns(term, criteria, tags), shared, len(criteria))
    if name == "verdict":
        return _said(columns, shared, len(criteria), value.lower())
    if name in NUMBERS:
        return f"{name} {term.operator} ?", (float(value),)
    if term.operator == "~":
        return f"instr({_SEARCHED.get(name, f'lower({name})')}, ?) > 0", (value.lower(),)
    return f"lower({name}) = ?", (value.lower(),)


def _said(
    columns: Sequence[int], shared: int, criteria: int, verdict: str | None = None
) -> tuple[str, tuple[object, ...]]:
    """That one of these criteria has a verdict, or this one."""
    test = "IS NOT NULL" if verdict is None else "= ?"
    conditions = [f"lower(v{c}) {test}" for c in columns if c < shared]
    own = [str(c) for c in columns if c >= shared]
    if own:
        among = "" if len(own) == criteria - shared else f" AND criterion IN ({', '.join(own)})"
        conditions.append(f"EXISTS (SELECT 1 FROM own WHERE own.place = rows.place{among} AND lower(said) {test})")
    return _any_of(conditions), (() if verdict is None else (verdict,) * len(conditions))


_SEARCHED: Final = {
    # Texts are kept apart and in small letters: a table without them is read in a tenth of the time.
    "text": "(SELECT text FROM texts WHERE texts.place = rows.place)",
    "error": "lower(errors)",
}

_HAS: Final = {
    "error": "errors <> ''",
    "label": "labelled",
    "unscored": "NOT scored",
    "disagreement": "disagreement > 0",
}


def _any_of(conditions: Sequence[str]) -> str:
    return " OR ".join(conditions) or "0"
