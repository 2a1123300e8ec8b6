"""The tool `python`: run code in a separate interpreter with resource limits."""

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from assay.tools import as_output, failure
from assay.wording import format_value

LONGEST: Final = 100_000  # maximum length of the code in characters
FENCES: Final = (
    "others",
    "processes",
    "memory",
    "network",
    "files",
)  # used where the system supports them
PATIENCE: Final = 5.0  # seconds that a warden may take to stop
_START: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; from assay.tools.warden import main; main()"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Runs Python code in a fresh interpreter per call, within these limits.

    Its methods are the tools: `ToolRubric(tools=[Interpreter(seconds=60).python])`. The number of
    concurrent programs is the number of processors; waiting time does not count.

    >>> Interpreter(memory=256 * 2**20).python("print(6 * 7)")
    '42'
    """

    seconds: float = 10.0  # seconds of processor time for each process
    wall_seconds: float = 30.0  # seconds of wall-clock time
    memory: int = 2**30  # bytes of address space for each process (Linux)
    file_size: int = 2**24  # maximum bytes of a file that it writes, and of its output
    processes: int = 32  # maximum number of concurrent processes, including itself (Linux)
    output: int = (
        10_000  # bytes of output in the reply; of longer output, the beginning and the end
    )

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wanted = (int, float) if field.type is float else (int,)
            if type(value) not in wanted or not 0 < value < 2**62:
                raise ValueError(f"{field.name} is {format_value(value)}: give a number above 0")

    def python(self, code: str) -> str:
        """Runs Python code in a fresh interpreter, and returns its output.

        Args:
            code: The code. Print what you want to see.

        Returns:
            What was printed, or "Error: ..." with the reason and then what was printed. If a program
            that succeeded prints "Error: ..." itself, that comes after a line "Output:".
        """
        with closing(Program(code, self)) as program:
            return program.begin().result()

    # Does not block the event loop. If its caller is cancelled, the code is stopped.
    async def python_async(self, code: str) -> str:
        with closing(Program(code, self)) as program:
            return await asyncio.wrap_future(program.begin())

    python_async.__doc__ = python.__doc__  # for a model it is the same tool

    def fences(self) -> frozenset[str]:
        """Return the fences that are available here: `others`, `processes`, `memory`, `network` and `files`."""
        program = Program("", self)
        program.begin().result()
        return program.fences


@cache
def _places(process: int) -> ThreadPoolExecutor:
    """A semaphore with one slot per processor. A forked child has its own."""
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    return ThreadPoolExecutor(processors or 1, "assay-python")


class Program:
    """One execution of code. `run` waits for it, and `close` stops it from any thread."""

    def __init__(self, code: str, limits: Interpreter) -> None:
        self._code = code
        self._limits = limits
        self._lock = threading.Lock()
        self._stdin: IO[bytes] | None = None  # of the warden, once it has started
        self._stopped = False
        self.fences: frozenset[str] = frozenset()  # the active fences, known after it has run

    def begin(self) -> "Future[str]":
        return _places(os.getpid()).submit(self.run)

    def run(self) -> str:
        """Return the output, with `Error:` and the reason in front of it if the code failed.

        Raises `OSError` if it could not be started.
        """
        if not isinstance(self._code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return failure(f"the code is {format_value(self._code)}: give it as text")
        if len(self._code) > LONGEST:
            return failure(f"the code has {len(self._code):,} characters: {LONGEST:,} is the most")
        folder = Path(tempfile.mkdtemp(prefix="assay-")).resolve()
        try:
            (folder / "main.py").write_bytes(self._code.encode(errors="surrogatepass"))
            with tempfile.TemporaryFile() as output:
                why = self._ran(folder, output)
                printed = self._shown(output, folder)
        finally:
            _remove(folder)
        if not why:
            return as_output(printed) or "(nothing was printed)"
        return f"{failure(why)}\n{printed}" if printed else failure(why)

    def close(self) -> None:
        """Stop it, if it is still running. Returns immediately."""
        with self._lock:
            self._stopped = True
            if self._stdin is not None:
                self._stdin.close()  # which tells the warden to stop

    def _ran(self, folder: Path, output: IO[bytes]) -> str:
        """Run to the end, and return the error, if there was one."""
        command = [sys.executable, "-I", "-u", "-X", "utf8", "main.py"]
        # Only the environment variables that an interpreter needs to start.
        needed = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
        environment = needed | dict.fromkeys(("HOME", "TMPDIR", "TEMP"), str(folder))
        if not sys.executable:
            raise OSError(
                "this program does not know its Python interpreter: sys.executable is empty"
            )
        listening, report = os.pipe()
        path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        around: dict[str, Any] = {
            "environment": environment,
            "folder": str(folder),
            "fences": FENCES,
            "path": path,
        }
        orders = {"command": command, "report": report, **around, **asdict(self._limits)}
        with os.fdopen(listening, "rb", buffering=0) as news:
            try:
                start = [sys.executable, "-I", "-S", "-c", _START, json.dumps(orders)]
                files: Any = {
                    "stdin": subprocess.PIPE,
                    "stdout": output,
                    "stderr": subprocess.STDOUT,
                }
                # In its own session, so that all its processes can be killed.
                process = subprocess.Popen[bytes](
                    start, env=needed, pass_fds=[report], start_new_session=True, **files
                )
            finally:
                os.close(report)
            with process:
                assert process.stdin is not None
                with self._lock:
                    self._stdin = process.stdin
                if self._stopped:  # in the meantime
                    self.close()
                return self._watched(process, news, output)

    def _watched(
        self, process: "subprocess.Popen[bytes]", news: IO[bytes], output: IO[bytes]
    ) -> str:
        heard: dict[str, Any] = {}
        in_time = _hear(news, heard, self._limits.wall_seconds)
        if not in_time:
            self.close()
            if not _hear(news, heard, PATIENCE):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        if "failed" in heard or status > 0:
            output.seek(0)
            said = heard.get("failed") or output.read(2000).decode(errors="replace").strip()
            raise OSError(f"the code could not be run: {said or f'exit status {status}'}")
        self.fences = frozenset(heard.get("fences", ()))
        if os.fstat(output.fileno()).st_size >= self._limits.file_size:
            return f"it printed more than {self._limits.file_size:,} bytes"
        if not in_time:
            return f"it was not done after {self._limits.wall_seconds:g} s, and was stopped"
        status = heard.get("status", status or -signal.SIGKILL)
        if status >= 0:
            return f"it ended with exit status {status}" if status else ""
        if -status == signal.SIGXCPU:
            return (
                f"it took more than {self._limits.seconds:g} s of processor time, and was stopped"
            )
        return f"it was ended by {next((kind.name for kind in signal.Signals if kind == -status), f'signal {-status}')}"

    def _shown(self, output: IO[bytes], folder: Path) -> str:
        """Return the output; of long output, the beginning and the end."""
        size, most = os.fstat(output.fileno()).st_size, self._limits.output
        output.seek(0)
        if size <= most:
            text = output.read().decode(errors="replace")
        else:
            head = output.read(most - most // 2).decode(errors="replace")
            output.seek(size - most // 2)
            tail = output.read().decode(errors="replace")
            text = f"{head}\n… {size - most:,} bytes left out …\n{tail}"
        # The name of the folder differs in every run, and would make equal runs differ.
        return text.replace(f"{folder}{os.sep}", "").replace(str(folder), ".").rstrip()


def _hear(news: IO[bytes], heard: dict[str, Any], seconds: float) -> bool:
    """Wait until the warden and its children have exited; False if that takes too long."""
    until = time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(news, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if waiting.poll(min(left, 3600) * 1000):
            said = news.read(65536)
            if not said:
                return True
            for line in said.splitlines():
                heard.update(json.loads(line))
    return False


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return  # the warden was faster
    except (OSError, RecursionError):
        # Folders without permissions, or nested deeper than Python's recursion limit.
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            with suppress(OSError):
                subprocess.run([*command, folder], check=False, stderr=subprocess.DEVNULL)


_usual = Interpreter()
python = _usual.python
python_async = _usual.python_async
