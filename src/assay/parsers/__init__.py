"""Read completions: the whole text, tagged fields, or what follows a thought."""

from assay.parsers.extract import (
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_json_text,
    extract_last_number,
    strip_non_numeric,
)
from assay.parsers.text_parsers import FormatReward, MaybeThinkParser, Parser, ThinkParser, identity
from assay.parsers.xml import MISSING, XMLParser

__all__ = [
    "MISSING",
    "FormatReward",
    "MaybeThinkParser",
    "Parser",
    "ThinkParser",
    "XMLParser",
    "extract_boxed_answer",
    "extract_code",
    "extract_hash_answer",
    "extract_json",
    "extract_json_text",
    "extract_last_number",
    "identity",
    "strip_non_numeric",
]
