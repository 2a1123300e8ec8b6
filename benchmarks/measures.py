"""The six measures: which subjects do which work, and the targets they are held to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from rows import Row, Target
from subjects import Subjects

Figures = dict[str, float] | None
"""What a worker printed; None when it could not be run."""

MICRO = 1e6
MILLI = 1e3
MEBIBYTE = 1 << 20
# Small batches are repeated up to this many rollouts, so that every size is timed over a like
# amount of work.
FLATNESS_WORK = 10_000


@dataclass(frozen=True)
class Sizes:
    """How much work; the defaults are the sizes the targets speak of."""

    rollouts: int = 10_000
    batches: tuple[int, ...] = (8, 64, 512, 4096, 10_000, 100_000)
    responses: int = 200
    repeats: int = 7
    processes: int = 3
    imports: int = 5


QUICK = Sizes(rollouts=1000, batches=(8, 64, 512, 4096), responses=20, repeats=2, processes=1, imports=2)


def measure_score(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """`score_group` over three cheap functions, against verifiers and against the bare calls."""
    ours, theirs = _in_turn(
        sizes,
        lambda: _score(subjects, "assay", sizes, measure="bare", checks="sync"),
        lambda: _score(subjects, "verifiers", sizes, measure="cpu", checks="sync"),
    )
    label = f"score_group, {sizes.rollouts:,} rollouts x 3 sync functions"
    return [
        _rate_row(label, ours, theirs, count="rollouts", target=Target(20, "at least")),
        Row(
            f"{label}, cost per rollout",
            _per_item(ours, "rollouts"),
            _per_item(ours, "rollouts", seconds="bare_cpu_seconds"),
            "µs",
            against="bare calls",
            target=Target(2.5, "at most"),
        ),
    ]


def measure_async(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """The same with functions that give way to the event loop once each."""
    ours, theirs = _in_turn(
        sizes,
        lambda: _score(subjects, "assay", sizes, measure="cpu", checks="async"),
        lambda: _score(subjects, "verifiers", sizes, measure="cpu", checks="async"),
    )
    label = f"score_group, {sizes.rollouts:,} rollouts x 3 async functions"
    return [_rate_row(label, ours, theirs, count="rollouts", target=Target(3, "at least"))]


def measure_memory(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """The peak that scoring adds to the memory its states already take."""
    ours, theirs = (_peak(subjects, subject, sizes) for subject in ("assay", "verifiers"))
    label = f"score_group, {sizes.rollouts:,} rollouts, peak memory growth"
    return [Row(label, ours, theirs, "MiB", "verifiers", Target(1 / 3, "at most"))]


def measure_flatness(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """assay's cost per rollout at each batch size, then the dearest over the cheapest."""
    costs = {size: _flat_cost(subjects, size, sizes) for size in sizes.batches}
    rows = [Row(f"cost per rollout, batches of {size:,}", cost, None, "µs") for size, cost in costs.items()]
    known = [cost for cost in costs.values() if cost is not None]
    dearest, cheapest = (max(known), min(known)) if len(known) == len(costs) else (None, None)
    return [*rows, Row("dearest batch size over cheapest", dearest, cheapest, "µs", "cheapest")]


def measure_import(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """A new interpreter that imports the package and ends; its start-up is counted too."""

    def cost(subject: str, statement: str) -> float | None:
        seconds = subjects.cpu_of(subject, statement, repeats=sizes.imports)
        return None if seconds is None else seconds * MILLI

    ours = cost("assay", "import assay")
    rubric_class = cost("assay", "from assay import Rubric")
    verifiers = cost("verifiers", "import verifiers")
    rubric = cost("rubric", "import rubric")
    autorubric = cost("autorubric", "import autorubric")
    first, second = "import assay, CPU", "from assay import Rubric, CPU"
    return [
        Row(first, ours, verifiers, "ms", "verifiers", Target(1 / 30, "at most")),
        Row(first, ours, rubric, "ms", "rubric", Target(1 / 8, "at most")),
        Row(first, ours, autorubric, "ms", "autorubric"),
        Row(first, ours, cost("assay", "pass"), "ms", "python -c pass"),
        Row(second, rubric_class, verifiers, "ms", "verifiers"),
        Row(second, rubric_class, rubric, "ms", "rubric"),
    ]


def measure_grade(subjects: Subjects, sizes: Sizes) -> list[Row]:
    """Grading with a judge that answers at once: what the library itself costs per criterion."""

    def graded(subject: str, door: str = "grade") -> Figures:
        return subjects.measure(subject, "grade_worker.py", responses=sizes.responses, repeats=sizes.repeats, door=door)

    ours, at_once, rubric, autorubric = _in_turn(
        sizes,
        lambda: graded("assay"),
        lambda: graded("assay", "score"),
        lambda: graded("rubric"),
        lambda: graded("autorubric"),
    )
    label = f"grade, {sizes.responses} texts x 10 criteria, instant judge"
    three, ten = Target(3, "at least"), Target(10, "at least")
    return [
        _rate_row(label, ours, rubric, "rubric", count="criteria", target=three),
        _rate_row(label, ours, autorubric, "autorubric", count="criteria", target=ten),
        _rate_row(f"{label}, assay by score()", at_once, rubric, "rubric", count="criteria", target=three),
    ]


@dataclass(frozen=True)
class Measure:
    """A measure by the name `--only` takes, and the peers it needs."""

    name: str
    peers: tuple[str, ...]
    run: Callable[[Subjects, Sizes], list[Row]]


MEASURES = (
    Measure("score", ("verifiers",), measure_score),
    Measure("flatness", (), measure_flatness),
    Measure("memory", ("verifiers",), measure_memory),
    Measure("async", ("verifiers",), measure_async),
    Measure("import", ("verifiers", "rubric", "autorubric"), measure_import),
    Measure("grade", ("rubric", "autorubric"), measure_grade),
)


def _in_turn(sizes: Sizes, *measures: Callable[[], Figures]) -> list[Figures]:
    """The cheapest figures of each over several fresh processes.

    Taken in turn, so that a slow moment of the machine does not fall on one subject alone.
    """
    rounds = [[measure() for measure in measures] for _ in range(sizes.processes)]
    return [_cheapest(figures) for figures in zip(*rounds, strict=True)]


def _cheapest(figures: Sequence[Figures]) -> Figures:
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    return {name: min(figure[name] for figure in known) for name in known[0]}


def _score(
    subjects: Subjects, subject: str, sizes: Sizes, *, measure: str, checks: str, repeats: int | None = None
) -> Figures:
    return subjects.measure(
        subject,
        "score_worker.py",
        measure=measure,
        checks=checks,
        batch=sizes.rollouts,
        batches=1,
        repeats=sizes.repeats if repeats is None else repeats,
    )


def _peak(subjects: Subjects, subject: str, sizes: Sizes) -> float | None:
    """MiB, the middle one of several fresh processes."""
    figures = [
        _score(subjects, subject, sizes, measure="memory", checks="sync", repeats=1) for _ in range(sizes.processes)
    ]
    known = [figure["peak_bytes"] for figure in figures if figure is not None]
    return median(known) / MEBIBYTE if known and len(known) == len(figures) else None


def _flat_cost(subjects: Subjects, size: int, sizes: Sizes) -> float | None:
    figures = subjects.measure(
        "assay",
        "score_worker.py",
        measure="cpu",
        checks="sync",
        batch=size,
        batches=-(-FLATNESS_WORK // size),
        repeats=sizes.repeats,
    )
    return _per_item(figures, "rollouts")


def _per_item(figures: Figures, count: str, *, seconds: str = "cpu_seconds") -> float | None:
    """Microseconds of CPU for one item."""
    return None if figures is None else figures[seconds] / figures[count] * MICRO


def _rate_row(
    label: str, ours: Figures, theirs: Figures, against: str = "verifiers", *, count: str, target: Target
) -> Row:
    """Items per CPU second, side by side."""
    our_rate, their_rate = (
        None if figures is None else figures[count] / figures["cpu_seconds"] for figures in (ours, theirs)
    )
    return Row(label, our_rate, their_rate, f"{count}/CPU s", against, target)
