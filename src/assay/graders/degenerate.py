"""Degenerate answers: texts that hold no answer at all, and still talk some judges into a pass.

A lone colon, or `Thought process:` and nothing after it, makes many a model say that an answer is
right (arXiv 2507.08794). Nobody needs to be asked about those.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, TypeAlias

from assay.criterion import Criterion
from assay.graders.tags import SECTIONS
from assay.report import Score

Degenerate: TypeAlias = Literal["lowest", "ask"]
"""What to do about such a text: give wanted criteria their lowest choice, or ask all the same."""

REASON = "degenerate answer"

LONGEST = 100
"""Characters that an announcement has at most."""

_TAG = re.compile(rf"</?(?:{'|'.join(SECTIONS)})>", re.IGNORECASE)
_QUOTES = ("'{}'", '"{}"', "`{}`", "‘{}’", "“{}”", "«{}»", "„{}“")  # noqa: RUF001

# As they stand once case, marks and blanks are taken off; each announces an answer and gives none.
_ANNOUNCEMENTS = frozenset(
    """
    thought process|my thought process|thinking process|reasoning|my reasoning|reasoning process
    solution|the solution|my solution|here is the solution|heres the solution|solution process
    answer|the answer|my answer|final answer|the final answer|my final answer|the answer is
    the final answer is|here is the answer|heres the answer|here is my answer|answer is
    explanation|here is my explanation|analysis|here is my analysis|step by step|step 1|conclusion
    lets solve this|lets solve this step by step|lets solve this problem step by step
    lets solve the problem step by step|let us solve this problem step by step|lets think step by step
    lets think about this step by step|let us think step by step|lets break this down
    lets break it down step by step|let me think|let me think step by step|let me solve this step by step
    to solve this problem|to solve this problem we need to|we need to solve this problem
    解|解答|答案|回答|解説|解析|かいせつ|解题过程|思考过程|让我们一步一步思考|让我们一步步解决这个问题
    풀이|정답|답|해설|ответ|решение|ход мыслей|давайте решим это шаг за шагом
    respuesta|la respuesta|solución|la respuesta es|solucion|resolvamos este problema paso a paso
    réponse|la réponse est|solution étape par étape|antwort|die antwort|die antwort ist|lösung
    lösungsweg|gedankengang|schritt für schritt|risposta|la risposta è|soluzione|resposta|solução
    """.replace("\n", "|")
    .replace("  ", "")
    .split("|")
) - {""}


def degenerate(text: str) -> str | None:
    """Why a text holds no answer at all; None when it may hold one.

    >>> degenerate(" ... "), degenerate("Thought process:")
    ('no word or number in it', 'it announces an answer and gives none')
    >>> degenerate("42") is degenerate("Solution: none exists.") is None
    True
    """
    bare = _TAG.sub(" ", text) if "<" in text else text
    if not bare.strip():
        return "it is empty"
    if not any(map(_says_something, bare)):
        return "no word or number in it"
    if len(bare) <= LONGEST and _folded(bare) in _ANNOUNCEMENTS:
        return "it announces an answer and gives none"
    return None


def foregone(text: str, criteria: Sequence[Criterion]) -> dict[int, Score]:
    """The criteria, by place, on which a degenerate text needs no judge, and their score.

    That is the lowest choice: nothing wanted is there. A fault is asked about, since what a text
    lacks may be the fault; and so is a criterion that quotes the text, which may be the answer.
    """
    why = degenerate(text)
    if why is None:
        return {}
    quoted = text.strip().casefold()
    return {
        place: _lowest(criterion, why)
        for place, criterion in enumerate(criteria)
        if criterion.weight >= 0 and not (quoted and _is_quoted(quoted, criterion))
    }


def _lowest(criterion: Criterion, why: str) -> Score:
    choice = criterion.choices[0]
    return Score(criterion.values[choice], f"{REASON}: {why}; nobody was asked", choice)


def _is_quoted(text: str, criterion: Criterion) -> bool:
    requirement = (criterion.requirement or "").casefold()
    return any(quotes.format(text) in requirement for quotes in _QUOTES)


def _says_something(letter: str) -> bool:
    """Whether a character is more than a mark, a blank or a control; signs such as ∞ are."""
    if letter.isalnum():
        return True
    kind = unicodedata.category(letter)
    return kind[0] == "S" and kind != "Sk"


def _folded(text: str) -> str:
    """Words in lower case with one blank between, whatever stood around them."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", plain.replace("_", " ")))
