"""Exact arithmetic and certified values."""

import pytest
from flint import fmpq

from assay.math.balls import NotAlgebraicError, TooLargeError, UndefinedError, ball, bits_to_prove_zero
from assay.math.exact import proves_equal
from assay.math.grammar import UnreadableError, parsed
from assay.math.tree import Node


def tree(text: str) -> Node:
    return parsed(text)[0]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (r"\sqrt{12}", r"2\sqrt3"),
        (r"\frac{1}{\sqrt2}", r"\frac{\sqrt2}{2}"),
        (r"\sin 2x", r"2\sin x\cos x"),
        (r"\cos 3x", r"4\cos^3x-3\cos x"),
        (r"\sin(x+y)", r"\sin x\cos y+\cos x\sin y"),
        (r"\ln\frac{8}{9}", r"3\ln 2-2\ln 3"),
        (r"\log_4 8", r"\frac32"),
        ("4^x", "2^{2x}"),
        ("6^{x+1}", r"6\cdot 2^x\cdot 3^x"),
        (r"e^{x+2}", r"e^2\cdot e^x"),
        (r"e^{i\pi/3}", r"\frac12+\frac{\sqrt3}{2}i"),
        (r"(1+i)^4", "-4"),
        (r"\frac{n!}{(n-2)!}", "n(n-1)"),
        (r"\binom{n}{2}", r"\frac{n^2-n}{2}"),
        (r"\tan\frac{\pi}{12}", r"2-\sqrt3"),
        (r"\arctan\frac{1}{\sqrt3}", r"\frac\pi6"),
        (r"\cosh^2 x-\sinh^2 x", "1"),
        (r"\frac{x^3-1}{x-1}", "x^2+x+1"),
        ("|3-x|", "|x-3|"),
        ("xy^2", "x*y*y"),
    ],
)
def test_an_identity_is_proven(one: str, two: str):
    """Equality follows from the equations of the atoms alone, for any sign of the variables."""
    assert proves_equal(tree(one), tree(two)) == (True, False)


@pytest.mark.parametrize(
    ("one", "two"), [("x", "y"), (r"\sqrt{x^2}", "-x"), (r"\sqrt2", r"\sqrt3"), ("(xy)^2", "xy^2"), (r"\frac1x", "x")]
)
def test_nothing_false_is_proven(one: str, two: str):
    """What is not equal is not proven equal."""
    assert not proves_equal(tree(one), tree(two))[0]


def test_signs_assumed_are_told():
    """A proof that takes variables as positive says so."""
    assert proves_equal(tree(r"\sqrt{x^2}"), tree("x")) == (True, True)
    assert proves_equal(tree(r"\sqrt{x-1}^2"), tree("x-1")) == (True, True)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
        (r"\sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5}", "1"),
        (r"\cos\frac{\pi}{5}", r"\frac{1+\sqrt5}{4}"),
    ],
)
def test_an_algebraic_number_near_enough_to_zero_is_zero(one: str, two: str):
    """A ball smaller than the separation bound proves equality."""
    bits = bits_to_prove_zero(tree(one), tree(two))
    difference = ball(tree(one), {}, bits + 128) - ball(tree(two), {}, bits + 128)
    assert abs(difference) < fmpq(1, 2**bits)


def test_pi_is_not_algebraic():
    """No bound is claimed for what is no root of a polynomial."""
    with pytest.raises(NotAlgebraicError):
        bits_to_prove_zero(tree(r"\pi"), tree("3"))


@pytest.mark.parametrize("text", ["9^{9^{9^{9}}}", "(20!)!", r"\binom{10^9}{5000}"])
def test_what_is_too_large_is_not_computed(text: str):
    """Towers and factorials of factorials are refused, not begun."""
    with pytest.raises(TooLargeError):
        ball(tree(text), {}, 64)


@pytest.mark.parametrize("text", [r"\frac{1}{0}", r"\ln 0", r"\infty", "0^{-1}"])
def test_what_has_no_value_is_undefined(text: str):
    """A pole is no number."""
    with pytest.raises(UndefinedError):
        ball(tree(text), {}, 64)


@pytest.mark.parametrize("text", ["(1", r"\frac{1}", "x +", r"\begin{cases}1\end{cases}", "1 2", "#", r"\sum k"])
def test_what_is_not_in_the_grammar_is_unreadable(text: str):
    """The grammar says where it stops understanding."""
    with pytest.raises(UnreadableError):
        parsed(text)
