"""Exact arithmetic and certified values."""

import random
from typing import Any

import pytest
from flint import acb, arb, ctx, fmpq

from assay.math import MathOptions, verify
from assay.math.atoms import Ratio, find_powers, split_terms
from assay.math.balls import TooLargeError, UndefinedError, compute_ball
from assay.math.exact import NO_PROOF, Form, prove_equal
from assay.math.grammar import parse
from assay.math.separation import bits_to_prove_zero
from assay.math.tokens import UnreadableError
from assay.math.tree import Node, list_nodes


def tree(text: str) -> Node:
    return parse(text)[0]


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
        (r"\arctan\frac12", r"\frac\pi2-\arctan 2"),
        (r"\arctan 1+\arctan 2+\arctan 3", r"\pi"),
        (r"\arcsin\frac35", r"\arctan\frac34"),
        (r"\arcsin x", r"\frac\pi2-\arccos x"),
        (r"\arctan(-x)", r"-\arctan x"),
        (r"\operatorname{arcsec} 3", r"\arccos\frac13"),
        (r"\operatorname{arccot} 3", r"\frac\pi2-\arctan 3"),
        (r"\cos(\arcsin\frac35)", r"\frac45"),
        (r"\sin(2\arctan\frac12)", r"\frac45"),
        (r"e^{\ln 5}", "5"),
        (r"e^{x\ln 2}", "2^x"),
        (r"2^{\log_4 9}", "3"),
        ("i^{2023}", "-i"),
        ("|3+4i|", "5"),
        ("x^{300}", "x^{299}x"),
        (r"\ln\frac{1}{\sqrt2+1}", r"\ln(\sqrt2-1)"),
        (r"\sin\frac{x}{\sqrt2}", r"\sin\frac{\sqrt2x}{2}"),
        (r"\sin\frac{x}{1+\sqrt2+\sqrt3}", r"\sin\frac{x(2+\sqrt2-\sqrt6)}{4}"),
    ],
)
def test_an_identity_is_proven(one: str, two: str):
    """Equality follows from the equations of the atoms alone, for any sign of the variables."""
    assert prove_equal(tree(one), tree(two)) == (True, False)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("x", "y"),
        (r"\sqrt{x^2}", "-x"),
        (r"\sqrt2", r"\sqrt3"),
        ("(xy)^2", "xy^2"),
        (r"\frac1x", "x"),
        (r"\arctan 2", r"\pi+\arctan 2"),
        (r"\arctan 2+\arctan 3", r"-\frac{\pi}{4}"),
        (r"\arctan x", r"\frac\pi2-\arctan\frac1x"),
        (r"\ln(\sqrt2-1)", r"\ln(\sqrt2+1)"),
        (r"e^{\ln 5}", "6"),
        ("|3+4i|", "7"),
        ("|e^{ix}|", "2"),
    ],
)
def test_nothing_false_is_proven(one: str, two: str):
    """What is not equal is not proven equal."""
    assert not prove_equal(tree(one), tree(two))[0]


def test_signs_assumed_are_told():
    """A proof that takes variables as positive says so."""
    assert prove_equal(tree(r"\sqrt{x^2}"), tree("x")) == (True, True)
    assert prove_equal(tree(r"\sqrt{x-1}^2"), tree("x-1")) == (True, True)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
        (r"\sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5}", "1"),
        (r"\cos\frac{\pi}{5}", r"\frac{1+\sqrt5}{4}"),
        (r"\cos\frac{2\pi}{7}+\cos\frac{4\pi}{7}+\cos\frac{6\pi}{7}", r"-\frac12"),
        (r"\sin 10^\circ\sin 50^\circ\sin 70^\circ", r"\frac18"),
        (r"\tan^2 20^\circ+\tan^2 40^\circ+\tan^2 80^\circ", "33"),
        ("+".join(rf"\cos\frac{{{2 * k}\pi}}{{17}}" for k in range(1, 9)), r"-\frac12"),
        (r"\cos(\frac{\pi}{3}+\frac{\pi}{7})", r"\sin\frac{\pi}{42}"),
    ],
)
def test_an_algebraic_number_near_enough_to_zero_is_zero(one: str, two: str):
    """A ball smaller than the separation bound proves equality."""
    bits = bits_to_prove_zero(tree(one), tree(two))
    difference = compute_ball(tree(one), {}, bits + 128) - compute_ball(tree(two), {}, bits + 128)
    assert abs(difference) < fmpq(1, 2**bits)


NEAR = [
    (r"\sqrt{10^{40}+1}", "10^{20}"),
    (r"\frac{1}{\sqrt{10^{40}+1}-10^{20}}", r"2\cdot 10^{20}"),
    (r"\sqrt[3]{10^{45}+1}", "10^{15}"),
    ("(10^{45}+1)^{1/3}", "10^{15}"),
    (r"\frac{100}{(10^{45}+1)^{-1/3}}\%", "10^{15}"),
    (r"(1+\sqrt2)^{60}", "92585104325562912980002"),
    (r"(\sqrt2-1)^{-60}", "92585104325562912980002"),
    ("*".join([r"(1+\sqrt2)"] * 60), "92585104325562912980002"),
    (r"i(1+\sqrt2)^{60}", "92585104325562912980002i"),
    (r"(\cot\frac{\pi}{8})^{60}", "92585104325562912980002"),
    (r"(2\cos\frac{\pi}{5})^{90}", "6440026026380244498"),
    (r"(2\sin 54^\circ)^{90}", "6440026026380244498"),
    (r"(\frac12\csc 18^\circ)^{90}", "6440026026380244498"),
]
"""Numbers that differ by about as little as the degree and size of the expressions allow."""


@pytest.mark.parametrize(("one", "two"), NEAR)
def test_numbers_that_are_as_near_as_can_be_are_not_called_equal(one: str, two: str):
    """The separation bound lies below every difference that there can be."""
    difference = compute_ball(tree(one), {}, 600) - compute_ball(tree(two), {}, 600)
    assert fmpq(1, 2 ** bits_to_prove_zero(tree(one), tree(two))) < abs(difference) < fmpq(1, 2**60)
    assert verify(one, two).status == "different"


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        (r"\frac13+\frac15", 11),  # degree 1: log₂ 15 + 8
        (r"\frac{1}{\sqrt5}", 11),  # degree 2: (½ log₂ 5 + 1) + ½ log₂ 5 + 8
        (r"\sqrt5^{-3}", 15),  # (3/2 log₂ 5 + 1) + 3/2 log₂ 5 + 8
        (r"\sqrt5\sqrt7", 18),  # degree 4: 3(½ log₂ 35 + 1) + 8
        (r"\sqrt5\%", 22),  # (log₂ 100 + 1) + log₂ 100 + 8
        (
            r"\sqrt[3]{\frac{1000001}{1000}}",
            46,
        ),  # degree 3: 2(⅓ log₂(1000001·1000²) + 1) + log₂ 1000 + 8
        (r"\sqrt[3]{\frac{2}{1000001}}", 31),  # 2(⅓ log₂(2²·1000001) + 1) + ⅓ log₂(2²·1000001) + 8
        ("i", 9),  # degree 2: 1 + 8
        (r"\cos\frac{2\pi}{7}", 13),  # degree 3, half of φ(7): 2·2 + 1 + 8
        (r"\cos\frac{2\pi}{5}+\cos\frac{2\pi}{7}", 54),  # degree 12, half of φ(35): 11·4 + 2 + 8
        (r"\sin\frac{2\pi}{7}", 19),  # degree 6, half of φ(28): 5·2 + 1 + 8
    ],
)
def test_the_separation_bound_is_that_of_the_paper(text: str, bits: int):
    """Each rule of the bound gives the number that is worked out by hand."""
    assert bits_to_prove_zero(tree(text), tree("0")) == bits


def test_pi_is_not_algebraic():
    """No bound is claimed for what is no root of a polynomial."""
    with pytest.raises(UndefinedError):
        bits_to_prove_zero(tree(r"\pi"), tree("3"))


@pytest.mark.parametrize("text", ["9^{9^{9^{9}}}", "(20!)!", r"\binom{10^9}{5000}"])
def test_what_is_too_large_is_not_computed(text: str):
    """Towers and factorials of factorials are refused, not begun."""
    with pytest.raises(TooLargeError):
        compute_ball(tree(text), {}, 64)


@pytest.mark.parametrize("text", [r"\frac{1}{0}", r"\ln 0", r"\infty", "0^{-1}"])
def test_what_has_no_value_is_undefined(text: str):
    """A pole is no number."""
    with pytest.raises(UndefinedError):
        compute_ball(tree(text), {}, 64)


@pytest.mark.parametrize(
    "text", ["(1", r"\frac{1}", "x +", r"\begin{align}1\end{align}", "1 2", "#", r"\sum k"]
)
def test_what_is_not_in_the_grammar_is_unreadable(text: str):
    """The grammar says where it stops understanding."""
    with pytest.raises(UnreadableError):
        parse(text)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(3,7)", "|x-5|<2"),
        ("[-3,3]", r"x^2\le 9"),
        (r"(-\infty,-3)\cup(3,\infty)", "x^2>9"),
        (r"[-\sqrt2,\sqrt2]", r"x^2\le 2"),
        (r"(-2,1)\cup(3,\infty)", "(x+2)(x-1)(x-3)>0"),
        ("(-1,2)", r"\frac{x-2}{x+1}<0"),
        (r"(-\infty,1)\cup(1,\infty)", "(x-1)^2>0"),
        (r"\{1\}", r"(x-1)^2\le 0"),
        (r"\mathbb{R}", r"x^4+1>0"),
        (r"\emptyset", "x^2<0"),
        (r"(-\infty,1)\cup(1,\infty)", r"\frac{x-1}{x-1}>0"),
        (r"(-\infty,0)\cup(1,\infty)", r"\frac1x<1"),
        ("[0,2]", r"|x|+|x-2|\le 2"),
        ("(-2,2)", "||x|-1|<1 \\text{ or } x=0"),
        (r"(-\infty,0)\cup(0,\infty)", "x^{-2}>0"),
        ("(0,1)", "x<1<x^{-1}"),
    ],
)
def test_an_inequality_is_its_solutions(gold: str, answer: str):
    """Rational functions and absolute values are solved exactly; where a part has no value nothing holds."""
    assert verify(gold, answer, options=MathOptions(symbolic=False)).equal


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(3,7)", r"|x-5|\le 2"),
        ("[-3,3]", "x^2<9"),
        ("(3,8)", "|x-5|<2"),
        (r"\mathbb{R}", "(x-1)^2>0"),
        (r"\mathbb{R}", r"\frac{x-1}{x-1}>0"),
        ("(-1,2]", r"\frac{x+1}{x-2}\le 0"),
        (r"[-1.414213,1.414213]", r"x^2\le 2"),
        ("(0,2)", r"|x|+|x-2|\le 2"),
        (r"\mathbb{R}", r"\frac{1}{\frac{1}{x}}=x"),
        (r"\emptyset", "x^4<1"),
    ],
)
def test_an_inequality_has_no_other_solutions(gold: str, answer: str):
    """An end, a hole or a piece more makes another set."""
    assert verify(gold, answer, options=MathOptions(symbolic=False)).status == "different"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\sqrt{\frac km}\sqrt{\frac mk}", "1"),
        (r"\sqrt{2gh}", r"\sqrt2\sqrt g\sqrt h"),
        (r"\ln x^2", r"2\ln x"),
    ],
)
def test_letters_under_a_root_are_what_makes_it_real(gold: str, answer: str):
    """A point where the root of a negative number is taken tells nothing about real numbers."""
    assert verify(gold, answer).equal
    assert not verify(gold, f"-({answer})").equal


def test_two_expressions_without_a_value_are_not_called_equal():
    """A factor that is 0 everywhere cancels in no proof, though its form does not show that it is 0."""
    zero = r"(\sqrt2-\sqrt[4]{2}^2)"
    verdict = verify("x", rf"\frac{{x{zero}}}{{{zero}}}", options=MathOptions(symbolic=False))
    assert verdict.reason == "not proven equal: no point gives both of them a value"


POINT = {"x": fmpq(137, 128), "y": fmpq(59, 97)}
REAL = ["x", "y", "2", "3", "6", r"\frac12", r"\frac35", r"\pi", "e", "-1"]
FORMS = [
    r"({0})+({1})",
    r"({0})({1})",
    r"\frac{{{0}}}{{{1}}}",
    r"({0})^2",
    r"({0})^{{-3}}",
    r"|{0}|",
    r"({0})-({1})",
    r"\sqrt{{{0}}}",
    r"\sqrt[3]{{{0}}}",
    r"\ln({0})",
    r"e^{{{0}}}",
    r"2^{{{0}}}",
    r"({0})^{{{1}}}",
    r"\sin({0})",
    r"\cos({0})",
    r"\tan({0})",
    r"\arctan({0})",
    r"\arcsin({0})",
    r"\arccos({0})",
    r"\cosh({0})",
    r"\log_2({0})",
    r"\binom{{{0}}}{{2}}",
    r"\sqrt{{({0})^2+2({0})({1})+({1})^2}}",
    r"({0})^{{2y}}",
    r"({0}\cdot x)^{{y}}",
]
ARITHMETIC = 7
"""So many of the forms, the first ones, are functions of complex numbers too."""


def expression(draw: random.Random, depth: int, leaves: list[str], forms: list[str]) -> str:
    """An expression of letters, numbers and functions, whether or not it has a value."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(leaves)
    return draw.choice(forms).format(
        *(expression(draw, depth - 1, leaves, forms) for _ in range(2))
    )


def is_real_throughout(node: Node) -> bool:
    return all(compute_ball(part, POINT, 256).imag == 0 for part in list_nodes(node))


def value_of(form: Form, polynomial: Any) -> acb:
    """What a polynomial in atoms comes to, by what each atom is."""
    total = acb(0)
    for monomial, coefficient in split_terms(polynomial):
        term = acb(arb(coefficient))
        for atom, power in find_powers(monomial).items():
            term *= atom_of(form, form.keys[atom]) ** power
        total += term
    return total


def atom_of(form: Form, key: tuple[Any, ...]) -> acb:
    kind, *arguments = key
    parts = [
        value_of(form, part.top) / value_of(form, part.bottom) if isinstance(part, Ratio) else part
        for part in arguments
    ]
    values = [
        part if isinstance(part, acb) else acb(part) for part in parts if not isinstance(part, str)
    ]
    simple = {"pi": acb(arb.pi()), "e": acb(1).exp(), "i": acb(0, 1)}
    if kind in simple:
        return simple[kind]
    if kind == "symbol":
        return acb(arb(POINT[parts[0]]))
    if kind == "root":
        is_turned = (
            parts[1] % 2 and values[0].imag == 0 and values[0].real < 0
        )  # odd roots of negative numbers are real
        root = (-values[0] if is_turned else values[0]) ** acb(arb(fmpq(1, int(parts[1]))))
        return -root if is_turned else root
    if kind == "power":
        return values[0] ** values[1]
    functions = {
        "ln": acb.log,
        "exp": acb.exp,
        "sin": acb.sin,
        "cos": acb.cos,
        "arctan": acb.atan,
        "arcsin": acb.asin,
    }
    return acb(abs(values[0])) if kind == "abs" else functions[kind](values[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_real", [True, False])
def test_the_exact_form_of_an_expression_has_its_value(seed: int, is_real: bool):
    """Whatever is rewritten on the way: the quotient of polynomials in atoms comes to what the expression comes to."""
    draw, compared = random.Random(seed), 0
    leaves, forms = (REAL, FORMS) if is_real else ([*REAL, "i", "i"], FORMS[:ARITHMETIC])
    for _ in range(400):
        text = expression(draw, 3, leaves, forms)
        form = Form()
        try:
            if is_real and not is_real_throughout(tree(text)):
                continue
            expected = compute_ball(tree(text), POINT, 256)
            found = form.evaluate(tree(text))
            with ctx.workprec(256):
                value = value_of(form, found.top) / value_of(form, found.bottom)
        except (*NO_PROOF, UnreadableError):
            continue
        if value.is_finite() and not form.assumed_positive:
            compared += 1
            assert value.overlaps(expected), text
    assert compared > 60
