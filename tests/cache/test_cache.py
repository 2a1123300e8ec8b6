"""The async face: never in the loop's way, and what was answered is not lost."""

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from assay.cache import VerdictCache, open_store
from assay.errors import CacheError


class Watched:
    """A store in memory that counts its calls, and can be held up or made to fail."""

    where = "memory"

    def __init__(self):
        self.kept, self.loads, self.saves = {}, [], []
        self.gate = threading.Event()
        self.gate.set()
        self.saved = threading.Event()
        self.failing = False

    def get_many(self, keys):
        self.gate.wait()
        self.loads.append(len(keys))
        return {key: self.kept[key] for key in keys if key in self.kept}

    def put_many(self, items):
        self.gate.wait()
        if self.failing:
            raise OSError("no space left")
        self.saves.append(len(items))
        self.kept = dict(items) | self.kept
        self.saved.set()

    def close(self):
        pass


@pytest.fixture
def watched():
    return Watched()


async def test_a_verdict_is_found_before_it_is_stored(watched, make_item):
    """The store is held up; the verdict is there all the same."""
    key, verdict = make_item()
    async with VerdictCache(watched) as cache:
        watched.gate.clear()
        cache.put_soon([(key, verdict)])
        assert await cache.get(key) == verdict
        watched.gate.set()
    assert watched.kept == {key: verdict}


async def test_the_loop_goes_on_while_the_store_is_slow(watched, make_item):
    """The store answers only once the loop has opened its gate, so a loop that waited would hang."""
    key, _ = make_item()
    async with VerdictCache(watched) as cache:
        watched.gate.clear()
        asking = asyncio.create_task(cache.get(key))
        storing = asyncio.create_task(cache.put_many([make_item(2)]))
        while not asking.done() or not storing.done():
            await asyncio.sleep(0)
            watched.gate.set()
        assert asking.result() is None


async def test_who_asks_at_one_moment_is_answered_by_one_look(watched, make_item):
    """A hundred tasks, one call of the store."""
    items = [make_item(number) for number in range(100)]
    async with VerdictCache(watched) as cache:
        await cache.put_many(items[:50])
        found = await asyncio.gather(*(cache.get(key) for key, _ in items))
        assert found == [verdict for _, verdict in items[:50]] + [None] * 50
        assert watched.loads == [100]


async def test_one_who_is_cancelled_does_not_take_the_others_along(watched, make_item):
    """They share a look."""
    key, verdict = make_item()
    watched.kept[key] = verdict
    async with VerdictCache(watched) as cache:
        watched.gate.clear()
        one, other = (asyncio.create_task(cache.get(key)) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        watched.gate.set()
        assert await other == verdict
        assert one.cancelled()


async def test_verdicts_are_stored_together(watched, make_item):
    """What comes while the store is busy is one batch."""
    async with VerdictCache(watched) as cache:
        watched.gate.clear()
        for number in range(250):
            cache.put_soon([make_item(number)])
        watched.gate.set()
        await cache.put_many()
    assert sum(watched.saves) == 250
    assert len(watched.saves) < 10


async def test_on_return_from_put_many_it_is_stored(watched, make_item):
    """Another process could read it."""
    key, verdict = make_item()
    async with VerdictCache(watched) as cache:
        await cache.put_many([(key, verdict)])
        assert watched.kept == {key: verdict}


async def test_what_is_put_soon_is_stored_without_a_word(watched, make_item):
    """Nothing else is called, and it is there."""
    async with VerdictCache(watched) as cache:
        cache.put_soon([make_item()])
        assert await asyncio.to_thread(watched.saved.wait, 60)


async def test_what_cannot_be_stored_is_said_kept_and_tried_again(watched, make_item, caplog):
    """The disk is full; then there is room."""
    key, verdict = make_item()
    async with VerdictCache(watched) as cache:
        watched.failing = True
        with pytest.raises(CacheError, match=r"1 verdicts are not stored yet: .*no space left"):
            await cache.put_many([(key, verdict)])
        assert "no space left" in caplog.text
        assert await cache.get(key) == verdict
        watched.failing = False
        await cache.put_many()
    assert watched.kept == {key: verdict}


def test_closing_says_what_is_lost(watched, make_item):
    """Silence would be a verdict paid for twice."""
    cache = VerdictCache(watched)
    watched.failing = True
    cache.put_soon([make_item()])
    with pytest.raises(CacheError, match="not stored yet"):
        cache.close()
    with pytest.raises(CacheError, match="closed"):
        cache.put_soon([make_item(2)])


async def test_a_verdict_that_json_cannot_hold_spoils_no_batch(watched, make_item):
    """It is refused at the door; the others go in."""
    async with VerdictCache(watched) as cache:
        with pytest.raises(CacheError, match="use only what JSON can hold"):
            cache.put_soon([make_item(1, details={"model": object()})])
        await cache.put_many([make_item(2)])
    assert len(watched.kept) == 1


async def test_several_loops_may_use_one_cache(watched, make_item):
    """A sync door runs a loop of its own in a thread."""
    key, verdict = make_item()
    cache = VerdictCache(watched)
    await cache.put_many([(key, verdict)])
    other = await asyncio.to_thread(lambda: asyncio.run(cache.get(key)))
    assert other == await cache.get(key) == verdict
    cache.close()


PROGRAM = """
import asyncio, os, signal, sys
from assay.cache import CachedVerdict, VerdictCache, VerdictKey

def item(number):
    return VerdictKey("q", str(number), "m", "1"), CachedVerdict("MET")

async def main(how):
    cache = VerdictCache(sys.argv[1])
    if how == "killed":
        await cache.put_many(map(item, range(7)))
        os.kill(os.getpid(), signal.SIGKILL)
    cache.put_soon(map(item, range(7)))
    if how == "ctrl-c":
        print("ready", flush=True)
        await asyncio.sleep(3600)
    if how == "raises":
        raise RuntimeError

asyncio.run(main(sys.argv[2]))
"""


@pytest.mark.parametrize("how", ["ends", "raises", "ctrl-c", "killed"])
@pytest.mark.slow
def test_what_was_answered_outlives_the_program(tmp_path, how):
    """However it ends; killed outright, what `put_many` returned from."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if how == "ctrl-c":
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
    program.communicate()
    store = open_store(tmp_path)
    assert store.stats().verdicts == 7
    store.close()


@pytest.mark.slow
def test_after_a_fork_parent_and_child_store_what_is_theirs(tmp_path):
    """Verdicts that wait when the program forks are stored once, by the parent."""
    code = """
import asyncio, os, sys
from assay.cache import CachedVerdict, VerdictCache, VerdictKey
cache = VerdictCache(sys.argv[1])
def put(name):
    cache.put_soon([(VerdictKey("q", name, "m", "1"), CachedVerdict(name))])
put("before")
child = os.fork()
put("parent" if child else "child")
found = asyncio.run(cache.get(VerdictKey("q", "nowhere", "m", "1")))
assert found is None
cache.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = open_store(tmp_path)
    assert sorted(verdict.verdict for _, verdict in store.entries()) == [
        "before",
        "child",
        "parent",
    ]
    store.close()


async def test_a_cancelled_caller_does_not_stop_the_storing(watched, make_item):
    """The next verdict is stored, and the cache can be closed."""
    async with VerdictCache(watched) as cache:
        watched.gate.clear()
        storing = asyncio.create_task(cache.put_many([make_item(1)]))
        other = asyncio.create_task(cache.put_many([make_item(2)]))
        await asyncio.sleep(0)
        storing.cancel()
        await asyncio.wait([storing])
        watched.gate.set()
        await other
        await cache.put_many([make_item(3)])
    assert len(watched.kept) == 3


@pytest.mark.parametrize("failure", [SystemExit, KeyboardInterrupt, MemoryError])
async def test_a_store_may_raise_anything(watched, make_item, monkeypatch, failure):
    """The caller is told, and the next batch is stored together with what failed."""

    def raising(items):
        raise failure

    async with VerdictCache(watched) as cache:
        with monkeypatch.context() as broken:
            broken.setattr(watched, "put_many", raising)
            with pytest.raises(CacheError, match=failure.__name__):
                await cache.put_many([make_item(1)])
        await cache.put_many([make_item(2)])
    assert len(watched.kept) == 2


async def test_a_cancelled_look_is_not_the_end_of_looking(watched, make_item):
    """All tasks of a loop are cancelled, as some frameworks do; the next caller gets its verdict."""
    key, verdict = make_item()
    async with VerdictCache(watched) as cache:
        await cache.put_many([(key, verdict)])
        looking = asyncio.create_task(cache.get(key))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait([looking])
        assert await cache.get(key) == verdict


def test_a_cache_that_could_not_store_lets_the_program_end():
    """Closed once with an error, it is closed again when the program ends, and must not wait then."""
    code = """
from assay.cache import CachedVerdict, VerdictCache, VerdictKey
from assay.errors import CacheError

class Full:
    where = "nowhere"
    def put_many(self, items): raise OSError("no space left")
    def get_many(self, keys): return {}
    def close(self): pass

cache = VerdictCache(Full())
cache.put_soon([(VerdictKey("q", "t", "j", "p"), CachedVerdict("MET"))])
try:
    cache.close()
except CacheError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "no space left" in done.stdout) == (0, True)
