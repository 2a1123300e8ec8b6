"""Rubric, as `rubric` spells it: a list of criteria, loaders, and `grade`."""

from collections.abc import Sequence
from typing import IO, Any, Self

import assay
from assay.compat.rubric import reading
from assay.compat.rubric.types import Criterion
from assay.compat.rubric.utils import default_per_criterion_generate_fn
from assay.graders import Autograder, PerCriterionGrader, ToGrade
from assay.report import EvaluationReport


class Rubric(assay.Rubric):
    """Judged criteria. What a `generate_fn` raises goes to the caller.

    >>> Rubric.from_dict([{"weight": 10.0, "requirement": "Names Paris"}]).rubric[0].weight
    10.0
    """

    def __init__(self, rubric: Sequence[assay.Criterion]) -> None:
        super().__init__(rubric, on_error="raise")
        self._given = list(rubric)

    @property
    def rubric(self) -> list[assay.Criterion]:
        """The criteria as they were given; a copy."""
        return list(self._given)

    async def grade(
        self, to_grade: ToGrade, autograder: Autograder | None = None, query: str | None = None, **kwargs: Any
    ) -> EvaluationReport:
        """The report on one text. Further keywords are not looked at."""
        if autograder is None:
            autograder = PerCriterionGrader(default_per_criterion_generate_fn)
        return await super().grade(to_grade, autograder, query)

    @staticmethod
    def validate_and_create_criteria(data: Any) -> list[Criterion]:
        """The criteria in a list, in sections, or under `rubric` or `sections`."""
        return reading.criteria(data)

    @classmethod
    def from_dict(cls, data: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rubric that plain data describes."""
        return cls(cls.validate_and_create_criteria(data))

    @classmethod
    def from_json(cls, json_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rubric in a JSON text."""
        return cls.from_dict(reading.parsed(json_string, ".json", "string"))

    @classmethod
    def from_yaml(cls, yaml_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rubric in a YAML text."""
        return cls.from_dict(reading.parsed(yaml_string, ".yaml", "string"))

    @classmethod
    def from_file(cls, source: reading.Source | IO[Any]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rubric in a `.json`, `.yaml` or `.yml` file: a path, or an open file with a name."""
        return cls.from_dict(reading.read(source))
