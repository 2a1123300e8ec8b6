"""The second tier: both answers read into trees, and the trees compared by exact arithmetic."""

import re
from itertools import product
from typing import Final

from assay.math.compare import compare
from assay.math.extract import final_answer
from assay.math.finding import Finding, Open
from assay.math.normalize import settled, shortened
from assay.math.options import MathOptions
from assay.math.reading import Reading, is_mathematics, read
from assay.math.verdict import MathVerdict

_WORD: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_FORMULA: Final = re.compile(r"(?<!\\)\$|\\\(|\\\[")


def decided(gold: str, answer: str, options: MathOptions) -> MathVerdict | Open:
    """The verdict on a pair, or what is left open."""
    one, two = read(gold), _found(answer)
    if two is None:
        return MathVerdict("answer_unparsable", "no answer was found in a text of words", "algebra")
    if one.is_too_large:
        return MathVerdict("gold_unparsable", f"the gold is too large: {one.problem}", "algebra")
    if two.is_too_large:
        return MathVerdict("too_large", f"the answer is too large: {two.problem}", "algebra")
    if one.text != gold or two.text != answer:
        # What was found in a longer text may be a plain number.
        verdict = settled(one.text, two.text, options)
        if verdict is not None:
            return verdict
    if one.tree is None or two.tree is None:
        return (
            Open(gold, two.source, one.tree is not None) if options.symbolic else _unread(one, two)
        )
    finding = _best(one, two, options)
    if finding.equal is not None:
        return MathVerdict("equal" if finding.equal else "different", finding.reason, "algebra")
    if finding.reason.startswith("too large"):
        return MathVerdict("too_large", finding.reason, "algebra")
    if not options.symbolic:
        return MathVerdict("different", f"not proven equal: {finding.reason}", "algebra")
    return Open(gold, two.source, True)


def _found(answer: str) -> Reading | None:
    """The reading of an answer, or of the part of a longer text that is its answer.

    None for a text of words in which nothing looks like an answer.
    """
    reading = read(answer)
    if reading.tree is not None or not _is_longer_text(answer):
        return reading
    part = final_answer(answer)
    if part is None:
        return None
    return read(part)


def _is_longer_text(text: str) -> bool:
    """Whether an answer stands somewhere among words or formulas."""
    if _FORMULA.search(text.strip().strip("$")):
        return True
    words = [word for word in _WORD.findall(text) if not is_mathematics(word)]
    return len(words) > 1 or (len(words) == 1 and text.strip().startswith(words[0]))


def _best(gold: Reading, answer: Reading, options: MathOptions) -> Finding:
    """Equal when some reading of one equals some reading of the other."""
    assert gold.tree is not None
    assert answer.tree is not None
    finding = compare(gold.tree, answer.tree, options)
    if finding.equal:
        return finding
    for one, two in product((gold.tree, *gold.others), (answer.tree, *answer.others)):
        if one is gold.tree and two is answer.tree:
            continue
        other = compare(one, two, options)
        if other.equal or (other.equal is None and finding.equal is False):
            finding = other
        if finding.equal:
            break
    return finding


def _unread(gold: Reading, answer: Reading) -> MathVerdict:
    if gold.tree is None:
        return MathVerdict(
            "gold_unparsable", f"the gold {shortened(gold.text)!r}: {gold.problem}", "algebra"
        )
    return MathVerdict("answer_unparsable", f"the answer: {answer.problem}", "algebra")
