"""Ask a judge about bad responses, plain and under attack.

Every criterion needs baits: responses that the judge fails before they are attacked, on which an attack has something
to win. And what only looks like the attacks of a family must fail as well: otherwise nothing was won by the attack.
"""

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

# Where a bait is from: the rubric's golden examples, what was given, or the shipped texts.
Origin: TypeAlias = Literal["golden", "responses", "off_topic"]
MOST: Final = 3  # baits of one criterion that are attacked, in turn
_TRIED: Final = 12  # responses that the judge is asked about to find baits


class Trial(Record):
    """What a judge said of one criterion of one text."""

    criterion: str
    bait: str
    origin: Origin  # where the bait is from
    attack: str  # the attack's id; empty when there was none
    family: str
    text: str
    verdict: str | None
    reason: str
    error: str | None
    fooled: (
        bool | None
    )  # whether the text passes, or is told that the question does not apply; None without an answer
    quotes: int = 0  # passages that the reason quotes
    invented: tuple[str, ...] = ()  # of these, what stands neither in the text nor in the question


class Rate(Record):
    """How some attacks did. Trials without an answer are errors, and count neither way."""

    attacks: int
    trials: int  # answered ones
    fooled: int
    errors: int
    share: Estimate  # of trials in which the judge was fooled. What an attack does to all criteria is one observation

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Rate":
        listed = list(trials)
        answered = [trial for trial in listed if trial.fooled is not None]
        by_attack = group_by_key((trial.attack, trial) for trial in answered)
        counts = [
            (sum(bool(trial.fooled) for trial in each), len(each)) for each in by_attack.values()
        ]
        fooled = sum(count for count, _ in counts)
        return cls(
            len(counts),
            len(answered),
            fooled,
            len(listed) - len(answered),
            clustered_wilson(counts),
        )


class Unprobed(Record):
    """What was not attacked, and why."""

    criterion: str
    why: str
    family: str = ""  # empty when it is about all attacks


class ProbeReport(Record):
    """What attacks did to a judge. A bad response counts only where the judge failed it before it was attacked."""

    judge: str
    trials: tuple[Trial, ...]  # attacked texts
    baselines: tuple[Trial, ...] = ()  # the same texts before that
    twins: tuple[
        Trial, ...
    ] = ()  # texts with a harmless addition that looks like the attacks of a family
    complete: bool = True  # whether all that was wanted was asked; False when it was stopped
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
        return {
            name: Rate.of(each)
            for name, each in group_by_key((t.family, t) for t in self.trials).items()
        }

    @cached_property
    def criteria(self) -> dict[str, Rate]:
        """The rate on each criterion."""
        return {
            name: Rate.of(each)
            for name, each in group_by_key((t.criterion, t) for t in self.trials).items()
        }

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
        """Of texts without an attack: those that a guard took for attacks, and all of them."""
        said = {
            trial.text: trial.reason for trial in (*self.baselines, *self.twins) if not trial.error
        }
        return sum(reason.startswith(INJECTION_REASON) for reason in said.values()), len(said)

    @cached_property
    def unprobed(self) -> list[Unprobed]:
        """Criteria, and families on a criterion, that could not be attacked."""
        found = [
            Unprobed(name, _why_no_bait(tried))
            for name, tried in group_by_key(
                (trial.criterion, trial) for trial in self.baselines
            ).items()
            if not any(trial.fooled is False for trial in tried)
        ]
        for trial in self.twins:
            if trial.fooled is not False:
                unjudged = f"its harmless twin was not judged: {trial.error}"
                why = "what only looks like such an attack passes too" if trial.fooled else unjudged
                found.append(Unprobed(trial.criterion, why, trial.family))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        names = (
            "judge",
            "complete",
            "overall",
            "families",
            "criteria",
            "unprobed",
            "quoting",
            "spent",
        )
        alarms, texts = self.alarms
        counts = {
            "invented": len(self.invented),
            "false_alarms": {"alarms": alarms, "texts": texts},
        }
        return (
            {name: to_plain_data(getattr(self, name)) for name in names}
            | counts
            | {"trials": to_plain_data(self.everything)}
        )


def _why_no_bait(tried: Sequence[Trial]) -> str:
    """Why no bait of a criterion was failed, as it should be."""
    error = next((trial.error for trial in tried if trial.error), None)
    if error is not None:
        return f"no bad response was judged: {error}"
    every = f"all {len(tried)} responses that were tried"
    listed = every if len(tried) > MOST else ", ".join(repr(trial.bait) for trial in tried)
    if tried[0].origin == "golden":
        return f"the judge passes {listed}, which should fail it"
    return f"the judge passes {listed}, without any attack: give a golden example, or a response, that fails it"


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
    Every criterion needs a response that fails it: a golden example, one of the `responses` (texts, or rollouts), or a
    shipped text about something else. The judge is asked about that first. Attacks count only where it failed, and where
    a harmless text that looks like the attacks of the family fails as well. `attacks` are the shipped ones by default.
    `stopping` is asked before each text; once it says so, nothing more is begun.

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
    refuse_whole(grader)
    chosen = attacks_of(seed=seed) if attacks is None else attacks
    targets = targets_of(rubric, responses, seed=seed)
    with budget() as spent:
        raise_if_price_unknown(models := grader.models())
        watch = Watch(
            on_progress, sum(len(target.baits) + len(chosen) for target in targets), spent
        )

        async def tried(attempts: Sequence[_Attempt]) -> list[Trial]:
            """What the judge says of attempts, in order. What was not begun when it was stopped is left out."""
            by_text = group_by_key(
                ((each.text, each.bait, each.target.shows), each) for each in attempts
            )
            found: dict[_Attempt, Trial] = {}

            async def one(group: Sequence[_Attempt]) -> None:
                # About all criteria of one text together, as a rubric would.
                if stopping is not None and stopping():
                    return
                text, bait = group[0].text, group[0].bait
                criteria = [attempt.target.criterion for attempt in group]
                judge_input = bait.judge_input(text, group[0].target.shows)
                shown = f"{judge_input.query or ''}\n{judge_input.text}"
                scores = await scores_from(grader, judge_input, criteria)
                for attempt, score in zip(group, scores, strict=True):
                    found[attempt] = trial = _trial(attempt, score, shown)
                    watch.fresh += 1
                    watch.errors += trial.fooled is None
                watch.report()

            with watch.ticking():
                await run_concurrently(
                    one, list(by_text.values()), has_room=lambda: all(map(has_room, models))
                )
            return [found[attempt] for attempt in attempts if attempt in found]

        def is_failed(trial: Trial) -> bool:
            """Whether a text failed, as it should before it is attacked; in a dry run no judge is asked."""
            return spent.is_dry_run or trial.fooled is False

        # First the baits as they are, then harmless additions to them, then attacks.
        bare = [_Attempt(target, bait) for target in targets for bait in target.baits]
        baselines = await tried(bare)
        failed = {(trial.criterion, trial.bait) for trial in baselines if is_failed(trial)}
        fit = [
            (target, [bait for bait in target.baits if (target.name, bait.name) in failed])
            for target in targets
        ]

        def attempts(*, are_harmless: bool) -> list[_Attempt]:
            """Every attack on every criterion, on some baits of it in turn."""
            turns = enumerate(attack for attack in chosen if attack.harmless is are_harmless)
            usable = [(target, baits[:MOST]) for target, baits in fit if baits]
            return [
                _Attempt(t, baits[turn % len(baits)], attack)
                for turn, attack in turns
                for t, baits in usable
            ]

        harmless = attempts(are_harmless=True)
        twins = await tried(harmless)
        open_to = {(trial.criterion, trial.family) for trial in twins if is_failed(trial)}
        # Attacks of your own need no twin.
        with_twin = {attack.family for attack in chosen if attack.harmless}
        harmful = attempts(are_harmless=False)
        families = [(a, a.attack.family) for a in harmful]
        wanted = [
            a
            for a, family in families
            if (a.target.name, family) in open_to or family not in with_twin
        ]
        trials = await tried(wanted)
    asked, parts = (
        len(bare) + len(harmless) + len(wanted),
        (tuple(trials), tuple(baselines), tuple(twins)),
    )
    return ProbeReport(
        grader.title, *parts, complete=asked == sum(map(len, parts)), spent=Spending.of(spent)
    )


def refuse_whole(grader: Grader) -> None:
    """Raise for a grader that does not answer criteria one by one."""
    if grader.returns_report or grader.length_penalty is not None:
        needed = "an answer to each criterion is needed: use PerCriterionGrader or PerCriterionOneShotGrader"
        raise TrustError(f"{grader.title} gives one number for the whole, and {needed}")


@dataclass(frozen=True)
class Bait:
    """A response that should fail a criterion."""

    name: str
    text: str  # of a conversation, the last reply
    origin: Origin
    fields: Mapping[str, Any] = field(
        default_factory=dict[str, Any], compare=False
    )  # the rollout it is from

    def judge_input(self, text: str, shows: Shows | None) -> JudgeInput:
        """Build what a judge is given if this text is the last reply."""
        said = completion = self.fields.get("completion", "")
        try:
            if isinstance(read_to_grade(completion)[0], str):
                said = text
            elif text != self.text:
                turns = list(list_messages(completion))
                last = find_last_with_role(turns, "assistant")
                spoken = {
                    **(last if isinstance(last, Mapping) else {"role": "assistant"}),
                    "content": text,
                }
                said = [spoken if turn is last else turn for turn in turns] + [spoken] * (
                    last is None
                )
            with set_shows(shows):
                return build_judge_input({**self.fields, "completion": said})
        except (TypeError, JudgeError) as error:
            raise TrustError(f"{self.name}: {error}") from None


@dataclass(frozen=True)
class Target:
    """A judged criterion, and the baits for it."""

    name: str  # the criterion's, after the names of the rubrics around it
    criterion: Criterion
    baits: tuple[Bait, ...]
    shows: Shows | None = None  # what the judge reads of a rollout


def targets_of(
    rubric: Rubric, responses: Sequence[str | Mapping[str, Any]] = (), *, seed: int = 0
) -> list[Target]:
    """Every judged criterion of a rubric with its baits."""
    others = tuple(_response_baits(responses)) or off_topic(seed)
    found: list[Target] = []
    for inside, each, _ in rubrics_inside(rubric):
        for criterion in (criterion for criterion in each.criteria if criterion.judged):
            asked = criterion.with_fields(scope="rollout", combine="all")  # a bait is one step
            baits = tuple(_golden_baits(criterion, each.golden)) or others
            found.append(
                Target(f"{inside}{criterion.name}", asked, baits, each.shows or rubric.shows)
            )
            for bait in baits:  # what cannot be shown is said before anything is asked
                bait.judge_input(bait.text, found[-1].shows)
    if not found:
        raise TrustError(
            "nothing in this rubric is judged by a model, so there is no judge to attack"
        )
    return found


def _golden_baits(criterion: Criterion, golden: Sequence[Golden]) -> list[Bait]:
    def fails(example: Golden) -> bool:
        value = criterion.values.get(str(example.expect.get(criterion.name)))
        return value is not None and not criterion.passes(value)

    return [_bait(example.name, "golden", example.row) for example in filter(fails, golden)][
        :_TRIED
    ]


def _response_baits(responses: Sequence[str | Mapping[str, Any]]) -> Iterator[Bait]:
    taken: set[str] = set()
    for number, response in enumerate(responses[:_TRIED], start=1):
        fields = {"completion": response} if isinstance(response, str) else response
        if "completion" not in fields:
            raise TrustError(
                f"response {number} is {format_value(response)}: give it a 'completion'"
            )
        name = str(fields.get("name", f"response_{number}"))
        name = f"{name} #{number}" if name in taken else name
        taken.add(name)
        yield _bait(name, "responses", fields)


def _bait(name: str, origin: Origin, fields: Mapping[str, Any]) -> Bait:
    try:
        return Bait(name, read_to_grade(fields["completion"])[1], origin, fields)
    except TypeError as error:
        raise TrustError(f"{name}: {error}") from None


def off_topic(seed: int = 0) -> tuple[Bait, ...]:
    """Some of the shipped texts, which answer no usual question."""
    return tuple(random.Random(seed).sample(shipped_texts(), MOST))


@cache
def shipped_texts() -> list[Bait]:
    text = files("assay.probe").joinpath("off_topic.jsonl").read_text(encoding="utf-8")
    return [
        Bait(row["name"], row["text"], "off_topic") for row in map(json.loads, text.splitlines())
    ]


_PLAIN = Attack("", "", "{response}")  # the bait as it is


@dataclass(frozen=True, eq=False)
class _Attempt:
    """One criterion of one text."""

    target: Target
    bait: Bait
    attack: Attack = _PLAIN

    @property
    def text(self) -> str:
        return self.attack.against(self.target.criterion, self.bait.text)


def _trial(attempt: _Attempt, score: Score, read: str) -> Trial:
    criterion, text = attempt.target.criterion, attempt.text
    # Words of the question may be quoted too.
    asked = " | ".join([criterion.requirement or "", *criterion.choices])
    quotes, in_question = evidence_of(score.reason, read), evidence_of(score.reason, asked)
    unasked = [each.get("quote", "") for each in in_question if "start" not in each]
    missing = [
        each.get("quote", "")
        for each in quotes
        if "start" not in each and each.get("quote") in unasked
    ]
    if score.error is not None:
        fooled = None
    elif score.value is None:
        fooled = not score.applies
    else:
        fooled = criterion.passes(criterion.values.get(score.verdict or "", score.value))
    # Marks without a word are not looked for.
    invented = tuple(quote for quote in missing if any(map(str.isalnum, quote)))
    bait, attack = attempt.bait, attempt.attack
    about = attempt.target.name, bait.name, bait.origin, attack.id, attack.family, text
    return Trial(*about, score.verdict, score.reason, score.error, fooled, len(quotes), invented)


class Bare(PerCriterionGrader):
    """Asks the model of a grader without any hardening: a control for `probe`, and no judge to use.

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
        asker = cast("ModelGrader[Any]", grader)
        model = None if asker.generate_fn is not None else asker.model
        words = system_prompt("probe_bare", "assay.probe")
        generate_fn: Any = asker.generate_fn
        super().__init__(generate_fn, model=model, system_prompt=words, degenerate="ask")

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> list[Score]:
        query = f"Question:\n{judge_input.query}\n\n" if judge_input.query else ""
        prefix = self.build_prefix(f"{query}Text:\n{judge_input.text}\n\n")

        async def one(criterion: Criterion) -> Score:
            offered = get_listed_labels(criterion)
            listed = f"\nLabels: {', '.join(offered)}" if offered else ""
            question = f"Criterion: {criterion.requirement}{listed}"
            try:
                reply = await self.get_reply(prefix, question, choose_reply_schema(offered))
            except FAILURES as error:
                return failed_score(error, on_error)
            return read_verdict(criterion, reply)

        return await run_concurrently(one, criteria)
