"""JSON, and its shape."""

import asyncio
import json

import pytest

from assay import Rubric, RubricError
from assay.checks import JsonSchema, JsonValid

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        " [1, 2] \n",
        "null",
        '"text"',
        "-1.5e3",
        'Sure:\n```json\n{"a": 1}\n```\nDone.',
        "```\n[1]\n```",
        "```json\n[1]\n```\nas in\n```python\nx = 1\n```",
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_json_is_the_whole_text_or_its_last_block(text):
    """A block marked `json` goes before others, and depth does not matter."""
    assert JsonValid()(text) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value: line 1 column 1"),
        ('{"a": 1', "Expecting ',' delimiter: line 1 column 8"),
        ('{"a": 1} and so on', "Extra data: line 1 column 10"),
        ('I think {"a": 1}', "Expecting value: line 1 column 1"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes"),
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ("```json\n{a: 1}\n```", "Expecting property name enclosed in double quotes"),
        ("[" * 100_000, "its many brackets do not pair up"),
        ("9" * 5000, "Exceeds the limit"),
    ],
)
def test_what_is_no_json_says_where(text, reason):
    """As a no with a reason."""
    result = JsonValid()(text)
    assert result.value is False
    assert reason in result.reason


def test_blocks_can_be_left_out():
    """Then the whole text must be JSON."""
    assert JsonValid(fenced=False)("```json\n1\n```").value is False
    assert JsonSchema(True, fenced=False)("```json\n1\n```").value is False


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z]"},
        "marks": {"type": "array", "items": {"$ref": "#/$defs/mark"}},
    },
    "patternProperties": {"^x-": {"type": "integer"}},
    "additionalProperties": False,
    "required": ["name"],
    "$defs": {"mark": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "Ada", "marks": [1, 2], "x-n": 3}', None),
        ('```json\n{"name": "Ada"}\n```', None),
        ("{}", "at the top: 'name' is a required property"),
        ("[]", "at the top: [] is not of type 'object'"),
        ('{"name": 3}', "at name: 3 is not of type 'string'"),
        ('{"name": "ada"}', "at name: 'ada' does not match '^[A-Z]'"),
        ('{"name": "Ada", "marks": [1, -2]}', "at marks[1]: -2 is less than the minimum of 0"),
        ('{"name": "Ada", "x-n": "3"}', "at x-n: '3' is not of type 'integer'"),
        ('{"name": "Ada", "y": 1}', "at the top: Additional properties are not allowed ('y' was"),
        ("{", "no JSON: Expecting property name"),
    ],
)
def test_the_first_error_is_named_with_its_place(text, reason):
    """Or there is none."""
    result = JsonSchema(SCHEMA)(text)
    assert result is True if reason is None else reason in result.reason


def test_a_reason_stays_short():
    """However long the value is."""
    result = JsonSchema({"type": "object"})("[" + "1, " * 100_000 + "1]")
    assert len(result.reason) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(a+)+$"},
        {"$schema": DRAFT_7, "pattern": "(a+)+$"},
        {"$schema": DRAFT_7, "items": {"$ref": "#"}, "pattern": "(a+)+$"},
        {"patternProperties": {"(a+)+$": False}},
        {"additionalProperties": False, "patternProperties": {"(a+)+$": True}},
    ],
)
def test_a_pattern_of_a_schema_cannot_hang(schema, monkeypatch):
    """In a value or in a key, at any depth, in any draft."""
    monkeypatch.setattr("assay.checks.json_schema.PATTERN_SECONDS", 0.05)
    text = "a" * 50_000 + "b"
    value = f'{{"{text}": 1}}' if "pattern" not in schema else f'"{text}"'
    value = f"[{value}]" if "items" in schema else value
    with pytest.raises(TimeoutError, match="still searching"):
        JsonSchema(schema)(value)


def alternatives(depth):
    """A schema whose comparison doubles with every bracket of a value that does not fit."""
    inner = {"type": "array", "items": {"$ref": "#"}}
    return {"anyOf": [inner, {**inner, "title": "again"}]}, "[" * depth + "1" + "]" * depth


@pytest.mark.parametrize("draft", [{}, {"$schema": DRAFT_7}])
def test_a_comparison_that_takes_too_long_is_an_error(draft):
    """Alternatives in alternatives would take hours; the check is an error line, and other rollouts are scored."""
    schema, text = alternatives(40)
    check = JsonSchema({**draft, **schema}, timeout_seconds=0.05)
    with pytest.raises(TimeoutError, match=r"still being compared with the schema after 0\.05 s"):
        check(text)
    reports = asyncio.run(Rubric([check]).score([{"completion": text}, {"completion": "[]"}]))
    assert [report.score for report in reports] == [None, 1.0]
    assert "TimeoutError" in reports[0].errors["json_schema"]


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ("[1, 1.0]", False),
        ('[1, true, 0, false, null, "1"]', True),
        ('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', False),
        ('[{"a": 1}, {"a": true}, {"a": "1"}, [1], [true], [], {}]', True),
        ("[[1, 2], [2, 1]]", True),
        ("[{}, []]", True),
        ('["a", "b", "a"]', False),
    ],
)
def test_items_are_unique_as_json_compares_them(items, is_unique):
    """1 equals 1.0 and not true, and the order of members does not matter."""
    result = JsonSchema({"uniqueItems": True})(items)
    assert result is True if is_unique else "has non-unique elements" in result.reason


@pytest.mark.slow
def test_many_objects_are_told_apart_in_linear_time():
    """Comparing each of 40,000 with each would take hours."""
    text = json.dumps([{"a": number, "b": [number]} for number in range(40_000)])
    assert JsonSchema({"uniqueItems": True}, timeout_seconds=60)(text) is True


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "the schema is wrong at type: 'objekt' is not valid"),
        ({"properties": {"a": {"minimum": "0"}}}, "wrong at properties.a.minimum: '0' is not of"),
        ({"pattern": "("}, "wrong at pattern: '(' is not a 'regex'"),
        ({"$schema": 5}, "wrong at $schema: 5 is not of type 'string'"),
        (
            {"$ref": "https://example.org/a.json"},
            "'https://example.org/a.json' is not in the schema",
        ),
        ({"items": {"$ref": "file:///etc/passwd"}}, "and nothing is fetched: put it under $defs"),
        ({"$ref": "#/$defs/none"}, "'#/$defs/none' is not in the schema"),
        ({"not": {"$dynamicRef": "#none"}}, "'#none' is not in the schema"),
        ({"$schema": DRAFT_7, "items": [{"$ref": "#/definitions/a"}]}, "'#/definitions/a' is not"),
        ({"minimum": float("nan")}, "the schema is no JSON: Out of range float"),
        ({"const": {1, 2}}, "the schema is no JSON: Object of type set"),
    ],
)
def test_a_wrong_schema_is_refused_at_construction(schema, said):
    """With the place in it, and without fetching anything."""
    with pytest.raises(RubricError) as caught:
        JsonSchema(schema)
    assert said in str(caught.value)


def test_references_inside_the_schema_hold():
    """By pointer, by anchor, by id, and to the schema itself; what only looks like one is let be."""
    assert (
        JsonSchema({"$defs": {"n": {"$anchor": "n", "type": "number"}}, "$ref": "#n"})("1") is True
    )
    tree = {"$id": "https://example.org/tree", "items": {"$ref": "https://example.org/tree"}}
    assert JsonSchema({**tree, "type": "array"})("[[], [[]]]") is True
    assert JsonSchema({"const": {"$ref": "nowhere"}})('{"$ref": "nowhere"}') is True
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert JsonSchema(meta)('{"type": "object"}') is True


def nested(depth, schema):
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_depth_is_refused_and_not_crashed_on():
    """In the schema at construction; in a completion as an error, since nobody can tell."""
    with pytest.raises(RubricError, match="json_schema: the schema"):
        JsonSchema(nested(100_000, {}))
    recursive = JsonSchema({"items": {"$ref": "#"}})
    with pytest.raises(ValueError, match="nested too deep to compare"):
        recursive("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match="nested too deep to compare"):
        recursive("[" * 900 + "]" * 900)
