"""What runs beside the serving does not end unseen."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from assay import Rubric
from assay.server import RewardServer
from assay.server.control import Channel, Loaded, Ready
from assay.server.handle import Handle


async def gone():
    return 0


async def test_a_load_that_was_given_up_does_not_end_the_hearing_of_a_worker():
    """Its answer comes all the same, and what the worker says after that is heard."""
    ours, theirs = socket.socketpair()
    channel, worker = await Channel.over(ours), await Channel.over(theirs)
    handle = Handle(SimpleNamespace(wait=gone), channel)
    given_up, lost = (asyncio.create_task(handle.load(number, None)) for number in (1, 2))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    worker.send(Loaded(1, ""))
    worker.send(Ready())
    worker.close()
    ready = []
    await handle.until_it_ends(ready.append)
    assert (ready, await lost) == ([handle], "")


def test_a_server_that_cannot_start_says_so():
    """The block is not entered, and nothing waits."""
    server = RewardServer(Rubric([lambda completion: 1.0]))
    server._listening.close()
    with pytest.raises(OSError, match="Bad file descriptor"), server:
        pass
