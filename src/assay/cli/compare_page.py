"""The page of `assay compare`: the differences of two runs, and which rollouts flipped."""

from collections.abc import Iterator, Sequence

from assay.cli.formats import Page, Section, chance, figure
from assay.cli.terminal import counted, shortened
from assay.trust import Comparison
from assay.trust.comparison import Difference, Flip

_REASON = 70
"""Characters of a reason that a table has room for; JSON has all of it."""


def page_of(found: Comparison, names: tuple[str, str], flips: int) -> Page:
    """The page, with so many of the rollouts that changed."""
    sections = [_differences(found, names)]
    if flips and found.flips:
        sections.append(_flips(found.flips[:flips]))
    title = f"{names[1]} against {names[0]}: {counted(found.examples, 'example')} in both"
    return Page(title, sections, list(_notes(found, flips)), found.to_dict())


def _differences(found: Comparison, names: tuple[str, str]) -> Section:
    columns = ("", *names, "difference", "p", "better", "worse", "minimum detectable effect")
    return Section(columns, [_cells(each) for each in (found.score, *found.criteria)])


def _cells(each: Difference) -> tuple[str, ...]:
    least = (
        "–" if each.minimum_detectable_effect is None else f"{each.minimum_detectable_effect:.3f}"
    )
    means = ("–" if mean is None else f"{mean:.3f}" for mean in (each.first, each.second))
    turned = f"{each.better:,}", f"{each.worse:,}"
    return (each.name, *means, figure(each.difference, 3), chance(each.p), *turned, least)


def _flips(flips: Sequence[Flip]) -> Section:
    rows: list[tuple[str, ...]] = []
    for flip in flips:
        name = f"{flip.example} #{flip.sample}" if flip.sample else flip.example
        scores = " → ".join("–" if s is None else f"{s:.3g}" for s in (flip.before, flip.after))
        if not flip.changes:
            rows.append((name, scores, "", "", ""))
        for place, change in enumerate(flip.changes):
            turn = f"{change.before} → {change.after}"
            head = (name, scores) if place == 0 else ("", "")
            rows.append((*head, change.criterion, turn, shortened(change.reason_after, _REASON)))
    return Section(("flipped", "score", "criterion", "verdict", "why now"), rows)


def _notes(found: Comparison, flips: int) -> Iterator[str]:
    for side, number in (("first", found.only_first), ("second", found.only_second)):
        if number:
            yield f"{counted(number, 'example')} only in the {side} run"
    if found.other_prompt:
        yield f"{counted(found.other_prompt, 'example')} with the same name and another prompt: not compared"
    if found.other_rubric:
        yield "the rubrics differ, so the scores are not by the same rule"
    for name in found.other_wording:
        yield f"{name} is worded otherwise in the second run: not compared"
    for side, names in found.missing.items():
        if names:
            yield f"only in the {side} run: {', '.join(names)}"
    first, second = found.score.unanswered
    if first or second:
        yield f"unscored and left out: {first:,} rollouts of the first run, {second:,} of the second"
    if len(found.flips) > flips:
        yield f"{counted(len(found.flips), 'rollout')} came out otherwise; --flips {len(found.flips)} shows all"
