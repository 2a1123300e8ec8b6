"""Read what a piece of work costs this process: CPU seconds and peak memory.

CPU time rather than wall time, so that a busy machine does not change the answer much.
"""

import gc
import resource
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


async def cpu_seconds(work: Awaitable[object]) -> float:
    """CPU seconds of one awaited piece of work, without the garbage left by earlier ones."""
    gc.collect()
    start = time.process_time()
    await work
    return time.process_time() - start


async def peak_growth(work: Awaitable[object]) -> int:
    """Bytes by which resident memory rises, at its highest, above where it stood before."""
    gc.collect()
    before = _resident_before()
    await work
    return _peak() - before


def _resident_before() -> int:
    # An import can peak far above what it keeps, which would hide the growth: on Linux,
    # writing 5 lowers the high-water mark to the present size. Elsewhere the old mark stays.
    if not _CLEAR_REFS.exists():
        return _peak()
    _CLEAR_REFS.write_text("5")
    return _status_bytes("VmRSS")


def _peak() -> int:
    if _STATUS.exists():
        return _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_STATUS} has no line {field!r}: memory cannot be read here")
