"""One client for each loop, and none left open."""

import asyncio
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from assay.models.client import Client, dumps, loads


async def test_a_loop_has_one_client(serve: Any, model_at: Any, question: Any) -> None:
    """Whoever asks; connections are kept and used again."""
    server = serve("hello")
    for n in range(5):
        await model_at(server)(question(str(n)))
    client = await Client.here()
    assert client is await Client.here()
    assert [len(connections) for connections in client.idle.values()] == [1]


def test_a_client_is_closed_with_its_loop(serve: Any, model_at: Any, question: Any) -> None:
    """A sync door runs a new loop each time."""
    model = model_at(serve("hello"))
    connections: list[Any] = []

    async def ask(number: int) -> str:
        text = (await model(question(str(number)))).text
        [idle] = (await Client.here()).idle.values()
        connections.extend(idle)
        return text

    assert [asyncio.run(ask(n)) for n in range(3)] == ["hello"] * 3
    assert [connection.is_open for connection in connections] == [False] * 3
    assert not [loop for loop in Client._clients if not loop.is_closed()]


PROGRAMS = {
    "runs": """
        for n in range(3):
            asyncio.run(ask(n))
    """,
    "threads": """
        threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """,
    "a loop that is closed by hand": """
        for n in range(2):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(ask(n))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
    """,
    "a failing program": """
        async def fail():
            await ask(1)
            raise SystemExit(0)
        asyncio.run(fail())
    """,
    "cancelled in the middle": """
        server.latency = 5
        async def stop():
            task = asyncio.ensure_future(ask(1))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
        asyncio.run(stop())
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_nothing_is_left_open(program: str) -> None:
    """With every warning an error, and nothing on stderr."""
    code = f"""
import asyncio, gc, threading
from assay.models import Request, model_of
from assay.testing import ModelServer

with ModelServer("hello") as server:
    model = model_of(server.model)
    async def ask(n):
        return await model(Request.of("s", str(n)))
{textwrap.indent(textwrap.dedent(program), "    ")}
    gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_starts_anew() -> None:
    """While its parent's calls hang and hold every place; and it closes nothing of the parent's."""
    code = """
import asyncio, os, sys
from assay import Limits, Request, model_of
from assay.testing import Fault, ModelServer

with ModelServer("hello", faults=lambda call: Fault.hanging() if call == 1 else None) as server:
    model = model_of(server.model, limits=Limits(concurrency=1, timeout=30))

    async def parent():
        await model(Request.of("s", "first"))
        hanging = asyncio.ensure_future(model(Request.of("s", "hangs")))
        while len(server.asked) < 2:
            await asyncio.sleep(0.01)
        child = os.fork()
        if child == 0:
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)
            said = asyncio.run(model(Request.of("s", "child"))).text
            os._exit(0 if said == "hello" else 1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        hanging.cancel()
        await asyncio.wait([hanging])
        again = await model(Request.of("s", "parent"))
        print(os.waitstatus_to_exitcode(status), again.text)

    asyncio.run(parent())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("0 hello\n", 0)


def test_json_takes_half_a_character() -> None:
    """Models under test write it."""
    assert loads(dumps({"text": "\ud83d"})) == {"text": "\ud83d"}
