"""Define the base class of graders around other graders."""

from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self, TypedDict

from assay.graders.autograder import BuiltInGrader
from assay.graders.grader import Grader, OptionsChange
from assay.graders.length import LengthPenalty
from assay.models.model import Model
from assay.wording import format_value


class WrapOptions(TypedDict, total=False):
    """The options that every composite takes."""

    # False makes the raw sum the score; None does as the first grader inside.
    normalize: bool | None
    length_penalty: LengthPenalty | None


class Composite(BuiltInGrader):
    """Asks the graders inside it, and combines their answers. They can be composites too."""

    takes_media = True  # the graders inside refuse what they cannot take
    # Whether graders that give one number for all criteria may be inside.
    takes_wholes: ClassVar[bool] = False

    def __init__(
        self,
        inner: Sequence[Grader],
        *,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        for grader in inner:
            self._refuse(grader)
        if not inner:
            raise ValueError(
                f"{type(self).__name__} has no grader to ask: give it at least one grader"
            )
        if normalize is None:
            normalize = inner[0].normalize
        super().__init__(normalize=normalize, length_penalty=length_penalty)
        self.inner = tuple(inner)
        # Whether a grader inside gives one number for all criteria; the composite then does too.
        self.asks_for_whole = any(grader.gives_whole for grader in inner)
        if self.asks_for_whole:
            self.gives_whole = True

    @property
    def title(self) -> str:
        """The title of the only grader inside, or the class name with all titles."""
        titles = list(dict.fromkeys(grader.title for grader in self.inner))
        if len(self.inner) == 1:
            return titles[0]
        return f"{type(self).__name__}({', '.join(titles)})"

    def models(self) -> tuple[Model, ...]:
        return tuple(model for grader in self.inner for model in grader.models())

    def with_options(self, change: OptionsChange) -> Self:
        inner = tuple(grader.with_options(change) for grader in self.inner)
        if all(new is old for new, old in zip(inner, self.inner, strict=True)):
            return self
        changed = copy(self)
        changed.inner = inner
        return changed

    def _change_options(self, grader: Grader, change: OptionsChange, cannot: str = "") -> Grader:
        """Return a grader with changed options.

        `cannot` says what is impossible with a grader that ignores options; it is then refused.
        """
        self._refuse(grader)
        changed = grader.with_options(change)
        if cannot and changed is grader:
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so {cannot}: "
                "use a grader that asks a model through `model=` or `generate_fn=`"
            )
        return changed

    def _refuse(self, grader: object) -> None:
        """Raise if a grader cannot be inside."""
        name = type(self).__name__
        if not isinstance(grader, Grader):
            raise TypeError(f"{name} takes graders, and this is {format_value(grader)}")
        if grader.length_penalty is not None:
            raise ValueError(
                f"{grader.title} takes a length penalty off a score, and {name} needs its answers: "
                f"give length_penalty to {name}"
            )
        if grader.gives_whole and not self.takes_wholes:
            raise ValueError(
                f"{grader.title} gives one number for all criteria, and {name} needs an answer to "
                "each: use PerCriterionGrader, PerCriterionOneShotGrader or your own judge()"
            )
