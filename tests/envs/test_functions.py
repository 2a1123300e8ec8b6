"""A function becomes a tool: what a model is told of it, and what it may be called with."""

import json
import sys
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from assay import MissingExtraError, State
from assay.envs import ToolError
from assay.models.callable_tool import ArgumentsError, CallableTool, parse_docstring


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


def schema_of(function):
    return json.loads(CallableTool(function).declared.parameters)


def test_the_signature_is_the_schema():
    """Types, choices, defaults and what is required."""

    def search(
        query: str,
        limit: int = 5,
        order: Literal["new", "old"] = "new",
        tags: list[str] | None = None,
        options: dict[str, float] | None = None,
        exact: Annotated[bool, Field(description="word for word")] = False,
    ):
        """Search."""

    assert schema_of(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "order": {"type": "string", "enum": ["new", "old"], "default": "new"},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
            "options": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "number"}},
                    {"type": "null"},
                ],
                "default": None,
            },
            "exact": {"type": "boolean", "default": False, "description": "word for word"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_records_are_described_and_made():
    """A function that takes a pydantic model gets one."""

    def draw(start: Point, rest: list[Point]):
        """Draw a line."""
        return start, rest

    schema = schema_of(draw)
    assert schema["properties"]["start"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "integer"}
    read = CallableTool(draw).arguments('{"start": {"x": 1}, "rest": [{"x": 2, "y": 3}]}', State())
    assert read == {"start": Point(x=1), "rest": [Point(x=2, y=3)]}


def test_names_that_pydantic_keeps_to_itself_are_names_like_others():
    """`model_config`, `json`, `copy` and `_private` too."""

    def odd(json: int, copy: int, model_config: str, _private: int = 1, schema: int = 2):
        """Odd names."""

    given = '{"json": 1, "copy": 2, "model_config": "m"}'
    assert CallableTool(odd).arguments(given, State()) == {
        "json": 1,
        "copy": 2,
        "model_config": "m",
        "_private": 1,
        "schema": 2,
    }
    assert list(schema_of(odd)["properties"]) == [
        "json",
        "copy",
        "model_config",
        "_private",
        "schema",
    ]


def test_a_field_called_title_stays():
    """Only titles that say a name again are left out."""

    def add_book(title: str):
        """Add a book."""

    assert schema_of(add_book)["properties"] == {"title": {"type": "string"}}


def test_without_annotations_anything_goes():
    """The schema says nothing of them."""

    def anything(a, b=1):
        """Anything."""

    assert schema_of(anything)["properties"] == {"a": {}, "b": {"default": 1}}


def test_further_arguments_pass_where_the_function_takes_them():
    """By `**kwargs`."""

    def open_ended(a: int, **more: Any):
        """Open."""

    assert CallableTool(open_ended).arguments('{"a": 1, "z": [2]}', State()) == {"a": 1, "z": [2]}
    assert schema_of(open_ended).get("additionalProperties", True) is not False


def test_the_state_is_handed_over_and_kept_from_the_model():
    """To a parameter that is annotated so."""

    def remember(word: str, state: State, where: Annotated[str, "a place"] = "here"):
        """Remember a word."""

    assert list(schema_of(remember)["properties"]) == ["word", "where"]
    state = State(turn=1)
    assert CallableTool(remember).arguments('{"word": "x"}', state)["state"] is state


class Shouter:
    """Shouts what it is given."""

    def __call__(self, words: str) -> str:
        return words.upper()

    def shout(self, words: str) -> str:
        """Shout."""
        return words.upper()


def test_objects_methods_and_partials_are_tools():
    """Under the name of their class, or of the function within."""

    def add(a: int, b: int):
        """Add."""

    assert CallableTool(Shouter()).name == "Shouter"
    assert CallableTool(Shouter()).declared.description == "Shouts what it is given."
    assert CallableTool(Shouter().shout).declared[:2] == ("shout", "Shout.")
    half = CallableTool(partial(add, b=2))
    assert half.name == "add"
    assert half.arguments('{"a": 1}', State()) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('{"a": 1', "the arguments are not JSON: Expecting"),
        ("[1]", r"the arguments are \[1\]: give an object"),
        ("{}", "argument 'a' is missing"),
        ('{"a": 1, "c": 2}', "there is no argument 'c': use a, b"),
        ('{"a": 1, "bb": 2}', "there is no argument 'bb': did you mean 'b'"),
        ('{"a": "one"}', "argument 'a' is 'one': Input should be a valid integer"),
        ('{"a": 1, "b": {"x": "?"}}', r"argument 'b.x' is '\?'"),
        ("[" * 100_000, "the arguments are not JSON"),
    ],
)
def test_what_is_wrong_with_arguments_is_said_to_the_model(given, message):
    """In one sentence, without an address to look things up at."""

    def function(a: int, b: Point | None = None):
        """Take."""

    with pytest.raises(ArgumentsError, match=message) as caught:
        CallableTool(function).arguments(given, State())
    assert "http" not in str(caught.value)


def test_arguments_are_made_to_fit_where_that_is_plain():
    """A model that writes a number as a text means the number; no arguments are none."""

    def function(a: int = 1, b: float = 2.0):
        """Take."""

    tool = CallableTool(function)
    assert tool.arguments('{"a": "3", "b": 4}', State()) == {"a": 3, "b": 4.0}
    assert tool.arguments("", State()) == {"a": 1, "b": 2.0}


def unreadable(a: "NoSuchThing"):  # noqa: F821
    """Take."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (5, "5 is not a tool: give a function"),
        (lambda x: x, "called '<lambda>': give it a name"),
        (lambda: None, "called '<lambda>'"),
        (print, "takes .*by position"),
        (unreadable, "has an annotation that cannot be read"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function, message):
    """When it is given, not when it is called."""
    with pytest.raises(ToolError, match=message):
        CallableTool(function)


def test_a_type_that_json_cannot_hold_is_refused():
    """With the name of the tool."""

    class Socket:
        pass

    def send(socket: Socket):
        """Send."""

    with pytest.raises(ToolError, match="tool 'send' takes a value that JSON cannot hold"):
        CallableTool(send)


GOOGLE = """Find a book.

    Looks everywhere.

    Args:
        title (str): What it is called,
            or a part of that: either will do.
        *authors: Who wrote it.
        year: When.

    Returns:
        The book.
    """

NUMPY = """Find a book.

    Looks everywhere.

    Parameters
    ----------
    title : str, optional
        What it is called,
        or a part of that: either will do.
    authors
        Who wrote it.
    year, until : int
        When.

    Returns
    -------
    Book
        The book.
    """

REST = """Find a book.

    Looks everywhere.

    :param title: What it is called,
        or a part of that: either will do.
    :param list[str] authors: Who wrote it.
    :param year: When.
    :type year: int
    :returns: The book.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_docstrings_are_read_in_three_ways(docstring):
    """Purpose first, then what is said of each argument, on one line."""
    purpose, arguments = parse_docstring(docstring)
    assert purpose == "Find a book.\n\nLooks everywhere."
    assert arguments["title"] == "What it is called, or a part of that: either will do."
    assert arguments["authors"] == "Who wrote it."
    assert arguments["year"] == "When."


def test_a_docstring_without_sections_is_all_purpose():
    """And none at all is an empty one."""
    assert parse_docstring("Say: hello.\nOr not.") == ("Say: hello.\nOr not.", {})
    assert parse_docstring(None) == ("", {})


def test_what_is_said_of_an_argument_goes_into_the_schema():
    """Unless the annotation says it."""

    def find(title: str, year: Annotated[int, Field(description="AD")] = 0):
        """Find a book.

        Args:
            title: What it is called.
            year: When.
            nothing: Is not there.
        """

    properties = schema_of(find)["properties"]
    assert properties["title"]["description"] == "What it is called."
    assert properties["year"]["description"] == "AD"
    assert list(properties) == ["title", "year"]


def test_a_long_docstring_without_its_reader_says_what_to_install(monkeypatch):
    """A docstring of one line needs no package."""
    monkeypatch.setitem(sys.modules, "docstring_parser", None)
    assert parse_docstring("Add two numbers.") == ("Add two numbers.", {})
    with pytest.raises(MissingExtraError, match=r"pip install docstring-parser"):
        parse_docstring("Add two numbers.\n\nArgs:\n    a: The first.")
