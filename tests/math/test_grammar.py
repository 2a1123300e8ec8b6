"""Reading an answer: each part of it is read once, however deep it nests."""

import sys
from types import FrameType

import pytest

from assay.math.grammar import parse
from assay.math.tokens import UnreadableError

NESTED = {
    "mixed numbers": (r"2\frac{", "}{1}"),
    "fractions": (r"\frac{", "}{2}"),
    "fractions below": (r"\frac{2}{", "}"),
    "binomials": (r"\binom{", "}{1}"),
    "roots": (r"\sqrt{", "}"),
    "roots with an index": (r"2\sqrt[3]{", "}"),
    "surds": (r"\surd(", ")"),
    "sets": (r"\{", r"\}"),
    "set builders": (r"\{x \mid x > ", r"\}"),
    "angle brackets": (r"\langle ", r"\rangle "),
    "names of functions": (r"\operatorname{sin}(", ")"),
    "matrices": (r"\begin{pmatrix}", r"\end{pmatrix}"),
    "fonts": (r"\mathrm{", "+1}"),
    "decorations": (r"\vec{", "}"),
    "floors": (r"\lfloor ", r"\rfloor "),
    "bars": ("2|", "|"),
    "functions": (r"\sin^2{", "}"),
    "logarithms": (r"\log_{", "} 3"),
    "functions of a letter": ("f(", ")"),
    "brackets": ("2(", ")"),
    "intervals": ("[", ",2)"),
    "bases": ("2_{", "}"),
    "powers": ("x^{", "}"),
    "subscripts": ("x_{", "}"),
    "signs": ("-", ""),
    "run-together functions": (r"\cotx", ""),
    "words in a quotient": ("1/2x(", ")"),
    "units": (r"5\text{ cm}(", ")"),
}


def calls_to_read(text: str) -> int:
    """How many functions are called to read a text: the same number on every machine."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        parse(text)
    except UnreadableError:
        pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(("opening", "closing"), NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("inside", ["x", "2"])
def test_twice_the_depth_is_at_most_twice_the_work(opening: str, closing: str, inside: str):
    """No part is read again for a second reading: at 20 levels that would be a million times."""
    ten, twenty = (calls_to_read(opening * depth + inside + closing * depth) for depth in (10, 20))
    assert twenty < 2.2 * ten
