"""Rows come from anywhere, one after another, and an error says where."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from assay import AssayError, MissingExtraError, TableError, rows_of

ROWS = [{"question": "2+2?", "answer": "4"}, {"question": "3+3?", "answer": "6"}]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.jsonl", LINES),
        ("rows.ndjson", LINES),
        ("ROWS.JSONL", LINES),
        ("no_last_newline.jsonl", LINES.rstrip()),
        ("windows.jsonl", LINES.replace(b"\n", b"\r\n")),
        ("marked.jsonl", b"\xef\xbb\xbf" + LINES),
        ("mark_alone.jsonl", b"\xef\xbb\xbf\n" + LINES),
        ("blank.jsonl", b"\n  \n" + LINES.replace(b"\n", b"\n\n\r\n")),
        ("packed.jsonl.gz", gzip.compress(LINES, mtime=0)),
        ("list.json", json.dumps(ROWS)),
        ("indented.json", "\n\n" + json.dumps(ROWS, indent=2)),
        ("marked.json", b"\xef\xbb\xbf" + json.dumps(ROWS).encode()),
        ("lines.json", b"\n" + LINES),
        ("rows.csv", "question,answer\n2+2?,4\n3+3?,6\n"),
        ("windows.csv", "question,answer\r\n2+2?,4\r\n\r\n3+3?,6\r\n"),
        ("marked.csv", "\ufeffquestion,answer\n2+2?,4\n3+3?,6"),
        ("quoted.csv", '"question","answer"\n"2+2?","4"\n"3+3?",6\n'),
        ("rows.tsv", "question\tanswer\n2+2?\t4\n3+3?\t6\n"),
    ],
)
def test_a_file_is_read_by_its_ending(tmp_path, name, data):
    """Whatever its line ends, byte order mark, blank lines and packing."""
    assert list(rows_of(written(tmp_path, name, data))) == ROWS


@pytest.mark.parametrize("name", ["none.jsonl", "none.json"])
def test_an_empty_file_has_no_rows(tmp_path, name):
    """And is no error."""
    assert list(rows_of(written(tmp_path, name, ""))) == []


def test_a_path_may_be_a_text(tmp_path):
    """As well as a Path."""
    assert list(rows_of(str(written(tmp_path, "rows.jsonl", LINES)))) == ROWS


def test_lines_are_read_as_they_are_asked_for(tmp_path):
    """A broken line further down does not keep the rows above from coming."""
    rows = rows_of(written(tmp_path, "rows.jsonl", LINES + b"{"))
    assert [next(rows), next(rows)] == ROWS
    with pytest.raises(TableError, match=r"rows\.jsonl:3: not valid JSON"):
        next(rows)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.jsonl",
            b'{"a": 1}\n\n{"a": }\n',
            "a.jsonl:3: not valid JSON: Expecting value at column 7",
        ),
        ("a.jsonl", b"\xef\xbb\xbf{", "a.jsonl:1: not valid JSON: Expecting property name"),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": \r\n{"a": 2}\n',
            "a.jsonl:2: not valid JSON: Expecting value at column 6, where it ends: it may have "
            "been cut off",
        ),
        ("a.jsonl", b'{"a": 1}\n[1]', "a.jsonl:2: [1] is not an object: write one object"),
        ("a.jsonl", b'{"a": "\xff"}', "a.jsonl:1: not valid UTF-8: invalid start byte at byte 8"),
        ("a.jsonl", '{"a": 1}'.encode("utf-16"), "a.jsonl: it is written in UTF-16"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1: its brackets are nested too deep"),
        ("a.jsonl", b'{"a": %s}' % (b"9" * 5000), "a.jsonl:1: not valid JSON: Exceeds the limit"),
        (
            "a.json",
            b'[{"a": 1},\n {"a": ]',
            "a.json:2: not valid JSON: Expecting value at column 8",
        ),
        ("a.json", b'[{"a": 1}, 5]', "a.json: row 1 of the list is 5, not an object"),
        ("a.json", b'{"rows": [\n]}', "a.json:1: not valid JSON"),
        ("a.csv", b"", "a.csv: there is no header: name the columns"),
        (
            "a.csv",
            b"a,a\n1,2\n",
            "a.csv:1: the header is ['a', 'a']: give every column a different",
        ),
        ("a.csv", b"a,b\n1,2\n3\n", "a.csv:3: this row has 1 cell, and the header has 2 (a, b)"),
        ("a.csv", b"a,b\n1,2,3\n", "a.csv:2: this row has 3 cells"),
        ("a.csv", b'a,b\n1,"2\n', "a.csv:2: a quotation mark is not closed"),
        (
            "a.csv",
            b"a,b\n1,\xc3\xa4\xc3\xb6\n1,\xff\n",
            "a.csv:3: not valid UTF-8: invalid start byte at byte 3: save it",
        ),
        ("a.csv", b"a,b\n1,\xff\x81\n", "a.csv:2: not valid UTF-8"),
        ("a.xlsx", b"no workbook", "a.xlsx: it cannot be read as a workbook: File is not a zip"),
        (
            "a.jsonl",
            b'{"a": "',
            "a.jsonl:1: not valid JSON: Unterminated string starting at column 7",
        ),
        (
            "a.jsonl.gz",
            gzip.compress(LINES, mtime=0)[:-12],
            "a.jsonl.gz: it cannot be read: Compressed",
        ),
        ("a.jsonl.gz", b"no gzip", "a.jsonl.gz: it cannot be read: Not a gzipped file"),
        ("a.parquet", b"no parquet", "a.parquet: it cannot be read as Parquet"),
        ("a.txt", b"", "a.txt: files that end in '.txt' are not tables: use .jsonl"),
        ("a", b"", "a: its name has no ending"),
    ],
)
def test_an_error_names_file_and_line(tmp_path, name, data, message):
    """And says what was found there."""
    path = written(tmp_path, name, data)
    with pytest.raises(TableError) as caught:
        list(rows_of(path))
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)


def test_a_missing_file_is_said_at_once(tmp_path):
    """Not when its first row is wanted."""
    with pytest.raises(TableError, match="File not found"):
        rows_of(tmp_path / "none.jsonl")


def test_a_folder_is_no_table(tmp_path):
    """Even one that is called like one."""
    (tmp_path / "rows.jsonl").mkdir()
    with pytest.raises(TableError, match="cannot be read: Is a directory"):
        list(rows_of(tmp_path / "rows.jsonl"))


def test_a_cell_may_be_long(tmp_path):
    """Longer than the csv module takes for a mistake."""
    path = written(tmp_path, "long.csv", "completion\n" + "x" * 200_000 + "\n")
    assert [len(row["completion"]) for row in rows_of(path)] == [200_000]


def test_a_cell_may_hold_separators_and_line_ends(tmp_path):
    """In quotes."""
    path = written(tmp_path, "rows.csv", 'a,b\n"1,\n2","say ""hi"""\n')
    assert list(rows_of(path)) == [{"a": "1,\n2", "b": 'say "hi"'}]


@pytest.mark.parametrize("data", [LINES, json.dumps(ROWS).encode()])
def test_a_dash_is_standard_input(monkeypatch, data):
    """Which holds lines, or a list."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert list(rows_of("-")) == ROWS


def test_a_closed_standard_input_is_said_so(monkeypatch):
    """A program may be started without one."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TableError, match="standard input is closed: open it, or name a file"):
        rows_of("-")


def test_standard_input_has_a_name(monkeypatch):
    """In messages."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{}\n1")))
    with pytest.raises(TableError, match="standard input:2: 1 is not an object"):
        list(rows_of("-"))


def test_parquet_is_read_in_batches_with_its_nested_values(tmp_path):
    """Lists and mappings in cells are Python's own; what is null is None."""
    rows = [{"id": i, "info": {"tags": ["a"]}, "note": None} for i in range(3000)]
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    assert list(rows_of(path)) == rows


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    """At once."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = written(tmp_path, "rows.parquet", b"")
    with pytest.raises(MissingExtraError, match=r"pip install pyarrow"):
        rows_of(path)


def test_a_hugging_face_dataset_gives_its_rows():
    """Also a streamed one."""
    dataset = datasets.Dataset.from_list(ROWS)
    assert list(rows_of(dataset)) == ROWS
    assert list(rows_of(dataset.to_iterable_dataset())) == ROWS


def test_of_a_dataset_with_splits_one_has_to_be_named():
    """The message shows which there are."""
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})
    with pytest.raises(TableError, match=r"'train' is of type Dataset and not a list: .*one split"):
        rows_of(splits)


def test_a_pandas_frame_gives_its_rows_and_none_for_what_is_missing():
    """NaN is pandas' word for missing, and would be a number to everybody else."""
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, float("nan")]})
    rows = list(rows_of(frame))
    assert rows == [{"a": 1, "b": "x", "c": 0.5}, {"a": 2, "b": None, "c": None}]
    assert [type(value) for value in rows[0].values()] == [int, str, float]


def test_a_long_frame_comes_in_order():
    """Although it is taken in parts."""
    assert [row["n"] for row in rows_of(pd.DataFrame({"n": range(3000)}))] == list(range(3000))


def test_a_frames_columns_have_names():
    """A number is none that a check could ask for."""
    with pytest.raises(TableError, match="called 0: give it a text"):
        list(rows_of(pd.DataFrame([[1]])))


def test_columns_of_equal_length_are_rows_too():
    """As old results come."""
    columns = {"question": ["2+2?", "3+3?"], "answer": ("4", "6")}
    assert list(rows_of(columns)) == ROWS
    assert list(rows_of({})) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([{"a": 1}, 5], "row 1 of the rows is 5: give a mapping"),
        ({"a": [1], "b": []}, "the columns of the rows are of different lengths: a 1, b 0"),
        ({"a": 1}, "'a' is of type int and not a list"),
        (5, "5 holds no rows"),
        (b"rows", "b'rows' holds no rows"),
    ],
)
def test_what_holds_no_rows_is_refused(source, message):
    """With what would."""
    with pytest.raises(TableError, match=message):
        list(rows_of(source))


def test_a_row_is_a_copy():
    """Nothing done to it reaches the caller's."""
    rows = [{"a": 1}]
    next(rows_of(rows))["a"] = 2
    assert rows == [{"a": 1}]


def test_foreign_columns_are_renamed():
    """What was called so before gives way; the others stay; one column may serve twice."""
    rows = [{"output": "4", "completion": "old", "n": 1}]
    assert list(rows_of(rows, mapping={"completion": "output"})) == [{"completion": "4", "n": 1}]
    twice = {"completion": "output", "answer": "output"}
    assert list(rows_of([{"output": "4"}], mapping=twice)) == [{"completion": "4", "answer": "4"}]


def test_a_row_without_the_foreign_column_is_an_error(tmp_path):
    """With the line, and the columns that are there."""
    path = written(tmp_path, "rows.jsonl", b'{"output": 1}\n\n{"text": 1, "n": 2}\n')
    with pytest.raises(TableError, match=r"rows.jsonl:3: .* column 'output' \(columns: text, n\)"):
        list(rows_of(path, mapping={"completion": "output"}))


def test_a_row_has_the_fields_that_are_called_for():
    """Or the message names the row, by the name that the caller gave the rows."""
    with pytest.raises(TableError, match="row 1 of train: there is no column 'answer'"):
        list(rows_of([ROWS[0], {"question": "?"}], fields=["answer"], where="train"))


def test_a_table_error_is_a_value_error():
    """And one of ours."""
    assert issubclass(TableError, AssayError)
    assert issubclass(TableError, ValueError)


TWICE = '{"completion": "a", "info": {"x": 1, "x": 2}}'


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("rows.jsonl", '{"completion": "a"}\n\n{"completion": "a", "completion": "b"}\n', 3),
        ("inside.jsonl", f"{TWICE}\n", 1),
        ("marked.jsonl", b"\xef\xbb\xbf" + TWICE.encode(), 1),
        ("list.json", f'[\n{{"completion": "a"}},\n\n {TWICE}]', 4),
    ],
)
def test_a_field_that_is_there_twice_is_refused(tmp_path, name, data, line):
    """Which of the two was meant, only the writer of the file knows."""
    path = written(tmp_path, name, data)
    with pytest.raises(TableError, match=rf"{name}:{line}: the field '\w+' occurs 2 times"):
        list(rows_of(path))


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    """In a frame and in a Parquet file, of which a row would hold the last one alone."""
    frame = pd.DataFrame([["a", "b"]], columns=["completion", "completion"])
    with pytest.raises(TableError, match="two columns are called 'completion': rename one"):
        list(rows_of(frame))
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(TableError, match=r"rows\.parquet: two columns are called 'x'"):
        list(rows_of(tmp_path / "rows.parquet"))
