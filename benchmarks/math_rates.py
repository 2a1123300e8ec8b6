"""Answers a CPU second, and how many of them are right."""

from math_data import Pair
from math_found import MILLI, Figures, Found, figure
from math_peers import BARE, PROCESSES, THREADS
from math_sets import RatedSet, Sets
from rows import Limit, Row, Table, Target
from subjects import Subjects

SUBJECTS = ("assay", THREADS, PROCESSES, BARE)
TIERS = ("normalize", "algebra", "symbolic")
TIMEOUT = 5.0
"""Seconds, which is everybody's default."""


def measure_rates(subjects: Subjects, sets: Sets) -> Found:
    """Every set with every subject, in turn, in fresh processes."""
    measured = {rated.name: _in_turn(subjects, sets, rated) for rated in sets.rated}
    rows = [row for rated in sets.rated for row in _rate_rows(rated, measured[rated.name])]
    right = [_right_row(rated, measured[rated.name]) for rated in (sets.gsm8k, sets.qwen)]
    starts = [_start_row(measured[sets.gsm8k.name], peer) for peer in (THREADS, PROCESSES, BARE)]
    labelled = [rated for rated in sets.rated if _is_labelled(rated)]
    tables = [
        Table(
            "Verdicts against labels (yes/no: the subject's verdict; right or wrong: the label):",
            ("set", "subject", "right", "yes right", "yes wrong", "no wrong", "no right"),
            tuple(
                (rated.name, subject, *_confusion(rated.pairs, measured[rated.name][subject]))
                for rated in labelled
                for subject in SUBJECTS
            ),
        ),
        Table(
            "Which tier of assay decided:",
            ("set", "answers", "distinct", *TIERS),
            tuple(_tier_line(rated, measured[rated.name]["assay"]) for rated in sets.rated),
        ),
    ]
    return Found([*rows, *right, *starts], tables)


def _in_turn(subjects: Subjects, sets: Sets, rated: RatedSet) -> dict[str, Figures]:
    """The cheapest round of each, so that a slow moment does not fall on one subject alone."""
    file = sets.file(rated.pairs)
    rounds = [
        {subject: subjects.measure(subject, "math_rate_worker.py", pairs=file, timeout=TIMEOUT) for subject in SUBJECTS}
        for _ in range(min(sets.sizes.rounds, rated.rounds))
    ]
    return {subject: _cheapest([figures[subject] for figures in rounds]) for subject in SUBJECTS}


def _cheapest(rounds: list[Figures]) -> Figures:
    known = [figures for figures in rounds if figures is not None]
    return min(known, key=lambda figures: figures["cpu_seconds"], default=None)


def _rate_rows(rated: RatedSet, measured: dict[str, Figures]) -> list[Row]:
    label, unit = f"{rated.name}, {len(rated.pairs):,} answers", "answers/CPU s"
    target = Target(rated.target, "at least")
    return [
        Row(label, _rate(measured["assay"]), _rate(measured[peer]), unit, peer, held)
        for peer, held in ((THREADS, target), (PROCESSES, target), (BARE, None))
    ]


def _rate(figures: Figures) -> float | None:
    return None if figures is None else figures["answers"] / figures["cpu_seconds"]


def _right_row(rated: RatedSet, measured: dict[str, Figures]) -> Row:
    ours, theirs = (_right(rated.pairs, measured[subject]) for subject in ("assay", THREADS))
    return Row(f"{rated.name}, right", ours, theirs, "%", THREADS, _accuracy_target(rated))


def _accuracy_target(rated: RatedSet) -> Limit | None:
    return Limit(100.0, "at least", "%") if rated.name == "GSM8K" else None


def _right(pairs: list[Pair], figures: Figures) -> float | None:
    if figures is None:
        return None
    right = sum((verdict == "1") == pair.label for pair, verdict in zip(pairs, figures["verdicts"], strict=True))
    return 100.0 * right / len(pairs)


def _start_row(measured: dict[str, Figures], peer: str) -> Row:
    ours, theirs = (figure(measured[subject], "start_seconds", times=MILLI) for subject in ("assay", peer))
    return Row("start: import, workers, eight integrals, CPU", ours, theirs, "ms", peer)


def _is_labelled(rated: RatedSet) -> bool:
    return all(pair.label is not None for pair in rated.pairs)


def _confusion(pairs: list[Pair], figures: Figures) -> tuple[str, ...]:
    """A share, then true and false positives, false and true negatives."""
    if figures is None:
        return ("not measured", "", "", "", "")
    found = [(verdict == "1", pair.label) for pair, verdict in zip(pairs, figures["verdicts"], strict=True)]
    cells = [found.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))]
    share = 100 * (cells[0] + cells[3]) / len(pairs)
    return (f"{share:.2f} %", *map(str, cells))


def _tier_line(rated: RatedSet, figures: Figures) -> tuple[str, ...]:
    distinct = len({(pair.gold, pair.answer) for pair in rated.pairs})
    tiers: dict[str, int] = {} if figures is None else figures["tiers"]
    shares = (f"{100 * tiers.get(tier, 0) / len(rated.pairs):.1f} %" for tier in TIERS)
    return (rated.name, f"{len(rated.pairs):,}", f"{distinct:,}", *shares)
