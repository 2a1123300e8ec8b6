"""LLMBar: recorded verdicts of six models on pairs of responses, in both orders."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from rows import Check, Table
from trust_data import ADVERSARIAL, Recorded, llmbar
from trust_found import FEW, FIRST, PREFERENCE, Found, same, value_of

from assay.trust import Joined, LabelledItem, agreement_of
from assay.trust.agreement import consensus
from assay.trust.coefficients import AnswerPair, Measures, measure

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
        LabelledItem(f"{row.subset} {row.item}", int(row.swapped), "preference", {"gold": row.label}, row.winner or None, "no verdict")
        for row in rows
    ]  # fmt: skip
    joined = Joined(tuple(items), {"preference": PREFERENCE})
    return agreement_of(joined, resampling=FEW).overall.judge


def _swapped(rows: Sequence[Recorded]) -> Measures:
    """The judge against itself with the responses in the other order."""
    both: dict[tuple[str, str], dict[bool, str]] = defaultdict(dict)
    for row in rows:
        both[row.subset, row.item][row.swapped] = row.winner
    pairs = [AnswerPair(f"{key}", said[False], said[True]) for key, said in both.items() if all(said.values())]
    return measure(pairs, FIRST, symmetric=True, resampling=FEW)


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
            f"{key[0]} {key[1]}", int(key[2]), "preference", {"gold": labels[key]},
            consensus(list(said.values())), "a tie", said,
        )
        for key, said in votes.items()
    ]  # fmt: skip
    found = agreement_of(Joined(tuple(items), {"preference": PREFERENCE}), resampling=FEW)
    alone = {name: value_of(each.accuracy) for name, each in found.members.items()}
    jury, mean = found.overall.judge.accuracy, fmean(alone.values())
    best = max(alone, key=alone.__getitem__)
    ties = f"{found.overall.unanswered} of {len(items)}"
    return (str(jury), f"{mean:.3f}", f"{best} {alone[best]:.3f}", f"{value_of(jury) - mean:+.3f}", ties)
