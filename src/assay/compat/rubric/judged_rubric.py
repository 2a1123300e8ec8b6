"""Define `Rubric` and `Criterion` of the package `rubric`: a list of criteria for a judge.

Error messages of loading follow that package, since programs and tests written for it match them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import assay
from assay.errors import JudgeError, RubricError
from assay.graders import (
    JudgeSource,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    RubricAsJudgeGrader,
    ToGrade,
)
from assay.graders.prompt_text import system_prompt
from assay.graders.verdicts import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.models.model import Request
from assay.models.resolve import configured_judge, model_by_key, what_to_set
from assay.report import EvaluationReport
from assay.types import ThinkingOutputDict

Output = TypeVar("Output", bound=BaseModel)
ToGradeInput: TypeAlias = str | ThinkingOutputDict

# The package has one of these in each module of a grader, as DEFAULT_SYSTEM_PROMPT.
PER_CRITERION_PROMPT = system_prompt(PerCriterionGrader.prompt)
ONE_SHOT_PROMPT = system_prompt(PerCriterionOneShotGrader.prompt)
WHOLE_PROMPT = system_prompt(RubricAsJudgeGrader.prompt)

# How to read a file, by the suffix of its name.
_LOADERS: dict[str, Callable[[Any], Any]] = {
    ".json": json.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}


class Criterion(assay.Criterion):
    """A requirement and its weight; both must be given. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    requirement: str = Field()  # pyright: ignore[reportIncompatibleVariableOverride]
    weight: float = Field(allow_inf_nan=False)


class Rubric(assay.Rubric):
    """A list of judged criteria. Exceptions of a `generate_fn` are raised to the caller."""

    def __init__(self, rubric: Sequence[assay.Criterion]) -> None:
        # The package shows a judge everything.
        super().__init__(rubric, on_error="raise", thinking="shown")
        self._original_criteria = list(rubric)

    @property
    def rubric(self) -> list[assay.Criterion]:
        """The criteria that the rubric was made from."""
        return list(self._original_criteria)

    async def grade(
        self,
        to_grade: ToGrade,
        autograder: JudgeSource | None = None,
        query: str | None = None,
        *,
        judge: JudgeSource | None = None,
        **kwargs: Any,
    ) -> EvaluationReport:
        """Grade one text. Further keyword arguments are ignored."""
        if autograder is None and judge is None:
            autograder = PerCriterionGrader(default_per_criterion_generate_fn)
        return await super().grade(to_grade, autograder, query, judge=judge)

    @staticmethod
    def validate_and_create_criteria(data: Any) -> list[Criterion]:
        """Return the criteria of a list, or of a dict with the list under `rubric` or `sections`.

        An item of the list is a criterion, or a section with a list of `criteria`. The titles of
        sections are ignored.
        """
        entries: list[Any] = []
        for index, item in enumerate(_find_items(data)):
            fields = _check_dict(item, f"item at index {index}")
            if "criteria" not in fields:
                entries.append(item)
                continue
            section = fields["criteria"]
            if not isinstance(section, list):
                raise RubricError(
                    f"Invalid section at index {index}: 'criteria' must be a list, "
                    f"got {type(section).__name__}"
                )
            entries += cast("list[Any]", section)
        if not entries:
            raise RubricError("No criteria found")
        return [_create_criterion(index, entry) for index, entry in enumerate(entries)]

    @classmethod
    def from_dict(cls, data: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls(cls.validate_and_create_criteria(data))

    @classmethod
    def from_json(cls, json_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls.from_dict(_parse(json_string, ".json", "string"))

    @classmethod
    def from_yaml(cls, yaml_string: str) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cls.from_dict(_parse(yaml_string, ".yaml", "string"))

    @classmethod
    def from_file(cls, source: str | Path | IO[Any]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read a `.json`, `.yaml` or `.yml` file: a path, or an open file with a name."""
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.exists():
                raise FileNotFoundError(f"File not found: {source}")
            suffix = _get_suffix(path, "file")
            text = path.read_text(encoding="utf-8")
            return cls.from_dict(_parse(text, suffix, f"file {source}"))
        if not hasattr(source, "read"):
            raise RubricError(
                f"Invalid source type: expected a path or an open file, got {type(source).__name__}"
            )
        name = getattr(source, "name", "")
        if not isinstance(name, str) or not Path(name).suffix:
            raise RubricError(
                "Cannot determine file format from file object: "
                "give one whose 'name' has a suffix such as .json"
            )
        suffix = _get_suffix(Path(name), "file object")
        return cls.from_dict(_parse(source.read(), suffix, "from file object"))


def _find_items(data: Any) -> list[Any]:
    """Return the list of criteria or sections that rubric data holds."""
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
    return cast("list[Any]", data)


def _check_dict(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that must be a dict; `name` is what the error calls it."""
    if not isinstance(value, Mapping):
        raise RubricError(f"Invalid {name}: expected a dictionary, got {type(value).__name__}")
    return cast("Mapping[str, Any]", value)


def _create_criterion(index: int, entry: Any) -> Criterion:
    """Create a criterion from a dict with `weight` and `requirement`; `index` is for the error."""
    data = _check_dict(entry, f"criterion at index {index}")
    fields = {name: data[name] for name in ("weight", "requirement") if name in data}
    try:
        return Criterion(**fields)
    except ValidationError as error:
        problems: list[str] = []
        for problem in error.errors():
            path = ".".join(map(str, problem["loc"]))
            problems.append(f"{path}: {problem['msg']}")
        raise RubricError(f"Invalid criterion at index {index}: {'; '.join(problems)}") from error


def _parse(text: Any, suffix: str, origin: str) -> Any:
    """Parse JSON or YAML, by the suffix; `origin` is what the error calls the text."""
    try:
        return _LOADERS[suffix](text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        file_format = "JSON" if suffix == ".json" else "YAML"
        raise RubricError(f"Failed to parse {file_format} {origin}: {error}") from error


def _get_suffix(path: Path, source_kind: str) -> str:
    """Return the suffix of a path in lower case; raise if there is no loader for it."""
    suffix = path.suffix.lower()
    if suffix not in _LOADERS:
        raise RubricError(
            f"Unsupported file format {suffix!r} for {source_kind}: {path}\n"
            f"Supported formats: {', '.join(_LOADERS)}"
        )
    return suffix


def _make_generate_fn(schema: type[Output]) -> Callable[..., Awaitable[Output]]:
    """Return a `generate_fn` that asks the default judge for a reply of this schema."""

    async def generate(system_prompt: str, user_prompt: str, **kwargs: Any) -> Output:
        model = configured_judge() or model_by_key()
        if model is None:
            raise JudgeError(
                "no default judge is configured: set GEMINI_API_KEY, as for rubric; "
                f"or {what_to_set()}"
            )
        request = Request.of(system_prompt, user_prompt, schema=schema)
        reply = await model(request)
        return reply.value

    return generate


default_per_criterion_generate_fn = _make_generate_fn(PerCriterionOutput)
default_oneshot_generate_fn = _make_generate_fn(OneShotOutput)
default_rubric_as_judge_generate_fn = _make_generate_fn(RubricAsJudgeOutput)
