"""Parse the text of an answer into a tree: fix typos, and read words, units and choices."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, NamedTuple

from flint import fmpq

from assay.math.grammar import TOO_DEEP, parse
from assay.math.markup import MAX_DEPTH, MAX_LENGTH, measure_depth, remove_markup, unwrap
from assay.math.math_verify_syntax import is_expression
from assay.math.text_cache import cache_short_texts
from assay.math.tokens import UnreadableError
from assay.math.tree import (
    Based,
    Constant,
    Listing,
    NamedSet,
    Node,
    Number,
    Percent,
    Quantity,
    Symbol,
    Words,
    find_symbols,
    is_value,
    list_nodes,
    negate,
)
from assay.math.units import CHINESE, SHAPES, is_unit_or_label, parse_unit
from assay.math.words import (
    BASIS_POINTS,
    CONNECTIVES,
    DENIALS,
    FUNCTIONS,
    GREEK,
    LEADS,
    LINKS,
    MEASURES,
    NUMERALS,
    PARTS,
    PERCENT,
    PHRASES,
    SCALES,
    VERDICTS,
    list_words,
    read_number,
)

Quantifier = Literal["all", "some"]


@dataclass(frozen=True)
class ParsedAnswer:
    """What a text says. `tree` is None if it cannot be read, and `problem` says why."""

    text: str  # as it was parsed, without its wrapping
    tree: Node | None
    problem: str = ""
    is_too_large: bool = False
    is_ambiguous: bool = False
    # The letter of a multiple choice, such as C for `(C) 12`, of which `tree` is then the 12.
    choice: str | None = None
    # What was said of all numbers, or of some, and is not in `tree`.
    quantifier: Quantifier | None = None

    @cached_property
    def is_expression(self) -> bool:
        """Whether it is one expression, about which math-verify can be trusted.

        It cannot be trusted about infinity: it takes ∞^0 for 1, which has no value.
        """
        if self.tree is None:
            return is_expression(self.text, is_read=False)
        if not is_value(self.tree) or Constant("infinity") in list_nodes(self.tree):
            return False
        return is_expression(self.text, is_read=True)

    @property
    def is_bare_choice(self) -> bool:
        """Whether it is the letter of a choice, and nothing else."""
        if self.choice is None or not isinstance(self.tree, Symbol):
            return False
        return self.tree.name.upper() == self.choice

    @cached_property
    def clock_time(self) -> tuple[int, int] | None:
        """Hours and minutes, if the text could be a time: `4:30` is also the ratio 2:15."""
        match = _CLOCK_TIME.fullmatch(self.text.strip())
        return None if match is None else (int(match[1]), int(match[2]))

    def other_readings(self, other: "ParsedAnswer", *, is_gold: bool) -> tuple[Node, ...]:
        """Return the trees of other ways to read this answer, some with regard to the other answer.

        `1/2x` may be half of x, `1,234` two numbers, and a letter behind a number its unit.
        `is_gold` says that this is the gold.
        """
        if isinstance(self.tree, Words):
            return ()
        if isinstance(other.tree, Words):
            return self._read_as_words()
        readings = list(self._readings_of_text)
        is_decimal = isinstance(other.tree, Number) and other.tree.decimal
        if not is_gold and is_decimal and _DECIMAL_COMMA.fullmatch(self.text):
            readings += _parse_if_readable(self.text.replace(",", "."))
        if other.tree is not None:
            readings += self._read_letter_unit(other.tree, is_gold=is_gold)
        return tuple(readings)

    def _read_as_words(self) -> tuple[Node, ...]:
        """Return the tree of letters that are read as words: `odd` is then not o times d times d.

        The result is empty if the text is more than words.
        """
        if _WORDS_ONLY.fullmatch(self.text) is None:
            return ()
        return (Words(self.text.casefold().strip(" .,;:!?\"'")),)

    def _read_letter_unit(self, other: Node, *, is_gold: bool) -> list[Node]:
        """Return the tree in which `7 m` is 7 metres, if nothing suggests that m is a variable.

        The result is empty if the text does not end with such letters, or if they are variables.
        """
        match = _LETTER_UNIT.search(self.text)
        if match is None or parse_unit(match[1]) is None:
            return []
        unit = match[1]
        letters = set(re.findall("[a-zA-Z]", unit))
        is_surely_unit = "/" in unit or isinstance(other, Quantity)
        is_unknown_to_gold = not is_gold and letters.isdisjoint(find_symbols(other))
        has_space_before = match[0].startswith(" ")
        if is_surely_unit or (is_unknown_to_gold and has_space_before):
            return _parse_if_readable(f"{self.text[: match.start()]}\\text{{{unit}}}")
        return []

    @cached_property
    def _readings_of_text(self) -> tuple[Node, ...]:
        """The trees of other ways to read the text, which do not depend on the other answer."""
        # `2 hours 30 minutes` in its other units; the first one is read already.
        readings: list[Node] = [*_read_compound_quantity(self.text)[1:]]
        # `9C3` as a binomial coefficient, and not as a product.
        with_binomials = _write_binomials(self.text)
        if with_binomials != self.text:
            readings += _parse_if_readable(with_binomials)
        # `A(1, 2)` as the point A = (1, 2).
        point = _NAMED_POINT.fullmatch(self.text)
        if point is not None:
            readings += _parse_if_readable(f"{point[1]}={point[2]}")
        # `1/2x` as half of x.
        if self.is_ambiguous:
            readings += _parse_if_readable(self.text, loose=True)
        # `1,234` as two numbers.
        if re.search(r"\d,\d{3}", self.text):
            lists = _parse_if_readable(self.text, grouped=False)
            readings += [tree for tree in lists if isinstance(tree, Listing)]
        return tuple(tree for tree in readings if tree != self.tree)


_CLOCK_TIME: Final = re.compile(r"(\d|[01]\d|2[0-4]):([0-5]\d)")
_DECIMAL_COMMA: Final = re.compile(r"-?\d+,\d+")
_LETTER_UNIT: Final = re.compile(
    r"(?<=[\d})])\s*([a-zA-Z]+(?:\s*/\s*[a-zA-Z]+)?(?:\^\{?-?\d\}?)?)$"
)
_NAMED_POINT: Final = re.compile(r"([A-Z])\s?(\([^()=]*,[^()=]*\))")


def _parse_if_readable(text: str, *, loose: bool = False, grouped: bool = True) -> list[Node]:
    """Return a list with the tree of a text, or an empty list if it cannot be parsed.

    For `loose` and `grouped` see `parse()`.
    """
    try:
        tree, _ = parse(text, loose=loose, grouped=grouped)
    except UnreadableError:
        return []
    return [tree]


@cache_short_texts(16384)
def parse_answer(answer: str) -> ParsedAnswer:
    """Parse an answer or a gold. The last ones are cached, since a gold is compared many times."""
    if len(answer) > MAX_LENGTH:
        return ParsedAnswer(
            answer[:MAX_LENGTH],
            None,
            f"{len(answer)} characters are not an answer",
            is_too_large=True,
        )
    text = _mend(remove_markup(unwrap(answer)))
    if not text:
        return ParsedAnswer("", None, "it is empty")
    if measure_depth(text) > MAX_DEPTH:
        return ParsedAnswer(
            text,
            None,
            f"brackets nest more than {MAX_DEPTH} deep",
            is_too_large=True,
        )
    choice = _read_choice(text)
    if choice is None:
        return _parse_text(text)
    if not choice.content:
        return ParsedAnswer(text, Symbol(choice.letter), choice=choice.letter.upper())
    content = _parse_text(choice.content)
    return ParsedAnswer(content.text, content.tree, content.problem, choice=choice.letter)


def _parse_text(text: str) -> ParsedAnswer:
    """Parse a text without markup: as words, as a numeral or quantity, or else by the grammar.

    If the grammar cannot read it, the result says why.
    """
    unquantified, quantifier = _split_quantifier(text)
    tree = _read_without_grammar(unquantified)
    if tree is not None:
        return ParsedAnswer(unquantified, tree, quantifier=quantifier)
    text = _mark_words(unquantified)
    try:
        tree, is_ambiguous = parse(text)
    except UnreadableError as error:
        with_binomials = _write_binomials(text)
        if with_binomials != text:
            return _parse_text(with_binomials)
        problem = str(error)
        return ParsedAnswer(text, None, problem, is_too_large=problem == TOO_DEEP)
    return ParsedAnswer(text, tree, is_ambiguous=is_ambiguous, quantifier=quantifier)


def _read_without_grammar(text: str) -> Node | None:
    """Return the tree of a time, a numeral, a quantity or words; None for any other text."""
    plain = remove_text_commands(text)
    full_hour = _FULL_HOUR.fullmatch(plain)
    if full_hour is not None:
        return Quantity(Number(fmpq(int(full_hour[1]))), f"{full_hour[2].lower()}m")
    if _CLOCK.fullmatch(plain):
        return Words(re.sub(r"[\s.]", "", plain.casefold()))
    numeral = _read_numeral_with_letters(text)
    if numeral is not None:
        return numeral
    quantities = _read_compound_quantity(text)
    if quantities:
        return quantities[0]
    return _read_words(text)


# `3:00 pm` and `3 p.m.`; in `3 pm` the letters may be variables.
_FULL_HOUR: Final = re.compile(
    r"(\d{1,2})\s*(?::00\s*(?=[ap])|(?=[ap]\.))([ap])\.?\s*m\.?", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"\d{1,2}:(?:0\d|\d\d\s*[ap]\.?\s*m\.?)(?:\s*[ap]\.?\s*m\.?)?", re.IGNORECASE
)
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{([^{}]*)\}")


def remove_text_commands(text: str) -> str:
    r"""Return a text in which `\text{…}` and similar commands are replaced by what they contain."""
    return _TEXT.sub(r"\1", text)


_NUMERAL_WITH_LETTERS: Final = re.compile(
    r"([0-9][0-9a-zA-Z]*|[A-F]{2,}|[a-f]{2,}(?=_\{?16))_\{?(\d{2})\}?"
)


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


# Choices: `(C)`, `C. 12`, `Option C`, `The answer is (C)`.


class _Choice(NamedTuple):
    letter: str
    content: str  # what stands behind the letter; may be empty


# Words that may announce a choice, whatever their case. A lone letter may be in lower case.
_ANNOUNCED_CHOICE: Final = re.compile(
    r"(?i:(?:(?:the|correct|right|final|answer|option|choice|letter|is)\b[\s:]*)*)"
    r"(?:\(([A-J])\)|([A-J])[.)]?)\.?"
)
_LONE_CHOICE: Final = re.compile(r"\(?([A-Ja-d])\)?[.)]?")
_CHOICE_WITH_CONTENT: Final = re.compile(
    r"(?i:(?:option|choice) )?(?:\(([A-J])\)|([A-J])(?:\)|\.(?= )|:(?= )))"
    r" ?(?=[\d\\a-z]|-\d)(.*[\w}].*)",
)
# `(A) 1 (B) 2` lists the choices, `(A) or 7` and `(A) is wrong` say something about them.
_CHOICE_LETTER: Final = re.compile(r"(?<!\w)(?:\([A-J]\)|[A-J][.)](?!\w))")
_NO_CONTENT: Final = (
    (LINKS | DENIALS | frozenset(CONNECTIVES)) - {"no", "none", "neither", "in", "on", "at"}
) | {"would", "will", "must", "may", "might", "seems", "looks", "fails", "then", "maybe", "through"}


def _read_choice(text: str) -> _Choice | None:
    """Return the letter of a multiple choice and what stands behind it, or None."""
    plain = " ".join(remove_text_commands(text).split())
    lone = _LONE_CHOICE.fullmatch(plain)
    if lone is not None:
        return _Choice(lone[1], "")
    announced = _ANNOUNCED_CHOICE.fullmatch(plain)
    if announced is not None:
        return _Choice(announced[1] or announced[2], "")
    with_content = _CHOICE_WITH_CONTENT.fullmatch(plain)
    if with_content is not None and _is_content(with_content[3]):
        return _Choice(with_content[1] or with_content[2], with_content[3])
    return None


def _is_content(text: str) -> bool:
    """Return True if the text behind a choice can be what it stands for."""
    if _CHOICE_LETTER.search(text):
        return False
    words = list_words(text)
    starts_with_word = text[:1].isalpha()
    return not (starts_with_word and words[0] in _NO_CONTENT)


# Quantities in two units: `2 hours 30 minutes`.

_COMPOUND: Final = re.compile(
    r"(?:\d+(?:\.\d+)? ?[a-zA-Z]{1,12}\.?(?:,? (?:and )?| ?(?=\d)|$)){2,4}", re.ASCII
)
_COMPOUND_PART: Final = re.compile(r"(\d+(?:\.\d+)?) ?([a-zA-Z]+)", re.ASCII)


def _read_compound_quantity(text: str) -> list[Node]:
    """Return a quantity in several units once in each of them.

    `2 hours 30 minutes` is 2.5 hours and 150 minutes. The list is empty for any other text.
    """
    plain = " ".join(remove_text_commands(text).split())
    if _COMPOUND.fullmatch(plain) is None:
        return []
    parts = _COMPOUND_PART.findall(plain)
    units = [parse_unit(name) for _, name in parts]
    first = units[0]
    if first is None or any(unit is None for unit in units):
        return []
    total = Fraction(0)
    factors: list[Fraction] = []
    for (amount, _), unit in zip(parts, units, strict=True):
        # Each unit has to be smaller than the one before, as in hours and minutes.
        is_smaller = not factors or (unit is not None and unit.factor < factors[-1])
        if unit is None or unit.dimensions != first.dimensions or not is_smaller:
            return []
        total += Fraction(amount) * unit.factor
        factors.append(unit.factor)
    quantities: list[Node] = []
    for (_, name), factor in zip(parts, factors, strict=True):
        amount = total / factor
        quantities.append(Quantity(Number(fmpq(amount.numerator, amount.denominator)), name))
    return quantities


# Quantifiers.

# A quantifier over all numbers of a kind may be left out. One with a bound (`for all n > 3`) is
# part of the answer.
_QUANTIFIER: Final = re.compile(
    r"(?:,? ?(?:\\text ?\{ ?,? ?|\b)(?:for|where) |, ?(?:\\text ?\{ ?)?(?=any|every|each))"
    r"(?P<word>all|any|every|some|each)\b"
    r"(?:[ {}$,]|\\text"
    r"|\b(?:real|positive|negative|integers?|numbers?|whole|natural|reals|values?|of|constants?"
    r"|[a-zA-Z])\b|\\in(?![a-z])|\\mathbb ?\{?[RZNQC]\}?)*$"
)


def _split_quantifier(text: str) -> tuple[str, Quantifier | None]:
    """Return the text without the quantifier at its end, and which one it was."""
    match = _QUANTIFIER.search(text)
    if match is None or match.start() == 0:
        return text, None
    return text[: match.start()].strip(), "some" if match["word"] == "some" else "all"


# Words.

_WORDS_ONLY: Final = re.compile(r"[a-zA-Z][a-zA-Z\s,.'\"!?;:-]*")
_NAME_IN_CAPITALS: Final = re.compile(r"(?![XYZ]+\Z)[A-Z]{3,}")
_VERDICT_REPEATED: Final = re.compile(
    r"(?:(?P<yes>yes)|no),? (?:it|they|this|that|there|we|he|she)"
    r" (?:is|are|can|does|do|has|have|will|was|were)(?(yes)|(?: not|n't))"
)
_REALS_EXCEPT: Final = re.compile(
    rf"(?:{'|'.join(phrase for phrase, kind in PHRASES.items() if kind == 'R')})"
    r"(?:,? except(?: for)?|,? excluding|,? but(?: not)?|,? other than) (?:[a-z] ?= ?)?(.{1,60})",
    re.IGNORECASE,
)


def _read_words(text: str) -> Node | None:
    """Return the tree of a text of words: a set, a number, a quantity or the words themselves.

    None for a formula.
    """
    plain = remove_text_commands(text)
    reals_except = _REALS_EXCEPT.fullmatch(plain)
    if reals_except is not None:
        trees = _parse_if_readable(rf"\mathbb{{R}}\setminus\{{{reals_except[1]}\}}")
        return trees[0] if trees else Words(plain.casefold())
    if not _WORDS_ONLY.fullmatch(plain):
        return None
    folded = " ".join(plain.casefold().split()).strip(" .,;:!?\"'")
    if folded in PHRASES:
        return _read_phrase(folded)
    if folded in ("minus infinity", "negative infinity"):
        return negate(Constant("infinity"))
    if folded in VERDICTS or _NAME_IN_CAPITALS.fullmatch(plain.strip()):
        return Words(folded)
    verdict = _VERDICT_REPEATED.fullmatch(folded)  # `yes, it is`
    if verdict is not None:
        return Words("yes" if verdict["yes"] else "no")
    words = list_words(folded)
    number = read_number(words)
    if number is not None:
        value = Number(fmpq(number.top, number.bottom))
        rest = " ".join(words[number.word_count :])
        if not rest:
            return value
        if rest in PERCENT:
            return Percent(value)
        return Quantity(value, rest) if is_unit_or_label(rest) else Words(folded)
    # Short words may be variables side by side, such as `xy`, unless they are marked as text.
    is_marked_as_text = plain != text and not any(map(is_mathematics, words))
    has_long_word = any(len(word) > 3 and not is_mathematics(word) for word in words)
    return Words(folded) if is_marked_as_text or has_long_word else None


def _read_phrase(phrase: str) -> Node:
    """Return what a phrase such as `all real numbers` stands for: a set, infinity, or nothing."""
    kind = PHRASES[phrase]
    if kind == "infinity":
        return Constant("infinity")
    if kind == "absent":
        return Words("does not exist")
    return NamedSet(kind)


def is_mathematics(word: str) -> bool:
    """Return True if a word names a function, a Greek letter or another mathematical object."""
    return word in FUNCTIONS or word in GREEK or word in ("sqrt", "cbrt", "infty", "infinity")


_LEAD_WORDS: Final = "|".join(map(re.escape, sorted(LEADS, key=len, reverse=True)))
_THEREFORE: Final = r"\\(?:therefore|approx|Rightarrow|implies|sim|because)(?![a-zA-Z])"
_MEASURE_WORDS: Final = "|".join(sorted(MEASURES, key=len, reverse=True))
_LEADING: Final = re.compile(
    rf"(?:(?:equals? to|{_LEAD_WORDS})\b\s*:?\s*|(?:{_MEASURE_WORDS}) (?:is|equals|=)\s*"
    rf"|{_THEREFORE}\s*|[~≈:=]\s*)+",
    re.IGNORECASE,
)
# `the point (1,2)` and `x equals 7`.
_INTRODUCTION: Final = re.compile(
    r"^(?:the )?(?:ordered pair|point|vector|interval|set|pair|coordinates|matrix) (?:is |are )?"
    r"(?=[(\[]|\\(?:\{|langle|begin))",
    re.IGNORECASE,
)
_EQUALS_IN_WORDS: Final = re.compile(
    r"^([a-zA-Z](?:_\{?\w\}?|\([a-z]\))?) (?:equals|is equal to|is) (?=[-\d\\.(a-zA-Z])"
)
_TRAILING: Final = re.compile(
    r"(?<=[\d)}\]% ]) ?((?:[a-zA-Z][a-zA-Z'-]{2,}\.?|(?:sq|cu)\.?(?= )|bps?\b)"
    r"(?:[ ,]+[a-zA-Z][a-zA-Z'-]*\.?){0,11})$"
)
_ENDS_IN_WORD: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s?$")
_TIMES_TEN: Final = re.compile(r"(\d) ?[xX] ?10(?= ?\^)")
_WORD_FOR_MINUS: Final = re.compile(r"(?:minus|negative) (?=[\d\\.(])", re.IGNORECASE)


def _mark_words(text: str) -> str:
    r"""Return the text without words before it, and with those behind it marked by `\text{…}`.

    Words before it are "the answer is" and the like; those behind a number are its unit.
    """
    text = _TIMES_TEN.sub(r"\1\\times 10", text)
    leading = _LEADING.match(text)
    if leading and leading.end() < len(text):
        text = text[leading.end() :]
    text = _INTRODUCTION.sub("", text)
    text = _EQUALS_IN_WORDS.sub(r"\1=", text)
    word_for_minus = _WORD_FOR_MINUS.match(text)
    if word_for_minus is not None:
        text = f"-{text[word_for_minus.end() :]}"
    trailing = _TRAILING.search(text)
    if trailing is None or not _is_unit_or_scale(list_words(trailing[1])):
        return text
    before = text[: trailing.start()]
    if _ENDS_IN_WORD.search(before):
        return text
    return f"{before}\\text{{{trailing[1]}}}"


def _is_unit_or_scale(words: list[str]) -> bool:
    """Return True for words behind a number that are a unit, a label, a scale or a part of it."""
    if words and words[0] in SCALES:
        words = words[1:]
        if not words:
            return True
    phrase = " ".join(words)
    is_part = phrase in PARTS or phrase in BASIS_POINTS
    return is_part or phrase in PERCENT or is_unit_or_label(phrase)


# Slips of typing, and numerals of other countries.

_LIBRARY: Final = re.compile(r"\b(?:np|numpy|math|sp|sympy)\.(?=[a-z])")
_STRAY_POINT: Final = re.compile(r"(?<=[\d}])\.(?=\s?[\])/*])")
_ORDINAL_ENDING: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)(?![a-zA-Z])")
_ENUMERATION: Final = re.compile(r"[,;]? ?(?<![a-zA-Z\d)])\([a-e]\) (?=[-+.\d\\$])")
_CALLED_MATRIX: Final = re.compile(r"(?:Matrix|array)\s?\((\[\[.*\]\])\)", re.DOTALL)
_CHINESE_UNIT: Final = re.compile(rf"(?<=[\d)}}])\s?({'|'.join(SHAPES)})({'|'.join(CHINESE)})\Z")
_DOMAIN: Final = re.compile(
    r"(?:[,;]| ?\\text ?\{ ?where ?\})? ?(?P<bracket>\()? ?(?P<name>[a-z]) ?\\in ?"
    r"(?:\\(?:mathbb|mathbf|mathrm|bf|bb) ?)?(?P<brace>\{)?(?P<set>[ZN])(?(brace)\}) ?(?(bracket)\))$"
)
_UNITS_SQUARED: Final = re.compile(r"(?<=[\d)} ])units?\s?(?:\^\s?\{?[23]\}?|squared|cubed)$")
_MEASURE_OF_ANGLE: Final = re.compile(r"\bm ?(?=\\angle)")
_QUANTIFIER_SIGN: Final = {r"\forall": r"\text{for all }", r"\exists": r"\text{there exists }"}
_NUMERAL_IN_BRACKETS: Final = re.compile(
    r"(?:\((\d+)\)|\\(?:text|mathrm)\s?\{(\d+|[0-9A-F]{2,})\})\s?_(?=\{?\d)"
)
_SPELLED_BASE: Final = re.compile(r"(?<=\d)_\{ ?\\(?:text|mathrm)\s?\{ ?([a-z]+) ?\} ?\}")
_BASE_IN_WORDS: Final = re.compile(r"([0-9A-F]+) (?:in )?\(?(?:in )?base (\d{1,2}|[a-z]+)\)?")
_DIGITS_WITH_APOSTROPHES: Final = re.compile(r"(?<![\w'.])\d{1,3}(?:'\d{3})+(?![\d'])")
_DIGITS_WITH_POINTS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.,])")
_POINTS_AND_COMMA: Final = re.compile(r"([-+]?\d{1,3}(?:\.\d{3})+),(\d+)")
_POINT_IN_BRACES: Final = re.compile(r"(?<=\d)\{[.,]\}(?=\d)")
_PERIOD_IN_BRACKETS: Final = re.compile(r"([-+]?\d+\.\d*)\((\d+)\)")


def _mend(text: str) -> str:
    r"""Return the text with slips of typing and unusual notations replaced by the usual ones.

    None of them changes the answer: doubled backslashes, the point of `√2.]`, the ending of `15th`.
    """
    text = _LIBRARY.sub("", text.strip().lstrip("#").strip())
    text = _remove_leading_text(text)
    text = _CHINESE_UNIT.sub(_write_chinese_unit, text)
    if "\\\\" in text and r"\begin" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z])", r"\\", text)
    for sign, words in _QUANTIFIER_SIGN.items():
        text = text.replace(sign, words)
    text = _STRAY_POINT.sub("", text)
    text = _ORDINAL_ENDING.sub("", text)
    text = _UNITS_SQUARED.sub("units", text)
    text = _mend_domain(text)
    text = _MEASURE_OF_ANGLE.sub("", text)
    if _ENUMERATION.match(text):
        text = _ENUMERATION.sub(", ", text).lstrip(", ")
    called_matrix = _CALLED_MATRIX.fullmatch(text)
    if called_matrix is not None:
        text = called_matrix[1]
    return _mend_numerals(text).strip()


def _mend_domain(text: str) -> str:
    r"""Return a text that ends in `(k \in Z)` or `where k \in Z` with `, k\in\mathbb{Z}` instead."""
    domain = _DOMAIN.search(text)
    if domain is None or domain.start() == 0:
        return text
    return rf"{text[: domain.start()]}, {domain['name']}\in\mathbb{{{domain['set']}}}"


def _remove_leading_text(text: str) -> str:
    r"""Return the text without a `\text{…}` at its start that does not mark words of the answer.

    It may be around the whole answer (`\text{3 cm}`), or around words that only lead to it
    (`\text{Answer:} 7`).
    """
    wrapped = _TEXT.match(text)
    if wrapped is None:
        return text
    has_digit = re.search(r"\d", wrapped[1]) is not None
    is_whole_text = wrapped.end() == len(text)
    if is_whole_text:
        return wrapped[1].strip() if has_digit else text
    words = list_words(wrapped[1])
    only_leads_to_answer = bool(words) and (LEADS | MEASURES).issuperset(words)
    if only_leads_to_answer and not has_digit:
        return text[wrapped.end() :].lstrip(" :=")
    return text


def _write_chinese_unit(match: re.Match[str]) -> str:
    """Return a Chinese unit in English."""
    return rf"\text{{ {SHAPES[match[1]]} {CHINESE[match[2]]}}}"


def _mend_numerals(text: str) -> str:
    """Return the text with numerals as LaTeX writes them in English: `1234.5`, `1011_{2}`."""
    # Numerals with a base: `(1011)_2`, `1011_{\text{two}}`, `1011 base 2`.
    text = _NUMERAL_IN_BRACKETS.sub(lambda match: f"{match[1] or match[2]}_", text)
    text = _SPELLED_BASE.sub(_write_base, text)
    base_in_words = _BASE_IN_WORDS.fullmatch(remove_text_commands(text))
    if base_in_words is not None:
        digits, base = base_in_words.groups()
        text = f"{digits}_{{{NUMERALS.get(base, base)}}}"
    # Points, commas and apostrophes between digits: `1{,}5`, `1'234'567`, `1.234.567`, `1.234,5`.
    text = _POINT_IN_BRACES.sub(".", text)
    text = _DIGITS_WITH_APOSTROPHES.sub(lambda match: match[0].replace("'", ""), text)
    text = _DIGITS_WITH_POINTS.sub(lambda match: match[0].replace(".", ""), text)
    points_and_comma = _POINTS_AND_COMMA.fullmatch(text)
    if points_and_comma is not None:
        whole, decimals = points_and_comma.groups()
        text = f"{whole.replace('.', '')}.{decimals}"
    # Recurring digits: `0.1(6)`.
    repeating = _PERIOD_IN_BRACKETS.fullmatch(text)
    if repeating is not None:
        text = rf"{repeating[1]}\overline{{{repeating[2]}}}"
    return text


def _write_base(match: re.Match[str]) -> str:
    """Return a base that is spelled out as a number: `_{two}` as `_{2}`."""
    base = NUMERALS.get(match[1])
    return match[0] if base is None else f"_{{{base}}}"


# A brace is closed where it was opened: `\frac{4 A}{3}` holds no `4 A 3`.
_N, _K = (rf"(?P<{name}_brace>\{{)?(?P<{name}>\d+|[a-z])(?({name}_brace)\}})" for name in "nk")
_SIGN: Final = r"(?P<sign_brace>\\(?:mathrm|text)\s?\{)?(?P<sign>[CPA])(?(sign_brace)\})"
_COMBINATIONS: Final = (
    re.compile(rf"(?:\{{\}})?[_^]{_N}\s?{_SIGN}\s?_{_K}"),
    re.compile(rf"(?<![\w}}]){_SIGN}_{_N}\^{_K}"),
    re.compile(rf"(?<![\w}}]){_SIGN}\^{_K}_{_N}"),
    re.compile(rf"(?<![\w}}]){_SIGN}\s?\({_N}\s?,\s?{_K}\)"),
    re.compile(rf"(?<![\w}}]){_N}\s?{_SIGN}\s?{_K}(?![\w(])"),
)


def _write_binomials(text: str) -> str:
    """Return the text with combinations and permutations as LaTeX: `9C3`, `C(9,3)`, `C_9^3`."""
    if any(sign in text for sign in "CPA"):
        for pattern in _COMBINATIONS:
            text = pattern.sub(_write_combination, text)
    return text


def _write_combination(match: re.Match[str]) -> str:
    """Return combinations as a binomial coefficient, and permutations as n!/(n - k)!."""
    n, k = match["n"], match["k"]
    if match["sign"] == "C":
        return rf"\binom{{{n}}}{{{k}}}"
    return rf"\frac{{({n})!}}{{({n}-{k})!}}"
