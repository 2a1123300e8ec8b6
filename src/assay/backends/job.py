"""Job: what a worker has to know to score any shard of a run."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

from assay.errors import RubricError
from assay.graders.autograder import Autograder
from assay.runs import RunAbout

Make: TypeAlias = Callable[[], tuple[Any, Autograder | None]]
"""Makes the rubric and the grader, in the process that uses them: connections do not travel."""


_ADVICE = "make it in a function of a module, and give that"


@dataclass(frozen=True)
class Job:
    """One run, as every worker of it is told."""

    folder: str
    """Where parts are written; all workers see it."""
    about: Mapping[str, Any]
    """What `RunAbout.to_dict` gives."""
    make: bytes
    """A pickled `Make`."""
    mapping: Mapping[str, str]
    """What columns are called, as in `rows_of`."""
    max_concurrent: int
    """Rollouts that a worker has under way at once where somebody is waited for."""
    exchanges: bool = False
    """Whether rows keep what judges were asked and said."""
    permits: "Permits | None" = None
    """Where to ask before a judge is asked; None where nobody is to be asked."""

    def made(self) -> tuple[Any, Autograder | None]:
        """The rubric and the grader, made once in a process."""
        return _made(self.make)

    def run_about(self) -> RunAbout:
        return RunAbout.from_dict(self.about)


@dataclass(frozen=True)
class Permits:
    """What a worker needs to ask for permits."""

    address: str
    """Host, port and secret."""
    is_money_limited: bool = False
    ends: float | None = None
    """When the time of the run is up, in seconds since 1970; None when it has no end."""


def packed(make: Make) -> bytes:
    """A `Make` as bytes: by name where it has one that others can import, else, with cloudpickle, as it is."""
    try:
        pickler: Any = import_module("cloudpickle")
        advice = _ADVICE
    except ImportError:
        pickler = pickle
        advice = f"install 'assay[isolation]', or {_ADVICE}"
    try:
        return pickler.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RubricError(f"this rubric cannot be sent to other processes ({error}): {advice}") from error


def given(rubric: Any, grader: Autograder | None = None) -> Make:
    """A `Make` of what is there already."""
    return partial(_given, rubric, grader)


def _given(rubric: Any, grader: Autograder | None) -> tuple[Any, Autograder | None]:
    return rubric, grader


@cache
def _made(make: bytes) -> tuple[Any, Autograder | None]:
    return pickle.loads(make)()
