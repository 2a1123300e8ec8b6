"""`verifiers.parsers.xml_parser`."""

from assay import XMLParser

__all__ = ["XMLParser"]
