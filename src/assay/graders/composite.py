"""Define the base class of graders that wrap other graders."""

from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self, TypedDict

from assay.graders.autograder import BuiltInGrader
from assay.graders.grader import Grader, JudgeSource, OptionsChange, grader_of
from assay.graders.length import LengthPenalty
from assay.models.model import Model


class WrapOptions(TypedDict, total=False):
    """The options that every composite takes."""

    # False makes the raw sum the score; None does as the first grader inside.
    normalize: bool | None
    length_penalty: LengthPenalty | None


class Composite(BuiltInGrader):
    """Asks the graders inside it, and combines their answers. They can be composites too."""

    takes_media = True  # the graders inside refuse what they cannot take
    # Whether graders that return one report for all criteria may be inside.
    allows_reports: ClassVar[bool] = False

    def __init__(
        self,
        judges: Sequence[JudgeSource],
        *,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`judges` are asked: graders, models, or names of models. For the options see `WrapOptions`."""
        graders = [grader_of(judge) for judge in judges]
        for grader in graders:
            self._check_grader(grader)
        if not graders:
            raise ValueError(
                f"{type(self).__name__} has no judge to ask: give it at least one judge"
            )
        if normalize is None:
            normalize = graders[0].normalize
        super().__init__(normalize=normalize, length_penalty=length_penalty)
        self.inner = tuple(graders)
        # Whether a grader inside returns one report for all criteria instead of a score for each.
        # The composite then does too. Some, such as `EarlyStop`, always do.
        self.inner_returns_report = any(grader.returns_report for grader in graders)
        if self.inner_returns_report:
            self.returns_report = True
        self.reads_outside = any(grader.reads_outside for grader in graders)

    @property
    def title(self) -> str:
        """The title of the only grader inside, or the class name with all titles."""
        titles = list(dict.fromkeys(grader.title for grader in self.inner))
        if len(self.inner) == 1:
            return titles[0]
        return f"{type(self).__name__}({', '.join(titles)})"

    def models(self) -> tuple[Model, ...]:
        """Return the models that the graders inside ask."""
        models: list[Model] = []
        for grader in self.inner:
            models += grader.models()
        return tuple(models)

    def with_options(self, change: OptionsChange) -> Self:
        """Return a copy with changed graders inside; itself if none of them uses the options."""
        inner = tuple(grader.with_options(change) for grader in self.inner)
        is_unchanged = all(new is old for new, old in zip(inner, self.inner, strict=True))
        if is_unchanged:
            return self
        changed = copy(self)
        changed.inner = inner
        return changed

    def _change_options(
        self, grader: Grader, change: OptionsChange, *, problem_if_ignored: str = ""
    ) -> Grader:
        """Return the grader with changed options; the same grader if it ignores options.

        With `problem_if_ignored`, a grader that ignores options is an error. The text says what is
        then impossible, as in "it cannot be shown anchors".
        """
        self._check_grader(grader)
        changed = grader.with_options(change)
        ignores_options = changed is grader
        if ignores_options and problem_if_ignored:
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so {problem_if_ignored}: "
                "use a grader that asks a model through `model=` or `generate_fn=`"
            )
        return changed

    def _check_grader(self, grader: Grader) -> None:
        """Raise if this cannot be a grader inside this composite."""
        name = type(self).__name__
        if grader.length_penalty is not None:
            raise ValueError(
                f"{grader.title} takes a length penalty off a score, and {name} needs its answers: "
                f"give length_penalty to {name}"
            )
        if grader.returns_report and not self.allows_reports:
            raise ValueError(
                f"{grader.title} gives one number for all criteria, and {name} needs an answer to "
                "each: use PerCriterionGrader, PerCriterionOneShotGrader or your own judge()"
            )
