"""Job: what a worker has to know to score any shard of a run."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

from assay.errors import RubricError
from assay.graders.base import Autograder
from assay.runs import RunAbout

Make: TypeAlias = Callable[[], tuple[Any, Autograder | None]]
"""Makes the rubric and the grader, in the process that uses them: connections do not travel."""


def _empty() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Job:
    """One run, as every worker of it is told."""

    folder: str
    """Where parts are written; all workers see it."""
    about: Mapping[str, Any]
    """What `RunAbout.to_dict` gives."""
    make: bytes
    """A pickled `Make`."""
    spec: str
    """The hash of all that decides the results: parts of another spec are not this run's."""
    mapping: Mapping[str, str] = field(default_factory=_empty)
    """What columns are called, as in `rows_of`."""
    permits: str | None = None
    """Where workers ask for their turn at an endpoint; None when each sees to its own limits."""

    def made(self) -> tuple[Any, Autograder | None]:
        """The rubric and the grader, made once in a process."""
        return _made(self.make)

    def run_about(self) -> RunAbout:
        return RunAbout.from_dict(self.about)


def packed(make: Make) -> bytes:
    """A `Make` as bytes: by name where it has one, else, with cloudpickle, as it is."""
    try:
        return pickle.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as plain:
        try:
            cloudpickle: Any = import_module("cloudpickle")
            return cloudpickle.dumps(make)
        except ImportError:
            pass
        except (pickle.PicklingError, TypeError) as error:
            raise RubricError(
                f"this rubric cannot be sent to other processes ({error}): make it in a function of a "
                "module, and give that"
            ) from error
        raise RubricError(
            f"this rubric cannot be sent to other processes ({plain}): install 'assay[isolation]', or "
            "make it in a function of a module, and give that"
        ) from plain


def given(rubric: Any, grader: Autograder | None = None) -> Make:
    """A `Make` of what is there already."""
    return partial(_given, rubric, grader)


def _given(rubric: Any, grader: Autograder | None) -> tuple[Any, Autograder | None]:
    return rubric, grader


@cache
def _made(make: bytes) -> tuple[Any, Autograder | None]:
    return pickle.loads(make)()
