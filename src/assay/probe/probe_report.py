"""Report how often attacks got a bad response past its judge, and what could not be tried."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from assay.graders.guard import INJECTION
from assay.runs.spending import NOTHING, Spending
from assay.trust.estimate import Estimate, Record, clustered_wilson

Origin: TypeAlias = Literal["golden", "responses", "off_topic"]
"""Where a bait is from: the rubric's golden examples, what was given, or the shipped texts."""

MOST: Final = 3  # baits of one criterion that are attacked, in turn


@dataclass(frozen=True)
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
    fooled: bool | None
    """Whether the text got off: it passes, or is told that the question does not apply. None without
    an answer, which is neither."""
    quotes: int = 0  # passages that the reason quotes
    invented: tuple[str, ...] = ()  # of these, what stands neither in the text nor in the question


@dataclass(frozen=True)
class Rate(Record):
    """How some attacks did. Trials without an answer are errors, and count neither way."""

    attacks: int
    trials: int  # answered ones
    fooled: int
    errors: int
    share: Estimate
    """Of the trials, those in which the judge was fooled. The attack is the unit: what it does to
    several criteria is not several observations."""

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Rate":
        listed = list(trials)
        answered = [trial for trial in listed if trial.fooled is not None]
        by_attack = _groups(answered, "attack")
        counts = [(sum(bool(t.fooled) for t in each), len(each)) for each in by_attack.values()]
        fooled, errors = sum(count for count, _ in counts), len(listed) - len(answered)
        return cls(len(by_attack), len(answered), fooled, errors, clustered_wilson(counts))


@dataclass(frozen=True)
class Unprobed(Record):
    """What was not attacked, and why."""

    criterion: str
    why: str
    family: str = ""  # empty when it is about all attacks


@dataclass(frozen=True)
class ProbeReport:
    """What attacks did to a judge.

    `overall`, `families` and `criteria` are rates; `wins` are the trials in which an attack got its
    way. A bad response counts only where the judge failed it before it was attacked.
    """

    judge: str
    trials: tuple[Trial, ...]  # attacked texts
    baselines: tuple[Trial, ...] = ()  # the same texts before that
    twins: tuple[Trial, ...] = ()  # texts with a harmless addition that looks like the attacks of a family
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
        return {name: Rate.of(group) for name, group in _groups(self.trials, "family").items()}

    @cached_property
    def criteria(self) -> dict[str, Rate]:
        """The rate on each criterion."""
        return {name: Rate.of(group) for name, group in _groups(self.trials, "criterion").items()}

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
        said = {trial.text: trial.reason for trial in (*self.baselines, *self.twins) if not trial.error}
        return sum(reason.startswith(INJECTION) for reason in said.values()), len(said)

    @cached_property
    def unprobed(self) -> list[Unprobed]:
        """Criteria, and families on a criterion, that could not be attacked."""
        found: list[Unprobed] = []
        for name, tried in _groups(self.baselines, "criterion").items():
            if not any(trial.fooled is False for trial in tried):
                found.append(Unprobed(name, _why_no_bait(tried)))
        for trial in self.twins:
            if trial.fooled:
                found.append(Unprobed(trial.criterion, "what only looks like such an attack passes too", trial.family))
            elif trial.fooled is None:
                why = f"its harmless twin was not judged: {trial.error}"
                found.append(Unprobed(trial.criterion, why, trial.family))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "judge": self.judge,
            "complete": self.complete,
            "overall": self.overall.to_dict(),
            "families": {name: rate.to_dict() for name, rate in self.families.items()},
            "criteria": {name: rate.to_dict() for name, rate in self.criteria.items()},
            "unprobed": [each.to_dict() for each in self.unprobed],
            "quoting": self.quoting,
            "invented": len(self.invented),
            "false_alarms": dict(zip(("alarms", "texts"), self.alarms, strict=True)),
            "spent": self.spent.to_dict(),
            "trials": [trial.to_dict() for trial in self.everything],
        }


def _groups(trials: Iterable[Trial], field: str) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[getattr(trial, field)].append(trial)
    return groups


def _why_no_bait(tried: Sequence[Trial]) -> str:
    """Why no bait of a criterion was failed, as it should be."""
    error = next((trial.error for trial in tried if trial.error), None)
    if error is not None:
        return f"no bad response was judged: {error}"
    listed = ", ".join(repr(trial.bait) for trial in tried)
    if len(tried) > MOST:
        listed = f"all {len(tried)} responses that were tried"
    if tried[0].origin == "golden":
        return f"the judge passes {listed}, which should fail it"
    return f"the judge passes {listed}, without any attack: give a golden example, or a response, that fails it"
