"""Plan: all that is decided before the first shard is scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.backends.cutting import files_about, files_of, shards_of
from assay.backends.job import Make
from assay.backends.shards import Shard
from assay.engine import Traits
from assay.identity import hash_of
from assay.runs.metadata import RubricAbout, RunAbout, judge_of
from assay.runs.row_rubrics import RowRubrics


@dataclass(frozen=True)
class Plan:
    """What is run, on which shards."""

    make: Make
    about: RunAbout
    shards: Sequence[Shard]
    mapping: Mapping[str, str]
    may_ask: bool
    """Whether somebody outside may be asked, so that there are limits to share."""
    compares: str
    """The criterion that weighs the rollouts of an example against each other; empty when none does."""

    @classmethod
    def of(
        cls, make: Make, paths: Sequence[str | Path], *, rows: int, mapping: Mapping[str, str], about: RunAbout | None
    ) -> "Plan":
        rubric, grader = make()
        shared: Any = rubric.rubric if isinstance(rubric, RowRubrics) else rubric
        way = Traits(waits=True) if shared is None else Traits.of(shared)
        about = about or RunAbout.of("score", config={"map": dict(mapping)}, data=files_about(files_of(paths)))
        if about.rubric is None and shared is not None:
            about = about.with_fields(rubric=RubricAbout.of(shared))
        if about.judge is None:
            about = about.with_fields(judge=judge_of(shared, grader))
        return cls(
            make,
            about,
            shards_of(paths, rows=rows, mapping=mapping),
            mapping,
            may_ask=way.waits or grader is not None,
            compares=next(iter(way.compares), ""),
        )

    @cached_property
    def spec(self) -> str:
        """The hash of what decides the results: rubric, judge, settings, data, and how it is cut."""
        about, data = self.about, self.about.data
        known = {name: getattr(about, name) for name in ("kind", "model", "judge", "config")}
        paths = dict.fromkeys(shard.path for shard in self.shards)
        place = {path: number for number, path in enumerate(paths)}
        return hash_of(
            {
                **known,
                "rubric": None if about.rubric is None else about.rubric.hash,
                "data": data.get("fingerprint", data),
                "cuts": [[place[s.path], s.begin, s.end] for s in self.shards],
            }
        )

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)
