"""Tables as spreadsheets write them: other separators and encodings, and Excel workbooks."""

import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import xlsxwriter  # pyright: ignore[reportMissingTypeStubs]

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


def write_book(path: Path, **options: bool) -> Any:
    """Return a workbook that is saved at the end of a `with` block. Its types are incomplete."""
    return xlsxwriter.Workbook(path, options)


def make_workbook(path: Path, *rows: list[Any]) -> Path:
    """Write rows to the first sheet of a workbook."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    book.create_sheet("second").append(["of the second sheet"])
    book.save(path)
    return path


def test_a_workbook_is_read_like_the_csv_of_its_first_sheet(tmp_path: Path):
    path = make_workbook(
        tmp_path / "a.xlsx",
        ["id", "completion", "n", None],
        ["A-17", "Grün & <gut>\n😀", 42],
        [],
        ["007", None, 0.1],
    )
    assert list(rows_of(path)) == [
        {"id": "A-17", "completion": "Grün & <gut>\n😀", "n": "42"},
        {"id": "007", "completion": "", "n": "0.1"},
    ]


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (42, None, "42"),
        (42.0, None, "42"),
        (12345678901234500, "0", "12345678901234500"),
        (-0.125, "0.0%", "-0.125"),
        (1e-7, "0.00E+00", "1e-07"),
        (True, None, "true"),
        (False, None, "false"),
        (date(2026, 1, 31), "dd.mm.yyyy", "2026-01-31"),
        (datetime(2026, 1, 31, 12), "[$-407]d. mmmm yyyy;@", "2026-01-31 12:00:00"),
        (time(9, 30), "hh:mm", "09:30:00"),
        (timedelta(hours=30, minutes=5), "[h]:mm:ss", "30:05:00"),
        (7, 'General "days"', "7"),
        (-2.5, "[Red]0.00;[Blue]-0.00", "-2.5"),
        ("00123", None, "00123"),
        ("two\r\nlines", None, "two\r\nlines"),
    ],
)
def test_cells_are_read_as_texts(tmp_path: Path, value: Any, number_format: Any, text: str):
    path = tmp_path / "a.xlsx"
    with write_book(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["completion", "value"])
        cell_format = None
        if number_format is not None:
            cell_format = book.add_format({"num_format": number_format})
        sheet.write_row(1, 0, ["x"])
        sheet.write(1, 1, value, cell_format)
    assert list(rows_of(path)) == [{"completion": "x", "value": text}]


def test_a_formula_has_its_saved_value_and_an_error_has_none(tmp_path: Path):
    path = tmp_path / "a.xlsx"
    with write_book(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["completion", "number", "flag", "error"])
        sheet.write_formula(1, 0, '="a"&"b"', None, "ab")
        sheet.write_formula(1, 1, "=A1", None, 42)
        sheet.write_formula(1, 2, "=TRUE()", None, True)
        sheet.write_formula(1, 3, "=1/0", None, "#DIV/0!")
    assert list(rows_of(path)) == [
        {"completion": "ab", "number": "42", "flag": "true", "error": ""}
    ]


def test_rich_and_inline_texts_and_merged_cells_are_read(tmp_path: Path):
    path = tmp_path / "a.xlsx"
    with write_book(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["completion", "n"])
        bold = book.add_format({"bold": True})
        sheet.write_rich_string(1, 0, "plain ", bold, "bold", " plain")
        sheet.merge_range("A3:B3", "merged")
    assert [row["completion"] for row in rows_of(path)] == ["plain bold plain", "merged"]
    with write_book(path, constant_memory=True) as book:  # writes texts in cells
        sheet = book.add_worksheet()
        sheet.write_column(0, 0, ["completion", "  inline "])
    assert list(rows_of(path)) == [{"completion": "  inline "}]


def test_hidden_sheets_and_charts_are_passed_over(tmp_path: Path):
    path = tmp_path / "a.xlsx"
    with write_book(path) as book:
        chart = book.add_chart({"type": "line"})
        chart.add_series({"values": "=shown!$A$2:$A$2"})
        book.add_chartsheet("chart").set_chart(chart)
        hidden = book.add_worksheet("hidden")
        hidden.write_column(0, 0, ["completion", "no"])
        shown = book.add_worksheet("shown")
        shown.write_column(0, 0, ["completion", "yes"])
        shown.activate()
        hidden.hide()
    assert list(rows_of(path)) == [{"completion": "yes"}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there is no header"),
        ([["a"], ["1", "2"]], "a.xlsx:2: the cell '2' is in a column without a name"),
        ([["a", "a"]], "give every column a different name"),
    ],
)
def test_what_is_wrong_with_a_sheet_names_the_row(tmp_path: Path, rows: Any, message: str):
    path = make_workbook(tmp_path / "a.xlsx", *rows)
    with pytest.raises(TableError, match=message):
        list(rows_of(path))


def change_part(path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Change one of the XML files in a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    parts[name] = change(parts[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)


def test_a_broken_workbook_is_an_error(tmp_path: Path):
    path = make_workbook(tmp_path / "a.xlsx", ["completion"], ["x"])
    change_part(path, "xl/workbook.xml", lambda content: content[:-9])
    with pytest.raises(TableError, match=r"a.xlsx: it cannot be read as a workbook: "):
        list(rows_of(path))
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with pytest.raises(TableError, match=r"save it as \.xlsx without a password"):
        list(rows_of(path))


def test_a_workbook_that_unpacks_to_more_than_memory_holds_is_refused(tmp_path: Path):
    path = make_workbook(tmp_path / "a.xlsx", ["completion"], ["x"])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("docProps/large.xml", "")
        archive.infolist()[-1].file_size = 2**29  # written when the archive is closed
    with pytest.raises(TableError, match="it unpacks to more than 512 MiB"):
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
def test_a_rubric_may_be_a_spreadsheet(tmp_path: Path, kind: str):
    path = tmp_path / f"rubric{kind}"
    if kind == ".xlsx":
        make_workbook(path, *CELLS)
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
