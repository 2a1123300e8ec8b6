"""Words in answers: names of functions, constants and letters, and phrases with a meaning."""

from typing import Final

from assay.math.tree import Constant, NamedSet, Node, Symbol

FUNCTIONS: Final = {
    name: name
    for name in ["sin", "cos", "tan", "sec", "csc", "cot", "sinh", "cosh", "tanh", "coth", "sech", "csch", "arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc", "arcsinh", "arccosh", "arctanh", "ln", "log", "lg", "exp", "gcd", "lcm", "max", "min", "floor", "ceil", "abs"]
} | {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "arsinh": "arcsinh", "arcosh": "arccosh",
    "artanh": "arctanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "cosec": "csc",
    "tg": "tan", "ctg": "cot", "cotan": "cot", "arctg": "arctan", "sh": "sinh", "ch": "cosh",
    "sgn": "sign", "sign": "sign", "cbrt": "cbrt", "Log": "log", "Ln": "ln",
}  # fmt: skip
"""How functions may be written, and what each is called in the tree."""

GREEK: Final = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "varrho",
        "sigma",
        "varsigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Pi",
        "Sigma",
        "Upsilon",
        "Phi",
        "Psi",
        "Omega",
        "ell",
        "hbar",
        "partial",
        "nabla",
        "aleph",
        "Re",
        "Im",
    ]
)
CONSTANTS: Final[dict[str, Node]] = {
    "pi": Constant("pi"),
    "infty": Constant("infinity"),
    "infinity": Constant("infinity"),
    "inf": Constant("infinity"),
    "oo": Constant("infinity"),
    "imath": Constant("i"),
    "emptyset": NamedSet("empty"),
    "varnothing": NamedSet("empty"),
}
SETS: Final = frozenset("RZNQC")

PHRASES: Final[dict[str, Node]] = {
    phrase: node
    for node, phrases in (
        (NamedSet("R"), ("all real numbers", "all reals", "all real", "any real number", "all real values",
                         "all real numbers x", "every real number", "the set of all real numbers")),
        (NamedSet("Z"), ("all integers", "any integer", "every integer")),
        (NamedSet("empty"), ("empty set", "the empty set", "no solution", "no solutions", "no real solution",
                             "no real solutions", "none", "there is no solution", "there are no solutions",
                             "no real roots", "no such numbers", "no such integers exist")),
        (Constant("infinity"), ("infinity", "positive infinity", "infinitely many", "infinite",
                                "infinitely many solutions")),
    )
    for phrase in phrases
}  # fmt: skip
"""Sentences that stand for a set or number."""

SPELLED: Final = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "once": 1, "twice": 2}


def letter(name: str) -> Node:
    """What a single letter stands for."""
    if name == "e":
        return Constant("e")
    return Constant("i") if name == "i" else Symbol(name)
