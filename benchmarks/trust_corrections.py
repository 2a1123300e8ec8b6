"""Corrections: whether corrected rates hold the truth, on sets that are labelled whole."""

import random
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rows import Check, Table
from trust_data import llmbar, pandalm
from trust_found import Found

from assay.trust import corrected_mean
from assay.trust.agreement import consensus

SEED = 20240229
DRAWS, FEW_DRAWS = 400, 40
"""Labelled samples drawn from a set whose truth is known; of small sizes, so many."""
_HEADINGS = (
    "set", "labels", "judge", "people", "inside, PPI", "inside, Rogan–Gladen", "half width, PPI", "refused",
)  # fmt: skip


class Whole(NamedTuple):
    """A set on which judge and people are known throughout."""

    name: str
    judge: list[float]
    people: list[float]


class Held(NamedTuple):
    """How often intervals held the truth."""

    powered: int
    adjusted: int
    kept: int
    half_width: float


def corrections(folder: Path, quick: bool) -> Found:
    """Draw labels again and again, correct, and count the intervals that hold the truth."""
    draws = FEW_DRAWS if quick else DRAWS
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for whole in _sets(folder):
        for labels in (60, 120):
            held = _held(whole, labels, draws)
            lines.append(_line(whole, labels, draws, held))
            if held.kept > draws / 2:
                share = held.powered / held.kept
                what = f"{whole.name}, {labels} labels: truth inside"
                checks.append(Check(what, f"{share:.1%}", "≥ 90 %", share >= 0.9))
    return checks, [Table(f"Corrected rates over {draws} draws of labels", _HEADINGS, tuple(lines))]


def _sets(folder: Path) -> Iterator[Whole]:
    voted = [row for row in pandalm(folder) if row.judge is not None]
    yield Whole(
        "PandaLM gpt-3.5-turbo: response 1 wins",
        [float(row.judge == "1") for row in voted],
        [float(consensus(list(row.people)) == "1") for row in voted],
    )
    plain = [
        row
        for row in llmbar(folder)
        if row.subset.startswith("LLMBar/") and row.strategy == "Vanilla_NoRules" and row.winner
    ]
    for model in ("GPT-4", "ChatGPT", "PaLM2"):
        rows = [row for row in plain if row.model == model and not row.swapped]
        yield Whole(
            f"LLMBar {model}: response 1 wins",
            [float(row.winner == "1") for row in rows],
            [float(row.label == "1") for row in rows],
        )


def _held(whole: Whole, labels: int, draws: int) -> Held:
    draw = random.Random(SEED)
    truth = fmean(whole.people)
    counts = {"prediction_powered": 0, "rogan_gladen": 0}
    widths: list[float] = []
    for _ in range(draws):
        known = set(draw.sample(range(len(whole.judge)), labels))
        people = [said if place in known else None for place, said in enumerate(whole.people)]
        found = corrected_mean(whole.name, whole.judge, people)
        if not found.corrected:
            continue
        widths.append(found.best.half_width or 0.0)
        for method, estimate in found.corrected.items():
            counts[method] += (estimate.low or 0.0) <= truth <= (estimate.high or 1.0)
    return Held(*counts.values(), len(widths), fmean(widths) if widths else 0.0)


def _line(whole: Whole, labels: int, draws: int, held: Held) -> tuple[str, ...]:
    shares = ("–", "–")
    if held.kept:
        shares = (f"{held.powered / held.kept:.1%}", f"{held.adjusted / held.kept:.1%}")
    return (
        whole.name,
        f"{labels} of {len(whole.judge)}",
        f"{fmean(whole.judge):.3f}",
        f"{fmean(whole.people):.3f}",
        *shares,
        f"±{held.half_width:.3f}" if held.kept else "–",
        f"{draws - held.kept} of {draws}",
    )
