"""Whether two mathematical answers are the same, decided by the cheapest tier that is sure."""

from assay.math.options import MathOptions
from assay.math.verdict import MathVerdict, Status, Tier
from assay.math.verify import verify, verify_async, verify_many, verify_many_async

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
