"""Check the figures of `assay.trust` on recorded verdicts of judges: `python benchmarks/trust.py --data FOLDER`.

Prints our figures beside published ones, or beside those of a second implementation, and writes them into
benchmarks/RESULTS.md. A figure that differs is written as missed.
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

# What every measure returns, and how figures are compared.

Results = tuple[list[Check], list[Table]]

RESPONSES = ("1", "2")  # which response is better; the order has no meaning
PREFERENCE = Question("preference", RESPONSES)


def value_of(estimate: Estimate) -> float:
    """Return the value of an estimate that has one."""
    assert estimate.value is not None, estimate.reason
    return estimate.value


def same(what: str, ours: Sequence[float], theirs: Sequence[float], digits: int) -> Check:
    """Return a check that figures agree to this many digits."""
    tolerance = 0.5001 * 10**-digits
    differences = [abs(first - second) for first, second in zip(ours, theirs, strict=True)]
    return Check(
        what,
        " / ".join(f"{figure:.{digits}f}" for figure in ours),
        " / ".join(f"{figure:.{digits}f}" for figure in theirs),
        max(differences) <= tolerance,
    )


# Recorded verdicts of real models, with labels by people. The data are not part of this repository.

VARIABLE = "ASSAY_DATA"
ADVERSARIAL = "LLMBar/Adversarial/"


class DataError(Exception):
    """The data were not found."""


@dataclass(frozen=True)
class Recorded:
    """One verdict on a pair of responses."""

    subset: str
    model: str
    strategy: str
    item: str
    label: str  # the better response
    swapped: bool
    winner: str  # the response that the judge prefers; empty if its reply had no verdict


@dataclass(frozen=True)
class Voted:
    """One pair of responses, judged by three people and by a model: 1, 2 or a tie (0)."""

    item: str
    people: tuple[str, str, str]
    judge: str | None  # None if the reply could not be read


def find_data(folder_option: str | None) -> Path:
    """Return the folder with the data, by option or environment variable."""
    folder_name = folder_option or os.environ.get(VARIABLE)
    if not folder_name:
        raise DataError(f"name the folder that holds judge/ with --data or in {VARIABLE}")
    folder = Path(folder_name)
    for candidate in (folder, folder / "judge"):
        if (candidate / "llmbar").is_dir():
            return candidate
    raise DataError(f"there is no folder 'llmbar' in {folder} or {folder / 'judge'}")


def read_llmbar(folder: Path) -> list[Recorded]:
    """Return all verdicts on LLMBar that its authors recorded."""
    path = folder / "llmbar" / "recorded_verdicts.csv"
    require_file(path)
    verdicts: list[Recorded] = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            # The file also holds verdicts on other sets.
            if row["subset"].startswith("LLMBar/"):
                verdicts.append(
                    Recorded(
                        subset=row["subset"],
                        model=row["model"],
                        strategy=row["strategy"],
                        item=row["idx"],
                        label=row["label"],
                        swapped=row["swapped"] == "1",
                        winner=row["winner"],
                    )
                )
    return verdicts


def read_pandalm(folder: Path) -> list[Voted]:
    """Return the votes of three annotators and of gpt-3.5-turbo on 999 pairs."""
    judge_file = folder / "pandalm" / "gpt-3.5-turbo-testset-v1.json"
    votes = {"1": "1", "2": "2", "Tie": "0"}
    votes_of_judge = {
        row["idx"]: votes.get(str(row["gpt_result"])) for row in read_rows(judge_file)
    }
    return [
        Voted(
            item=str(row["idx"]),
            people=(str(row["annotator1"]), str(row["annotator2"]), str(row["annotator3"])),
            judge=votes_of_judge[row["idx"]],
        )
        for row in read_rows(folder / "pandalm" / "testset-v1.json")
    ]


def read_prometheus(folder: Path) -> dict[str, list[list[int]]]:
    """Return the three scores, 1 to 5, that GPT-4 gave to each response, by set."""
    scores: dict[str, list[list[int]]] = {}
    for name in ("mt_bench", "vicuna"):
        rows = read_rows(folder / "prometheus" / f"{name}_eval.json")
        scores[name] = [row["gpt4_score"] for row in rows]
    return scores


def read_frank(folder: Path) -> list[dict[str, Any]]:
    """Return annotated summaries: for each kind of error, and overall, 1 if there is none."""
    return read_rows(folder / "frank" / "human_annotations.json")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that holds a JSON list, or one object per line."""
    require_file(path)
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def require_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"there is no file {path}: benchmarks/README.md names the sources")


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
BEST_ADVERSARIAL = 82.8  # the same table: GPT-4 with metrics and reference, the mean of the four adversarial subsets


def swaps(folder: Path, quick: bool) -> Results:
    """Measure accuracy and swap consistency: of GPT-4 by subset, and of every model on LLMBar."""
    rows = read_llmbar(folder)
    gpt4 = [row for row in rows if row.model == "GPT-4"]
    checks: list[Check] = []
    means: list[float] = []
    for subset, published in GPT4_VANILLA.items():
        plain = _select(gpt4, subset=subset, strategy="Vanilla_NoRules")
        accuracy = 100 * value_of(_measure_accuracy(plain).accuracy)
        consistency = 100 * value_of(_measure_consistency(plain).accuracy)
        what = f"GPT-4 {subset}: accuracy / same when swapped"
        checks.append(same(what, (accuracy, consistency), published, digits=1))
        if subset.startswith(ADVERSARIAL):
            best = _select(gpt4, subset=subset, strategy="Metrics_Reference")
            means.append(100 * value_of(_measure_accuracy(best).accuracy))
    what = "GPT-4 Metrics+Reference, adversarial"
    checks.append(same(what, (fmean(means),), (BEST_ADVERSARIAL,), digits=1))
    return checks, [_model_table(_select(rows, strategy="Vanilla_NoRules"))]


def _select(rows: Sequence[Recorded], **fields: str) -> list[Recorded]:
    """Return the rows whose fields have these values."""
    selected: list[Recorded] = []
    for row in rows:
        if all(getattr(row, name) == value for name, value in fields.items()):
            selected.append(row)
    return selected


def _model_table(rows: Sequence[Recorded]) -> Table:
    rows_of_model: dict[str, list[Recorded]] = defaultdict(list)
    for row in rows:
        rows_of_model[row.model].append(row)
    lines: list[tuple[str, ...]] = []
    for model, verdicts in sorted(rows_of_model.items()):
        accuracy = _measure_accuracy(verdicts)
        consistency = _measure_consistency(verdicts)
        missing = sum(not row.winner for row in verdicts)
        lines.append(
            (
                model,
                str(accuracy.accuracy),
                str(accuracy.kappa),
                str(consistency.accuracy),
                str(consistency.nominal_alpha),
                f"{missing} of {len(verdicts)}",
            )
        )
    headings = ("model", "accuracy", "kappa", "same when swapped", "alpha", "no verdict")
    return Table("LLMBar, 419 pairs in both orders, plain prompt", headings, tuple(lines))


def _measure_accuracy(rows: Sequence[Recorded]) -> Measures:
    """Compare the judge with the labels. Replies without a verdict are counted separately."""
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


def _measure_consistency(rows: Sequence[Recorded]) -> Measures:
    """Compare the judge with itself, with the responses in the other order."""
    winners: dict[tuple[str, str], dict[bool, str]] = defaultdict(dict)  # by item, then by order
    for row in rows:
        if row.winner:
            winners[row.subset, row.item][row.swapped] = row.winner
    pairs = [
        AnswerPair(f"{item}", by_order[False], by_order[True])
        for item, by_order in winners.items()
        if len(by_order) == 2
    ]
    return measure(pairs, RESPONSES, symmetric=True)


def juries(folder: Path, quick: bool) -> Results:
    """Compare a majority with its members, on all of LLMBar.

    The members are several models, or one model with several prompts.
    """
    rows = read_llmbar(folder)
    models = {
        "six models": {"GPT-4", "ChatGPT", "ChatGPT-0301", "LLaMA2", "PaLM2", "Falcon"},
        "GPT-4, PaLM2, LLaMA2": {"GPT-4", "PaLM2", "LLaMA2"},
    }
    lines: list[tuple[str, ...]] = []
    for name, members in models.items():
        votes = [row for row in rows if row.strategy == "Vanilla" and row.model in members]
        lines.append(_jury_line(name, votes, member_field="model"))
    prompts = {"Vanilla", "CoT", "Metrics", "Reference", "Metrics_Reference"}
    for model in ("GPT-4", "PaLM2"):
        votes = [row for row in rows if row.model == model and row.strategy in prompts]
        lines.append(_jury_line(f"{model} by five prompts", votes, member_field="strategy"))
    headings = ("jury", "accuracy", "mean member", "best member", "gain on the mean", "ties")
    return [], [Table("A jury's gain over its members, LLMBar", headings, tuple(lines))]


def _jury_line(name: str, rows: Sequence[Recorded], member_field: str) -> tuple[str, ...]:
    """Return a line of the table; `member_field` is the field that names a member of the jury."""
    votes: dict[tuple[str, str, bool], dict[str, str]] = defaultdict(dict)  # by member
    labels: dict[tuple[str, str, bool], str] = {}
    for row in rows:
        if row.winner:
            key = (row.subset, row.item, row.swapped)
            votes[key][getattr(row, member_field)] = row.winner
            labels[key] = row.label
    items: list[LabelledItem] = []
    for key, votes_of_members in votes.items():
        subset, item, swapped = key
        items.append(
            LabelledItem(
                f"{subset} {item}",
                int(swapped),
                "preference",
                {"gold": labels[key]},
                consensus(list(votes_of_members.values())),
                "a tie",
                votes_of_members,
            )
        )
    agreement = agreement_of(Joined(tuple(items), {"preference": PREFERENCE}))
    accuracies = {
        member: value_of(measures.accuracy) for member, measures in agreement.members.items()
    }
    accuracy = agreement.overall.judge.accuracy
    mean = fmean(accuracies.values())
    best = max(accuracies, key=accuracies.__getitem__)
    return (
        name,
        str(accuracy),
        f"{mean:.3f}",
        f"{best} {accuracies[best]:.3f}",
        f"{value_of(accuracy) - mean:+.3f}",
        f"{agreement.overall.unanswered} of {len(items)}",
    )


# People and scores: PandaLM's annotators, GPT-4's repeated scores, FRANK's summaries.

# Wang et al. (2024), "PandaLM": kappa of annotators 1 and 2, 1 and 3, 2 and 3; and gpt-3.5-turbo on the test set.
PANDALM_KAPPA = {(0, 1): 0.85, (0, 2): 0.88, (1, 2): 0.86}
PANDALM_GPT35 = {"accuracy": 0.7107, "macro_f1": 0.5755}


def people(folder: Path, quick: bool) -> Results:
    """Measure the agreement of PandaLM's annotators, and of gpt-3.5-turbo with their majority."""
    rows = read_pandalm(folder)
    checks: list[Check] = []
    for (first, second), published in PANDALM_KAPPA.items():
        kappa = cohen_kappa(
            [row.people[first] for row in rows], [row.people[second] for row in rows]
        )
        what = f"PandaLM annotators {first + 1} and {second + 1}: kappa"
        checks.append(same(what, (value_of(kappa),), (published,), digits=2))
    units = [list(row.people) for row in rows]
    alpha = value_of(krippendorff_alpha(units))
    other_alpha = krippendorff.alpha(np.array(units, dtype=float).T, level_of_measurement="nominal")
    what = "PandaLM, three annotators: alpha (krippendorff)"
    checks.append(same(what, (alpha,), (other_alpha,), digits=6))
    checks += _compare_with_majority(rows)
    return checks, [_judge_and_people_table(rows)]


def _compare_with_majority(rows: Sequence[Voted]) -> list[Check]:
    """Compare the judge with the majority. As in the paper, an unreadable reply counts as a tie."""
    question = Question("preference", ("0", "1", "2"))
    joined = Joined(_labelled_items(rows, unreadable_as="0"), {"preference": question})
    measures = agreement_of(joined, reference="majority").overall.judge
    checks: list[Check] = []
    for name, published in PANDALM_GPT35.items():
        figure = value_of(getattr(measures, name))
        what = f"PandaLM gpt-3.5-turbo: {name}"
        checks.append(same(what, (figure,), (published,), digits=4))
    return checks


def _judge_and_people_table(rows: Sequence[Voted]) -> Table:
    """Return the figures of the judge and of people. Unreadable replies are counted separately."""
    question = Question("preference", ("0", "1", "2"))
    overall = agreement_of(Joined(_labelled_items(rows), {"preference": question})).overall
    lines: list[tuple[str, ...]] = []
    for name in ("accuracy", "macro_f1", "kappa", "nominal_alpha", "matthews"):
        lines.append((name, str(getattr(overall.judge, name)), str(getattr(overall.people, name))))
    lines.append(("no answer", f"{overall.unanswered} of {overall.labelled}", ""))
    return Table(
        "PandaLM: gpt-3.5-turbo beside three people", ("figure", "judge", "people"), tuple(lines)
    )


def _labelled_items(
    rows: Sequence[Voted], unreadable_as: str | None = None
) -> tuple[LabelledItem, ...]:
    """Return the votes as items. An unreadable reply has no answer, or the one named here."""
    items: list[LabelledItem] = []
    for row in rows:
        answer = row.judge or unreadable_as
        items.append(
            LabelledItem(
                row.item,
                0,
                "preference",
                {str(number): vote for number, vote in enumerate(row.people)},
                answer,
                None if answer else "unreadable",
            )
        )
    return tuple(items)


def scores(folder: Path, quick: bool) -> Results:
    """Measure how far GPT-4 agrees with itself on a scale of 1 to 5.

    The second table measures which kinds of errors decide whether a summary is factual.
    """
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for name, units in read_prometheus(folder).items():
        ratings = np.array(units, dtype=float).T
        for level in ("nominal", "ordinal", "interval"):
            alpha = value_of(krippendorff_alpha(units, level))
            other_alpha = krippendorff.alpha(ratings, level_of_measurement=level)
            what = f"Prometheus {name}: GPT-4 alpha, {level} (krippendorff)"
            checks.append(same(what, (alpha,), (other_alpha,), digits=6))
        kappas = [
            f"{_quadratic_kappa(units, first, second):.3f}"
            for first, second in combinations(range(3), 2)
        ]
        lines.append((name, f"{len(units)}", *kappas))
    headings = ("Prometheus", "responses", "quadratic kappa 1–2", "1–3", "2–3")
    scores_table = Table("GPT-4 scores given three times", headings, tuple(lines))
    error_checks, error_table = _compare_errors(read_frank(folder))
    return checks + error_checks, [scores_table, error_table]


def _quadratic_kappa(units: Sequence[Sequence[int]], first: int, second: int) -> float:
    """Return the kappa of two of the ratings of each unit. Both implementations must agree."""
    first_ratings = [unit[first] for unit in units]
    second_ratings = [unit[second] for unit in units]
    kappa = value_of(
        cohen_kappa(first_ratings, second_ratings, weights="quadratic", categories=[1, 2, 3, 4, 5])
    )
    other_kappa = cohen_kappa_score(first_ratings, second_ratings, weights="quadratic")
    assert abs(kappa - other_kappa) < 1e-9
    return kappa


def _compare_errors(rows: Sequence[dict[str, Any]]) -> tuple[list[Check], Table]:
    """Correlate the absence of each kind of error with factuality as a whole."""
    is_factual = [row["Factuality"] == 1 for row in rows]
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for kind in ("Semantic_Frame_Errors", "Discourse_Errors", "Content_Verifiability_Errors"):
        is_free = [row[kind] == 1 for row in rows]
        counts = confusion_matrix(is_factual, is_free).astype(float)
        correlation = value_of(matthews.estimate(counts))
        other_correlation = float(matthews_corrcoef(is_factual, is_free))
        what = f"FRANK {kind}: Matthews (scikit-learn)"
        checks.append(same(what, (correlation,), (other_correlation,), digits=6))
        kappa = value_of(cohen_kappa(is_factual, is_free))
        lines.append((kind, f"{correlation:.3f}", f"{kappa:.3f}"))
    title = f"FRANK, {len(rows):,} summaries: free of an error, and free of all"
    return checks, Table(title, ("kind of error", "Matthews", "kappa"), tuple(lines))


# Corrections: whether the intervals of corrected rates contain the truth, on fully labelled sets.

SEED = 20240229
DRAWS = 400  # labelled samples drawn from each set
QUICK_DRAWS = 40
_HEADINGS = (
    "set",
    "labels",
    "judge",
    "people",
    "inside, best",
    "inside, Rogan–Gladen",
    "half width, best",
    "refused",
)


class LabelledSet(NamedTuple):
    """The values of a judge and of people on every item of a set."""

    name: str
    judge: list[float]
    people: list[float]


class Coverage(NamedTuple):
    """How many intervals contained the true rate."""

    corrected: int  # draws that could be corrected
    best: int  # of these, how many best intervals contained it
    half_width: float  # of the best interval, on average
    with_rogan_gladen: int  # draws that have a correction by Rogan and Gladen, too
    rogan_gladen: int  # of these, how many intervals contained it


def corrections(folder: Path, quick: bool) -> Results:
    """Draw labels many times, correct the judge's rate, and count intervals with the true rate."""
    draws = QUICK_DRAWS if quick else DRAWS
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for labelled_set in _labelled_sets(folder):
        for labels in (60, 120):
            coverage = _measure_coverage(labelled_set, labels, draws)
            lines.append(_coverage_line(labelled_set, labels, draws, coverage))
            if coverage.corrected > draws / 2:
                share = coverage.best / coverage.corrected
                what = f"{labelled_set.name}, {labels} labels: truth inside"
                checks.append(Check(what, f"{share:.1%}", "≥ 90 %", share >= 0.9))
    return checks, [Table(f"Corrected rates over {draws} draws of labels", _HEADINGS, tuple(lines))]


def _labelled_sets(folder: Path) -> Iterator[LabelledSet]:
    votes = [row for row in read_pandalm(folder) if row.judge is not None]
    yield LabelledSet(
        name="PandaLM gpt-3.5-turbo: response 1 wins",
        judge=[float(row.judge == "1") for row in votes],
        people=[float(consensus(list(row.people)) == "1") for row in votes],
    )
    verdicts = _select(read_llmbar(folder), strategy="Vanilla_NoRules")
    for model in ("GPT-4", "ChatGPT", "PaLM2"):
        rows = [row for row in _select(verdicts, model=model) if row.winner and not row.swapped]
        yield LabelledSet(
            name=f"LLMBar {model}: response 1 wins",
            judge=[float(row.winner == "1") for row in rows],
            people=[float(row.label == "1") for row in rows],
        )


def _measure_coverage(labelled_set: LabelledSet, labels: int, draws: int) -> Coverage:
    rng = random.Random(SEED)
    true_rate = fmean(labelled_set.people)
    half_widths: list[float] = []
    best_hits = 0
    rogan_gladen: list[bool] = []
    for _ in range(draws):
        sample = set(rng.sample(range(len(labelled_set.judge)), labels))
        people: list[float | None] = []
        for index, value in enumerate(labelled_set.people):
            people.append(value if index in sample else None)
        correction = corrected_mean(labelled_set.name, labelled_set.judge, people)
        if not correction.corrected:
            continue
        low, high = _interval(correction.best)
        half_widths.append((high - low) / 2)
        best_hits += low <= true_rate <= high
        if "rogan_gladen" in correction.corrected:
            low, high = _interval(correction.corrected["rogan_gladen"])
            rogan_gladen.append(low <= true_rate <= high)
    return Coverage(
        corrected=len(half_widths),
        best=best_hits,
        half_width=fmean(half_widths) if half_widths else 0.0,
        with_rogan_gladen=len(rogan_gladen),
        rogan_gladen=sum(rogan_gladen),
    )


def _interval(estimate: Estimate) -> tuple[float, float]:
    """Return the interval of a rate; if it has none, all rates."""
    if estimate.low is None or estimate.high is None:
        return 0.0, 1.0
    return estimate.low, estimate.high


def _coverage_line(
    labelled_set: LabelledSet, labels: int, draws: int, coverage: Coverage
) -> tuple[str, ...]:
    best = rogan_gladen = half_width = "–"
    if coverage.corrected:
        best = f"{coverage.best / coverage.corrected:.1%}"
        half_width = f"±{coverage.half_width:.3f}"
    if coverage.with_rogan_gladen:
        rogan_gladen = f"{coverage.rogan_gladen / coverage.with_rogan_gladen:.1%}"
    return (
        labelled_set.name,
        f"{labels} of {len(labelled_set.judge)}",
        f"{fmean(labelled_set.judge):.3f}",
        f"{fmean(labelled_set.people):.3f}",
        best,
        rogan_gladen,
        half_width,
        f"{draws - coverage.corrected} of {draws}",
    )


MEASURES: dict[str, Callable[[Path, bool], Results]] = {
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
                new_checks, new_tables = measure(folder, options.quick)
                checks += new_checks
                tables += new_tables
    except DataError as error:
        say(f"no data: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    if checks:
        tables.insert(0, _check_table(checks))
    print("\n\n".join(map(plain_table, tables)))
    save_results("trust", tables, [], options, peers=())
    return 0 if all(check.holds is not False for check in checks) else 1


def _check_table(checks: Sequence[Check]) -> Table:
    words = {True: "met", False: "missed", None: "–"}
    lines = tuple(
        (check.measure, check.finding, check.expected, words[check.holds]) for check in checks
    )
    return Table("", ("figure", "assay", "published, second or target", "result"), lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trust.py", description=(__doc__ or "").strip())
    parser.add_argument("--data", help=f"the folder with the recorded verdicts; or {VARIABLE}")
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
