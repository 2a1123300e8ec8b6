"""Suggest criteria: drafted by a model, judged, and kept only where they tell good responses from bad ones."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.errors import JudgeError, TrustError
from assay.graders import Autograder, PerCriterionGrader
from assay.graders.autograder import scores_from
from assay.graders.judge_input import JudgeInput
from assay.lint.findings import Finding
from assay.lint.linter import lint
from assay.loading import as_yaml
from assay.loading.golden_examples import Golden
from assay.models import Ledger, Model, budget, model_of
from assay.models.budgets import refuse_unpriced
from assay.models.model import has_room
from assay.probe.trials import off_topic, refuse_whole
from assay.rubric import Rubric
from assay.runs.pipeline import OnProgress, Watch
from assay.runs.spending import NOTHING, Spending
from assay.suggest.drafts import Draft, Pair, draft_from_pairs, draft_from_references, split
from assay.trust.estimate import Estimate, Record, clustered_wilson, undefined

MOST = 12  # criteria that are judged, unless said otherwise
_MOST_GOLDEN: Final = 3  # pairs that go into the file as golden examples

Text: TypeAlias = tuple[str, str]  # a response, and the prompt that it answers
_Verdicts: TypeAlias = Mapping[tuple[Text, str], bool | None]
"""Whether a text passes the criterion of a name; None without an answer."""

UNJUDGED = undefined("it was not held against pairs")


@dataclass(frozen=True)
class Judged(Record):
    """One drafted criterion, what came of it, and why it was kept or dropped."""

    criterion: Criterion
    kept: bool
    why: str
    better: int = 0  # pairs in which it favours the preferred response
    worse: int = 0  # pairs in which it favours the rejected one
    alike: int = 0  # pairs in which it says the same of both
    errors: int = 0  # pairs of which one side has no verdict
    agreement: Estimate = UNJUDGED  # of the pairs it tells apart, those in which it favours the preferred one


@dataclass(frozen=True)
class Suggestion:
    """What was drafted, and what is left of it."""

    source: str  # what the criteria are drafted from, in words
    criteria: tuple[Judged, ...]  # every criterion that was proposed, those that were kept first
    golden: tuple[Golden, ...] = ()
    errors: tuple[str, ...] = ()  # why a drafter gave no proposal
    spent: Spending = NOTHING

    @property
    def kept(self) -> tuple[Judged, ...]:
        """What the rubric is made of."""
        return tuple(judged for judged in self.criteria if judged.kept)

    @property
    def dropped(self) -> tuple[Judged, ...]:
        return tuple(judged for judged in self.criteria if not judged.kept)

    def rubric(self, name: str = "suggested") -> Rubric:
        """The rubric, with its golden examples. Raises `RubricError` when nothing was kept."""
        data: dict[str, Any] = {"name": name, "criteria": [judged.criterion.to_dict() for judged in self.kept]}
        golden = [example.to_dict() for example in self.golden]
        return Rubric.from_dict({**data, "golden": golden} if golden else data)

    def findings(self) -> list[Finding]:
        """What lint says about the rubric."""
        return lint(self.rubric()) if self.kept else []

    def to_yaml(self, name: str = "suggested") -> str:
        """The rubric as a file, with what speaks for each criterion as comments at the top."""
        rubric = self.rubric(name)
        head = [f"Drafted from {self.source}; {len(self.kept)} of {len(self.criteria)} criteria were kept."]
        for judged in self.kept:
            figure = "" if judged.agreement.value is None else f" ({judged.agreement})"
            head.append(f"- {judged.criterion.name}: {judged.why}{figure}")
        return "".join(f"# {line}\n" for line in head) + f"\n{as_yaml(rubric.to_dict())}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "source": self.source,
            "kept": [judged.to_dict() for judged in self.kept],
            "dropped": [judged.to_dict() for judged in self.dropped],
            "golden": [example.to_dict() for example in self.golden],
            "findings": [finding.to_dict() for finding in self.findings()],
            "errors": list(self.errors),
            "spent": self.spent.to_dict(),
        }


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

    `model`, which is what `model_of` takes, sees a third of the prompts and drafts up to `most` criteria. The grader,
    by default one around that model, judges both sides of all other pairs. A criterion is kept when it agrees with the
    preferences there clearly more often than chance would: when the lower end of the interval is above one half.
    """
    shown, unseen = split(pairs, seed)
    drafter, judge = _models(model, grader)
    with budget() as spent:
        draft = await draft_from_pairs(drafter, shown, most)
        criteria = _to_judge(draft, most, spent)
        texts = [text for pair in unseen for text in pair.texts]
        verdicts = await _verdicts(judge, criteria, texts, spent, on_progress)
    judged = [_judge_by_pairs(criterion, unseen, verdicts) for criterion in criteria]
    # The pairs that most criteria tell apart as people do go into the file, with what the judge said of both sides.
    told: list[tuple[Pair, list[Criterion]]] = []
    for pair in unseen:
        good, bad = pair.texts
        kept = [each.criterion for each in judged if each.kept]
        told.append((pair, [c for c in kept if verdicts[good, c.name] and verdicts[bad, c.name] is False]))
    told.sort(key=lambda item: -len(item[1]))
    golden = [
        _example(f"{name}_{number}", text, by, passes=name == "preferred")
        for number, (pair, by) in enumerate(told[:_MOST_GOLDEN], start=1)
        for name, text in zip(("preferred", "rejected"), pair.texts, strict=True)
        if by
    ]
    source = f"{len(pairs)} pairs by {drafter.id}, which saw {len(shown)} of them"
    return _suggestion(source, judged, golden, draft, spent)


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
    drafter, judge = _models(model, grader)
    good: list[Text] = [(text, prompt) for text in references]
    others: list[Text] = [(bait.text, prompt) for bait in off_topic()]
    with budget() as spent:
        draft = await draft_from_references(drafter, prompt, references, most)
        criteria = _to_judge(draft, most, spent)
        verdicts = await _verdicts(judge, criteria, [*good, *others], spent, on_progress)
    judged = [_judge_by_references(each, good, others, verdicts) for each in criteria]
    kept = [each.criterion for each in judged if each.kept]
    golden: list[Golden] = []
    if kept:  # references should pass everything, and a text about something else should not
        listed = enumerate(good[:_MOST_GOLDEN], start=1)
        golden = [_example(f"reference_{number}", text, kept, passes=True) for number, text in listed]
        golden.append(_example("off_topic", others[0], kept, passes=False))
    number = f"{len(references)} reference{'s' if len(references) > 1 else ''}"
    return _suggestion(f"a prompt with {number} by {drafter.id}", judged, golden, draft, spent)


def _models(model: Any, grader: Autograder | None) -> tuple[Model, Autograder]:
    drafter = model_of(model)
    judge = grader or PerCriterionGrader(model=drafter)
    refuse_whole(judge)
    refuse_unpriced([drafter, *judge.models()])
    return drafter, judge


def _to_judge(draft: Draft, most: int, spent: Ledger) -> list[Criterion]:
    """The drafted criteria; in a dry run, where no model drafts, as many of about as many words."""
    if spent.is_dry_run:
        words = "Says what the prompt asks for in words that a person who reads it can follow"
        return [Criterion(requirement=f"{words}: {n}") for n in range(most)]
    if not draft.criteria and draft.errors:
        raise JudgeError(f"no criterion was drafted: {draft.errors[0]}")
    return list(draft.criteria)


async def _verdicts(
    grader: Autograder,
    criteria: Sequence[Criterion],
    texts: Sequence[Text],
    spent: Ledger,
    on_progress: OnProgress | None,
) -> _Verdicts:
    if not criteria:
        return {}
    found: dict[tuple[Text, str], bool | None] = {}
    wanted, models = list(dict.fromkeys(texts)), grader.models()
    watch = Watch(on_progress, len(wanted) * len(criteria), spent)

    async def one(item: Text) -> None:
        text, prompt = item
        scores = await scores_from(grader, JudgeInput(text), [*criteria], prompt or None)
        for criterion, score in zip(criteria, scores, strict=True):
            value = score.value
            found[item, criterion.name] = None if value is None else criterion.passes(value)
        watch.fresh += len(scores)
        watch.errors += sum(score.error is not None for score in scores)
        watch.tell()

    await side_by_side(one, wanted, room=lambda: all(map(has_room, models)))
    return found


def _suggestion(
    source: str, judged: Sequence[Judged], golden: Sequence[Golden], draft: Draft, spent: Ledger
) -> Suggestion:
    refused = [Judged(criterion, kept=False, why=why) for criterion, why in draft.refused]
    ranked = sorted([*judged, *refused], key=lambda each: not each.kept)
    return Suggestion(source, tuple(ranked), tuple(golden), draft.errors, Spending.of(spent))


def _judge_by_pairs(criterion: Criterion, pairs: Sequence[Pair], verdicts: _Verdicts) -> Judged:
    """A criterion, kept if it agrees with the preferences clearly more often than chance would."""
    better = worse = alike = errors = 0
    clusters: dict[str, list[bool]] = defaultdict(list)
    for pair in pairs:
        chosen, rejected = (verdicts[text, criterion.name] for text in pair.texts)
        if chosen is None or rejected is None:
            errors += 1
        elif chosen is rejected:
            alike += 1
        else:
            better, worse = better + chosen, worse + rejected
            clusters[pair.prompt or pair.chosen].append(chosen)
    agreement = clustered_wilson([(sum(each), len(each)) for each in clusters.values()])
    kept, why = False, f"it favours the preferred one in {better} of {better + worse} pairs that it tells apart"
    if agreement.low is None or agreement.high is None:
        why = f"it says the same of both in every pair{f' ({errors} have no verdict)' if errors else ''}"
    elif agreement.low > 0.5:
        kept = True
    elif agreement.high < 0.5:
        why += ": it rewards what people reject"
    else:
        why += ": that may be chance"
    return Judged(criterion, kept, why, better, worse, alike, errors, agreement)


def _judge_by_references(
    criterion: Criterion, references: Sequence[Text], others: Sequence[Text], verdicts: _Verdicts
) -> Judged:
    """A criterion, kept if every reference passes it, and no text about something else does."""
    good = [verdicts[text, criterion.name] for text in references]
    bad = [verdicts[text, criterion.name] for text in others]
    errors = good.count(None) + bad.count(None)
    kept, why = False, ""
    if errors:
        why = f"{errors} of {len(good) + len(bad)} texts have no verdict"
    elif False in good:
        why = f"{good.count(False)} of {len(good)} references do not pass it"
    elif True in bad:
        why = f"{bad.count(True)} of {len(bad)} texts about something else pass it"
    else:
        kept, why = True, "the references pass it, and texts about something else do not"
    return Judged(criterion, kept, why, errors=errors)


def _example(name: str, text: Text, by: Sequence[Criterion], *, passes: bool) -> Golden:
    completion, prompt = text
    fields = {"prompt": prompt, "completion": completion} if prompt else {"completion": completion}
    expect = {c.name: c.choices[-1 if passes is (c.weight >= 0) else 0] for c in by}
    return Golden(name, fields, expect)
