r"""Remove markup that only affects how an answer looks: boxes, `$`, fonts, spaces, Unicode signs."""

import re
import unicodedata
from typing import Final

from assay.math.words import SCALES, SIGNS, notations

MAX_LENGTH: Final = 4096  # a longer text is not an answer; it is compared as text only
MAX_DEPTH: Final = 60  # of brackets within brackets
_MAX_LAYERS: Final = 12  # of wrapping
_SPACES_IN_A_ROW: Final = re.compile(r"\s+")


def unwrap(text: str) -> str:
    r"""Return the answer with signs in one spelling, and no box, dollars, bold or full stop around it."""
    # A run of spaces costs some of the patterns below the square of its length.
    text = _SPACES_IN_A_ROW.sub(" ", text)
    text = _mark_currency(_write_signs_as_latex(text))
    text = _THOUSANDS_SEPARATOR.sub("", text).strip()
    text = _BOLD_WORDS.sub(r"\1\2", text)
    for _ in range(_MAX_LAYERS):
        inside = _remove_layer(text)
        if inside == text:
            break
        text = inside
    return text


# Unicode and HTML.

_ZERO_WIDTH: Final = "\u200b\ufeff\u2060\u00ad\u2061\u2062"
_SPACES: Final = "\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000"
_LATEX_BY_CODE: Final = {
    **{ord(sign): latex for sign, latex in SIGNS.items()},
    **dict.fromkeys(map(ord, _ZERO_WIDTH), ""),
    **dict.fromkeys(map(ord, _SPACES), " "),
}
_SCRIPT_DIGITS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n" * 2)
_SUPERSCRIPT: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_SUBSCRIPT: Final = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+")
_FOREIGN_DIGIT: Final = re.compile(r"[^\W\x00-\x7f\D]")
_OVERLINED: Final = re.compile("((?:\\w\u0305)+)")
_HTML_SUPERSCRIPT: Final = re.compile(r"<sup>([^<>]{1,40})</sup>")
_HTML_SUBSCRIPT: Final = re.compile(r"<sub>([^<>]{1,40})</sub>")


def _write_signs_as_latex(text: str) -> str:
    """Return the text with unicode signs, raised digits and HTML powers as LaTeX writes them."""
    if "<su" in text:
        text = _HTML_SUPERSCRIPT.sub(r"^{\1}", text)
        text = _HTML_SUBSCRIPT.sub(r"_{\1}", text)
    if text.isascii():
        return text
    text = _OVERLINED.sub(lambda match: rf"\overline{{{match[1].replace(chr(0x305), '')}}}", text)
    text = _SUPERSCRIPT.sub(lambda match: f"^{{{match[0].translate(_SCRIPT_DIGITS)}}}", text)
    text = _SUBSCRIPT.sub(lambda match: f"_{{{match[0].translate(_SCRIPT_DIGITS)}}}", text)
    text = _FOREIGN_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    return text.translate(_LATEX_BY_CODE)


# Money.

_CURRENCY_NAMES: Final = {
    **notations("money"),
    "USD": "dollars",
    "EUR": "euros",
    "JPY": "yen",
    "INR": "rupees",
    "Rs": "rupees",
    "CNY": "yuan",
    "GBP": "gbp",
    "CAD": "cad",
    "AUD": "aud",
}
_CURRENCY_SIGN: Final = re.compile(r"\\\$|[€£¥₹]")
_AMOUNT_START: Final = re.compile(r"\s*-?[\d.]")
_MONEY: Final = re.compile(
    r"(?:(?<![a-zA-Z])US)?(?P<currency>\\\$|[€£¥₹]"
    r"|(?<![a-zA-Z])(?:USD|EUR|JPY|INR|CNY|GBP|CAD|AUD|Rs)(?=\.?\s*-?\d))\.?\s*"
    r"(?P<amount>-?(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+))"
    rf"(?:\s*(?:\\text\{{\s*)?(?P<scale>{'|'.join(SCALES)})\s*\}}?)?(?![\d^])",
    re.ASCII,
)
# `12{,}345`, but not the decimal comma of `1{,}5`.
_THOUSANDS_SEPARATOR: Final = re.compile(r"(?<=\d)(?:\{,\}|,\\!\s?|\{,\\!\})(?=\d{3}(?!\d))")


def _mark_currency(text: str) -> str:
    r"""Return the text with the currency behind the amount: `\$5`, `$5` and `USD 5` are 5 dollars.

    `$5$` is a formula.
    """
    if _CURRENCY_SIGN.search(text):
        text = _THOUSANDS_SEPARATOR.sub(",", text)
    has_lone_dollar = text.count("$") == 1 and r"\$" not in text
    before_dollar, _, after_dollar = text.partition("$")
    is_amount = before_dollar.strip() in ("", "US") and _AMOUNT_START.match(after_dollar)
    if has_lone_dollar and is_amount:
        text = text.replace("$", r"\$")
    return _MONEY.sub(_write_money, text)


def _write_money(match: re.Match[str]) -> str:
    """Return an amount of money with its scale and currency as text behind it."""
    words = f"{match['scale'] or ''} {_CURRENCY_NAMES[match['currency']]}"
    return rf"{match['amount']}\text{{{words}}}"


# Layers of wrapping.

# What may stand around an answer; text inside that holds the third sign is not one answer.
_WRAPPINGS: Final = (
    ("$$", "$$", "$"),
    ("$", "$", "$"),
    (r"\(", r"\)", r"\("),
    (r"\[", r"\]", r"\["),
    ("**", "**", "**"),
    ("`", "`", "`"),
    ('"', '"', '"'),
)
_WRAPPING_COMMAND: Final = re.compile(
    r"\\(?:boxed|fbox|mathbf|displaystyle|bm|boldsymbol|underline)(?![a-zA-Z])\s*"
)
# `**Answer:** 7` and `The answer is **7**`, but not `2**x**3`.
_BOLD_WORDS: Final = re.compile(
    r"(?<!\S)\*\*([a-zA-Z][a-zA-Z ]{2,40}:?)\*\*(?=[\s:])"
    r"|(?<=[a-zA-Z:] )\*\*([^*\n]{1,60})\*\*(?=\.?\s*\Z)"
)
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_DIGIT: Final = re.compile(r"\d")


def _remove_layer(text: str) -> str:
    r"""Return the text without a full stop at its end, and without the outermost wrapping.

    The wrapping is a pair of signs such as `$…$`, or a command such as `\boxed{…}`.
    """
    text = text.strip()
    if text[-1:] in (".", ",", ";", ":") and not text.endswith((r"\;", "...")):
        text = text[:-1].rstrip()
        text = text.removesuffix("\\")
    for opening, closing, separator in _WRAPPINGS:
        is_wrapped = text.startswith(opening) and text.endswith(closing)
        inside = text[len(opening) : -len(closing)]
        if is_wrapped and len(text) > len(opening) + len(closing) and separator not in inside:
            return inside
    command = _WRAPPING_COMMAND.match(text)
    content = text[command.end() :] if command else text
    is_one_group = content[:1] == "{" and find_closing_brace(content) == len(content) - 1
    if is_one_group:
        # `\underline{x}` is a name, `\underline{7}` is 7.
        is_name = command and "underline" in command[0] and not _DIGIT.search(content)
        return text if is_name else content[1:-1]
    if command and "displaystyle" in command[0]:
        return content  # this command needs no braces
    return text


def find_closing_brace(text: str) -> int:
    """Return the position of the brace that closes the first one of a text; -1 without one."""
    depth = 0
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1


# Markup inside the answer.

_SIZES: Final = "tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge"
_DROPPED: Final = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|bigg?[lrm]?|Bigg?[lrm]?|left|right"
    rf"|middle|mleft|mright|{_SIZES}|bf|it|boldmath|medspace|thinspace|enspace|nobreak)(?![a-zA-Z])"
    r"|(?<!\\)\\[,;:> ]|\\q?quad(?![a-zA-Z])|~"
    r"|\\[hv]?phantom\{[^{}]*\}|\\[hv]space\*?\{[^{}]*\}|\\(?:text)?color\{[^{}]*\}"
)
_NEGATIVE_SPACE: Final = re.compile(r"\\!\s*")
_FRACTION: Final = re.compile(r"\\(?:tfrac|dfrac|cfrac|nicefrac|sfrac)(?![a-zA-Z])")
_NEXT_STATEMENT: Final = re.compile(
    r"(?<![,;=<>+*/-])\\q?quad(?=\s*\\?[a-zA-Z]+(?:_\{?\w+\}?)?\s*(?:[=<>]|\\[lg]e))"
)
# Rows of a matrix that ended in one backslash, the other lost on the way.
_SINGLE_BREAK: Final = re.compile(r"\\(?=[\s\d-])")
# An array between brackets is a matrix, a determinant, or a list of cases with one brace before it.
_ARRAY: Final = re.compile(
    r"(?P<opening>[\[(|]|\\\{) ?\\begin ?\{(?:array|matrix)\} ?(?:\{[lcr| ]*\})?"
    r"(?P<cells>(?:(?!\\begin|\\end).)*+)\\end ?\{(?:array|matrix)\} ?(?P<closing>[\])|.]|\Z)",
    re.DOTALL,
)
_ENVIRONMENTS: Final = {
    ("[", "]"): "bmatrix",
    ("(", ")"): "pmatrix",
    ("|", "|"): "vmatrix",
    (r"\{", "."): "cases",
    (r"\{", ""): "cases",  # where the point of `\right.` was taken for a full stop
}
_UNIT_FONT: Final = re.compile(
    r"(?<=[\d)}\s/])\\(?:mathrm|rm|textrm)\s*\{((?:[^{}^]++|\^\{-?\d\}|\^)*+)\}"
)


def remove_markup(text: str) -> str:
    r"""Return the text without commands that only change its looks: `\left`, `\large`, spaces."""
    if "$" in text:
        text = text.replace(r"\$", " ").replace("$", " ")
    if r"\begin" in text and "\\\\" not in text:
        text = _SINGLE_BREAK.sub(r"\\\\ ", text)
    if "quad" in text:
        text = _NEXT_STATEMENT.sub(", ", text)
    if "\\" in text or "~" in text:
        text = _NEGATIVE_SPACE.sub("", text)
        text = _FRACTION.sub(r"\\frac", text)
        text = _DROPPED.sub(" ", text)
        text = _UNIT_FONT.sub(_mark_unit, text)
    text = _SPACES_IN_A_ROW.sub(" ", text)
    return _ARRAY.sub(_name_environment, text) if r"\end" in text else text


def _name_environment(array: re.Match[str]) -> str:
    """Return an array and its brackets as the environment that LaTeX has for both."""
    name = _ENVIRONMENTS.get((array["opening"], array["closing"]))
    if name is None:
        return array[0]
    return rf"\begin{{{name}}}{array['cells']}\end{{{name}}}"


def _mark_unit(match: re.Match[str]) -> str:
    r"""Return `\mathrm{cm}` behind a value as text, which marks it as a unit.

    The letters e, i and d stand for the number e, the imaginary unit and a differential.
    """
    letters = match[1].strip()
    before = match.string[: match.start()].rstrip()[-1:]
    follows_value = before != "" and before in "0123456789)}/"
    if not follows_value or letters in ("", "e", "i", "d"):
        return match[0]
    units = letters.replace("{", "").replace("}", "")  # `s^{-1}`
    return rf"\text{{{units}}}"


def measure_depth(text: str) -> int:
    """Return how deep brackets nest in a text."""
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    return deepest
