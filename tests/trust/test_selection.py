"""Labelled rollouts that were selected, and not drawn at random, are found."""

import random

import numpy as np
import pytest
from scipy import stats

from assay.cli import main
from assay.trust import Label, agree, correct, corrected_mean
from assay.trust.bias import Observed, standardise_by_verdict
from assay.trust.selection import Sample

RUBRIC = [{"requirement": "Is polite", "weight": 3}, {"requirement": "Is short", "weight": 1}]


def verdict(yes):
    return "MET" if yes else "UNMET"


def is_polite(number):
    """Two of five rollouts, spread over the run."""
    return number % 5 in (0, 2)


@pytest.fixture
def run(make_run):
    """120 rollouts; every second one is short."""
    rows = [
        (f"mail-{n}", {"is_polite": verdict(is_polite(n)), "is_short": verdict(n % 2)})
        for n in range(120)
    ]
    return make_run("run", RUBRIC, rows)


def label_all(numbers, criterion="is_polite"):
    """People disagree with the judge on every fourth of these rollouts."""
    return [
        Label(f"mail-{n}", criterion, verdict(is_polite(n) != (place % 4 == 0)))
        for place, n in enumerate(numbers)
    ]


MET = [n for n in range(120) if is_polite(n)]
UNMET = [n for n in range(120) if not is_polite(n)]


def ways(found):
    return [selection.by for selection in found.selection]


class TestAgreement:
    def test_labels_on_one_verdict_alone_are_found(self, run):
        """What follows from the selection alone has no value: kappa would be 0, recall 1."""
        found = agree(run, label_all(MET[::2]))
        selection = next(each for each in found.selection if each.by == "verdict")
        assert selection.criterion == "is_polite"
        assert selection.p < 0.001
        assert "100% of the labelled rollouts MET, and 25% of the others" in selection.observation
        assert selection.unlabelled_verdicts == ("UNMET",)
        assert "precision" in selection.valid
        assert "kappa" in selection.invalid
        assert "UNMET" in selection.invalid
        [polite] = found.criteria
        for measures in (polite.judge, found.overall.judge):
            for figure in (measures.kappa, measures.recall, measures.nominal_alpha):
                assert figure.value is None
                assert figure.reason == "no rollout that the judge called UNMET was labelled"
            assert measures.precision.value == 0.75

    def test_more_labels_on_one_verdict_are_found(self, run):
        """Kappa is that of the labelled rollouts, so it stays, with a warning."""
        found = agree(run, label_all([*MET[::2], *UNMET[::9]]))
        assert "verdict" in ways(found)
        assert found.criteria[0].judge.kappa.value is not None

    def test_labels_drawn_at_random_are_not_suspected(self, run):
        generator = random.Random(1)
        for _ in range(20):
            found = agree(run, label_all(generator.sample(range(120), 40)))
            assert found.selection == ()
            assert (found.rollouts, found.labelled_rollouts) == (120, 40)

    @pytest.mark.parametrize(
        ("numbers", "place"),
        [
            (range(40), "rollouts 11 to 30 of 120"),
            (range(80, 120), "rollouts 91 to 110 of 120"),
            (range(40, 80), "rollouts 51 to 70 of 120"),
        ],
    )
    def test_labels_on_one_part_of_the_run_are_found(self, run, numbers, place):
        """The first, the last or a part in between; the verdicts are those of the run."""
        found = agree(run, label_all(numbers))
        assert ways(found) == ["order"]
        assert place in found.selection[0].observation

    def test_labels_on_high_scores_are_found(self, run):
        """The labelled criterion is met as often as in the run: the score is that of another one."""
        numbers = [n for n in MET if n % 2][:15] + [n for n in MET if not n % 2][:15]
        numbers = sorted(numbers, key=lambda n: n * 7919 % 120)
        found = agree(run, label_all(numbers, "is_short"))
        assert "score" in ways(found)
        assert "verdict" not in ways(found)

    def test_nothing_is_selected_if_everything_is_labelled(self, run):
        assert agree(run, label_all(range(120))).selection == ()

    def test_rollouts_of_one_example_are_drawn_together(self, make_run):
        """Of 12 examples of 8 rollouts, half are met; all rollouts of three of those are labelled.

        Chance does that in 2 · 20 of 220 draws of three examples. As 24 independent rollouts they
        would not be chance.
        """
        rows = [
            {"example": f"e{n}", "sample": sample, "answers": {"is_polite": verdict(n % 2)}}
            for n in range(12)
            for sample in range(8)
        ]
        run = make_run("examples", RUBRIC[:1], rows)
        labels = [
            Label(f"e{n}", "is_polite", "MET", sample=sample)
            for n in (1, 5, 11)
            for sample in range(8)
        ]
        assert agree(run, labels).selection == ()
        assert "verdict" in ways(agree(run, [label for label in labels if label.sample < 7]))


class TestTests:
    def test_verdicts_are_compared_exactly(self):
        """Of 5 met and 5 unmet, 4 met are labelled: 5 of 210 draws, and as many of 4 unmet."""
        labelled = np.arange(10) < 4
        values = (np.arange(10) < 5).astype(float)
        p = Sample.from_arrays(np.arange(10), labelled).compare_categories(values)
        assert p == pytest.approx(10 / 210, abs=0.007)

    def test_values_are_compared_by_kolmogorov_and_smirnov(self):
        generator = np.random.default_rng(3)
        values = generator.random(200)
        labelled = generator.random(200) < values
        theirs = stats.ks_2samp(values[labelled], values[~labelled], method="asymp")
        ours = Sample.from_arrays(np.arange(200), labelled).compare_values(values)
        statistic = theirs.statistic * (labelled.sum() * (~labelled).sum() / 200) ** 0.5
        assert ours == pytest.approx(float(stats.kstwobign.sf(statistic)))

    @pytest.mark.slow
    @pytest.mark.parametrize(("examples", "samples", "drawn"), [(40, 1, 10), (50, 4, 15)])
    def test_random_samples_are_rarely_suspected(self, examples, samples, drawn):
        """At most 5 times in 100 below a p-value of 5 %, of 400 runs of examples that are alike."""
        generator = np.random.default_rng(4)
        alarms = np.zeros(2)
        numbers = np.repeat(np.arange(examples), samples)
        for _ in range(400):
            rate = np.where(generator.random(examples) < 0.5, 0.9, 0.1)[numbers]
            values = (generator.random(len(numbers)) < rate).astype(float)
            chosen = generator.choice(examples, drawn, replace=False)
            sample = Sample.from_arrays(numbers, np.isin(numbers, chosen))
            order = np.arange(len(numbers), dtype=float)
            alarms += [
                sample.compare_categories(values) < 0.05,
                sample.compare_values(order) < 0.05,
            ]
        assert (alarms / 400 <= 0.06).all()


class TestCorrection:
    def test_each_verdict_is_corrected_for_itself(self):
        """100 of 400 are met by the judge, 15 of 20 of them by people; of the others, 5 of 20.

        1/4 · 15/20 + 3/4 · 5/20 = 0.375. Sensitivity would be 0.75, which it is not in the run.
        """
        judge = [1.0] * 100 + [0.0] * 300
        people = [1.0] * 15 + [0.0] * 5 + [None] * 80 + [1.0] * 5 + [0.0] * 15 + [None] * 280
        found = corrected_mean("polite", judge, people)
        assert list(found.corrected) == ["by_verdict"]
        assert found.best.value == pytest.approx(0.375)
        assert found.best.low < 0.375 < found.best.high
        assert "for each verdict by itself" in found.warning
        assert found.sensitivity.value is None
        assert "selected by the judge's verdict" in found.specificity.reason

    def test_a_verdict_without_labels_is_refused(self, run):
        """The judge is not blamed for it, and the advice is to label the other verdict."""
        polite = correct(run, label_all(MET[:40])).criteria[0]
        assert polite.corrected == {}
        assert "100% of the labelled rollouts MET" in polite.refusal
        assert "label 10 more of these" in polite.refusal
        assert "chance" not in polite.refusal

    def test_numbers_that_were_selected_are_refused(self):
        """There are no verdicts to take by themselves."""
        judge = [n / 200 for n in range(200)]
        people = [None] * 150 + [n / 200 for n in range(150, 200)]
        found = corrected_mean("score", judge, people)
        assert found.corrected == {}
        assert "0.87 for the labelled rollouts, and 0.37 for the others" in found.refusal

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("prevalence", "sensitivity", "specificity", "met", "unmet"),
        [(0.3, 0.9, 0.75, 50, 50), (0.5, 0.7, 0.9, 80, 20), (0.1, 0.8, 0.8, 25, 25)],
    )
    def test_the_truth_lies_inside_90_to_99_times_in_100(
        self, prevalence, sensitivity, specificity, met, unmet
    ):
        """Of 400 runs of 600 rollouts with so many labels of each verdict."""
        generator = np.random.default_rng(9)
        held = 0
        for _ in range(400):
            people = generator.random(600) < prevalence
            rate = np.where(people, sensitivity, 1 - specificity)
            judge = (generator.random(600) < rate).astype(float)
            known = np.full(600, np.nan)
            for value, count in ((1.0, met), (0.0, unmet)):
                chosen = generator.permutation(np.flatnonzero(judge == value))[:count]
                known[chosen] = people[chosen]
            found = standardise_by_verdict(Observed(judge, known, np.arange(600.0)))
            held += found.low <= prevalence <= found.high
        assert 0.90 <= held / 400 <= 0.99

    @pytest.mark.parametrize(
        ("examples", "labelled", "words"),
        [
            (60, 7, "label 23 more, drawn at random"),
            (24, 7, "the run has only 17 more"),
            (24, 24, "every example is labelled, so the labels alone are the result"),
        ],
    )
    def test_no_more_labels_are_asked_for_than_there_are_rollouts(self, examples, labelled, words):
        judge = [1.0, 0.0] * (examples // 2)
        people = [1.0, 0.0, 1.0, 0.0] * 6
        people = [*people[:labelled], *[None] * (examples - labelled)]
        refusal = corrected_mean("polite", judge, people).refusal
        assert words in refusal
        assert ("23" in refusal) == (examples == 60)

    def test_equal_labels_on_every_rollout_ask_for_no_more(self):
        refusal = corrected_mean("polite", [1.0, 0.0] * 20, [1.0] * 40).refusal
        assert "all labels say met" in refusal
        assert "label more" not in refusal
        assert "the labels alone are the result" in refusal


class TestCommands:
    @pytest.fixture
    def write(self, tmp_path):
        def write_labels(numbers):
            path = tmp_path / "labels.csv"
            rows = [
                f"{label.example},{label.criterion},{label.verdict}" for label in label_all(numbers)
            ]
            path.write_text("\n".join(["example,criterion,verdict", *rows]))
            return str(path)

        return write_labels

    def test_agree_says_what_can_be_concluded(self, run, write, capsys):
        assert main(["agree", str(run.path), write(MET[::2])]) == 0
        out = capsys.readouterr().out
        kappa = next(line for line in out.splitlines() if line.startswith("Cohen's kappa"))
        assert "0.00" not in kappa
        assert "is_polite: the labelled rollouts are not a random sample by verdict" in out
        assert "  can be concluded: precision" in out
        assert "  cannot be concluded: same verdict, macro-F1, kappa" in out

    @pytest.mark.parametrize("command", ["agree", "correct"])
    def test_a_random_sample_is_said_to_be_needed(self, run, write, capsys, command):
        numbers = random.Random(1).sample(range(120), 40)
        assert main([command, str(run.path), write(numbers)]) == 0
        assert "if the labelled rollouts were drawn at random" in capsys.readouterr().out
        assert main([command, str(run.path), write(range(120))]) == 0
        assert "drawn at random" not in capsys.readouterr().out

    def test_correct_names_the_part_of_the_run_that_was_labelled(self, run, write, capsys):
        assert main(["correct", str(run.path), write(range(40))]) == 0
        assert "rollouts 11 to 30 of 120" in capsys.readouterr().out
