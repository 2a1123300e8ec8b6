"""Keeps a Ray in a network of its own, and runs programs there: `unshare … python ray_keeper.py FOLDER`.

Ray listens on all interfaces, so it gets a namespace that has only the loopback. What to do comes as lines of
JSON: {"start": [program, …]}, {"wait": pid}, {"kill": pid}, {"kill_worker": name}; each is answered by a line.
When there are no more, or when this process is killed, all that runs here ends.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import ray

SET_FLAGS, UP = 0x8914, 0x1


def main():
    """Serve standard input."""
    folder = sys.argv[1]
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=folder,
        object_store_memory=100_000_000,
    )
    os.environ["RAY_ADDRESS"] = context.address_info["address"]
    started = {}
    tell({"ready": True})
    for line in sys.stdin:
        tell(answer(json.loads(line), started))
    ray.shutdown()


def tell(what):
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def answer(asked, started):
    if "start" in asked:
        process = subprocess.Popen(
            [sys.executable, *asked["start"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started[process.pid] = process
        return {"pid": process.pid}
    if "kill_worker" in asked:
        return {"killed": kill_worker(asked["kill_worker"])}
    process = started[asked.get("wait") or asked["kill"]]
    if "kill" in asked:
        process.kill()
    said, _ = process.communicate()
    return {"code": process.returncode, "said": said}


def kill_worker(name):
    """SIGKILL to one process that runs a task of this name."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.read_bytes().startswith(f"ray::{name}".encode()):
            os.kill(int(path.parent.name), signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    main()
