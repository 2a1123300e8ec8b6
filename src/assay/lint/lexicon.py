"""Read the words of a requirement: lists of words, patterns over them, and what is the rubric's own.

Rules look at words, and a word means something else inside quotation marks, code, a formula, or what the
response is to say about the world: `says that the drug is effective` asks for no effectiveness.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from assay.lazy import read_toml

LONGEST: Final = 5_000  # characters of a requirement that are read; a longer one is a document
BLANK: Final = "¤"  # stands for each character that is not the rubric's own words


def word_lists(file: str = "words.toml") -> dict[str, Any]:
    """What stands in `words.toml`, or in the other file."""
    return read_toml("assay.lint", file)


@cache
def words(names: str) -> frozenset[str]:
    """Return the words of a list, or of several lists with `|` between their names.

    `acts-worldly` is `acts` without the words of `worldly`. `acts.s` has the verbs in the third person,
    and `acts.both` in both forms. In the lists, `_` stands for a space.
    """
    result: set[str] = set()
    for expression in names.split("|"):
        selection, _, form = expression.partition(".")
        name, _, excluded = selection.partition("-")
        selected = set(word_lists()[name].split())
        if excluded:
            selected -= words(excluded)
        if form in ("", "both"):
            result.update(selected)
        if form in ("s", "both"):
            result.update(third_person(verb) for verb in selected)
    return frozenset(result)


@cache
def pattern(name: str) -> re.Pattern[str]:
    return compiled(word_lists("patterns.toml")["patterns"][name])


def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern in which a space means white space, and `<name>` any word of a list, or a fragment.

    White space has at most two characters: requirements have no more, and no text can make it slow.
    """
    return re.compile(_expanded(text).replace(" ", r"\s{1,2}"), re.IGNORECASE | re.DOTALL)


def _expanded(text: str) -> str:
    fragments = word_lists("patterns.toml")["fragments"]

    def expand_name(match: re.Match[str]) -> str:
        name = match[1]
        if name in fragments:
            return _expanded(fragments[name])
        longest_first = sorted(words(name), key=lambda term: (-len(term), term))
        terms = [re.escape(term).replace("_", " ") for term in longest_first]
        return f"(?:{'|'.join(terms)})"

    without_indentation = re.sub(r"(?:^|\n)  ", "", text)
    # Names of groups, `(?P<name>`, are in the same brackets.
    return re.sub(r"(?<!\?P)<([a-z_.|-]+)>", expand_name, without_indentation)


def third_person(verb: str) -> str:
    """The form after *it*."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    first, space, rest = verb.partition("_")
    if first.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{first}es{space}{rest}"
    if first.endswith("y") and first[-2:-1] not in "aeiou":
        return f"{first[:-1]}ies{space}{rest}"
    return f"{first}s{space}{rest}"


@dataclass(frozen=True)
class RequirementText:
    """A requirement, and what is left of it when quoted and reported words are blanked.

    Blanked parts keep their length, so that every place in one text is the same place in the others.
    """

    said: str  # as it stands

    @cached_property
    def plain(self) -> str:
        """Without what stands in quotation marks, code and formulas."""
        return pattern("quoted").sub(lambda found: BLANK * len(found[0]), self.said)

    @cached_property
    def lead(self) -> str:
        """As `plain`, up to where a list of levels begins."""
        level = pattern("level").search(self.plain, 1)
        return self.plain if level is None else self.plain[: level.start()]

    @cached_property
    def own(self) -> str:
        """As `lead`, without what the response is to report, either."""
        return pattern("reported").sub(_without_content, self.lead)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether it gives a number as a bound: `at least three`, `2 to 4`."""
        return pattern("bound").search(self.plain) is not None


@lru_cache(maxsize=20_000)
def text_of(requirement: str) -> RequirementText:
    """The words of a requirement, read once, with no more than one space or blank line between them."""
    text = re.sub(r"[^\S\n]+", " ", requirement[:LONGEST])
    return RequirementText(re.sub(r" ?\n[ \n]*\n ?", "\n\n", text).strip())


def _without_content(found: re.Match[str]) -> str:
    """Return the match with the reported words blanked, up to the rubric's own words behind them."""
    assert found.lastgroup is not None
    start = found.start(found.lastgroup) - found.start()
    before = found[0][:start]
    content = found[found.lastgroup]
    own_words = pattern("speaks_again").search(content)
    reported_length = len(content) if own_words is None else own_words.start()
    return before + BLANK * reported_length + content[reported_length:]
