"""Compare several runs with each other, such as those of several models and prompts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from assay.criterion import hash_json
from assay.display import Page, Section, format_p_value
from assay.errors import TrustError
from assay.runs import Run
from assay.trust.comparison import Difference
from assay.trust.estimate import Record
from assay.trust.run_comparison import adjust_p_values, compare
from assay.wording import format_count


class RunPair(Record):
    """Two of several runs, and whether their scores differ by more than chance."""

    first: str
    second: str
    settings: tuple[str, ...]  # those in which the runs differ
    score: Difference  # its p-value is adjusted for the number of pairs


class MatrixComparison(Record):
    """Several runs, compared in pairs."""

    pairs: tuple[RunPair, ...]
    # Pairs of runs that cannot be compared, with the reason.
    refused: Mapping[tuple[str, str], str]

    def decide(self) -> str:
        """Return in a sentence which run has the highest score, and which others it clearly beats."""
        means: dict[str, float] = {}
        for pair in self.pairs:
            if pair.score.first is not None and pair.score.second is not None:
                means[pair.first] = pair.score.first
                means[pair.second] = pair.score.second
        if not means:
            return "No two of these runs have scores that can be compared"
        best = max(means, key=lambda name: means[name])
        beaten: list[str] = []
        undecided: list[str] = []
        for pair in self.pairs:
            if best not in (pair.first, pair.second):
                continue
            other = pair.first if pair.second == best else pair.second
            differs = pair.score.direction != ""
            if differs:  # and the best run has the higher mean
                beaten.append(other)
            else:
                undecided.append(other)
        sentence = f"{best} has the highest mean score, {means[best]:.3f}"
        if beaten:
            sentence += f"; it is better than {_join(beaten)}"
        if undecided:
            sentence += f"; no difference from {_join(undecided)} can be shown"
        return sentence

    def decide_by_pair(self) -> str:
        """Return in a sentence which second runs are better or worse than the first of their pair."""
        parts: list[str] = []
        for direction in ("worse", "better"):
            names = [pair.second for pair in self.pairs if pair.score.direction == direction]
            if names:
                parts.append(f"{_join(names)} {'is' if len(names) == 1 else 'are'} {direction}")
        pairs = format_count(len(self.pairs), "pair")
        if not parts:
            return f"No difference can be shown in any of {pairs}"
        return f"Of {pairs}, {'; '.join(parts)}"

    def page(self, decision: str) -> Page:
        """Return the decision, and a table of the pairs."""
        notes = [f"p-values are adjusted for {format_count(len(self.pairs), 'pair')} (Holm)"]
        if self.refused:
            (first, second), reason = next(iter(self.refused.items()))
            notes.append(
                f"{format_count(len(self.refused), 'pair')} not compared, such as {first} and "
                f"{second}: {reason}"
            )
        return Page(
            decision, [self._build_table()], notes, {**self.to_dict(), "decision": decision}
        )

    def _build_table(self) -> Section:
        columns = (
            "second against first",
            "what differs",
            "first",
            "second",
            "difference",
            "p",
            "better",
            "worse",
            "minimum detectable effect",
        )
        return Section(columns, [_make_cells(pair) for pair in self.pairs])

    def to_dict(self) -> dict[str, object]:
        """Return plain data, ready for JSON."""
        refused = [
            {"first": first, "second": second, "reason": reason}
            for (first, second), reason in self.refused.items()
        ]
        return {"pairs": [pair.to_dict() for pair in self.pairs], "refused": refused}

    def __str__(self) -> str:
        return self.page(self.decide()).text()

    def _repr_html_(self) -> str:
        return self.page(self.decide()).text("html")


def _join(names: Sequence[str]) -> str:
    """Return names as words: `a, b and c`."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _make_cells(pair: RunPair) -> tuple[object, ...]:
    """Return the row of a pair in the table of pairs."""
    score = pair.score

    def format_number(value: float | None) -> str | None:
        return None if value is None else f"{value:.3f}"

    return (
        f"{pair.second} against {pair.first}",
        ", ".join(pair.settings) or "nothing",
        format_number(score.first),
        format_number(score.second),
        score.difference.format(digits=3),
        format_p_value(score.p),
        score.better,
        score.worse,
        format_number(score.minimum_detectable_effect),
    )


def compare_all(runs: Mapping[str, Run]) -> MatrixComparison:
    """Compare all runs with each other, except those that differ in both model and prompt.

    A difference between two such runs could not be attributed to either of the two.
    """
    prompts = {name: _read_prompts(run) for name, run in runs.items()}
    pairs: list[tuple[str, str]] = []
    for first, second in combinations(runs, 2):
        has_other_model = runs[first].about.model != runs[second].about.model
        if not (has_other_model and _differ(prompts[first], prompts[second])):
            pairs.append((first, second))
    return compare_pairs(runs, pairs)


def _read_prompts(run: Run) -> dict[str, str]:
    """Return the hash of the prompt of each example."""
    prompts: dict[str, str] = {}
    for row in run.rows():
        if row.example not in prompts:
            prompts[row.example] = hash_json(row.fields.get("prompt"))
    return prompts


def _differ(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Whether an example that both runs have was asked with different prompts.

    Both mappings hold the hash of the prompt of each example.
    """
    shared_examples = first.keys() & second.keys()
    return any(first[example] != second[example] for example in shared_examples)


def compare_pairs(runs: Mapping[str, Run], pairs: Iterable[tuple[str, str]]) -> MatrixComparison:
    """Compare the scores of the two runs of each pair; `pairs` holds the names of the runs."""
    compared: list[RunPair] = []
    refused: dict[tuple[str, str], str] = {}
    for first, second in pairs:
        try:
            comparison = compare(runs[first], runs[second])
        except TrustError as error:
            refused[first, second] = str(error)
            continue
        # `prompt` stands for `prompt.system` and `prompt.user`.
        settings = dict.fromkeys(change.setting.split(".")[0] for change in comparison.changes)
        compared.append(RunPair(first, second, tuple(settings), comparison.score))
    scores = adjust_p_values([pair.score for pair in compared])
    adjusted = [replace(pair, score=score) for pair, score in zip(compared, scores, strict=True)]
    return MatrixComparison(tuple(adjusted), refused)
