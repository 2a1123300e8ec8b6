"""Sources: where the rubric comes from, and who judges where it says that a model does."""

import io
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from assay.errors import RubricError
from assay.graders import (
    Autograder,
    Guarded,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    RubricAsJudgeGrader,
)
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.rubric import Rubric, rubric_at
from assay.runs.row_rubrics import Way
from assay.server.settings import Judge
from assay.wording import short_repr

_GRADERS: Final[dict[str, Any]] = {
    "per-criterion": PerCriterionGrader,
    "one-shot": PerCriterionOneShotGrader,
    "holistic": RubricAsJudgeGrader,
}


@dataclass(frozen=True)
class Source:
    """A rubric file with its text, as it was when somebody looked; or `module:object`."""

    where: str
    text: bytes = b""
    allow_code: bool = False

    @classmethod
    def at(cls, where: str, *, allow_code: bool = False) -> "Source":
        """The source of that name, read now."""
        if is_reference(where) and not Path(where).exists():
            return cls(where, allow_code=True)
        if not Path(where).is_file():
            raise FileNotFoundError(f"File not found: {where}")
        return cls(str(Path(where).resolve()), Path(where).read_bytes(), allow_code)

    @property
    def file(self) -> Path | None:
        """The file that can change; None where Python code makes the rubric."""
        return None if is_reference(self.where) else Path(self.where)

    def with_text(self, text: bytes) -> "Source":
        return replace(self, text=text)


class Loader:
    """Makes rubrics of sources. The judge is made once, when a rubric first asks for one."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._grader: Autograder | None = None
        self._cache: Any = None

    def rubric(self, source: Source) -> Rubric:
        """The rubric of a source, ready to score; raises when anything about it is wrong."""
        rubric = _imported(source.where) if source.file is None else _read(source)
        if rubric.autograder is None and Way.of(rubric).asks:
            rubric.autograder = self._grader = self._grader or self._made()
        return rubric

    def _made(self) -> Autograder:
        from assay.cache import VerdictCache
        from assay.models import default_model, model_of

        judge = self._judge
        if judge.cache is not None:
            self._cache = VerdictCache(judge.cache)
        named = judge.model if judge.model is not None else default_model()
        grader = _GRADERS[judge.grader](model=model_of(named, cache=self._cache))
        return Guarded(grader) if judge.guard else grader

    def close(self) -> None:
        """Write what the cache has not written yet."""
        if self._cache is not None:
            self._cache.close()


class _NamedText(io.BytesIO):
    """A text that was read, under the name of its file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.text)
        self.name = source.where


def _read(source: Source) -> Rubric:
    return rubric_at(read_file(_NamedText(source)), allow_code=source.allow_code)


def _imported(reference: str) -> Rubric:
    module, _, path = reference.partition(":")
    try:
        found: Any = import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError) as error:
        raise RubricError(f"{reference!r} cannot be imported: {error}") from error
    made = found() if callable(found) and not isinstance(found, Rubric) else found
    if not isinstance(made, Rubric):
        raise RubricError(f"{reference!r} is {short_repr(made)}: name a rubric, or what makes one")
    return made
