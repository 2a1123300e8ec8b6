"""Tables as spreadsheets write them: other separators and encodings, and Excel workbooks."""

from pathlib import Path
from typing import Any

import pytest

from assay import Rubric, RubricFileError
from assay.cli import main
from assay.tables import TableError, rows_of

ROWS = [{"Frage": "Größe?", "Antwort": "3,5 m; groß"}, {"Frage": "Wann?", "Antwort": "Morgen"}]


def write(folder: Path, text: str, encoding: str = "utf-8", name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_is_read_as_a_spreadsheet_saved_it(tmp_path: Path, encoding: str, separator: str):
    lines = [["Frage", "Antwort"], ["Größe?", '"3,5 m; groß"'], ["Wann?", "Morgen"]]
    text = "".join(f"{separator.join(cells)}\r\n" for cells in lines)
    assert list(rows_of(write(tmp_path, text, encoding))) == ROWS


def test_the_first_line_may_name_the_separator(tmp_path: Path):
    text = 'sep=;\nFrage;Antwort\nGröße?;"3,5 m; groß"\nWann?;Morgen\n;\n'
    rows = rows_of(write(tmp_path, text))
    assert list(rows) == ROWS


def test_the_separator_is_looked_for_in_the_header_only(tmp_path: Path):
    assert list(rows_of(write(tmp_path, "completion\na;b\nc\td\n"))) == [
        {"completion": "a;b"},
        {"completion": "c\td"},
    ]
    path = write(tmp_path, '"the; completion\nof it",id\n1,2\n')
    assert list(rows_of(path)) == [{"the; completion\nof it": "1", "id": "2"}]


def test_an_empty_text_alone_is_a_row(tmp_path: Path):
    assert list(rows_of(write(tmp_path, 'completion\n""\nx\n'))) == [
        {"completion": ""},
        {"completion": "x"},
    ]


def test_a_long_file_that_turns_out_to_be_cp1252_is_read_from_the_start(tmp_path: Path):
    text = "a,b\n" + "1,2\n" * 600_000 + "ü,2\n"
    *_, last = rows_of(write(tmp_path, text, "cp1252"))
    assert last == {"a": "ü", "b": "2"}


# Excel


def test_a_workbook_is_read_like_the_csv_of_its_first_sheet(tmp_path: Path, write_workbook: Any):
    path = write_workbook(
        tmp_path / "a.xlsx",
        [
            ["id", "completion", "n", "day", "at", "ok", "note", ""],
            [
                '<c t="inlineStr"><is><r><t>A</t></r><r><t>-17</t></r></is></c>',
                "Grün & <gut>",
                "<c><v>42</v></c>",
                '<c s="1"><v>46053</v></c>',
                '<c s="2"><v>46053.5</v></c>',
                '<c t="b"><v>1</v></c>',
                '<c t="e"><v>#N/A</v></c>',
            ],
            [],
            ["B", "", "<c><v>0.1</v></c>", "", "", "", '<c t="str"><f>A1</f><v>x</v></c>'],
        ],
    )
    first, second = rows_of(path)
    assert first == {
        "id": "A-17",
        "completion": "Grün & <gut>",
        "n": "42",
        "day": "2026-01-31",
        "at": "2026-01-31 12:00:00",
        "ok": "true",
        "note": "",
    }
    assert (second["id"], second["completion"], second["n"], second["note"]) == (
        "B",
        "",
        "0.1",
        "x",
    )


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "there is no header"),
        ([["a"], ["1", "2"]], {}, "a.xlsx:2: the cell '2' is in a column without a name"),
        ([["a", "a"]], {}, "give every column a different name"),
        ([["a"]], {"prolog": "<!DOCTYPE x [<!ENTITY y 'z'>]>"}, "declares a document type"),
        ([["a"]], {"prolog": "<"}, "cannot be read as a workbook"),
    ],
)
def test_what_is_wrong_with_a_workbook_is_said(
    tmp_path: Path, write_workbook: Any, rows: Any, options: Any, message: str
):
    path = write_workbook(tmp_path / "a.xlsx", rows, **options)
    with pytest.raises(TableError, match=message):
        list(rows_of(path))


# Rubrics

CELLS = [
    ["Name", "Requirement", "Check", "Weight", "Choices", "When", "Required", "Tags"],
    ["polite", "Thanks the customer, by name", "", "1,5", "no | partly | yes", "", "", "tone|form"],
    ["day", "", "contains: Friday", "2", "", "{Thema: Kinder}", "x", ""],
    ["rude", "Is rude", "", "\u22122", "", "", "", ""],
    ["json", "", "json_valid", "", "", "day", "false", ""],
]


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".xlsx"])
def test_a_rubric_may_be_a_spreadsheet(tmp_path: Path, write_workbook: Any, kind: str):
    path = tmp_path / f"rubric{kind}"
    if kind == ".xlsx":
        write_workbook(path, CELLS)
    else:
        separator = ";" if kind == ".csv" else "\t"
        text = "\n".join(separator.join(row) for row in CELLS)
        path.write_bytes(text.encode("utf-8"))
    rubric = Rubric.from_file(path)
    assert rubric.to_dict()["criteria"] == [
        {
            "name": "polite",
            "requirement": "Thanks the customer, by name",
            "weight": 1.5,
            "choices": ["no", "partly", "yes"],
            "tags": ["tone", "form"],
        },
        {
            "name": "day",
            "check": {"contains": "Friday"},
            "weight": 2.0,
            "when": {"column": "Thema", "is": "Kinder"},
            "required": True,
        },
        {"name": "rude", "requirement": "Is rude", "weight": -2.0},
        {"name": "json", "check": "json_valid", "when": "day"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\n1,x\n", "r.csv: .*without a column 'requirement' or 'check' .columns: id, text"),
        ("requirement\n", "no criteria below the header"),
        ("requirement,weight\nIs short,heavy\n", "r.csv:2: the cell 'heavy' in column 'weight'"),
        ("requirement,required\nIs short,perhaps\n", "r.csv:2: .*give true or false"),
        ("requirement,wieght\nIs short,1\n", "r.csv:2: .*unknown field 'wieght': did you mean"),
        ("requirement,check\n,'{contains'\n\nIs short,\n", "r.csv:2: "),
        ("requirement,weight\nIs short,\nIs short,0\n,\n\nIs x,1e400\n", "r.csv:6: "),
    ],
)
def test_an_error_in_a_rubric_names_the_line_of_the_sheet(tmp_path: Path, text: str, message: str):
    with pytest.raises(RubricFileError, match=message):
        Rubric.from_file(write(tmp_path, text, name="r.csv"))


def test_the_command_line_suggests_the_map_and_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = str(write(tmp_path, "Nr;Frage;Antwort\n1;Größe?;groß\n2;Wann?;Morgen\n", "cp1252"))
    rubric = str(write(tmp_path, "name;check\ngross;contains: groß\n", "cp1252", "r.csv"))
    assert main(["score", data, "-r", rubric]) == 2
    suggestion = "--map prompt=Frage --map completion=Antwort"
    assert f"(columns: Nr, Frage, Antwort): give {suggestion}" in capsys.readouterr().err
    assert main(["score", data, "-r", rubric, "-q", "-f", "csv", *suggestion.split()]) == 0
    assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "1.0",
        "0.0",
    ]


def test_a_table_without_a_completion_is_refused_if_a_criterion_needs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = str(write(tmp_path, "Nr;Spalte\n1;groß\n"))
    rubric = str(write(tmp_path, "name;check\ngross;contains: groß\n", name="r.csv"))
    assert main(["score", data, "-r", rubric]) == 2
    assert (
        "no column 'completion' (columns: Nr, Spalte), which 'gross' needs: give --map "
        "completion=COLUMN"
    ) in capsys.readouterr().err
    assert main(["score", data, "-r", rubric, "-q", "--map", "completion=Spalte"]) == 0


def test_a_data_set_of_questions_is_told_the_map_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = str(write(tmp_path, "Nr;Frage;Antwort\n1;Größe?;groß\n", "cp1252"))
    rubric = str(write(tmp_path, "check\nexact_match\n", name="r.csv"))
    assert main(["eval", data, "-m", "http://127.0.0.1:1/v1#none", "-r", rubric]) == 2
    assert (
        "no column 'prompt' or 'question' (columns: Nr, Frage, Antwort): give "
        "--map prompt=Frage --map answer=Antwort"
    ) in capsys.readouterr().err


def test_lint_and_show_take_spreadsheets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rubric = str(write(tmp_path, "requirement,weight\nIs rude,2\n", name="r.csv"))
    assert main(["lint", rubric]) == 100
    assert f"{rubric}:2: error R005 is_rude" in capsys.readouterr().out
    assert main(["lint", rubric, "--fix"]) == 2
    assert "is a spreadsheet, which cannot be changed here" in capsys.readouterr().err
    assert main(["rubric", "show", rubric]) == 0
