"""An input in pieces has the rows, and the keys, of the whole."""

import pytest

from assay.backends import shards_of
from assay.runs import RunError
from assay.runs.keys import Numbering
from assay.tables import rows_of


def keys_in_shards(shards):
    keys = []
    for shard in shards:
        numbering = shard.numbering()
        keys += [numbering.key_of(row) for row in shard.read()]
    return keys


def keys_in_one(path):
    numbering = Numbering()
    return [numbering.key_of(row) for row in rows_of(path)]


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_rows_without_an_id_are_numbered_on(table, rows):
    path = table(10)
    shards = shards_of([path], rows=rows)
    assert [row for shard in shards for row in shard.read()] == list(rows_of(path))
    assert keys_in_shards(shards) == keys_in_one(path)
    assert sum(shard.rows for shard in shards) == 10


def test_repeats_of_an_example_are_counted_over_shards(table):
    """Ids 0, 1, 2, 0, 1, 2, …: the second half has samples from where the first ended."""
    path = table(12, id=lambda n: n % 3)
    shards = shards_of([path], rows=5)
    assert keys_in_shards(shards) == keys_in_one(path)
    assert shards[1].before == {"0": 2, "1": 2, "2": 1}


def test_rollouts_that_are_compared_stay_together(table):
    """Four rollouts an example, shards of six rows: cut after eight."""
    path = table(16, example_id=lambda n: n // 4)
    shards = shards_of([path], rows=6, together=True)
    assert [shard.rows for shard in shards] == [8, 8]
    assert not shards[1].before


def test_files_follow_each_other(table):
    one, two = table(3, "a.jsonl"), table(4, "b.jsonl")
    shards = shards_of([one, two], rows=2)
    assert [(shard.first, shard.rows) for shard in shards] == [(0, 2), (2, 1), (3, 2), (5, 2)]


def test_blank_lines_and_a_missing_last_newline_are_no_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"completion": "a"}\n\n{"completion": "b"}\r\n\n{"completion": "c"}')
    shards = shards_of([path], rows=2)
    rows = [[row["completion"] for row in shard.read()] for shard in shards]
    assert rows == [["a", "b"], ["c"]]


def test_parquet_is_cut_between_row_groups(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    columns = {"completion": [str(n) for n in range(10)], "id": [n % 4 for n in range(10)]}
    parquet.write_table(arrow.table(columns), path, row_group_size=3)
    shards = shards_of([path], rows=5)
    assert [(shard.begin, shard.end, shard.rows) for shard in shards] == [(0, 2, 6), (2, 4, 4)]
    assert keys_in_shards(shards) == keys_in_one(path)


def test_a_column_may_have_another_name(table):
    path = table(4, output=lambda n: f"out {n}")
    [shard] = shards_of([path])
    assert [row["completion"] for row in shard.read({"completion": "output"})][:1] == ["out 0"]


@pytest.mark.parametrize(("name", "why"), [("rows.csv", "nothing else can be cut"), ("no.jsonl", "no file")])
def test_what_cannot_be_cut_is_refused(tmp_path, name, why):
    if "csv" in name:
        (tmp_path / name).write_text("completion\na\n")
    with pytest.raises(RunError, match=why):
        shards_of([tmp_path / name])


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"completion": "a"}\n{"completion": \n')
    [shard] = shards_of([path])
    with pytest.raises(RunError, match=r"rows\.jsonl, row 1 is no JSON"):
        list(shard.read())
