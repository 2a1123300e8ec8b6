"""Built-in checks are values: equal, hashable, picklable, and written as files name them."""

import copy
import pickle
import sys

import pytest

from assay import Criterion, MissingExtraError, Rollout, Rubric, RubricError
from assay.checks import (
    BUILTIN,
    Called,
    CodeBlock,
    Contains,
    ExactMatch,
    FinalState,
    JsonSchema,
    JsonValid,
    MathEqual,
    MaxWords,
    MinWords,
    NoRepeatedCalls,
    NumericEqual,
    OneOf,
    RecoversFromErrors,
    Refusal,
    Regex,
    Similarity,
    Trajectory,
    check_of,
)

SPECS = [
    (ExactMatch(), "exact_match"),
    (ExactMatch(ignore_case=True), {"exact_match": {"ignore_case": True}}),
    (ExactMatch(strip=False), {"exact_match": {"strip": False}}),
    (OneOf(["A", "B"]), {"one_of": ["A", "B"]}),
    (NumericEqual(), "numeric_equal"),
    (NumericEqual(tolerance=0.5), {"numeric_equal": 0.5}),
    (NumericEqual(relative=0.01), {"numeric_equal": {"relative": 0.01}}),
    (MathEqual(), "math_equal"),
    (MathEqual(strict=True), {"math_equal": {"strict": True}}),
    (MathEqual(units=False, rounding=3), {"math_equal": {"rounding": 3, "units": False}}),
    (Contains("Paris"), {"contains": "Paris"}),
    (Contains(["Paris"]), {"contains": "Paris"}),
    (Contains(("a", "b"), any_of=True), {"contains": {"value": ["a", "b"], "any_of": True}}),
    (Regex("a+"), {"regex": "a+"}),
    (Regex("a+", multiline=True), {"regex": {"pattern": "a+", "multiline": True}}),
    (MaxWords(200), {"max_words": 200}),
    (MinWords(0), {"min_words": 0}),
    (CodeBlock(), "code_block"),
    (CodeBlock("python"), {"code_block": "python"}),
    (JsonValid(), "json_valid"),
    (JsonValid(fenced=False), {"json_valid": {"fenced": False}}),
    (JsonSchema({"type": "object"}), {"json_schema": {"schema": {"type": "object"}}}),
    (JsonSchema(True), {"json_schema": True}),
    (Similarity(), "similarity"),
    (Similarity(method="token_set_ratio"), {"similarity": {"method": "token_set_ratio"}}),
    (Refusal(), "refusal"),
    (Called("refund"), {"called": "refund"}),
    (
        Called("refund", {"id": [1]}, times=0),
        {"called": {"tool": "refund", "arguments": {"id": [1]}, "times": 0}},
    ),
    (Called("refund", times=(2, None)), {"called": {"tool": "refund", "times": [2, None]}}),
    (
        Called("a", schema={"type": "object"}, before="b"),
        {"called": {"tool": "a", "schema": {"type": "object"}, "before": "b"}},
    ),
    (Trajectory(), "trajectory"),
    (
        Trajectory(["a", {"name": "b", "arguments": {}}]),
        {"trajectory": ["a", {"name": "b", "arguments": {}}]},
    ),
    (
        Trajectory(["a"], match="subset", tools=["a"]),
        {"trajectory": {"expected": ["a"], "match": "subset", "tools": ["a"]}},
    ),
    (NoRepeatedCalls(), "no_repeated_calls"),
    (NoRepeatedCalls(["poll"]), {"no_repeated_calls": ["poll"]}),
    (RecoversFromErrors(by_any_tool=True), {"recovers_from_errors": {"by_any_tool": True}}),
    (FinalState("orders.17", "open"), {"final_state": {"at": "orders.17", "equals": "open"}}),
    (FinalState("orders.17", None), {"final_state": {"at": "orders.17", "equals": None}}),
    (
        FinalState("orders", expected_in="info.orders"),
        {"final_state": {"at": "orders", "expected_in": "info.orders"}},
    ),
]


@pytest.mark.parametrize(("check", "spec"), SPECS, ids=repr)
def test_a_check_is_written_without_its_defaults(check, spec):
    """And read back as the same value."""
    assert check.spec() == spec
    assert check_of(spec) == check


@pytest.mark.parametrize("check", [check for check, _ in SPECS], ids=repr)
def test_a_check_is_a_value(check):
    """Copies are equal and hash alike, and none can be changed."""
    for twin in (pickle.loads(pickle.dumps(check)), copy.deepcopy(check)):
        assert twin == check
        assert hash(twin) == hash(check)
    with pytest.raises(AttributeError):
        check.anything = 1


def test_checks_with_other_fields_differ():
    """By value, and by kind."""
    assert MaxWords(3) != MaxWords(4)
    assert MaxWords(3) != MinWords(3)
    assert len({Contains("a"), Contains("a"), Contains("b")}) == 2


def test_a_schema_cannot_be_changed_from_outside():
    """Neither through what was given, nor through what is written."""
    schema = {"required": ["a"]}
    check = JsonSchema(schema)
    schema["required"].append("b")
    check.spec()["json_schema"]["schema"]["required"].append("c")
    assert check('{"a": 1}') is True


def test_every_check_has_its_own_name():
    """The class in snake case, which is also the name of its criterion."""
    assert set(BUILTIN) == {check.name for check, _ in SPECS}
    assert Rubric([MaxWords(3), JsonValid(), MaxWords(9)]).get_reward_func_names() == [
        "max_words",
        "json_valid",
        "max_words_2",
    ]


@pytest.mark.parametrize("name", BUILTIN)
def test_every_check_has_an_example(name):
    """In its docstring; the docs test runs it."""
    assert ">>> " in BUILTIN[name].__doc__


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("contians", "no built-in check 'contians': did you mean 'contains'?"),
        ("zzz", "no built-in check 'zzz': use exact_match, one_of, "),
        ({1: 2}, "no built-in check 1: use exact_match"),
        ("contains", "contains needs 'value': write {contains: {value: ...}}"),
        ("contains", "(its fields: value, ignore_case, any_of)"),
        ({"contains": None}, "contains needs 'value'"),
        ({"contains": {"vale": "a"}}, "contains has no field 'vale': did you mean 'value'?"),
        ({"contains": 5}, "contains: value is 5: give a text, in quotes"),
        ({"contains": ""}, "contains: value is '': it may not be empty"),
        ({"contains": "\ud800"}, "it holds half a character, a lone surrogate: correct the text"),
        ({"contains": {"value": "a", "any_of": "yes"}}, "any_of is 'yes': give true or false"),
        ({"one_of": []}, "one_of: values is []: name at least one"),
        ({"one_of": ["a", True]}, "one_of: values holds True: give a text, in quotes"),
        ({"one_of": "a"}, "one_of: values is 'a': give a list"),
        ({"max_words": -1}, "max_words: limit is -1: give 0 or more"),
        ({"max_words": True}, "max_words: limit is True: give a whole number"),
        ({"max_words": "9"}, "max_words: limit is '9': give a whole number"),
        ({"max_words": 9.5}, "max_words: limit is 9.5: give a whole number"),
        ({"numeric_equal": True}, "numeric_equal: tolerance is True: give a number"),
        ("called", "called needs 'tool': write {called: {tool: ...}}"),
        (
            {"called": {"tool": "a", "times": [3, 1]}},
            "called: times is [3, 1]: give the smaller number first",
        ),
        ({"called": {"tool": "a", "times": -1}}, "called: times is -1"),
        ({"called": {"tool": "a", "predicate": "is_open"}}, "called: predicate is 'is_open'"),
        ({"called": {"tool": "a", "schema": {"type": "objekt"}}}, "the schema is wrong at type"),
        ({"trajectory": "search"}, "trajectory: expected is 'search': give a list"),
        (
            {"trajectory": [{"tool": "a"}]},
            "trajectory: expected call 1 is {'tool': 'a'}: give the name of a tool, or",
        ),
        ({"trajectory": [{"name": "a", "arguments": 3}]}, "trajectory: expected call 1 is"),
        (
            {"trajectory": {"match": "loose"}},
            "trajectory: match is 'loose': give 'strict', 'unordered'",
        ),
        ({"trajectory": {"expected_in": "rows"}}, "trajectory: expected_in is 'rows'"),
        ({"final_state": {"at": ""}}, "final_state: at is '': it may not be empty"),
        ({"numeric_equal": float("nan")}, "tolerance is nan: give a finite number"),
        ({"numeric_equal": "wide"}, "tolerance is 'wide': give a number"),
        ({"regex": {"pattern": "a", "timeout_seconds": 0}}, "timeout_seconds is 0: give more"),
        ({"similarity": {"method": "cosine"}}, "method is 'cosine': give 'ratio', 'token_sort_"),
        ({"similarity": ""}, "similarity: to is '': it may not be empty"),
        ({"json_schema": 5}, "json_schema: schema is 5: give a mapping"),
        ({"exact_match": True}, "exact_match takes its fields by name (ignore_case, strip), and"),
        ({"refusal": 3}, "refusal takes no fields, and was given 3"),
        ({"refusal": {"lang": "de"}}, "refusal takes no fields, and was given 'lang'"),
        (
            {"contains": "a", "regex": "b"},
            "check is {'contains': 'a', 'regex': 'b'}: give one name",
        ),
        ({}, "check is {}: give one name"),
        (5, "check is 5: give one name, such as json_valid"),
        (["contains"], "check is ['contains']: give one name"),
    ],
)
def test_a_wrong_spec_says_what_to_do(spec, said):
    """With the value, the field and what it takes."""
    with pytest.raises(RubricError) as caught:
        check_of(spec)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_number_may_be_written_as_a_text():
    """As YAML 1.1 readers hand over `1e-6`."""
    assert check_of({"numeric_equal": "1e-6"}) == NumericEqual(tolerance=1e-6)


@pytest.mark.parametrize(
    ("make", "package"),
    [
        (lambda: Regex("a"), "regex"),
        (lambda: JsonSchema({}), "jsonschema"),
        (lambda: Similarity(), "rapidfuzz"),
    ],
)
def test_a_missing_package_is_named_at_construction(make, package, monkeypatch):
    """With what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"'{package}'.*pip install {package}$"):
        make()


async def test_checks_answer_in_a_rubric():
    """5 of 6 points: the text is too long by a word, and says so."""
    rubric = Rubric.from_dict(
        [
            {"check": {"contains": "Paris"}, "weight": 3},
            {"check": {"max_words": 3}},
            {"check": "exact_match", "weight": 2},
            {"check": "refusal", "weight": -5},
        ]
    )
    report = await rubric.grade("It is Paris, sure.", answer="It is Paris, sure.")
    assert report.score == pytest.approx(5 / 6)
    assert [line.verdict for line in report.report] == ["MET", "UNMET", "MET", "UNMET"]
    assert report.report[1].reason == "4 words, 3 allowed"


async def test_what_a_check_cannot_tell_is_an_error_line():
    """A gold answer that is no number says nothing about the completion."""
    [report] = await Rubric([NumericEqual()]).score([Rollout(completion="4", answer="four")])
    assert report.errors["numeric_equal"].startswith("ValueError: 'four' is not a number")
    assert not report.scored


@pytest.mark.parametrize("check", [check for check, _ in SPECS if check != Trajectory()], ids=repr)
@pytest.mark.parametrize(
    "text",
    ["", "\ud800 \udfff", "\x00", "word " * 2_000_000, "[" * 100_000, "`" * 100_000, "9" * 100_000],
    ids=["empty", "surrogates", "nul", "10 MB", "brackets", "ticks", "digits"],
)
async def test_any_text_gets_an_answer(check, text):
    """Empty, broken, hostile or ten megabytes long."""
    [report] = await Rubric([check]).score(
        [Rollout(completion=text, answer="42", info={"orders": {}}, state={"orders": {"17": text}})]
    )
    [line] = report.report
    assert line.answered, line.error
    assert 0.0 <= line.value <= 1.0
    line.model_dump_json()


def test_a_check_is_a_criterion_like_any_other():
    """By itself, in a Criterion, or named in a mapping."""
    assert Rubric([MaxWords(3)]).criteria == (Criterion(check=MaxWords(3)),)
