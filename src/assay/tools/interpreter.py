"""python: code, run in an interpreter of its own with limits on all it takes."""

import asyncio
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

from assay.tools.failures import failure
from assay.tools.program import Program
from assay.wording import short_repr

LONGEST: Final = 100_000
"""Characters of the longest code."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Runs Python code, each time in a fresh interpreter, within these limits.

    Its methods are the tools: `ToolRubric(tools=[Interpreter(seconds=60).python])`. As many run at
    once as there are processors; others wait, and their clock with them.

    >>> Interpreter(memory=256 * 2**20).python("print(6 * 7)")
    '42'
    """

    seconds: float = 10.0
    """Seconds of processor time for each process (not on Windows)."""
    wall_seconds: float = 30.0
    """Seconds from start to end, whatever they are spent on."""
    memory: int = 2**30
    """Bytes of address space for each process (Linux)."""
    file_size: int = 2**24
    """Bytes of the largest file it may write, and of what it may print (not on Windows)."""
    processes: int = 32
    """Processes that may run at the same time, itself included (Linux)."""
    output: int = 10_000
    """Bytes of what was printed that are shown: of more, the beginning and the end."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wanted = (int, float) if field.type is float else (int,)
            if type(value) not in wanted or not 0 < value < 2**62:
                raise ValueError(f"{field.name} is {short_repr(value)}: give a number above 0")

    def python(self, code: str) -> str:
        """Runs Python code in a fresh interpreter, and gives back what it prints.

        Args:
            code: The code. Print what you want to see.

        Returns:
            What was printed, or "Error: ..." with the reason and then what was printed.
        """
        if refusal := _refusal(code):
            return refusal
        program = Program(code, self)
        try:
            return _begun(program).result()
        except BaseException:
            program.stop()
            raise

    async def python_async(self, code: str) -> str:
        """Runs Python code as `python` does, without holding up the event loop.

        When its caller is cancelled, the code is stopped.

        Args:
            code: The code. Print what you want to see.

        Returns:
            What was printed, or "Error: ..." with the reason and then what was printed.
        """
        if refusal := _refusal(code):
            return refusal
        program = Program(code, self)
        try:
            return await asyncio.wrap_future(_begun(program))
        except BaseException:
            program.stop()
            raise

    def fences(self) -> frozenset[str]:
        """Which fences stand here, of `others`, `processes`, `memory`, `network` and `files`."""
        program = Program("", self)
        _begun(program).result()
        return program.fences


def _refusal(code: str) -> str:
    if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return failure(f"the code is {short_repr(code)}: give it as text")
    if len(code) > LONGEST:
        return failure(f"the code has {len(code):,} characters: {LONGEST:,} is the most")
    return ""


def _begun(program: Program) -> "Future[str]":
    return _places(os.getpid()).submit(program.run)


@cache
def _places(process: int) -> ThreadPoolExecutor:
    """Room for as many programs as there are processors. A forked child has its own."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return ThreadPoolExecutor(len(processors) or os.cpu_count() or 1, "assay-python")


_usual = Interpreter()
python = _usual.python
python_async = _usual.python_async
