"""Suggest: criteria drafted by a model, and judged before anybody relies on them."""

from collections.abc import Sequence
from typing import Any

from assay.criterion import Criterion
from assay.errors import JudgeError, TrustError
from assay.graders import Autograder, PerCriterionGrader
from assay.models import Ledger, Model, budget, model_of
from assay.models.ledger import refuse_unpriced
from assay.runs.progress import OnProgress, Watch
from assay.runs.spending import Spending
from assay.trust.probe_baits import off_topic
from assay.trust.probe_trials import refuse_whole
from assay.trust.suggest_draft import Draft, drafted_from_pairs, drafted_from_references
from assay.trust.suggest_filter import (
    Judged,
    Sheet,
    Text,
    against_pairs,
    against_references,
    judged_texts,
)
from assay.trust.suggest_pairs import Pair, split
from assay.trust.suggest_result import Placed, Suggestion, golden_of_pairs, golden_of_references

MOST = 12
"""Criteria that are judged, unless said otherwise."""


async def suggest_from_pairs(
    pairs: Sequence[Pair],
    model: Any,
    grader: Autograder | None = None,
    *,
    most: int = MOST,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Suggestion:
    """Criteria that tell preferred responses from rejected ones.

    `model`, which is what `model_of` takes, sees a third of the prompts and drafts up to `most`
    criteria. The grader, by default one around that model, judges both sides of all other pairs. A
    criterion is kept when it agrees with the preferences there clearly more often than chance would:
    when the lower end of the interval is above one half.
    """
    shown, unseen = split(pairs, seed)
    sitting = _Sitting(model, grader, most, on_progress)
    with budget() as spent:
        draft = await drafted_from_pairs(sitting.drafter, shown, most)
        texts = [text for pair in unseen for text in pair.texts]
        criteria, sheet = await sitting.judge(draft, texts, spent)
    judged = list(against_pairs(criteria, unseen, sheet))
    golden = golden_of_pairs(_placed(judged), unseen, sheet)
    source = f"{len(pairs)} pairs by {sitting.drafter.id}, which saw {len(shown)} of them"
    return _suggestion(source, judged, tuple(golden), draft, spent)


async def suggest_from_references(
    prompt: str,
    references: Sequence[str],
    model: Any,
    grader: Autograder | None = None,
    *,
    most: int = MOST,
    on_progress: OnProgress | None = None,
) -> Suggestion:
    """Criteria that good answers to a prompt meet.

    A criterion is kept when every reference passes it, and no shipped text about something else does.
    That it tells good answers from weak ones is not shown by this: pairs show it.
    """
    if not references:
        raise TrustError("there are no references to draft from: give at least one")
    sitting = _Sitting(model, grader, most, on_progress)
    good: list[Text] = [(text, prompt) for text in references]
    others: list[Text] = [(bait.text, prompt) for bait in off_topic()]
    with budget() as spent:
        draft = await drafted_from_references(sitting.drafter, prompt, references, most)
        criteria, sheet = await sitting.judge(draft, [*good, *others], spent)
    judged = list(against_references(criteria, good, others, sheet))
    golden = golden_of_references(_placed(judged), good, others)
    number = f"{len(references)} reference{'s' if len(references) > 1 else ''}"
    source = f"a prompt with {number} by {sitting.drafter.id}"
    return _suggestion(source, judged, tuple(golden), draft, spent)


class _Sitting:
    """Who drafts, who judges, and who watches."""

    def __init__(
        self, model: Any, grader: Autograder | None, most: int, on_progress: OnProgress | None
    ) -> None:
        self.drafter: Model = model_of(model)
        self.grader = grader or PerCriterionGrader(model=self.drafter)
        self.most = most
        self.on_progress = on_progress
        refuse_whole(self.grader)
        refuse_unpriced([self.drafter, *self.grader.models()])

    async def judge(
        self, draft: Draft, texts: Sequence[Text], spent: Ledger
    ) -> tuple[list[Criterion], Sheet]:
        """The drafted criteria, and what the grader says of them."""
        criteria = list(draft.criteria)
        if spent.rehearses:
            # Nobody drafts in a rehearsal, and a criterion takes about so many words.
            words = "Says what the prompt asks for in words that somebody who reads it can follow"
            criteria = [Criterion(requirement=f"{words}: {n}") for n in range(self.most)]
        elif not criteria and draft.errors:
            raise JudgeError(f"no criterion was drafted: {draft.errors[0]}")
        if not criteria:
            return [], Sheet({})
        watch = Watch(self.on_progress, len(set(texts)) * len(criteria), spent)

        def tell(verdicts: int, errors: int) -> None:
            watch.fresh += verdicts
            watch.errors += errors
            watch.tell()

        return criteria, await judged_texts(self.grader, criteria, texts, tell)


def _placed(judged: Sequence[Judged]) -> list[Placed]:
    return [(place, each.criterion) for place, each in enumerate(judged) if each.kept]


def _suggestion(
    source: str, judged: Sequence[Judged], golden: tuple[Any, ...], draft: Draft, spent: Ledger
) -> Suggestion:
    refused = [Judged(criterion, kept=False, why=why) for criterion, why in draft.refused]
    ranked = sorted([*judged, *refused], key=lambda each: not each.kept)
    return Suggestion(source, tuple(ranked), golden, draft.errors, Spending.of(spent))
