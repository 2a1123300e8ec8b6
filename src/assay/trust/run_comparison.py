"""Compare two runs on the same examples, and test whether they differ by more than chance."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from assay.errors import TrustError
from assay.report import CriterionReport
from assay.runs import Row, Run
from assay.runs.stats import PassRule
from assay.trust.comparison import (
    AnswerChange,
    Comparison,
    Difference,
    ExamplePasses,
    Flip,
    PassRateChange,
)
from assay.trust.estimate import MEAN, Array, Estimate, ExampleSums, np
from assay.trust.example_pairs import (
    ExamplePairs,
    RunValues,
    Values,
    list_changes,
    name_lines,
    pair_examples,
    pair_rows,
    read_questions,
)
from assay.trust.significance import holm, mcnemar, minimum_detectable_effect, sign_flip
from assay.wording import describe_verdict


def compare(first: Run, second: Run, *, pass_threshold: float | None = None) -> Comparison:
    """Compare what two runs share: examples, criteria, and scores by the same rubric.

    A rollout passes if its score reaches `pass_threshold`; by default by the rule of the second
    run. Raise `TrustError` if nothing can be compared.
    """
    pass_rule = second.about.pass_rule
    if pass_threshold is not None:
        pass_rule = replace(pass_rule, threshold=pass_threshold)
    first_questions = read_questions(first)
    second_questions = read_questions(second)
    shared_names = [name for name in first_questions if name in second_questions]
    same_names = [name for name in shared_names if first_questions[name] == second_questions[name]]
    first_values = RunValues(first, same_names, pass_rule)
    second_values = RunValues(second, same_names, pass_rule)
    pairs = pair_examples(first_values, second_values)
    if not same_names and not pairs.same_rubric:
        raise TrustError(
            "the runs used different rubrics, and no criterion has the same wording in both, so "
            "nothing can be compared: score one of them again with the rubric of the other"
        )
    criteria = [
        _compare_values(
            name,
            first_values.criteria[name],
            second_values.criteria[name],
            pairs.examples,
            tests=len(same_names),
        )
        for name in same_names
    ]
    return Comparison(
        score=_compare_scores(first_values, second_values, pairs),
        criteria=adjust_p_values(criteria),
        flips=_list_flips(
            pair_rows(first, second, first_values.keys & second_values.keys),
            same_names,
            pairs,
            pass_rule,
        ),
        examples=len(pairs.examples),
        changes=list_changes(first.about, second.about, first_values, second_values, pairs),
        pass_rule=str(pass_rule),
        pass_rates=tuple(_compare_pass_rates(first_values, second_values, pairs)),
        example_passes=tuple(_list_example_passes(first_values, second_values, pairs)),
        only_first=pairs.only_first,
        only_second=pairs.only_second,
        other_example=pairs.other_example,
        other_rubric=len(pairs.examples) - len(pairs.same_rubric),
        other_wording=tuple(name for name in shared_names if name not in same_names),
        missing={
            "first": tuple(name for name in first_questions if name not in second_questions),
            "second": tuple(name for name in second_questions if name not in first_questions),
        },
    )


def _compare_scores(first: RunValues, second: RunValues, pairs: ExamplePairs) -> Difference:
    """Compare the scores of two runs, over the examples that the same rubric scored in both."""
    if pairs.same_rubric:
        return _compare_values("score", first.score, second.score, pairs.same_rubric)
    return Difference(
        name="score",
        first=None,
        second=None,
        difference=Estimate(reason="the runs used different rubrics"),
        unanswered=(first.score.unanswered, second.score.unanswered),
    )


def adjust_p_values(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Adjust the p-values of all differences that were tested, for how many there are (Holm)."""
    p_values = [difference.p for difference in differences if difference.p is not None]
    adjusted = iter(holm(p_values))
    results: list[Difference] = []
    for difference in differences:
        if difference.p is None:
            results.append(difference)
        else:
            results.append(replace(difference, p=next(adjusted)))
    return tuple(results)


def _compare_values(
    name: str, first: Values, second: Values, examples: Sequence[str], *, tests: int = 1
) -> Difference:
    """Test whether a figure differs between two runs, over these examples.

    `name` is that of the figure, and `tests` how many figures are tested together.
    """
    unanswered = (first.unanswered, second.unanswered)
    in_both = [
        example
        for example in examples
        if example in first.by_example and example in second.by_example
    ]
    if not in_both:
        return Difference(
            name=name,
            first=None,
            second=None,
            difference=Estimate(reason="no example has a value in both runs"),
            weight=second.weight,
            unanswered=unanswered,
        )
    first_means = _average_rollouts(first, in_both)
    second_means = _average_rollouts(second, in_both)
    differences = second_means - first_means  # one for each example
    differences[np.abs(differences) < 1e-12] = 0.0  # rounding errors
    risen = int((differences > 0).sum())
    fallen = int((differences < 0).sum())
    if first.are_single_verdicts and second.are_single_verdicts:
        test = "mcnemar"
        p = mcnemar(risen, fallen)
    else:
        test = "sign_flip"
        p = sign_flip(differences)
    better, worse = risen, fallen
    if second.weight < 0:  # the criterion describes a fault, so a lower value is better
        better, worse = fallen, risen
    return Difference(
        name=name,
        first=float(first_means.mean()),
        second=float(second_means.mean()),
        difference=ExampleSums.of_values(differences, in_both).estimate(MEAN),
        weight=second.weight,
        p=p,
        test=test,
        examples=len(in_both),
        better=better,
        worse=worse,
        minimum_detectable_effect=minimum_detectable_effect(differences, tests=tests),
        unanswered=unanswered,
    )


def _average_rollouts(values: Values, examples: Sequence[str]) -> Array:
    """Return the mean value of the rollouts of each example."""
    return np.array([fmean(values.by_example[example]) for example in examples])


def _compare_pass_rates(
    first: RunValues, second: RunValues, pairs: ExamplePairs
) -> Iterator[PassRateChange]:
    """Yield pass@k and pass^k of both runs: over all examples, and then for each category."""
    examples_by_category: dict[str, list[str]] = {"": pairs.same_rubric}
    if len(second.categories) > 1:
        for example in pairs.same_rubric:
            category = second.examples[example].category
            examples_by_category.setdefault(category, []).append(example)
    for category, examples in examples_by_category.items():
        first_rates = first.compute_pass_rates(examples)
        second_rates = second.compute_pass_rates(examples)
        for k, rates in first_rates.items():
            if k not in second_rates:
                continue
            yield PassRateChange(
                category=category,
                k=k,
                any_passes=(rates.any, second_rates[k].any),
                all_pass=(rates.all, second_rates[k].all),
                examples=(rates.examples, second_rates[k].examples),
            )


def _list_example_passes(
    first: RunValues, second: RunValues, pairs: ExamplePairs
) -> Iterator[ExamplePasses]:
    """Yield how many rollouts of each example passed, for examples scored by the same rubric."""
    for example in pairs.same_rubric:
        # For each scored rollout of the example, whether it passed.
        first_passes = first.passes.get(example, [])
        second_passes = second.passes.get(example, [])
        yield ExamplePasses(
            example=example,
            category=second.examples[example].category,
            passed=(sum(first_passes), sum(second_passes)),
            scored=(len(first_passes), len(second_passes)),
        )


def _list_flips(
    rows: Iterable[tuple[Row, Row]],
    names: Sequence[str],
    pairs: ExamplePairs,
    pass_rule: PassRule,
) -> tuple[Flip, ...]:
    """Return the rollouts whose score changed, or their answer to one of the named criteria.

    `rows` are the rows of the same rollouts in both runs. The largest change of the score comes
    first. Scores are compared only if the same rubric gave both.
    """
    examples = set(pairs.examples)
    same_rubric = set(pairs.same_rubric)
    flips: list[Flip] = []
    for before, after in rows:
        if before.example not in examples or _has_same_result(before, after):
            continue
        changes = _list_changes(before, after, names)
        is_scored_alike = before.example in same_rubric
        if changes or (is_scored_alike and before.score != after.score):
            flip = Flip(
                example=before.example,
                sample=before.sample,
                before=before.score if is_scored_alike else None,
                after=after.score if is_scored_alike else None,
                changes=changes,
                marks=(_mark_verdicts(before, names), _mark_verdicts(after, names)),
                passed=(
                    _has_passed(before, pass_rule) if is_scored_alike else None,
                    _has_passed(after, pass_rule) if is_scored_alike else None,
                ),
            )
            flips.append(flip)
    flips.sort(key=lambda flip: -abs(flip.difference))
    return tuple(flips)


def _has_passed(row: Row, pass_rule: PassRule) -> bool | None:
    """Whether a rollout passed; None if it has no score."""
    return pass_rule.is_passed(row.report) if row.scored else None


def _has_same_result(before: Row, after: Row) -> bool:
    """Whether a rollout has the same score, values and errors in both runs.

    Most have, and this is faster to see than by comparing the lines.
    """
    return (
        before.score == after.score
        and before.report.metrics == after.report.metrics
        and before.errors == after.errors
    )


def _list_changes(before: Row, after: Row, names: Collection[str]) -> tuple[AnswerChange, ...]:
    """Return the changes of the answers to these criteria."""
    lines_after = name_lines(after)
    changes: list[AnswerChange] = []
    for name, line in name_lines(before).items():
        line_after = lines_after.get(name)
        if line_after is None or name not in names or line.short_answer == line_after.short_answer:
            continue
        change = AnswerChange(
            criterion=name,
            before=line.short_answer,
            after=line_after.short_answer,
            reason_before=line.error or line.reason,
            reason_after=line_after.error or line_after.reason,
            words=(
                describe_verdict(line.short_answer, line.weight),
                describe_verdict(line_after.short_answer, line_after.weight),
            ),
        )
        changes.append(change)
    return tuple(changes)


def _mark_verdicts(row: Row, names: Sequence[str]) -> str:
    """Return a mark for each of these criteria that the row has, in their order."""
    lines = name_lines(row)
    return "".join(_mark_answer(lines[name]) for name in names if name in lines)


def _mark_answer(line: CriterionReport) -> str:
    """Return a mark for an answer; a fault that was avoided is good."""
    if line.error is not None:
        return "!"
    if line.passed is None or not line.applies:
        return "–"
    return "✔" if line.passed else "✗"
