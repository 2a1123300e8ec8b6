"""`verifiers.parsers.think_parser`."""

from assay import ThinkParser

__all__ = ["ThinkParser"]
