"""Serve a GGUF model on 127.0.0.1 with llama.cpp's OpenAI-compatible server, from the wheel `xllamacpp`.

In this process as a `LocalServer`, in a child as a `LocalProcess`, or as a program: `python -m assay.local.llama_server`.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, suppress
from typing import Any

from assay.errors import AssayError, Refused, import_extra
from assay.isolation.pool import processors
from assay.local.weights import weights_file

CONTEXT = 8192  # maximum tokens of prompt and reply together
REMEMBERED_MIB = 1024  # memory for cached prompts, so that alternating responses are not processed again each time
MAX_WRITTEN = 512  # maximum tokens of a reply; small models sometimes never stop, and a truncated reply is an error
TOKENS_AT_ONCE = 128  # tokens per batch, between two checks for cancelled requests; larger batches are not faster on a CPU
STOP_SECONDS = 10.0


class LocalServer(AbstractContextManager["LocalServer"]):
    """A server that starts when it is constructed. `url` is its address; `close` frees its threads and memory."""

    def __init__(
        self,
        model: str = "local",
        *,
        port: int = 0,
        threads: int | None = None,
        context: int = CONTEXT,
        key: str = "",
    ) -> None:
        """`model` is as in `weights_file`; `port` 0 means any free port; `threads` None means all cores.

        Requests are answered one at a time, and only those that carry the `key`; without one, a new key is made.
        """
        # The engine does not check the host name of a request, so a web page whose name resolves to this machine
        # could call it. Such a page does not know the key.
        self.key = key or secrets.token_urlsafe(24)
        self.name, path = weights_file(model)
        engine = import_extra("xllamacpp", "the local engine")
        settings = engine.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx = context
        settings.n_parallel = 1
        threads = threads or min(8, processors())  # more threads do not help a small model
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.n_predict = MAX_WRITTEN
        settings.n_batch = settings.n_ubatch = TOKENS_AT_ONCE
        settings.cache_ram_mib = REMEMBERED_MIB
        settings.hostnames = ["127.0.0.1"]
        # A web page in a browser on this machine must not be able to call it.
        settings.cors_origins = ""
        settings.ui = settings.endpoint_slots = settings.warmup = False
        settings.verbosity = 0
        settings.port = port
        settings.model_alias = {self.name}
        settings.api_keys = [self.key]
        try:
            self._server: Any = engine.Server(settings)
        except RuntimeError as error:
            advice = "see that it is a whole GGUF file and that there is memory for it"
            raise Refused(f"the local engine cannot run {path} ({error}): {advice}") from None
        self.url = f"{self._server.listening_address}/v1"

    def close(self) -> None:
        # The engine stops when its last reference is deleted.
        self._server = None

    def __exit__(self, *raised: object) -> None:
        self.close()


class LocalProcess:
    """A server in a child process. It is started on demand and after a crash, and ends with this process.

    A crash of native code or a lack of memory ends the child instead of a training run, and the engine's
    threads do not compete with ours.
    """

    def __init__(self, model: str, *, threads: int | None = None, context: int = CONTEXT) -> None:
        self.key = secrets.token_urlsafe(24)
        self._arguments = ["--model", model, "--context", str(context)]
        self._arguments += ["--threads", str(threads)] if threads else []
        self._lock = threading.RLock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = os.getpid()
        self._url = ""

    @property
    def pid(self) -> int | None:
        process = self._process
        # Only the parent can check this, so a forked child assumes that it is running.
        is_gone = process is None or (self._owner == os.getpid() and process.poll() is not None)
        return None if process is None or is_gone else process.pid

    @property
    def url(self) -> str:
        """The address of the server; empty while it is not running."""
        return self._url if self.pid is not None else ""

    def stop(self) -> None:
        """Stop the server. `start` starts a new one."""
        with self._lock:
            process, self._process = self._process, None
        # A forked child has a copy of this object, but the server belongs to the parent.
        if process is None or self._owner != os.getpid():
            return
        try:
            process.communicate(
                timeout=STOP_SECONDS
            )  # which closes its standard input and stops it
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def start(self) -> str:
        """Start the server if needed, and return its address. Blocks while the model loads: do not call it in the event loop."""
        with self._lock:
            if not self.url:
                self.stop()
                self._url = self._started()
            return self._url

    def _started(self) -> str:
        command = [
            sys.executable,
            "-m",
            "assay.local.llama_server",
            "--until-eof",
            *self._arguments,
        ]
        # Spinning threads make the engine extremely slow on a busy machine.
        environment = os.environ | {"ASSAY_LOCAL_KEY": self.key, "OMP_WAIT_POLICY": "passive"}
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
            self._owner = os.getpid()
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=environment,
            )
            line = process.stdout.readline() if process.stdout is not None else ""
            if line:
                return str(json.loads(line)["url"])
            status = process.wait()
            complaints.seek(0)
            said = complaints.read().strip()[-1000:] or "it said nothing"
            raise Refused(f"the local engine did not start (exit status {status}): {said}")


def main(arguments: list[str] | None = None) -> int:
    """Serve until stopped. The first line on stdout is the address, as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m assay.local.llama_server",
        description="An OpenAI-compatible server with a local model, on 127.0.0.1. "
        "Requests must carry the key of ASSAY_LOCAL_KEY; where that is not set, the key that the first "
        "line says.",
    )
    parser.add_argument("--model", default="local", help="local, local:NAME, local:FILE or smoke")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--threads", type=int, help="default: every core")
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens a request may have")
    parser.add_argument("--until-eof", action="store_true", help="stop when stdin ends")
    options = vars(parser.parse_args(arguments))
    until_eof, key = options.pop("until_eof"), os.environ.get("ASSAY_LOCAL_KEY", "")
    try:
        server = LocalServer(**options, key=key)
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    told = {"url": server.url, "model": server.name} | ({} if key else {"key": server.key})
    with server, suppress(KeyboardInterrupt):
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        if until_eof:
            # The parent holds the other end, so this process ends with it in any case.
            sys.stdin.buffer.read()
        else:
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
