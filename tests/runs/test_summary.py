"""Summaries of runs, with expected values worked out by hand."""

import json
import math
from dataclasses import replace

import pytest

from assay import Criterion, PerCriterionGrader, Rubric, Score
from assay.runs import Row, Spending, Summary, summarize
from assay.runs.stats import Mean, student, wilson_bounds
from assay.runs.summary import Tally
from assay.testing import FakeModel, make_rollout


async def rows_of(values, *, names=None, **fields):
    """Return a row for each value, scored by one check that returns it; None is an error."""
    rubric = Rubric([Criterion(check=lambda value: value, name="v", **fields)])
    reports = await rubric.score([{"value": value} for value in values])
    names = names or [str(index) for index in range(len(values))]
    seen = dict.fromkeys(names, -1)
    rows = []
    for name, report in zip(names, reports, strict=True):
        seen[name] += 1
        rows.append(Row(name, seen[name], report=report))
    return rows


class TestMeans:
    async def test_shares_of_independent_rollouts_get_wilsons_interval(self):
        """3 of 4: Wilson 1927 gives 0.3006 to 0.9544."""
        score = summarize(await rows_of([True, True, True, False])).score
        assert (score.mean, score.count, score.examples) == (0.75, 4, 4)
        assert (score.low, score.high) == (
            pytest.approx(0.3006, abs=1e-4),
            pytest.approx(0.9544, abs=1e-4),
        )

    async def test_repeats_of_one_example_are_not_independent(self):
        """a 0 and 2, b 4, c 6: mean 3, deviations by example −4, 1, 3, so √(3/2·26)/4 · t₂ = 6.7175."""
        reward = summarize(await rows_of([0.0, 2.0, 4.0, 6.0], names="aabc")).reward
        assert (reward.mean, reward.count, reward.examples) == (3.0, 4, 3)
        assert reward.high - reward.mean == pytest.approx(6.7175, abs=1e-4)
        assert reward.mean - reward.low == pytest.approx(6.7175, abs=1e-4)

    async def test_the_order_of_rollouts_does_not_matter(self):
        """Rollouts of one example need not be adjacent."""
        reward = summarize(await rows_of([0.0, 2.0, 4.0, 6.0], names="aabc")).reward
        reordered = summarize(await rows_of([6.0, 0.0, 4.0, 2.0], names="caba")).reward
        assert reordered.mean == reward.mean
        assert reordered.high == pytest.approx(reward.high)

    async def test_equal_rollouts_of_two_examples_count_as_two(self):
        """All are met: the Wilson interval for 2 of 2."""
        rows = await rows_of([True] * 200, names=["a", "b"] * 100)
        score = summarize(rows).score
        assert (score.low, score.high) == (pytest.approx(wilson_bounds(1.0, 2)[0]), 1.0)

    async def test_there_is_no_interval_for_a_single_example(self):
        """However many rollouts it has."""
        score = summarize(await rows_of([0.5, 0.25, 1.0], names="aaa")).score
        assert (score.low, score.high, score.examples) == (None, None, 1)

    async def test_the_interval_of_a_score_is_cut_at_0_and_1(self):
        """The interval of a mean of 0.75 from two examples is wider."""
        score = summarize(await rows_of([0.5, 1.0])).score
        assert (score.low, score.high) == (0.0, 1.0)

    async def test_the_interval_of_a_sum_is_not_cut(self):
        """A sum has no bounds."""
        rubric = Rubric([lambda value: value], aggregation="sum")
        reports = await rubric.score([{"value": 2.0}, {"value": 4.0}])
        score = summarize(Row(str(n), report=r) for n, r in enumerate(reports)).score
        assert score.mean == 3.0
        assert score.high > 4.0

    def test_an_empty_run_has_no_mean_and_no_interval(self):
        summary = summarize([])
        assert (summary.rollouts, summary.score.mean, summary.score.low) == (0, None, None)
        assert summary.passes == {}

    @pytest.mark.parametrize("step", [1, 3, 50, -7])
    def test_the_interval_does_not_depend_on_the_numbers_of_examples(self, step):
        """A task or a criterion may apply only to some examples, in any order."""
        near, far = Mean(), Mean()
        for index in [*range(20), *range(20)]:
            near.add(index % 3, index)
            far.add(index % 3, 500 + step * index)
        assert far.estimate() == near.estimate()

    def test_small_differences_of_large_numbers_are_kept(self):
        """Squares of a billion would lose a difference of one."""
        mean = Mean()
        for index, value in enumerate([1e9, 1e9 + 1] * 50):
            mean.add(value, index)
        estimate = mean.estimate()
        spread = math.sqrt(0.25 * 100 / 99) / math.sqrt(100) * student(99)
        assert estimate.high - estimate.mean == pytest.approx(spread, rel=1e-6)

    @pytest.mark.parametrize(
        ("free", "expected"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (30, 2.0423)]
    )
    def test_students_t_agrees_with_published_tables(self, free, expected):
        """Within 0.1 %."""
        assert student(free) == pytest.approx(expected, rel=1e-3)


class TestErrors:
    async def test_unscored_rollouts_are_counted_but_not_in_means(self):
        """Two are scored; the third has no verdict; the fourth failed to generate."""
        rows = [*await rows_of([True, False, None]), Row("3", error="Overloaded: try later")]
        summary = summarize(rows)
        assert (summary.rollouts, summary.scored, summary.unscored, summary.failed) == (4, 2, 2, 1)
        assert (summary.score.mean, summary.score.count) == (0.5, 2)
        assert summary.errors == {"ValueError": 1, "Overloaded": 1}
        assert summary.errors_by_criterion == {"v": {"ValueError": 1}, "rollout": {"Overloaded": 1}}

    def test_equal_error_messages_are_grouped_with_their_first_row(self):
        """Messages that differ only in numbers and quoted words are equal."""
        rows = [
            Row("b", error="Refused: row 7 is 'bad'", number=1),
            Row("a", error="Refused: row 3 is 'worse'", number=0),
            Row("c", error="Refused: no key", number=2),
        ]
        first, second = Tally().add_all(rows[:1]), Tally().add_all(rows[1:])
        first.merge(second)
        for summary in (summarize(rows), first.summary()):
            assert [(e.message, e.count, e.example) for e in summary.error_messages] == [
                ("Refused: row 3 is 'worse'", 2, "a"),
                ("Refused: no key", 1, "c"),
            ]

    async def test_a_criterion_counts_met_unmet_not_applicable_and_errors_separately(self):
        grader = PerCriterionGrader(
            FakeModel(
                lambda system, user: next(
                    reply
                    for word, reply in {
                        "Yes": {"choice": "MET", "explanation": ""},
                        "No": {"choice": "UNMET", "explanation": ""},
                        "Maybe": {"choice": "N/A", "explanation": ""},
                        "Oops": ValueError("no"),
                    }.items()
                    if word in user
                )
            )
        )
        rubric = Rubric([Criterion(requirement="Is so", weight=-1, allow_na=True)], judge=grader)
        texts = ["Yes", "Yes", "No", "Maybe", "Oops"]
        reports = await rubric.score([make_rollout(completion=text) for text in texts])
        criterion = summarize(Row(str(n), report=r) for n, r in enumerate(reports)).criteria[
            "is_so"
        ]
        assert (criterion.met, criterion.unmet) == (2, 1)
        assert (criterion.not_applicable, criterion.errors) == (1, 1)
        assert (criterion.weight, criterion.value.count) == (-1.0, 3)
        assert criterion.value.mean == pytest.approx(2 / 3)

    async def test_a_metric_that_fails_leaves_the_rollout_scored(self):
        """The error is still counted."""
        rubric = Rubric([lambda: 1.0, Criterion(check=lambda: None, weight=0, name="m")])
        [report] = await rubric.score([{}])
        summary = summarize([Row("0", report=report)])
        assert (summary.scored, summary.errors) == (1, {"ValueError": 1})


async def test_a_verdict_in_an_unscored_rollout_counts_for_its_criterion():
    rubric = Rubric(
        [Criterion(check=lambda: 1.0, name="a"), Criterion(check=lambda: None, name="b")]
    )
    [report] = await rubric.score([{}])
    summary = summarize([Row("0", report=report)])
    assert (summary.criteria["a"].met, summary.score.count) == (1, 0)


async def test_tags_and_tasks_have_their_own_means():
    """Facts 1 and 0.5, style 0 and 1; two tasks of one rollout each."""
    rubric = Rubric(
        [
            Criterion(check=lambda fact: fact, tags=["facts"]),
            Criterion(check=lambda style: style, tags=["style"]),
        ]
    )
    fields = [{"fact": 1.0, "style": 0.0, "task": "a"}, {"fact": 0.5, "style": 1.0, "task": "b"}]
    reports = await rubric.score(fields)
    pairs = zip(fields, reports, strict=True)
    summary = summarize(Row(f["task"], fields=f, report=r) for f, r in pairs)
    assert {tag: estimate.mean for tag, estimate in summary.tags.items()} == {
        "facts": 0.75,
        "style": 0.5,
    }
    assert {name: task.score.mean for name, task in summary.tasks.items()} == {"a": 0.5, "b": 0.75}
    assert summary.tasks["a"].rollouts == 1


class TestPasses:
    async def test_pass_at_k_and_pass_hat_k(self):
        """a: 1 of 4; b: 3 of 4.

        pass@1 (1/4+3/4)/2; pass@2 (1−C(3,2)/6 + 1−0)/2 = 0.75; pass@4 1.
        pass^2 (0 + C(3,2)/6)/2 = 0.25; pass^4 0.
        """
        rows = await rows_of([1, 0, 0, 0, 1, 1, 1, 0], names="aaaabbbb")
        passes = summarize(rows).passes
        assert {k: (r.any, r.all) for k, r in passes.items()} == {
            1: (0.5, 0.5),
            2: (0.75, 0.25),
            4: (1.0, 0.0),
        }

    async def test_only_examples_with_enough_rollouts_count(self):
        """b has one scored rollout, so it counts only for pass@1."""
        rows = await rows_of([1, 0, 1, None], names="aabb")
        passes = summarize(rows).passes
        assert (passes[1].examples, passes[2].examples) == (2, 1)
        assert passes[1].any == pytest.approx((0.5 + 1.0) / 2)

    async def test_the_success_threshold_can_be_set(self):
        """With a threshold of 0.5 both rollouts succeed."""
        rows = await rows_of([0.5, 1.0])
        assert summarize(rows).passes[1].any == 0.5
        assert summarize(rows, threshold=0.5).passes[1].any == 1.0


def test_spending_is_summed_and_an_unknown_price_is_not_zero():
    rows = [
        Row("0", spent=Spending(calls=2, prompt=100, completion=10, cost=0.5)),
        Row("1", spent=Spending(calls=1, hits=3, prompt=50, unpriced=1)),
    ]
    spent = summarize(rows).spent
    assert spent == Spending(calls=3, hits=3, prompt=150, completion=10, cost=0.5, unpriced=1)
    assert spent.tokens == 160
    assert Spending(calls=1, unpriced=1).cost is None


async def test_a_summary_survives_json_unchanged():
    rows = [
        *await rows_of([True, False, None, 0.5], names="aabb", tags=["t"]),
        Row("9", error="X: y"),
    ]
    rows.append(Row("c", spent=Spending(calls=1, unpriced=1), timing={"scoring": 1.5}))
    summary = summarize(rows)
    assert Summary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary


async def test_a_check_that_returns_a_score_object_counts_like_a_number():
    rubric = Rubric([lambda: Score(1.0, reason="so")])
    [report] = await rubric.score([{}])
    assert summarize([Row("0", report=report)]).criteria["check_1"].met == 1


async def test_pass_rates_are_counted_for_each_task():
    """Two rollouts each of four examples in two tasks, with interleaved rows."""
    names = ["a", "b", "c", "d"] * 2
    rows = [
        Row(
            row.example,
            row.sample,
            {"task": "sums" if row.example in "ab" else "words"},
            row.report,
        )
        for row in await rows_of([1, 1, 0, 1, 1, 0, 0, 0], names=names)
    ]
    summary = summarize(rows)
    assert (summary.passes[1].any, summary.passes[2].all) == (0.5, 0.25)
    sums, words = summary.tasks["sums"].passes, summary.tasks["words"].passes
    assert (sums[1].any, sums[2].any, sums[2].all) == (0.75, 1.0, 0.5)
    assert (words[1].any, words[2].any, words[2].all) == (0.25, 0.5, 0.0)
    assert "2, task sums" in str(summary)
    assert Summary.from_dict(summary.to_dict()).tasks["words"].passes == words


async def test_the_table_shows_how_often_a_fault_happened():
    summary = summarize(await rows_of([1, 0, 0], weight=-1))
    assert "1 happened" in str(summary)
    assert "2 avoided" in str(summary)
    assert str(summary).endswith("happened is bad, avoided is good")
    assert '<td class="bad">1 happened</td>' in summary._repr_html_()
    assert (summary.criteria["v"].met, summary.criteria["v"].unmet) == (1, 2)


def test_of_many_criteria_the_table_shows_those_that_cost_most():
    """The ten criteria that cost the most points, and the number of the others."""
    rows = []
    for number in range(100):
        check = {"contains": "a" if number % 10 else "b"}
        row_rubric = [{"name": f"own_{number}", "check": check, "weight": 1 + number}]
        rows.append(
            Row(
                str(number),
                fields={"completion": "a", "rubric": row_rubric},
                report=Rubric.from_dict(row_rubric).grade_sync("a"),
            )
        )
    summary = summarize(rows)
    assert len(summary.criteria) == 100
    criteria = next(s for s in summary.sections() if s.columns[0] == "criterion")
    names = [row[0] for row in criteria.rows]
    assert names[:-1] == [f"own_{number}" for number in range(90, -1, -10)]
    assert names[-1] == "and 90 that cost fewer points"


async def test_tasks_are_in_input_order_whichever_row_finishes_first():
    rows = await rows_of([1, 1, 1])
    rows = [
        replace(row, number=number, fields={"task": task})
        for number, (row, task) in enumerate(zip(rows, ("sums", "facts", "support"), strict=True))
    ]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        summary = summarize(rows[number] for number in order)
        assert list(summary.tasks) == ["sums", "facts", "support"]
    merged = Tally().add_all(rows[2:])
    merged.merge(Tally().add_all(rows[:2]))
    assert list(merged.summary().tasks) == ["sums", "facts", "support"]
