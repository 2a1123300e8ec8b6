"""Read the words of a requirement: lists of words, patterns over them, and the rubric's own words.

Rules look at words, and a word means something else inside quotation marks, code or a formula, or
in what the response is to say about the world: `says that the drug is effective` does not ask for
an effective response.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from assay.lazy import read_toml

LONGEST: Final = 5_000  # characters of a requirement that are read; a longer one is a document
BLANK: Final = "¤"  # stands for each character that is not the rubric's own words


def word_lists(file: str = "words.toml") -> dict[str, Any]:
    """Return the content of `words.toml`, or of another TOML file of this package."""
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
    """Return the pattern with this name in `patterns.toml`."""
    return compile_pattern(word_lists("patterns.toml")["patterns"][name])


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern in which a space means white space, and `<name>` any word of a list, or a fragment.

    White space is one or two characters. A requirement that `read_requirement` returns never has
    more, and without a longer repetition no text can make the search slow.
    """
    return re.compile(_expand_names(text).replace(" ", r"\s{1,2}"), re.IGNORECASE | re.DOTALL)


def _expand_names(text: str) -> str:
    """Return a pattern with each `<name>` replaced by the fragment or the words of that name."""
    fragments = word_lists("patterns.toml")["fragments"]

    def expand_name(match: re.Match[str]) -> str:
        """Return the pattern for one `<name>`."""
        name = match[1]
        if name in fragments:
            return _expand_names(fragments[name])
        # Longest first, since a regular expression takes the first alternative that matches.
        longest_first = sorted(words(name), key=lambda term: (-len(term), term))
        terms = [re.escape(term).replace("_", " ") for term in longest_first]
        return f"(?:{'|'.join(terms)})"

    without_indentation = re.sub(r"(?:^|\n)  ", "", text)
    # Names of groups, `(?P<name>`, are in the same brackets.
    return re.sub(r"(?<!\?P)<([a-z_.|-]+)>", expand_name, without_indentation)


def third_person(verb: str) -> str:
    """Return a verb in the third person. In a verb of several words, `_` stands for a space."""
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

    Blanked parts keep their length, so that an index in one of the texts is valid in all of them.
    """

    full: str

    @cached_property
    def without_quotes(self) -> str:
        """The text without what is in quotation marks, code and formulas."""
        return pattern("quoted").sub(lambda match: BLANK * len(match[0]), self.full)

    @cached_property
    def without_levels(self) -> str:
        """The text without quotes, up to where a list of levels begins."""
        level = pattern("level").search(self.without_quotes, 1)
        if level is None:
            return self.without_quotes
        return self.without_quotes[: level.start()]

    @cached_property
    def own_words(self) -> str:
        """The text without quotes and levels, and without what the response is to report."""
        return pattern("reported").sub(_blank_report, self.without_levels)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether it gives a number as a bound: `at least three`, `2 to 4`."""
        return pattern("bound").search(self.without_quotes) is not None


@lru_cache(maxsize=20_000)
def read_requirement(requirement: str) -> RequirementText:
    """Return a requirement with at most one space or blank line between its words."""
    text = re.sub(r"[^\S\n]+", " ", requirement[:LONGEST])
    return RequirementText(re.sub(r" ?\n[ \n]*\n ?", "\n\n", text).strip())


def _blank_report(match: re.Match[str]) -> str:
    """Return the match with the reported words blanked, up to further words of the rubric's own.

    The reported words are the only named group that matched.
    """
    assert match.lastgroup is not None
    start = match.start(match.lastgroup) - match.start()
    before = match[0][:start]
    content = match[match.lastgroup]
    own_words = pattern("speaks_again").search(content)
    reported_length = len(content) if own_words is None else own_words.start()
    return before + BLANK * reported_length + content[reported_length:]
