"""Compound criteria: two claims in one, so that a response that does half of it has no right verdict."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from assay.criterion import Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_levels import explains_levels
from assay.trust.lint_lexicon import (
    ACTS,
    ACTS_OR_NOUNS,
    EVALUATIVE,
    EVALUATIVE_ADVERBS,
    FACTUAL,
    OFTEN_EVALUATIVE,
    PAIRED,
    RESPONSE,
    VIRTUOUSLY,
    WORLDLY,
    both_forms,
    pattern,
    third_person,
    words,
)
from assay.trust.lint_lists import two_objects
from assay.trust.lint_text import BLANK, Text

_DOES: Final = frozenset(map(third_person, ACTS))
_DOES_OR_NOUNS: Final = frozenset(map(third_person, ACTS_OR_NOUNS))
_WORLDLY: Final = frozenset(map(third_person, WORLDLY))
_QUALITY: Final = EVALUATIVE | OFTEN_EVALUATIVE | FACTUAL
_QUALITY_ADVERB: Final = EVALUATIVE_ADVERBS | VIRTUOUSLY

_JOINT = r"(?P<joint>,? and|,? as well as|,? but(?: also)?|;|, then|,? plus|,) "
_ADVERB = r"(?:(?:also|then|additionally|further|finally|either|not|does not|never|\w+ly) )?"
_OBJECT = (
    r"(?= (?:the|an?|its|their|his|her|each|every|all|any|no|that|how|why|whether|what|which|at|to|with|both"
    r"|one|two|three|only|[A-Z\d]))"
)
"""What follows a word that may be a noun only where it is a verb."""
_SECOND_ACT = pattern(
    _JOINT + _ADVERB + r"(?P<verb><does>\b|<does_or_nouns>\b" + _OBJECT + ""
    r"|(?:is|are) (?:not )?(?:\w+ly )?(?:<quality>|<quality_adverb>)\b|does not\b)",
    does=_DOES,
    does_or_nouns=_DOES_OR_NOUNS,
    quality=_QUALITY,
    quality_adverb=_QUALITY_ADVERB,
)
_SECOND_BARE_ACT = pattern(
    _JOINT + _ADVERB + r"(?P<verb><acts>\b|<acts_or_nouns>\b" + _OBJECT + ")",
    acts=ACTS,
    acts_or_nouns=ACTS_OR_NOUNS,
)
_TAKES_BARE = pattern(
    r"^\W*(?:(?:does|do|did|can|could|should|must|is the \w+ able)\b|<acts>\b)"
    r"|\b(?:should|must|shall|needs? to|has to) \w+",
    acts=ACTS | ACTS_OR_NOUNS,
)
"""A question, an order or a duty: its verbs have no ending."""
_RELATIVE = pattern(r"\b(?:that|which|who|where|when|if|because|whose|to)\b")
_CONDITION = pattern(r"^\W*(?:if|when|where|after|before|once|given|for|in|with|by|on|as)\b[^,]*$")
_OR = pattern(r"\b(?:either|or)\b[^,;]*$")
_SHARED_OBJECT = pattern(
    r"\b<verbs>$",
    verbs=both_forms(ACTS)
    | words(
        "process comprehend assess read write understand test train track plan collect save record log"
    ),
)
_SHARED_VERB = pattern(r"\w+ly (?:and|but|yet) \w+ly \w+$")
_TWO_QUALITIES = pattern(
    r"(?<![\w-])(?:<quality>\s*,\s*(?:\w+ly )?(?:[\w-]+\s*,\s*){0,4})?(?P<one><quality>)(?: to \w+)?"
    r",? (?:and|but|yet|as well as) (?:\w+ly |very |also )?(?P<two><quality>)(?![\w-])",
    quality=_QUALITY,
)
_TWO_WAYS = pattern(
    r"(?<![\w-])(?P<one><way>) (?:and|but|yet) (?P<two><way>)(?![\w-])", way=_QUALITY_ADVERB
)
_ABOUT_RESPONSE = pattern(
    r"\W*(?:(?:does|is|can|do|has) )?(?:(?:the )?(?:\w+['’]s )?<response>\b|(?:\w+ly )?<acts>\b)",
    response=RESPONSE,
    acts=_DOES | _DOES_OR_NOUNS | ACTS,
)
_WHILE = pattern(
    r",? while (?:also |still )?(?P<verb><doing>)\b",
    doing=words(
        "remaining maintaining avoiding keeping staying being ensuring demonstrating acknowledging respecting "
        "preserving providing addressing explaining refraining offering"
    ),
)
_NEXT_SENTENCE = pattern(
    r"[.!?] (?:(?:it|this|the \w+) (?:must |should )?also\b|the <response> (?:must|should|<does>)\b"
    r"|(?:also|additionally|furthermore|moreover)\b)",
    response=RESPONSE,
    does=_DOES | _DOES_OR_NOUNS,
)


class _Second(NamedTuple):
    """What makes a criterion two, and where to cut it."""

    message: str
    fix: str


def compound(criterion: Criterion, text: Text) -> Iterator[Hit]:
    """Two things that a response can do one without the other."""
    # What a level means may take two claims to say.
    own = text.own.split(":")[0] if explains_levels(criterion, text) else text.own
    for find in (_two_acts, _two_qualities, _beside, _two_sentences, _two_objects):
        found = find(own)
        if found is not None:
            yield Hit("R001", *found)
            return


def _two_acts(own: str) -> _Second | None:
    bare = _TAKES_BARE.search(own) is not None
    for found in (_SECOND_BARE_ACT if bare else _SECOND_ACT).finditer(own):
        if _is_second_claim(own, found):
            rest = own[found.start("verb") :].split(BLANK)[0].split(",")[0]
            shown = " ".join(rest.split()[:4])
            return _Second(
                f"it asks two things, the second at '{shown}'",
                f"make '{shown} …' a criterion of its own",
            )
    return None


def _is_second_claim(own: str, found: re.Match[str]) -> bool:
    """Whether a verb after a joint claims something, and what stands before the joint does too."""
    before, after, verb = own[: found.start()], own[found.end() :], found["verb"].lower()
    if len(before.split()) < 2 or _CONDITION.search(before) or _OR.search(before):
        return False
    if found["joint"] == "," and not _is_in_a_list(verb, after):
        return False
    if _SHARED_OBJECT.search(before) or _SHARED_VERB.search(before[-40:] + found[0]):
        return False
    return not (verb in _WORLDLY and _RELATIVE.search(before))


def _is_in_a_list(verb: str, after: str) -> bool:
    """Whether a comma stands between acts, and not around an aside."""
    return " " not in verb and re.search(r"\band\b", after) is not None


def _two_qualities(own: str) -> _Second | None:
    found = _TWO_QUALITIES.search(own) or _TWO_WAYS.search(own)
    if found is None or frozenset((found["one"].lower(), found["two"].lower())) in PAIRED:
        return None
    return _Second(
        f"'{found['one']}' and '{found['two']}' are two qualities",
        "give each quality a criterion of its own",
    )


def _beside(own: str) -> _Second | None:
    found = _WHILE.search(own) if _ABOUT_RESPONSE.match(own) else None
    if found is None:
        return None
    verb = found["verb"].lower()
    return _Second(
        f"what is asked 'while {verb}' is a second thing",
        f"make '{verb} …' a criterion of its own",
    )


def _two_sentences(own: str) -> _Second | None:
    found = _NEXT_SENTENCE.search(own)
    if found is None:
        return None
    shown = " ".join(own[found.start() + 1 :].split()[:4])
    return _Second(
        f"the sentence '{shown} …' asks a second thing", "make it a criterion of its own"
    )


def _two_objects(own: str) -> _Second | None:
    things = two_objects(own)
    if not things:
        return None
    shown = " and ".join(f"'{thing}'" for thing in things)
    return _Second(f"it asks for {shown}", "give each of them a criterion of its own")
