# pyright: basic
"""Compare two answers with math-verify, in a worker process that can be killed: the last tier. Imported there alone.

Its grammar is parsed twice as fast in ANTLR's SLL mode; what fails there is parsed again in full.
"""

import logging
from functools import lru_cache
from typing import Any

from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended import latex2sympy2
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr

logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_FullParser: Any = latex2sympy2.PSParser
_RELATIVE = 1e-6
_NO_LIMIT: Any = None  # the pool ends what takes too long


class TwoStageParser(_FullParser):
    """The grammar's parser, first in the fast mode that is nearly always enough."""

    def math(self) -> Any:
        self._interp.predictionMode = PredictionMode.SLL
        try:
            return super().math()
        except Exception:  # noqa: BLE001 - whatever the fast mode stumbles over, the full mode may read
            self.reset()
            self.getTokenStream().seek(0)
            self._interp.predictionMode = PredictionMode.LL
            return super().math()


latex2sympy2.PSParser = TwoStageParser


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer: a sympy object and the text, or the text alone."""
    boxed = f"\\boxed{{{text}}}"
    found = parse(boxed, extraction_config=[LatexExtractionConfig()], parsing_timeout=_NO_LIMIT)
    if not any(isinstance(thing, Basic) or hasattr(thing, "shape") for thing in found):
        found = parse(boxed, parsing_timeout=_NO_LIMIT)
    return tuple(found)


def compare(gold: str, answer: str, rounding: int) -> dict[str, bool]:
    """Whether math-verify takes the two for equal, and which of them it could read."""
    one, two = parsed(gold), parsed(answer)
    equal = bool(verify(list(one), list(two), float_rounding=rounding, timeout_seconds=None))
    return {
        "equal": equal and not _are_far_apart(one, two),
        "gold": any(not isinstance(thing, str) for thing in one),
        "answer": any(not isinstance(thing, str) for thing in two),
    }


def _are_far_apart(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    """Whether both are numbers that differ, however small they are: math-verify rounds to 15 places."""
    if not (one and two and isinstance(one[0], Expr) and isinstance(two[0], Expr)):
        return False
    try:
        first, second = complex(one[0].evalf(20)), complex(two[0].evalf(20))  # pyright: ignore
    except (TypeError, ValueError, OverflowError):
        return False
    return abs(first) < _RELATIVE and abs(first - second) > _RELATIVE * max(abs(first), abs(second))


def warm() -> None:
    """Fill the grammar's caches, so that workers are fast from their first answer."""
    for gold, answer in _CORPUS:
        compare(gold, answer, 6)


_CORPUS = (
    (r"\frac{1}{2}", "0.5"),
    (r"2\sqrt{3}+\pi", r"\sqrt{12}+\pi"),
    (r"(-\infty,3]\cup(5,\infty)", r"x \le 3 \text{ or } x > 5"),
    (r"\left(\frac{1}{2},-3\right)", r"(0.5,-3)"),
    (r"\{1,2,3\}", r"\{3,2,1\}"),
    (r"x^2+2x+1", r"(x+1)^2"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    (r"y=\sin(2x)+e^{-x}", r"2\sin x\cos x+\exp(-x)"),
    (r"\log_2 8+\binom{5}{2}-3!", "7"),
    (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"),
)

warm()
