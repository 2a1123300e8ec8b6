"""Rubric is a list of judged criteria, read and graded as the package `rubric` does. Its tests know these messages."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import assay
from assay.errors import JudgeError, RubricError
from assay.graders import (
    Grader,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    RubricAsJudgeGrader,
    ToGrade,
)
from assay.graders.judge_input import ThinkingOutputDict
from assay.graders.prompt_text import system_prompt
from assay.graders.verdicts import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.models.model import Request
from assay.models.resolve import configured_model, model_by_key, what_to_set
from assay.report import EvaluationReport

Output = TypeVar("Output", bound=BaseModel)
ToGradeInput: TypeAlias = str | ThinkingOutputDict
PER_CRITERION_PROMPT = system_prompt(PerCriterionGrader.prompt)
ONE_SHOT_PROMPT = system_prompt(PerCriterionOneShotGrader.prompt)
WHOLE_PROMPT = system_prompt(RubricAsJudgeGrader.prompt)
_LOADERS: dict[str, Callable[[Any], Any]] = {
    ".json": json.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}


class Criterion(assay.Criterion):
    """A requirement and its weight, both of which must be given. Unknown fields are dropped."""

    model_config = ConfigDict(extra="ignore")

    requirement: str = Field()  # pyright: ignore[reportIncompatibleVariableOverride]
    weight: float = Field(allow_inf_nan=False)


class Rubric(assay.Rubric):
    """Judged criteria. What a `generate_fn` raises goes to the caller."""

    def __init__(self, rubric: Sequence[assay.Criterion]) -> None:
        super().__init__(rubric, on_error="raise")
        self._given = list(rubric)

    @property
    def rubric(self) -> list[assay.Criterion]:
        return list(self._given)

    async def grade(
        self,
        to_grade: ToGrade,
        autograder: Grader | None = None,
        query: str | None = None,
        **kwargs: Any,
    ) -> EvaluationReport:
        """The report on one text. Further keywords are not looked at."""
        return await super().grade(
            to_grade, autograder or PerCriterionGrader(default_per_criterion_generate_fn), query
        )

    @staticmethod
    def validate_and_create_criteria(data: Any) -> list[Criterion]:
        """The criteria in a list, in sections, or under `rubric` or `sections`; titles are lost."""
        if isinstance(data, Mapping) and "rubric" in data:
            data = cast("Any", data["rubric"])
        if isinstance(data, Mapping):
            if "sections" not in data:
                raise RubricError(
                    "Invalid rubric format. Dict must contain either 'sections' or 'rubric' key"
                )
            data = cast("Any", data["sections"])
        if not isinstance(data, list):
            raise RubricError(f"Invalid rubric format. Expected a list, got {type(data).__name__}")
        entries: list[Any] = []
        for place, item in enumerate(cast("list[Any]", data)):
            fields = _mapping(f"item at index {place}", item)
            section = fields.get("criteria", [item])
            if not isinstance(section, list):
                found = type(section).__name__
                raise RubricError(
                    f"Invalid section at index {place}: 'criteria' must be a list, got {found}"
                )
            entries += section
        if not entries:
            raise RubricError("No criteria found")
        return [_criterion(place, entry) for place, entry in enumerate(entries)]

    @classmethod
    def from_dict(cls, data: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls(cls.validate_and_create_criteria(data))

    @classmethod
    def from_json(cls, json_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls.from_dict(_parsed(json_string, ".json", "string"))

    @classmethod
    def from_yaml(cls, yaml_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls.from_dict(_parsed(yaml_string, ".yaml", "string"))

    @classmethod
    def from_file(cls, source: str | Path | IO[Any]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rubric in a `.json`, `.yaml` or `.yml` file: a path, or an open file with a name."""
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.exists():
                raise FileNotFoundError(f"File not found: {source}")
            suffix = _suffix(path, "file")
            return cls.from_dict(
                _parsed(path.read_text(encoding="utf-8"), suffix, f"file {source}")
            )
        if not hasattr(source, "read"):
            raise RubricError(
                f"Invalid source type: expected a path or an open file, got {type(source).__name__}"
            )
        name = getattr(source, "name", "")
        if not isinstance(name, str) or not Path(name).suffix:
            raise RubricError(
                "Cannot determine file format from file object: give one whose 'name' has an ending"
            )
        return cls.from_dict(
            _parsed(source.read(), _suffix(Path(name), "file object"), "from file object")
        )


def _mapping(what: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise RubricError(f"Invalid {what}: expected a dictionary, got {type(given).__name__}")
    return cast("Mapping[str, Any]", given)


def _criterion(place: int, entry: Any) -> Criterion:
    fields = _mapping(f"criterion at index {place}", entry)
    try:
        return Criterion(
            **{name: fields[name] for name in ("weight", "requirement") if name in fields}
        )
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
        raise RubricError(f"Invalid criterion at index {place}: {details}") from error


def _parsed(text: Any, suffix: str, where: str) -> Any:
    try:
        return _LOADERS[suffix](text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        kind = "JSON" if suffix == ".json" else "YAML"
        raise RubricError(f"Failed to parse {kind} {where}: {error}") from error


def _suffix(path: Path, what: str) -> str:
    suffix = path.suffix.lower()
    if suffix not in _LOADERS:
        supported = f"Supported formats: {', '.join(_LOADERS)}"
        raise RubricError(f"Unsupported file format {suffix!r} for {what}: {path}\n{supported}")
    return suffix


def _default(schema: type[Output]) -> Callable[..., Awaitable[Output]]:
    async def generate(system_prompt: str, user_prompt: str, **kwargs: Any) -> Output:
        model = configured_model() or model_by_key()
        if model is None:
            raise JudgeError(
                f"no default model is configured: set GEMINI_API_KEY, as for rubric; or {what_to_set()}"
            )
        return (await model(Request.of(system_prompt, user_prompt, schema=schema))).value

    return generate


default_per_criterion_generate_fn = _default(PerCriterionOutput)
default_oneshot_generate_fn = _default(OneShotOutput)
default_rubric_as_judge_generate_fn = _default(RubricAsJudgeOutput)
