"""Endings: what it means for a task that its time is up, or that its worker has died."""

import signal
from typing import Final

from assay.isolation.outcome import Outcome

_OWN_FAULT: Final = frozenset(
    {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP", "SIGXCPU", "SIGXFSZ"}
)
"""Signals that a process gets for what it did itself. Any other came from outside."""


def out_of_time(timeout: float, seconds: float) -> Outcome:
    """It has worked for as long as it may."""
    message = f"TimeoutError: still working after {timeout:g} s, and stopped"
    return Outcome(kind="timeout", message=message, seconds=seconds)


def out_of_wall_time(hard_timeout: float, since: float, seconds: float) -> Outcome:
    """However much of it was work, it has taken as long as it may."""
    message = f"TimeoutError: not done {hard_timeout:g} s after it began, and stopped"
    if since - seconds > 0.1 * since:
        message += f" ({seconds:.2g} s of that was work, the rest waiting for a processor)"
    return Outcome(kind="timeout", message=message, seconds=seconds)


def never_loaded(name: str, limit: float, seconds: float) -> Outcome:
    """Its function took too long to import."""
    message = f"TimeoutError: {name} was not loaded within {limit:g} s"
    return Outcome(kind="timeout", message=message, seconds=seconds)


def died_of(status: int | None, timeout: float) -> Outcome | None:
    """What the end of a worker says of its task; None when the task need not be to blame.

    `status` is an exit status, below 0 a signal, None when nobody knows.
    """
    if status is None:
        return None
    if status >= 0:
        message = f"RuntimeError: the worker ended itself, with exit status {status}"
        return Outcome(kind="crashed", message=message)
    name = signal_name(status)
    if name == "SIGPROF":  # the clock of last resort, see `clock`
        return out_of_time(timeout, timeout)
    if name in _OWN_FAULT:
        return Outcome(kind="crashed", message=f"RuntimeError: the worker died of {name}")
    return None


def lost_twice(status: int | None) -> Outcome:
    """Two workers died over the same task, and neither by its own doing."""
    if status is None:
        message = "RuntimeError: its worker was lost, and so was a second one"
        return Outcome(kind="lost", message=message)
    name = signal_name(status)
    message = f"RuntimeError: its worker was ended by {name}, and so was a second one"
    if name == "SIGKILL":
        message += ": perhaps the machine is out of memory"
    return Outcome(kind="crashed", message=message)


def signal_name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
