"""Turn hard golds into pairs whose label is known by how they were made.

Half of the answers are the gold rewritten so that it stays equal, half are the gold with one
number or one sign changed.
"""

import random
import re
from collections.abc import Callable

from math_data import SEED, Pair

Rewrite = Callable[[str, random.Random], str | None]
"""The new text; None when it does not fit this gold."""

_TYPESETTING = ((r"\frac", r"\dfrac"), (r"\leqslant", r"\leq"), (r"\geqslant", r"\geq"))
_DISGUISES = (
    r"\frac{{2\left({0}\right)}}{{2}}",
    r"1+\left({0}\right)-1",
    r"-\left(-\left({0}\right)\right)",
    r"\frac{{1}}{{2}}\left({0}\right)+\frac{{1}}{{2}}\left({0}\right)",
)
# A list, relation, set, interval or a choice of signs: no operand.
_NO_EXPRESSION = re.compile(r"[,=<>|\[\]]|\\(?:pm|mp|le|ge|cup|cap|in|\{|infty|circ|angle|sum)")
_FRACTION = re.compile(r"(?<![\w\)\}])(\s*)\\frac\{([^{}]*)\}\{([^{}]*)\}")
# Not an index: a letter with another index is another letter.
_NUMBER = re.compile(r"(?<![\d_.])(?<!_\{)\d+")


def hard_pairs(golds: list[str]) -> list[Pair]:
    """One pair a gold, the four kinds in turn."""
    rng = random.Random(SEED)
    pairs: list[Pair] = []
    for position, gold in enumerate(golds):
        equal = position % 2 == 0
        kinds = EQUAL_KINDS if equal else DIFFERENT_KINDS
        first = position // 2 % len(kinds)
        texts = (kind(gold, rng) for kind in kinds[first:] + kinds[:first])
        answer = next((text for text in texts if text is not None and text != gold), None)
        if answer is not None:
            pairs.append(Pair(gold, answer, equal))
    return pairs


def typeset(gold: str, rng: random.Random) -> str | None:
    """The same in another dress: `\\dfrac` for `\\frac`, plain brackets for tall ones or back."""
    plain = re.sub(r"\\(?:left|right)(?![a-z])", "", gold)
    for old, new in _TYPESETTING:
        plain = plain.replace(old, new)
    return plain if plain != gold else gold.replace("(", r"\left(").replace(")", r"\right)")


def disguised(gold: str, rng: random.Random) -> str | None:
    """An expression doubled and halved, or with one added and taken away."""
    if _NO_EXPRESSION.search(gold):
        return None
    return rng.choice(_DISGUISES).format(gold)


def slashed(gold: str, rng: random.Random) -> str | None:
    """Innermost fractions on one line."""
    return _FRACTION.sub(r"\1\\left(\\left(\2\\right)/\\left(\3\\right)\\right)", gold)


def renumbered(gold: str, rng: random.Random) -> str | None:
    """One number raised by one, right of an equals sign if there is one.

    To the left it may be part of a name, `f^{-1}(x)`, which some checkers take off.
    """
    numbers = list(_NUMBER.finditer(gold))
    right = [number for number in numbers if number.start() > gold.find("=") and number[0] != "0"]
    numbers = right or numbers
    if not numbers:
        return None
    number = rng.choice(numbers)
    return f"{gold[: number.start()]}{int(number[0]) + 1}{gold[number.end() :]}"


def resigned(gold: str, rng: random.Random) -> str | None:
    """One sign between two terms turned round."""
    if _NO_EXPRESSION.search(gold) or re.search(r"[+-]\s*[cCk]\b", gold):
        return None
    signs = [position for position in range(1, len(gold)) if _joins_terms(gold, position)]
    if not signs:
        return None
    chosen = rng.choice(signs)
    return f"{gold[:chosen]}{'-' if gold[chosen] == '+' else '+'}{gold[chosen + 1 :]}"


EQUAL_KINDS: tuple[Rewrite, ...] = (disguised, typeset, slashed)
DIFFERENT_KINDS: tuple[Rewrite, ...] = (renumbered, resigned)


def _joins_terms(gold: str, position: int) -> bool:
    """Whether a sign stands between two terms, outside all brackets.

    Inside brackets a sign may not matter: `(-1)^{m+1}` equals `(-1)^{m-1}`.
    """
    before = gold[:position].rstrip()
    depth = sum(map(before.count, "({")) - sum(map(before.count, ")}"))
    return gold[position] in "+-" and depth == 0 and bool(re.search(r"[\w)}]$", before))
