"""Show a judge more than the rollout: a reference answer, or judged examples (anchors)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from assay.criterion import BINARY_CHOICES, Criterion
from assay.errors import JudgeError
from assay.graders.columns import show_reference
from assay.graders.composite import Composite, WrapOptions
from assay.graders.fences import escape_prompt_tags
from assay.graders.grader import (
    Grader,
    JudgeAnswer,
    JudgeOptions,
    JudgeSource,
    ask_grader,
)
from assay.graders.judge_input import JudgeInput
from assay.graders.prompt_text import system_prompt
from assay.graders.verdicts import score_verdict
from assay.messages import completion_text
from assay.types import OnError
from assay.wording import format_value


class Referenced(Composite):
    """Shows a grader what is known to be right: one text for all rollouts, or a column of each.

    For a column, `reference: answer` in the rubric does the same.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> rubric = Rubric.from_dict([{"requirement": "Says the same as the reference"}])
    >>> report = rubric.grade_sync("4", Referenced(PerCriterionGrader(model)), answer="four")
    >>> "<reference>\\nfour\\n</reference>" in model.calls[0][1]
    True
    """

    allows_reports = True

    def __init__(
        self,
        judge: JudgeSource,
        reference: str | None = None,
        *,
        field: str = "answer",
        **options: Unpack[WrapOptions],
    ) -> None:
        """Show `reference` with every response; if it is None, the rollout's `field`."""
        super().__init__([judge], **options)
        self.reference = reference
        self.field = field

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Return the grader's answer about the response with the reference beside it.

        Raises `ColumnError` if the rollout has no such field.
        """
        grader = self.inner[0]
        row = judge_input.fields
        field = self.field
        if self.reference is not None:
            row = {"answer": self.reference}
            field = "answer"
        judge_input = show_reference(judge_input, [field], row, takes_media=grader.takes_media)
        return await ask_grader(grader, judge_input, criteria, on_error=on_error)


@dataclass(frozen=True)
class Anchor:
    """A judged example: the verdict of a trusted person on one criterion of one response."""

    criterion: Criterion | str  # the criterion, or its requirement
    response: str
    verdict: str
    reason: str = ""
    query: str = ""  # what the response answers; empty if it does not matter

    def __post_init__(self) -> None:
        """Raise if a field is not a text, or if the criterion does not offer the verdict."""
        for name in ("response", "verdict", "reason", "query"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} of an anchor is {format_value(value)}: give a text")
        if isinstance(self.criterion, Criterion):
            # A verdict that the criterion does not offer has a score with an error.
            error = score_verdict(self.criterion, self.verdict).error
            if error is not None:
                raise JudgeError(
                    f"an anchor of criterion {self.criterion.name!r} cannot be used: {error}"
                )

    @property
    def requirement(self) -> str:
        """The requirement of the criterion that this judged example is about.

        Raises `JudgeError` if the criterion has none, because code answers it.
        """
        if isinstance(self.criterion, str):
            return self.criterion
        if self.criterion.requirement is None:
            raise JudgeError(
                f"criterion {self.criterion.name!r} is answered by code, so anchors have no effect "
                "on it: leave out its anchors"
            )
        return self.criterion.requirement


class Anchored(Composite):
    """Shows a grader judged examples, at the end of the system prompt.

    An anchor about the response that is being judged is left out, since it would give away the
    verdict.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> anchors = [Anchor("Names a date", "Long ago.", "UNMET", "No day, month or year.")]
    >>> rubric = Rubric.from_dict([{"requirement": "Names a date"}])
    >>> report = rubric.grade_sync("In 1789.", Anchored(PerCriterionGrader(model), anchors))
    >>> "No day, month or year." in model.calls[0][0]
    True
    """

    allows_reports = True

    def __init__(
        self,
        judge: JudgeSource,
        anchors: Sequence[Anchor],
        *,
        each: int | None = None,
        **options: Unpack[WrapOptions],
    ) -> None:
        """With `each`, keep only so many anchors of every verdict on every criterion."""
        super().__init__([judge], **options)
        if not anchors:
            raise ValueError("Anchored has no anchors: give at least one, or use the grader alone")
        if each is not None and each < 1:
            raise ValueError(f"each is {each}: give at least 1, or None to keep all anchors")
        self.anchors = _select_anchors(anchors, each)
        self._all_examples = write_examples(self.anchors)
        self._add_to_grader(self._all_examples)  # raises if the grader cannot show examples

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Return the grader's answer, with the judged examples (anchors) in its system prompt.

        An anchor about this very response is left out, since it would give away the verdict.
        """
        # An anchor about a conversation may hold only the last reply.
        last_reply = completion_text(judge_input.fields.get("completion"))
        judged_texts = {judge_input.text.strip(), last_reply.strip()}
        other_anchors = [
            anchor for anchor in self.anchors if anchor.response.strip() not in judged_texts
        ]
        if len(other_anchors) == len(self.anchors):
            examples = self._all_examples
        else:
            examples = write_examples(other_anchors)
        grader = self._add_to_grader(examples)
        return await ask_grader(grader, judge_input, criteria, on_error=on_error)

    def _add_to_grader(self, examples: str) -> Grader:
        """Return the grader inside, with these examples after those that it has already."""

        def add_examples(options: JudgeOptions) -> JudgeOptions:
            texts = [text for text in (options.extra_instructions, examples) if text]
            return replace(options, extra_instructions="\n\n".join(texts))

        return self._change_options(
            self.inner[0], add_examples, problem_if_ignored="it cannot be shown anchors"
        )


def _select_anchors(anchors: Sequence[Anchor], limit: int | None) -> tuple[Anchor, ...]:
    """Keep the first `limit` anchors of every verdict on every criterion; all if it is None."""
    kept: list[Anchor] = []
    counts: Counter[tuple[str, str]] = Counter()
    for anchor in anchors:
        key = (anchor.requirement, anchor.verdict.strip().casefold())
        if limit is None or counts[key] < limit:
            kept.append(anchor)
            counts[key] += 1
    return tuple(kept)


def write_examples(anchors: Sequence[Anchor]) -> str:
    """Write anchors as a section of a prompt; empty if there are none."""
    if not anchors:
        return ""
    sections = [system_prompt("anchors")]
    for anchor in anchors:
        verdict_tag = "criterion_status" if anchor.verdict in BINARY_CHOICES else "choice"
        texts_by_tag = {
            "query": anchor.query,
            "response": f"\n{anchor.response}\n",
            "criterion": anchor.requirement,
            "explanation": anchor.reason,
            verdict_tag: anchor.verdict,
        }
        lines = ["<example>"]
        for tag, text in texts_by_tag.items():
            if text:
                lines.append(f"<{tag}>{escape_prompt_tags(text)}</{tag}>")
        lines.append("</example>")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)
