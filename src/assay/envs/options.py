"""Options: how an evaluation is carried out."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from assay.graders.base import Autograder
from assay.runs.pipeline import OnProgress, OnRow
from assay.wording import did_you_mean

SIDE_BY_SIDE = 256
"""Rollouts under way at once, when nobody says otherwise; the endpoint's limits may allow fewer."""


class Options(TypedDict, total=False):
    """What `evaluate` and `generate` take besides what is asked of whom."""

    rollouts_per_example: int
    """How often each example is asked; the answers to one are scored as a group. 1."""
    max_concurrent: int | None
    """Rollouts under way at once. Said, the endpoint is pressed that hard from the start."""
    sampling_args: Mapping[str, Any] | None
    """`temperature`, `max_tokens`, `seed`, and whatever else the endpoint takes."""
    grader: Autograder | None
    """Who answers the criteria for a model, where the rubric does not say."""
    state_columns: Sequence[str]
    """Fields of the state to keep with each result."""
    run: str | os.PathLike[str] | None
    """The folder to keep the run in, a row as soon as its group is scored."""
    exchanges: bool
    """Whether to keep what judges were asked and said, word for word; on the first row of a group."""
    resume: bool
    """Whether to go on with the run in that folder: only what is missing or failed is done."""
    on_row: OnRow | None
    """Called with the `Row` of each rollout as soon as it is scored, and kept if there is a folder."""
    on_progress: OnProgress | None
    """Called with a `Progress` now and then."""
    stopping: Callable[[], bool] | None
    """Asked between rollouts. Once true, what is under way is finished, and no more begun."""


@dataclass(frozen=True)
class Settings:
    """The same, with everything filled in."""

    rollouts_per_example: int = 1
    max_concurrent: int | None = None
    sampling_args: Mapping[str, Any] | None = None
    grader: Autograder | None = None
    state_columns: Sequence[str] = ()
    run: str | os.PathLike[str] | None = None
    exchanges: bool = False
    resume: bool = False
    on_row: OnRow | None = None
    on_progress: OnProgress | None = None
    stopping: Callable[[], bool] | None = None

    @classmethod
    def of(cls, options: Options) -> "Settings":
        for name in options:
            if name not in cls.__dataclass_fields__:
                raise TypeError(
                    f"there is no option {name!r}: {did_you_mean(name, cls.__dataclass_fields__)}"
                )
        return cls(**options)

    def __post_init__(self) -> None:
        if type(self.rollouts_per_example) is not int or self.rollouts_per_example < 1:
            raise ValueError(
                f"rollouts_per_example is {self.rollouts_per_example!r}: give 1 or more"
            )
        if self.max_concurrent == -1:  # as elsewhere, for as many as may be
            object.__setattr__(self, "max_concurrent", None)
        if self.max_concurrent is not None and self.max_concurrent < 1:
            raise ValueError(f"max_concurrent is {self.max_concurrent!r}: give 1 or more")
        if self.resume and self.run is None:
            raise ValueError("resume goes on with a run: name its folder with run=")
        if isinstance(self.state_columns, str):
            raise ValueError(f"state_columns is {self.state_columns!r}: give a list of names")
