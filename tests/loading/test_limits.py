"""Texts that are made to break a loader, and texts that are only large."""

import json

import pytest

from assay import Rubric, RubricError, RubricFileError, RubricGroup
from assay.loading.document import read_text

DEEP = 100_000
LAUGHS = "a0: &a0 [x, x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))
MERGES = "- &a0 {k: v}\n" + "\n".join(
    f"- &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 60)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * DEEP, "it is nested more than 200 deep"),
        ("[" * DEEP + "]" * DEEP, "it is nested more than 200 deep"),
        ("{a: " * DEEP, "it is nested more than 200 deep"),
        ("- " * DEEP + "x", "it is nested more than 200 deep"),
        ("\n".join(" " * i + "a:" for i in range(1000)), "it is nested more than 200 deep"),
        (LAUGHS, "its aliases expand to more than 1,000,000 values: write them out"),
        (MERGES, "its aliases expand to more than 1,000,000 values"),
        ("&a [*a]", r"\*a is inside the value that it repeats"),
        ("&a {b: {c: *a}}", r"\*a is inside the value that it repeats"),
        ("- \x00", "control characters are not allowed|special characters are not allowed"),
    ],
    ids=["open", "flow", "map", "dashes", "block", "laughs", "merges", "self", "deep self", "nul"],
)
def test_yaml_bombs_are_refused(text, said):
    """With a sentence, before they go off."""
    with pytest.raises(RubricFileError, match=f"Failed to parse YAML: .*(?:{said})"):
        Rubric.from_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP + "]" * DEEP,
        '{"a": ' * DEEP,
        "9" * 5000,
        '[{"weight": ' + "[" * 200 + "]" * 200 + "}]",
    ],
)
def test_json_bombs_are_refused(text):
    """With a sentence."""
    with pytest.raises(RubricFileError, match="Failed to parse JSON: "):
        Rubric.from_json(text)


def test_toml_bombs_are_refused():
    """With a sentence."""
    with pytest.raises(RubricFileError, match="Failed to parse TOML: it is nested too deep"):
        Rubric.from_toml("a = " + "[" * DEEP + "]" * DEEP)
    with pytest.raises(RubricFileError, match="there are no criteria"):
        Rubric.from_toml("a." * 2_000 + "b = 1")


WRAPPERS = {
    "rubric in rubric": lambda inner: {"criteria": [{"rubric": inner}]},
    "rubric around rubric": lambda inner: {"rubric": inner},
    "section in section": lambda inner: {"criteria": [inner]},
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_rubrics_may_be_nested_fifty_deep(wrap):
    """And ten thousand are refused."""
    data = {"criteria": [{"requirement": "A"}]}
    for _ in range(40):
        data = wrap(data)
    Rubric.from_yaml(json.dumps(data))
    for _ in range(10_000):
        data = wrap(data)
    with pytest.raises(RubricFileError, match="nested more than 50 deep: flatten them"):
        Rubric.from_dict(data)


def test_groups_may_not_be_nested_without_end():
    """Nor rubrics that are to be written."""
    data = [{"requirement": "A"}]
    for _ in range(10_000):
        data = {"rubrics": [data]}
    with pytest.raises(RubricFileError, match="nested more than 50 deep"):
        RubricGroup.from_dict(data)
    rubric = Rubric([{"requirement": "A"}])
    for _ in range(400):
        rubric = Rubric([rubric])
    with pytest.raises(RubricError, match="nested too deep to be written"):
        rubric.to_dict()


def test_a_message_shows_only_the_start_of_a_long_value():
    """Or of a deep one."""
    deep = []
    for _ in range(10_000):
        deep = [deep]
    for value in ("x" * 1_000_000, ["x" * 1000] * 1000, deep):
        with pytest.raises(RubricFileError) as caught:
            Rubric.from_dict([{"requirement": "A", "weight": value}])
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-12", -12),
        ("012", 12),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        ("1e-6", 1e-6),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -float("inf")),
        (".INF", float("inf")),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("-", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("=", "="),
    ],
)
def test_words_are_read_by_the_rules_of_yaml_1_2(word, value):
    """So that verdicts may be called yes and no, and tolerances 1e-6."""
    [read] = read_text(f"- {word}" if word != "-" else "-", "yaml").data
    assert (read, type(read)) == (value, type(value))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "size"), [("from_json", 2_000), ("from_yaml", 20_000), ("from_toml", 2_000)]
)
def test_thousands_of_criteria_load(load, size):
    """And an error in the last is found at its line.

    The formats share all but their parsers, so one of them loads very many.
    """
    entries = [{"requirement": f"States fact {i}", "weight": i % 7 + 1} for i in range(size)]
    if load == "from_toml":
        tables = (
            f'[[criteria]]\nrequirement = "{e["requirement"]}"\nweight = {e["weight"]}'
            for e in entries
        )
        text = "\n".join(tables)
    elif load == "from_yaml":
        text = "\n".join(
            f"- requirement: {e['requirement']}\n  weight: {e['weight']}" for e in entries
        )
    else:
        text = "[" + ",\n".join(json.dumps(entry) for entry in entries) + "]"
    assert len(getattr(Rubric, load)(text)) == size
    lines = text.count("\n") + 1
    head, _, tail = text.rpartition("weight")
    with pytest.raises(
        RubricFileError, match=f"criterion {size}: unknown field 'wieght'"
    ) as caught:
        getattr(Rubric, load)(f"{head}wieght{tail}")
    assert caught.value.line == lines
