"""`verifiers.parsers.parser`."""

from assay import Parser

__all__ = ["Parser"]
