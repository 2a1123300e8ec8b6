"""Check completions by code: the checks that come with the library, for Python and for rubric files."""

from assay.checks.builtin import BUILTIN, check_of
from assay.checks.check import BuiltinCheck
from assay.checks.content import CodeBlock, Contains, MaxWords, MinWords, Regex
from assay.checks.expected import ExactMatch, NumericEqual, OneOf, Similarity
from assay.checks.json_schema import JsonSchema, JsonValid
from assay.checks.math_equal import MathEqual
from assay.checks.refusal import Refusal

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
