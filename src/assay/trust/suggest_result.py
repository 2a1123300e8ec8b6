"""Suggestion: a drafted rubric with what speaks for each criterion, and what was dropped and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.criterion import Criterion
from assay.loading.golden import Golden
from assay.loading.write import as_yaml
from assay.rubric import Rubric
from assay.runs.spending import NOTHING, Spending
from assay.trust.lint_finding import Finding
from assay.trust.linting import lint
from assay.trust.suggest_filter import Judged, Sheet, Text
from assay.trust.suggest_pairs import Pair

MOST_GOLDEN: Final = 3
"""Pairs that go into the file as golden examples."""


@dataclass(frozen=True)
class Suggestion:
    """What was drafted, and what is left of it."""

    source: str
    """What the criteria are drafted from, in words."""
    criteria: tuple[Judged, ...]
    """Every criterion that was proposed, those that were kept first."""
    golden: tuple[Golden, ...] = ()
    errors: tuple[str, ...] = ()
    """Why a drafter gave no proposal."""
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
        return Rubric.from_dict(self._data(name))

    def findings(self) -> list[Finding]:
        """What lint says about the rubric."""
        return lint(self.rubric()) if self.kept else []

    def to_yaml(self, name: str = "suggested") -> str:
        """The rubric as a file, with what speaks for each criterion as comments at the top."""
        rubric = self.rubric(name)
        head = "".join(f"# {line}\n" for line in self._head())
        return f"{head}\n{as_yaml(rubric.to_dict())}"

    def _head(self) -> Iterator[str]:
        yield f"Drafted from {self.source}; {len(self.kept)} of {len(self.criteria)} criteria were kept."
        for judged in self.kept:
            figure = "" if judged.agreement.value is None else f" ({judged.agreement})"
            yield f"- {judged.criterion.name}: {judged.why}{figure}"

    def _data(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": name,
            "criteria": [judged.criterion.to_dict() for judged in self.kept],
        }
        golden = [example.to_dict() for example in self.golden]
        return {**data, "golden": golden} if golden else data

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


Placed = tuple[int, Criterion]
"""A criterion that was kept, and its place among those that were judged."""


def golden_of_pairs(
    kept: Sequence[Placed], pairs: Sequence[Pair], sheet: Sheet
) -> Iterator[Golden]:
    """The pairs that most criteria tell apart as people do, with what the judge said of both sides."""
    told: list[tuple[Pair, list[Placed]]] = [
        (pair, [placed for placed in kept if _tells(sheet, pair, placed)]) for pair in pairs
    ]
    told.sort(key=lambda item: -len(item[1]))
    for number, (pair, by) in enumerate(told[:MOST_GOLDEN], start=1):
        if by:
            preferred, rejected = pair.texts
            yield _example(f"preferred_{number}", preferred, by, passes=True)
            yield _example(f"rejected_{number}", rejected, by, passes=False)


def _tells(sheet: Sheet, pair: Pair, placed: Placed) -> bool:
    place, criterion = placed
    return [sheet.passes(text, place, criterion) for text in pair.texts] == [True, False]


def golden_of_references(
    kept: Sequence[Placed], references: Sequence[Text], others: Sequence[Text]
) -> Iterator[Golden]:
    """References that should pass everything, and one text about something else that should not."""
    if not kept:
        return
    for number, text in enumerate(references[:MOST_GOLDEN], start=1):
        yield _example(f"reference_{number}", text, kept, passes=True)
    yield _example("off_topic", others[0], kept, passes=False)


def _example(name: str, text: Text, by: Sequence[Placed], *, passes: bool) -> Golden:
    completion, prompt = text
    fields = {"prompt": prompt, "completion": completion} if prompt else {"completion": completion}
    expect = {c.name: c.choices[-1 if passes is (c.weight >= 0) else 0] for _, c in by}
    return Golden(name, fields, expect)
