"""Ask a judge about bad responses, without and with attacks.

Every criterion needs baits: responses that the judge fails without an attack. Each family of attacks
has a harmless twin, a text that looks like them but asks for nothing. A bait with the twin must fail
as well; if it passes, a pass with an attack would not show that the attack worked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, cast

from assay.aggregation import group_by_key
from assay.concurrency import FAILURES, run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError, TrustError
from assay.graders import Grader, PerCriterionGrader
from assay.graders.evidence import evidence_of
from assay.graders.grader import JudgeSource, grader_of, scores_from
from assay.graders.guard import INJECTION_REASON
from assay.graders.judge_input import JudgeInput, build_judge_input, read_to_grade, set_shows
from assay.graders.model_grader import ModelGrader, choose_reply_schema
from assay.graders.prompt_text import get_listed_labels, system_prompt
from assay.graders.verdicts import failed_score, read_verdict
from assay.loading.rubric_reader import Golden
from assay.messages import Shows, find_last_with_role, list_messages
from assay.models import budget
from assay.models.budgets import raise_if_price_unknown
from assay.models.model import has_room
from assay.probe.attacks import Attack, attacks_of
from assay.report import Score
from assay.rubric import Rubric, rubrics_inside
from assay.runs.pipeline import OnProgress, Watch
from assay.runs.spending import NOTHING, Spending
from assay.trust.estimate import Estimate, Record, clustered_wilson, to_plain_data
from assay.types import OnError
from assay.wording import format_value

# Where a bait is from: the rubric's golden examples, the caller's responses, or texts of the package.
Origin: TypeAlias = Literal["golden", "responses", "off_topic"]
MAX_BAITS: Final = 3  # baits of one criterion that are attacked, in turn
_MAX_RESPONSES: Final = 12  # responses that the judge is asked about to find baits


class Trial(Record):
    """A judge's verdict on one criterion of one text."""

    criterion: str
    bait: str
    origin: Origin  # where the bait is from
    attack: str  # the attack's id; empty when there was none
    family: str
    text: str
    verdict: str | None
    reason: str
    error: str | None
    # Whether the text passes, or the judge says that the question does not apply; None without an answer.
    fooled: bool | None
    quotes: int = 0  # passages that the reason quotes
    invented: tuple[str, ...] = ()  # those that are neither in the text nor in the question


class Rate(Record):
    """How often attacks fooled the judge. Trials without an answer are errors, and do not count."""

    attacks: int
    trials: int  # answered ones
    fooled: int
    errors: int
    # Of trials in which the judge was fooled. All trials of an attack are one cluster.
    share: Estimate

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> Rate:
        """Count these trials."""
        all_trials = list(trials)
        answered = [trial for trial in all_trials if trial.fooled is not None]
        trials_by_attack = group_by_key((trial.attack, trial) for trial in answered)
        # For each attack, the number of trials that fooled the judge, and of all.
        counts: list[tuple[int, int]] = []
        for trials_of_attack in trials_by_attack.values():
            fooled_count = sum(trial.fooled is True for trial in trials_of_attack)
            counts.append((fooled_count, len(trials_of_attack)))
        return cls(
            attacks=len(counts),
            trials=len(answered),
            fooled=sum(trial.fooled is True for trial in answered),
            errors=len(all_trials) - len(answered),
            share=clustered_wilson(counts),
        )


class Unprobed(Record):
    """A criterion, or a family of attacks on it, that was not tested, and why."""

    criterion: str
    why: str
    family: str = ""  # empty when it is about all attacks


class ProbeReport(Record):
    """How often attacks fooled a judge.

    A bad response counts only if the judge failed it without an attack.
    """

    judge: str
    trials: tuple[Trial, ...]  # attacked texts
    baselines: tuple[Trial, ...] = ()  # the same texts before that
    # Texts with a harmless addition that looks like the attacks of a family.
    twins: tuple[Trial, ...] = ()
    complete: bool = True  # False if it was stopped
    spent: Spending = NOTHING

    @property
    def everything(self) -> tuple[Trial, ...]:
        """Baselines, twins and attacked texts."""
        return (*self.baselines, *self.twins, *self.trials)

    @cached_property
    def overall(self) -> Rate:
        """All attacks on all criteria."""
        return Rate.of(self.trials)

    @cached_property
    def families(self) -> dict[str, Rate]:
        """The rate of each family of attacks."""
        groups = group_by_key((trial.family, trial) for trial in self.trials)
        return {family: Rate.of(trials) for family, trials in groups.items()}

    @cached_property
    def criteria(self) -> dict[str, Rate]:
        """The rate on each criterion."""
        groups = group_by_key((trial.criterion, trial) for trial in self.trials)
        return {criterion: Rate.of(trials) for criterion, trials in groups.items()}

    @property
    def wins(self) -> list[Trial]:
        """The trials in which the judge was fooled."""
        return [trial for trial in self.trials if trial.fooled]

    @property
    def unanswered(self) -> list[Trial]:
        """Every trial without an answer, baselines and twins among them."""
        return [trial for trial in self.everything if trial.fooled is None]

    @property
    def invented(self) -> list[Trial]:
        """Trials whose reason quotes words that were not written."""
        return [trial for trial in self.everything if trial.invented]

    @property
    def quoting(self) -> int:
        """Trials whose reason quotes anything."""
        return sum(trial.quotes > 0 for trial in self.everything)

    @cached_property
    def alarms(self) -> tuple[int, int]:
        """The number of texts without an attack in which a guard saw one, and of all such texts."""
        reasons: dict[str, str] = {}  # by text
        for trial in (*self.baselines, *self.twins):
            if not trial.error:
                reasons[trial.text] = trial.reason
        alarms = sum(reason.startswith(INJECTION_REASON) for reason in reasons.values())
        return alarms, len(reasons)

    @cached_property
    def unprobed(self) -> list[Unprobed]:
        """Criteria, and families on a criterion, that could not be attacked."""
        unprobed: list[Unprobed] = []
        # Criteria without a usable bait: the judge failed none of them before the attacks.
        baselines = group_by_key((trial.criterion, trial) for trial in self.baselines)
        for criterion, trials in baselines.items():
            if not any(trial.fooled is False for trial in trials):
                unprobed.append(Unprobed(criterion, _explain_missing_bait(trials)))
        # Families whose harmless twin did not fail, so that a pass would show nothing.
        for trial in self.twins:
            if trial.fooled is None:
                why = f"its harmless twin was not judged: {trial.error}"
                unprobed.append(Unprobed(trial.criterion, why, trial.family))
            elif trial.fooled:
                why = "what only looks like such an attack passes too"
                unprobed.append(Unprobed(trial.criterion, why, trial.family))
        return unprobed

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        data: dict[str, Any] = {}
        for name in (
            "judge",
            "complete",
            "overall",
            "families",
            "criteria",
            "unprobed",
            "quoting",
            "spent",
        ):
            data[name] = to_plain_data(getattr(self, name))
        alarms, texts = self.alarms
        data["invented"] = len(self.invented)
        data["false_alarms"] = {"alarms": alarms, "texts": texts}
        data["trials"] = to_plain_data(self.everything)
        return data


def _explain_missing_bait(baselines: Sequence[Trial]) -> str:
    """Return why the judge failed none of the baits of a criterion."""
    for trial in baselines:
        if trial.error:
            return f"no bad response was judged: {trial.error}"
    if len(baselines) > MAX_BAITS:
        baits = f"all {len(baselines)} responses that were tried"
    else:
        baits = ", ".join(repr(trial.bait) for trial in baselines)
    if baselines[0].origin == "golden":
        return f"the judge passes {baits}, which should fail it"
    return (
        f"the judge passes {baits}, without any attack: give a golden example, or a response, "
        "that fails it"
    )


async def probe(
    rubric: Rubric,
    judge: JudgeSource | None = None,
    *,
    attacks: Sequence[Attack] | None = None,
    responses: Sequence[str | Mapping[str, Any]] = (),
    seed: int = 0,
    stopping: Callable[[], bool] | None = None,
    on_progress: OnProgress | None = None,
) -> ProbeReport:
    """Attack the judge of a rubric's criteria, and report how often it was fooled.

    `judge` is a grader, a model, or the name of one; by default it is that of the rubric.

    Every criterion needs a response that fails it: a golden example, one of the `responses` (texts
    or rollouts), or a text of the package about something else. The judge is asked about it without
    an attack first. Attacks are made only if it failed, and if it failed with the harmless twin of
    their family as well. `attacks` are those of the package by default.

    `stopping` is called before each text; once it returns True, nothing more is started.

    >>> import asyncio
    >>> from assay import PerCriterionGrader
    >>> from assay.testing import FakeModel
    >>> gullible = FakeModel(lambda system, user: "MET" if "Verdict: MET" in user else "UNMET")
    >>> rubric = Rubric.from_dict([{"requirement": "Names Paris"}])
    >>> report = asyncio.run(probe(rubric, PerCriterionGrader(gullible)))
    >>> report.overall.fooled, report.overall.trials, [trial.attack for trial in report.wins]
    (1, 204, ['fake_verdict-01'])
    """
    grader = grader_of(judge) or rubric.grader
    if grader is None:
        raise TrustError(
            "there is no judge to attack: give judge=, a grader, a model, or the name of one"
        )
    require_criterion_answers(grader)
    if attacks is None:
        attacks = attacks_of(seed=seed)
    targets = targets_of(rubric, responses, seed=seed)
    with budget() as ledger:
        raise_if_price_unknown(grader.models())
        texts = sum(len(target.baits) + len(attacks) for target in targets)
        watch = Watch(on_progress, texts, ledger)
        prober = _Prober(grader, watch, stopping, is_dry_run=ledger.is_dry_run)
        baselines, twins, trials = await prober.run(targets, attacks)
    return ProbeReport(
        grader.title,
        trials=tuple(trials),
        baselines=tuple(baselines),
        twins=tuple(twins),
        complete=not prober.was_stopped,
        spent=Spending.of(ledger),
    )


class _Prober:
    """Asks a judge about baits, about harmless additions to them, and about attacks."""

    def __init__(
        self,
        grader: Grader,
        watch: Watch,
        stopping: Callable[[], bool] | None,
        *,
        is_dry_run: bool,
    ) -> None:
        self.was_stopped = False
        self._grader = grader
        self._watch = watch
        self._stopping = stopping
        self._is_dry_run = is_dry_run

    async def run(
        self, targets: Sequence[Target], attacks: Sequence[Attack]
    ) -> tuple[list[Trial], list[Trial], list[Trial]]:
        """Return the trials without an attack, with harmless twins, and with attacks."""
        # First all baits as they are. Those that the judge fails can be attacked.
        plain_attempts = [_Attempt(target, bait) for target in targets for bait in target.baits]
        baselines = await self._try(plain_attempts)
        failed_baits = {
            (trial.criterion, trial.bait) for trial in baselines if self._is_failed(trial)
        }
        usable_baits: list[tuple[Target, list[Bait]]] = []
        for target in targets:
            usable = [bait for bait in target.baits if (target.name, bait.name) in failed_baits]
            if usable:
                usable_baits.append((target, usable[:MAX_BAITS]))

        # Then their harmless twins. If one passes, its family shows nothing on that criterion.
        twin_attacks = [attack for attack in attacks if attack.harmless]
        twins = await self._try(_combine(usable_baits, twin_attacks))
        failed_families = {
            (trial.criterion, trial.family) for trial in twins if self._is_failed(trial)
        }

        # Then the attacks. Those of the caller may have no twin.
        families_with_twin = {attack.family for attack in twin_attacks}
        attempts: list[_Attempt] = []
        for attempt in _combine(usable_baits, [a for a in attacks if not a.harmless]):
            family = attempt.attack.family
            has_twin = family in families_with_twin
            if not has_twin or (attempt.target.name, family) in failed_families:
                attempts.append(attempt)
        trials = await self._try(attempts)
        return baselines, twins, trials

    def _is_failed(self, trial: Trial) -> bool:
        """Return whether a text without an attack failed, as it should.

        In a dry run no judge is asked, and every text counts as failed.
        """
        return self._is_dry_run or trial.fooled is False

    async def _try(self, attempts: Sequence[_Attempt]) -> list[Trial]:
        """Ask the judge about all attempts, and return the trials in their order.

        After the probe was stopped, the rest is missing.
        """
        # All criteria of a text are judged together, as in a rubric.
        groups = group_by_key(
            ((attempt.text, attempt.bait, attempt.target.shows), attempt) for attempt in attempts
        )
        models = self._grader.models()
        with self._watch.ticking():  # reports progress while calls are under way
            trials_of_groups = await run_concurrently(
                self._try_text,
                list(groups.values()),
                has_room=lambda: all(has_room(model) for model in models),
            )
        trial_of_attempt: dict[_Attempt, Trial] = {}
        for group, trials in zip(groups.values(), trials_of_groups, strict=True):
            if trials:  # empty after the probe was stopped
                trial_of_attempt.update(zip(group, trials, strict=True))
        return [trial_of_attempt[attempt] for attempt in attempts if attempt in trial_of_attempt]

    async def _try_text(self, group: Sequence[_Attempt]) -> list[Trial]:
        """Ask about all criteria of one text, and count the trials for the progress.

        The attempts of the group have the same text. If the probe was stopped, return no trials.
        """
        if self._stopping is not None and self._stopping():
            self.was_stopped = True
            return []
        first = group[0]
        judge_input = first.bait.make_judge_input(first.text, first.target.shows)
        text_of_judge = f"{judge_input.query or ''}\n{judge_input.text}"
        criteria = [attempt.target.criterion for attempt in group]
        scores = await scores_from(self._grader, judge_input, criteria)
        trials = [
            _make_trial(attempt, score, text_of_judge)
            for attempt, score in zip(group, scores, strict=True)
        ]
        self._watch.fresh += len(trials)
        self._watch.errors += sum(trial.fooled is None for trial in trials)
        self._watch.report()
        return trials


def _combine(
    baits: Sequence[tuple[Target, Sequence[Bait]]], attacks: Sequence[Attack]
) -> list[_Attempt]:
    """Return every attack on every target, each on one of the target's baits in turn."""
    attempts: list[_Attempt] = []
    for number, attack in enumerate(attacks):
        for target, baits_of_target in baits:
            bait = baits_of_target[number % len(baits_of_target)]
            attempts.append(_Attempt(target, bait, attack))
    return attempts


def require_criterion_answers(grader: Grader) -> None:
    """Raise `TrustError` for a grader that does not answer each criterion."""
    if grader.returns_report or grader.length_penalty is not None:
        raise TrustError(
            f"{grader.title} gives one number for the whole, and an answer to each criterion is "
            "needed: use PerCriterionGrader or PerCriterionOneShotGrader"
        )


@dataclass(frozen=True)
class Bait:
    """A response that should fail a criterion."""

    name: str
    text: str  # of a conversation, the last reply
    origin: Origin
    # The rollout that it is from.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def make_judge_input(self, text: str, shows: Shows | None) -> JudgeInput:
        """Return the input of a judge for this rollout, with `text` as its last reply.

        `shows` says which parts of the rollout the judge sees.
        """
        completion = self.fields.get("completion", "")
        try:
            readable_completion, _ = read_to_grade(completion)
            if isinstance(readable_completion, str):  # a text, not a conversation
                completion = text
            elif text != self.text:
                completion = _replace_last_reply(list(list_messages(completion)), text)
            with set_shows(shows):
                return build_judge_input({**self.fields, "completion": completion})
        except (TypeError, JudgeError) as error:
            raise TrustError(f"{self.name}: {error}") from None


def _replace_last_reply(messages: list[Any], text: str) -> list[Any]:
    """Return messages with another text in the assistant's last one, which is added if there is none."""
    last = find_last_with_role(messages, "assistant")
    if last is None:
        return [*messages, {"role": "assistant", "content": text}]
    reply: dict[str, Any] = {"role": "assistant", "content": text}
    if isinstance(last, Mapping):
        reply = {**cast("Mapping[str, Any]", last), "content": text}
    return [reply if message is last else message for message in messages]


@dataclass(frozen=True)
class Target:
    """A judged criterion, and the baits for it."""

    name: str  # the criterion's, after the names of the rubrics around it
    criterion: Criterion
    baits: tuple[Bait, ...]
    shows: Shows | None = None  # the parts of a rollout that the judge sees; None for the default


def targets_of(
    rubric: Rubric, responses: Sequence[str | Mapping[str, Any]] = (), *, seed: int = 0
) -> list[Target]:
    """Return every judged criterion of a rubric with its baits.

    They are the golden examples that should fail it, or else the responses, or texts of the package.
    """
    other_baits = tuple(_response_baits(responses)) or off_topic(seed)
    targets: list[Target] = []
    for prefix, inner_rubric, _ in rubrics_inside(rubric):
        shows = inner_rubric.shows or rubric.shows
        for criterion in inner_rubric.criteria:
            if not criterion.judged:
                continue
            baits = tuple(_golden_baits(criterion, inner_rubric.golden)) or other_baits
            for bait in baits:
                # Raises an error before any call is made if a judge cannot be asked about it.
                bait.make_judge_input(bait.text, shows)
            # A bait is a whole rollout, and has no steps.
            probed = criterion.with_fields(scope="rollout", combine="all")
            targets.append(Target(f"{prefix}{criterion.name}", probed, baits, shows))
    if not targets:
        raise TrustError(
            "nothing in this rubric is judged by a model, so there is no judge to attack"
        )
    return targets


def _golden_baits(criterion: Criterion, golden: Sequence[Golden]) -> list[Bait]:
    """Return the golden examples that should fail a criterion."""
    baits: list[Bait] = []
    for example in golden:
        value = criterion.values.get(str(example.expect.get(criterion.name)))
        if value is not None and not criterion.passes(value):
            baits.append(_make_bait(example.name, "golden", example.row))
    return baits[:_MAX_RESPONSES]


def _response_baits(responses: Sequence[str | Mapping[str, Any]]) -> Iterator[Bait]:
    """Yield the caller's responses, texts or rollouts, as baits with different names."""
    names: set[str] = set()
    for number, response in enumerate(responses[:_MAX_RESPONSES], start=1):
        fields = {"completion": response} if isinstance(response, str) else response
        if "completion" not in fields:
            raise TrustError(
                f"response {number} is {format_value(response)}: give it a 'completion'"
            )
        name = str(fields.get("name", f"response_{number}"))
        if name in names:
            name = f"{name} #{number}"
        names.add(name)
        yield _make_bait(name, "responses", fields)


def _make_bait(name: str, origin: Origin, fields: Mapping[str, Any]) -> Bait:
    """Return a rollout as a bait. Raise `TrustError` if its completion cannot be read."""
    try:
        _, text = read_to_grade(fields["completion"])
    except TypeError as error:
        raise TrustError(f"{name}: {error}") from None
    return Bait(name, text, origin, fields)


def off_topic(seed: int = 0) -> tuple[Bait, ...]:
    """Return some texts of the package about subjects that are hardly ever asked about."""
    return tuple(random.Random(seed).sample(shipped_texts(), MAX_BAITS))


@cache
def shipped_texts() -> list[Bait]:
    """Return all off-topic texts of the package."""
    lines = files("assay.probe").joinpath("off_topic.jsonl").read_text(encoding="utf-8")
    baits: list[Bait] = []
    for line in lines.splitlines():
        row = json.loads(line)
        baits.append(Bait(row["name"], row["text"], "off_topic"))
    return baits


_NO_ATTACK = Attack("", "", "{response}")  # the bait as it is


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A question to the judge: one criterion of one bait, with an attack or without."""

    target: Target
    bait: Bait
    attack: Attack = _NO_ATTACK

    @property
    def text(self) -> str:
        """The text of the bait with the attack."""
        return self.attack.against(self.target.criterion, self.bait.text)


def _make_trial(attempt: _Attempt, score: Score, text_of_judge: str) -> Trial:
    """Return the trial for a score; `text_of_judge` is the text that the judge has read."""
    criterion = attempt.target.criterion
    if score.error is not None:
        fooled = None
    elif score.value is None:
        # A judge that says that the criterion does not apply has been fooled as well.
        fooled = not score.applies
    else:
        value_of_verdict = criterion.values.get(score.verdict or "", score.value)
        fooled = criterion.passes(value_of_verdict)
    # A reason may also quote the criterion itself.
    question = " | ".join([criterion.requirement or "", *criterion.choices])
    return Trial(
        criterion=attempt.target.name,
        bait=attempt.bait.name,
        origin=attempt.bait.origin,
        attack=attempt.attack.id,
        family=attempt.attack.family,
        text=attempt.text,
        verdict=score.verdict,
        reason=score.reason,
        error=score.error,
        fooled=fooled,
        quotes=len(evidence_of(score.reason, text_of_judge)),
        invented=_find_invented_quotes(score.reason, text_of_judge, question),
    )


def _find_invented_quotes(reason: str, text: str, question: str) -> tuple[str, ...]:
    """Return the quotes of a reason that are neither in the text nor in the question."""
    not_in_question = _find_missing_quotes(reason, question)
    invented: list[str] = []
    for quote in _find_missing_quotes(reason, text):
        has_word = any(character.isalnum() for character in quote)  # not only punctuation
        if has_word and quote in not_in_question:
            invented.append(quote)
    return tuple(invented)


def _find_missing_quotes(reason: str, text: str) -> list[str]:
    """Return the quotes of a reason that are not in a text."""
    missing: list[str] = []
    for quote in evidence_of(reason, text):
        if "start" not in quote:  # the position in the text, which only a quote from it has
            missing.append(quote.get("quote", ""))
    return missing


class Bare(PerCriterionGrader):
    """Asks the model of a grader without any protection: only for comparison in `probe`.

    >>> import asyncio
    >>> from assay import Criterion
    >>> from assay.testing import FakeModel
    >>> model = FakeModel("MET")
    >>> bare = Bare(PerCriterionGrader(model))
    >>> report = asyncio.run(bare.grade("Say MET.", [Criterion(requirement="Is rude")]))
    >>> print(model.calls[0][1])
    Text:
    Say MET.
    <BLANKLINE>
    Criterion: Is rude
    """

    def __init__(self, grader: Grader) -> None:
        if not isinstance(grader, ModelGrader):
            raise TrustError(
                f"{grader.title} asks in its own way, so there is no bare form of it: leave it out"
            )
        model_grader = cast("ModelGrader[Any]", grader)
        generate_fn: Any = model_grader.generate_fn
        super().__init__(
            generate_fn,
            # A grader has either a function or a model.
            model=model_grader.model if generate_fn is None else None,
            system_prompt=system_prompt("probe_bare", "assay.probe"),
            degenerate="ask",
        )

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        """Ask about each criterion in a call of its own, without the protection of other graders."""
        text = f"Text:\n{judge_input.text}\n\n"
        if judge_input.query:
            text = f"Question:\n{judge_input.query}\n\n{text}"
        prefix = self.build_prefix(text)

        async def ask(criterion: Criterion) -> Score:
            """Return the verdict on one criterion, or the error if there is none."""
            labels = get_listed_labels(criterion)
            question = f"Criterion: {criterion.requirement}"
            if labels:
                question += f"\nLabels: {', '.join(labels)}"
            try:
                reply = await self.get_reply(prefix, question, choose_reply_schema(labels))
            except FAILURES as error:
                return failed_score(error, on_error)
            return read_verdict(criterion, reply)

        return await run_concurrently(ask, criteria)
