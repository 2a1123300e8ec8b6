"""Decide whether two mathematical answers are the same, by the cheapest tier that is sure."""

from assay.math.verdict import MathOptions, MathVerdict, Status, Tier
from assay.math.verification import verify, verify_async, verify_many, verify_many_async

__all__ = [
    "MathOptions",
    "MathVerdict",
    "Status",
    "Tier",
    "verify",
    "verify_async",
    "verify_many",
    "verify_many_async",
]
