"""Load rubrics from files and write them. `tools/rubric_schema.py` makes `rubric.schema.json`."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import getattr_static
from pathlib import Path
from types import FunctionType
from typing import IO, Any, ClassVar, Final, Self, cast

from assay.aggregation import AGGREGATIONS, Aggregation
from assay.criterion import AskJudge, Criterion, get_file_reference, hash_json
from assay.errors import RubricError
from assay.identity import UNKNOWN, get_qualified_name, identify_or_unknown
from assay.loading.document import LONE_SURROGATE, Node, dump_yaml, read_file, read_text
from assay.loading.row_budget import RowBudget
from assay.loading.rubric_reader import CriterionEntry, Golden, RubricReader
from assay.messages import Shows
from assay.parsers import Parser
from assay.parsers.named import parser_to_data
from assay.reasoning import Thinking
from assay.shaping import ShapingPart

__all__ = ["SCHEMA_FILE", "Loadable", "read_criterion_data"]

# The JSON Schema of rubric files, for editors.
SCHEMA_FILE: Final = Path(__file__).with_name("rubric.schema.json")


class Loadable:
    """Base class of rubrics, which can be read from files and written to them.

    The methods that read take options of the constructor, and `allow_code=True` to let the file
    name functions. If a file is wrong, they raise a `RubricFileError` with the file, the line and
    the field.
    """

    # The attributes of every rubric, which its hash covers in another way, or which decide no score.
    _shared_attributes: ClassVar[frozenset[str]] = frozenset()

    name: str
    aggregation: Aggregation
    # What judges are shown.
    shows: Shows | None = None
    # What a caller said that judges are shown, which also applies to the rubrics of rows.
    caller_shows: Shows | None = None
    # Whether judges and text checks read reasoning, and what a caller said about it.
    thinking: Thinking | None = None
    caller_thinking: Thinking | None = None
    # What the rubrics that rows bring may use; None for the default.
    row_budget: RowBudget | None = None
    # The parser that a caller set, which also applies to the rubrics of rows.
    caller_parser: Parser | None = None
    shaping: tuple[ShapingPart, ...] = ()
    ask_judge: AskJudge = "always"
    # The columns that the judge is shown as the reference, unless a criterion names its own.
    reference: tuple[str, ...] = ()
    # Examples with expected answers. They are not part of the hash of the rubric.
    golden: tuple[Golden, ...] = ()

    @property
    def given_parser(self) -> Parser | None:
        raise NotImplementedError

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Any, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the rubric for data: a list of criteria, or a mapping with one.

        >>> from assay import Rubric
        >>> Rubric.from_dict([{"check": {"contains": "Paris"}, "weight": 2}])
        <Rubric [contains +2]>
        """
        return cls.from_node(Node(data), allow_code=allow_code, **options)

    @classmethod
    def from_json(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the rubric for a JSON text."""
        return cls.from_node(read_text(text, "json"), allow_code=allow_code, **options)

    @classmethod
    def from_yaml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the rubric for a YAML text, by the rules of YAML 1.2."""
        return cls.from_node(read_text(text, "yaml"), allow_code=allow_code, **options)

    @classmethod
    def from_toml(cls, text: str, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the rubric for a TOML text."""
        return cls.from_node(read_text(text, "toml"), allow_code=allow_code, **options)

    @classmethod
    def from_file(
        cls, file: str | Path | IO[Any], *, allow_code: bool = False, **options: Any
    ) -> Self:
        """Return the rubric in a `.json`, `.yaml`, `.yml` or `.toml` file: a path or an open file.

        A spreadsheet (`.csv`, `.tsv`, `.xlsx`) has a row for each criterion.
        """
        return cls.from_node(read_file(file), allow_code=allow_code, **options)

    @classmethod
    def from_node(cls, node: Node, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the rubric at a node of a document."""
        return RubricReader(cls, options, allow_code).read_rubric(node)

    def to_dict(self) -> dict[str, Any]:
        """Return data that `from_dict` reads back; the judge is not part of them.

        Raises `RubricError` if a file cannot name one of the checks, or the parser.
        """
        data: dict[str, Any] = {}
        if self.name:
            data["name"] = self.name
        data |= self.options_to_data()
        if self.aggregation is not AGGREGATIONS["weighted"]:
            formula = self.aggregation.formula
            data["aggregation"] = (
                self.aggregation.name if formula is None else get_file_reference(formula)
            )
        try:
            data["criteria"] = [self._criterion_to_dict(c) for c in self.criteria]
        except RecursionError:
            raise RubricError("rubrics are nested too deep to be written: flatten them") from None
        if self.golden:
            data["golden"] = [example.to_dict() for example in self.golden]
        return data

    def _criterion_to_dict(self, criterion: Criterion) -> dict[str, Any]:
        """Return a criterion as an entry of the file, without a reference that is the rubric's."""
        data = criterion.to_dict()
        if self.reference and criterion.reference == self.reference:
            del data["reference"]
        return data

    def to_json(self) -> str:
        """Return the rubric as a JSON text that can be saved as UTF-8."""
        data = self.to_dict()
        text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
        if LONE_SURROGATE.search(text):  # UTF-8 cannot store half a character, so all are escaped
            return json.dumps(data, indent=2, allow_nan=False)
        return text

    def to_yaml(self) -> str:
        """Return the rubric as a YAML text."""
        return dump_yaml(self.to_dict())

    @property
    def content_hash(self) -> str:
        """A SHA-256 of its name, options, criteria and code, whatever the format of its file.

        It is "unknown" if some of its code cannot be identified. Two unknown versions are never
        the same: compare with `assay.identity.is_same_version`.
        """
        formula = self.aggregation.formula
        return self._hash_with_code(
            {
                "format": "assay.rubric/1",
                "name": self.name,
                **self.options_to_data(as_hash=True),
                "aggregation": self.aggregation.name
                if formula is None
                else get_qualified_name(formula),
                "criteria": [criterion.content_hash for criterion in self.criteria],
            },
            parts="criteria",
        )

    def _hash_with_code(self, data: dict[str, Any], *, parts: str) -> str:
        """Return the hash of data and of users' code; "unknown" if a part or code is unknown.

        `parts` names the entry of the data that lists the hashes of the parts.
        """
        code = [identify_or_unknown(thing) for thing in self._list_code()]
        if UNKNOWN in data[parts] or UNKNOWN in code:
            return UNKNOWN
        if code:
            data = {**data, "code": code}
        return hash_json(data)

    def _list_code(self) -> list[object]:
        """Return functions, classes and objects of users that decide the score, besides checks."""
        code: list[object] = []
        parser = self.given_parser
        if parser is not None and parser_to_data(parser) is None:
            code.append(parser)
        if self.aggregation.formula is not None:
            code.append(self.aggregation.formula)
        code += [part.function for part in self.shaping if not part.is_builtin]
        own_attributes = self._list_own_attributes()
        if own_attributes:
            code.append(own_attributes)
        if not type(self).__module__.startswith("assay."):
            code.append(type(self))
        return code

    def _list_own_attributes(self) -> dict[str, Any]:
        """Return what users have set on the rubric, besides the attributes that every rubric has.

        A subclass of users may keep there what its methods read. A method that is set on the
        rubric itself replaces that of its class. `__getstate__` says what counts.
        """
        state: object = self.__getstate__()
        if not isinstance(state, dict):
            return {}
        attributes = cast("dict[str, Any]", state)
        is_own_class = not type(self).__module__.startswith("assay.")
        own_attributes: dict[str, Any] = {}
        for name, value in sorted(attributes.items()):
            of_class: Any = getattr_static(type(self), name, None)
            is_of_every_rubric = name in self._shared_attributes or hasattr(Loadable, name)
            is_computed = isinstance(of_class, cached_property)
            replaces_method = isinstance(of_class, FunctionType)
            if replaces_method or (is_own_class and not is_of_every_rubric and not is_computed):
                own_attributes[name] = value
        return own_attributes

    def options_to_data(self, *, as_hash: bool = False) -> dict[str, Any]:
        """Return parser, `shows`, `thinking`, `shaping`, `ask_judge` and `reference` as a file holds them.

        Each is there only if it is set. With `as_hash`, parsers and functions that no file can name
        are allowed; `_list_code` says what they are.
        """
        data: dict[str, Any] = {}
        parser = self.given_parser
        if parser is not None:
            named_parser = parser_to_data(parser)
            if named_parser is None and not as_hash:
                raise RubricError(
                    f"{parser!r} cannot be written to a file: use a parser that a file can name "
                    "(docs/reference/rubric-files.md), or set it after loading"
                )
            data["parser"] = named_parser or get_qualified_name(type(parser))
        if self.shows:
            data["shows"] = self.shows[0] if len(self.shows) == 1 else list(self.shows)
        if self.thinking:
            data["thinking"] = self.thinking
        if self.shaping:
            data["shaping"] = [part.to_data(for_hash=as_hash) for part in self.shaping]
        if self.ask_judge != "always":
            data["ask_judge"] = self.ask_judge
        if self.reference:
            data["reference"] = (
                self.reference[0] if len(self.reference) == 1 else list(self.reference)
            )
        return data


def read_criterion_data(
    data: Mapping[str, Any], index: int, build: Callable[..., Any]
) -> Criterion:
    """Return the criterion for a mapping, as for an entry of a file.

    `index` is its index in the list, for errors; `build` builds the rubric that it may hold.
    """
    entry = CriterionEntry(Node(dict(data)), f"criterion {index + 1}")
    return entry.read_criterion(RubricReader(build))
