"""Compare two answers by exact arithmetic on their trees: the second tier."""

import math
import re
from itertools import product
from typing import Final

from assay.math import tree
from assay.math.answer_text import find_final_answer
from assay.math.completeness import find_unfinished_work
from assay.math.equality import compare
from assay.math.normalization import settle, shorten
from assay.math.parsed_answer import ParsedAnswer, is_mathematics, parse_answer
from assay.math.size import is_small
from assay.math.values import is_computable
from assay.math.verdict import (
    Equality,
    MathOptions,
    MathVerdict,
    OpenQuestion,
    Status,
    read_simplification,
)

_WORD: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_FORMULA: Final = re.compile(r"(?<!\\)\$|\\\(|\\\[")


def decide(
    gold: str, answer: str, options: MathOptions, *, in_worker: bool = False
) -> MathVerdict | OpenQuestion:
    """Compare an answer with the gold, by exact arithmetic on what both texts say.

    Returns an `OpenQuestion` if only a worker process can decide: a worker has math-verify, and may
    take long. `in_worker` says that this is one, so large expressions are compared here too.
    """
    parsed_gold = parse_answer(gold)
    parsed_answer = _parse_answer_in_text(answer)
    if parsed_answer is None:
        return _verdict("answer_unparsable", "no answer was found in a text of words")
    if parsed_gold.is_too_large:
        return _verdict("gold_unparsable", f"the gold is too large: {parsed_gold.problem}")
    if parsed_answer.is_too_large:
        return _verdict("too_large", f"the answer is too large: {parsed_answer.problem}")

    contradiction = _find_contradiction(parsed_gold, parsed_answer)
    if contradiction is not None:
        return _verdict("different", contradiction)
    has_bare_choice = parsed_gold.is_bare_choice or parsed_answer.is_bare_choice
    if has_bare_choice and parsed_gold.choice == parsed_answer.choice:
        return _verdict("equal", f"equal as choices: {parsed_gold.choice}")
    if parsed_gold.text != gold or parsed_answer.text != answer:
        # What was found inside a longer text may be a plain number, which `settle()` compares.
        verdict = settle(parsed_gold.text, parsed_answer.text, options)
        if verdict is not None:
            return verdict
    return _compare_parsed(parsed_gold, parsed_answer, options, in_worker=in_worker)


def decide_in_worker(gold: str, answer: str, options: MathOptions) -> MathVerdict:
    """Compare two answers of which at least one is large. Called in a worker process.

    What exact arithmetic cannot decide is simplified by math-verify.
    """
    result = decide(gold, answer, options, in_worker=True)
    if isinstance(result, MathVerdict):
        return result
    from assay.math.symbolic import compare as simplify_and_compare  # loads sympy, which is slow

    simplification = simplify_and_compare(result.gold, result.answer, options.rounding)
    return read_simplification(result, simplification)


def _parse_answer_in_text(answer: str) -> ParsedAnswer | None:
    """Parse an answer, or the final answer inside a longer text.

    Returns None for a text of words in which nothing looks like an answer.
    """
    parsed = parse_answer(answer)
    if parsed.tree is not None:
        return parsed
    words = [word for word in _WORD.findall(answer) if not is_mathematics(word)]
    is_sentence = len(words) > 1
    starts_with_word = len(words) == 1 and answer.strip().startswith(words[0])
    has_formula_inside = _FORMULA.search(answer.strip().strip("$")) is not None
    if not is_sentence and not starts_with_word and not has_formula_inside:
        return parsed  # with the problem: it is a formula that cannot be read
    final_answer = find_final_answer(answer)
    if final_answer is None:
        return None
    return parse_answer(final_answer)


def _find_contradiction(gold: ParsedAnswer, answer: ParsedAnswer) -> str | None:
    """Return how two answers differ in the letter of a choice, in "for all" or "some", or as times.

    None if they do not. Other differences show in the trees of the answers.
    """
    if gold.choice and answer.choice and gold.choice != answer.choice:
        return f"different choices: {gold.choice} and {answer.choice}"
    if gold.quantifier and answer.quantifier and gold.quantifier != answer.quantifier:
        return f"one holds for {gold.quantifier}, the other for {answer.quantifier}"
    if gold.clock_time and answer.clock_time and gold.clock_time != answer.clock_time:
        return f"different times: {gold.text} and {answer.text}"
    if _is_surely_time(gold) and answer.clock_time is None and _is_ratio_or_number(answer):
        return f"one is the time {gold.text}, the other is not a time"
    return None


def _is_surely_time(answer: ParsedAnswer) -> bool:
    """Return True for a time that is not a ratio: `4:30`, which as a ratio would be 2:15."""
    return answer.clock_time is not None and math.gcd(*answer.clock_time) > 1


def _is_ratio_or_number(answer: ParsedAnswer) -> bool:
    return isinstance(answer.tree, tree.Listing | tree.Quotient | tree.Number)


def _compare_parsed(
    gold: ParsedAnswer, answer: ParsedAnswer, options: MathOptions, *, in_worker: bool
) -> MathVerdict | OpenQuestion:
    """Compare two parsed answers; return a question for a worker if they cannot be decided here.

    The tree of an answer is None if its text could not be parsed.
    """
    unfinished_work: str | None = None
    if options.solved:
        unfinished_work = find_unfinished_work(gold.text, gold.tree, answer.text, answer.tree)
    # The verdict if the answer leaves work undone, which counts even if the two are equal.
    not_solved = _verdict(
        "different", f"the answer is not solved as far as the gold is: {unfinished_work}"
    )
    if gold.tree is None or answer.tree is None:
        if _may_ask_math_verify(gold, answer, options):
            if unfinished_work:
                return not_solved
            return OpenQuestion(gold.text, answer.text, gold_is_read=gold.tree is not None)
        if gold.tree is None:
            return _verdict("gold_unparsable", f"the gold {shorten(gold.text)!r}: {gold.problem}")
        return _verdict("answer_unparsable", f"the answer: {answer.problem}")

    gold_is_large = not is_small(gold.tree)
    answer_is_large = not is_small(answer.tree)
    if (gold_is_large or answer_is_large) and not in_worker:
        return OpenQuestion(
            gold.text,
            answer.text,
            gold_is_read=True,
            gold_is_large=gold_is_large,
            answer_is_large=answer_is_large,
        )

    equality = _compare_readings(gold, answer, options)
    if equality.equal:
        return not_solved if unfinished_work else _verdict("equal", equality.reason)
    if equality.equal is False:
        return _verdict("different", equality.reason)

    may_ask = _may_ask_math_verify(gold, answer, options)
    if may_ask and unfinished_work:
        return not_solved
    if equality.is_too_large:
        only_gold_is_too_large = is_computable(answer.tree) and not is_computable(gold.tree)
        if only_gold_is_too_large:
            return _verdict("gold_unparsable", f"the gold is {equality.reason}")
        return _verdict("too_large", equality.reason)
    if may_ask:
        return OpenQuestion(gold.text, answer.text, gold_is_read=True)
    return _verdict("different", f"not proven equal: {equality.reason}")


def _may_ask_math_verify(gold: ParsedAnswer, answer: ParsedAnswer, options: MathOptions) -> bool:
    """Return True if math-verify can be trusted with two answers, and the options allow it."""
    return options.symbolic and gold.is_expression and answer.is_expression


def _compare_readings(gold: ParsedAnswer, answer: ParsedAnswer, options: MathOptions) -> Equality:
    """Compare every reading of the gold with every reading of the answer.

    An ambiguous text has several readings: `1/2x` may be x/2. The answers are equal if any two
    readings are. They are different only if no pair of readings is undecided.
    """
    assert gold.tree is not None
    assert answer.tree is not None
    equality = compare(gold.tree, answer.tree, options)
    if equality.equal:
        return equality
    gold_readings = [gold.tree, *gold.other_readings(answer, is_gold=True)]
    answer_readings = [answer.tree, *answer.other_readings(gold, is_gold=False)]
    _, *other_pairs = product(gold_readings, answer_readings)  # the first pair was compared above
    for gold_reading, answer_reading in other_pairs:
        other_equality = compare(gold_reading, answer_reading, options)
        if other_equality.equal:
            return other_equality
        if equality.equal is False and other_equality.equal is None:
            equality = other_equality
    return equality


def _verdict(status: Status, reason: str) -> MathVerdict:
    """Return a verdict of this tier."""
    return MathVerdict(status, reason, "algebra")
