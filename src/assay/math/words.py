"""List the words of answers: functions, letters, phrases with a meaning, numerals, and words that join or label."""

from typing import Final

FUNCTIONS: Final = {
    name: name
    for name in (
    "sin cos tan sec csc cot sinh cosh tanh coth sech csch arcsin arccos arctan arccot arcsec "
    "arccsc arcsinh arccosh arctanh ln log lg exp gcd lcm max min floor ceil abs"
).split()
} | {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "arsinh": "arcsinh", "arcosh": "arccosh",
    "artanh": "arctanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "cosec": "csc",
    "tg": "tan", "ctg": "cot", "cotan": "cot", "arctg": "arctan", "sh": "sinh", "ch": "cosh",
    "sgn": "sign", "sign": "sign", "cbrt": "cbrt", "Log": "log", "Ln": "ln",
}  # fmt: skip
"""How functions may be written, and what each is called in the tree."""

GREEK: Final = frozenset(
    (
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu "
        "xi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda "
        "Xi Pi Sigma Upsilon Phi Psi Omega ell hbar partial nabla aleph Re Im"
    ).split()
)
SETS: Final = frozenset("RZNQC")  # letters that name a set of numbers, in blackboard bold

PHRASES: Final = {
    phrase: meant
    for meant, phrases in {
        "R": ("all real numbers", "all reals", "all real", "any real number", "all real values",
              "all real numbers x", "every real number", "the set of all real numbers"),
        "Z": ("all integers", "any integer", "every integer"),
        "empty": ("empty set", "the empty set", "no solution", "no solutions", "no real solution",
                  "no real solutions", "none", "there is no solution", "there are no solutions",
                  "no real roots", "no such numbers", "no such integers exist"),
        "infinity": ("infinity", "positive infinity", "infinitely many", "infinite",
                     "infinitely many solutions"),
    }.items()
    for phrase in phrases
}  # fmt: skip
"""Sentences that stand for a set of numbers, by its name, or for infinity."""

VERDICTS: Final = frozenset({"yes", "no", "true", "false", "nan", "zoo"})  # words that are an answer by themselves

SPELLED: Final = {
    word: number
    for number, word in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen twenty"
        ).split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "once": 1, "twice": 2}

SCALES: Final = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
"""Words that multiply the number before them."""

PERCENT: Final = frozenset({"percent", "percentage", "pct", "%"})
ORDINALS: Final = ("st", "nd", "rd", "th")
CONNECTIVES: Final = {
    "and": "and", "or": "or", ", and": "and", ", or": "or", ",": ",", "and/or": "or",
    r"\lor": "or", r"\land": "and", r"\vee": "or", r"\wedge": "and",
}  # fmt: skip
"""What may stand between two answers, and which connective it is."""
NO_FACTORS: Final = frozenset({"and", "or", "if", "for", "where", "mod"})
"""Words that are never multiplied by standing beside a number."""
NO_UNITS: Final = NO_FACTORS | CONNECTIVES.keys() | PERCENT | {"with", "when", "such that"}
"""Words in `\\text{…}` behind a number that are not its unit."""
NO_LABELS: Final = NO_FACTORS | frozenset(
    (
        "over times plus minus not no never neither nor except without cannot is are was which that "
        "because since has have"
    ).split()
)
"""Words that cannot stand in what a number counts: `5 apples` is 5, `5 is not it` is not."""
