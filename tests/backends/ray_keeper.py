"""Start Ray in a network namespace, and run programs there: `unshare … python ray_keeper.py FOLDER`.

Ray listens on all interfaces, so it gets a namespace that has only the loopback. Commands are lines of JSON:
{"start": [program, …]}, {"wait": pid}, {"kill": pid}, {"kill_worker": name}; each is answered by a line.
When the input ends, or when this process is killed, everything that runs here ends.
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
    """Execute the commands of standard input."""
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
    print_json({"ready": True})
    for line in sys.stdin:
        print_json(execute(json.loads(line), started))
    ray.shutdown()


def print_json(data):
    sys.stdout.write(f"{json.dumps(data)}\n")
    sys.stdout.flush()


def execute(command, started):
    if "start" in command:
        process = subprocess.Popen(
            [sys.executable, *command["start"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started[process.pid] = process
        return {"pid": process.pid}
    if "kill_worker" in command:
        return {"killed": kill_worker(command["kill_worker"])}
    process = started[command.get("wait") or command["kill"]]
    if "kill" in command:
        process.kill()
    output, _ = process.communicate()
    return {"code": process.returncode, "output": output}


def kill_worker(name):
    """Send SIGKILL to a process that runs a task of this name; return how many were killed."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.read_bytes().startswith(f"ray::{name}".encode()):
            os.kill(int(path.parent.name), signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    main()
