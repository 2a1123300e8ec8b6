"""Both stores, SQLite and PostgreSQL: what goes in comes out, and the first verdict stays."""

import json
import subprocess
import sys

import pytest

from assay.cache import Selection, export_lines, import_lines, open_store
from assay.errors import CacheError


def test_what_is_put_is_found_and_nothing_else(store, make_item):
    """One of two keys."""
    (key, verdict), (other, _) = (
        make_item(1, reason="yes", cost=0.5, usage={"prompt": 9}),
        make_item(2),
    )
    store.put_many([(key, verdict)])
    assert store.get_many([key, other]) == {key: verdict}


def test_many_keys_are_found_at_once(store, make_item):
    """More than a statement takes parameters."""
    items = [make_item(number) for number in range(1201)]
    store.put_many(items)
    assert store.get_many([key for key, _ in items]) == dict(items)


def test_the_first_verdict_stays(store, make_item):
    """A run that asked twice gives one answer from then on."""
    (key, first), (_, second) = make_item(verdict="MET"), make_item(verdict="UNMET")
    store.put_many([(key, first)])
    store.put_many([(key, second)])
    assert store.get_many([key]) == {key: first}


def test_it_is_there_when_opened_again(store_location, make_item):
    """By another program, later."""
    key, verdict = make_item()
    first = open_store(store_location)
    first.put_many([(key, verdict)])
    first.close()
    second = open_store(store_location)
    assert second.get_many([key]) == {key: verdict}
    second.close()


def test_nothing_put_and_nothing_asked_is_no_trouble(store):
    """Empty batches."""
    store.put_many([])
    assert store.get_many([]) == {}


@pytest.fixture
def stocked(store, make_item):
    """Two verdicts of one judge and one of another, made at 100, 200 and 300 s."""
    store.put_many([make_item(1, judge="openai/small", created=100.0, cost=0.25)])
    store.put_many([make_item(2, judge="openai/small", created=200.0)])
    store.put_many([make_item(3, judge="local_x", created=300.0, cost=0.5, question="r")])
    return store


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(judge="openai/small"), [300.0]),
        (Selection(judge="openai/*"), [300.0]),
        (Selection(judge="*"), []),
        (Selection(judge="OPENAI/*"), [100.0, 200.0, 300.0]),
        (Selection(judge="local%"), [100.0, 200.0, 300.0]),
        (Selection(before=200.0), [200.0, 300.0]),
        (Selection(judge="openai/*", before=200.0), [200.0, 300.0]),
        (Selection(question="r"), [100.0, 200.0]),
        (Selection(), []),
    ],
)
def test_what_is_pruned_is_gone_and_counted(stocked, selection, left):
    """By judge, by age, by question, all of it."""
    assert stocked.prune(selection) == 3 - len(left)
    assert [verdict.created for _, verdict in stocked.entries()] == left


def test_entries_can_be_narrowed_and_limited(stocked):
    """For a look at what is there."""
    ours = stocked.entries(Selection(judge="openai/*"), limit=1)
    assert [verdict.created for _, verdict in ours] == [100.0]


def test_entries_go_on_past_the_first_page(store, make_item):
    """1,203 in pages of 1,000, and 1,100 when so many are asked for."""
    store.put_many([make_item(number) for number in range(1203)])
    assert len(list(store.entries())) == 1203
    assert len(list(store.entries(limit=1100))) == 1100


def test_stats_count_verdicts_judges_and_money(stocked):
    """0.25 + 0.5 dollars; one price was not known."""
    stats = stocked.stats()
    assert (stats.verdicts, stats.cost) == (3, 0.75)
    assert stats.judges == {"openai/small": 2, "local_x": 1}
    assert (stats.oldest, stats.newest) == (100.0, 300.0)
    assert stats.size > 0


def test_an_empty_store_has_stats_too(store):
    """No dates, no judges."""
    stats = store.stats()
    assert (stats.verdicts, stats.judges, stats.oldest, stats.cost) == (0, {}, None, 0.0)


def test_exported_lines_go_into_another_store(stocked, tmp_path):
    """Whole, and merged with what is there."""
    lines = list(export_lines(stocked))
    assert json.loads(lines[0])["judge"] == "openai/small"
    other = open_store(tmp_path / "other")
    assert import_lines(other, lines) == 3
    assert import_lines(other, [*lines, "\n"]) == 3
    assert list(other.entries()) == list(stocked.entries())
    other.close()


@pytest.mark.parametrize("line", ["{", "[]", '{"question": "q"}', "3"])
def test_a_line_that_was_not_exported_is_named(store, line):
    """By its number."""
    with pytest.raises(CacheError, match=r"line 1: .* is not an exported verdict"):
        import_lines(store, [line])


HAMMER = """
import sys
from assay.cache import CachedVerdict, VerdictKey, open_store
place, me = sys.argv[1:]
store = open_store(place)
for number in range(60):
    own = VerdictKey("q", f"{me}-{number}", "m", "1")
    shared = VerdictKey("q", f"all-{number}", "m", "1")
    store.put_many([(own, CachedVerdict(me)), (shared, CachedVerdict(me))])
    found = store.get_many([own, shared])
    assert found[own].verdict == me
    print(number, found[shared].verdict)
store.close()
"""


@pytest.mark.slow
def test_several_processes_hammer_one_store(store_location):
    """Six at once on a store that none has made: nothing lost, and all read the same verdicts."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, store_location, f"w{n}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(6)
    ]
    said = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 6
    # A shared key has whatever came first, for everybody.
    assert len(set(said)) == 1
    store = open_store(store_location)
    assert store.stats().verdicts == 6 * 60 + 60
    store.close()


@pytest.mark.slow
def test_a_store_goes_on_after_a_fork(store_location, make_item):
    """Parent and child each use a connection of their own."""
    code = """
import os, sys
from assay.cache import CachedVerdict, VerdictKey, open_store
store = open_store(sys.argv[1])
def put(name):
    store.put_many([(VerdictKey("q", name, "m", "1"), CachedVerdict("MET"))])
put("before")
child = os.fork()
for number in range(50):
    put(f"{'parent' if child else 'child'} {number}")
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(store.stats().verdicts)
    store.close()
else:
    os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, store_location], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("101\n", "")
