"""Suggest criteria. A model drafts them, and those that tell good responses from bad ones are kept."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, Field, ValidationError

from assay.concurrency import run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError, ModelError, TrustError
from assay.graders.fences import escape_prompt_tags, fence
from assay.graders.grader import JudgeSource, grader_of, scores_from
from assay.graders.judge_input import JudgeInput, build_judge_input
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.lint.conflicts import find_hits_between
from assay.lint.findings import RULES, Finding
from assay.lint.linter import lint
from assay.lint.rules import find_hits
from assay.loading.rubric_reader import Golden
from assay.models import Ledger, Request, budget, model_of
from assay.models.budgets import raise_if_price_unknown
from assay.models.model import has_room
from assay.plan import make_names_unique
from assay.probe.trials import off_topic, require_criterion_answers
from assay.report import Score
from assay.rubric import Rubric
from assay.runs.pipeline import OnProgress, Watch
from assay.runs.spending import NOTHING, Spending
from assay.tables import rows_of
from assay.trust.estimate import Estimate, Record, clustered_wilson, to_plain_data
from assay.wording import describe_error, format_value

MOST = 12  # criteria that are judged by default
_MAX_GOLDEN: Final = 3  # pairs, or references, that become golden examples
Text: TypeAlias = tuple[str, str]  # a response, and the prompt that it answers
# Whether a text passes the criterion of a name; None without an answer.
_Verdicts: TypeAlias = Mapping[tuple[Text, str], bool | None]

UNJUDGED = Estimate(reason="it was not held against pairs")  # the agreement without pairs
_FEWEST: Final = 5  # prompts that are needed to tell a criterion from chance
_PAIRS_PER_CALL: Final = 4  # pairs that the drafter sees in one call


@dataclass(frozen=True)
class Pair:
    """Two responses to one prompt."""

    prompt: str
    chosen: str
    rejected: str
    # The judge's inputs for the two responses, for conversations. If None, they are made from the texts.
    chosen_input: JudgeInput | None = field(default=None, repr=False, compare=False)
    rejected_input: JudgeInput | None = field(default=None, repr=False, compare=False)

    @property
    def texts(self) -> tuple["Text", "Text"]:
        """Both responses, the preferred one first, each with the prompt."""
        return (self.chosen, self.prompt), (self.rejected, self.prompt)

    @property
    def inputs(self) -> tuple[JudgeInput, JudgeInput]:
        """The judge's inputs for both responses, the preferred one first."""
        query = self.prompt or None
        chosen = self.chosen_input or JudgeInput(self.chosen, query=query)
        rejected = self.rejected_input or JudgeInput(self.rejected, query=query)
        return chosen, rejected


class Judged(Record):
    """A drafted criterion, its results on the pairs, and why it was kept or dropped."""

    criterion: Criterion
    kept: bool
    why: str
    better: int = 0  # pairs in which it favours the preferred response
    worse: int = 0  # pairs in which it favours the rejected one
    alike: int = 0  # pairs in which it says the same of both
    errors: int = 0  # pairs of which one side has no verdict
    # The share in which it favours the preferred response, of the pairs that it tells apart.
    agreement: Estimate = UNJUDGED


class Suggestion(Record):
    """All criteria that were drafted, with the decision on each."""

    source: str  # what the criteria are drafted from, in words
    criteria: tuple[Judged, ...]  # every criterion that was proposed, those that were kept first
    golden: tuple[Golden, ...] = ()
    errors: tuple[str, ...] = ()  # why a drafter gave no proposal
    spent: Spending = NOTHING

    @property
    def kept(self) -> tuple[Judged, ...]:
        """The criteria that are part of the rubric."""
        return tuple(judged for judged in self.criteria if judged.kept)

    @property
    def dropped(self) -> tuple[Judged, ...]:
        """The criteria that are not."""
        return tuple(judged for judged in self.criteria if not judged.kept)

    def rubric(self, name: str = "suggested") -> Rubric:
        """Return the rubric with its golden examples. Raise `RubricError` if nothing was kept."""
        data: dict[str, Any] = {
            "name": name,
            "criteria": [judged.criterion.to_dict() for judged in self.kept],
        }
        if self.golden:
            data["golden"] = [example.to_dict() for example in self.golden]
        return Rubric.from_dict(data)

    def findings(self) -> list[Finding]:
        """Return the findings of lint in the rubric."""
        if not self.kept:
            return []
        return lint(self.rubric())

    def to_yaml(self, name: str = "suggested") -> str:
        """Return the rubric as a file. Comments at the top say why each criterion was kept."""
        comments = [
            f"Drafted from {self.source}; {len(self.kept)} of {len(self.criteria)} criteria were kept."
        ]
        for judged in self.kept:
            comment = f"- {judged.criterion.name}: {judged.why}"
            if judged.agreement.value is not None:
                comment += f" ({judged.agreement})"
            comments.append(comment)
        head = "".join(f"# {comment}\n" for comment in comments)
        return f"{head}\n{self.rubric(name).to_yaml()}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        names = ("source", "kept", "dropped", "golden", "errors", "spent")
        data = {name: to_plain_data(getattr(self, name)) for name in names}
        data["findings"] = to_plain_data(self.findings())
        return data


async def suggest_from_pairs(
    pairs: Sequence[Pair],
    model: Any,
    judge: JudgeSource | None = None,
    *,
    most: int = MOST,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Suggestion:
    """Suggest criteria that tell preferred responses from rejected ones.

    `model` is anything that `model_of` takes. It sees a third of the prompts, and drafts up to
    `most` criteria. The `judge` (a grader, a model, or the name of one; by default that model)
    judges both responses of all other pairs. A criterion is kept if it agrees with the preferences
    there more often than chance: if the lower end of the interval is above one half.
    """
    shown, unseen = split(pairs, seed)
    descriptions: list[str] = []
    for pair in shown:
        text = f"Preferred:\n{fence(pair.chosen)}\nRejected:\n{fence(pair.rejected)}"
        if pair.prompt:
            text = f"<query>{escape_prompt_tags(pair.prompt)}</query>\n{text}"
        descriptions.append(text)
    prompts: list[str] = []
    for start in range(0, len(descriptions), _PAIRS_PER_CALL):
        prompts.append("\n\n".join(descriptions[start : start + _PAIRS_PER_CALL]))
    inputs: list[JudgeInput] = []
    for pair in unseen:
        inputs += pair.inputs
    draft = _Draft(model, judge, most, on_progress)
    verdicts = await draft.draft_and_judge("suggest_pairs", prompts, inputs)
    judged = [_judge_by_pairs(criterion, unseen, verdicts) for criterion in draft.criteria]
    kept = [result.criterion for result in judged if result.kept]
    return draft.make_suggestion(
        f"{len(pairs)} pairs",
        f", which saw {len(shown)} of them",
        judged,
        _choose_golden_pairs(unseen, kept, verdicts),
    )


def _choose_golden_pairs(
    pairs: Sequence[Pair], criteria: Sequence[Criterion], verdicts: _Verdicts
) -> list[Golden]:
    """Return as examples the pairs in which most criteria agree with the preference.

    An example expects only the verdicts of the criteria that agree.
    """
    agreeing_criteria: list[tuple[Pair, list[Criterion]]] = []
    for pair in pairs:
        chosen, rejected = pair.texts
        agreeing: list[Criterion] = []
        for criterion in criteria:
            chosen_passes = verdicts[chosen, criterion.name]
            rejected_passes = verdicts[rejected, criterion.name]
            if chosen_passes is True and rejected_passes is False:
                agreeing.append(criterion)
        agreeing_criteria.append((pair, agreeing))
    agreeing_criteria.sort(key=lambda item: len(item[1]), reverse=True)
    golden: list[Golden] = []
    for number, (pair, agreeing) in enumerate(agreeing_criteria[:_MAX_GOLDEN], start=1):
        if agreeing:
            chosen, rejected = pair.inputs
            golden.append(_make_example(f"preferred_{number}", chosen, agreeing, passes=True))
            golden.append(_make_example(f"rejected_{number}", rejected, agreeing, passes=False))
    return golden


async def suggest_from_references(
    prompt: str,
    references: Sequence[str],
    model: Any,
    judge: JudgeSource | None = None,
    *,
    most: int = MOST,
    on_progress: OnProgress | None = None,
) -> Suggestion:
    """Suggest criteria that good answers to a prompt meet.

    A criterion is kept if every reference passes it, and no text of the package about something else
    does. This does not show that it tells good answers from weak ones; only pairs show that.
    """
    if not references:
        raise TrustError("there are no references to draft from: give at least one")
    draft = _Draft(model, judge, most, on_progress)
    query = prompt or None
    good = [JudgeInput(text, query=query) for text in references]
    others = [JudgeInput(bait.text, query=query) for bait in off_topic()]
    sections = [f"<query>{escape_prompt_tags(prompt)}</query>"]
    sections += [f"A good answer:\n{fence(text)}" for text in references]
    verdicts = await draft.draft_and_judge(
        "suggest_references", ["\n\n".join(sections)], [*good, *others], allow_faults=False
    )
    judged = [
        _judge_by_references(criterion, good, others, verdicts) for criterion in draft.criteria
    ]
    kept = [result.criterion for result in judged if result.kept]
    golden: list[Golden] = []
    if kept:
        # References pass all criteria, and a text about something else passes none.
        for number, judge_input in enumerate(good[:_MAX_GOLDEN], start=1):
            golden.append(_make_example(f"reference_{number}", judge_input, kept, passes=True))
        golden.append(_make_example("off_topic", others[0], kept, passes=False))
    count = "1 reference" if len(references) == 1 else f"{len(references)} references"
    return draft.make_suggestion(f"a prompt with {count}", "", judged, golden)


class _Draft:
    """Lets a model draft criteria, and a grader judge texts by them. Keeps the criteria and the cost."""

    def __init__(
        self, model: Any, judge: JudgeSource | None, most: int, on_progress: OnProgress | None
    ) -> None:
        self.drafter = model_of(model)
        self.grader = grader_of(self.drafter if judge is None else judge)
        require_criterion_answers(self.grader)
        raise_if_price_unknown([self.drafter, *self.grader.models()])
        self.most = most
        self.on_progress = on_progress
        self.criteria: list[Criterion] = []
        self.refused: list[Judged] = []  # drafted criteria that are not judged
        self.errors: list[str] = []  # why a call of the drafter gave no proposal
        self.spent = NOTHING

    async def draft_and_judge(
        self,
        prompt_name: str,
        prompts: Sequence[str],
        inputs: Sequence[JudgeInput],
        *,
        allow_faults: bool = True,
    ) -> _Verdicts:
        """Draft criteria with the system prompt of this name, and return the verdicts on all texts.

        The drafter is called with each of the `prompts`; the grader judges the `inputs`. Without `allow_faults`, criteria with negative weights are refused.
        """
        verdicts: _Verdicts = {}
        with budget() as ledger:
            await self._draft_criteria(prompt_name, prompts, allow_faults=allow_faults)
            if ledger.is_dry_run:
                # No model drafts in a dry run. Criteria of a typical length take their place, to
                # count the calls and tokens of the judge.
                requirement = (
                    "Says what the prompt asks for in words that a person who reads it can follow"
                )
                self.criteria = [
                    Criterion(requirement=f"{requirement}: {number}") for number in range(self.most)
                ]
            elif not self.criteria and self.errors:
                raise JudgeError(f"no criterion was drafted: {self.errors[0]}")
            if self.criteria:
                verdicts = await self._judge_all(inputs, ledger)
        self.spent = Spending.of(ledger)
        return verdicts

    async def _draft_criteria(
        self, prompt_name: str, prompts: Sequence[str], *, allow_faults: bool
    ) -> None:
        """Ask the drafter about each prompt, and divide its criteria into `criteria` and `refused`."""
        system = system_prompt(prompt_name, "assay.suggest")
        version = prompt_version(prompt_name, "assay.suggest")

        async def ask_drafter(user_prompt: str) -> Proposal | str:
            """Return the proposal of the model, or why there is none."""
            request = Request.of(system, user_prompt, schema=Proposal)
            request = replace(request, check=_find_objection, prompt=version)
            try:
                reply = await self.drafter(request)
                # If the drafter is a function of the caller, its reply has not been validated.
                proposal = Proposal.model_validate(reply.value)
            except (ModelError, ValidationError) as error:
                return describe_error(error)
            return _find_objection(proposal) or proposal

        proposals: list[list[Proposed]] = []
        for reply in await run_concurrently(ask_drafter, prompts):
            if isinstance(reply, str):
                self.errors.append(reply)
            else:
                proposals.append(reply.criteria)
        drafted: list[Criterion] = []
        # The first criteria of all proposals, then the second ones, so that the limit leaves some of
        # each proposal.
        for same_rank in zip_longest(*proposals):
            for proposed in same_rank:
                if proposed is not None:
                    requirement = " ".join(proposed.requirement.split())
                    drafted.append(Criterion(requirement=requirement, weight=proposed.weight))
        for criterion in make_names_unique(drafted):
            refusal = self._explain_refusal(criterion, allow_faults=allow_faults)
            if refusal:
                self.refused.append(Judged(criterion, kept=False, why=refusal))
            else:
                self.criteria.append(criterion)

    def _explain_refusal(self, criterion: Criterion, *, allow_faults: bool) -> str:
        """Return why a drafted criterion is not judged; empty if it is."""
        if criterion.weight < 0 and not allow_faults:
            return "it describes a fault, and references show none"
        for hit in find_hits(criterion):
            if (hit.severity or RULES[hit.rule].severity) == "error":
                return f"lint {hit.rule}: {hit.message}"
        # A hit about this criterion, which is the last one, means that it repeats or contradicts an
        # earlier one.
        hits = dict(find_hits_between([*self.criteria, criterion]))
        hit = hits.get(len(self.criteria))
        if hit is not None:
            return f"lint {hit.rule}: {hit.message}"
        if len(self.criteria) == self.most:
            return f"there are {self.most} before it, and no more were wanted"
        return ""

    async def _judge_all(self, inputs: Sequence[JudgeInput], ledger: Ledger) -> _Verdicts:
        """Return the verdicts of the grader on all texts by all criteria.

        A text is judged once, even if several pairs have it.
        """
        input_of_text: dict[Text, JudgeInput] = {}
        for judge_input in inputs:
            input_of_text.setdefault(_text_of(judge_input), judge_input)
        models = self.grader.models()
        watch = Watch(self.on_progress, len(input_of_text) * len(self.criteria), ledger)

        async def judge_text(judge_input: JudgeInput) -> Sequence[Score]:
            scores = await scores_from(self.grader, judge_input, self.criteria)
            watch.fresh += len(scores)
            watch.errors += sum(score.error is not None for score in scores)
            watch.report()
            return scores

        with watch.ticking():
            results = await run_concurrently(
                judge_text,
                list(input_of_text.values()),
                has_room=lambda: all(has_room(model) for model in models),
            )
        verdicts: dict[tuple[Text, str], bool | None] = {}
        for text, scores in zip(input_of_text, results, strict=True):
            for criterion, score in zip(self.criteria, scores, strict=True):
                verdict = None
                if score.value is not None:
                    verdict = criterion.passes(score.value)
                verdicts[text, criterion.name] = verdict
        return verdicts

    def make_suggestion(
        self, source: str, seen_part: str, judged: Sequence[Judged], golden: Sequence[Golden]
    ) -> Suggestion:
        """Return the result, with a description of what the criteria were drafted from.

        It consists of `source`, the name of the drafter, and `seen_part`: how much of it the drafter
        saw, or nothing if it saw all.
        """
        kept_first = sorted([*judged, *self.refused], key=lambda result: not result.kept)
        return Suggestion(
            source=f"{source} by {self.drafter.id}{seen_part}",
            criteria=tuple(kept_first),
            golden=tuple(golden),
            errors=tuple(self.errors),
            spent=self.spent,
        )


def _text_of(judge_input: JudgeInput) -> Text:
    """Return the response and the prompt of an input, which identify it."""
    return judge_input.text, judge_input.query or ""


def _judge_by_pairs(criterion: Criterion, pairs: Sequence[Pair], verdicts: _Verdicts) -> Judged:
    """Keep a criterion if it agrees with the preferences clearly more often than chance would."""
    better = worse = alike = errors = 0
    agreements: dict[str, list[bool]] = defaultdict(list)  # of the pairs of each prompt
    for pair in pairs:
        chosen, rejected = pair.texts
        chosen_passes = verdicts[chosen, criterion.name]
        rejected_passes = verdicts[rejected, criterion.name]
        if chosen_passes is None or rejected_passes is None:
            errors += 1
        elif chosen_passes is rejected_passes:
            alike += 1
        else:
            better += chosen_passes
            worse += rejected_passes
            agreements[pair.prompt or pair.chosen].append(chosen_passes)
    agreement = clustered_wilson([(sum(flags), len(flags)) for flags in agreements.values()])
    kept = False
    if agreement.low is None or agreement.high is None:
        why = "it says the same of both in every pair"
        if errors:
            why += f" ({errors} have no verdict)"
    else:
        kept = agreement.low > 0.5
        why = (
            f"it favours the preferred one in {better} of {better + worse} pairs "
            "that it tells apart"
        )
        if agreement.high < 0.5:
            why += ": it rewards what people reject"
        elif not kept:
            why += ": that may be chance"
    return Judged(
        criterion=criterion,
        kept=kept,
        why=why,
        better=better,
        worse=worse,
        alike=alike,
        errors=errors,
        agreement=agreement,
    )


def _judge_by_references(
    criterion: Criterion,
    references: Sequence[JudgeInput],
    others: Sequence[JudgeInput],
    verdicts: _Verdicts,
) -> Judged:
    """Keep a criterion if every reference passes it, and no text about something else does."""
    of_references = [verdicts[_text_of(text), criterion.name] for text in references]
    of_others = [verdicts[_text_of(text), criterion.name] for text in others]
    errors = of_references.count(None) + of_others.count(None)
    kept = False
    if errors:
        why = f"{errors} of {len(references) + len(others)} texts have no verdict"
    elif False in of_references:
        why = f"{of_references.count(False)} of {len(references)} references do not pass it"
    elif True in of_others:
        why = f"{of_others.count(True)} of {len(others)} texts about something else pass it"
    else:
        kept = True
        why = "the references pass it, and texts about something else do not"
    return Judged(criterion, kept, why, errors=errors)


def _make_example(
    name: str, judge_input: JudgeInput, criteria: Sequence[Criterion], *, passes: bool
) -> Golden:
    """Return a golden example that passes, or fails, all of the criteria."""
    row: dict[str, Any] = {"prompt": judge_input.query, "completion": judge_input.text}
    if judge_input.parts:  # a conversation is kept in its original form
        row = {column: judge_input.fields.get(column) for column in row}
    expect: dict[str, str] = {}
    for criterion in criteria:
        is_fault = criterion.weight < 0
        # The last choice says that the criterion is met. For a fault, that means that it fails.
        is_met = not passes if is_fault else passes
        expect[criterion.name] = criterion.choices[-1] if is_met else criterion.choices[0]
    columns = {column: value for column, value in row.items() if value}
    return Golden(name, columns, expect)


def read_pairs(source: object) -> list[Pair]:
    """Read the pairs of a table with the columns `chosen`, `rejected`, and perhaps `prompt`.

    Responses are texts or messages, of which drafters and judges read all. Without a `prompt`, it is
    taken from the beginning of the messages.

    >>> read_pairs([{"prompt": "2+2?", "chosen": "4", "rejected": "5"}])
    [Pair(prompt='2+2?', chosen='4', rejected='5')]
    """
    pairs: list[Pair] = []
    for number, row in enumerate(rows_of(source, fields=("chosen", "rejected")), start=1):
        sides: dict[str, JudgeInput] = {}  # by column
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
        # Both answer the same prompt, also if only one of them contains it.
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
    """Divide pairs into those that the drafter sees, at most a third, and those that it does not.

    No prompt is in both.
    """
    groups: dict[str | int, list[Pair]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        # Every pair without a prompt is a group of its own.
        groups[pair.prompt or number].append(pair)
    if len(groups) < _FEWEST:
        raise TrustError(
            f"{len(groups)} prompts are too few to tell a criterion from chance: "
            f"give pairs of {_FEWEST} or more"
        )
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    # The drafter sees one pair each of at most 12 prompts. The others show what the criteria are worth.
    shown_count = min(12, max(1, len(shuffled) // 3))
    shown = [group[0] for group in shuffled[:shown_count]]
    unseen: list[Pair] = []
    for group in shuffled[shown_count:]:
        unseen += group
    return shown, unseen


class Proposed(BaseModel):
    """A proposed criterion. The reason comes first, so that the requirement follows from it."""

    reason: str
    requirement: str
    weight: float


class Proposal(BaseModel):
    """The reply of a drafter. The reason comes first, so that the criteria follow from it."""

    reason: str
    criteria: list[Proposed] = Field(min_length=1)


def _find_objection(value: Any) -> str | None:
    """Return what is wrong with a proposal, which the model is then told; None if nothing is."""
    for proposed in Proposal.model_validate(value).criteria:
        requirement = proposed.requirement.strip()
        if not requirement:
            return "a requirement is blank: write one sentence"
        if len(requirement) > 400:
            return "a requirement is too long: write one sentence"
        if not 0 < abs(proposed.weight) <= 10:
            return f"the weight of {requirement!r} is {proposed.weight:g}: give one from 1 to 3"
    return None
