"""`verifiers.tools`."""

from assay.tools import calculator, python

__all__ = ["calculator", "python"]
