"""The team's database: what is said when it cannot be used, and what is mended quietly."""

import subprocess
import sys

import psycopg
import pytest

from assay import MissingExtraError
from assay.cache import VerdictCache, open_store
from assay.errors import CacheError


def test_without_the_driver_the_extra_is_named(monkeypatch):
    """And nothing else of the cache needs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install psycopg\[binary\]"):
        open_store("postgresql://127.0.0.1/x")


def test_a_server_that_is_not_there_is_named_without_the_password():
    """Messages end up in logs."""
    with pytest.raises(CacheError, match="cannot be used") as caught:
        open_store("postgresql://ada:secret-word@127.0.0.1:1/x?sslpassword=secret-word")
    assert "127.0.0.1:1/x" in str(caught.value)
    assert "secret-word" not in str(caught.value)


@pytest.mark.slow
def test_a_wrong_password_is_said(postgres_url):
    """In the server's words, and without the password."""
    wrong = postgres_url.replace("open-sesame", "open-barley")
    with pytest.raises(CacheError, match="password authentication failed") as caught:
        open_store(wrong)
    assert "open-barley" not in str(caught.value)


@pytest.mark.slow
def test_a_lost_connection_is_opened_again(postgres_url, make_item):
    """The server ends our connection, and no caller hears of it."""
    store = open_store(postgres_url)
    key, verdict = make_item()
    store.put_many([(key, verdict)])
    store.get_many([key])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'assay'"
        ).fetchall()
    assert len(ended) == 1
    assert store.get_many([key]) == {key: verdict}
    store.put_many([make_item(2)])
    assert store.stats().verdicts == 2
    store.close()


@pytest.mark.slow
def test_a_newer_schema_is_refused(postgres_url):
    """As with a file."""
    open_store(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE assay_cache SET schema_version = 99")
    with pytest.raises(CacheError, match=r"newer version of assay.*schema 99"):
        open_store(postgres_url)


@pytest.mark.slow
async def test_the_async_face_is_the_same(postgres_url, make_item):
    """Put, found, and not asked for again."""
    async with VerdictCache(postgres_url) as cache:
        key, verdict = make_item()
        cache.put_soon([(key, verdict)])
        assert await cache.get(key) == verdict
        await cache.put_many()
        assert cache.store.get_many([key]) == {key: verdict}


@pytest.mark.slow
def test_two_that_store_the_same_keys_in_other_orders_do_not_lock_each_other(postgres_url):
    """Each of two processes stores the same 200 verdicts, forwards and backwards, ten times."""
    code = """
import sys
from assay.cache import CachedVerdict, VerdictKey, open_store
place, step = sys.argv[1], int(sys.argv[2])
store = open_store(place)
for turn in range(10):
    keys = [VerdictKey("q", f"{turn}-{number}", "m", "1") for number in range(200)][::step]
    store.put_many([(key, CachedVerdict("MET")) for key in keys])
store.close()
"""
    commands = [[sys.executable, "-c", code, postgres_url, step] for step in ("1", "-1")]
    workers = [subprocess.Popen(c, stderr=subprocess.PIPE, text=True) for c in commands]
    assert [worker.communicate()[1] for worker in workers] == ["", ""]
    store = open_store(postgres_url)
    assert store.stats().verdicts == 2000
    store.close()
