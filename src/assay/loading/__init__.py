"""Load rubrics from files and write them again. `tools/rubric_schema.py` makes their schema, `rubric.schema.json`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, Self

from assay.aggregation import AGGREGATIONS, Aggregation
from assay.criterion import Criterion, hash_of, path_of, reference_of
from assay.errors import RubricError
from assay.loading.document import HALF, Node, dump_yaml, read_file, read_text
from assay.loading.rubric_reader import CriterionEntry, Golden, RubricReader
from assay.messages import Shows
from assay.shaping import ShapingPart

__all__ = ["SCHEMA_FILE", "Loadable", "criterion_of"]

SCHEMA_FILE: Final = Path(__file__).with_name(
    "rubric.schema.json"
)  # the JSON Schema of rubric files, for editors


class Loadable:
    """What reads from files and writes to them: something with criteria, a name and an aggregation.

    Readers take `allow_code=True`, which lets the file name functions of yours, and options of the constructor. What
    is wrong with a file is raised as a `RubricFileError` that names the file, the line and the field.
    """

    name: str
    aggregation: Aggregation
    shows: Shows | None = None
    told_shows: Shows | None = (
        None  # what a caller said instead, which holds for the rubrics that rows bring too
    )
    shaping: tuple[ShapingPart, ...] = ()
    # Examples with the verdicts that they should get; no part of what the rubric is, or of its hash.
    golden: tuple[Golden, ...] = ()

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
        return cls.from_node(Node(data), allow_code=allow_code, **options)

    @classmethod
    def from_json(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a JSON text describes."""
        return cls.from_node(read_text(text, "json"), allow_code=allow_code, **options)

    @classmethod
    def from_yaml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a YAML text describes, by the rules of YAML 1.2."""
        return cls.from_node(read_text(text, "yaml"), allow_code=allow_code, **options)

    @classmethod
    def from_toml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that a TOML text describes."""
        return cls.from_node(read_text(text, "toml"), allow_code=allow_code, **options)

    @classmethod
    def from_file(
        cls, file: str | Path | IO[Any], *, allow_code: bool = False, **options: Any
    ) -> Self:
        """The rubric in a `.json`, `.yaml`, `.yml` or `.toml` file: a path, or an open file."""
        return cls.from_node(read_file(file), allow_code=allow_code, **options)

    @classmethod
    def from_node(cls, node: Node, *, allow_code: bool = False, **options: Any) -> Self:
        """The rubric that stands at a node of a file that was read."""
        return RubricReader(cls, options, allow_code).rubric(node)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads back, without parser and grader; a check without a name is a `RubricError`."""
        data: dict[str, Any] = ({"name": self.name} if self.name else {}) | self.options_data()
        if self.aggregation is not AGGREGATIONS["weighted"]:
            own = self.aggregation.formula
            data["aggregation"] = self.aggregation.name if own is None else reference_of(own)
        try:
            data["criteria"] = [criterion.to_dict() for criterion in self.criteria]
        except RecursionError:
            raise RubricError("rubrics are nested too deep to be written: flatten them") from None
        if self.golden:
            data["golden"] = [example.to_dict() for example in self.golden]
        return data

    def to_json(self) -> str:
        """The rubric as a JSON text that can be saved as UTF-8."""
        data = self.to_dict()
        text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
        return json.dumps(data, indent=2, allow_nan=False) if HALF.search(text) else text

    def to_yaml(self) -> str:
        return dump_yaml(self.to_dict())

    @property
    def content_hash(self) -> str:
        """Return a SHA-256 of its name, aggregation and criteria in order, the same however it is spelled."""
        own = self.aggregation.formula
        said: dict[str, Any] = {
            "format": "assay.rubric/1",
            "name": self.name,
            **self.options_data(as_hash=True),
        }
        said["aggregation"] = self.aggregation.name if own is None else path_of(own)
        said["criteria"] = [criterion.content_hash for criterion in self.criteria]
        return hash_of(said)

    def options_data(self, *, as_hash: bool = False) -> dict[str, Any]:
        """What judges are shown and how rewards are shaped, as a file says it; nothing where it says nothing."""
        shows = [] if self.shows is None else list(self.shows)
        data = {"shows": shows[0] if len(shows) == 1 else shows} if shows else {}
        return data | (
            {"shaping": [part.data(as_hash=as_hash) for part in self.shaping]}
            if self.shaping
            else {}
        )


def criterion_of(data: Mapping[str, Any], index: int, build: Callable[..., Any]) -> Criterion:
    """The criterion that a mapping describes, as an entry of a file would."""
    return CriterionEntry(Node(dict(data)), f"Invalid criterion at index {index}").criterion(
        RubricReader(build)
    )
