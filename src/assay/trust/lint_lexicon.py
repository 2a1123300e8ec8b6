"""The words that the rules know. English only: a rubric in another language meets none of them."""

import re
from collections.abc import Iterable
from typing import Final


def words(text: str) -> frozenset[str]:
    """The words of a text; `_` stands for a space in one of them."""
    return frozenset(text.split())


def any_of(terms: Iterable[str]) -> str:
    """A pattern for any of these, the longest first.

    >>> any_of({"well", "well_written"})
    '(?:well\\\\s{1,2}written|well)'
    """
    ordered = sorted(terms, key=lambda term: (-len(term), term))
    return "(?:" + "|".join(re.escape(term).replace("_", r"\s{1,2}") for term in ordered) + ")"


def pattern(text: str, **lists: Iterable[str]) -> re.Pattern[str]:
    """A pattern in which a space is white space, and `<name>` any word of the list of that name.

    Of white space at most two characters in a row: `text_of` leaves no more, and no text can make it slow.

    >>> pattern("cites? <many> sources", many={"several", "a_few"}).findall("Cites a  few sources")
    ['Cites a  few sources']
    """
    for name, terms in lists.items():
        any_term = any_of(terms)
        # The name of a group stands in the same brackets.
        text = re.sub(rf"(?<!\?P)<{name}>", lambda _, any_term=any_term: any_term, text)
    return re.compile(text.replace(" ", r"\s{1,2}"), re.IGNORECASE | re.DOTALL)


def third_person(verb: str) -> str:
    """The form after *it*.

    >>> [third_person(verb) for verb in ("cite", "discuss", "specify", "be", "have")]
    ['cites', 'discusses', 'specifies', 'is', 'has']
    """
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    first, space, rest = verb.partition("_")
    if first.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{first}es{space}{rest}"
    if first.endswith("y") and first[-2:-1] not in "aeiou":
        return f"{first[:-1]}ies{space}{rest}"
    return f"{first}s{space}{rest}"


_IRREGULAR: Final = {"be": "is", "have": "has"}


def both_forms(verbs: Iterable[str]) -> frozenset[str]:
    """Verbs, and their third person."""
    return frozenset(form for verb in verbs for form in (verb, third_person(verb)))


RESPONSE: Final = words(
    "response answer reply output text model assistant summary essay explanation solution"
)
"""What the thing that is judged is called."""

REPORTING: Final = both_forms(
    words(
        "state say mention note explain claim argue warn tell inform report show conclude recognize "
        "recognise acknowledge point_out indicate assert emphasize emphasise clarify suggest assume imply "
        "believe prove demonstrate confirm find ask advise specify identify observe highlight stress remind "
        "add admit concede recommend describe understand determine know check establish discuss"
    )
)
"""Verbs after which `that`, `whether` or `why` begins what the response is to say."""

ACTS: Final = words(
    "explain ask recommend describe suggest propose mention cite advise warn justify discuss identify "
    "summarize summarise clarify acknowledge apologize apologise refuse decline greet thank encourage compare "
    "evaluate analyze analyse interpret conclude emphasize emphasise highlight argue define illustrate "
    "demonstrate confirm specify recognize recognise explore outline avoid refrain omit calculate compute "
    "derive prove verify validate provide give offer include contain maintain preserve adhere respect follow "
    "convey articulate engage ensure refer address cover exhibit"
)
"""What a response does, in verbs that are hardly ever nouns."""

ACTS_OR_NOUNS: Final = words(
    "state name list note report show use quote mark label answer link document support promise request comment "
    "reference question point present estimate sort end format contrast display plan structure challenge detail "
    "tell keep make handle sound remain"
)
"""What a response does, in words that may also be nouns."""

WORLDLY: Final = words(
    "include contain provide give offer maintain preserve cover follow avoid respect ensure use show keep make "
    "name list end mark state report answer present handle support remain omit"
)
"""Acts that things in the world do too, so that they need not be the response's own."""

EVALUATIVE: Final = words(
    "good nice great excellent appropriate adequate sufficient reasonable suitable proper helpful concise "
    "succinct comprehensive thorough professional engaging insightful compelling persuasive polished coherent "
    "readable high-quality well-written well-structured well-organized well-organised well-reasoned "
    "well-crafted well-researched well-thought-out well_written well_structured well_organized well_organised "
    "well_reasoned in-depth meaningful creative maintainable user-friendly natural-sounding satisfactory decent "
    "supportive vivid inappropriate inadequate insufficient unprofessional easy_to_understand easy_to_read "
    "easy_to_follow easily_understandable understandable nuanced trustworthy"
)
"""Praise and blame that two readers settle differently."""

OFTEN_EVALUATIVE: Final = words(
    "clear unclear effective efficient detailed interesting elegant rigorous clean intuitive fluent acceptable "
    "sound solid robust strong unnecessary poor bad accessible sophisticated scalable optimal balanced"
)
"""Praise and blame in a short criterion; in a long one, as often words of its subject."""

EVALUATIVE_ADVERBS: Final = words(
    "well nicely appropriately adequately sufficiently reasonably suitably properly effectively efficiently "
    "helpfully clearly concisely succinctly comprehensively thoroughly professionally insightfully compellingly "
    "persuasively coherently gracefully neatly naturally fluently elegantly rigorously meaningfully creatively "
    "critically poorly badly inappropriately satisfactorily intelligently skillfully skilfully adeptly "
    "competently"
)

FACTUAL: Final = words(
    "accurate correct complete polite kind respectful formal factual honest neutral relevant specific consistent "
    "truthful precise friendly empathetic faithful grammatical objective unbiased impartial informative logical "
    "plausible safe legible valid original realistic up-to-date actionable short brief simple lucid courteous "
    "warm calm feasible transparent fair humble inclusive interactive"
)
"""Qualities that a reader can settle, and that make a criterion two when there are two of them."""

_SETTLED = """
    clear: liquid fluid water skin sky glass membrane broth plastic cache coat text day weather varnish lens
    good: faith news samaritan friday morning afternoon evening day terms cause standing practice cholesterol enough
    reasonable: person doubt accommodation care notice time adjustment suspicion force
    proper: noun name fraction subset motion divisor time
    effective: date dose rate tax interest resistance altruism population treatment
    adequate: intake
    sufficient: condition statistic funds cause
    strong: acid base password force interaction verb winds
    sound: file wave level system speed card effect
    solid: state line waste phase fuel food angle
    clean: water energy room air install up
    robust: against to standard regression optimization optimisation
    bad: debt request gateway cholesterol faith news
    poor: people countries households sleep circulation
    optimal: control transport solution value policy
    balanced: accuracy tree parentheses brackets equation diet panel scorecard chemical
    creative: commons director
    professional: degree liability body development boxer help translator
    great: britain depression wall barrier lakes war grandmother grandfather circle
    acceptable: daily use
    accessible: entrance toilet
    efficient: market frontier
    interesting: fact
"""
SETTLED: Final = {
    word.strip(): words(after)
    for word, after in (row.split(":") for row in _SETTLED.strip().splitlines())
}
"""Words of the lists above, and those before which they mean something definite."""

FAULTS: Final = words(
    "error errors mistake mistakes typo typos hallucination hallucinations inaccuracy inaccuracies falsehood "
    "falsehoods contradiction contradictions misinformation disinformation plagiarism slurs insults profanity "
    "fallacy fallacies misspelling misspellings misconceptions bugs"
)
FAULTY: Final = words(
    "wrong incorrect inaccurate false misleading fabricated erroneous untrue irrelevant offensive rude insulting "
    "off-topic incomplete inconsistent disrespectful biased nonsensical harmful toxic incoherent unsafe unhelpful "
    "dishonest condescending hostile invented outdated unsupported factually_wrong racist sexist"
)
TO_FAIL: Final = both_forms(words("fail_to neglect_to forget_to"))
TO_ERR: Final = both_forms(
    words(
        "hallucinate misstate misrepresent misquote misread misspell miscalculate mistranslate misinterpret "
        "misidentify misattribute mislead misuse miscount misclassify misunderstand plagiarize plagiarise insult "
        "ramble fabricate"
    )
)
VIRTUOUSLY: Final = words(
    "correctly accurately properly clearly politely successfully appropriately respectfully faithfully "
    "effectively honestly precisely rightly truthfully"
)
VIRTUOUS: Final = words(
    "correct accurate polite helpful clear respectful concise honest complete truthful relevant coherent factual "
    "faithful factually_correct factually_accurate well-written well-structured safe consistent kind fluent "
    "grammatical"
)

PAIRED: Final = frozenset(
    frozenset(pair.split("/"))
    for pair in words(
        "terms/conditions salt/pepper pros/cons research/development supply/demand trial/error cause/effect "
        "health/safety black/white bread/butter profit/loss assets/liabilities mean/variance null/void law/order "
        "questions/answers question/answer input/output start/end begin/end beginning/end first/last true/false "
        "yes/no name/address names/addresses before/after left/right old/new up/down mind/body mother/father "
        "parents/children husband/wife brothers/sisters ladies/gentlemen rise/fall time/date day/night time/place "
        "read/write copy/paste search/replace plus/minus necessary/sufficient wear/tear nuts/bolts peace/quiet "
        "aims/objectives strengths/weaknesses advantages/disadvantages costs/benefits risks/benefits "
        "similarities/differences rights/duties"
    )
)
"""Words that belong together, and are one thing when `and` joins them."""
