"""Ctrl-C: once, and what is under way is finished and kept; twice, and it stops at once."""

import _thread
import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

PATIENCE = 1.0
"""Seconds that work may take to hear that it is cancelled."""


class Stopping:
    """Whether somebody wants the work to end. Ask it between two pieces of work."""

    def __init__(self) -> None:
        self.heard = 0
        """How often Ctrl-C was heard."""
        self._cancel: Callable[[], object] | None = None
        # A check that computes holds up the loop, which then hears of no cancelling.
        self._impatience = threading.Timer(PATIENCE, _interrupt_main)
        self._impatience.daemon = True

    def __call__(self) -> bool:
        return self.heard > 0

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work. When it is stopped at once, a `KeyboardInterrupt`."""

        async def cancellable() -> Result:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                return await work
            finally:
                self._cancel = None
                self._impatience.cancel()

        try:
            return asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Take note of a Ctrl-C. The second one cancels the work, and what does not hear that is broken off."""
        self.heard += 1
        if self.heard == 1:
            line = "finishing what is under way; Ctrl-C again stops at once"
            # A signal may come in the middle of another print, which cannot be interrupted by this one.
            with suppress(RuntimeError):
                print(f"\n{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
        elif self.heard == 2 and self._cancel is not None:
            self._cancel()
            self._impatience.start()
        else:
            raise KeyboardInterrupt


def _interrupt_main() -> None:
    """One more Ctrl-C, which wakes the main thread where the system can."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextmanager
def stoppable() -> Generator[Stopping]:
    """Hear Ctrl-C inside the block; afterwards whoever heard it before hears it again."""
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping  # only the main thread may hear signals
        return
    before = signal.signal(signal.SIGINT, stopping.hear)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)
