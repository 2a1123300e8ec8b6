"""Filters choose rollouts of a run, as in `criterion:polite verdict:UNMET -task:math score<0.5`.

`parse_filter` reads a filter, and `build_condition` turns it into SQL over the tables of a run. The
page reads the same language in JavaScript (`page/filters.js`); both are tested with
`tests/cases/run_filters.jsonl`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from assay.errors import AssayError
from assay.wording import suggest_word

NUMBERS: Final = ("score", "reward", "seconds", "cost", "sample")
WORDS: Final = ("example", "task", "error", "text", "criterion", "verdict", "tag")

# What a word stands for if it is a whole term.
_FLAGS: Final = {
    "error": "error IS NOT NULL",
    "label": "is_labelled(example, sample)",
    "unscored": "score IS NULL AND reward IS NULL",
    "disagreement": "EXISTS (SELECT 1 FROM verdicts WHERE rollout = rollouts.id AND disagreement > 0)",
}
# `is_labelled`, `lower_text`, `searchable_text` and `short_answer` are functions that `RolloutTable`
# adds to SQLite, whose own `lower` knows only the letters of English.
# What is searched for a part of a text, in lower case.
_SEARCHED_TEXTS: Final = {
    "text": "searchable_text(prompt, completion)",
    "error": "lower_text(error)",  # a line per criterion, as `name: message`
}
_TERM: Final = re.compile(
    r"""(?P<minus>-)?
    (?:
        (?P<name>[A-Za-z_]+)(?P<operator><=|>=|[:~<>=])(?:"(?P<quoted>[^"]*)"?|(?P<value>[^\s"]*))
      | "(?P<phrase>[^"]*)"?
      | (?P<word>\S+)
    )""",
    re.VERBOSE,
)


class FilterError(AssayError, ValueError):
    """A filter cannot be read; the message says why."""


class Term(NamedTuple):
    """One condition of a filter."""

    name: str
    # "has" for a flag, ":" for the same words, "~" for a part of them, and "<", "<=", ">", ">="
    # and "=" for numbers.
    operator: str
    value: str
    negated: bool


class SqlCondition(NamedTuple):
    """A condition of SQL, and the values of its question marks."""

    sql: str
    values: Sequence[object]


def parse_filter(text: str) -> list[Term]:
    """Return the terms of a filter, which must all hold. Raise `FilterError` if one is unreadable."""
    return [_read_term(match) for match in _TERM.finditer(text)]


def _read_term(match: re.Match[str]) -> Term:
    """Return the term in a match of `_TERM`: a flag (`unscored`), words to search for, or `name:value`."""
    negated = match["minus"] is not None
    word = match["word"]
    phrase = match["phrase"]  # words in quotes
    if word in _FLAGS:
        return Term(word, "has", "", negated)
    if word is not None:
        return Term("text", "~", word, negated)
    if phrase is not None:
        return Term("text", "~", phrase, negated)
    value = match["value"] if match["quoted"] is None else match["quoted"]
    return _make_comparison(match["name"].lower(), match["operator"], value, negated)


def _make_comparison(name: str, operator: str, value: str, negated: bool) -> Term:
    """Return a term that compares a number or a text. Raise `FilterError` if it cannot."""
    if name in NUMBERS:
        if operator == "~":
            raise FilterError(
                f"{name}{operator}{value} cannot be read: {name} is a number: use :, <, <=, > or >="
            )
        try:
            float(value)
        except ValueError:
            raise FilterError(f"{name} is compared with {value!r}: give a number") from None
        return Term(name, "=" if operator == ":" else operator, value, negated)
    if name in WORDS:
        if operator not in (":", "~", "="):
            raise FilterError(
                f"{name}{operator}{value} cannot be read: {name} is a text: use : or ~"
            )
        # Long texts are always searched, never compared as a whole.
        is_search = operator == "~" or name in _SEARCHED_TEXTS
        return Term(name, "~" if is_search else ":", value, negated)
    suggestion = suggest_word(name, (*NUMBERS, *WORDS))
    raise FilterError(f"there is no {name!r} to filter by: {suggestion}")


def build_condition(
    terms: Sequence[Term], criteria: Sequence[str], tags: Mapping[str, Collection[str]]
) -> SqlCondition:
    """Return the condition for rows of the table `rollouts`.

    `criteria` are the names of all criteria of the run, and `tags` the names of the criteria that
    have each tag. `criterion:`, `tag:` and `verdict:` go together: `criterion:polite verdict:UNMET`
    asks for rows with this verdict on this criterion.
    """
    chosen_criteria = _choose_criteria(terms, criteria, tags)
    asks_for_verdict = any(term.name == "verdict" and not term.negated for term in terms)
    conditions: list[str] = []
    values: list[object] = []
    for term in terms:
        names_criteria = term.name in ("criterion", "tag")
        if names_criteria and not term.negated and asks_for_verdict:
            continue  # the condition for `verdict:` is about these criteria already
        if term.name == "verdict":
            condition = _make_verdict_condition(chosen_criteria, term.value)
        elif names_criteria and term.negated:
            condition = _make_verdict_condition(_find_criteria(term, criteria, tags))
        elif names_criteria:
            condition = _make_verdict_condition(chosen_criteria)
        else:
            condition = _make_column_condition(term)
        if term.negated:
            # In SQL a condition on a missing value is NULL. Here the row then passes the negation.
            conditions.append(f"({condition.sql}) IS NOT TRUE")
        else:
            conditions.append(f"({condition.sql})")
        values += condition.values
    return SqlCondition(" AND ".join(conditions) or "1", values)  # 1 is true: all rows


def _choose_criteria(
    terms: Sequence[Term], criteria: Sequence[str], tags: Mapping[str, Collection[str]]
) -> list[str]:
    """Return the criteria that all terms `criterion:` and `tag:` mean; without such a term, all.

    A negated term does not count here: it is a condition of its own.
    """
    chosen = list(criteria)
    for term in terms:
        if term.name in ("criterion", "tag") and not term.negated:
            matches = _find_criteria(term, criteria, tags)
            chosen = [name for name in chosen if name in matches]
    return chosen


def _find_criteria(
    term: Term, criteria: Sequence[str], tags: Mapping[str, Collection[str]]
) -> Collection[str]:
    """Return the criteria that a term means: by a tag, by the whole name, or by a part of it."""
    if term.name == "tag":
        return tags.get(term.value, ())
    words = term.value.lower()
    same_names = [name for name in criteria if name.lower() == words]
    return same_names or [name for name in criteria if words in name.lower()]


def _make_verdict_condition(criteria: Collection[str], verdict: str | None = None) -> SqlCondition:
    """Return the condition that a row has an answer to one of these criteria, or this verdict."""
    marks = ", ".join("?" * len(criteria))
    sql = f"SELECT 1 FROM verdicts WHERE rollout = rollouts.id AND criterion IN ({marks})"
    values: list[object] = [*criteria]
    if verdict is not None:
        sql += " AND lower_text(short_answer(value, verdict, error)) = ?"
        values.append(verdict.lower())
    return SqlCondition(f"EXISTS ({sql})", values)


def _make_column_condition(term: Term) -> SqlCondition:
    """Return the condition for a term about a column of the table `rollouts`, or a flag."""
    if term.operator == "has":
        return SqlCondition(_FLAGS[term.name], [])
    if term.name in NUMBERS:
        return SqlCondition(f"{term.name} {term.operator} ?", [float(term.value)])
    if term.operator == "~":  # the value is a part of the text
        text = _SEARCHED_TEXTS.get(term.name, f"lower_text({term.name})")
        return SqlCondition(f"instr({text}, ?) > 0", [term.value.lower()])
    # The operator is ":", and the value is the whole text.
    return SqlCondition(f"lower_text({term.name}) = ?", [term.value.lower()])
