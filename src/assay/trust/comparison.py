"""Compare two runs on the same examples: their scores and criteria, and whether the judge has drifted in between."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from statistics import fmean
from typing import Literal

from assay.aggregation import grouped
from assay.criterion import hash_of
from assay.display import Page, Section, chance, shortened
from assay.errors import TrustError
from assay.runs import Run
from assay.trust import estimate
from assay.trust.agreement import consensus
from assay.trust.estimate import FEW, MEAN, SHARE, Array, Estimate, Record, clustered_values, np, special
from assay.trust.labels import Answer, Label, Question, TwoAnswers, join, pair_runs
from assay.wording import counted


class Difference(Record):
    """How much higher one figure is in the second run, and whether that could be chance."""

    name: str
    first: float | None
    second: float | None  # the means of both runs, over the examples that are in both
    difference: Estimate  # second less first
    p: float | None = None  # the chance of so large a difference between runs that are the same; of criteria after Holm
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


class AnswerChange(Record):
    """A criterion that was answered otherwise, with both reasons."""

    criterion: str
    before: str
    after: str
    reason_before: str = ""
    reason_after: str = ""


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


class Comparison(Record):
    """Two runs side by side. Differences are of the second run less the first."""

    score: Difference
    criteria: tuple[Difference, ...]  # those that both runs have in the same words; p-values are adjusted together
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


def _difference_table(found: Comparison, names: tuple[str, str]) -> Section:
    def three(value: float | None) -> str | None:
        return None if value is None else f"{value:.3f}"

    columns = ("", *names, "difference", "p", "better", "worse", "minimum detectable effect")
    rows: list[tuple[object, ...]] = []
    for each in (found.score, *found.criteria):
        tested = (each.difference.to_digits(3), chance(each.p), each.better, each.worse)
        rows.append((each.name, three(each.first), three(each.second), *tested, three(each.minimum_detectable_effect)))
    return Section(columns, rows)


def _flip_table(found: Comparison, most: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for flip in found.flips[:most]:
        name = f"{flip.example} #{flip.sample}" if flip.sample else flip.example
        scores = " → ".join("–" if score is None else f"{score:.3g}" for score in (flip.before, flip.after))
        turns = [
            (change.criterion, f"{change.before} → {change.after}", shortened(change.reason_after, 70))
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

    def add(self, example: str, value: float | None, *, failed: bool) -> None:
        if value is not None:
            self.values[example].append(value)
        else:
            self.unanswered += failed


def _columns(run: Run, names: Iterable[str]) -> tuple[_Column, dict[str, _Column], dict[str, str]]:
    """The scores of a run, the values of the criteria with these names, and what each example asks, as a hash."""
    score, criteria = _Column(), {name: _Column() for name in names}
    prompts: dict[str, str] = {}
    for row in run.rows():
        prompts.setdefault(row.example, hash_of(row.fields.get("prompt")))
        score.add(row.example, row.score, failed=True)
        values, errors = row.report.metrics, row.errors
        for name, column in criteria.items():
            column.add(row.example, values.get(name), failed=name in errors or row.error is not None)
    return score, criteria, prompts


def compare(first: Run, second: Run) -> Comparison:
    """Hold two runs against each other. Raises `TrustError` when they have no example in common."""
    # The criteria of each run, with the hash of what decides their answers.
    asked, later = (
        {c.name: c.question or c.hash for c in (run.about.rubric.criteria if run.about.rubric else ())}
        for run in (first, second)
    )
    same = {name: question for name, question in asked.items() if later.get(name) == question}
    (score, criteria, prompts), (other_score, others, other_prompts) = _columns(first, same), _columns(second, same)
    shared = [example for example in prompts if example in other_prompts]
    paired = [example for example in shared if prompts[example] == other_prompts[example]]
    if not paired and shared:
        said = f"all {len(shared)} examples that both runs have ask something else in the second"
        raise TrustError(f"{said}: give rows an `id` of their own, so that they can be told apart")
    if not prompts or not other_prompts:
        raise TrustError("one of the runs has no rows yet")
    if not paired:
        have = f"the first has {next(iter(prompts))!r}, the second {next(iter(other_prompts))!r}"
        raise TrustError(f"the runs have no example in common ({have}): compare runs on the same data")
    differences = [_difference(name, criteria[name], others[name], paired, len(same)) for name in same]
    tested = [difference for difference in differences if difference.p is not None]
    adjusted = dict(zip((each.name for each in tested), holm([each.p or 0.0 for each in tested]), strict=True))
    gone, new = tuple(n for n in asked if n not in later), tuple(n for n in later if n not in asked)
    return Comparison(
        score=_difference("score", score, other_score, paired),
        criteria=tuple(replace(each, p=adjusted.get(each.name)) for each in differences),
        flips=tuple(sorted(_flips(first, second, same, set(paired)), key=lambda flip: -abs(flip.difference))),
        examples=len(paired),
        only_first=len(prompts) - len(shared),
        only_second=len(other_prompts) - len(shared),
        other_prompt=len(shared) - len(paired),
        other_wording=tuple(n for n in asked if n in later and n not in same),
        other_rubric=len({run.about.rubric and run.about.rubric.hash for run in (first, second)}) > 1,
        missing={"first": gone, "second": new},
    )


def _difference(name: str, one: _Column, other: _Column, paired: Sequence[str], tests: int = 1) -> Difference:
    both = [example for example in paired if example in one.values and example in other.values]
    unanswered = (one.unanswered, other.unanswered)
    if not both:
        none = Estimate(reason="no example has a value in both runs")
        return Difference(name, None, None, none, unanswered=unanswered)
    first = np.array([fmean(one.values[example]) for example in both])
    second = np.array([fmean(other.values[example]) for example in both])
    gaps = second - first
    gaps[np.abs(gaps) < 1e-12] = 0.0
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    # Whether every example has one rollout in each run, and its value is 0 or 1.
    plain = all(each in ([0.0], [1.0]) for column in (one, other) for each in column.values.values())
    p, test = (mcnemar(better, worse), "mcnemar") if plain else (sign_flip(gaps), "sign_flip")
    means, difference = (float(first.mean()), float(second.mean())), clustered_values(gaps, both).estimate(MEAN)
    effect = minimum_detectable_effect(gaps, tests=tests)
    return Difference(name, *means, difference, p, test, len(both), better, worse, effect, unanswered)


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


# Whether the judge has moved, on rollouts that are the same in both runs.


class CriterionDrift(Record):
    """One criterion: how much the judge's answers moved, and whether that could be chance."""

    name: str
    before: float
    after: float  # the mean of its answers in each run
    change: Estimate
    p: float  # after Holm, over the criteria
    rollouts: int
    unanswered: int = 0  # rollouts without an answer in one of the runs
    accuracy: tuple[Estimate, Estimate] | None = None  # the share that agrees with people, before and after


class Drift(Record):
    """How far a judge has moved since an earlier run."""

    rollouts: int  # rollouts that both runs have, with the same completion
    changed: int  # rollouts with another completion, which say nothing about the judge
    only_one: int  # rollouts that one run alone has
    moved: tuple[str, ...]  # the criteria whose answers moved beyond chance at 5 %
    criteria: tuple[CriterionDrift, ...]


def drift_between(
    before: Run, after: Run, labels: Sequence[Label] = (), *, skip_unknown: bool = False, any_wording: bool = False
) -> Drift:
    """Whether the judge answers otherwise in the second run, where the rollouts are the same.

    With labels it says too whether it agrees more or less with people. Raises `TrustError` when no rollout is
    the same in both runs, or no criterion.
    """
    paired = pair_runs(before, after)
    questions = paired.questions
    relevant = [label for label in labels if label.criterion in questions]
    people: dict[tuple[str, int, str], Answer] = {}
    if relevant:
        known = {"skip_unknown": skip_unknown, "any_wording": any_wording}
        for item in join(after.rows(), questions, relevant, **known).items:
            agreed = consensus(list(item.people.values()))
            if agreed is not None:
                people[item.example, item.sample, item.criterion] = agreed
    by_name = grouped((twice.criterion, twice) for twice in paired.answers)
    found = [_drift(questions[name], pairs, people) for name, pairs in by_name.items()]
    criteria = [drift for drift in found if drift is not None]
    adjusted = [replace(drift, p=p) for drift, p in zip(criteria, holm([drift.p for drift in criteria]), strict=True)]
    moved = tuple(drift.name for drift in adjusted if drift.p < 0.05)
    return Drift(paired.rollouts, paired.changed, paired.only_one, moved, tuple(adjusted))


def _drift(
    question: Question, pairs: Sequence[TwoAnswers], people: Mapping[tuple[str, int, str], Answer]
) -> CriterionDrift | None:
    """How one criterion drifted; None when no rollout has two answers that are worth something."""
    both = ((twice, twice.before, twice.after) for twice in pairs)
    given = [(twice, was, now) for twice, was, now in both if was is not None and now is not None]
    worths = [(twice.example, question.worth(was), question.worth(now)) for twice, was, now in given]
    # `N/A` is worth nothing that could rise or fall.
    valued = [each for each in worths if None not in each]
    if not valued:
        return None
    examples = [example for example, _, _ in valued]
    before, after = (np.array([each[side] for each in valued], dtype=np.float64) for side in (1, 2))
    changes = clustered_values(after - before, examples)
    told = [(twice.example, was, now, people[twice[:3]]) for twice, was, now in given if twice[:3] in people]
    accuracy = None
    if told:
        labelled = [example for example, *_ in told]
        was = clustered_values([was == said for _, was, _, said in told], labelled)
        now = clustered_values([now == said for _, _, now, said in told], labelled)
        accuracy = was.estimate(SHARE), now.estimate(SHARE)
    means, change = (float(before.mean()), float(after.mean())), changes.estimate(MEAN)
    p, unanswered = sign_flip(changes.sums[:, 0]), len(pairs) - len(given)
    return CriterionDrift(question.name, *means, change, p, len(valued), unanswered, accuracy)


# Whether a difference could be chance, and which would show.

PERMUTATIONS = 10_000
_ENUMERABLE = 14  # differences whose signs are flipped in every possible way; of more, a sample is taken


def mcnemar(better: int, worse: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the examples that changed.

    >>> round(mcnemar(9, 1), 4)
    0.0215
    """
    return min(1.0, 2 * float(special.bdtr(min(better, worse), better + worse, 0.5)))


def sign_flip(differences: Sequence[float] | Array, *, seed: int = 0) -> float:
    """The two-sided p-value of the paired permutation test on the mean of these differences.

    If the two runs were the same, each difference could as well have the other sign.

    >>> sign_flip([0.2, 0.3, 0.1, 0.4])
    0.125
    """
    given = np.asarray(differences, dtype=np.float64)
    given = given[given != 0]
    found = abs(float(given.sum()))
    # Sums of the same numbers in another order may differ in the last digit.
    edge = found - 1e-9 * max(1.0, found)
    if not len(given):
        return 1.0
    if len(given) <= _ENUMERABLE:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(given))))
        return float((np.abs(signs @ given) >= edge).mean())
    generator = np.random.default_rng(seed)
    sizes, counts = np.unique(np.abs(given), return_counts=True)
    if len(sizes) <= FEW:
        # Of so many differences of one size, how many keep their sign is binomial.
        kept = generator.binomial(counts, 0.5, size=(PERMUTATIONS, len(sizes)))
        sums = (2.0 * kept - counts) @ sizes
    else:
        shapes = ((size, len(given)) for size in estimate.pieces(PERMUTATIONS, len(given)))
        sums = np.concatenate([(2.0 * generator.integers(2, size=shape) - 1) @ given for shape in shapes])
    return (int((np.abs(sums) >= edge).sum()) + 1) / (PERMUTATIONS + 1)


def holm(values: Sequence[float]) -> list[float]:
    """P-values adjusted for how many there are (Holm 1979), in the same order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def minimum_detectable_effect(
    differences: Sequence[float] | Array, *, tests: int = 1, power: float = 0.8, level: float = 0.95
) -> float | None:
    """The smallest mean difference that data like these would show, in `power` of the cases.

    `tests` is how many differences are tested together. None when all are the same, or when they are too
    few for any difference to be beyond chance: five examples that all rise have a p-value of 0.06.
    """
    given = np.asarray(differences, dtype=np.float64)
    chance, free = (1 - level) / tests, len(given) - 1
    if len(given) < 2 or 2.0**-free > chance or float(given.std(ddof=1)) == 0:
        return None
    error = float(given.std(ddof=1)) / len(given) ** 0.5
    return (estimate.t_quantile(1 - chance / 2, free) + estimate.t_quantile(power, free)) * error
