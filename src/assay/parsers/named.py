"""Build parsers from their names in rubric files and on the command line, and convert them back."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from assay.errors import RubricError
from assay.parsers.extract import (
    extract_boxed_answer,
    extract_code,
    extract_hash_answer,
    extract_json,
    extract_last_number,
)
from assay.parsers.text_parsers import MaybeThinkParser, Parser, ThinkParser, identity
from assay.parsers.xml import XMLParser
from assay.wording import format_value, suggest_word

# Returns the content of the last box; empty without one.
strictly_boxed: Final = partial(extract_boxed_answer, strict=True)

# The parsers that have no options, by name.
_SIMPLE_PARSERS: Final[Mapping[str, Callable[[], Parser]]] = {
    "text": Parser,
    "think": ThinkParser,
    "maybe_think": MaybeThinkParser,
    "boxed": lambda: MaybeThinkParser(strictly_boxed),
    "hash": lambda: MaybeThinkParser(extract_hash_answer),
    "number": lambda: MaybeThinkParser(extract_last_number),
    "code": lambda: MaybeThinkParser(extract_code),
    "json": lambda: MaybeThinkParser(extract_json),
}
_XML_OPTIONS: Final = ("fields", "answer_field")
PARSERS: Final = (*_SIMPLE_PARSERS, "xml")


def parser_of(spec: object) -> Parser:
    """Return the parser that a rubric file names; raise `RubricError` if there is none.

    >>> parser_of("boxed").parse_answer(r"So it is \\boxed{4}.")
    '4'
    >>> parser_of({"xml": ["think", "answer"]}).get_fields()
    ['think', 'answer']
    """
    if isinstance(spec, Parser):
        return spec
    if isinstance(spec, Mapping):
        options = cast("Mapping[object, object]", spec)
        if len(options) != 1:
            raise RubricError(f"parser is {format_value(options)}: {_ADVICE}")
        [(name, value)] = options.items()
        if name == "xml":
            return _build_xml_parser(value)
        if name in _SIMPLE_PARSERS:
            raise RubricError(f"the parser {name} has no options: write parser: {name}")
    else:
        name = spec
    if name == "xml":
        raise RubricError("the parser xml needs its tags: write parser: {xml: [think, answer]}")
    if not isinstance(name, str):
        raise RubricError(f"parser is {format_value(name)}: {_ADVICE}")
    if name not in _SIMPLE_PARSERS:
        raise RubricError(f"there is no parser {format_value(name)}: {suggest_word(name, PARSERS)}")
    return _SIMPLE_PARSERS[name]()


_ADVICE: Final = f"give one of {', '.join(_SIMPLE_PARSERS)}, or {{xml: [think, answer]}}"


def _build_xml_parser(value: object) -> XMLParser:
    options: dict[str, Any] = {"fields": value}
    if isinstance(value, Mapping):
        options = {str(key): option for key, option in cast("Mapping[Any, Any]", value).items()}
        for key in options:
            if key not in _XML_OPTIONS:
                raise RubricError(
                    f"the parser xml has no option {key!r}: {suggest_word(key, _XML_OPTIONS)}"
                )
        if "fields" not in options:
            raise RubricError("the parser xml needs its tags: write {xml: {fields: [answer]}}")
    try:
        parser = XMLParser(**options)
    except (TypeError, ValueError) as error:
        raise RubricError(f"the parser xml cannot be built: {error}") from None
    names = [name for field in parser.fields for name in field]
    if parser.answer_field not in names:
        raise RubricError(
            f"the parser xml has no field {parser.answer_field!r} to read the answer from: "
            "add it, or name another with answer_field"
        )
    return parser


def parser_to_data(parser: Parser) -> Any:
    """Return a parser as a rubric file names it; None if a file cannot name it."""
    for name, build in _SIMPLE_PARSERS.items():
        if parser == build():
            return name
    if type(parser) is not XMLParser or parser.extract_fn is not identity:
        return None
    fields: list[Any] = []
    for names in parser.fields:
        fields.append(names[0] if len(names) == 1 else list(names))
    if parser.answer_field == "answer":
        return {"xml": fields}
    return {"xml": {"fields": fields, "answer_field": parser.answer_field}}
