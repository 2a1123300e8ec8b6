"""Suggest criteria: drafted by a model, judged, and kept only where they tell good responses from bad ones."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, Field, ValidationError

from assay.aggregation import group_by_key
from assay.concurrency import run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError, ModelError, TrustError
from assay.graders.fences import escape_prompt_tags, fence
from assay.graders.grader import JudgeSource, grader_of, scores_from
from assay.graders.judge_input import JudgeInput, build_judge_input
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.lint.conflicts import hits_between
from assay.lint.findings import RULES, Finding
from assay.lint.linter import lint
from assay.lint.rules import hits_of_criterion
from assay.loading.rubric_reader import Golden
from assay.models import Ledger, Request, budget, model_of
from assay.models.budgets import raise_if_price_unknown
from assay.models.model import has_room
from assay.plan import make_names_unique
from assay.probe.trials import off_topic, refuse_whole
from assay.rubric import Rubric
from assay.runs.pipeline import OnProgress, Watch
from assay.runs.spending import NOTHING, Spending
from assay.tables import rows_of
from assay.trust.estimate import Estimate, Record, clustered_wilson, to_plain_data
from assay.wording import describe_error, format_value

MOST = 12  # criteria that are judged, unless said otherwise
_MOST_GOLDEN: Final = 3  # pairs that go into the file as golden examples
Text: TypeAlias = tuple[str, str]  # a response, and the prompt that it answers
# Whether a text passes the criterion of a name; None without an answer.
_Verdicts: TypeAlias = Mapping[tuple[Text, str], bool | None]

UNJUDGED = Estimate(reason="it was not held against pairs")
_FEWEST: Final = 5  # pairs without which no criterion could be told from chance
_AT_ONCE: Final = 4  # pairs that are shown to the drafter in one call


@dataclass(frozen=True)
class Pair:
    """Two responses to one prompt."""

    prompt: str
    chosen: str
    rejected: str
    # What a judge is given about each, for responses that are conversations; made from the texts if None.
    chosen_input: JudgeInput | None = field(default=None, repr=False, compare=False)
    rejected_input: JudgeInput | None = field(default=None, repr=False, compare=False)

    @property
    def texts(self) -> tuple["Text", "Text"]:
        """Both responses, the preferred one first, each with the prompt."""
        return (self.chosen, self.prompt), (self.rejected, self.prompt)

    @property
    def inputs(self) -> tuple[JudgeInput, JudgeInput]:
        """What a judge is given about both, the preferred one first."""
        query = self.prompt or None
        chosen = self.chosen_input or JudgeInput(self.chosen, query=query)
        rejected = self.rejected_input or JudgeInput(self.rejected, query=query)
        return chosen, rejected


class Judged(Record):
    """One drafted criterion, what came of it, and why it was kept or dropped."""

    criterion: Criterion
    kept: bool
    why: str
    better: int = 0  # pairs in which it favours the preferred response
    worse: int = 0  # pairs in which it favours the rejected one
    alike: int = 0  # pairs in which it says the same of both
    errors: int = 0  # pairs of which one side has no verdict
    agreement: Estimate = (
        UNJUDGED  # of the pairs it tells apart, those in which it favours the preferred one
    )


class Suggestion(Record):
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
        data: dict[str, Any] = {
            "name": name,
            "criteria": [judged.criterion.to_dict() for judged in self.kept],
        }
        golden = [example.to_dict() for example in self.golden]
        return Rubric.from_dict({**data, "golden": golden} if golden else data)

    def findings(self) -> list[Finding]:
        """What lint says about the rubric."""
        return lint(self.rubric()) if self.kept else []

    def to_yaml(self, name: str = "suggested") -> str:
        """The rubric as a file, with what speaks for each criterion as comments at the top."""
        rubric = self.rubric(name)
        head = [
            f"Drafted from {self.source}; {len(self.kept)} of {len(self.criteria)} criteria were kept."
        ]
        for judged in self.kept:
            figure = "" if judged.agreement.value is None else f" ({judged.agreement})"
            head.append(f"- {judged.criterion.name}: {judged.why}{figure}")
        return "".join(f"# {line}\n" for line in head) + f"\n{rubric.to_yaml()}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        names = ("source", "kept", "dropped", "golden", "errors", "spent")
        return {name: to_plain_data(getattr(self, name)) for name in names} | {
            "findings": to_plain_data(self.findings())
        }


async def suggest_from_pairs(
    pairs: Sequence[Pair],
    model: Any,
    judge: JudgeSource | None = None,
    *,
    most: int = MOST,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Suggestion:
    """Criteria that tell preferred responses from rejected ones.

    `model`, which is what `model_of` takes, sees a third of the prompts and drafts up to `most` criteria. The
    `judge` (a grader, a model, or the name of one; by default that model) judges both sides of all other pairs. A criterion is kept when it agrees with the
    preferences there clearly more often than chance would: when the lower end of the interval is above one half.
    """
    shown, unseen = split(pairs, seed)
    parts: list[str] = []
    for pair in shown:
        asked = f"<query>{escape_prompt_tags(pair.prompt)}</query>\n" if pair.prompt else ""
        parts.append(f"{asked}Preferred:\n{fence(pair.chosen)}\nRejected:\n{fence(pair.rejected)}")
    prompts = [
        "\n\n".join(parts[start : start + _AT_ONCE]) for start in range(0, len(parts), _AT_ONCE)
    ]
    draft = _Draft(model, judge, most, on_progress)
    verdicts = await draft.judge(
        "suggest_pairs", prompts, [judge_input for pair in unseen for judge_input in pair.inputs]
    )
    judged = [_judge_by_pairs(criterion, unseen, verdicts) for criterion in draft.criteria]
    # The pairs that most criteria tell apart as people do go into the file, with what the judge said of both sides.
    kept = [each.criterion for each in judged if each.kept]
    told = [
        (pair, [c for c in kept if verdicts[good, c.name] and verdicts[bad, c.name] is False])
        for pair in unseen
        for good, bad in [pair.texts]
    ]
    golden: list[Golden] = []
    for number, (pair, by) in enumerate(
        sorted(told, key=lambda each: -len(each[1]))[:_MOST_GOLDEN], start=1
    ):
        if by:
            good, bad = pair.inputs
            golden.append(_example(f"preferred_{number}", good, by, passes=True))
            golden.append(_example(f"rejected_{number}", bad, by, passes=False))
    return draft.suggestion(
        f"{len(pairs)} pairs", f", which saw {len(shown)} of them", judged, golden
    )


async def suggest_from_references(
    prompt: str,
    references: Sequence[str],
    model: Any,
    judge: JudgeSource | None = None,
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
    draft = _Draft(model, judge, most, on_progress)
    query = prompt or None
    good = [JudgeInput(text, query=query) for text in references]
    others = [JudgeInput(bait.text, query=query) for bait in off_topic()]
    asked = f"<query>{escape_prompt_tags(prompt)}</query>"
    shown = "\n\n".join([asked, *(f"A good answer:\n{fence(text)}" for text in references)])
    verdicts = await draft.judge("suggest_references", [shown], [*good, *others], faults=False)
    judged = [_judge_by_references(each, good, others, verdicts) for each in draft.criteria]
    kept = [each.criterion for each in judged if each.kept]
    golden: list[Golden] = []
    if kept:  # references should pass everything, and a text about something else should not
        listed = enumerate(good[:_MOST_GOLDEN], start=1)
        golden = [
            _example(f"reference_{number}", text, kept, passes=True) for number, text in listed
        ]
        golden.append(_example("off_topic", others[0], kept, passes=False))
    number = f"{len(references)} reference{'s' if len(references) > 1 else ''}"
    return draft.suggestion(f"a prompt with {number}", "", judged, golden)


class _Draft:
    """Criteria that a model drafts and a grader judges by; what was refused before, with why; and what it cost."""

    def __init__(
        self, model: Any, judge: JudgeSource | None, most: int, on_progress: OnProgress | None
    ) -> None:
        self.drafter = model_of(model)
        self.grader = grader_of(self.drafter if judge is None else judge)
        refuse_whole(self.grader)
        raise_if_price_unknown([self.drafter, *self.grader.models()])
        self.most, self.on_progress = most, on_progress
        self.criteria: list[Criterion] = []
        self.refused: list[Judged] = []
        self.errors: list[str] = []  # why a call of the drafter gave no proposal
        self.spent = NOTHING

    async def judge(
        self,
        name: str,
        prompts: Sequence[str],
        inputs: Sequence[JudgeInput],
        *,
        faults: bool = True,
    ) -> _Verdicts:
        """Have criteria drafted after the system prompt of this name, and all texts judged by them."""
        with budget() as spent:
            await self._draft(name, prompts, faults=faults)
            if spent.is_dry_run:
                # No model drafts there, so as many criteria of about as many words are counted.
                words = (
                    "Says what the prompt asks for in words that a person who reads it can follow"
                )
                self.criteria = [Criterion(requirement=f"{words}: {n}") for n in range(self.most)]
            elif not self.criteria and self.errors:
                raise JudgeError(f"no criterion was drafted: {self.errors[0]}")
            verdicts: _Verdicts = await self._verdicts(inputs, spent) if self.criteria else {}
        self.spent = Spending.of(spent)
        return verdicts

    async def _draft(self, name: str, prompts: Sequence[str], *, faults: bool) -> None:
        words, version = system_prompt(name, "assay.suggest"), prompt_version(name, "assay.suggest")

        async def ask(user: str) -> Proposal | str:
            request = replace(
                Request.of(words, user, schema=Proposal), check=_complaint, prompt=version
            )
            try:
                # What a function of the caller's returns has not been validated yet.
                proposal = Proposal.model_validate((await self.drafter(request)).value)
            except (ModelError, ValidationError) as error:
                return describe_error(error)
            return _complaint(proposal) or proposal

        replies = await run_concurrently(ask, prompts)
        self.errors = [reply for reply in replies if isinstance(reply, str)]
        # In turn, so that no call's criteria crowd out another's.
        proposals = [reply.criteria for reply in replies if isinstance(reply, Proposal)]
        in_turn = [each for turn in zip_longest(*proposals) for each in turn if each]
        drafted = [
            Criterion(requirement=" ".join(each.requirement.split()), weight=each.weight)
            for each in in_turn
        ]
        # The first `most` that lint finds no error in, and that ask what none before them asks.
        for criterion in make_names_unique(drafted):
            hits = hits_of_criterion(criterion)
            errors = (hit for hit in hits if (hit.severity or RULES[hit.rule].severity) == "error")
            hit = next(errors, None) or dict(hits_between([*self.criteria, criterion])).get(
                len(self.criteria)
            )
            why = None if hit is None else f"lint {hit.rule}: {hit.message}"
            if criterion.weight < 0 and not faults:
                why = "it describes a fault, and references show none"
            if why is None and len(self.criteria) == self.most:
                why = f"there are {self.most} before it, and no more were wanted"
            if why is None:
                self.criteria.append(criterion)
            else:
                self.refused.append(Judged(criterion, kept=False, why=why))

    async def _verdicts(self, inputs: Sequence[JudgeInput], spent: Ledger) -> _Verdicts:
        found: dict[tuple[Text, str], bool | None] = {}
        by_text: dict[Text, JudgeInput] = {}
        for judge_input in inputs:
            by_text.setdefault(_text_of(judge_input), judge_input)
        wanted, models = list(by_text.items()), self.grader.models()
        watch = Watch(self.on_progress, len(wanted) * len(self.criteria), spent)

        async def one(item: tuple[Text, JudgeInput]) -> None:
            text, judge_input = item
            scores = await scores_from(self.grader, judge_input, self.criteria)
            for criterion, score in zip(self.criteria, scores, strict=True):
                value = score.value
                found[text, criterion.name] = None if value is None else criterion.passes(value)
            watch.fresh += len(scores)
            watch.errors += sum(score.error is not None for score in scores)
            watch.report()

        with watch.ticking():
            await run_concurrently(one, wanted, has_room=lambda: all(map(has_room, models)))
        return found

    def suggestion(
        self, source: str, shown: str, judged: Sequence[Judged], golden: Sequence[Golden]
    ) -> Suggestion:
        """What is left of the draft, drafted from a source of which so much was shown."""
        ranked = sorted([*judged, *self.refused], key=lambda each: not each.kept)
        source = f"{source} by {self.drafter.id}{shown}"
        return Suggestion(source, tuple(ranked), tuple(golden), tuple(self.errors), self.spent)


def _text_of(judge_input: JudgeInput) -> Text:
    return judge_input.text, judge_input.query or ""


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
    kept, why = (
        False,
        f"it favours the preferred one in {better} of {better + worse} pairs that it tells apart",
    )
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
    criterion: Criterion,
    references: Sequence[JudgeInput],
    others: Sequence[JudgeInput],
    verdicts: _Verdicts,
) -> Judged:
    """A criterion, kept if every reference passes it, and no text about something else does."""
    good, bad = (
        [verdicts[_text_of(judge_input), criterion.name] for judge_input in inputs]
        for inputs in (references, others)
    )
    errors, why = good.count(None) + bad.count(None), ""
    if errors:
        why = f"{errors} of {len(good) + len(bad)} texts have no verdict"
    elif False in good:
        why = f"{good.count(False)} of {len(good)} references do not pass it"
    elif True in bad:
        why = f"{bad.count(True)} of {len(bad)} texts about something else pass it"
    passed = "the references pass it, and texts about something else do not"
    return Judged(criterion, not why, why or passed, errors=errors)


def _example(
    name: str, judge_input: JudgeInput, by: Sequence[Criterion], *, passes: bool
) -> Golden:
    said: dict[str, Any] = {"prompt": judge_input.query, "completion": judge_input.text}
    if judge_input.parts:  # a conversation as it was given
        said = {name: judge_input.fields.get(name) for name in said}
    fields = {name: value for name, value in said.items() if value}
    return Golden(
        name, fields, {c.name: c.choices[-1 if passes is (c.weight >= 0) else 0] for c in by}
    )


def read_pairs(source: object) -> list[Pair]:
    """The pairs in a table: `chosen`, `rejected`, and a `prompt` if there is one.

    Responses are texts, or messages, of which drafters and judges read all; without a prompt, it is what they open with.

    >>> read_pairs([{"prompt": "2+2?", "chosen": "4", "rejected": "5"}])
    [Pair(prompt='2+2?', chosen='4', rejected='5')]
    """
    pairs: list[Pair] = []
    for number, row in enumerate(rows_of(source, fields=("chosen", "rejected")), start=1):
        sides: dict[str, JudgeInput] = {}
        for key in ("rejected", "chosen"):
            try:
                judge_input = build_judge_input(
                    {"prompt": row.get("prompt"), "completion": row[key]}
                )
            except (TypeError, ValueError, JudgeError) as error:
                raise TrustError(
                    f"pair {number}: {key} is {format_value(row[key])}: {error}"
                ) from None
            if not judge_input.assistant_text.strip():
                raise TrustError(
                    f"pair {number}: {key} is empty: give a response, or leave the pair out"
                )
            sides[key] = judge_input
        chosen = sides["chosen"]
        rejected = replace(
            sides["rejected"],
            query=chosen.query,
            query_is_transcript=chosen.query_is_transcript,
        )
        if chosen.text.strip() == rejected.text.strip():
            raise TrustError(f"pair {number}: chosen and rejected are the same: leave the pair out")
        pairs.append(Pair(chosen.query or "", chosen.text, rejected.text, chosen, rejected))
    return pairs


def split(pairs: Sequence[Pair], seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """The pairs that drafters see, a third of them at most, and those that they do not; no prompt is in both."""
    # Pairs without a prompt are each for themselves.
    groups = list(
        group_by_key((pair.prompt or number, pair) for number, pair in enumerate(pairs)).values()
    )
    if len(groups) < _FEWEST:
        said = f"{len(groups)} prompts are too few to tell a criterion from chance"
        raise TrustError(f"{said}: give pairs of {_FEWEST} or more")
    random.Random(seed).shuffle(groups)
    most = min(
        12, max(1, len(groups) // 3)
    )  # all others are for finding out what the criteria are worth
    return [group[0] for group in groups[:most]], [pair for g in groups[most:] for pair in g]


class Proposed(BaseModel):
    """One criterion, the reason first."""

    reason: str
    requirement: str
    weight: float


class Proposal(BaseModel):
    """What a drafter replies: the reason first, so that the criteria follow from it."""

    reason: str
    criteria: list[Proposed] = Field(min_length=1)


def _complaint(value: Any) -> str | None:
    for each in Proposal.model_validate(value).criteria:
        words = each.requirement.strip()
        if not words or len(words) > 400:
            return f"a requirement is {'too long' if words else 'blank'}: write one sentence"
        if not 0 < abs(each.weight) <= 10:
            return f"the weight of {words!r} is {each.weight:g}: give one from 1 to 3"
    return None
