"""People and scores: PandaLM's annotators, GPT-4's repeated scores, FRANK's summaries."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
from rows import Check, Table
from sklearn.metrics import cohen_kappa_score, matthews_corrcoef
from trust_data import Voted, frank, pandalm, prometheus
from trust_found import Found, same, value_of

from assay.trust import (
    Joined,
    LabelledItem,
    Question,
    agreement_of,
    cohen_kappa,
    krippendorff_alpha,
    matthews_correlation,
)

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
        checks.append(same(f"PandaLM annotators {one + 1} and {other + 1}: kappa", ours, (published,), 2))
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
    found = agreement_of(Joined(items, {"preference": question}), reference="majority").overall.judge
    ours = {"accuracy": value_of(found.accuracy), "macro_f1": value_of(found.macro_f1)}
    return [
        same(f"PandaLM gpt-3.5-turbo: {name}", (figure,), (PANDALM_GPT35[name],), 4) for name, figure in ours.items()
    ]


def _ceiling(rows: Sequence[Voted]) -> Table:
    """The judge beside people, its unread replies counted apart."""
    question = Question("preference", ("0", "1", "2"))
    found = agreement_of(Joined(_items(rows), {"preference": question})).overall
    names = ("accuracy", "macro_f1", "kappa", "nominal_alpha", "matthews")
    lines = [(name, str(getattr(found.judge, name)), str(getattr(found.people, name))) for name in names]
    lines.append(("no answer", f"{found.unanswered} of {found.labelled}", ""))
    return Table("PandaLM: gpt-3.5-turbo beside three people", ("figure", "judge", "people"), tuple(lines))


def _items(rows: Sequence[Voted], unread: str | None = None) -> tuple[LabelledItem, ...]:
    return tuple(
        LabelledItem(
            row.item, 0, "preference", {str(n): said for n, said in enumerate(row.people)},
            row.judge or unread, None if row.judge or unread else "unreadable",
        )
        for row in rows
    )  # fmt: skip


def scores(folder: Path, quick: bool) -> Found:
    """How far GPT-4 agrees with itself on a scale of 1 to 5, and which errors decide about a summary."""
    checks: list[Check] = []
    lines: list[tuple[str, ...]] = []
    for name, units in prometheus(folder).items():
        for level in ("nominal", "ordinal", "interval"):
            theirs = krippendorff.alpha(np.array(units, dtype=float).T, level_of_measurement=level)
            ours = value_of(krippendorff_alpha(units, level))
            checks.append(same(f"Prometheus {name}: GPT-4 alpha, {level} (krippendorff)", (ours,), (theirs,), 6))
        kappas = [_quadratic(units, one, other) for one, other in combinations(range(3), 2)]
        lines.append((name, f"{len(units)}", *(f"{kappa:.3f}" for kappa in kappas)))
    headings = ("Prometheus", "responses", "quadratic kappa 1–2", "1–3", "2–3")
    frank_checks, frank_table = _errors(frank(folder))
    return checks + frank_checks, [Table("GPT-4 scores given three times", headings, tuple(lines)), frank_table]


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
        ours, theirs = value_of(matthews_correlation(whole, free)), matthews_corrcoef(whole, free)
        checks.append(same(f"FRANK {kind}: Matthews (scikit-learn)", (ours,), (float(theirs),), 6))
        lines.append((kind, f"{ours:.3f}", f"{value_of(cohen_kappa(whole, free)):.3f}"))
    title = f"FRANK, {len(rows):,} summaries: free of an error, and free of all"
    return checks, Table(title, ("kind of error", "Matthews", "kappa"), tuple(lines))
