"""Rubric files to criteria and back."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self, cast

from assay.aggregation import Aggregation
from assay.criterion import Criterion
from assay.loading.entry import Entry
from assay.loading.golden import Golden
from assay.loading.read import Reader
from assay.loading.source import Place, place_of_file, place_of_text
from assay.loading.write import as_json, as_yaml, rubric_data, rubric_hash

__all__ = ["Loadable", "criterion_of"]

_OUTER = ("weights", "autograder", "aggregation", "name")
"""Options of the outer rubric alone; a nested one gets its grader from the rubric around it."""


class Loadable:
    """What reads from files and writes to them: something with criteria, a name and an aggregation.

    Every reader takes `allow_code=True`, which lets the file name functions of yours, and the
    options of the constructor, such as `autograder=` and `parser=`. What is wrong with a file is
    raised as a `RubricFileError` that names the file, the line and the field.
    """

    name: str
    aggregation: Aggregation
    golden: tuple[Golden, ...] = ()
    """Examples with the verdicts that they should get; no part of what the rubric is, or of its hash."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Any, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that data describes: a list of criteria, or a mapping with one.

        >>> from assay import Rubric
        >>> Rubric.from_dict([{"check": {"contains": "Paris"}, "weight": 2}])
        <Rubric [contains +2]>
        """
        return cls._read(Place(data), allow_code, options)

    @classmethod
    def from_json(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a JSON text describes."""
        return cls._read(place_of_text(text, "json"), allow_code, options)

    @classmethod
    def from_yaml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a YAML text describes, by the rules of YAML 1.2."""
        return cls._read(place_of_text(text, "yaml"), allow_code, options)

    @classmethod
    def from_toml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a TOML text describes."""
        return cls._read(place_of_text(text, "toml"), allow_code, options)

    @classmethod
    def from_file(
        cls, file: str | Path | IO[Any], *, allow_code: bool = False, **options: Any
    ) -> Self:
        """The rubric in a `.json`, `.yaml`, `.yml` or `.toml` file: a path, or an open file."""
        return cls._read(place_of_file(file), allow_code, options)

    @classmethod
    def _read(cls, place: Place, allow_code: bool, options: dict[str, Any]) -> Self:
        make = cast("Any", cls)

        def build(criteria: list[Criterion], given: dict[str, Any], is_outer: bool) -> Any:
            return make(criteria, **given | (options if is_outer else inner_options(options)))

        return Reader(build, allow_code).rubric(place)

    def to_dict(self) -> dict[str, Any]:
        """The rubric as `from_dict` reads it back; what is as usual is left out.

        Its parser, grader and other objects are no part of it. Raises `RubricError` when a check
        has no name that a file can give, as a lambda has none.
        """
        data = rubric_data(self.name, self.aggregation, self.criteria)
        golden = [example.to_dict() for example in self.golden]
        return {**data, "golden": golden} if golden else data

    def to_json(self) -> str:
        """The rubric as a JSON text."""
        return as_json(self.to_dict())

    def to_yaml(self) -> str:
        """The rubric as a YAML text."""
        return as_yaml(self.to_dict())

    @property
    def content_hash(self) -> str:
        """A SHA-256 of its name, aggregation and criteria in order; the same however it is spelled."""
        return rubric_hash(self.name, self.aggregation, self.criteria)


def criterion_of(data: Mapping[str, Any], index: int, build: Callable[..., Any]) -> Criterion:
    """The criterion that a mapping describes, as an entry of a file would."""

    def nested(place: Place, label: str) -> Any:
        return Reader(lambda criteria, given, _: build(criteria, **given)).rubric(place, level=1)

    entry = Entry(Place(dict(data)), f"Invalid criterion at index {index}")
    return entry.criterion(nested, allow_code=False)


def inner_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a rubric that also hold for the rubrics inside it."""
    return {key: value for key, value in options.items() if key not in _OUTER}
