"""Work out from recorded verdicts what is known of real judges: `python benchmarks/trust.py --data FOLDER`.

Prints our figures beside published ones, or beside those of a second implementation, and writes them into
benchmarks/RESULTS.md. What differs is written as missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import krippendorff
import numpy as np
from harness import Check, Table, add_options, plain_table, save_results, say
from sklearn.metrics import cohen_kappa_score, confusion_matrix, matthews_corrcoef

from assay.trust import (
    Estimate,
    Joined,
    LabelledItem,
    Measures,
    Question,
    agreement_of,
    cohen_kappa,
    corrected_mean,
    krippendorff_alpha,
)
from assay.trust.agreement import consensus
from assay.trust.coefficients import AnswerPair, matthews, measure

# What every part of `trust.py` gives back, and how a figure is held against another.

Found = tuple[list[Check], list[Table]]

FIRST = ("1", "2")
"""Which response is better; the order says nothing."""
PREFERENCE = Question("preference", FIRST)


def value_of(estimate: Estimate) -> float:
    """The figure, which is there."""
    assert estimate.value is not None, estimate.reason
    return estimate.value


def same(what: str, ours: Sequence[float], theirs: Sequence[float], digits: int) -> Check:
    """A check that figures agree to so many digits."""
    holds = all(abs(o - t) <= 0.5001 * 10**-digits for o, t in zip(ours, theirs, strict=True))
    shown = (" / ".join(f"{figure:.{digits}f}" for figure in side) for side in (ours, theirs))
    return Check(what, *shown, holds)


# Recorded verdicts of real models with labels of people. The data are no part of this repository.

VARIABLE = "ASSAY_DATA"
ADVERSARIAL = "LLMBar/Adversarial/"


class DataError(Exception):
    """The data are not where they were looked for."""


@dataclass(frozen=True)
class Recorded:
    """One verdict on a pair of responses: which one the judge prefers, and which one is better."""

    subset: str
    model: str
    strategy: str
    item: str
    label: str
    swapped: bool
    winner: str
    """Empty when the reply held no verdict."""


@dataclass(frozen=True)
class Voted:
    """One pair of responses, judged by three people and by a model: 1, 2 or a tie (0)."""

    item: str
    people: tuple[str, str, str]
    judge: str | None
    """None when the reply could not be read."""


def find_data(given: str | None) -> Path:
    """The folder with the data, by option or environment variable."""
    chosen = given or os.environ.get(VARIABLE)
    if not chosen:
        raise DataError(f"name the folder that holds judge/ with --data or in {VARIABLE}")
    folder = Path(chosen)
    for place in (folder, folder / "judge"):
        if (place / "llmbar").is_dir():
            return place
    raise DataError(f"there is no folder 'llmbar' in {folder} or {folder / 'judge'}")


def llmbar(folder: Path) -> list[Recorded]:
    """All verdicts that LLMBar's authors recorded."""
    path = _there(folder / "llmbar" / "recorded_verdicts.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Recorded(
                row["subset"],
                row["model"],
                row["strategy"],
                row["idx"],
                row["label"],
                row["swapped"] == "1",
                row["winner"],
            )
            for row in csv.DictReader(file)
        ]


def pandalm(folder: Path) -> list[Voted]:
    """Three annotators and gpt-3.5-turbo on 999 pairs."""
    people = _json(folder / "pandalm" / "testset-v1.json")
    judged = {
        row["idx"]: row for row in _json(folder / "pandalm" / "gpt-3.5-turbo-testset-v1.json")
    }
    said = {"1": "1", "2": "2", "Tie": "0"}
    return [
        Voted(
            str(row["idx"]),
            (str(row["annotator1"]), str(row["annotator2"]), str(row["annotator3"])),
            said.get(str(judged[row["idx"]]["gpt_result"])),
        )
        for row in people
    ]


def prometheus(folder: Path) -> dict[str, list[list[int]]]:
    """The three scores, 1 to 5, that GPT-4 gave to each response, by set."""
    names = ("mt_bench", "vicuna")
    files = {name: _json(folder / "prometheus" / f"{name}_eval.json") for name in names}
    return {name: [row["gpt4_score"] for row in rows] for name, rows in files.items()}


def frank(folder: Path) -> list[dict[str, Any]]:
    """Annotated summaries: a share without error for each kind of error, and overall."""
    return _json(folder / "frank" / "human_annotations.json")


def _json(path: Path) -> list[dict[str, Any]]:
    """The rows of a list, or of one object a line."""
    text = _there(path).read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _there(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{path} is not there: benchmarks/README.md names the sources")
    return path


# LLMBar: recorded verdicts of six models on pairs of responses, in both orders.

# Zeng et al. (2024), "Evaluating Large Language Models at Evaluating Instruction Following", table 2: GPT-4, Vanilla,
# accuracy and positional agreement by subset. The recorded strategy of that name is Vanilla_NoRules.
GPT4_VANILLA = {
    "LLMBar/Natural": (93.5, 97.0),
    "LLMBar/Adversarial/Neighbor": (64.2, 89.6),
    "LLMBar/Adversarial/GPTInst": (76.6, 90.2),
    "LLMBar/Adversarial/GPTOut": (76.6, 87.2),
    "LLMBar/Adversarial/Manual": (75.0, 89.1),
}
BEST_ADVERSARIAL = 82.8
"""The same table: GPT-4 with metrics and reference, the mean of the four adversarial subsets."""


def swaps(folder: Path, quick: bool) -> Found:
    """Accuracy and swap consistency of GPT-4 by subset, and of every model on all of LLMBar."""
    rows = [row for row in llmbar(folder) if row.subset.startswith("LLMBar/")]
    plain = [row for row in rows if row.strategy == "Vanilla_NoRules"]
    checks: list[Check] = []
    for subset, published in GPT4_VANILLA.items():
        own = [row for row in plain if row.subset == subset and row.model == "GPT-4"]
        ours = 100 * value_of(_accuracy(own).accuracy), 100 * value_of(_swapped(own).accuracy)
        checks.append(same(f"GPT-4 {subset}: accuracy / same when swapped", ours, published, 1))
    best = [r for r in rows if r.model == "GPT-4" and r.strategy == "Metrics_Reference"]
    means = [
        value_of(_accuracy([r for r in best if r.subset == subset]).accuracy)
        for subset in GPT4_VANILLA
        if subset.startswith(ADVERSARIAL)
    ]
    ours = (100 * fmean(means),)
    checks.append(same("GPT-4 Metrics+Reference, adversarial", ours, (BEST_ADVERSARIAL,), 1))
    return checks, [_models(plain)]


def _models(rows: Sequence[Recorded]) -> Table:
    by_model: dict[str, list[Recorded]] = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row)
    lines: list[tuple[str, ...]] = []
    for model, own in sorted(by_model.items()):
        judged, swapped = _accuracy(own), _swapped(own)
        silent = sum(not row.winner for row in own)
        figures = (judged.accuracy, judged.kappa, swapped.accuracy, swapped.nominal_alpha)
        lines.append((model, *map(str, figures), f"{silent} of {len(own)}"))
    headings = ("model", "accuracy", "kappa", "same when swapped", "alpha", "no verdict")
    return Table("LLMBar, 419 pairs in both orders, plain prompt", headings, tuple(lines))


def _accuracy(rows: Sequence[Recorded]) -> Measures:
    """The judge against the label. A reply without a verdict is counted apart."""
    items = [
        LabelledItem(
            f"{row.subset} {row.item}",
            int(row.swapped),
            "preference",
            {"gold": row.label},
            row.winner or None,
            "no verdict",
        )
        for row in rows
    ]
    joined = Joined(tuple(items), {"preference": PREFERENCE})
    return agreement_of(joined).overall.judge


def _swapped(rows: Sequence[Recorded]) -> Measures:
    """The judge against itself with the responses in the other order."""
    both: dict[tuple[str, str], dict[bool, str]] = defaultdict(dict)
    for row in rows:
        both[row.subset, row.item][row.swapped] = row.winner
    pairs = [
        AnswerPair(f"{key}", said[False], said[True])
        for key, said in both.items()
        if all(said.values())
    ]
    return measure(pairs, FIRST, symmetric=True)


def juries(folder: Path, quick: bool) -> Found:
    """A majority against its members, on all of LLMBar: of models, and of one model's prompts."""
    rows = [row for row in llmbar(folder) if row.subset.startswith("LLMBar/")]
    vanilla = [row for row in rows if row.strategy == "Vanilla"]
    models = {
        "six models": {"GPT-4", "ChatGPT", "ChatGPT-0301", "LLaMA2", "PaLM2", "Falcon"},
        "GPT-4, PaLM2, LLaMA2": {"GPT-4", "PaLM2", "LLaMA2"},
    }
    lines: list[tuple[str, ...]] = []
    for name, members in models.items():
        lines.append((name, *_jury([r for r in vanilla if r.model in members], by_model)))
    prompts = {"Vanilla", "CoT", "Metrics", "Reference", "Metrics_Reference"}
    for model in ("GPT-4", "PaLM2"):
        own = [row for row in rows if row.model == model and row.strategy in prompts]
        lines.append((f"{model} by five prompts", *_jury(own, by_prompt)))
    headings = ("jury", "accuracy", "mean member", "best member", "gain on the mean", "ties")
    return [], [Table("A jury's gain over its members, LLMBar", headings, tuple(lines))]


def by_model(row: Recorded) -> str:
    return row.model


def by_prompt(row: Recorded) -> str:
    return row.strategy


def _jury(rows: Sequence[Recorded], member: Callable[[Recorded], str]) -> tuple[str, ...]:
    votes: dict[tuple[str, str, bool], dict[str, str]] = defaultdict(dict)
    labels: dict[tuple[str, str, bool], str] = {}
    for row in rows:
        if row.winner:
            votes[row.subset, row.item, row.swapped][member(row)] = row.winner
            labels[row.subset, row.item, row.swapped] = row.label
    items = [
        LabelledItem(
            f"{key[0]} {key[1]}",
            int(key[2]),
            "preference",
            {"gold": labels[key]},
            consensus(list(said.values())),
            "a tie",
            said,
        )
        for key, said in votes.items()
    ]
    found = agreement_of(Joined(tuple(items), {"preference": PREFERENCE}))
    alone = {name: value_of(each.accuracy) for name, each in found.members.items()}
    jury, mean = found.overall.judge.accuracy, fmean(alone.values())
    best = max(alone, key=alone.__getitem__)
    ties = f"{found.overall.unanswered} of {len(items)}"
    return (
        str(jury),
        f"{mean:.3f}",
        f"{best} {alone[best]:.3f}",
        f"{value_of(jury) - mean:+.3f}",
        ties,
    )


# People and scores: PandaLM's annotators, GPT-4's repeated scores, FRANK's summaries.

# Wang et al. (2024), "PandaLM": kappa of annotators 1 and 2, 1 and 3, 2 and 3; and gpt-3.5-turbo on the test set.
PANDALM_KAPPA = {(0, 1): 0.85, (0, 2): 0.88, (1, 2): 0.86}
PANDALM_GPT35 = {"accuracy": 0.7107, "macro_f1": 0.5755}


def people(folder: Path, quick: bool) -> Found:
    """Kappa and alpha of PandaLM's annotators, and gpt-3.5-turbo against their majority."""
    rows = pandalm(folder)
    checks: list[Check] = []
    for (one, other), published in PANDALM_KAPPA.items():
        columns = [row.people[one] for row in rows], [row.people[other] for row in rows]
        ours = (value_of(cohen_kappa(*columns)),)
        checks.append(
            same(f"PandaLM annotators {one + 1} and {other + 1}: kappa", ours, (published,), 2)
        )
    units = [list(row.people) for row in rows]
    ratings = np.array(units, dtype=float).T
    theirs = krippendorff.alpha(ratings, level_of_measurement="nominal")
    ours = value_of(krippendorff_alpha(units))
    checks.append(same("PandaLM, three annotators: alpha (krippendorff)", (ours,), (theirs,), 6))
    checks += _against_majority(rows)
    return checks, [_ceiling(rows)]


def _against_majority(rows: Sequence[Voted]) -> list[Check]:
    """As the paper does it: what cannot be read counts as a tie."""
    question = Question("preference", ("0", "1", "2"))
    items = _items(rows, unread="0")
    found = agreement_of(
        Joined(items, {"preference": question}), reference="majority"
    ).overall.judge
    ours = {"accuracy": value_of(found.accuracy), "macro_f1": value_of(found.macro_f1)}
    return [
        same(f"PandaLM gpt-3.5-turbo: {name}", (figure,), (PANDALM_GPT35[name],), 4)
        for name, figure in ours.items()
    ]


def _ceiling(rows: Sequence[Voted]) -> Table:
    """The judge beside people, its unread replies counted apart."""
    question = Question("preference", ("0", "1", "2"))
    found = agreement_of(Joined(_items(rows), {"preference": question})).overall
    names = ("accuracy", "macro_f1", "kappa", "nominal_alpha", "matthews")
    lines = [
        (name, str(getattr(found.judge, name)), str(getattr(found.people, name))) for name in names
    ]
    lines.append(("no answer", f"{found.unanswered} of {found.labelled}", ""))
    return Table(
        "PandaLM: gpt-3.5-turbo beside three people", ("figure", "judge", "people"), tuple(lines)
    )


def _items(rows: Sequence[Voted], unread: str | None = None) -> tuple[LabelledItem, ...]:
    return tuple(
        LabelledItem(
            row.item,
            0,
            "preference",
            {str(n): said for n, said in enumerate(row.people)},
            row.judge or unread,
            None if row.judge or unread else "unreadable",
        )
        for row in rows
    )


def scores(folder: Path, quick: bool) -> Found:
    """How far GPT-4 agrees with itself on a scale of 1 to 5, and which errors decide about a summary."""
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for name, units in prometheus(folder).items():
        for level in ("nominal", "ordinal", "interval"):
            theirs = krippendorff.alpha(np.array(units, dtype=float).T, level_of_measurement=level)
            ours = value_of(krippendorff_alpha(units, level))
            checks.append(
                same(
                    f"Prometheus {name}: GPT-4 alpha, {level} (krippendorff)", (ours,), (theirs,), 6
                )
            )
        kappas = [_quadratic(units, one, other) for one, other in combinations(range(3), 2)]
        lines.append((name, f"{len(units)}", *(f"{kappa:.3f}" for kappa in kappas)))
    headings = ("Prometheus", "responses", "quadratic kappa 1–2", "1–3", "2–3")
    frank_checks, frank_table = _errors(frank(folder))
    return checks + frank_checks, [
        Table("GPT-4 scores given three times", headings, tuple(lines)),
        frank_table,
    ]


def _quadratic(units: Sequence[Sequence[int]], one: int, other: int) -> float:
    columns = [unit[one] for unit in units], [unit[other] for unit in units]
    ours = value_of(cohen_kappa(*columns, weights="quadratic", categories=[1, 2, 3, 4, 5]))
    assert abs(ours - cohen_kappa_score(*columns, weights="quadratic")) < 1e-9
    return ours


def _errors(rows: Sequence[dict[str, Any]]) -> tuple[list[Check], Table]:
    kinds = ("Semantic_Frame_Errors", "Discourse_Errors", "Content_Verifiability_Errors")
    whole = [row["Factuality"] == 1 for row in rows]
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for kind in kinds:
        free = [row[kind] == 1 for row in rows]
        ours, theirs = (
            value_of(matthews.estimate(confusion_matrix(whole, free).astype(float))),
            matthews_corrcoef(whole, free),
        )
        checks.append(same(f"FRANK {kind}: Matthews (scikit-learn)", (ours,), (float(theirs),), 6))
        lines.append((kind, f"{ours:.3f}", f"{value_of(cohen_kappa(whole, free)):.3f}"))
    title = f"FRANK, {len(rows):,} summaries: free of an error, and free of all"
    return checks, Table(title, ("kind of error", "Matthews", "kappa"), tuple(lines))


# Corrections: whether corrected rates hold the truth, on sets that are labelled whole.

SEED = 20240229
DRAWS, FEW_DRAWS = 400, 40
"""Labelled samples drawn from a set whose truth is known; of small sizes, so many."""
_HEADINGS = (
    "set",
    "labels",
    "judge",
    "people",
    "inside, PPI",
    "inside, Rogan–Gladen",
    "half width, PPI",
    "refused",
)


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


MEASURES: dict[str, Callable[[Path, bool], Found]] = {
    "swaps": swaps,
    "juries": juries,
    "people": people,
    "scores": scores,
    "corrections": corrections,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    checks: list[Check] = []
    tables: list[Table] = []
    try:
        folder = find_data(options.data)
        for name, measure in MEASURES.items():
            if not options.only or name in options.only:
                found, shown = measure(folder, options.quick)
                checks += found
                tables += shown
    except DataError as error:
        say(f"no data: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    tables = [_checked(checks), *tables] if checks else tables
    print("\n\n".join(map(plain_table, tables)))
    save_results("trust", tables, [], options, peers=())
    return 0 if all(check.holds is not False for check in checks) else 1


def _checked(checks: Sequence[Check]) -> Table:
    words = {True: "met", False: "missed", None: "–"}
    lines = tuple((c.measure, c.found, c.expected, words[c.holds]) for c in checks)
    return Table("", ("figure", "assay", "published, second or target", "result"), lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trust.py", description=(__doc__ or "").strip())
    parser.add_argument("--data", help=f"the folder with the recorded verdicts; or {VARIABLE}")
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
