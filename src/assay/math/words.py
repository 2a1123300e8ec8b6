"""List the words of answers, in one table: what each does to the number, formula or text that it stands beside."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple


class TableRow(NamedTuple):
    """Words or notations of one kind, and a pair of answers that shows what they do."""

    kind: str
    entries: str  # divided by spaces, or by commas where they are phrases; `asin=arcsin` is another spelling
    rule: str
    gold: str
    answer: str
    same: bool


WORDS: Final = (
    TableRow(
        "function",
        "sin cos tan sec csc cot sinh cosh tanh coth sech csch arcsin arccos arctan arccot arcsec arccsc arcsinh arccosh "
        "arctanh ln log lg exp gcd lcm max min floor ceil abs cbrt sign asin=arcsin acos=arccos atan=arctan arsinh=arcsinh "
        "arcosh=arccosh artanh=arctanh asinh=arcsinh acosh=arccosh atanh=arctanh cosec=csc tg=tan ctg=cot cotan=cot "
        "arctg=arctan sh=sinh ch=cosh sgn=sign Log=log Ln=ln",
        "names of functions, with or without a backslash",
        r"\sin x", "sin(x)", True,
    ),
    TableRow(
        "letter",
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho sigma "
        "varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar "
        "partial nabla aleph Re Im",
        "Greek letters are variables, and no units",
        "7", "7 theta", False,
    ),
    TableRow(
        "constant", "pi infty=infinity infinity inf=infinity oo=infinity imath=i emptyset=empty varnothing=empty",
        "constants are factors, and no units", "12", "12 pi", False,
    ),
    TableRow(
        "R",
        "all real numbers, all reals, all real, any real number, all real values, all real numbers x, every real number, "
        "the set of all real numbers",
        "phrases for the real numbers", r"\mathbb{R}", "all real numbers", True,
    ),
    TableRow("Z", "all integers, any integer, every integer", "and for the whole numbers", r"\mathbb{Z}", "all integers", True),
    TableRow(
        "empty",
        "empty set, the empty set, no solution, no solutions, no real solution, no real solutions, none, "
        "there is no solution, there are no solutions, no real roots, no such numbers, no such integers exist",
        "and for the empty set", r"\emptyset", r"\text{no solution}", True,
    ),
    TableRow(
        "infinity", "infinity, positive infinity, infinitely many, infinite, infinitely many solutions",
        "and for infinity", r"\infty", "infinitely many", True,
    ),
    TableRow(
        "verdict", "yes no true false nan zoo", "words that are an answer by themselves", r"\text{yes}", "Yes.", True
    ),
    TableRow(
        "numeral",
        "zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 thirteen=13 "
        "fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30 forty=40 fifty=50 "
        "sixty=60 seventy=70 eighty=80 ninety=90 once=1",
        "numerals in words", "27", "twenty-seven", True,
    ),
    TableRow(
        "scale",
        "dozen=12 hundred=100 thousand=1000 million=1000000 billion=1000000000 trillion=1000000000000",
        "words that multiply the number before them", "7", "seven hundred", False,
    ),
    TableRow(
        "part",
        "half=2 halves=2 third=3 thirds=3 quarter=4 quarters=4 fourth=4 fourths=4 fifth=5 fifths=5 sixth=6 sixths=6 "
        "seventh=7 sevenths=7 eighth=8 eighths=8 ninth=9 ninths=9 tenth=10 tenths=10 hundredth=100 hundredths=100 "
        "thousandth=1000 thousandths=1000",
        "words that divide it", "7", "7 halves", False,
    ),
    TableRow("percent", "percent percents percentage pct %", "and words for a hundredth", r"50\%", "50 percent", True),
    TableRow("ordinal", "st nd rd th", "endings of ordinal numbers", "15", "15th", True),
    TableRow("sign", "negative minus", "words that turn its sign", "7", "negative 7", False),
    TableRow(
        "lead",
        "the final answer answers is are equals equal approximately about around roughly exactly value total result solution "
        "solutions therefore thus so hence then it it's we get gets have has obtain obtains find finds gives give yields becomes to of "
        "be will would",
        "words that may stand before an answer", "7", "the answer is 7", True,
    ),
    TableRow(
        "label",
        "people persons men women children feet teeth mice geese fish sheep dice each old long tall wide high deep total altogether "
        "unit units day way different possible distinct ordered remaining away",
        "words that may stand behind it, as may any plural: they say what is counted", "3", r"3 \text{ apples}", True,
    ),
    TableRow(
        "measure",
        "area volume length width height depth radius diameter perimeter circumference distance speed rate cost price profit "
        "probability age mass weight time period amount number count score size",
        "what a number may be the measure of: behind any other noun and `of` stands no answer", "7", "the negation of 7", False,
    ),
    TableRow(
        "operation",
        "plus times over divided multiplied multiply by squared cubed factorial choose mod modulo base power root point "
        "factor divisor remainder quotient product reciprocal inverse twice double triple square cube multiple multiples divisible log sine cosine tangent infinite score "
        "gross couple",
        "words for an operation: all of it is the answer", "7", "square root of 7", False,
    ),
    TableRow(
        "bound",
        "less more fewer greater least most than above below under between up almost nearly either or neither nor beyond "
        "smaller larger bigger within near close next opposite difference sum",
        "words for a bound", "7", "less than 7", False,
    ),
    TableRow(
        "denial",
        "not no never neither nor except without cannot can't isn't aren't wasn't don't doesn't didn't but wrong incorrect false "
        "unless instead rather nothing anything impossible",
        "words that deny it", "7", "anything but 7", False,
    ),
    TableRow(
        "link", "and or if for where mod with when such is are was which that because since has have odd even prime",
        "words that join or restrict what stands before and behind them", r"n \ge 3 \text{ odd}", r"n \ge 3 \text{ even}", False,
    ),
)  # fmt: skip


def meanings(rows: Sequence[TableRow], kinds: Sequence[str], separator: str) -> dict[str, str]:
    """Every entry of these kinds, by what it means: itself, or what stands behind its separator."""
    found: dict[str, str] = {}
    for row in rows:
        if row.kind in kinds:
            for entry in (
                row.entries.split(", ") if ", " in row.entries and separator not in row.entries else row.entries.split()
            ):
                name, _, meaning = entry.partition(separator)
                found[name] = meaning or name
    return found


def _of_kind(*kinds: str) -> dict[str, str]:
    return meanings(WORDS, kinds, "=")


FUNCTIONS: Final = _of_kind("function")
"""How functions may be written, and what each is called in the tree."""
GREEK: Final = frozenset(_of_kind("letter"))
CONSTANTS: Final = _of_kind("constant")
SETS: Final = frozenset("RZNQC")  # letters that name a set of numbers, in blackboard bold
PHRASES: Final = {phrase: kind for kind in ("R", "Z", "empty", "infinity") for phrase in _of_kind(kind)}
"""Sentences that stand for a set of numbers, by its name, or for infinity."""
VERDICTS: Final = frozenset(_of_kind("verdict"))
SPELLED: Final = {word: int(number) for word, number in _of_kind("numeral").items()}
SCALES: Final = {word: int(number) for word, number in _of_kind("scale").items()}
_PARTS: Final = {word: int(number) for word, number in _of_kind("part").items()}
PERCENT: Final = frozenset(_of_kind("percent"))
ORDINALS: Final = tuple(_of_kind("ordinal"))
LEADS: Final = frozenset(_of_kind("lead"))
_LABELS: Final = frozenset(_of_kind("label"))
MEASURES: Final = frozenset(_of_kind("measure"))
VERBS: Final = LEADS & frozenset(
    "is are equals get gets have has obtain obtains find finds gives give yields becomes be answer".split()
)
LINKS: Final = frozenset(
    "is are was which that because since for with when where and has have on at in from as every each per so".split()
)
GENERIC: Final = _LABELS | frozenset({"square", "cubic", "sq", "in", "of", "the", "all"})
DENIALS: Final = frozenset(_of_kind("denial"))
CHANGES: Final = frozenset(_of_kind("part", "scale", "sign", "operation", "bound", "denial")) | {"percent", "third"}
"""Words that make another number, or none, of the number that they stand beside."""
CONNECTIVES: Final = {"and": "and", "or": "or", ", and": "and", ", or": "or", ",": ",", "and/or": "or"}
"""What may stand between two answers, and which connective it is."""
NO_FACTORS: Final = frozenset({"and", "or", "if", "for", "where", "mod", "to"})
"""Words that are never multiplied by standing beside a number."""
NO_UNITS: Final = NO_FACTORS | CONNECTIVES.keys() | PERCENT | {"with", "when", "such that"}
"""Words in `\\text{…}` behind a number that are not its unit."""
NO_LABELS: Final = (
    CHANGES | frozenset(_of_kind("link")) | SPELLED.keys() | GREEK | FUNCTIONS.keys() | CONSTANTS.keys()
) - {"min", "square", "cube"}

_NUMBER: Final = re.compile(r"(?<![\^{\d])\d")  # another number than the power of a unit
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def makes_another(word: str) -> bool:
    """Whether a word beside a number makes another of it."""
    return word in NO_LABELS - LINKS or word in ("square", "cube") or word.rstrip("s") in SCALES


def is_label(text: str) -> bool:
    """Whether words behind a number only say what it counts: `apples`, `different ways`, but not `hundred` or `theta`."""
    words = words_of(text)
    if words[-1:] == ["times"]:
        words = [*words[:-1], "ways"]
    if (
        not words
        or _NUMBER.search(text)
        or not NO_LABELS.isdisjoint(words)
        or any(word.rstrip("s") in SPELLED.keys() | SCALES for word in words)
    ):
        return False
    return any(word in _LABELS or (len(word) > 3 and word[-1] == "s" != word[-2]) for word in words)


def spelled(words: list[str]) -> tuple[int, int, int] | None:
    """The number that words begin with (top and bottom), and how many words it takes: `minus two thirds` is (-2, 3, 3)."""
    place = 1 if words[:1] in (["negative"], ["minus"]) else 0
    sign, start, total, current, last = (-1 if place else 1), place, 0, 0, 0
    while place < len(words):
        word = words[place]
        if word in SPELLED and (last == 0 or (last % 10 == 0 and SPELLED[word] < 10 <= last < 100) or last >= 100):
            current += SPELLED[word]
            last = SPELLED[word] or 10
        elif word in SCALES and (last or word != "dozen"):
            if word == "hundred":
                current = (current or 1) * 100
            else:
                total, current = total + (current or 1) * SCALES[word], 0
            last = SCALES[word]
        elif not (word == "and" and last >= 100 and words[place + 1 : place + 2] and words[place + 1] in SPELLED):
            break
        place += 1
    if place == start:
        return None
    top, bottom = total + current, 1
    if place < len(words) and words[place] in _PARTS:
        bottom, place = _PARTS[words[place]], place + 1
    elif words[place : place + 3] in (["and", "a", "half"], ["and", "one", "half"]):
        top, bottom, place = 2 * top + 1, 2, place + 3
    return sign * top, bottom, place
