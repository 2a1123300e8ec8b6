"""Read the values of a run by example, and pair the examples of two runs."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from assay.criterion import hash_json
from assay.display import format_line, shorten_line
from assay.errors import AssayError, TrustError
from assay.graders.model_grader import hash_question
from assay.identity import UNKNOWN
from assay.messages import list_messages, message_text, select_role
from assay.report import CriterionReport
from assay.runs import Row, RowRubrics, Run, RunAbout
from assay.runs.row import Key, names_of, own_rubric
from assay.runs.stats import Passes, PassRates, PassRule
from assay.trust.estimate import Record
from assay.wording import format_count

# Columns that two different examples can have in common, or that hold what a run made.
_COLUMNS_OF_ANY_EXAMPLE = frozenset(
    {
        "answer",
        "category",
        "completion",
        "example_id",
        "info",
        "prompt",
        "rubric",
        "sample",
        "stop_condition",
        "task",
    }
)

_LONGEST_SETTING = 60  # characters of a setting that are shown


class SettingChange(Record):
    """A setting in which two runs differ."""

    setting: str
    first: str
    second: str


class Values:
    """The values of one figure by example. Several rollouts of an example are one observation."""

    def __init__(self) -> None:
        self.by_example: defaultdict[str, list[float]] = defaultdict(list)
        self.weight = 1.0  # below 0 if a lower value is better
        self._failed: defaultdict[str, int] = defaultdict(int)

    def add(self, example: str, value: float | None, *, failed: bool) -> None:
        """Add the value of a rollout. Without a value it counts as unanswered if it `failed`."""
        if value is not None:
            self.by_example[example].append(value)
        elif failed:
            self._failed[example] += 1

    @property
    def unanswered(self) -> int:
        return sum(self._failed.values())

    @property
    def are_single_verdicts(self) -> bool:
        """Whether every example has one rollout, with a value of 0 or 1."""
        return all(values in ([0.0], [1.0]) for values in self.by_example.values())


class _Example(NamedTuple):
    """What identifies an example, as one run holds it."""

    prompt: str  # the hash of the prompt
    data: str  # the hash of the columns that no other example has; empty if there are none
    has_id: bool  # whether its name is an id of its own, and not the number of its row
    rubric: str  # the version of the rubric that scored it
    category: str


class RunValues:
    """The scores of a run, the values of some criteria, and its examples."""

    def __init__(self, run: Run, criteria: Sequence[str], pass_rule: PassRule) -> None:
        """Read a run: its scores, the values of these criteria, and which rollouts pass."""
        self.score = Values()
        self.criteria = {name: Values() for name in criteria}
        self.examples: dict[str, _Example] = {}
        # For each example, whether each of its rollouts passed. Unscored rollouts are left out.
        self.passes: defaultdict[str, list[bool]] = defaultdict(list)
        self.system_prompts: set[str] = set()
        self.keys: set[Key] = set()  # of all rollouts
        self._rollout_counts: defaultdict[str, int] = defaultdict(int)  # by example
        run_rubric = identify_rubric(run.about)
        for criterion in run.about.criteria:
            self._set_weight(criterion.name, criterion.weight)
        for row in run.rows():
            self.keys.add(row.key)
            self._rollout_counts[row.example] += 1
            if row.example not in self.examples:
                self.examples[row.example] = _read_example(row, run_rubric)
                self.system_prompts.add(_read_system_prompt(row))
            # A rollout without a score counts as a failure to score it.
            self.score.add(row.example, row.score, failed=True)
            is_passed = pass_rule.is_passed(row.report) if row.scored else None
            if is_passed is not None:
                self.passes[row.example].append(is_passed)
            self._add_criteria(row)

    def _add_criteria(self, row: Row) -> None:
        """Add the values of a row to those of the criteria."""
        values: Mapping[str, float] = row.report.metrics
        errors: Mapping[str, str] = row.errors
        if own_rubric(row.fields) is not None:
            # The rubric of the row decides the names and the weights of its criteria.
            values = {}
            errors = {}
            for name, line in name_lines(row).items():
                self._set_weight(name, line.weight)
                if line.value is not None:
                    values[name] = line.value
                if line.error is not None:
                    errors[name] = line.error
        for name, column in self.criteria.items():
            failed = name in errors or row.error is not None
            column.add(row.example, values.get(name), failed=failed)

    def _set_weight(self, name: str, weight: float) -> None:
        """Set the weight of a criterion, if it is one of those that are compared."""
        if name in self.criteria:
            self.criteria[name].weight = weight

    @property
    def categories(self) -> list[str]:
        """The categories of the examples, in the order of the run."""
        return list(dict.fromkeys(example.category for example in self.examples.values()))

    @property
    def rollouts_per_example(self) -> str:
        """How many rollouts each example has: a number, or a range."""
        counts = self._rollout_counts.values()
        fewest = min(counts, default=0)
        most = max(counts, default=0)
        return str(most) if fewest == most else f"{fewest} to {most}"

    def compute_pass_rates(self, examples: Sequence[str]) -> dict[int, PassRates]:
        """Return pass@k and pass^k over these examples, by k."""
        passes = Passes()
        for example_number, example in enumerate(examples):
            for is_passed in self.passes.get(example, ()):
                passes.add(is_passed, example_number)
        return passes.rates()


def identify_rubric(about: RunAbout) -> str:
    """Return a text that is the same for runs with the same rubric; empty if rows bring their own.

    It is the hash of the rubric. If that is not known, because the code of a check cannot be
    identified, it is a hash of what is known about the criteria.
    """
    rubric = about.rubric
    if rubric is None:
        return ""
    if rubric.hash != UNKNOWN:
        return rubric.hash
    criteria = [[criterion.name, criterion.hash, criterion.weight] for criterion in rubric.criteria]
    return hash_json([rubric.aggregation, criteria])


def _read_example(row: Row, run_rubric: str) -> _Example:
    """Return what identifies the example of a row.

    `run_rubric` identifies the rubric of the run, which scored the row unless it brings its own.
    """
    fields = row.fields
    has_id = _has_own_id(fields)
    row_rubric = own_rubric(fields)
    return _Example(
        prompt=hash_json(fields.get("prompt")),
        data="" if has_id else _hash_data(fields),  # an id is enough
        has_id=has_id,
        rubric=run_rubric if row_rubric is None else hash_json(row_rubric),
        category=row.task,
    )


def _has_own_id(fields: Mapping[str, Any]) -> bool:
    """Whether a row has an id. Environments give rows without one their number as `example_id`."""
    if fields.get("id") is not None:
        return True
    example_id = fields.get("example_id")
    return isinstance(example_id, str) and not example_id.isdecimal()


def _hash_data(fields: Mapping[str, Any]) -> str:
    """Return the hash of the columns that no other example has; empty if there are none."""
    data = {
        name: value
        for name, value in fields.items()
        if name not in _COLUMNS_OF_ANY_EXAMPLE and value not in (None, "")
    }
    return hash_json(data) if data else ""


def _read_system_prompt(row: Row) -> str:
    messages = select_role(list_messages(row.fields.get("prompt")), "system")
    return "\n".join(message_text(message) for message in messages)


def name_lines(row: Row) -> dict[str, CriterionReport]:
    """Return the lines of a row by name; a name that occurs twice gets a number."""
    lines = row.report.lines
    names = names_of(lines, is_row_rubric=own_rubric(row.fields) is not None)
    return dict(zip(names, lines, strict=True))


class ExamplePairs(NamedTuple):
    """The examples of two runs, side by side."""

    examples: list[str]  # in both runs
    same_rubric: list[str]  # of these, the examples that the same rubric scored in both runs
    other_example: int  # names that stand for different examples in the two runs
    other_prompt: int  # examples that were asked with another prompt
    only_first: int
    only_second: int


def pair_examples(first: RunValues, second: RunValues) -> ExamplePairs:
    """Pair the examples of two runs; raise `TrustError` if they have none in common.

    Examples are paired by their ids. Without ids, the same row number is the same example if its
    prompt is the same, or the data that the prompt was made from.
    """
    shared_names = [name for name in first.examples if name in second.examples]
    examples: list[str] = []  # those that are the same in both runs
    same_rubric: list[str] = []  # of these, the examples that the same rubric scored in both
    other_prompt = 0  # of these, the number of examples with another prompt in the second run
    for name in shared_names:
        first_example = first.examples[name]
        second_example = second.examples[name]
        if not _is_same_example(first_example, second_example):
            continue
        examples.append(name)
        if first_example.prompt != second_example.prompt:
            other_prompt += 1
        if first_example.rubric == second_example.rubric:
            same_rubric.append(name)
    if not examples:
        raise TrustError(_describe_missing_pairs(first, second, shared_names))
    return ExamplePairs(
        examples=examples,
        same_rubric=same_rubric,
        other_example=len(shared_names) - len(examples),
        other_prompt=other_prompt,
        only_first=len(first.examples) - len(shared_names),
        only_second=len(second.examples) - len(shared_names),
    )


def _is_same_example(first: _Example, second: _Example) -> bool:
    """Whether two examples with the same name are the same example; see `pair_examples`."""
    if first.prompt == second.prompt or (first.has_id and second.has_id):
        return True
    return bool(first.data) and first.data == second.data


def _describe_missing_pairs(
    first: RunValues, second: RunValues, shared_names: Sequence[str]
) -> str:
    """Return why no example can be compared. `shared_names` are names that both runs have."""
    if shared_names:
        return (
            f"the runs have {format_count(len(shared_names), 'row number')} in common, but other prompts "
            "and other data in these rows: give rows an `id`, by which they are matched"
        )
    if not first.examples or not second.examples:
        return "one of the runs has no rows yet"
    first_example = next(iter(first.examples))
    second_example = next(iter(second.examples))
    return (
        f"the runs have no example in common (the first has {first_example!r}, the second "
        f"{second_example!r}): compare runs on the same data"
    )


def pair_rows(first: Run, second: Run, keys: Collection[Key]) -> Iterator[tuple[Row, Row]]:
    """Yield the rows of the same rollout in both runs, for these keys, which both runs have.

    Both runs are read in parallel, since reading single rows is slow. A row is kept until the other
    run comes to the row with the same key, which in runs on the same data is at the same time.
    """
    waiting_first: dict[Key, Row] = {}
    waiting_second: dict[Key, Row] = {}
    for first_row, second_row in zip_longest(first.rows(), second.rows()):
        if first_row is not None and first_row.key in keys:
            waiting_first[first_row.key] = first_row
        if second_row is not None and second_row.key in keys:
            waiting_second[second_row.key] = second_row
        for row in (first_row, second_row):
            if row is not None and row.key in waiting_first and row.key in waiting_second:
                yield waiting_first.pop(row.key), waiting_second.pop(row.key)


def read_questions(run: Run) -> dict[str, frozenset[str]]:
    """Return the criteria of a run by name, with the hashes of what decides their answers.

    There are several hashes if rows bring their own rubrics, with other wordings of one criterion.
    Criteria of the run's rubric are left out if every row brings its own, since they were not asked.
    """
    row_rubrics = RowRubrics()
    hashes: defaultdict[str, set[str]] = defaultdict(set)  # by criterion
    uses_run_rubric = False  # whether some row was scored by the rubric of the run
    row_count = 0
    for row in run.rows():
        row_count += 1
        if own_rubric(row.fields) is None:
            uses_run_rubric = True
            continue
        try:
            rubric, _ = row_rubrics.of(row.fields)
        except AssayError:
            continue  # the rubric is invalid, and the row was not scored
        names = names_of(rubric.criteria, is_row_rubric=True)
        for name, criterion in zip(names, rubric.criteria, strict=True):
            hashes[name].add(hash_question(criterion))
    run_rubric = run.about.rubric
    if run_rubric is not None and (uses_run_rubric or not row_count):
        for criterion in run_rubric.criteria:
            hashes[criterion.name].add(criterion.question or criterion.hash)
    return {name: frozenset(criterion_hashes) for name, criterion_hashes in hashes.items()}


def list_changes(
    first: RunAbout,
    second: RunAbout,
    first_values: RunValues,
    second_values: RunValues,
    pairs: ExamplePairs,
) -> tuple[SettingChange, ...]:
    """Return the settings in which two runs differ, with the value in each run.

    The values of the runs and the paired examples show how the data differ.
    """
    changes: list[SettingChange] = []

    def add_if_different(setting: str, before: object, after: object) -> None:
        if before != after:
            first_text, second_text = _format_settings(before, after)
            changes.append(SettingChange(setting, first_text, second_text))

    add_if_different("model", first.model, second.model)
    add_if_different("judge", first.judge, second.judge)
    add_if_different("rubric", _name_rubric(first), _name_rubric(second))
    if pairs.other_prompt:
        examples = format_count(len(pairs.examples), "example")
        count = f"another for {pairs.other_prompt:,} of {examples}"
        first_name = str(first.options.get("prompt_name") or "")
        second_name = str(second.options.get("prompt_name") or "")
        changes.append(SettingChange("prompt", first_name, f"{second_name} ({count})".strip()))
    if "prompt" not in first.config and "prompt" not in second.config:
        add_if_different("system prompt", *_name_system_prompts(first_values, second_values))
    add_if_different(
        "rollouts per example",
        first_values.rollouts_per_example,
        second_values.rollouts_per_example,
    )
    first_settings = dict(_flatten(first.config))
    second_settings = dict(_flatten(second.config))
    for name in sorted({*first_settings, *second_settings}):
        add_if_different(name, first_settings.get(name), second_settings.get(name))
    add_if_different("data", first.data.get("source"), second.data.get("source"))
    for name in ("assay", "python", "git"):
        title = "git commit" if name == "git" else name
        add_if_different(title, first.versions.get(name), second.versions.get(name))
    return tuple(changes)


def _name_rubric(about: RunAbout) -> str | None:
    """Return the name of a run's rubric and the start of its hash; None if rows bring their own."""
    if about.rubric is None:
        return None
    return f"{about.rubric.name} {identify_rubric(about)[:8]}".strip()


def _name_system_prompts(first: RunValues, second: RunValues) -> tuple[str | None, str | None]:
    """Return what to show of the system prompts of two runs; None twice if they are the same."""
    if first.system_prompts == second.system_prompts:
        return None, None
    return _name_system_prompt(first.system_prompts), _name_system_prompt(second.system_prompts)


def _name_system_prompt(prompts: set[str]) -> str | None:
    """Return the one system prompt of a run, or how many there are; None if there is none."""
    if len(prompts) > 1:
        return f"{len(prompts)} different ones"
    return next(iter(prompts), "") or None


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield all settings, with dotted names for those inside others."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _format_settings(before: object, after: object) -> tuple[str, str]:
    """Return two different settings as text; of long texts the part where they begin to differ."""
    first = "none" if before is None else format_line(str(before))
    second = "none" if after is None else format_line(str(after))
    shared_length = 0  # of the beginning that both have
    for first_character, second_character in zip(first, second, strict=False):
        if first_character != second_character:
            break
        shared_length += 1
    is_long = max(len(first), len(second)) > _LONGEST_SETTING
    if is_long and shared_length > _LONGEST_SETTING // 2:
        start = shared_length - 10  # a few characters before the difference
        first = f"…{first[start:]}"
        second = f"…{second[start:]}"
    return shorten_line(first, _LONGEST_SETTING), shorten_line(second, _LONGEST_SETTING)
