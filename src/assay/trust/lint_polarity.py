"""Polarity: a fault that is rewarded, a virtue that is punished, and sentences that say no twice."""

import re
from collections.abc import Iterator

from assay.criterion import BINARY, Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_lexicon import (
    FAULTS,
    FAULTY,
    RESPONSE,
    TO_ERR,
    TO_FAIL,
    VIRTUOUS,
    VIRTUOUSLY,
    pattern,
    words,
)
from assay.trust.lint_text import Text

_SUBJECT = (
    r"^\W*(?:(?:does|do|is|are|has|did|was|were) )?(?:(?:the|this|its?|their) )?"
    r"(?:(?:final|assistant's|model's|written|whole|agent's) )?(?:<subject> )?"
    r"(?:(?:should|must|will|may|can|has|have) )?"
)
_SUBJECTS = RESPONSE | words(
    "translation code email agent it plot story letter report message citation citations"
)
_FAULT = r"<faults>\b(?! (?:handling|messages?|codes?|bars?|rates?|terms?|margins?|log|recovery|analysis|checks?))"
_SOME = r"(?:(?:an?|the|any|many|several|some|numerous|obvious|serious) )*"
_NO_FAULT = r"(?! (?:answers?|claims?|statements?|options?|choices?|premises?)\b)"
"""After a faulty thing that a response may be right to speak of."""

_DESCRIBES_FAULT = pattern(
    _SUBJECT + r"(?P<fault><to_err>\b|<to_fail>\b|contradicts? itself"
    r"|(?:incorrectly|wrongly|falsely|erroneously|mistakenly) \w+"
    r"|(?:ignores?|disregards?) (?:the|its|their|any|all) (?:\w+['’]s )?(?:\w+ ){0,2}?<asked>\b"
    r"|(?:invents?|makes? up) (?:an? |the )?(?:\w+ )?<facts>\b"
    r"|(?:contains?|includes?|has|have|makes?|introduces?) " + _SOME + r"(?:[\w-]+ )?" + _FAULT + ""
    r"|<gives> " + _SOME + r"(?:\w+ly )?<faulty> (?!(?:or|and)\b)[\w-]+"
    r"|(?:is|are|be|sounds?|remains?) (?:\w+ly )?<faulty>\b" + _NO_FAULT + ""
    r"|(?:\w+ly )?<faulty>\s*(?:$|[.,;?]|(?:or|and)\b|(?:tone|language|information|answer|content)\W*$))",
    subject=_SUBJECTS,
    to_err=TO_ERR,
    to_fail=TO_FAIL,
    faults=FAULTS,
    faulty=FAULTY,
    asked=words(
        "question request instruction instructions constraint constraints budget limit prompt query context "
        "requirement requirements feedback deadline"
    ),
    facts=words(
        "fact facts reference references source sources citation citations price prices quote quotes statistic "
        "statistics number numbers data evidence"
    ),
    gives=words(
        "contain contains include includes give gives provide provides use uses make makes has cite cites present "
        "presents offer offers"
    ),
)
_NEGATED = pattern(
    _SUBJECT
    + r"(?:(?:does|do|is|are|did|must|should|has|have|can|will)\s*n['’]t\b|(?:(?:does|do|is|are) )?not\b"
    r"|never\b|no\b|without\b)\s*(?P<rest>.*)",
    subject=_SUBJECTS,
)
_AVOIDS = pattern(
    _SUBJECT + r"(?P<virtue>avoids?|refrains? from|(?:(?:is|are|be) )?free (?:of|from)) \w+",
    subject=_SUBJECTS,
)
_DESCRIBES_VIRTUE = pattern(
    _SUBJECT + r"(?P<virtue><virtuously> \w+"
    r"|(?:is|are|be|remains?|stays?) (?:\w+ly )?<virtuous>\b(?! (?:about|for|to)\b)"
    r"|(?:gives?|provides?|states?|uses?|reaches|arrives? at) (?:(?:the|an?) )?(?:correct|right|accurate) \w+)"
    r"(?!.*\b(?:only|without|but|instead)\b)",
    subject=_SUBJECTS,
    virtuously=VIRTUOUSLY,
    virtuous=VIRTUOUS,
)
_NAMES_FAULT = pattern(
    r"<to_err>\b|(?:contain|include|have|make|introduce|give|provide|use) " + _SOME + r"(?:\w+ ){0,2}?"
    r"(?:" + _FAULT + r"|<faulty> \w+)|(?:any )?(?:\w+ )?" + _FAULT + r"|(?:\w+ly )?<faulty>\b",
    to_err=TO_ERR,
    faults=FAULTS,
    faulty=FAULTY,
)  # fmt: skip


def at_odds(criterion: Criterion, text: Text) -> Iterator[Hit]:
    """A fault with a positive weight, or a virtue with a negative one."""
    if criterion.choices != BINARY or criterion.weight == 0:
        return
    if criterion.weight > 0 and (fault := describes_fault(text)):
        yield Hit(
            "R005",
            f"'{fault}' describes a fault, and the weight of {criterion.weight:+g} rewards it",
            f"give it the weight {-criterion.weight:g}, or describe what a good response does",
        )
    if criterion.weight < 0 and (virtue := _describes_virtue(text)):
        yield Hit(
            "R005",
            f"'{virtue}' describes a virtue, and the weight of {criterion.weight:g} punishes it",
            f"give it the weight {-criterion.weight:+g}, or describe the fault itself",
        )


def describes_fault(text: Text) -> str:
    """The words with which it describes a fault; empty when it does not."""
    if _NEGATED.match(text.own) or _AVOIDS.match(text.own):
        return ""
    return _words(_DESCRIBES_FAULT.match(text.own), "fault")


def _describes_virtue(text: Text) -> str:
    """The words with which it describes a virtue, be it only the absence of a fault."""
    avoids = _words(_AVOIDS.match(text.own), "virtue")
    if avoids:
        return avoids
    negated = _NEGATED.match(text.own)
    if negated is not None:
        return "not …" if _NAMES_FAULT.match(negated["rest"]) else ""
    return _words(_DESCRIBES_VIRTUE.match(text.own), "virtue")


def _words(found: re.Match[str] | None, group: str) -> str:
    return "" if found is None else " ".join(found[group].split())


_DOUBLE = pattern(
    r"(?:\b(?:not|never|cannot)|n['’]t) (?:\w+ly |ever )?"
    r"(?:(?:fail|neglect|forget)(?:s|ed)? to|(?:omit|lack|avoid|exclude)(?:s|t?ed|d)?|refrain(?:s|ed)? from"
    r"|un(?!<no_denial>)\w{3,}|in<denied>(?:ly)?|im(?:polite|proper|possible|plausible)"
    r"|ir(?:relevant|responsible|rational)|il(?:logical|legal|legible)|dis(?:honest|respectful|similar)"
    r"|bad(?:ly)?|without)\b"
    r"|\bwithout (?:failing|omitting|neglecting|lacking)\b"
    r"|\bno (?:[\w-]+ ){1,3}(?:that|which|who) (?:is|are|was|were|does|do|has|have|can)\s*(?:not|n['’]t)\b",
    denied=words(
        "correct accurate appropriate complete consistent sufficient adequate valid coherent sensitive frequent "
        "significant"
    ),
    no_denial=words(
        "der til less iq if iv it ion ch dertak load lock pack wrap install subscribe fold roll"
    ),
)
_VERDICT = re.compile(
    r"\bUNMET\b"
    r"|(?i:\b(?:mark|grade|score|count|treat|rate|judge)(?:ed)?\s+(?:it\s+|this\s+)?(?:as\s+)?"
    r"(?:met|not\s+met|fail(?:ed)?|unmet)\b"
    r"|\b(?:answer|say|respond)\s+(?:with\s+)?[\"']?(?:no|yes|true|false)[\"']?\s+(?:if|when|unless)\b)"
)


def negation(_: Criterion, text: Text) -> Iterator[Hit]:
    """Two negations, or words that tell the judge which verdict to give."""
    double, verdict = _DOUBLE.search(text.own), _VERDICT.search(text.plain)
    if double is not None:
        yield Hit(
            "R006",
            f"'{' '.join(double[0].split())}' says no twice",
            "say what the response does, without the two negations",
        )
    elif verdict is not None:
        yield Hit(
            "R006",
            f"'{verdict[0]}' tells the judge which verdict to give, and may turn the question round",
            "describe only what is to be there; MET then means that it is",
        )
