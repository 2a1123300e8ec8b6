"""How far a judge can be trusted.

agreement     a judge against people, beside people against each other; coefficients, what it is measured by
labels        what people said, put beside the judge's answers; questions, what was asked
bias          a score with the judge's bias taken out
comparison    two runs example by example: what changed, and whether the judge drifted
golden_run    a rubric's golden examples, and what it says of them

Everything loads when first used. Statistics need the extra `trust`.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
