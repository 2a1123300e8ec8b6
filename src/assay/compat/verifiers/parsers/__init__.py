"""`verifiers.parsers`."""

from assay import MaybeThinkParser, Parser, ThinkParser, XMLParser

__all__ = ["MaybeThinkParser", "Parser", "ThinkParser", "XMLParser"]
