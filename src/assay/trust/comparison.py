"""Compare two runs on the same examples, example by example."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from assay.criterion import hash_of
from assay.display import Page, Section, chance, shortened
from assay.errors import TrustError
from assay.runs import Run
from assay.trust.estimate import DEFAULT_RESAMPLING, MEAN, Estimate, Record, Resampling, clustered_values, np, undefined
from assay.trust.significance import holm, mcnemar, minimum_detectable_effect, sign_flip
from assay.wording import counted


@dataclass(frozen=True)
class Difference(Record):
    """How much higher one figure is in the second run, and whether that could be chance."""

    name: str
    first: float | None
    second: float | None  # the means of both runs, over the examples that are in both
    difference: Estimate  # second less first
    p: float | None = None
    """The chance of a difference this large between runs that are the same; for criteria, after Holm."""
    test: Literal["mcnemar", "sign_flip", ""] = ""
    examples: int = 0  # examples with a value in both runs; repeated rollouts are one example
    better: int = 0
    worse: int = 0  # examples whose value rose, and fell
    minimum_detectable_effect: float | None = None
    """The smallest difference that this many examples would show four times out of five, beside
    as many other criteria; None when they are too few to show any."""
    unanswered: tuple[int, int] = (0, 0)  # rollouts without a value in each run, because something went wrong

    @property
    def fell(self) -> bool:
        """Whether the second run is lower, and beyond chance at 5 %."""
        value = self.difference.value
        return value is not None and value < 0 and self.p is not None and self.p < 0.05


@dataclass(frozen=True)
class AnswerChange(Record):
    """A criterion that was answered otherwise, with both reasons."""

    criterion: str
    before: str
    after: str
    reason_before: str = ""
    reason_after: str = ""


@dataclass(frozen=True)
class Flip(Record):
    """A rollout that came out otherwise: its score in both runs, and the criteria that changed."""

    example: str
    sample: int
    before: float | None  # the score in the first run; None when it was unscored
    after: float | None
    changes: tuple[AnswerChange, ...]

    @property
    def difference(self) -> float:
        """How much the score rose; 0 when one of them is missing."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Comparison(Record):
    """Two runs side by side. Differences are of the second run less the first."""

    score: Difference
    criteria: tuple[Difference, ...]
    """Those that both runs have in the same words; their p-values are adjusted together."""
    flips: tuple[Flip, ...]  # rollouts that came out otherwise, the largest change first
    examples: int  # examples that both runs have
    only_first: int = 0
    only_second: int = 0  # examples that one run alone has
    other_prompt: int = 0  # examples that go by the same name in both and ask something else. They are not compared.
    other_wording: tuple[str, ...] = ()  # criteria that are worded otherwise in the second run. They are not compared.
    other_rubric: bool = False  # whether the rubrics differ, so that the scores are not by the same rule
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Criteria that only one run has, under `first` and `second`."""

    def page(self, names: tuple[str, str] = ("first", "second"), flips: int = 10) -> Page:
        """The differences, so many of the rollouts that changed, and what was left out, to show or to print."""
        title = f"{names[1]} against {names[0]}: {counted(self.examples, 'example')} in both"
        sections = [_difference_table(self, names), _flip_table(self, flips)]
        return Page(title, sections, list(_notes(self, flips)), self.to_dict())

    def __str__(self) -> str:
        return self.page().text()

    def _repr_html_(self) -> str:
        return self.page().text("html")


_REASON = 70  # characters of a reason that a table has room for; JSON has all of it


def _difference_table(found: Comparison, names: tuple[str, str]) -> Section:
    def three(value: float | None) -> str | None:
        return None if value is None else f"{value:.3f}"

    columns = ("", *names, "difference", "p", "better", "worse", "minimum detectable effect")
    rows = [
        (
            each.name,
            three(each.first),
            three(each.second),
            each.difference.to_digits(3),
            chance(each.p),
            each.better,
            each.worse,
            three(each.minimum_detectable_effect),
        )
        for each in (found.score, *found.criteria)
    ]
    return Section(columns, rows)


def _flip_table(found: Comparison, most: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for flip in found.flips[:most]:
        name = f"{flip.example} #{flip.sample}" if flip.sample else flip.example
        scores = " → ".join("–" if score is None else f"{score:.3g}" for score in (flip.before, flip.after))
        turns = [
            (change.criterion, f"{change.before} → {change.after}", shortened(change.reason_after, _REASON))
            for change in flip.changes
        ]
        first, *rest = turns or [("", "", "")]
        rows += [(name, scores, *first), *(("", "", *turn) for turn in rest)]
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
        yield f"{counted(len(found.flips), 'rollout')} came out otherwise, of which {flips} are shown"


class _Column:
    """One figure of a run by example: several rollouts of one are one observation, never several."""

    def __init__(self) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self.unanswered = 0

    @property
    def is_plain(self) -> bool:
        """Whether every example has one rollout, and its value is 0 or 1."""
        return all(each in ([0.0], [1.0]) for each in self.values.values())


def _columns(run: Run, names: Iterable[str]) -> tuple[_Column, dict[str, _Column], dict[str, str]]:
    """The scores of a run, the values of the criteria with these names, and what each example asks, as a hash."""
    score, criteria = _Column(), {name: _Column() for name in names}
    prompts: dict[str, str] = {}
    for row in run.rows():
        prompts.setdefault(row.example, hash_of(row.fields.get("prompt")))
        if row.score is None:
            score.unanswered += 1
        else:
            score.values[row.example].append(row.score)
        values, errors = row.report.metrics, row.errors
        for name, column in criteria.items():
            if name in values:
                column.values[row.example].append(values[name])
            elif name in errors or row.error is not None:
                column.unanswered += 1
    return score, criteria, prompts


def compare(first: Run, second: Run, *, resampling: Resampling = DEFAULT_RESAMPLING) -> Comparison:
    """Hold two runs against each other. Raises `TrustError` when they have no example in common."""
    # The criteria of each run, with the hash of what decides their answers.
    asked, asked_second = (
        {c.name: c.question or c.hash for c in (run.about.rubric.criteria if run.about.rubric else ())}
        for run in (first, second)
    )
    same = {name: question for name, question in asked.items() if asked_second.get(name) == question}
    (score, criteria, prompts), (other_score, others, other_prompts) = _columns(first, same), _columns(second, same)
    shared = [example for example in prompts if example in other_prompts]
    paired = [example for example in shared if prompts[example] == other_prompts[example]]
    if not paired and shared:
        raise TrustError(
            f"all {len(shared)} examples that both runs have ask something else in the second: give rows an "
            "`id` of their own, so that they can be told apart"
        )
    if not prompts or not other_prompts:
        raise TrustError("one of the runs has no rows yet")
    if not paired:
        raise TrustError(
            f"the runs have no example in common (the first has {next(iter(prompts))!r}, the second "
            f"{next(iter(other_prompts))!r}): compare runs on the same data"
        )
    differences = [_difference(name, criteria[name], others[name], paired, resampling, len(same)) for name in same]
    tested = [difference for difference in differences if difference.p is not None]
    adjusted = dict(zip((each.name for each in tested), holm([each.p or 0.0 for each in tested]), strict=True))
    flips = _flips(first, second, same, set(paired))
    return Comparison(
        score=_difference("score", score, other_score, paired, resampling),
        criteria=tuple(replace(each, p=adjusted.get(each.name)) for each in differences),
        flips=tuple(sorted(flips, key=lambda flip: -abs(flip.difference))),
        examples=len(paired),
        only_first=len(prompts) - len(shared),
        only_second=len(other_prompts) - len(shared),
        other_prompt=len(shared) - len(paired),
        other_wording=tuple(n for n in asked if n in asked_second and n not in same),
        other_rubric=(first.about.rubric and first.about.rubric.hash)
        != (second.about.rubric and second.about.rubric.hash),
        missing={
            "first": tuple(name for name in asked if name not in asked_second),
            "second": tuple(name for name in asked_second if name not in asked),
        },
    )


def _difference(
    name: str, one: _Column, other: _Column, paired: Sequence[str], how: Resampling, tests: int = 1
) -> Difference:
    both = [example for example in paired if example in one.values and example in other.values]
    unanswered = (one.unanswered, other.unanswered)
    if not both:
        nothing = undefined("no example has a value in both runs")
        return Difference(name, None, None, nothing, unanswered=unanswered)
    first = np.array([fmean(one.values[example]) for example in both])
    second = np.array([fmean(other.values[example]) for example in both])
    gaps = second - first
    gaps[np.abs(gaps) < 1e-12] = 0.0
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    plain = one.is_plain and other.is_plain
    return Difference(
        name,
        float(first.mean()),
        float(second.mean()),
        clustered_values(gaps, both, how).estimate(MEAN),
        p=mcnemar(better, worse) if plain else sign_flip(gaps, seed=how.seed),
        test="mcnemar" if plain else "sign_flip",
        examples=len(both),
        better=better,
        worse=worse,
        minimum_detectable_effect=minimum_detectable_effect(gaps, tests=tests, level=how.level),
        unanswered=unanswered,
    )


def _flips(first: Run, second: Run, names: Container[str], examples: Container[str]) -> Iterator[Flip]:
    """Every rollout of these examples with another score, or another answer to one of these criteria."""
    for before in first.rows():
        if before.example not in examples or before.key not in second:
            continue
        after = second.row(*before.key)
        # Most rollouts come out alike, and this shows it sooner than their lines would.
        if (before.score, before.report.metrics, before.errors) == (after.score, after.report.metrics, after.errors):
            continue
        later = {line.name: line for line in after.report.lines}
        both = [(line, later[line.name]) for line in before.report.lines if line.name in later]
        changes = tuple(
            AnswerChange(was.name, was.said, now.said, was.error or was.reason, now.error or now.reason)
            for was, now in both
            if was.name in names and was.said != now.said
        )
        if changes or before.score != after.score:
            yield Flip(*before.key, before.score, after.score, changes)
