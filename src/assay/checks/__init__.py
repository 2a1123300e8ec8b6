"""Checks that come with the library, for Python and for rubric files."""

from assay.checks.answers import ExactMatch, NumericEqual, OneOf
from assay.checks.base import BuiltinCheck
from assay.checks.mathematics import MathEqual
from assay.checks.pattern import Regex
from assay.checks.refusal import Refusal
from assay.checks.registry import BUILTIN, check_of
from assay.checks.similarity import Similarity
from assay.checks.structure import JsonSchema, JsonValid
from assay.checks.text import CodeBlock, Contains, MaxWords, MinWords

__all__ = [
    "BUILTIN",
    "BuiltinCheck",
    "CodeBlock",
    "Contains",
    "ExactMatch",
    "JsonSchema",
    "JsonValid",
    "MathEqual",
    "MaxWords",
    "MinWords",
    "NumericEqual",
    "OneOf",
    "Refusal",
    "Regex",
    "Similarity",
    "check_of",
]
