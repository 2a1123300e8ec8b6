"""Weight a judge's choices by the probabilities that the model gave them, as G-Eval does."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Unpack

from pydantic import BaseModel

from assay.criterion import Criterion
from assay.graders.composite import Composite, WrapOptions
from assay.graders.degenerate import explain_degenerate
from assay.graders.grader import JudgeOptions, JudgeSource, grader_of, scores_from
from assay.graders.judge_input import JudgeInput
from assay.models.model import Reply, Token
from assay.redaction import get_logger
from assay.report import Score
from assay.types import OnError

logger = get_logger("assay")

# A choice that was not among the listed alternatives may have at most this probability; above it,
# the probabilities of the other choices are not trusted. Engines that restrict a model to a
# grammar may list what it would have written without the grammar.
_MAX_UNLISTED_PROBABILITY = 0.05
# The start of a verdict in a JSON reply, up to its opening quotation mark.
_VERDICT_START = re.compile(r'(?<!\\)"(?:criterion_status|choice)"\s*:\s*"')


class Expectation(Composite):
    """Asks for log-probabilities, and makes each value the expected value over the choices.

    `MET` with a probability of 0.9 has the value 0.9. `disagreement` is how far apart two random
    answers would be on average. If an endpoint gives no log-probabilities, the verdict counts as it
    is, without a `disagreement`, and a warning is logged once.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import ModelServer
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> with ModelServer("MET", confidence=0.9) as server:
    ...     judge = PerCriterionGrader(model=server.model)
    ...     round(rubric.grade_sync("Thanks!", Expectation(judge)).score, 6)
    0.9
    """

    def __init__(
        self, judge: JudgeSource, *, alternatives: int = 20, **options: Unpack[WrapOptions]
    ) -> None:
        """Ask `judge` for the log-probabilities of its replies.

        `alternatives` is how many tokens to request in place of each token of a reply; most
        endpoints allow up to 20.
        """
        if alternatives < 1:
            raise ValueError(f"alternatives is {alternatives}: ask for at least 1")

        def request_logprobs(options: JudgeOptions) -> JudgeOptions:
            return replace(options, logprobs=alternatives)

        super().__init__([self._change_options(grader_of(judge), request_logprobs)], **options)
        self._has_warned = False

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        """Return the scores of the grader inside; warn once if it got no log-probabilities.

        Its values are expected values already: the grader requests log-probabilities, and calls
        `apply_expectation()` when it reads a reply that has them.
        """
        [grader] = self.inner
        scores = await scores_from(grader, judge_input, criteria, on_error=on_error)
        if not self._has_warned and _lacks_probabilities(scores):
            # A text without content is scored without a call, so there is nothing to warn about.
            has_content = explain_degenerate(judge_input.assistant_text) is None
            if has_content:
                self._has_warned = True
                logger.warning(
                    "%s gave no log-probabilities, so its verdicts count as they are", grader.title
                )
        return scores


def _lacks_probabilities(scores: Sequence[Score]) -> bool:
    """Whether a value was not computed from probabilities: it then has no disagreement."""
    return any(score.value is not None and score.disagreement is None for score in scores)


def attach_tokens(reply: Reply) -> Any:
    """Return the value of a reply as a dict in which each verdict has its `tokens`.

    The tokens are those from the start of the verdict to the end of the reply, with their
    log-probabilities. The value is returned unchanged if the reply has no log-probabilities, or if
    it is not clear where in the text the verdicts are.
    """
    value = reply.value
    tokens = reply.logprobs
    if tokens is None or not isinstance(value, BaseModel):
        return value
    text = "".join(token.text for token in tokens)
    verdict_starts = [match.end() for match in _VERDICT_START.finditer(text)]
    evaluations: Sequence[BaseModel] | None = getattr(value, "criteria_evaluations", None)
    if evaluations is None:  # the reply is about one criterion
        if not verdict_starts:
            return value
        # Reasoning or a quotation may come before the verdict, so the last match is the verdict.
        return {**dict(value), "tokens": _cut_tokens(tokens, verdict_starts[-1])}
    if len(verdict_starts) != len(evaluations):
        return value
    with_tokens: list[dict[str, Any]] = []
    for evaluation, start in zip(evaluations, verdict_starts, strict=True):
        with_tokens.append({**dict(evaluation), "tokens": _cut_tokens(tokens, start)})
    return {"criteria_evaluations": with_tokens}


def _cut_tokens(tokens: Sequence[Token], start: int) -> list[Token]:
    """Return the tokens from the character at `start` of their joined text on.

    If this character is inside a token, only the rest of that token is kept. Of its alternatives,
    those are kept that start with the same characters, also without them.
    """
    token_start = 0
    for index, token in enumerate(tokens):
        token_end = token_start + len(token.text)
        if token_end > start:
            removed_length = start - token_start
            removed_text = token.text[:removed_length]
            alternatives: dict[str, float] = {}
            for text, logprob in token.alternatives.items():
                if text.startswith(removed_text):
                    alternatives[text[removed_length:]] = logprob
            first = Token(token.text[removed_length:], token.logprob, alternatives)
            return [first, *tokens[index + 1 :]]
        token_start = token_end
    return []


def apply_expectation(criterion: Criterion, score: Score, tokens: Sequence[Token]) -> Score:
    """Return the score with the expected value over the choices, and with the disagreement.

    `tokens` are those of the verdict and what follows. If the probabilities are not known well
    enough, the score is unchanged.
    """
    if score.value is None or score.verdict is None:
        return score
    probabilities = compute_probabilities(criterion.choices, score.verdict, tokens)
    if probabilities is None:
        return score
    values = criterion.values
    expected_value = math.fsum(
        probability * values[choice] for choice, probability in probabilities.items()
    )
    # Between two answers that are drawn at random with these probabilities.
    expected_distance = math.fsum(
        probabilities[first] * probabilities[second] * abs(values[first] - values[second])
        for first, second in product(probabilities, repeat=2)
    )
    return score._replace(value=expected_value, disagreement=expected_distance)


def compute_probabilities(
    choices: Sequence[str], written: str, tokens: Sequence[Token]
) -> dict[str, float] | None:
    """Return the probability of each choice, given that the model writes one of them.

    `written` is the choice that the model wrote, and that the tokens start with. They are read one
    by one until no other choice is possible. Each token has alternatives that the model could have
    written instead. The probability of an alternative is added to the choice that it leads to, if
    it leads to only one. Returns None if too little is known.
    """
    probabilities = dict.fromkeys(choices, 0.0)
    # For choices that no alternative led to: how probable they can be at most.
    unlisted_probabilities: dict[str, float] = {}
    possible = list(choices)  # the choices that start with the tokens read so far
    path = ""  # the text of the tokens read so far
    path_probability = 1.0  # of that text
    for token in tokens:
        alternatives = {
            text: math.exp(min(0.0, logprob)) for text, logprob in token.alternatives.items()
        }
        if not alternatives:
            return None
        # Give the probability of each alternative to the choice that it leads to.
        for text, probability in alternatives.items():
            if text == token.text:
                continue
            reachable = _find_reachable(path + text, possible)
            if len(reachable) == 1:
                probabilities[reachable[0]] += path_probability * probability

        # Read the token. A choice that is now impossible, and that no alternative led to, can only
        # have been continued by a token that is not listed. Such a token is at most as probable as
        # the least probable listed one, and as what the listed ones leave of 1.
        path += token.text
        still_possible = _find_reachable(path, possible)
        remainder = max(0.0, 1.0 - math.fsum(alternatives.values()))
        largest_unlisted = min(min(alternatives.values()), remainder)
        for choice in possible:
            if choice not in still_possible and not probabilities[choice]:
                unlisted_probabilities[choice] = path_probability * largest_unlisted
        possible = still_possible
        path_probability *= math.exp(min(0.0, token.logprob))
        if len(possible) <= 1:
            break
    probabilities[written] += path_probability

    total = math.fsum(probabilities.values())
    if not tokens or not total:
        return None
    for unlisted in unlisted_probabilities.values():
        if unlisted > _MAX_UNLISTED_PROBABILITY * (total + unlisted):
            return None
    return {choice: probability / total for choice, probability in probabilities.items()}


def _find_reachable(text: str, choices: Sequence[str]) -> list[str]:
    """Return the choices that a reply may still turn out to give, after this start of its verdict.

    The text is the start of the choice, or the whole choice with the closing quotation mark of the
    JSON string and what follows.
    """
    folded_text = text.casefold()
    reachable: list[str] = []
    for choice in choices:
        folded_choice = choice.casefold()
        is_complete = folded_text.startswith(f'{folded_choice}"')
        if is_complete or folded_choice.startswith(folded_text):
            reachable.append(choice)
    return reachable
