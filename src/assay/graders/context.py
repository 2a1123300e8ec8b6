"""Show a judge more than the rollout: a reference answer, or judged examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from assay.aggregation import group_by_key
from assay.criterion import BINARY_CHOICES, Criterion
from assay.errors import JudgeError
from assay.graders.composite import Composite, WrapOptions
from assay.graders.grader import Grader, JudgeAnswer, JudgeOptions, ask_grader
from assay.graders.judge_input import JudgeInput, system_prompt, without_prompt_tags
from assay.graders.verdicts import verdict_score
from assay.messages import completion_text
from assay.types import OnError
from assay.wording import format_value


class Referenced(Composite):
    """Shows a grader an answer known to be good: the rollout's, if it has one, or one for all.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Says the same as the reference"}])
    >>> report = rubric.grade_sync("4", Referenced(PerCriterionGrader(model)), answer="four")
    >>> "<reference>\\nfour\\n</reference>" in model.calls[0][1]
    True
    """

    takes_wholes = True

    def __init__(
        self,
        grader: Grader,
        reference: str | None = None,
        *,
        field: str = "answer",
        **options: Unpack[WrapOptions],
    ) -> None:
        """`reference` is for every text; without it the rollout's field of that name is shown."""
        super().__init__([grader], **options)
        self.reference, self.field = reference, field

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        reference: Any = self.reference
        if reference is None:
            reference = judge_input.fields.get(self.field)
        if not isinstance(reference, str | int | float | None):
            raise JudgeError(
                f"the reference in {self.field!r} is {format_value(reference)}: "
                "give a text, or another field="
            )
        text = "" if reference is None else str(reference)
        referenced = replace(judge_input, reference=text)
        return await ask_grader(self.inner[0], referenced, criteria, on_error=on_error)


@dataclass(frozen=True)
class Anchor:
    """A judged example: what a trusted person said about one criterion of one response."""

    criterion: Criterion | str  # the criterion, or its requirement in words
    response: str
    verdict: str
    reason: str = ""
    query: str = ""  # what was asked, where that matters

    def __post_init__(self) -> None:
        for name in ("response", "verdict", "reason", "query"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(
                    f"{name} of an anchor is {format_value(getattr(self, name))}: give a text"
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
        grader: Grader,
        anchors: Sequence[Anchor],
        *,
        each: int | None = None,
        **options: Unpack[WrapOptions],
    ) -> None:
        """`each` keeps so many anchors for every verdict of every criterion, the first ones."""
        super().__init__([grader], **options)
        if not anchors:
            raise ValueError("Anchored has no anchors: give at least one, or leave it out")
        if each is not None and each < 1:
            raise ValueError(f"each is {each}: keep at least 1, or None for all")
        kinds = ((anchor.requirement, anchor.verdict.strip().casefold()) for anchor in anchors)
        places = group_by_key((kind, place) for place, kind in enumerate(kinds))
        self.anchors = tuple(
            anchors[place] for place in sorted(n for own in places.values() for n in own[:each])
        )
        self._all = examples(self.anchors)
        self._with(self._all)  # refuses a grader that cannot be shown them

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        # An anchor of a conversation may hold only the last reply.
        last_reply = completion_text(judge_input.fields.get("completion"))
        judged = {judge_input.text.strip(), last_reply.strip()}
        others = [anchor for anchor in self.anchors if anchor.response.strip() not in judged]
        words = self._all
        if len(others) < len(self.anchors):
            words = examples(others)
        return await ask_grader(self._with(words), judge_input, criteria, on_error=on_error)

    def _with(self, words: str) -> Grader:
        """Return the grader inside with these examples after its own."""

        def add_examples(options: JudgeOptions) -> JudgeOptions:
            texts = [text for text in (options.examples, words) if text]
            return replace(options, examples="\n\n".join(texts))

        return self._change_options(self.inner[0], add_examples, "it cannot be shown anchors")


def examples(anchors: Sequence[Anchor]) -> str:
    """The anchors as a prompt has them; nothing when there are none."""
    shown: list[str] = []
    for anchor in anchors:
        parts = {
            "query": anchor.query,
            "response": f"\n{anchor.response}\n",
            "criterion": anchor.requirement,
            "explanation": anchor.reason,
            "criterion_status" if anchor.verdict in BINARY_CHOICES else "choice": anchor.verdict,
        }
        lines = [
            f"<{tag}>{without_prompt_tags(part)}</{tag}>" for tag, part in parts.items() if part
        ]
        shown.append("\n".join(["<example>", *lines, "</example>"]))
    return "\n\n".join([system_prompt("anchors"), *shown]) if shown else ""
