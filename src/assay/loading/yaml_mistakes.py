"""Explain the usual mistakes in YAML: what is wrong with a line, and how to write it.

The messages of the parser are in its own terms: it did not find an expected key, or found a
character that cannot start any token.
"""

import json
import re
from typing import Final

# A field and its value, perhaps behind the dash of a list.
_FIELD: Final = re.compile(r"\s*(?P<dash>(?:- +)*)(?P<key>[\w-]+):(?: +(?P<value>.*\S))?\s*")
# Characters with a meaning of their own at the beginning of a value. Behind a quotation mark or a
# bracket, the value must end with its counterpart.
_SPECIAL_CHARACTERS: Final = "@`%*&!>|"
_CLOSING_CHARACTERS: Final = {'"': '"', "'": "'", "[": "]", "{": "}"}
_INDENTATION_ERRORS: Final = ("expected key", "expected '-' indicator", "expected <block end>")


def explain_yaml_error(message: str, text: str, line: int) -> str:
    """Return what is wrong with a line, and what to do; the parser's message if it is not known."""
    source = text.splitlines()[line - 1] if line <= len(text.splitlines()) else ""
    if re.search(r"\btab character|'\\t'", message):
        return "the line is indented with a tab: use spaces"
    if re.search(r"expected ',' or '[]}]'", message):
        return "a comma is missing, or a bracket is not closed: add it"
    field = _FIELD.fullmatch(source)
    if field is None:
        if "mapping values are not allowed" in message:
            return "a text contains a colon: put it in quotes"
        return message
    key = field["key"]
    value = field["value"] or ""
    if _begins_with_special_character(value):
        return f"a text that begins with {value[0]} needs quotes around all of it, {key}: {quote(value)}"
    if _is_quote_in_quotes(value):
        return f"a text contains a quotation mark: use the other kind around it, {key}: {quote(value[1:-1])}"
    if "mapping values are not allowed" in message and re.search(r":(\s|$)", value):
        if key == "check":
            return f"there is a second colon: put the check in braces, {key}: {{{value}}}"
        return f"a text contains a colon: put it in quotes, {key}: {quote(value)}"
    is_indented_wrong = any(error in message for error in _INDENTATION_ERRORS)
    if is_indented_wrong or "mapping values are not allowed" in message:
        if field["dash"]:
            return (
                "the line is not indented like the list above it: put its dash below the one before"
            )
        return (
            f"the line is not indented like those above it: put {key!r} below the field before it"
        )
    return message


def quote(text: str) -> str:
    """Return a text as YAML takes it, in the quotation marks that it does not contain."""
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


def _begins_with_special_character(value: str) -> bool:
    if not value:
        return False
    closing = _CLOSING_CHARACTERS.get(value[0])
    if closing is not None:
        return len(value) == 1 or not value.endswith(closing)
    return value[0] in _SPECIAL_CHARACTERS or value.startswith("- ")


def _is_quote_in_quotes(value: str) -> bool:
    """Return True for 'It's Paris', where the second quotation mark already ends the text."""
    if len(value) < 3 or value[0] not in "\"'" or value[0] != value[-1]:
        return False
    return value[0] in value[1:-1]
