"""What is wrong with a file is said with file, line, field, value and what to do."""

import io
import math

import pytest

from assay import Rubric, RubricError, RubricFileError, RubricGroup

A = {"requirement": "A"}

DATA = [
    ([], "No criteria found"),
    (None, "No criteria found"),
    ([{"criteria": []}], "No criteria found"),
    ({"sections": []}, "No criteria found"),
    ({"criteria": None}, "No criteria found: 'criteria' is empty"),
    ({}, "there are no criteria: list them under `criteria`"),
    ({"requirement": "A"}, "this is one criterion, and a rubric is a list of them"),
    ({"rubric": {"name": "x"}}, "there are no criteria: list them under `criteria`"),
    ({"rubrics": [[A]]}, "this is a group of rubrics: load it as a RubricGroup"),
    ({"criteria": [A], "sections": [A]}, "it has both 'criteria' and 'sections': keep one"),
    (
        {"criteria": [A], "agregation": "sum"},
        "unknown field 'agregation': did you mean 'aggregation'?",
    ),
    ({"criteria": [A], "name": 3}, "name is 3: give a text, in quotes"),
    ({"criteria": {"a": 1}}, "'criteria' is {'a': 1}: give a list"),
    ({"sections": "A"}, "'sections' is 'A': give a list"),
    ({"rubric": "A"}, "'rubric' is 'A': give a list"),
    ("text", "a rubric is a list of criteria, or a mapping with such a list, not 'text'"),
    (3, "a rubric is a list of criteria, or a mapping with such a list, not 3"),
    ("rubric.yaml", "not 'rubric.yaml': from_file(...) reads a file"),
    ([A, "two"], "item 2: it must be a mapping, not the text 'two'"),
    ([A, None], "item 2: it must be a mapping, not None"),
    ([{"criteria": [A, "two"]}], "criterion 2: it must be a mapping"),
    ([{"criteria": "A"}], "section 1: 'criteria' is 'A': give a list"),
    (
        [{"titel": "T", "criteria": [A]}],
        "section 1: unknown field 'titel': did you",
    ),
    ([{"title": 5, "criteria": [A]}], "section 1: title is 5: give a text"),
    ([A, {}], "criterion 2: a criterion needs exactly one of requirement, check"),
    ([{"weight": 1}], "exactly one of requirement, check and rubric, but this one has none"),
    ([{**A, "check": "json_valid"}], "this one has requirement and check"),
    ([{"check": "json_valid", "rubric": [A]}], "this one has check and rubric"),
    ([{"requirement": " "}], "criterion 1: requirement ' ' is blank"),
    ([{"requirement": None}], "requirement is empty: give it a value, or leave it out"),
    ([{"requirement": 3}], "requirement is 3: give a text, in quotes"),
    (
        [{**A, "wieght": 1}],
        "criterion 1: unknown field 'wieght': did you mean 'weight'?",
    ),
    ([{**A, "points": 1}], "unknown field 'points': write weight:"),
    ([{**A, 1: 2}], "unknown field 1: use requirement"),
    ([{**A, "weight": "heavy"}], "criterion 1: weight is 'heavy': give a number"),
    ([{**A, "weight": math.nan}], "weight is nan: give a finite number"),
    ([{**A, "weight": math.inf}], "weight is inf: give a finite number"),
    ([{**A, "weight": True}], "weight is True: give a number"),
    ([{**A, "weight": [1]}], "weight is [1]: give a number"),
    ([{**A, "weight": None}], "weight is empty: give it a value, or leave it out"),
    ([{**A, "weight": 10**400}], "criterion 1: weight is"),
    ([{**A, "required": "yes"}], "required is 'yes': give true or false"),
    ([{**A, "allow_na": 1}], "allow_na is 1: give true or false"),
    ([{**A, "choices": ["a"]}], "choices are ['a']: give at least two different labels"),
    ([{**A, "choices": [False, True]}], "choices holds False: give a text, in quotes"),
    ([{**A, "choices": 3}], "choices is 3: give a list"),
    ([{**A, "tags": [1]}], "tags holds 1: give a text, in quotes"),
    ([{**A, "when": 3}], "when is 3: give a list"),
    ([{**A, "when": {"a": True}}], "'a' is True, which is not one of its verdicts"),
    ([{**A, "when": "zzz"}], "'zzz'"),
    (
        [A, {"requirement": "B", "when": {"a": "YES"}}],
        "asked when 'a' is 'YES'",
    ),
    (
        [A, {**A, "name": "x"}, {**A, "name": "x"}],
        "criterion 3: name is 'x', as for criterion 2",
    ),
    (
        [A, {"requirement": "B", "name": "a"}],
        "criterion 2: name is 'a', as for criterion 1",
    ),
    ([{**A, "weight": 0}], "all weights are zero, so nothing could be scored"),
    ([{**A, "report_only": True}], "nothing could be scored"),
    ([{"rubric": [{**A, "weight": 0}]}], "nothing could be scored"),
    ([{"check": {"contians": "a"}}], "no built-in check 'contians': did you mean 'contains'?"),
    (
        [{"check": {"regex": "("}}],
        "the pattern '(' is not a regular expression: missing ) at position",
    ),
    ([{"check": None}], "check is empty"),
    (
        [{"check": "os:system"}],
        "'os:system' names code: if you trust this file, give --allow-code",
    ),
    ([{"rubric": 3}], "a rubric is a list of criteria, or a mapping with such a list, not 3"),
    (
        [A, {"rubric": [{"weight": 1}]}],
        "criterion 1 in the rubric of criterion 2: a criterion",
    ),
    (
        {"aggregation": "waited", "criteria": [A]},
        "no aggregation 'waited': did you mean 'weighted'?",
    ),
    ({"aggregation": 3, "criteria": [A]}, "no aggregation 3: use weighted, sum, mean"),
    ({"aggregation": "os:getcwd", "criteria": [A]}, "'os:getcwd' names code"),
    ({"aggregation": "tree", "criteria": [{**A, "weight": -1}]}, "tree"),
]


@pytest.mark.parametrize(("data", "said"), DATA, ids=[said[:50] for _, said in DATA])
def test_wrong_data(data, said):
    """A RubricFileError, which is a ValueError, with one short plain sentence."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_dict(data)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert "Input should be" not in message
    assert "pydantic" not in message
    assert len(message) < 300
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([A], "a mapping with a list of them under 'rubrics'"),
        ({"rubrics": "A"}, "a mapping with a list of them under 'rubrics'"),
        ({"rubrics": [[A]], "criteria": []}, "unknown field 'criteria': use rubrics, name"),
        ({"rubrics": [[A], [{"weight": 1}]]}, "criterion 1: a criterion needs"),
        ({"rubrics": []}, "at least one rubric"),
    ],
)
def test_wrong_groups(data, said):
    """As wrong as their rubrics."""
    with pytest.raises(RubricError, match=said):
        RubricGroup.from_dict(data)


YAML = [
    ("- requirement: A\n- requirement: B\n  wieght: 2\n", 3, "wieght"),
    ("criteria:\n\n  # a comment\n  - requirement: A\n    weight: heavy\n", 5, "weight"),
    ("- {requirement: A, weight: .nan}\n", 1, "weight"),
    (
        "sections:\n- title: T\n  criteria:\n  - requirement: A\n  - requirement: ' '\n",
        5,
        "requirement",
    ),
    ("- requirement: A\n-\n  weight: 2\n", 3, ""),
    ("- requirement: A\n- two\n", 2, ""),
    ("- requirement: A\n- requirement: B\n  when:\n    zzz: MET\n", 3, "when"),
    ("- requirement: A\n  name: x\n- requirement: B\n  name: x\n", 4, "name"),
    ("name: e\naggregation: waited\ncriteria:\n- requirement: A\n", 2, "aggregation"),
    ("- rubric:\n    criteria:\n    - requirement: A\n      required: yes\n", 4, "required"),
    ("- check:\n    contains:\n      vale: a\n", 1, "check"),
    ("- requirement: A\n- check: os:system\n", 2, "check"),
    ("- &a {requirement: A}\n- *a\n- {<<: *a, weight: x}\n", 3, "weight"),
    ("criteria:\n- requirement: A\n  weight: 0\n", 1, ""),
    ("criteria: text\n", 1, "criteria"),
    ("- requirement: A\nweight: 2\n", 2, None),
    ("a: [\n", 2, None),
    ("- requirement: A\n  requirement: B\n", 2, None),
    ("- requirement: A\n  ? [x]\n  : 1\n", 2, None),
    ("- requirement: *none\n", 1, None),
    ("- requirement: A\n- !!python/object/apply:os.system ['ls']\n", 2, None),
    ("- requirement: A\n- !!python/name:os.system x\n", 2, None),
    ("- requirement: A\n---\n- requirement: B\n", 2, None),
    ("- requirement: A\n- <<: 3\n  weight: 1\n", 2, None),
]


@pytest.mark.parametrize(("text", "line", "field"), YAML)
def test_yaml_errors_name_the_line(text, line, field):
    """And the field; without one, the text itself could not be read."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_yaml(text)
    assert (caught.value.path, caught.value.line) == ("<yaml>", line)
    assert str(caught.value).startswith(f"<yaml>:{line}: ")
    if field is None:
        assert "Failed to parse YAML: " in str(caught.value)
    else:
        assert caught.value.field == field


JSON = [
    ('[\n{"requirement": "A"},\n{"requirement": "B",\n "wieght": 2}]', 4, "wieght"),
    ('{"name": "x",\n\t"criteria": [\n\t\t{"requirement": "A",\n\t\t"weight": NaN}]}', 4, "weight"),
    ('[{"requirement"\n:\n"\\ud83d\\ude00, [{\\"weight\\": 1}]",\n"weight"\n: "x"}]', 4, "weight"),
    ('[{"rubric": [{"requirement": "A"},\n{"rubric":\n[{"requirement": 3}]}]}]', 3, "requirement"),
    ('[{"requirement": "A",\n "requirement": "B"}]', 2, None),
    ('[{"requirement": "A",}]', 1, None),
    ("[\n[\n", 3, None),
    ("", 1, None),
]


@pytest.mark.parametrize(("text", "line", "field"), JSON)
def test_json_errors_name_the_line(text, line, field):
    """Tabs, escapes and odd line breaks do not confuse it."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_json(text)
    assert (caught.value.path, caught.value.line) == ("<json>", line)
    if field is None:
        assert "Failed to parse JSON: " in str(caught.value)
    else:
        assert caught.value.field == field


TOML = [
    (
        '[[criteria]]\nrequirement = "A"\n\n[[criteria]]\nrequirement = "B"\nwieght = 2\n',
        6,
        "wieght",
    ),
    ('[[criteria]]\nrequirement = """\n[[criteria]]\n"""\n[[criteria]]\nweight = 2\n', 5, ""),
    (
        '[[sections]]\ntitle = "T"\n[[sections.criteria]]\nrequirement = "A"\n[[sections.criteria]]\nrequirement = " "\n',
        6,
        "requirement",
    ),
    (
        '[[criteria]]\n[criteria.rubric]\n[[criteria.rubric.criteria]]\nrequirement = "A"\nweight = nan\n',
        5,
        "weight",
    ),
    ('criteria = [\n  {requirement = "A", weight = inf},\n]\n', 1, "weight"),
    ('[[criteria]]\nrequirement = "A"\ncheck.contains = 3\n', 3, "check"),
    ("[[criteria]]\nrequirement = \n", 2, None),
    ("a = 1\na = 2\n", 2, None),
]


@pytest.mark.parametrize(("text", "line", "field"), TOML)
def test_toml_errors_name_the_line(text, line, field):
    """By the nth table and the key; inside an inline list, the line of the list."""
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_toml(text)
    assert (caught.value.path, caught.value.line) == ("<toml>", line)
    if field is None:
        assert "Failed to parse TOML: " in str(caught.value)
    else:
        assert caught.value.field == field


def test_a_file_error_names_the_file(tmp_path):
    """From a path and from an open file."""
    path = tmp_path / "essay.yaml"
    path.write_text("- requirement: A\n  wieght: 2\n")
    said = f"{path}:2: criterion 1: unknown field 'wieght'"
    with pytest.raises(RubricFileError) as caught:
        Rubric.from_file(path)
    assert str(caught.value).startswith(said)
    with path.open() as opened, pytest.raises(RubricFileError) as caught:
        Rubric.from_file(opened)
    assert str(caught.value).startswith(said)


def test_a_wrong_option_is_not_blamed_on_the_file():
    """The caller gave it."""
    with pytest.raises(RubricError, match="on_error is 'ignore'") as caught:
        Rubric.from_dict([A], on_error="ignore")
    assert not isinstance(caught.value, RubricFileError)
    with pytest.raises(TypeError, match="autogrander"):
        Rubric.from_dict([A], autogrander=None)


class Named(io.StringIO):
    name = "x"


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda folder: folder / "none.json", FileNotFoundError, "File not found: .*none.json"),
        (lambda folder: str(folder / "none.txt"), FileNotFoundError, "File not found"),
        (lambda folder: folder, RubricFileError, "is a folder: name the file of a rubric"),
        (
            lambda folder: folder / "r.txt",
            RubricFileError,
            "Unsupported file format '.txt'. Supported formats: .json, .yaml",
        ),
        (
            lambda folder: folder / "plain",
            RubricFileError,
            "Cannot determine file format of .*plain",
        ),
        (
            lambda folder: io.StringIO("[]"),
            RubricFileError,
            "Cannot determine file format of 'a file without a name'",
        ),
        (lambda folder: Named("[]"), RubricFileError, "Cannot determine file format of 'x'"),
        (
            lambda folder: 3,
            RubricFileError,
            "3 is not a file: give a path, or a file opened for reading",
        ),
        (
            lambda folder: folder / "latin.yaml",
            RubricFileError,
            r"latin.yaml:2: byte 0xe9 is not UTF-8: save",
        ),
        (lambda folder: folder / "empty.yaml", RubricFileError, "No criteria found"),
        (
            lambda folder: folder / "empty.json",
            RubricFileError,
            "empty.json:1: Failed to parse JSON",
        ),
        (
            lambda folder: folder / "empty.toml",
            RubricFileError,
            "there are no criteria: list them under `criteria`",
        ),
    ],
)
def test_wrong_files(make, kind, said, tmp_path):
    """Missing, of another kind, nameless, empty or in another encoding."""
    for name in ("r.txt", "plain", "empty.yaml", "empty.json", "empty.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "latin.yaml").write_bytes("- weight: 1\n  requirement: café\n".encode("latin-1"))
    with pytest.raises(kind, match=said):
        Rubric.from_file(make(tmp_path))


@pytest.mark.parametrize("name", ["r.json", "r.yaml", "R.YML"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_files_are_utf_8(name, mark, tmp_path):
    """With and without a byte order mark, by path, as text and as bytes."""
    path = tmp_path / name
    path.write_bytes(mark + '[{"requirement": "Nennt Köln"}]'.encode())
    with path.open(encoding="utf-8") as text, path.open("rb") as raw:
        for file in (path, str(path), text, raw):
            assert Rubric.from_file(file).criteria[0].requirement == "Nennt Köln"
