"""Weigh a judge's answers by the probability that the model gave to each choice, as G-Eval does."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from pydantic import BaseModel

from assay.criterion import Criterion
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import Grader, scores_from
from assay.graders.judge_input import JudgeInput, degenerate
from assay.models.model import Reply, Token
from assay.redaction import get_logger
from assay.report import Score
from assay.types import OnError

logger = get_logger("assay")

# The most that a choice which no token led to may have, for the odds of the others to be told: engines that hold a model to
# a grammar may list what it would rather have written.
UNSEEN = 0.05
_VERDICT = re.compile(r'(?<!\\)"(?:criterion_status|choice)"\s*:\s*"')


class Expectation(Composite):
    """Asks for log-probabilities, and gives each answer its expected value over the choices.

    `MET` with a probability of 0.9 is worth 0.9; `disagreement` says how far apart two draws would be. Where an endpoint
    gives no log-probabilities the verdict counts as it is, with no `disagreement`, and the log says so once.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import ModelServer
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> with ModelServer("MET", confidence=0.9) as server:
    ...     judge = PerCriterionGrader(model=server.model)
    ...     round(rubric.grade_sync("Thanks!", Expectation(judge)).score, 6)
    0.9
    """

    def __init__(
        self, grader: Grader, *, alternatives: int = 20, **options: Unpack[WrapOptions]
    ) -> None:
        """`alternatives` is how many to ask for with each token; most endpoints have up to 20."""
        if alternatives < 1:
            raise ValueError(f"alternatives is {alternatives}: ask for at least 1")
        super().__init__(
            [self._change_options(grader, lambda asked: replace(asked, logprobs=alternatives))],
            **options,
        )
        self._warned = False

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        [grader] = self.inner
        scores = await scores_from(grader, judge_input, criteria, on_error=on_error)
        bare = [s for s in scores if s.value is not None and s.disagreement is None]
        if bare and not self._warned and degenerate(judge_input.assistant_text) is None:
            self._warned = True
            logger.warning(
                "%s gave no log-probabilities, so its verdicts count as they are", grader.title
            )
        return scores


def value_of(reply: Reply) -> Any:
    """What was read out of a reply; with log-probabilities, each verdict and its `tokens`."""
    value = reply.value
    if reply.logprobs is None or not isinstance(value, BaseModel):
        return value
    entries = getattr(value, "criteria_evaluations", None)
    verdicts: Sequence[BaseModel] = [value] if entries is None else entries
    text = "".join(token.text for token in reply.logprobs)
    starts = [found.end() for found in _VERDICT.finditer(text)]
    # A thought, or a quotation, may come first: the last verdict is the one that counts.
    starts = starts[-1:] if entries is None else starts
    if len(starts) != len(verdicts):
        return value
    pairs = zip(verdicts, starts, strict=True)
    weighed = [
        {**dict(verdict), "tokens": _from(reply.logprobs, start)} for verdict, start in pairs
    ]
    return weighed[0] if entries is None else {"criteria_evaluations": weighed}


def _from(tokens: Sequence[Token], start: int) -> list[Token]:
    """The tokens from a character on, the first and its alternatives cut so that they start there."""
    end = 0
    for place, token in enumerate(tokens):
        end += len(token.text)
        if end > start:
            cut = len(token.text) - (end - start)
            others = {
                t[cut:]: p for t, p in token.alternatives.items() if t.startswith(token.text[:cut])
            }
            return [Token(token.text[cut:], token.logprob, others), *tokens[place + 1 :]]
    return []


def expected(criterion: Criterion, score: Score, tokens: Sequence[Token]) -> Score:
    """The expectation over the choices; the score as it is where they cannot be told apart."""
    if score.value is None or score.verdict is None:
        return score
    odds, values = choice_odds(criterion.choices, score.verdict, tokens), criterion.values
    if odds is None:
        return score
    mean = math.fsum(odds[choice] * values[choice] for choice in odds)
    apart = math.fsum(
        odds[one] * odds[other] * abs(values[one] - values[other]) for one in odds for other in odds
    )
    return score._replace(value=mean, disagreement=apart)


def choice_odds(
    choices: Sequence[str], written: str, tokens: Sequence[Token]
) -> dict[str, float] | None:
    """The probability of each choice, given that it is one of them; None when too little is known."""
    odds = dict.fromkeys(choices, 0.0)
    unseen: dict[str, float] = {}
    possible, path, mass = list(choices), "", 1.0
    for token in tokens:
        chances = {text: math.exp(min(0.0, p)) for text, p in token.alternatives.items()}
        if not chances:
            return None
        # Whatever leaves the written choice at a token goes to the one choice that this leads to, if it is one.
        for text, chance in chances.items():
            led_to = [] if text == token.text else _leading(path + text, possible)
            if len(led_to) == 1:
                odds[led_to[0]] += mass * chance
        path += token.text
        still = _leading(path, possible)
        # The most that a token can have that is not among the listed ones.
        unlisted = min(min(chances.values()), max(0.0, 1.0 - math.fsum(chances.values())))
        unseen |= {c: mass * unlisted for c in possible if c not in still and not odds[c]}
        possible = still
        mass *= math.exp(min(0.0, token.logprob))
        if len(possible) <= 1:
            break
    odds[written] += mass
    total = math.fsum(odds.values())
    if not tokens or not total or any(p > UNSEEN * (total + p) for p in unseen.values()):
        return None
    return {choice: share / total for choice, share in odds.items()}


def _leading(path: str, choices: Sequence[str]) -> list[str]:
    """The choices that a text which starts like this is on the way to, or already past."""
    start = path.casefold()
    return [
        c for c in choices if c.casefold().startswith(start) or start.startswith(f'{c.casefold()}"')
    ]
