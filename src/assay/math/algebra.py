"""The second tier: both answers read into trees, and the trees compared by exact arithmetic."""

import re
from itertools import product
from typing import Final

from assay.math.compare import compare
from assay.math.extract import final_answer
from assay.math.finding import Finding
from assay.math.normalize import settled, shortened
from assay.math.options import MathOptions
from assay.math.reading import Reading, read
from assay.math.verdict import MathVerdict

_PROSE: Final = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}\s|\$")


def decided(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
    """The verdict on a pair, or None when only simplification can tell."""
    one, two = read(gold), _found(answer)
    if one.is_too_large or two.is_too_large:
        side, why = ("gold", one.problem) if one.is_too_large else ("answer", two.problem)
        return MathVerdict("too_large", f"the {side} is too large: {why}", "algebra")
    if one.text != gold or two.text != answer:
        # What was found in a longer text may be a plain number.
        verdict = settled(one.text, two.text, options)
        if verdict is not None:
            return verdict
    if one.tree is None or two.tree is None:
        return None if options.symbolic else _unread(one)
    finding = _best(one, two, options)
    if finding.equal is not None:
        return MathVerdict("equal" if finding.equal else "different", finding.reason, "algebra")
    if finding.reason.startswith("too large"):
        return MathVerdict("too_large", finding.reason, "algebra")
    if not options.symbolic:
        return MathVerdict("different", f"not proven equal: {finding.reason}", "algebra")
    return None


def _found(answer: str) -> Reading:
    """The reading of an answer, or of the part of a longer text that is its answer."""
    reading = read(answer)
    if reading.tree is None:
        part = final_answer(answer) if _PROSE.search(answer) else None
        if part is not None and part.strip() != answer.strip():
            inner = read(part)
            if inner.tree is not None:
                return inner
    return reading


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


def _unread(gold: Reading) -> MathVerdict:
    if gold.tree is None:
        return MathVerdict(
            "gold_unparsable", f"the gold {shortened(gold.text)!r}: {gold.problem}", "algebra"
        )
    return MathVerdict("answer_unparsable", "the answer cannot be read", "algebra")
