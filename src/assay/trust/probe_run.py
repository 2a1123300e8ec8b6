"""Probe: attack a judge on responses that deserve to fail, and count how often they pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import TrustError
from assay.graders.base import Autograder
from assay.models import Ledger, budget
from assay.models.ledger import refuse_unpriced
from assay.rubric import Rubric
from assay.runs.progress import OnProgress, Watch
from assay.runs.spending import Spending
from assay.trust.probe_attacks import Attack, attacks_of
from assay.trust.probe_baits import MOST, Bait, Target, targets_of
from assay.trust.probe_report import ProbeReport
from assay.trust.probe_trials import Asking, Question, Trial, refuse_whole


async def probe(
    rubric: Rubric,
    grader: Autograder | None = None,
    *,
    attacks: Sequence[Attack] | None = None,
    responses: Sequence[str | Mapping[str, Any]] = (),
    seed: int = 0,
    stopping: Callable[[], bool] | None = None,
    on_progress: OnProgress | None = None,
) -> ProbeReport:
    """Attack the judge of a rubric's criteria, and report how often it was fooled.

    Every criterion needs a response that fails it: see `targets_of`. The judge is asked about that
    first. Attacks count only where it failed, and where a harmless text that looks like the attacks
    of the family fails as well: otherwise nothing was won by the attack. `attacks` are the shipped
    ones by default; `attacks_of` takes some of them.

    >>> import asyncio
    >>> from assay import PerCriterionGrader
    >>> from assay.testing import FakeModel
    >>> gullible = FakeModel(lambda system, user: "MET" if "Verdict: MET" in user else "UNMET")
    >>> rubric = Rubric.from_dict([{"requirement": "Names Paris"}])
    >>> report = asyncio.run(probe(rubric, PerCriterionGrader(gullible)))
    >>> report.overall.fooled, report.overall.trials, [trial.attack for trial in report.wins]
    (1, 192, ['fake_verdict-01'])
    """
    judge = _judge_of(rubric, grader)
    chosen = attacks_of(seed=seed) if attacks is None else attacks
    targets = targets_of(rubric, responses, seed=seed)
    with budget() as spent:
        refuse_unpriced(judge.models())
        watch = Watch(on_progress, _most(targets, chosen), spent)

        def tell(trials: Sequence[Trial]) -> None:
            watch.fresh += len(trials)
            watch.errors += sum(trial.fooled is None for trial in trials)
            watch.tell()

        asking = Asking(judge, stopping or (lambda: False), tell)
        return await _Sitting(asking, targets, chosen, spent.rehearses).report()


def _judge_of(rubric: Rubric, grader: Autograder | None) -> Autograder:
    judge = grader or rubric.autograder
    if judge is None:
        raise TrustError("there is no judge to attack: give a grader")
    refuse_whole(judge)
    return judge


def _most(targets: Sequence[Target], attacks: Sequence[Attack]) -> int:
    """How many trials there will be if every bait does."""
    return sum(len(target.baits) + len(attacks) for target in targets)


@dataclass(frozen=True)
class _Sitting:
    """One probe: first the baits as they are, then harmless additions to them, then attacks."""

    asking: Asking
    targets: Sequence[Target]
    attacks: Sequence[Attack]
    rehearses: bool
    """Whether nobody is asked, so that every bait is taken to do."""

    async def report(self) -> ProbeReport:
        bare = [Question(target, bait) for target in self.targets for bait in target.baits]
        baselines = await self.asking.trials(bare)
        fit = {target.name: self._fit(target, baselines) for target in self.targets}
        twins_wanted = list(self._questions(fit, harmless=True))
        twins = await self.asking.trials(twins_wanted)
        open_to = {(trial.criterion, trial.family) for trial in twins if self._does(trial)}
        families = {attack.family for attack in self.attacks if attack.harmless}
        wanted = [
            question
            for question in self._questions(fit, harmless=False)
            if (question.target.name, _family(question)) in open_to
            or _family(question) not in families  # attacks of your own need no twin
        ]
        trials = await self.asking.trials(wanted)
        asked = len(baselines) + len(twins) + len(trials)
        return ProbeReport(
            self.asking.grader.title,
            tuple(trials),
            tuple(baselines),
            tuple(twins),
            complete=asked == len(bare) + len(twins_wanted) + len(wanted),
            spent=_spent(),
        )

    def _does(self, trial: Trial) -> bool:
        """Whether a text failed, as it should before it is attacked."""
        return self.rehearses or trial.fooled is False

    def _fit(self, target: Target, baselines: Sequence[Trial]) -> list[Bait]:
        failed = {t.bait for t in baselines if t.criterion == target.name and self._does(t)}
        return [bait for bait in target.baits if bait.name in failed][:MOST]

    def _questions(self, fit: Mapping[str, list[Bait]], *, harmless: bool) -> Iterator[Question]:
        """Every attack on every criterion, on the baits in turn."""
        listed = [attack for attack in self.attacks if attack.harmless is harmless]
        for turn, attack in enumerate(listed):
            for target in self.targets:
                if baits := fit[target.name]:
                    yield Question(target, baits[turn % len(baits)], attack)


def _family(question: Question) -> str:
    return "" if question.attack is None else question.attack.family


def _spent() -> Spending:
    ledger = Ledger.current()
    assert ledger is not None
    return Spending.of(ledger)
