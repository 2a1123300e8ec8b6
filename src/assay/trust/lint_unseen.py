"""Things a judge is not shown: it has the query, perhaps a reference, the response, and the criterion."""

import re
from collections.abc import Iterator

from assay.criterion import Criterion
from assay.trust.lint_finding import Hit
from assay.trust.lint_lexicon import pattern, words
from assay.trust.lint_text import Text

_LISTS = {
    "part": words(
        "section sections chapter chapters appendix appendices annex figure figures fig. table tables equation "
        "equations eq. algorithm algorithms listing listings policy policies guideline guidelines procedure rule "
        "rules page pages slide slides exhibit attachment footnote paragraph paragraphs clause clauses standard "
        "line lines"
    ),
    "said": words(
        "described shown specified defined given detailed outlined listed stated reported presented indicated "
        "explained discussed mentioned set_out laid_out introduced depicted seen used proposed found required "
        "provided noted"
    ),
    "follows": words(
        "see cf cf. per following follow follows according_to match matches matching comply_with complies_with "
        "in_line_with in_accordance_with consistent_with adhere_to adheres_to conform_to conforms_to based_on as_in "
        "from refer_to"
    ),
    "picture": words(
        "image photo photograph picture screenshot video recording audio audio_clip scan"
    ),
    "thing": words(
        "image photo picture screenshot video recording figure diagram chart graph table plot map text passage example "
        "itinerary list code snippet excerpt email document"
    ),
    "talk": words(
        "meeting call team workshop session stand-up standup email thread briefing training"
    ),
    "rules": words(
        "policy policies guideline guidelines style_guide styleguide handbook playbook wiki intranet standard "
        "standards protocol protocols convention conventions template templates checklist documentation procedure "
        "procedures"
    ),
    "house": words(
        "internal company corporate in-house house team team's department departmental brand"
    ),
    "version": words(
        "version draft summary run release email ticket meeting iteration review report edition"
    ),
    "book": words(
        "paper manual handbook textbook specification spec report book appendix supplementary_material"
    ),
}
_PART = r"<part>\s*~?\(?(?:\d|[A-Z]\b|[IVX]+\b)[\w.()-]*"

_UNSEEN = tuple(
    pattern(text, **{name: terms for name, terms in _LISTS.items() if f"<{name}>" in text})
    for text in (
        # A numbered part of some document.
        rf"\b(?:as )?<said> (?:in|by|at|on|under|per) (?:the )?(?P<what>{_PART})",
        rf"\b<follows> (?:the )?(?:\w+ )?(?P<what>{_PART})",
        r"\b(?P<what>as (?:<said> )?in the (?:[\w-]+ )?<book>)\b",
        # What stands above, below or beside.
        r"\b(?P<what><thing>s? (?:(?:shown|given|provided|pasted|listed) )?(?:above|below))\b(?! \d)",
        r"\b(?P<what>ones? (?:shown|given|listed|described) (?:above|below))\b",
        r"\b(?P<what>(?:as|was|were|is|are) <said> (?:above|below|earlier|previously|before))\b",
        r"\b(?P<what>see (?:above|below))\b",
        r"\b(?P<what>(?:the|an?|our|your) (?:attached|enclosed|accompanying) [\w-]+)",
        r"\b(?P<what>in the attachments?)\b",
        # Pictures and recordings.
        r"(?<!includes\s)(?<!include\s)(?<!adds\s)(?<!contains\s)(?<!has\s)"
        r"\b(?P<what>the (?:[\w-]+ )?(?:screenshot|photo|photograph|recording))s?\b",
        r"\b(?:match(?:es)?|describes?|(?:shown|visible|seen|depicted|given|provided) in) "
        r"(?P<what>the (?:[\w-]+ )?<picture>)\b",
        r"\b(?P<what>the (?:uploaded|provided|shared) <picture>)\b",
        # What people said to each other.
        r"\b(?P<what>as (?:we )?(?:discussed|agreed|decided|arranged)(?! (?:in|by|at)\b)|as usual)\b",
        r"\b(?P<what>(?:that )?we (?:discussed|agreed|talked about|decided))\b",
        r"\b(?P<what>(?:discussed|agreed|decided|presented|mentioned) (?:upon )?(?:in|at|with|during|on) "
        r"(?:the|our|last|yesterday['’]s|today['’]s|an?) (?:[\w'’]+ ){0,2}<talk>)\b",
        r"\b(?P<what>(?:last|this|yesterday['’]s) (?:(?:week|month)['’]s )?(?:meeting|call|workshop|briefing))\b",
        # Rules of a house, and what came before.
        r"\b(?P<what>our (?:[\w-]+ ){0,3}(?:<rules>|knowledge base|brand voice|tone of voice|database|system))\b",
        r"\b(?P<what><house>(?:['’]s)? (?:[\w-]+ )?(?:<rules>|style))\b",
        r"\b(?P<what>the (?:style ?guide|playbook|wiki|intranet|knowledge base|ticketing system))\b",
        r"\b(?P<what>(?:the|an?|our|its) (?:previous|prior|earlier|last|old) <version>)\b"
        r"(?! of (?:python|java|node|windows|the (?:software|library|api)))",
        r"\b(?P<what>the (?:original )?(?:email thread|slack thread|chat log|ticket history))\b",
    )
)
_QUOTES = pattern(r"\b(?:quot|cit)(?:es?|ing)\b[^.;]{0,80}$")
_SAYS_ITSELF = pattern(r"\bi\.e\.|\b(?:namely|that is|specifically|which includes)\b|: \S+ \S+")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s)\]}>,;]+", re.IGNORECASE)
_TO_OPEN = pattern(
    r"\b(?:see|described|per|according to|following|follows?|defined|as in|specified|documented|match(?:es)?)\b"
    r"[^.;]{0,40}$"
)
_AT = pattern(
    r"\b(?:from|available|listed|found|published|guidelines?|checklist|based on|in|at)\s*(?:at|in|on|here)?[\s:(\[]*$"
)
_TO_GIVE = pattern(
    r"\b(?:cit|quot|link|mention|nam|refer|includ|giv|point|contain|provid|shar|recommend|direct|say|stat)\w*\b[^.;]{0,80}$"
)


def unseen(_: Criterion, text: Text) -> Iterator[Hit]:
    """References to what no judge has before it."""
    what = _reference(text.own) or _address(text.said)
    if what:
        yield Hit(
            "R010",
            f"a judge is not shown '{what}'",
            "put what it says into the requirement, or into the query",
        )


def _reference(own: str) -> str:
    """What is referred to, and neither to be quoted nor said over again."""
    for unseen_thing in _UNSEEN:
        for found in unseen_thing.finditer(own):
            if not (_QUOTES.search(own[: found.start()]) or _SAYS_ITSELF.search(own, found.end())):
                return " ".join(found["what"].split()).rstrip(".")
    return ""


def _address(said: str) -> str:
    """A link that must be opened, rather than one that the response is to give."""
    for found in _ADDRESS.finditer(said):
        before = said[: found.start()]
        if _TO_OPEN.search(before) or (_AT.search(before) and not _TO_GIVE.search(before)):
            return found[0].rstrip(".")
    return ""
