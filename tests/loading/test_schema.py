"""The JSON Schema of rubric files says what the loader says."""

import json
from pathlib import Path
from runpy import run_path

import jsonschema
import pytest

from assay import Criterion, Rubric, RubricError, RubricGroup
from assay.checks import BUILTIN
from assay.loading import SCHEMA_FILE

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TOOL = Path(__file__).parents[2] / "tools" / "rubric_schema.py"
A = {"requirement": "A"}


def accepts(data):
    """Whether a rubric, or a group, can be loaded."""
    kind = RubricGroup if isinstance(data, dict) and "rubrics" in data else Rubric
    try:
        kind.from_dict(data, allow_code=True)
    except RubricError:
        return False
    return True


def test_the_saved_schema_is_up_to_date():
    """Run `tools/rubric_schema.py` when this fails."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == run_path(str(TOOL))["schema_text"]()


def test_the_schema_is_a_schema():
    """Of draft 2020-12, and every field of a criterion is described."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    fields = SCHEMA["$defs"]["criterion"]["properties"]
    assert {*fields} == {*Criterion.model_fields, "rubric"}
    assert all(field["description"] for field in fields.values())
    named = SCHEMA["$defs"]["check"]["anyOf"][2]["properties"]
    assert {*named} == {*BUILTIN}
    assert all(check["description"] for check in named.values())


GOOD = [
    [A],
    [A, {"title": "T", "criteria": [A, {"criteria": [A]}]}],
    {"criteria": [A], "name": "n", "aggregation": "mean", "description": 3, "$schema": "s"},
    {"sections": [{"name": "T", "description": "d", "criteria": [A]}]},
    {"rubric": {"rubric": [A]}},
    {"rubrics": [[A], {"rubrics": [[A]], "name": "g"}]},
    [{**A, "weight": -1.5, "name": "n", "cap": 0.5, "pass_at": "0.5", "required": True}],
    [{**A, "weight": "1e1", "tags": "t", "report_only": False, "allow_na": True}],
    [{**A, "choices": ["no", "yes"], "tags": ["t"]}],
    [A, {"requirement": "B", "when": "a"}],
    [A, {"requirement": "B", "when": {"a": "MET"}}],
    [A, {"requirement": "B", "when": {"a": ["MET", "N/A"]}}],
    [A, {"requirement": "B", "when": ["a", {"a": None}]}],
    [{"rubric": [A], "weight": 2}],
    [{"rubric": {"criteria": [{"rubric": [A]}], "aggregation": "tree"}}],
    [{"check": "os.path:basename"}],
    [{"check": "json_valid"}],
    [{"check": "json_valid", "isolate": True}],
    [{"check": "json_valid", "isolate": True, "timeout": 0.5}],
    [{"check": "json_valid", "isolate": True, "timeout": "2"}],
    [{"check": "json_valid", "isolate": False, "timeout": 5}],
    [{**A, "isolate": False}],
    [{"check": {"json_valid": None}}],
    [
        {"check": {"called": "refund"}},
        {"check": {"called": {"tool": "refund", "times": [0, None], "before": "close"}}},
    ],
    [
        {
            "check": {
                "called": {
                    "tool": "a",
                    "arguments": {"id": 1},
                    "schema": {},
                    "predicate": "os.path:basename",
                }
            }
        }
    ],
    [
        {"check": {"trajectory": ["a", {"name": "b", "arguments": {}}]}},
        {"check": "trajectory", "name": "t"},
    ],
    [
        {
            "check": {
                "trajectory": {
                    "expected_in": "info.calls",
                    "match": "superset",
                    "tools": ["a"],
                    "ignore": ["b"],
                }
            }
        }
    ],
    [{"check": {"no_repeated_calls": ["poll"]}}, {"check": "recovers_from_errors"}],
    [{"check": {"final_state": {"at": "orders.1", "equals": None}}}],
    [{"check": {"json_valid": {}}}],
    [{"check": {"json_valid": {"fenced": False}}}],
    [{"check": {"contains": "a"}}],
    [{"check": {"contains": ["a", "b"]}}],
    [{"check": {"contains": {"value": "a", "ignore_case": True}}}],
    [{"check": {"max_words": 3}}],
    [{"check": {"numeric_equal": 0.5}}],
    [{"check": {"numeric_equal": {"relative": "1e-6"}}}],
    [{"check": {"regex": {"pattern": "a", "timeout_seconds": 0.5}}}],
    [{"check": {"json_schema": {"schema": {"type": "object"}}}}],
    [{"check": {"json_schema": True}}],
    [{"check": {"similarity": {"method": "token_sort_ratio"}}}],
    [{"check": {"one_of": ["a"]}}],
    [{"check": "refusal"}],
    [{"check": "code_block"}],
]
BAD = [
    [{"check": {"called": {"tool": "a", "times": -1}}}],
    [{"check": {"trajectory": {"match": "loose"}}}],
    [{"check": {"final_state": {"at": "a", "expected_in": "rows"}}}],
    None,
    3,
    "text",
    [],
    {},
    ["text"],
    [{}],
    [None],
    {"criteria": []},
    {"criteria": [A], "sections": [A]},
    {"criteria": [A], "agregation": "mean"},
    {"criteria": [A], "aggregation": "waited"},
    {"criteria": [A], "name": 3},
    {"criteria": {}},
    {"rubric": 3},
    {"rubrics": []},
    {"rubrics": [[{}]]},
    {"rubrics": [[A]], "criteria": [A]},
    [{"title": 3, "criteria": [A]}],
    [{"criteria": "A"}],
    [{"criteria": [A], "weight": 2}],
    [{**A, "wieght": 2}],
    [{"requirement": " "}],
    [{"requirement": None}],
    [{"requirement": 3}],
    [{**A, "check": "json_valid"}],
    [{**A, "rubric": [A]}],
    [{**A, "weight": "heavy"}],
    [{**A, "weight": True}],
    [{**A, "weight": None}],
    [{**A, "required": "yes"}],
    [{**A, "required": 1}],
    [{**A, "choices": ["a"]}],
    [{**A, "choices": ["a", " "]}],
    [{**A, "choices": [True, False]}],
    [{**A, "tags": 3}],
    [{**A, "tags": [3]}],
    [{**A, "when": 3}],
    [{**A, "when": {"b": {"c": 3}}}],
    [{**A, "name": 3}],
    [{"check": None}],
    [{"check": 3}],
    [{"check": {}}],
    [{"check": "contains"}],
    [{"check": "contians"}],
    [{"check": {"contains": "a", "regex": "b"}}],
    [{"check": {"contains": 3}}],
    [{"check": "json_valid", "isolate": 1}],
    [{"check": "json_valid", "isolate": True, "timeout": 0}],
    [{"check": "json_valid", "isolate": True, "timeout": True}],
    [{"check": "json_valid", "timeout": 2}],
    [{"check": "json_valid", "isolate": False, "timeout": 2}],
    [{**A, "isolate": True}],
    [{"rubric": [A], "isolate": True}],
    [{"check": {"contains": None}}],
    [{"check": {"contains": {"vale": "a"}}}],
    [{"check": {"contains": {"ignore_case": True}}}],
    [{"check": {"contains": {"value": "a", "ignore_case": 1}}}],
    [{"check": {"max_words": -1}}],
    [{"check": {"max_words": True}}],
    [{"check": {"max_words": "3"}}],
    [{"check": {"numeric_equal": -0.5}}],
    [{"check": {"numeric_equal": True}}],
    [{"check": {"exact_match": True}}],
    [{"check": {"json_schema": {"type": "object"}}}],
    [{"check": {"similarity": {"method": "cosine"}}}],
    [{"check": {"one_of": []}}],
    [{"check": {"one_of": "a"}}],
    [{"check": {"refusal": 3}}],
    [{"check": {"regex": {"pattern": "a", "timeout_seconds": 0}}}],
    [{"rubric": [{}]}],
    [{"rubric": "text"}],
]


@pytest.mark.parametrize("data", GOOD, ids=json.dumps)
def test_what_loads_fits_the_schema(data):
    """Every shape, every check."""
    assert accepts(data)
    assert VALIDATOR.is_valid(data)


@pytest.mark.parametrize("data", BAD, ids=json.dumps)
def test_what_does_not_load_does_not_fit(data):
    """So an editor shows it before the loader does."""
    assert not accepts(data)
    assert not VALIDATOR.is_valid(data)
