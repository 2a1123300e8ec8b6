"""Shards of an input together have all its rows."""

import pytest

from assay import TableError, rows_of
from assay.backends import shards_of
from assay.runs import RunError


def read(shards):
    return [row for shard in shards for row in shard.read()]


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_the_rows_of_all_shards_are_the_rows_of_the_file(write_rows, rows):
    """Every row once, in order, with consecutive numbers."""
    path = write_rows(10)
    shards = shards_of([path], rows=rows)
    assert read(shards) == list(rows_of(path))
    assert [shard.first for shard in shards] == list(range(0, 10, rows))


def test_adjacent_rollouts_of_an_example_stay_in_one_shard(write_rows):
    """Four rollouts of each example, shards of six rows: cut after eight."""
    path = write_rows(16, example_id=lambda n: n // 4)
    assert [shard.rows for shard in shards_of([path], rows=6)] == [8, 8]


def test_the_id_column_may_have_another_name(write_rows):
    """Three rollouts of each `uid`, which is mapped to `id`."""
    path = write_rows(9, uid=lambda n: n // 3)
    shards = shards_of([path], rows=2, mapping={"id": "uid"})
    assert [shard.rows for shard in shards] == [3, 3, 3]


def test_rows_of_several_files_are_numbered_consecutively(write_rows):
    one, two = write_rows(3, "a.jsonl"), write_rows(4, "b.jsonl")
    shards = shards_of([one, two], rows=2)
    assert [(shard.first, shard.rows) for shard in shards] == [(0, 2), (2, 1), (3, 2), (5, 2)]


def test_a_folder_means_the_files_in_it(write_rows, tmp_path):
    """Sorted by name; files that are not tables are ignored."""
    for name in ("b", "a"):
        write_rows(2, f"{name}.jsonl")
    (tmp_path / "README.md").write_text("rows")
    assert [shard.path[-7:] for shard in shards_of([tmp_path])] == ["a.jsonl", "b.jsonl"]


def test_blank_lines_and_a_missing_final_newline_are_handled(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\n{"completion": "a"}\n\n{"completion": "b"}\r\n\n{"completion": "c"}')
    shards = shards_of([path], rows=2)
    rows = [[row["completion"] for row in shard.read()] for shard in shards]
    assert rows == [["a", "b"], ["c"]]


@pytest.fixture
def parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns, row_group_size):
        path = tmp_path / "rows.parquet"
        parquet.write_table(arrow.table(columns), path, row_group_size=row_group_size)
        return path

    return write


def test_parquet_is_cut_between_row_groups(parquet):
    """Groups of 3, 3, 3 and 1 rows, five rows to a shard."""
    path = parquet({"completion": [str(n) for n in range(10)]}, 3)
    shards = shards_of([path], rows=5)
    assert [(shard.begin, shard.end, shard.rows) for shard in shards] == [(0, 2, 6), (2, 4, 4)]
    assert read(shards) == list(rows_of(path))


def test_parquet_is_not_cut_within_an_example(parquet):
    """Groups of 3 rows, examples of 2: the first group ends within one, the second does not."""
    path = parquet({"completion": ["x"] * 12, "id": [n // 2 for n in range(12)]}, 3)
    assert [shard.rows for shard in shards_of([path], rows=3)] == [6, 6]


def test_a_column_may_have_another_name(write_rows):
    path = write_rows(4, output=lambda n: f"out {n}")
    [shard] = shards_of([path])
    assert next(shard.read({"completion": "output"}))["completion"] == "out 0"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rows.csv", "other files cannot be cut"),
        ("no.jsonl", "there is no file"),
        ("empty", r"holds no \.jsonl, \.ndjson, \.parquet file"),
    ],
)
def test_inputs_that_cannot_be_cut_are_refused(tmp_path, name, why):
    (tmp_path / "rows.csv").write_text("completion\na\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=why):
        shards_of([tmp_path / name])


def test_shards_of_0_rows_are_refused(write_rows):
    with pytest.raises(RunError, match="the number of rows in a shard is 0"):
        shards_of([write_rows(1)], rows=0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"completion": ', "not valid JSON: "),
        ("[1]", r"\[1\] is not an object"),
        ('{"a": 1, "a": 2}', "the field 'a' occurs 2 times: name it once"),
    ],
)
def test_an_invalid_line_is_named_in_the_error(tmp_path, line, why):
    """By its number in the file, counting blank lines, with the same message as in one process."""
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"completion": "a"}}\n\n{line}\n')
    shard = shards_of([path], rows=1)[1]
    with pytest.raises(TableError, match=rf"rows\.jsonl:3: {why}"):
        list(shard.read())
