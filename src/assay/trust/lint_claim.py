"""Claim: what a requirement comes to when its wording is taken away, so that two can be compared.

No embedding: words are folded, cut to their stems and put under one word for many, and negations are
counted. `Names who owns every action item` and `States the owner of each action item` come to the same words;
`cites source A` and `cites source B` do not, and are merely parallel.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from assay.trust.lint_lexicon import pattern, words

_WORD = re.compile(r"\d[\d.,:/]*\d|\d|[^\W\d_][\w'’+#-]*[\w+#]|[^\W\d_]")
_EMPTY: Final = words(
    "the a an of to for in on at by is are be been being was were it its this that these those their there they "
    "them with as and or response answer reply output text model assistant should must shall will would can could "
    "may might do does did has have had which who whose into about from also both such so than then very any out "
    "up off per via your you we our us i he she his her what own itself when while where if whether how because "
    "specific particular actual overall"
)
_DENIALS: Final = words(
    "not no never without cannot avoid avoids avoiding refrain refrains omit omits omitting lack lacks lacking fail "
    "fails failing exclude excludes neglect neglects none neither nor free"
)
_SAYING: Final = "say"
_SAME: Final = {
    word: group.split()[0]
    for group in (
        "say state mention note report tell give provide include contain list name present offer show point "
        "specify indicate identify",
        "explain describe discuss",
        "cite citation cited citing reference quote source",
        "each every all",
        "correct right accurate correctly accurately",
        "user customer client",
        "wrong incorrect inaccurate false erroneous incorrectly",
        "error mistake",
        "use employ apply utilize utilise",
        "ask request inquire",
        "recommend advise suggest",
        "short brief concise succinct",
        "begin start open",
        "end finish close",
        "step stage",
        "large big",
        "doctor physician",
        "illness disease",
        "medicine drug medication",
        "limit maximum",
        "invent fabricate hallucinate",
        "final last",
        "own owner",
        "2 two",
        "3 three",
        "4 four",
        "5 five",
        "6 six",
        "7 seven",
        "8 eight",
        "9 nine",
        "10 ten",
    )
    for word in group.split()
}
"""One word for those that rubrics use alike."""

_ORDERED = pattern(
    r"\b<relation>\b",
    relation=words(
        "before after over than from to into versus against instead rather precede precedes follow follows exceed "
        "exceeds above below cause causes by of on"
    ),
)
_ENDINGS: Final = (
    ("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ied", "y"), ("ings", ""),
    ("ing", ""), ("ed", ""), ("ss", "ss"), ("us", "us"), ("is", "is"), ("es", "e"), ("s", ""),
)  # fmt: skip
_SPELLINGS: Final = tuple(
    (re.compile(british), american)
    for british, american in (
        (r"is(?=(?:e|es|ed|ing|ation|ations)$)", "iz"),
        (r"ys(?=(?:e|es|ed|ing)$)", "yz"),
        (r"our(?=(?:s|ed|ing|al|able|ful|less)?$)", "or"),
        (r"(?<=\w)[ao]e(?=[a-z]{2})", "e"),
        (r"ll(?=(?:ed|ing|er|ers)$)", "l"),
        (r"ogue(?=s?$)", "og"),
    )
)
"""One spelling for words that have two; never for two words that look alike, as hyper- and hypo- do."""


class Claim(NamedTuple):
    """A requirement as the stems of its words."""

    words: tuple[str, ...]
    """In the order they stand, without those that carry nothing."""
    bag: frozenset[str]
    denied: bool
    """Whether an odd number of negations turns it round."""
    ordered: bool
    """Whether turning its words round would change what it says."""


@lru_cache(maxsize=20_000)
def claim_of(requirement: str) -> Claim:
    """What a requirement comes to.

    >>> claim_of("Must not cite a blog").words == claim_of("Never cites blogs").words
    True
    >>> claim_of("Must not cite a blog").denied, claim_of("Cites source A").words
    (True, ('cite', 'cite', 'A'))
    """
    found = [word.replace("’", "'") for word in _WORD.findall(requirement[:5000])]
    folded = [w if place and w.isupper() else w.casefold() for place, w in enumerate(found)]
    denials = sum(map(_denies, folded))
    stems = [_stem(word) for word in folded if word not in _EMPTY and not _denies(word)]
    told = [stem for stem in stems if stem != _SAYING]
    stems = told or stems  # that it is to be said goes without saying
    ordered = _ORDERED.search(requirement) is not None
    return Claim(tuple(stems), frozenset(stems), denials % 2 == 1, ordered)


def _denies(word: str) -> bool:
    return word in _DENIALS or word.endswith("n't")


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """A word without its ending, roughly: enough for `cites` and `cited`."""
    if word in _SAME:
        return _SAME[word]
    if word.isupper() or not word.isalpha() or len(word) < 4:
        return word
    for spelling, instead in _SPELLINGS:
        word = spelling.sub(instead, word)
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)] + instead
            return _SAME.get(stem, _SAME.get(f"{stem}e", stem.removesuffix("e")))
    return word.removesuffix("e")
