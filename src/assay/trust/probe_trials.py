"""Trials: what a judge says of texts, under attack or not."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.errors import TrustError
from assay.graders.base import Autograder
from assay.graders.composite import gives_whole, scores_from
from assay.graders.views import View
from assay.models.base import has_room
from assay.score import Score
from assay.trust.evidence import evidence_of
from assay.trust.probe_attacks import Attack
from assay.trust.probe_baits import Bait, Origin, Target


@dataclass(frozen=True)
class Question:
    """One criterion of one text. Without an attack, it is the bait as it is."""

    target: Target
    bait: Bait
    attack: Attack | None = None

    @property
    def text(self) -> str:
        """What the judge reads."""
        if self.attack is None:
            return self.bait.text
        return self.attack.against(self.target.criterion, self.bait.text)


@dataclass(frozen=True)
class Trial:
    """What a judge said of one criterion of one text."""

    criterion: str
    bait: str
    origin: Origin
    """Where the bait is from."""
    attack: str
    """The attack's id; empty when there was none."""
    family: str
    text: str
    verdict: str | None
    reason: str
    error: str | None
    fooled: bool | None
    """Whether the text got off: it passes, or is told that the question does not apply. None without
    an answer, which is neither."""
    quotes: int = 0
    """Passages that the reason quotes."""
    invented: tuple[str, ...] = ()
    """Of these, what stands neither in the text nor in the question."""


@dataclass(frozen=True)
class Asking:
    """Puts questions to a judge, side by side."""

    grader: Autograder
    stopping: Callable[[], bool]
    """Asked before each text; from then on nothing more is begun."""
    tell: Callable[[Sequence[Trial]], object]
    """Told what each text came to."""

    async def trials(self, questions: Sequence[Question]) -> list[Trial]:
        """What was said, in order. What was not begun when it was stopped is left out."""
        groups = list(_by_text(questions))
        models = self.grader.models()
        found = await side_by_side(
            self._one, groups, room=lambda: all(has_room(model) for model in models)
        )
        by_place = {place: trial for group in found for place, trial in group}
        return [by_place[place] for place in sorted(by_place)]

    async def _one(self, group: Sequence[tuple[int, Question]]) -> list[tuple[int, Trial]]:
        """The trials of all criteria that are asked about one text, as a rubric would ask them."""
        if self.stopping():
            return []
        first = group[0][1]
        criteria = [question.target.criterion for _, question in group]
        view = View(first.text, first.bait.fields)
        scores = await scores_from(self.grader, view, criteria, first.bait.query)
        trials = [
            _trial(question, score) for (_, question), score in zip(group, scores, strict=True)
        ]
        self.tell(trials)
        return [(place, trial) for (place, _), trial in zip(group, trials, strict=True)]


def refuse_whole(grader: Autograder) -> None:
    """Raise for a grader that does not answer criteria one by one."""
    if gives_whole(grader) or grader.length_penalty is not None:
        raise TrustError(
            f"{grader.title} gives one number for the whole, and an answer to each criterion is needed: "
            "use PerCriterionGrader or PerCriterionOneShotGrader"
        )


def _by_text(questions: Sequence[Question]) -> Iterator[list[tuple[int, Question]]]:
    groups: dict[tuple[str, Bait], list[tuple[int, Question]]] = {}
    for place, question in enumerate(questions):
        groups.setdefault((question.text, question.bait), []).append((place, question))
    yield from groups.values()


def _trial(question: Question, score: Score) -> Trial:
    target, attack, text = question.target, question.attack, question.text
    return Trial(
        criterion=target.name,
        bait=question.bait.name,
        origin=question.bait.origin,
        attack="" if attack is None else attack.id,
        family="" if attack is None else attack.family,
        text=text,
        verdict=score.verdict,
        reason=score.reason,
        error=score.error,
        fooled=_got_off(target.criterion, score),
        quotes=len(evidence_of(score.reason, text)),
        invented=_invented(question, score.reason),
    )


def _invented(question: Question, reason: str) -> tuple[str, ...]:
    """What a reason quotes that is neither in the text, nor in what the judge was asked."""
    criterion, query = question.target.criterion, question.bait.query
    asked = " | ".join([criterion.requirement or "", query or "", *criterion.choices])
    missing = [_missing(reason, text) for text in (question.text, asked)]
    return tuple(quote for quote in missing[0] if quote in missing[1])


def _missing(reason: str, text: str) -> list[str]:
    """Quotations that are not there; marks without a word are not looked for."""
    found = evidence_of(reason, text)
    quotes = [each["quote"] for each in found if "start" not in each]
    return [quote for quote in quotes if any(map(str.isalnum, quote))]


def _got_off(criterion: Criterion, score: Score) -> bool | None:
    if score.error is not None:
        return None
    if score.value is None:
        return not score.applies
    return criterion.passes(criterion.values.get(score.verdict or "", score.value))
