"""The file: whose it is, what mode it is in, and what is said when it cannot be used."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assay.cache import Store, default_place, open_store
from assay.cache.store import find_file_system, is_on_network_disk
from assay.errors import CacheError


def mode_of(path):
    with sqlite3.connect(path) as connection:
        [(mode,)] = connection.execute("PRAGMA journal_mode")
    connection.close()
    return mode


def test_readers_do_not_wait_for_the_writer(tmp_path, make_item):
    """While another connection holds the write lock, a read gives what was there before."""
    store = open_store(tmp_path)
    key, verdict = make_item()
    store.put_many([(key, verdict)])
    writer = sqlite3.connect(tmp_path / "verdicts.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM verdicts")
    assert store.get_many([key]) == {key: verdict}
    writer.execute("ROLLBACK")
    writer.close()
    store.close()


def test_a_file_that_is_no_database_says_what_to_do(tmp_path):
    """Move it away; nothing is overwritten."""
    path = tmp_path / "verdicts.sqlite"
    path.write_text("my shopping list, " * 100)
    with pytest.raises(CacheError, match=r"verdicts.sqlite is damaged .* move it away"):
        open_store(path)
    assert path.read_text().startswith("my shopping list")


def test_a_damaged_file_says_what_to_do(tmp_path, make_item):
    """A page in the middle is overwritten."""
    store = open_store(tmp_path)
    items = [make_item(number, reason="x" * 500) for number in range(200)]
    store.put_many(items)
    store.close()
    path = tmp_path / "verdicts.sqlite"
    data = bytearray(path.read_bytes())
    data[8192:-4096] = b"\xff" * (len(data) - 8192 - 4096)
    path.write_bytes(data)
    store = open_store(path)
    with pytest.raises(CacheError, match=r"is damaged .* \.recover"):
        store.get_many([key for key, _ in items])
    store.close()


def test_whatever_is_damaged_is_an_error_of_the_cache_or_a_verdict_that_is_missing(
    tmp_path, make_item
):
    """300 files with up to 200 random bytes; a verdict that can be read is never another one."""
    store = open_store(tmp_path / "whole.db")
    items = dict(make_item(number, reason="é" * 100) for number in range(100))
    store.put_many(list(items.items()))
    store.close()
    data = (tmp_path / "whole.db").read_bytes()
    generator = random.Random(0)
    for number in range(300):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 3, 20, 200])):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        try:
            with closing(open_store(path)) as store:
                found = store.get_many(list(items))
                assert found.keys() <= items.keys()
                for _ in store.entries():
                    pass
                store.stats()
        except CacheError:
            pass


def test_a_damaged_verdict_does_not_take_others_with_it(tmp_path, make_item):
    """It is judged again."""
    store = open_store(tmp_path / "cache.db")
    items = [make_item(number) for number in range(5)]
    store.put_many(items)
    store.close()
    connection = sqlite3.connect(tmp_path / "cache.db")
    wrong_values = ('{"verdict"', '{"verdict": ["MET"]}', '{"verdict": "MET", "usage": {"a": "b"}}')
    for (key, _), value in zip(items, wrong_values, strict=False):
        connection.execute("UPDATE verdicts SET value = ? WHERE key = ?", [value, key.digest])
    connection.commit()
    connection.close()
    with closing(open_store(tmp_path / "cache.db")) as store:
        assert store.get_many([key for key, _ in items]) == dict(items[3:])


def test_somebody_elses_database_is_left_alone(tmp_path):
    """Not a table is added to it."""
    path = tmp_path / "bank.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE accounts (owner TEXT)")
    with pytest.raises(CacheError, match="database of another program"):
        open_store(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("accounts",)]
    other.close()


def test_a_newer_schema_is_refused(tmp_path):
    """An older version would read it wrongly."""
    open_store(tmp_path).close()
    path = tmp_path / "verdicts.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CacheError, match=r"newer version of assay.*schema 99.*upgrade"):
        open_store(path)


def test_a_place_that_cannot_be_made_says_so(tmp_path):
    """Its parent is a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"cannot be opened .* point ASSAY_CACHE"):
        open_store(tmp_path / "file" / "cache")


def test_the_default_place_is_the_environments_or_the_users_cache(monkeypatch, tmp_path):
    """`ASSAY_CACHE` may be a folder, a file or a URL."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "here"))
    store = open_store()
    assert store.where == str(tmp_path / "here" / "verdicts.sqlite")
    store.close()
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(default_place()).name == "assay"


MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
files:/home /home nfs4 rw 0 0
/dev/sdb1 /home/ada/my\\040disk xfs rw 0 0
mds:/scratch /scratch lustre rw 0 0
/dev/sdc1 /data ext4 rw 0 0
files:/data /data nfs4 rw 0 0
files:/cache /cache nfs4 rw 0 0
/dev/sdd1 /cache ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/ada/x", "nfs4"),
        ("/home/ada/my disk/x", "xfs"),
        ("/scratch", "lustre"),
        ("/homes/x", "ext4"),
        ("/data/x", "nfs4"),
        ("/cache/x", "ext4"),
    ],
)
def test_the_nearest_mount_decides_what_disk_a_path_is_on(path, kind):
    """Whole parts of the path are compared; of two mounts on one folder the later one hides the earlier."""
    assert find_file_system(Path(path), MOUNTS) == kind


def test_on_a_network_disk_there_is_no_shared_memory(tmp_path, monkeypatch, make_item):
    """Several hosts would spoil a file in WAL mode, so it is locked as a whole instead."""
    assert not is_on_network_disk(tmp_path)
    local = Store(str(tmp_path / "local.db"))
    monkeypatch.setattr("assay.cache.store.is_on_network_disk", lambda path: True)
    remote = Store(str(tmp_path / "remote.db"))
    for store in (local, remote):
        store.put_many([make_item()])
        assert store.stats().verdicts == 1
        store.close()
    assert mode_of(tmp_path / "local.db") == "wal"
    assert mode_of(tmp_path / "remote.db") == "delete"
