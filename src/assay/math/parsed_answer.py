"""Read the text of an answer into a tree: slips of typing mended, words and units marked."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from flint import fmpq

from assay.math.answer_text import DEEPEST, LONGEST, depth_of, unwrapped, without_markup
from assay.math.grammar import TOO_DEEP, UnreadableError, is_expression, parsed
from assay.math.tree import (
    Based,
    Constant,
    Listing,
    NamedSet,
    Node,
    Number,
    Percent,
    Quantity,
    Words,
    is_value,
    symbols_of,
)
from assay.math.units import CHINESE, SHAPES, says_what, unit_of
from assay.math.words import (
    FUNCTIONS,
    GREEK,
    LEADS,
    PERCENT,
    PHRASES,
    SCALES,
    SPELLED,
    VERDICTS,
    spelled,
    words_of,
)

_LEADS: Final = "|".join(map(re.escape, sorted(LEADS, key=len, reverse=True)))
_THEREFORE: Final = r"\\(?:therefore|approx|Rightarrow|implies|sim|because)(?![a-zA-Z])"
_LEADING: Final = re.compile(
    rf"(?:(?:{_LEADS})\b\s*:?\s*|{_THEREFORE}\s*|[~≈:=]\s*)+", re.IGNORECASE
)
_TRAILING: Final = re.compile(
    r"(?<=[\d)}\]%\s])\s*((?:[a-zA-Z][a-zA-Z'-]{2,}\.?)(?:[\s,]+[a-zA-Z][a-zA-Z'-]*\.?){0,11})$"
)
_LETTER_UNIT: Final = re.compile(
    r"(?<=[\d})])\s*([a-zA-Z]+(?:\s*/\s*[a-zA-Z]+)?(?:\^\{?-?\d\}?)?)$"
)
_DECIMAL_COMMA: Final = re.compile(r"-?\d+,\d+")
_TIMES_TEN: Final = re.compile(r"(\d)\s*[xX]\s*10(?=\s*\^)")
_LIBRARY: Final = re.compile(r"\b(?:np|numpy|math|sp|sympy)\.(?=[a-z])")
_SENTENCE: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s*$")
_STRAY_POINT: Final = re.compile(r"(?<=[\d}])\.(?=\s*[\])])")
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)(?![a-zA-Z])")
_ENUMERATED: Final = re.compile(r"[,;]?\s*(?<![a-zA-Z\d)])\([a-e]\)\s+(?=[-+.\d\\$])")
# A quantifier over all numbers of a kind says nothing more; one with a bound (`for all n > 3`) is part of the answer.
_CONDITION: Final = re.compile(
    r",?\s*(?:\\text\s*\{\s*,?\s*|\b)(?:for|where)\s+(?:all|any|every|some|each)\b"
    r"(?:[\s{}$,]|\\text|\b(?:real|positive|negative|integers?|numbers?|whole|natural|reals|values?|of|constants?|[a-zA-Z])\b"
    r"|\\in(?![a-z])|\\mathbb\s*\{?[RZNQC]\}?)*$"
)
_CLOCK: Final = re.compile(
    r"\d{1,2}:(?:0\d|\d\d\s*[ap]\.?\s*m\.?)(?:\s*[ap]\.?\s*m\.?)?", re.IGNORECASE
)
_WORDS_ONLY: Final = re.compile(r"[a-zA-Z][a-zA-Z\s,.'\"!?;:-]*")
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{([^{}]*)\}")
_DIGIT: Final = re.compile(r"\d")
_CHINESE: Final = re.compile(rf"(?<=[\d)}}])\s*({'|'.join(SHAPES)})({'|'.join(CHINESE)})\Z")
_NUMERAL: Final = re.compile(r"(?:\((\d+)\)|\\(?:text|mathrm)\s*\{(\d+)\})\s*_")
_SPELLED_BASE: Final = re.compile(r"(?<=\d)_\{\s*\\(?:text|mathrm)\s*\{\s*([a-z]+)\s*\}\s*\}")
_CALLED_MATRIX: Final = re.compile(r"\A(?:Matrix|array)\s*\((\[\[.*\]\])\)\Z", re.DOTALL)
# A brace is closed where it was opened: `\frac{4 A}{3}` holds no `4 A 3`.
_N, _K = (rf"(?P<{name}_brace>\{{)?(?P<{name}>\d+|[a-z])(?({name}_brace)\}})" for name in "nk")
_SIGN: Final = r"(?P<sign_brace>\\(?:mathrm|text)\s*\{)?(?P<sign>[CPA])(?(sign_brace)\})"
_COMBINATIONS: Final = (
    re.compile(rf"(?:\{{\}})?[_^]{_N}\s*{_SIGN}\s*_{_K}"),
    re.compile(rf"(?<![\w}}]){_SIGN}_{_N}\^{_K}"),
    re.compile(rf"(?<![\w}}]){_SIGN}\^{_K}_{_N}"),
    re.compile(rf"(?<![\w}}]){_SIGN}\s*\({_N}\s*,\s*{_K}\)"),
    re.compile(rf"(?<![\w}}]){_N}\s*{_SIGN}\s*{_K}(?![\w(])"),
)


@dataclass(frozen=True)
class ParsedAnswer:
    """What a text says. `tree` is None when it cannot be read, and `problem` says why."""

    text: str  # the text as it was read, without its wrapping
    tree: Node | None
    problem: str = ""
    is_too_large: bool = False
    is_ambiguous: bool = False

    @cached_property
    def is_expression(self) -> bool:
        """Whether math-verify may be asked about it: one expression, and no relation, list, logic or words."""
        is_read = self.tree is not None
        return is_expression(self.text, is_read=is_read) and (
            self.tree is None or is_value(self.tree)
        )

    def others(self, beside: "ParsedAnswer", *, is_gold: bool) -> tuple[Node, ...]:
        """Trees of other readings: `1/2x` as half of x, commas between all numbers, a letter as a unit."""
        if isinstance(self.tree, Words):
            return ()
        found = list(self._others)
        decimal = beside.tree
        if (
            not is_gold
            and isinstance(decimal, Number)
            and decimal.decimal
            and _DECIMAL_COMMA.fullmatch(self.text)
        ):
            found += _attempt(self.text.replace(",", "."))
        unit = _LETTER_UNIT.search(self.text)
        if unit is None or beside.tree is None or unit_of(unit[1]) is None:
            return tuple(found)
        # `7 m` is 7 metres where the gold has no m, or where the other has a unit too; `m/s` is a unit in any case.
        letters = set(re.findall("[a-zA-Z]", unit[1]))
        is_sure = "/" in unit[1] or isinstance(beside.tree, Quantity)
        if is_sure or (
            not is_gold and unit[0][0] == " " and letters.isdisjoint(symbols_of(beside.tree))
        ):
            found += _attempt(f"{self.text[: unit.start()]}\\text{{{unit[1]}}}")
        return tuple(found)

    @cached_property
    def _others(self) -> tuple[Node, ...]:
        found: list[Node] = []
        counted = _with_binomials(self.text)
        if counted != self.text:
            found += _attempt(counted)
        if self.is_ambiguous:
            found += _attempt(self.text, loose=True)
        if re.search(r"\d,\d{3}", self.text):
            lists = _attempt(self.text, grouped=False)
            found += [tree for tree in lists if isinstance(tree, Listing)]
        return tuple(tree for tree in found if tree != self.tree)


def _attempt(text: str, *, loose: bool = False, grouped: bool = True) -> list[Node]:
    try:
        return [parsed(text, loose=loose, grouped=grouped)[0]]
    except UnreadableError:
        return []


@lru_cache(maxsize=16384)
def read(answer: str) -> ParsedAnswer:
    r"""The reading of an answer; golds are read once, however often they are compared."""
    if len(answer) > LONGEST:
        return ParsedAnswer(answer[:LONGEST], None, f"{len(answer)} characters are no answer", True)
    text = _mended(without_markup(unwrapped(answer)))
    if not text:
        return ParsedAnswer("", None, "it is empty")
    if depth_of(text) > DEEPEST:
        return ParsedAnswer(text, None, f"brackets nest more than {DEEPEST} deep", True)
    clock = _TEXT.sub(lambda match: match[1], text)
    if _CLOCK.fullmatch(clock):
        return ParsedAnswer(text, Words(re.sub(r"[\s.]", "", clock.casefold())))
    numeral = _read_numeral_with_letters(text)
    if numeral is not None:
        return ParsedAnswer(text, numeral)
    words = _as_words(text)
    if words is not None:
        return ParsedAnswer(text, words)
    text = _with_words_marked(text)
    try:
        tree, is_ambiguous = parsed(text)
    except UnreadableError as error:
        counted = _with_binomials(text)
        if counted != text:
            return read(counted)
        return ParsedAnswer(text, None, str(error), is_too_large=str(error) == TOO_DEEP)
    return ParsedAnswer(text, tree, is_ambiguous=is_ambiguous)


_NUMERAL_WITH_LETTERS: Final = re.compile(r"([0-9][0-9a-zA-Z]*|[A-F]{2,})_\{?(\d{2})\}?")


def _read_numeral_with_letters(text: str) -> Based | None:
    """Return a numeral in a base above 10, such as `2B_{16}`, or None."""
    match = _NUMERAL_WITH_LETTERS.fullmatch(text)
    if match is None or match[1].isdigit():
        return None
    digits, base = match[1].lower(), int(match[2])
    try:
        int(digits, base)
    except ValueError:
        return None
    return Based(digits, base)


def _mended(text: str) -> str:
    """The text without slips of typing that change nothing: doubled backslashes, `√2.]`, `15th`."""
    text = _LIBRARY.sub("", text.strip().lstrip("#").strip())
    wrapped = _TEXT.match(text)
    if wrapped and wrapped.end() == len(text) and _DIGIT.search(text):
        text = wrapped[1].strip()
    elif (
        wrapped
        and (leads := words_of(wrapped[1]))
        and LEADS.issuperset(leads)
        and not _DIGIT.search(wrapped[1])
    ):
        text = text[wrapped.end() :].lstrip(" :=")  # `\text{Answer: }7`
    text = _CHINESE.sub(lambda match: rf"\text{{ {SHAPES[match[1]]} {CHINESE[match[2]]}}}", text)
    if "\\\\" in text and r"\begin" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z])", r"\\", text)
    text = _STRAY_POINT.sub("", text)
    text = _ORDINAL.sub("", text)
    text = _ENUMERATED.sub(r", ", text).lstrip(", ") if _ENUMERATED.match(text) else text
    text = _NUMERAL.sub(lambda match: f"{match[1] or match[2]}_", text)
    text = _SPELLED_BASE.sub(
        lambda match: f"_{{{SPELLED[match[1]]}}}" if match[1] in SPELLED else match[0], text
    )
    text = _CALLED_MATRIX.sub(r"\1", text)
    return _CONDITION.sub("", text).strip()


def _with_binomials(text: str) -> str:
    """The text with combinations and permutations as LaTeX writes them: `9C3`, `C(9,3)`, `C_9^3`, `{}_9P_3`."""
    if any(sign in text for sign in "CPA"):
        for pattern in _COMBINATIONS:
            text = pattern.sub(_counted, text)
    return text


def _counted(match: re.Match[str]) -> str:
    n, sign, k = match["n"], match["sign"], match["k"]
    return rf"\binom{{{n}}}{{{k}}}" if sign == "C" else rf"\frac{{({n})!}}{{({n}-{k})!}}"


def _as_words(text: str) -> Node | None:
    """What a text of words alone stands for: a set, a number, or itself."""
    plain = _TEXT.sub(lambda match: match[1], text)
    if not _WORDS_ONLY.fullmatch(plain):
        return None
    folded = " ".join(plain.casefold().split()).strip(" .,;:!?\"'")
    if folded in PHRASES:
        meant = PHRASES[folded]
        return Constant("infinity") if meant == "infinity" else NamedSet(meant)
    if folded in VERDICTS:
        return Words(folded)
    words = words_of(folded)
    number = spelled(words)
    if number is not None:
        top, bottom, count = number
        rest = " ".join(words[count:])
        value = Number(fmpq(top, bottom))
        if not rest or rest in PERCENT:
            return Percent(value) if rest else value
        return Quantity(value, rest) if says_what(rest) else Words(folded)
    is_text = plain != text and not any(map(is_mathematics, words))
    if is_text or any(len(word) > 3 and not is_mathematics(word) for word in words):
        return Words(folded)
    return None


def is_mathematics(word: str) -> bool:
    return word in FUNCTIONS or word in GREEK or word in ("sqrt", "cbrt", "infty", "infinity")


def _with_words_marked(text: str) -> str:
    """The text without "the answer is" before it, and with the words behind it marked as text."""
    text = _TIMES_TEN.sub(r"\1\\times 10", text)
    leading = _LEADING.match(text)
    if leading and leading.end() < len(text):
        text = text[leading.end() :]
    trailing = _TRAILING.search(text)
    words = [] if trailing is None else words_of(trailing[1])
    rest = " ".join(words[1:] if words[:1] and words[0] in SCALES else words)
    are_words = bool(words) and (not rest or rest in PERCENT or says_what(rest))
    if trailing and are_words and not _SENTENCE.search(text[: trailing.start()]):
        text = f"{text[: trailing.start()]}\\text{{{trailing[1]}}}"
    return text
