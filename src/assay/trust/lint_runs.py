"""What a run tells about a rubric: verdicts that never change, say nothing new, or cannot be relied on."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from os import PathLike
from typing import Any, Final

from assay.criterion import Criterion
from assay.runs import Run, RunError
from assay.trust.estimate import Array, Estimate, np, wilson
from assay.trust.lint_association import correlation, rank_correlation, separation
from assay.trust.lint_columns import Columns, columns_of
from assay.trust.lint_finding import RULES, Finding, Hit
from assay.trust.lint_place import Asked
from assay.wording import counted

FEWEST_EXAMPLES: Final = 30
"""Examples from which verdicts can be told to be constant, redundant or about length."""
FEWEST_REPEATS: Final = 10
"""Texts judged more than once from which verdicts can be told to be unstable."""
FEWEST_OTHERS: Final = 4
"""Other criteria that make up a score to be told apart from."""
RAREST: Final = 5
"""Times that the rarer verdict must occur for a correlation to mean something."""

CHANCE: Final = (0.4, 0.6)
"""Separation within these bounds is no better than chance."""
SAME: Final = 0.9
"""A correlation of at least this much makes one of two criteria redundant."""
UNSTABLE: Final = 0.05
"""The share of texts with changing verdicts that is too much."""
LONG: Final = 0.5
"""A correlation with length of at least this much rules the verdicts."""


def findings_of_run(run: "str | PathLike[str] | Run", asked: Sequence[Asked]) -> list[Finding]:
    """What the verdicts of a run tell about these criteria.

    Criteria that the run does not have, or had in other words, are left out.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    same = _same_questions(opened, asked)
    hits = hits_of(columns_of(opened.rows()), {name: item.criterion for name, item in same.items()})
    return [_finding(same, name, hit) for name, hit in hits if not _ignored(same, name, hit)]


def _same_questions(run: Run, asked: Sequence[Asked]) -> dict[str, Asked]:
    about = run.about.rubric
    known = {} if about is None else {each.name: each.question for each in about.criteria}
    same: dict[str, Asked] = {}
    for item in asked:  # a rubric before those inside it
        if known.get(item.criterion.name) == item.criterion.question_hash:
            same.setdefault(item.criterion.name, item)
    if not same:
        raise RunError(
            f"{run.path} has no verdict on any criterion of this rubric as it stands: name a run of "
            "this rubric, or score the run again with it"
        )
    return same


def _finding(asked: Mapping[str, Asked], name: str, hit: Hit) -> Finding:
    severity = hit.severity or RULES[hit.rule].severity
    if not name:
        return Finding(hit.rule, "", hit.message, hit.fix, severity)
    item = asked[name]
    line, path = item.spot.line(hit.field), item.spot.source.path
    return Finding(hit.rule, item.name, hit.message, hit.fix, severity, line, path)


def _ignored(asked: Mapping[str, Asked], name: str, hit: Hit) -> bool:
    return bool(name) and asked[name].spot.ignores(hit.rule)


def hits_of(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """What the columns of a run tell about each criterion, by name; under no name, about the run."""
    known = {name: c for name, c in criteria.items() if name in columns.values}
    yield from unstable(columns, known)
    if columns.example_count < FEWEST_EXAMPLES:
        yield (
            "",
            Hit(
                "R100",
                f"the run has {counted(columns.example_count, 'example')}, and R101, R102, R103 and "
                f"R105 need {FEWEST_EXAMPLES}",
                "score more examples",
            ),
        )
        return
    plenty = {name: c for name, c in known.items() if _examples(columns, name) >= FEWEST_EXAMPLES}
    varied = {name: c for name, c in plenty.items() if np.ptp(_given(columns, name)) > 0}
    yield from constant(columns, {name: c for name, c in plenty.items() if name not in varied})
    yield from pointless(columns, varied)
    yield from redundant(columns, varied)
    yield from led_by_length(columns, varied)


def constant(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria whose verdict is always the same. Of a fault or a veto that never fires it is a note."""
    for name, criterion in criteria.items():
        value = float(_given(columns, name)[0])
        count = _examples(columns, name)
        # With none in n, less than 3/n may be otherwise (the rule of three).
        rest = f"at most {300 / count:.0f} % of responses may come out otherwise"
        guards = (criterion.weight < 0 or criterion.required) and criterion.passes(value)
        yield (
            name,
            Hit(
                "R101",
                f"all {counted(count, 'example')} have the verdict {_verdict(criterion, value)}; {rest}",
                "drop it, ask for more, or keep it as a guard",
                severity="note" if guards else None,
            ),
        )


def pointless(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria whose verdict has nothing to do with the other verdicts, or goes against them."""
    counted = [name for name, criterion in criteria.items() if criterion.counts]
    if len(counted) <= FEWEST_OTHERS:
        return
    credit = {name: _credit(columns.values[name], criteria[name]) for name in counted}
    for name in counted:
        others = np.array([credit[other] for other in counted if other != name])
        rows = columns.answered(name)
        rows = rows[np.isfinite(others[:, rows]).any(axis=0)]
        own = credit[name][rows]
        rest = np.nanmean(others[:, rows], axis=0)
        found = separation(rest, own > own.mean(), columns.examples[rows])
        if found.low is None or found.high is None:
            continue
        if found.high < 0.5:
            yield name, _against(found)
        elif found.low >= CHANCE[0] and found.high <= CHANCE[1]:
            yield name, _by_chance(found)


def _against(found: Estimate) -> Hit:
    return Hit(
        "R102",
        f"responses that do well on the rest do badly here (separation {found})",
        "see whether its weight has the right sign, and whether it asks what it should",
    )


def _by_chance(found: Estimate) -> Hit:
    return Hit(
        "R102",
        f"responses that pass it do no better on the rest than those that fail (separation {found})",
        "keep it if it is a matter of its own, else drop it or ask more exactly",
        severity="note",
    )


def redundant(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria whose verdicts are those of one before them, or their mirror image."""
    told: set[str] = set()
    for first, second in combinations(criteria, 2):
        rows = np.flatnonzero(
            np.isfinite(columns.values[first]) & np.isfinite(columns.values[second])
        )
        one, two = columns.values[first][rows], columns.values[second][rows]
        if second in told or min(_rarer(one), _rarer(two)) < RAREST:
            continue
        found = correlation(one, two, columns.examples[rows])
        if found.low is None or found.high is None or max(found.low, -found.high) < SAME:
            continue
        told.add(second)
        says = "the same verdicts as" if found.low > 0 else "the opposite verdicts of"
        yield (
            second,
            Hit(
                "R103",
                f"it has {says} '{first}' (correlation {found})",
                "drop one of the two, or make them ask different things",
            ),
        )


def unstable(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Criteria that give the same text different verdicts when it is judged again."""
    for name in criteria:
        rows = columns.answered(name)
        texts, places, counts = np.unique(
            columns.texts[rows], return_inverse=True, return_counts=True
        )
        repeated = np.flatnonzero(counts > 1)
        if len(repeated) < FEWEST_REPEATS:
            continue
        lowest, highest = np.full(len(texts), np.inf), np.full(len(texts), -np.inf)
        np.minimum.at(lowest, places, columns.values[name][rows])
        np.maximum.at(highest, places, columns.values[name][rows])
        changed = int((highest > lowest)[repeated].sum())
        found = wilson(changed, len(repeated))
        if found.low is not None and found.low > UNSTABLE:
            yield (
                name,
                Hit(
                    "R104",
                    f"{changed} of {len(repeated)} texts that were judged again got another verdict "
                    f"(share {found})",
                    "ask more exactly, or let several judges vote",
                ),
            )


def led_by_length(columns: Columns, criteria: Mapping[str, Criterion]) -> Iterator[tuple[str, Hit]]:
    """Judged criteria whose verdicts follow the length of the response."""
    for name, criterion in criteria.items():
        if not criterion.judged:
            continue
        rows = columns.answered(name)
        found = rank_correlation(
            columns.values[name][rows], columns.lengths[rows], columns.examples[rows]
        )
        if found.low is None or found.high is None or max(found.low, -found.high) < LONG:
            continue
        which = "longer" if found.low > 0 else "shorter"
        yield (
            name,
            Hit(
                "R105",
                f"the {which} a response, the more it is met (rank correlation with length {found})",
                "ask for something that length alone does not bring",
            ),
        )


def _given(columns: Columns, name: str) -> Array:
    return columns.values[name][columns.answered(name)]


def _examples(columns: Columns, name: str) -> int:
    return len(np.unique(columns.examples[columns.answered(name)]))


def _credit(values: Array, criterion: Criterion) -> Array:
    """How good the news is: a fault that is there is bad news."""
    return values if criterion.weight >= 0 else -values


def _rarer(values: Array) -> int:
    """How many rows have another value than the most common one."""
    return len(values) - int(np.unique(values, return_counts=True)[1].max())


def _verdict(criterion: Criterion, value: float) -> str:
    named: Any = next((v for v, worth in criterion.values.items() if worth == value), None)
    return f"{value:g}" if named is None or not criterion.judged else str(named)
