"""Compare two answers, read into trees, by exact arithmetic: the second tier."""

import math
import re
from itertools import product
from typing import Final

from assay.math import tree
from assay.math.answer_text import final_answer
from assay.math.equality import compare, unsolved
from assay.math.normalization import settled, shortened
from assay.math.parsed_answer import ParsedAnswer, is_mathematics, parse_answer
from assay.math.size import is_small
from assay.math.values import is_computable
from assay.math.verdict import Equality, MathOptions, MathVerdict, Open, read_simplification

_WORD: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_FORMULA: Final = re.compile(r"(?<!\\)\$|\\\(|\\\[")


def decided(
    gold: str, answer: str, options: MathOptions, *, in_worker: bool = False
) -> MathVerdict | Open:
    one, two = parse_answer(gold), _found(answer)
    if two is None:
        return MathVerdict("answer_unparsable", "no answer was found in a text of words", "algebra")
    if one.is_too_large:
        return MathVerdict("gold_unparsable", f"the gold is too large: {one.problem}", "algebra")
    if two.is_too_large:
        return MathVerdict("too_large", f"the answer is too large: {two.problem}", "algebra")
    contradiction = _find_contradiction(one, two)
    if contradiction is not None:
        return MathVerdict("different", contradiction, "algebra")
    if one.choice == two.choice and (one.is_bare_choice or two.is_bare_choice):
        return MathVerdict("equal", f"equal as choices: {one.choice}", "algebra")
    if one.text != gold or two.text != answer:
        # What was found in a longer text may be a plain number.
        verdict = settled(one.text, two.text, options)
        if verdict is not None:
            return verdict
    undone = unsolved((one.text, one.tree), (two.text, two.tree)) if options.solved else None
    not_solved = MathVerdict(
        "different", f"the answer is not solved as far as the gold is: {undone}", "algebra"
    )
    if one.tree is None or two.tree is None:
        if _is_asked(one, two, options):
            return not_solved if undone else Open(one.text, two.text, one.tree is not None)
        if one.tree is None:
            return MathVerdict(
                "gold_unparsable", f"the gold {shortened(one.text)!r}: {one.problem}", "algebra"
            )
        return MathVerdict("answer_unparsable", f"the answer: {two.problem}", "algebra")
    gold_is_large = not is_small(one.tree)
    answer_is_large = not is_small(two.tree)
    if (gold_is_large or answer_is_large) and not in_worker:
        return Open(one.text, two.text, True, gold_is_large, answer_is_large)
    finding = _best(one, two, options)
    if undone and finding.equal:
        return not_solved
    if finding.equal is not None:
        return MathVerdict("equal" if finding.equal else "different", finding.reason, "algebra")
    is_asked = _is_asked(one, two, options)
    if undone and is_asked:
        return not_solved
    if finding.is_too_large:
        if is_computable(one.tree) or not is_computable(two.tree):
            return MathVerdict("too_large", finding.reason, "algebra")
        return MathVerdict("gold_unparsable", f"the gold is {finding.reason}", "algebra")
    if not is_asked:
        return MathVerdict("different", f"not proven equal: {finding.reason}", "algebra")
    return Open(one.text, two.text, True)


def decide_in_worker(gold: str, answer: str, options: MathOptions) -> MathVerdict:
    """Compare two answers of which one is large; called in a worker process."""
    verdict = decided(gold, answer, options, in_worker=True)
    if isinstance(verdict, MathVerdict):
        return verdict
    from assay.math.symbolic import compare as simplify_and_compare

    found = simplify_and_compare(verdict.gold, verdict.answer, options.rounding)
    return read_simplification(verdict, found)


def _find_contradiction(gold: ParsedAnswer, answer: ParsedAnswer) -> str | None:
    """Return what tells two answers apart by what their trees do not hold, or None."""
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
    """Return True for a time such as `4:30`: as a ratio it would be written in lowest terms."""
    return answer.clock_time is not None and math.gcd(*answer.clock_time) > 1


def _is_ratio_or_number(answer: ParsedAnswer) -> bool:
    return isinstance(answer.tree, tree.Listing | tree.Quotient | tree.Number)


def _is_asked(gold: ParsedAnswer, answer: ParsedAnswer, options: MathOptions) -> bool:
    return options.symbolic and gold.is_expression and answer.is_expression


def _found(answer: str) -> ParsedAnswer | None:
    """The reading of an answer, or of the part of a longer text that is its answer.

    None for a text of words in which nothing looks like an answer.
    """
    reading = parse_answer(answer)
    if reading.tree is not None:
        return reading
    words = [word for word in _WORD.findall(answer) if not is_mathematics(word)]
    is_among_words = len(words) > 1 or (len(words) == 1 and answer.strip().startswith(words[0]))
    if not is_among_words and not _FORMULA.search(answer.strip().strip("$")):
        return reading
    part = final_answer(answer)
    return None if part is None else parse_answer(part)


def _best(gold: ParsedAnswer, answer: ParsedAnswer, options: MathOptions) -> Equality:
    """Equal when some reading of one equals some reading of the other."""
    assert gold.tree is not None
    assert answer.tree is not None
    finding = compare(gold.tree, answer.tree, options)
    if finding.equal:
        return finding
    golds = (gold.tree, *gold.other_readings(answer, is_gold=True))
    _, *readings = product(golds, (answer.tree, *answer.other_readings(gold, is_gold=False)))
    for one, two in readings:
        other = compare(one, two, options)
        if other.equal:
            return other
        if other.equal is None and finding.equal is False:
            finding = other
    return finding
