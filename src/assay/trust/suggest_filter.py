"""Filtering: which drafted criteria tell preferred responses from rejected ones, and which only seem to."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.concurrency import side_by_side
from assay.criterion import Criterion
from assay.graders.base import Autograder
from assay.graders.composite import scores_from
from assay.graders.views import View
from assay.models.base import has_room
from assay.score import Score
from assay.trust.estimate import Estimate, clustered_wilson, undefined
from assay.trust.suggest_pairs import Pair

Text: TypeAlias = tuple[str, str]
"""A response, and the prompt that it answers."""
Tell: TypeAlias = Callable[[int, int], object]
"""Told how many verdicts were had, and how many of them failed."""

UNJUDGED = undefined("it was not held against pairs")


@dataclass(frozen=True)
class Judged:
    """One drafted criterion, what came of it, and why it was kept or dropped."""

    criterion: Criterion
    kept: bool
    why: str
    better: int = 0
    """Pairs in which it favours the preferred response."""
    worse: int = 0
    """Pairs in which it favours the rejected one."""
    alike: int = 0
    """Pairs in which it says the same of both."""
    errors: int = 0
    """Pairs of which one side has no verdict."""
    agreement: Estimate = UNJUDGED
    """Of the pairs it tells apart, those in which it favours the preferred one."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        counts = {"better": self.better, "worse": self.worse, "alike": self.alike}
        return {
            "criterion": self.criterion.to_dict(),
            "kept": self.kept,
            "why": self.why,
            **counts,
            "errors": self.errors,
            "agreement": self.agreement.to_dict(),
        }


@dataclass(frozen=True)
class Sheet:
    """The verdicts on every criterion of every text."""

    scores: Mapping[Text, Sequence[Score]]
    """One a criterion, and in order."""

    def passes(self, text: Text, place: int, criterion: Criterion) -> bool | None:
        """Whether a text passes the criterion at a place; None without an answer."""
        value = self.scores[text][place].value
        return None if value is None else criterion.passes(value)


async def judged_texts(
    grader: Autograder, criteria: Sequence[Criterion], texts: Sequence[Text], tell: Tell
) -> Sheet:
    """What a grader says of texts."""
    models = grader.models()

    async def one(item: Text) -> Sequence[Score]:
        text, prompt = item
        scores = await scores_from(grader, View(text), [*criteria], prompt or None)
        tell(len(scores), sum(score.error is not None for score in scores))
        return scores

    wanted = list(dict.fromkeys(texts))
    found = await side_by_side(one, wanted, room=lambda: all(map(has_room, models)))
    return Sheet(dict(zip(wanted, found, strict=True)))


def against_pairs(
    criteria: Sequence[Criterion], pairs: Sequence[Pair], sheet: Sheet
) -> Iterator[Judged]:
    """Each criterion, kept if it agrees with the preferences clearly more often than chance would."""
    for place, criterion in enumerate(criteria):
        outcomes = [
            (pair.prompt or pair.chosen, _sides(sheet, pair, place, criterion)) for pair in pairs
        ]
        yield _weighed(criterion, outcomes)


def _sides(
    sheet: Sheet, pair: Pair, place: int, criterion: Criterion
) -> tuple[bool | None, bool | None]:
    first, second = (sheet.passes(text, place, criterion) for text in pair.texts)
    return first, second


def _weighed(
    criterion: Criterion, outcomes: Sequence[tuple[str, tuple[bool | None, bool | None]]]
) -> Judged:
    better = sum(sides == (True, False) for _, sides in outcomes)
    worse = sum(sides == (False, True) for _, sides in outcomes)
    errors = sum(None in sides for _, sides in outcomes)
    alike = len(outcomes) - better - worse - errors
    clusters: dict[str, list[bool]] = defaultdict(list)
    for prompt, (chosen, rejected) in outcomes:
        if chosen is not None and rejected is not None and chosen is not rejected:
            clusters[prompt].append(chosen)
    agreement = clustered_wilson([(sum(each), len(each)) for each in clusters.values()])
    kept, why = _decided(better, worse, errors, agreement)
    return Judged(criterion, kept, why, better, worse, alike, errors, agreement)


def _decided(better: int, worse: int, errors: int, agreement: Estimate) -> tuple[bool, str]:
    told_apart = better + worse
    if agreement.low is None or agreement.high is None:
        unanswered = f" ({errors} have no verdict)" if errors else ""
        return False, f"it says the same of both in every pair{unanswered}"
    said = f"it favours the preferred one in {better} of {told_apart} pairs that it tells apart"
    if agreement.low > 0.5:
        return True, said
    if agreement.high < 0.5:
        return False, f"{said}: it rewards what people reject"
    return False, f"{said}: that may be chance"


def against_references(
    criteria: Sequence[Criterion], references: Sequence[Text], others: Sequence[Text], sheet: Sheet
) -> Iterator[Judged]:
    """Each criterion, kept if every reference passes it, and no text about something else does."""
    for place, criterion in enumerate(criteria):
        good = [sheet.passes(text, place, criterion) for text in references]
        bad = [sheet.passes(text, place, criterion) for text in others]
        errors = good.count(None) + bad.count(None)
        if None in (*good, *bad):
            kept, why = False, f"{errors} of {len(good) + len(bad)} texts have no verdict"
        elif False in good:
            kept, why = False, f"{good.count(False)} of {len(good)} references do not pass it"
        elif True in bad:
            kept, why = False, f"{bad.count(True)} of {len(bad)} texts about something else pass it"
        else:
            kept, why = True, "the references pass it, and texts about something else do not"
        yield Judged(criterion, kept, why, errors=errors)
