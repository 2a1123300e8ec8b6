"""Hand out turns to two clients that want as many as they can get: `scale_permits_worker.py TURNS`.

Prints JSON: CPU microseconds a turn, of the server's process and of a client's. Called with an address it is a
client.
"""

import asyncio
import json
import subprocess
import sys
import time

from assay.backends import PermitServer
from assay.backends.client import PermitClient
from assay.models import Limits

AT_ONCE = 64


def main() -> None:
    turns = int(sys.argv[1])
    if len(sys.argv) > 2:
        print(asyncio.run(_take(sys.argv[2], turns)))
        return
    with PermitServer() as server:
        before = time.process_time()
        command = [sys.executable, __file__, str(turns), server.address]
        clients = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        client = sum(float(client.communicate()[0]) for client in clients)
        spent = time.process_time() - before
    print(json.dumps({"server": 1e6 * spent / (2 * turns), "client": 1e6 * client / (2 * turns)}))


async def _take(address: str, turns: int) -> float:
    """CPU seconds for so many turns, by many tasks."""
    client = PermitClient(address)
    limits = Limits(concurrency=AT_ONCE)
    left = iter(range(turns))

    async def take() -> None:
        for _ in left:
            place = client.turns("http://judge", limits)
            await place.enter(900, again=False)
            place.leave("answered", 0.5)

    before = time.process_time()
    await asyncio.gather(*(take() for _ in range(AT_ONCE)))
    spent = time.process_time() - before
    await client.close()
    return spent


if __name__ == "__main__":
    main()
