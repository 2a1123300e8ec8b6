"""Where findings stand in files, and what comments in them ask to ignore."""

import pytest

from assay.lint import lint


@pytest.fixture
def write(tmp_path):
    def to(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to


def places(path, **options):
    return [(finding.line, finding.id, finding.criterion) for finding in lint(path, **options)]


YAML = """\
name: essay
criteria:
  - requirement: Cites several sources
    name: cites
  - title: Style
    criteria:
      - weight: 2
        name: clear
        requirement: >
          Is
          clear
  - name: inner
    rubric:
      criteria:
        - requirement: Names the author
          choices: [MET, UNMET]
"""


def test_a_finding_stands_at_the_field_it_is_about(write):
    """Through sections and rubrics inside the rubric."""
    assert places(write("a.yaml", YAML)) == [
        (3, "R004", "cites"),
        (9, "R002", "clear"),
        (16, "R011", "inner/names_the_author"),
    ]


def test_json_and_toml_have_lines_too(write):
    """As far as a scan can tell them."""
    text = '[\n {"requirement": "Is clear",\n  "weight": -1},\n {"requirement": "Is rude"}\n]'
    assert places(write("a.json", text)) == [
        (2, "R002", "is_clear"),
        (2, "R005", "is_clear"),
        (4, "R005", "is_rude"),
    ]
    toml = (
        '[[criteria]]\nrequirement = "Names the author"\n\n[[criteria]]\nrequirement = "Is clear"\n'
    )
    assert places(write("a.toml", toml)) == [(5, "R002", "is_clear")]


def test_the_rubrics_of_a_group_are_looked_at(write):
    """Each under its own name."""
    text = "rubrics:\n- name: one\n  criteria:\n  - requirement: Is clear\n"
    assert places(write("a.yaml", text)) == [(4, "R002", "one/is_clear")]


@pytest.mark.parametrize(
    "text",
    [
        "# assay: ignore R002\n- requirement: Is clear\n",
        "# assay: ignore R002\n# because we know\n- requirement: Is clear\n",
        "- requirement: Is clear  # assay: ignore R001, R002\n",
        "- requirement: Is clear\n  # assay: ignore R002\n  weight: 2\n",
        "- requirement: Is clear  # assay: ignore\n",
    ],
)
def test_a_comment_leaves_a_rule_out(write, text):
    """On a line of the criterion, or right above it; without ids it leaves out all."""
    assert places(write("a.yaml", text)) == []


def test_a_comment_is_about_one_criterion_and_the_rules_it_names(write):
    """The one below it, and no other."""
    text = (
        "- requirement: Is clear\n"
        "# assay: ignore R002\n"
        "- requirement: Is good\n"
        "- requirement: Is helpful  # assay: ignore R004\n"
    )
    assert [line for line, _, _ in places(write("a.yaml", text))] == [1, 4]


def test_a_file_that_cannot_be_loaded_is_a_finding(write):
    """With the line and the sentence that the loader has for it."""
    (finding,) = lint(write("a.yaml", "- requirement: Is kind\n  wieght: 2\n"))
    assert (finding.id, finding.severity, finding.line) == ("R000", "error", 2)
    assert finding.message.endswith("unknown field 'wieght': did you mean 'weight'?")


def test_a_when_that_the_loader_refuses_is_unreachable(write):
    """A verdict that is not on offer, and a ring."""
    unknown = "- requirement: Is kind\n- requirement: Is short\n  when: {is_kind: GOOD}\n"
    (finding,) = lint(write("a.yaml", unknown))
    assert (finding.id, finding.line) == ("R009", 3)


def test_a_file_that_is_not_there_is_no_finding(tmp_path):
    """It is an error of the caller."""
    with pytest.raises(FileNotFoundError):
        lint(tmp_path / "none.yaml")


def test_an_alias_has_the_line_of_where_it_stands(write):
    """What it repeats stands elsewhere."""
    text = "criteria:\n- &one\n  requirement: Is clear\n- *one\n"
    found = places(write("a.yaml", text))
    assert [(line, rule) for line, rule, _ in found] == [(3, "R002"), (4, "R002"), (4, "R007")]
