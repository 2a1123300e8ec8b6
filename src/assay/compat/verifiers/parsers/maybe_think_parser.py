"""`verifiers.parsers.maybe_think_parser`."""

from assay import MaybeThinkParser

__all__ = ["MaybeThinkParser"]
