"""Anchored: a grader that is shown judged examples before it judges."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.criterion import BINARY, Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder
from assay.graders.composite import Composite
from assay.graders.length import LengthPenalty
from assay.graders.prompting import system_prompt
from assay.graders.tags import without_prompt_tags
from assay.graders.verdicts import verdict_score
from assay.report import EvaluationReport, Score
from assay.types import OnError
from assay.wording import short_repr


@dataclass(frozen=True)
class Anchor:
    """A judged example: what somebody trusted said about one criterion of one response.

    >>> Anchor("Names a date", "It fell in 1789.", "MET", "1789 is a date.").verdict
    'MET'
    """

    criterion: Criterion | str
    """The criterion, or its requirement in words."""
    response: str
    verdict: str
    reason: str = ""
    query: str = ""
    """What was asked, where that matters."""

    def __post_init__(self) -> None:
        for name in ("response", "verdict", "reason", "query"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(
                    f"{name} of an anchor is {short_repr(getattr(self, name))}: give a text"
                )
        if isinstance(self.criterion, Criterion):
            problem = verdict_score(self.criterion, self.verdict).error
            if problem is not None:
                raise JudgeError(f"an anchor of {self.criterion.name!r} is of no use: {problem}")

    @property
    def requirement(self) -> str:
        """The criterion in words."""
        if isinstance(self.criterion, str):
            return self.criterion
        if self.criterion.requirement is None:
            raise JudgeError(f"{self.criterion.name!r} is answered by code, and needs no anchors")
        return self.criterion.requirement


class Anchored(Composite):
    """Shows a grader judged examples. They follow the system prompt, so all prompts open with them.

    An anchor about the very text under judgement is left out, since it would give the answer away.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> anchors = [Anchor("Names a date", "Long ago.", "UNMET", "No day, month or year.")]
    >>> rubric = Rubric.from_dict([{"requirement": "Names a date"}])
    >>> report = rubric.grade_sync("In 1789.", Anchored(PerCriterionGrader(model), anchors))
    >>> "No day, month or year." in model.calls[0][0]
    True
    """

    takes_wholes = True

    def __init__(
        self,
        grader: Autograder,
        anchors: Sequence[Anchor],
        *,
        each: int | None = None,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`each` keeps so many anchors for every verdict of every criterion, the first ones."""
        super().__init__([grader], normalize=normalize, length_penalty=length_penalty)
        if not anchors:
            raise ValueError("Anchored has no anchors: give at least one, or leave it out")
        if each is not None and each < 1:
            raise ValueError(f"each is {each}: keep at least 1, or None for all")
        self.anchors = tuple(anchors) if each is None else balanced(anchors, each)
        self._all = examples(self.anchors)
        if self._with(self._all) is grader:
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so it cannot be shown anchors: "
                "use a grader that asks a model through `model=` or `generate_fn=`"
            )

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        text = to_grade.strip()
        others = [anchor for anchor in self.anchors if anchor.response.strip() != text]
        shown = self._all if len(others) == len(self.anchors) else examples(others)
        return await self._with(shown).answer(to_grade, criteria, query, on_error=on_error)

    def _with(self, words: str) -> Autograder:
        def change(manner: Any) -> Any:
            together = [part for part in (manner.examples, words) if part]
            return replace(manner, examples="\n\n".join(together))

        return self.inner[0].asking(change)


def balanced(anchors: Sequence[Anchor], each: int) -> tuple[Anchor, ...]:
    """The first `each` anchors for every verdict of every criterion, in order.

    >>> labelled = [Anchor("Is short", text, "MET") for text in "abc"]
    >>> [anchor.response for anchor in balanced([*labelled, Anchor("Is short", "d", "UNMET")], 1)]
    ['a', 'd']
    """
    seen: Counter[tuple[str, str]] = Counter()
    kept: list[Anchor] = []
    for anchor in anchors:
        kind = (anchor.requirement, anchor.verdict.strip().casefold())
        seen[kind] += 1
        if seen[kind] <= each:
            kept.append(anchor)
    return tuple(kept)


def examples(anchors: Sequence[Anchor]) -> str:
    """The anchors as a prompt has them; nothing when there are none."""
    if not anchors:
        return ""
    return "\n\n".join([system_prompt("anchors"), *map(_example, anchors)])


def _example(anchor: Anchor) -> str:
    kind = "criterion_status" if anchor.verdict in BINARY else "choice"
    parts = {
        "query": anchor.query,
        "response": f"\n{anchor.response}\n",
        "criterion": anchor.requirement,
        "explanation": anchor.reason,
        kind: anchor.verdict,
    }
    lines = [f"<{tag}>{without_prompt_tags(part)}</{tag}>" for tag, part in parts.items() if part]
    return "\n".join(["<example>", *lines, "</example>"])
