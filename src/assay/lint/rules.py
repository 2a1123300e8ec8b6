"""Find what is wrong with one criterion by itself: R001 to R006, R010 and R011.

A rule takes a criterion and the words of its requirement, and yields what it finds.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from assay.criterion import BINARY, Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import BLANK, RequirementText, pattern, text_of, word_lists, words


def hits_of_criterion(criterion: Criterion) -> Iterator[Hit]:
    """What is wrong with a criterion by itself."""
    if criterion.requirement is None:
        return
    text = text_of(criterion.requirement)
    for rule in _RULES:
        yield from rule(criterion, text)


# R001: two claims in one, so that a response that does half of it has no right verdict.

_JOINT = r"(?P<joint>,? and|,? as well as|,? but(?: also)?|;|, then|,? plus|,) "
_ADVERB = r"(?:(?:also|then|additionally|further|finally|either|not|does not|never|\w+ly) )?"
_OBJECT = (
    r"(?= (?:the|an?|its|their|his|her|each|every|all|any|no|that|how|why|whether|what|which|at|to|with|both"
    r"|one|two|three|only|[A-Z\d]))"
)
"""What follows a word that may be a noun only where it is a verb."""
_QUALITY = "<evaluative|often_evaluative|factual>"
_SECOND_ACT = pattern(
    rf"{_JOINT}{_ADVERB}(?P<verb><acts.s>\b|<acts_or_nouns.s>\b{_OBJECT}"
    rf"|(?:is|are) (?:not )?(?:\w+ly )?(?:{_QUALITY}|<evaluative_adverbs|virtuously>)\b|does not\b)"
)
_SECOND_BARE_ACT = pattern(rf"{_JOINT}{_ADVERB}(?P<verb><acts>\b|<acts_or_nouns>\b{_OBJECT})")
_TAKES_BARE = pattern(
    r"^\W*(?:(?:does|do|did|can|could|should|must|is the \w+ able)\b|<acts|acts_or_nouns>\b)"
    r"|\b(?:should|must|shall|needs? to|has to) \w+"
)
"""A question, an order or a duty: its verbs have no ending."""
_RELATIVE = pattern(r"\b(?:that|which|who|where|when|if|because|whose|to)\b")
_CONDITION = pattern(r"^\W*(?:if|when|where|after|before|once|given|for|in|with|by|on|as)\b[^,]*$")
_OR = pattern(r"\b(?:either|or)\b[^,;]*$")
_SHARED_OBJECT = pattern(r"\b<acts.both|shared_object>$")
_SHARED_VERB = pattern(r"\w+ly (?:and|but|yet) \w+ly \w+$")
_TWO_QUALITIES = pattern(
    rf"(?<![\w-])(?:{_QUALITY}\s*,\s*(?:\w+ly )?(?:[\w-]+\s*,\s*){{0,4}})?(?P<one>{_QUALITY})(?: to \w+)?"
    rf",? (?:and|but|yet|as well as) (?:\w+ly |very |also )?(?P<two>{_QUALITY})(?![\w-])"
)
_TWO_WAYS = pattern(
    r"(?<![\w-])(?P<one><evaluative_adverbs|virtuously>) (?:and|but|yet) "
    r"(?P<two><evaluative_adverbs|virtuously>)(?![\w-])"
)
_ABOUT_RESPONSE = pattern(
    r"\W*(?:(?:does|is|can|do|has) )?(?:(?:the )?(?:\w+['’]s )?<response>\b"
    r"|(?:\w+ly )?<acts.both|acts_or_nouns.s>\b)"
)
_WHILE = pattern(r",? while (?:also |still )?(?P<verb><while_doing>)\b")
_NEXT_SENTENCE = pattern(
    r"[.!?] (?:(?:it|this|the \w+) (?:must |should )?also\b|the <response> (?:must|should|<acts.s|acts_or_nouns.s>)\b"
    r"|(?:also|additionally|furthermore|moreover)\b)"
)
_NOUNS = r"<determiners> (?:[\w'’-]+ ){0,3}[\w'’-]+"
_LIST = pattern(
    r"(?:^|\b(?:it|that|to|should|must|and|response|answer|reply|text|message) )(?:\w+ly )?<mentions.both> "
    rf"(?P<things>{_NOUNS}(?:, {_NOUNS})*,? (?:and|as well as) {_NOUNS})"
)
_BOTH = pattern(r"\b<mentions.both> both (?:the )?(?P<one>[\w'’-]+(?: [\w'’-]+){0,3}) and (?:the )?(?P<two>[\w'’-]+)")
_TOGETHER = pattern(r"\b(?:<relations>|compar\w+|relat\w+|combin\w+|distinguish\w*|match\w*|merg\w*|join\w*|swap\w*)\b")
_NAMES = re.compile(rf"[{BLANK}\d=+]|\band\s+[A-Z]")
_PAIRED: Final = frozenset(frozenset(pair.split("/")) for pair in words("paired"))


def compound(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Two things that a response can do one without the other."""
    # What a level means may take two claims to say.
    own = text.own.split(":")[0] if explains_levels(criterion, text) else text.own
    for find in (_two_acts, _two_qualities, _beside, _two_sentences, _two_objects):
        found = find(own)
        if found is not None:
            yield Hit("R001", *found)
            return


def _two_acts(own: str) -> tuple[str, str] | None:
    bare = _TAKES_BARE.search(own) is not None
    for found in (_SECOND_BARE_ACT if bare else _SECOND_ACT).finditer(own):
        if _is_second_claim(own, found):
            rest = own[found.start("verb") :].split(BLANK)[0].split(",")[0]
            shown = " ".join(rest.split()[:4])
            message = f"it asks two things, the second at '{shown}'"
            return message, f"make '{shown} …' a criterion of its own"
    return None


def _is_second_claim(own: str, found: re.Match[str]) -> bool:
    """Whether a verb after a joint claims something, and what stands before the joint does too."""
    before, after, verb = own[: found.start()], own[found.end() :], found["verb"].lower()
    if len(before.split()) < 2 or _CONDITION.search(before) or _OR.search(before):
        return False
    # A comma may stand between acts, or around an aside.
    is_in_a_list = " " not in verb and re.search(r"\band\b", after) is not None
    if found["joint"] == "," and not is_in_a_list:
        return False
    if _SHARED_OBJECT.search(before) or _SHARED_VERB.search(before[-40:] + found[0]):
        return False
    return not (verb in words("worldly.s") and _RELATIVE.search(before))


def _two_qualities(own: str) -> tuple[str, str] | None:
    found = _TWO_QUALITIES.search(own) or _TWO_WAYS.search(own)
    if found is None or frozenset((found["one"].lower(), found["two"].lower())) in _PAIRED:
        return None
    message = f"'{found['one']}' and '{found['two']}' are two qualities"
    return message, "give each quality a criterion of its own"


def _beside(own: str) -> tuple[str, str] | None:
    found = _WHILE.search(own) if _ABOUT_RESPONSE.match(own) else None
    if found is None:
        return None
    verb = found["verb"].lower()
    message = f"what is asked 'while {verb}' is a second thing"
    return message, f"make '{verb} …' a criterion of its own"


def _two_sentences(own: str) -> tuple[str, str] | None:
    found = _NEXT_SENTENCE.search(own)
    if found is None:
        return None
    shown = " ".join(own[found.start() + 1 :].split()[:4])
    return f"the sentence '{shown} …' asks a second thing", "make it a criterion of its own"


def _two_objects(own: str) -> tuple[str, str] | None:
    things = _objects(own)
    if not things:
        return None
    shown = " and ".join(f"'{thing}'" for thing in things)
    return f"it asks for {shown}", "give each of them a criterion of its own"


def _objects(own: str) -> list[str]:
    """The things that a criterion wants mentioned, when they are several and not one set; else none."""
    found = _LIST.search(own)
    if found is not None and not _is_one(found[0], found["things"]):
        things = re.split(r",\s+(?:and\s+)?|\s+and\s+|\s+as\s+well\s+as\s+", found["things"])
        ends = frozenset((things[0].split()[-1].lower(), things[-1].split()[-1].lower()))
        if ends not in _PAIRED:
            return things
    both = _BOTH.search(own)
    if both is not None and not _is_one(own[: both.end()], both[0]):
        return [both["one"], both["two"]]
    return []


def _is_one(said: str, things: str) -> bool:
    """Whether a relation holds the things together, or they are the names and numbers of one answer."""
    return _TOGETHER.search(said) is not None or _NAMES.search(things) is not None


# R002: praise and blame with nothing to measure it by.

SHORT: Final = 16
"""Words up to which a criterion is about the response, and hardly about a subject of its own."""

_VAGUE = pattern(r"(?<![\w-])<evaluative|evaluative_adverbs|often_evaluative>(?![\w-])")
_VAGUE_NOUN = pattern(r"^\W*(?:the )?(?:overall )?(quality|readability|completeness)\s*(?:of\b|:|$)")
_OF_RESPONSE = pattern(rf"(?:^\W*|\b<praises> (?:(?:an?|the|\w+ly|very|not|and|,|{_QUALITY})[\s,]+)*)$")
"""What stands before praise of the response, rather than before a word of the subject."""
_NO_PRAISE = pattern(r"\b<no_praise> $")
_PLAINLY = pattern(
    r" (?:stat|say|nam|mention|indicat|label|mark|identif|distinguish|separat|specif|attribut|cit|refus"
    r"|declin|disclos|denot|differentiat)\w*"
)
"""What is done or not done, however `clearly`."""
_BY_MEANS = pattern(r"\b(?:by|using|without|through|with (?:a|an|the|at|no)) \S+")
_NOT_WELL = pattern(r"\s*[-,]| (?:as|known|over|under|before|after|within)\b")
_AUDIENCE = pattern(r"(?: \w+){0,2} (?:for|to) (?:an?|the|\w+) (?!<no_audience>\b)\w+")
_FOR_AN_AUDIENCE: Final = {word.replace("_", " ") for word in words("for_an_audience")}


def vague(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Praise or blame that two readers would settle differently."""
    if text.explains_itself or text.is_bounded or explains_levels(criterion, text):
        return
    found = list(dict.fromkeys(_vague_words(text.own)))
    if found:
        listed = ", ".join(f"'{word}'" for word in found[:4])
        yield Hit(
            "R002",
            f"{listed} mean{'' if len(found) > 1 else 's'} something else to every reader",
            "say what must be there, or give a number, so that two readers agree",
        )


def _vague_words(own: str) -> Iterator[str]:
    noun = _VAGUE_NOUN.match(own)
    if noun is not None:
        yield noun[1].lower()
    short = len(own.split()) <= SHORT
    for found in _VAGUE.finditer(own):
        word = " ".join(found[0].lower().split())
        before, after = own[: found.start()], own[found.end() :]
        if word in words("often_evaluative") and not (short and _OF_RESPONSE.search(before)):
            continue
        # Written with a capital, though it opens no sentence, it is part of a name.
        is_name = found[0][0].isupper() and re.search(r"\w[^.!?]*$", before) is not None
        if not (is_name or _is_definite(word, before, after)):
            yield word


def _is_definite(word: str, before: str, after: str) -> bool:
    """Whether what stands around it gives it a meaning that readers share."""
    if _NO_PRAISE.search(before) or _is_settled(word, after):
        return True
    if word == "well":
        return _NOT_WELL.match(after) is not None
    if word in words("evaluative_adverbs"):
        return _PLAINLY.match(after) is not None or _BY_MEANS.search(after) is not None
    return word in _FOR_AN_AUDIENCE and _AUDIENCE.match(after) is not None


def _is_settled(word: str, after: str) -> bool:
    """Whether it is part of a term such as `clear liquid`, or a verb as in `clear the cache`."""
    following = re.match(r"\s+([\w-]+)(?:\s+([\w-]+))?", after)
    if following is None:
        return False
    nearby = [part.lower() for part in following.groups() if part]
    if word in ("clear", "sound", "clean") and nearby[0] in ("the", "a", "an", "its", "all", "out"):
        return True
    terms = word_lists()["settled"].get(word, "").split()
    return any(part in terms or part.removesuffix("s") in terms for part in nearby)


# R003 and R011: whether a scale of choices says what each of them means, and runs from worst to best.

_RATING = pattern(
    r"^\W*(?:rate|score|grade|assign|evaluate|judge|give)\b.{0,200}?"
    r"(?:\bon a scale\b|\bout of (?:5|7|10|100|five|seven|ten)\b|\bfrom [01] to \d+\b"
    r"|\b[01]\s*[-–]\s*(?:5|7|10|100)\b)"
)
_DESCRIBING = 3
"""Words from which a label says itself what it means."""


def explains_levels(criterion: Criterion, text: RequirementText) -> bool:
    """Whether it offers more than two choices, and says what each of them means."""
    return len(criterion.choices) > 2 and not _without_meaning(criterion.choices, text.said)


def unanchored(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Levels without a description of each."""
    if len(criterion.choices) == 2:
        if criterion.choices == BINARY and _RATING.search(text.plain):
            yield Hit(
                "R003",
                "it asks for a rating, and the judge may only say MET or UNMET",
                "list the levels under `choices`, and say in the requirement what each one means",
            )
        return
    missing = _without_meaning(criterion.choices, text.said)
    if missing:
        shown = ", ".join(f"'{label}'" for label in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield Hit(
            "R003",
            f"nothing says when a response deserves {shown}{more}",
            "describe each level, in the requirement or in the label itself",
            "choices",
        )


def _without_meaning(choices: Sequence[str], said: str) -> list[str]:
    """The short labels that do not stand in the requirement with something said about them."""
    return [
        label
        for label in choices
        if len(label.split()) < _DESCRIBING
        and not re.search(rf"(?<!\w){re.escape(label.strip())}(?!\w)\W*\w+\W+\w+", said, re.IGNORECASE)
    ]


def upside_down(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Choices from best to worst, which make the best response worth nothing."""
    choices = [choice.strip().casefold() for choice in criterion.choices]
    if all(re.fullmatch(r"\d{1,4}", choice) for choice in choices):
        numbers = [int(choice) for choice in choices]
        runs_down = numbers == sorted(numbers, reverse=True)
    else:
        runs_down = choices[0] in words("best") and choices[-1] in words("worst")
    # For a fault that is asked about as a question, `yes` is the worst answer, and may come first.
    may_be_meant = choices[0] not in ("met", "pass", "passed") and _described_fault(text)
    if not runs_down or may_be_meant:
        return
    first, last = criterion.choices[0], criterion.choices[-1]
    yield Hit(
        "R011",
        f"the choices run from '{first}' to '{last}', and the first one listed is worth 0",
        "list the choices from worst to best",
        "choices",
        # Of a question it is not certain which answer is the better one.
        "warning" if choices[0] in ("yes", "true") else None,
    )


# R004: several, many, enough.

_ANYWHERE = pattern(
    r"(?<!the\s)(?<!these\s)(?<!those\s)(?<![\w-])"
    r"(?P<amount>several|numerous|plenty of|lots of|a lot of|a few"
    r"|(?<!how\s)(?<!as\s)(?<!so\s)many(?! (?:people|times|a)\b)"
    r"|a (?:large |good |fair |sufficient )?(?:number|handful|multitude) of"
    r"|(?:sufficient|adequate) (?:numbers? of|examples|sources|references|citations|studies|cases)"
    r"|enough(?= (?!to\b|that\b|for\b|so\b)[\w-]+))"
)
_THINGS = r"(?:[\w-]+ ){0,2}[\w-]*(?:s|context|detail|evidence|data|background|information|humou?r|feedback)\b"
_GIVEN = pattern(
    r"(?:^\W*|\b<gives.both> (?:at least )?)"
    r"(?P<amount>various|a (?:wide |broad )?(?:variety|range|series|wealth) of"
    r"|some(?= (?!<some_in_general>\b)(?:of (?:the|its|these|those) )?" + _THINGS + "))"
)
"""Words that count only where the response is to give what they count."""
_PURPOSE = pattern(r"[^.;]*?\s(?:to|so that|that|for) \w+")
_COUNT_SAID = pattern(r"[^.;]{0,40}\((?:[^()]*\b)?(?:\d|<numbers>\b)[^()]*\)|[^.;]*: \S+")


def uncounted(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """A count that no number bounds."""
    if text.is_bounded or explains_levels(criterion, text):
        return
    for found in (*_ANYWHERE.finditer(text.own), *_GIVEN.finditer(text.own)):
        amount = " ".join(found["amount"].lower().split())
        after = text.own[found.end() :]
        if not (_COUNT_SAID.match(after) or (amount == "enough" and _PURPOSE.match(after))):
            advice = f"say how many, such as 'at least two' for '{amount}'"
            yield Hit("R004", f"'{amount}' names no number", advice)
            return


# R005: a fault that is rewarded, and a virtue that is punished.

_SUBJECT = (
    r"^\W*(?:(?:does|do|is|are|has|did|was|were) )?(?:(?:the|this|its?|their) )?"
    r"(?:(?:final|assistant's|model's|written|whole|agent's) )?(?:<response|subjects> )?"
    r"(?:(?:should|must|will|may|can|has|have) )?"
)
_FAULT = r"<faults>\b(?! (?:handling|messages?|codes?|bars?|rates?|terms?|margins?|log|recovery|analysis|checks?))"
_SOME = r"(?:(?:an?|the|any|many|several|some|numerous|obvious|serious) )*"
_NO_FAULT = r"(?! (?:answers?|claims?|statements?|options?|choices?|premises?)\b)"
"""After a faulty thing that a response may be right to speak of."""

_DESCRIBES_FAULT = pattern(
    _SUBJECT + r"(?P<fault><to_err.both>\b|<to_fail.both>\b|contradicts? itself"
    r"|(?:incorrectly|wrongly|falsely|erroneously|mistakenly) \w+"
    r"|(?:ignores?|disregards?) (?:the|its|their|any|all) (?:\w+['’]s )?(?:\w+ ){0,2}?<asked_for>\b"
    r"|(?:invents?|makes? up) (?:an? |the )?(?:\w+ )?<facts>\b"
    r"|(?:contains?|includes?|has|have|makes?|introduces?) " + _SOME + r"(?:[\w-]+ )?" + _FAULT + ""
    r"|<gives_faulty> " + _SOME + r"(?:\w+ly )?<faulty> (?!(?:or|and)\b)[\w-]+"
    r"|(?:is|are|be|sounds?|remains?) (?:\w+ly )?<faulty>\b" + _NO_FAULT + ""
    r"|(?:\w+ly )?<faulty>\s*(?:$|[.,;?]|(?:or|and)\b|(?:tone|language|information|answer|content)\W*$))"
)
_NEGATED = pattern(
    _SUBJECT + r"(?:(?:does|do|is|are|did|must|should|has|have|can|will)\s*n['’]t\b|(?:(?:does|do|is|are) )?not\b"
    r"|never\b|no\b|without\b)\s*(?P<rest>.*)"
)
_AVOIDS = pattern(_SUBJECT + r"(?P<virtue>avoids?|refrains? from|(?:(?:is|are|be) )?free (?:of|from)) \w+")
_DESCRIBES_VIRTUE = pattern(
    _SUBJECT + r"(?P<virtue><virtuously> \w+"
    r"|(?:is|are|be|remains?|stays?) (?:\w+ly )?<virtuous>\b(?! (?:about|for|to)\b)"
    r"|(?:gives?|provides?|states?|uses?|reaches|arrives? at) (?:(?:the|an?) )?(?:correct|right|accurate) \w+)"
    r"(?!.*\b(?:only|without|but|instead)\b)"
)
_NAMES_FAULT = pattern(
    r"<to_err.both>\b|(?:contain|include|have|make|introduce|give|provide|use) " + _SOME + r"(?:\w+ ){0,2}?"
    r"(?:" + _FAULT + r"|<faulty> \w+)|(?:any )?(?:\w+ )?" + _FAULT + r"|(?:\w+ly )?<faulty>\b"
)  # fmt: skip


def polarity(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """A fault with a positive weight, or a virtue with a negative one."""
    if criterion.choices != BINARY or criterion.weight == 0:
        return
    if criterion.weight > 0 and (fault := _described_fault(text)):
        yield Hit(
            "R005",
            f"'{fault}' describes a fault, and the weight of {criterion.weight:+g} rewards it",
            f"give it the weight {-criterion.weight:g}, or describe what a good response does",
        )
    if criterion.weight < 0 and (virtue := _described_virtue(text)):
        yield Hit(
            "R005",
            f"'{virtue}' describes a virtue, and the weight of {criterion.weight:g} punishes it",
            f"give it the weight {-criterion.weight:+g}, or describe the fault itself",
        )


def _described_fault(text: RequirementText) -> str:
    """The words with which it describes a fault; empty when it does not."""
    if _NEGATED.match(text.own) or _AVOIDS.match(text.own):
        return ""
    return _one_line(_DESCRIBES_FAULT.match(text.own), "fault")


def _described_virtue(text: RequirementText) -> str:
    """The words with which it describes a virtue, be it only the absence of a fault."""
    avoids = _one_line(_AVOIDS.match(text.own), "virtue")
    if avoids:
        return avoids
    negated = _NEGATED.match(text.own)
    if negated is not None:
        return "not …" if _NAMES_FAULT.match(negated["rest"]) else ""
    return _one_line(_DESCRIBES_VIRTUE.match(text.own), "virtue")


def _one_line(found: re.Match[str] | None, group: str) -> str:
    return "" if found is None else " ".join(found[group].split())


# R006: sentences that say no twice.

_DOUBLE = pattern(
    r"(?:\b(?:not|never|cannot)|n['’]t) (?:\w+ly |ever )?"
    r"(?:(?:fail|neglect|forget)(?:s|ed)? to|(?:omit|lack|avoid|exclude)(?:s|t?ed|d)?|refrain(?:s|ed)? from"
    r"|un(?!<no_denial>)\w{3,}|in<denied>(?:ly)?|im(?:polite|proper|possible|plausible)"
    r"|ir(?:relevant|responsible|rational)|il(?:logical|legal|legible)|dis(?:honest|respectful|similar)"
    r"|bad(?:ly)?|without)\b"
    r"|\bwithout (?:failing|omitting|neglecting|lacking)\b"
    r"|\bno (?:[\w-]+ ){1,3}(?:that|which|who) (?:is|are|was|were|does|do|has|have|can)\s*(?:not|n['’]t)\b"
)
_VERDICT = re.compile(
    r"\bUNMET\b"
    r"|(?i:\b(?:mark|grade|score|count|treat|rate|judge)(?:ed)?\s+(?:it\s+|this\s+)?(?:as\s+)?"
    r"(?:met|not\s+met|fail(?:ed)?|unmet)\b"
    r"|\b(?:answer|say|respond)\s+(?:with\s+)?[\"']?(?:no|yes|true|false)[\"']?\s+(?:if|when|unless)\b)"
)


def negation(_: Criterion, text: RequirementText) -> Iterator[Hit]:
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


# R010: a judge has the query, perhaps a reference, the response, and the criterion, and nothing else.

_UNSEEN = tuple(map(pattern, word_lists()["unseen"]))
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


def unseen(_: Criterion, text: RequirementText) -> Iterator[Hit]:
    """References to what no judge has before it."""
    what = _reference(text.own) or _address(text.said)
    if what:
        yield Hit("R010", f"a judge is not shown '{what}'", "put what it says into the requirement, or into the query")


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


_RULES: tuple[Callable[[Criterion, RequirementText], Iterator[Hit]], ...] = (
    compound, vague, unanchored, uncounted, polarity, negation, unseen, upside_down
)  # fmt: skip
