"""What the verdicts of a run tell about a rubric."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from assay import Rubric
from assay.lint import lint
from assay.lint.run_rules import clustered_rank_correlation, correlation, mid_ranks, separation
from assay.runs import RunError


def rubric_of(count, **fields):
    return Rubric.from_dict(
        [{"requirement": f"Names author {n}", "name": f"c{n}", **fields} for n in range(count)]
    )


def verdict(yes):
    return "MET" if yes else "UNMET"


def run_of(make_run, rubric, said, count=60, **row):
    """A run of so many examples; `said` gives the verdicts of each."""
    rows = [
        {"example": n, "answers": {c: verdict(v) for c, v in said(n).items()}} for n in range(count)
    ]
    for n, each in enumerate(rows):
        each.update({key: give(n) for key, give in row.items()})
    return make_run("run", rubric, rows)


def found(rubric, run):
    return [(f.id, f.criterion, f.severity) for f in lint(rubric, run=run)]


class TestConstant:
    def test_a_verdict_that_is_always_the_same_is_found(self, make_run):
        """With what the number of examples leaves open: 3 / 60 is 5 %."""
        rubric = rubric_of(2)
        run = run_of(make_run, rubric, lambda n: {"c0": True, "c1": n % 2})
        (finding,) = lint(rubric, run=run)
        assert (finding.id, finding.criterion) == ("R101", "c0")
        assert "all 60 examples have the verdict MET; at most 5 % of responses" in finding.message

    def test_a_fault_that_never_occurs_is_worth_a_note(self, make_run):
        """It may be a guard."""
        rubric = Rubric.from_dict(
            [
                {"requirement": "Mentions a rival", "name": "c0", "weight": -1},
                {"requirement": "Names the author", "name": "c1"},
            ]
        )
        run = run_of(make_run, rubric, lambda n: {"c0": False, "c1": n % 2})
        assert found(rubric, run) == [("R101", "c0", "note")]

    def test_too_few_examples_say_so_and_nothing_else(self, make_run):
        """29 are one too few."""
        rubric = rubric_of(1)
        run = run_of(make_run, rubric, lambda n: {"c0": True}, count=29)
        (finding,) = lint(rubric, run=run)
        assert (finding.id, finding.severity, finding.criterion) == ("R100", "note", "")
        assert finding.message == ("the run has 29 examples, and R101, R102, R103 and R105 need 30")

    def test_repeats_of_one_example_are_one_example(self, make_run):
        """60 rows of 20 examples are too few."""
        rubric = rubric_of(1)
        rows = [{"example": n % 20, "sample": n // 20, "answers": {"c0": "MET"}} for n in range(60)]
        assert [f.id for f in lint(rubric, run=make_run("run", rubric, rows))] == ["R100"]

    def test_rows_without_an_answer_do_not_count(self, make_run):
        """Errors and N/A are no verdicts: c0 has 20 of them, and nothing is said of it."""
        rubric = rubric_of(2, allow_na=True)
        rows = [
            (
                n,
                {
                    "c0": "MET" if n < 20 else "N/A" if n < 40 else ValueError("no"),
                    "c1": verdict(n % 2),
                },
            )
            for n in range(60)
        ]
        assert lint(rubric, run=make_run("run", rubric, rows)) == []


class TestPointless:
    def said(self, n):
        """c0 to c4 are met together, on half of the examples; c5 has nothing to do with them."""
        return {**{f"c{k}": n % 2 and n % (k + 3) for k in range(5)}, "c5": n // 2 % 2}

    def test_a_verdict_that_tells_nothing_is_worth_a_note(self, make_run):
        """Half of either half: the separation is 0.5."""
        rubric = rubric_of(6)
        run = run_of(make_run, rubric, self.said, count=600)
        assert ("R102", "c5", "note") in found(rubric, run)

    def test_a_verdict_against_the_rest_is_a_warning(self, make_run):
        """Its weight may have the wrong sign."""
        rubric = rubric_of(6)
        run = run_of(make_run, rubric, lambda n: {**self.said(n), "c5": not n % 2}, count=200)
        assert ("R102", "c5", "warning") in found(rubric, run)

    def test_a_fault_is_bad_news(self, make_run):
        """One that goes with the good responses is against the rest; one that does not is with it."""
        criteria = [{"requirement": f"Names author {n}", "name": f"c{n}"} for n in range(6)]
        rubric = Rubric.from_dict([*criteria[:5], {**criteria[5], "weight": -2}])
        with_good = run_of(make_run, rubric, lambda n: {**self.said(n), "c5": n % 2}, count=200)
        assert ("R102", "c5", "warning") in found(rubric, with_good)

    def test_a_few_criteria_make_no_rest(self, make_run):
        """Of four, one may well be a matter of its own."""
        rubric = rubric_of(4)
        run = run_of(make_run, rubric, lambda n: {f"c{k}": n >> k & 1 for k in range(4)}, count=160)
        assert found(rubric, run) == []


class TestRedundant:
    def test_verdicts_that_are_anothers_are_found(self, make_run):
        """Told at the second, with correlation and interval."""
        rubric = rubric_of(3)
        run = run_of(make_run, rubric, lambda n: {"c0": n % 2, "c1": n % 3, "c2": n % 2})
        (finding,) = lint(rubric, run=run)
        assert (finding.id, finding.criterion) == ("R103", "c2")
        assert finding.message.startswith("it has the same verdicts as 'c0' (correlation 1.00 [0.9")

    def test_so_is_the_mirror_image(self, make_run):
        """What one meets the other does not."""
        rubric = rubric_of(2)
        run = run_of(make_run, rubric, lambda n: {"c0": n % 2, "c1": not n % 2})
        (finding,) = lint(rubric, run=run)
        assert "the opposite verdicts of 'c0'" in finding.message

    def test_criteria_that_are_never_asked_together_are_not_compared(self, make_run):
        """Their conditions exclude each other, so that no row has both verdicts."""
        rubric = rubric_of(2, allow_na=True)
        rows = [
            (
                n,
                {"c0": verdict(n % 4 == 1), "c1": "N/A"}
                if n % 2
                else {"c0": "N/A", "c1": verdict(n % 4)},
            )
            for n in range(120)
        ]
        run = make_run("run", rubric, rows)
        assert found(rubric, run) == []

    def test_four_rare_verdicts_prove_nothing(self, make_run):
        """Five of the rarer verdict are needed."""
        rubric = rubric_of(2)
        four = run_of(make_run, rubric, lambda n: {"c0": n < 4, "c1": n < 4})
        assert found(rubric, four) == []


class TestUnstable:
    def run(self, make_run, flips, texts=20):
        """Every text is judged twice; the first few get another verdict the second time."""
        rubric = rubric_of(1)
        rows = [
            {
                "example": n,
                "sample": sample,
                "completion": f"text {n}",
                "answers": {"c0": verdict(n % 2 if not sample or n >= flips else not n % 2)},
            }
            for n in range(texts)
            for sample in range(2)
        ]
        return rubric, make_run("run", rubric, rows)

    def test_another_verdict_on_the_same_text_is_found(self, make_run):
        """5 of 20 change, and no fewer than 11 % would in the long run."""
        rubric, run = self.run(make_run, flips=5)
        finding = next(f for f in lint(rubric, run=run) if f.id == "R104")
        assert (
            "5 of 20 texts that were judged again got another verdict (share 0.25 [0.11, 0.47])"
            in (finding.message)
        )

    def test_one_change_in_twenty_may_be_chance(self, make_run):
        """Its interval reaches down to 1 %."""
        rubric, run = self.run(make_run, flips=1)
        assert "R104" not in [f.id for f in lint(rubric, run=run)]

    def test_nine_texts_are_too_few(self, make_run):
        """Even if all of them change."""
        rubric, run = self.run(make_run, flips=9, texts=9)
        assert [f.id for f in lint(rubric, run=run)] == ["R100"]


class TestLength:
    def test_verdicts_that_follow_length_are_found(self, make_run):
        """Met exactly when the text is among the longer half."""
        rubric = rubric_of(1)
        run = run_of(
            make_run, rubric, lambda n: {"c0": n >= 30}, completion=lambda n: "x" * (n + 1)
        )
        (finding,) = lint(rubric, run=run)
        assert finding.id == "R105"
        assert "the longer a response, the more it is met" in finding.message

    def test_reasoning_is_no_part_of_the_length(self, make_run):
        """Judges do not read it."""
        rubric = rubric_of(1)
        run = run_of(
            make_run,
            rubric,
            lambda n: {"c0": n >= 30},
            completion=lambda n: f"<think>{'x' * n}</think>{n:03}",
        )
        assert lint(rubric, run=run) == []

    def test_what_code_checks_may_follow_length(self, make_run):
        """A limit of words does nothing else."""
        rubric = Rubric.from_dict([{"check": {"max_words": 30}, "name": "c0"}])
        rows = [
            {"example": n, "answers": {"c0": float(n < 30)}, "completion": "x" * (n + 1)}
            for n in range(60)
        ]
        assert lint(rubric, run=make_run("run", rubric, rows)) == []


class TestRuns:
    def test_a_criterion_in_other_words_is_left_out(self, make_run):
        """Its verdicts were about another question."""
        run = run_of(make_run, rubric_of(2), lambda n: {"c0": True, "c1": True})
        now = Rubric.from_dict(
            [
                {"requirement": "Names author 0", "name": "c0", "weight": 5},
                {"requirement": "Names the publisher", "name": "c1"},
            ]
        )
        assert [(f.id, f.criterion) for f in lint(now, run=run)] == [("R101", "c0")]

    def test_a_run_of_another_rubric_is_refused(self, make_run):
        """With what to do."""
        run = run_of(make_run, rubric_of(1), lambda n: {"c0": True})
        with pytest.raises(RunError, match="name a run of this rubric, or score the run again"):
            lint(Rubric.from_dict([{"requirement": "Names the publisher"}]), run=run)

    def test_a_run_may_be_named_by_its_folder(self, make_run):
        """As the command does."""
        rubric = rubric_of(1)
        run = run_of(make_run, rubric, lambda n: {"c0": True})
        assert [f.id for f in lint(rubric, run=run.path)] == ["R101"]

    def test_findings_of_a_run_can_be_ignored_in_the_file(self, make_run, tmp_path):
        """By a comment, as any other."""
        path = tmp_path / "a.yaml"
        path.write_text("# assay: ignore R101\n- requirement: Names author 0\n  name: c0\n")
        run = run_of(make_run, rubric_of(1), lambda n: {"c0": True})
        assert lint(path, run=run) == []

    def test_a_run_with_nothing_scored_tells_nothing(self, make_run):
        """Its rows are all errors."""
        rubric = rubric_of(1)
        rows = [{"example": n, "error": "ModelError: no"} for n in range(40)]
        assert lint(rubric, run=make_run("run", rubric, rows)) == []


class TestAssociation:
    """Against scipy and scikit-learn, and by hand."""

    def test_ranks_are_shared(self):
        """10 20 20 30 have the ranks 1, 2.5, 2.5 and 4."""
        assert mid_ranks(np.array([20.0, 10, 30, 20])).tolist() == [2.5, 1, 4, 2.5]

    def test_rank_correlation_is_spearmans(self):
        """Ties and all."""
        generator = np.random.default_rng(1)
        one = generator.integers(0, 5, 200).astype(float)
        two = one + generator.normal(size=200)
        found = clustered_rank_correlation(one, two, np.arange(200.0))
        assert found.value == pytest.approx(spearmanr(one, two).statistic)
        assert found.low < found.value < found.high

    def test_separation_is_the_area_under_the_curve(self):
        """Ties count half."""
        generator = np.random.default_rng(2)
        values = generator.integers(0, 9, 300).astype(float)
        high = generator.random(300) < 0.3
        found = separation(values, high, np.arange(300.0))
        assert found.value == pytest.approx(roc_auc_score(high, values))

    def test_copies_of_an_example_add_no_certainty(self):
        """Twice the rows of the same examples give the same interval."""
        generator = np.random.default_rng(3)
        values, high = generator.random(100), generator.random(100) < 0.5
        examples = np.arange(100.0)
        once = separation(values, high, examples)
        twice = separation(np.tile(values, 2), np.tile(high, 2), np.tile(examples, 2))
        assert (twice.low, twice.high) == pytest.approx((once.low, once.high))
        one, two = values, values + generator.random(100)
        once = clustered_rank_correlation(one, two, examples)
        twice = clustered_rank_correlation(np.tile(one, 2), np.tile(two, 2), np.tile(examples, 2))
        assert (twice.low, twice.high) == pytest.approx((once.low, once.high), abs=1e-3)

    def test_perfect_agreement_is_not_certain(self):
        """Of 30 examples: tanh(artanh(29/30) - 1.96 / sqrt(27)) is 0.93."""
        half = np.repeat([0.0, 1.0], 15)
        found = correlation(half, half, np.arange(30.0))
        assert found.value == pytest.approx(1)
        assert found.low == pytest.approx(0.9305, abs=1e-3)

    @pytest.mark.slow
    def test_intervals_cover(self):
        """Nine times of ten and more, over repeats that resemble each other."""
        generator = np.random.default_rng(4)
        examples = np.repeat(np.arange(80.0), 3)
        covered = {"separation": 0, "rank": 0}
        for _ in range(400):
            base = np.repeat(generator.normal(size=80), 3)
            values = base + generator.normal(size=240)
            other = np.repeat(generator.normal(size=80), 3) + generator.normal(size=240)
            area = separation(values, other > 0, examples)
            rank = clustered_rank_correlation(values, other, examples)
            covered["separation"] += area.low <= 0.5 <= area.high
            covered["rank"] += rank.low <= 0 <= rank.high
        assert all(0.90 <= count / 400 <= 0.99 for count in covered.values()), covered
