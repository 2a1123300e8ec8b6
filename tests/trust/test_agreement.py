"""A judge against people, and people against each other."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score

from assay import Panel, PerCriterionGrader, Rubric, Score
from assay.testing import FakeModel
from assay.trust import (
    Joined,
    Label,
    LabelledItem,
    Question,
    TrustError,
    agree,
    agreement_of,
    krippendorff_alpha,
)
from assay.trust.agreement import consensus

POLITE = {"polite": Question("polite")}


def items(rows, name="polite"):
    """Items of (people by rater, judge), each on an example of its own."""
    return tuple(
        LabelledItem(str(number), 0, name, people, judge, None if judge else "Timeout: no reply")
        for number, (people, judge) in enumerate(rows)
    )


def said(text):
    """`M` for MET, `U` for UNMET, `N` for N/A, `-` for nothing."""
    words = {"M": "MET", "U": "UNMET", "N": "N/A"}
    return [words.get(letter) for letter in text]


def by_raters(judge, **raters):
    """Items from a text a rater."""
    columns = {name: said(text) for name, text in raters.items()}
    rows = []
    for place, answer in enumerate(said(judge)):
        people = {name: column[place] for name, column in columns.items() if column[place]}
        rows.append((people, answer))
    return items(rows)


class TestTheJudge:
    def test_one_rater_gives_the_plain_figures(self):
        """8 of 10 agree; MET is right 4 of 5 times and found 4 of 5 times."""
        found = agreement_of(Joined(by_raters("MMMMMUUUUU", ann="MMMMUMUUUU"), POLITE))
        judge = found.criteria[0].judge
        assert judge.accuracy.value == 0.8
        assert (judge.precision.value, judge.recall.value) == (0.8, 0.8)
        assert judge.kappa.value == pytest.approx(0.6)
        assert judge.confusion.counts == ((4, 1), (1, 4))
        assert judge.bias.value == 0.0

    def test_each_of_several_raters_is_a_pair(self):
        """The judge agrees with ann on 3 of 3, with bob on 1 of 2."""
        found = agreement_of(Joined(by_raters("MUM", ann="MUM", bob="UU-"), POLITE))
        assert (found.overall.judge.pairs, found.overall.judge.accuracy.value) == (5, 0.8)

    def test_against_the_majority_a_tie_is_left_out_and_counted(self):
        """MET by most, UNMET by most, and one against one."""
        rows = by_raters("MMU", ann="MUM", bob="MUU", cy="UU-")
        found = agreement_of(Joined(rows, POLITE), reference="majority")
        assert (found.overall.judge.pairs, found.overall.ties) == (2, 1)
        assert found.overall.judge.accuracy.value == 0.5

    def test_errors_of_the_judge_are_counted_apart(self):
        """Neither as disagreement nor as nothing."""
        found = agreement_of(Joined(by_raters("M-U", ann="MMU"), POLITE))
        [polite] = found.criteria
        assert (polite.labelled, polite.unanswered, polite.judge.pairs) == (3, 1, 2)
        assert polite.judge.accuracy.value == 1.0
        assert found.errors == {"Timeout: no reply": 1}

    def test_one_class_only_has_accuracy_and_no_kappa(self):
        """With a reason, and never 0 or NaN, also in JSON."""
        found = agreement_of(Joined(by_raters("MMM", ann="MMM"), POLITE))
        judge = found.overall.judge
        assert judge.accuracy.value == 1.0
        assert judge.accuracy.low == pytest.approx(3 / (3 + 1.959964**2))
        for name in ("kappa", "matthews", "nominal_alpha", "linear_kappa"):
            assert getattr(judge, name).value is None
            assert getattr(judge, name).reason
        assert "NaN" not in json.dumps(found.to_dict(), allow_nan=False)

    def test_not_applicable_is_a_verdict_without_a_rank(self):
        """It is in the table and in kappa; weighted kappa and bias leave it out."""
        found = agreement_of(Joined(by_raters("MNUMN", ann="MNUNU"), POLITE))
        judge = found.overall.judge
        assert judge.confusion.categories == ("UNMET", "MET", "N/A")
        assert judge.accuracy.value == 0.6
        assert judge.linear_kappa.value == 1.0
        assert judge.bias.value == 0.0

    def test_the_bias_of_choices_is_measured_between_0_and_1(self):
        """Of three choices each is worth 0.5 more than the one before, of five 0.25; 2 of 4 verdicts are a rank higher."""
        three = {"polite": Question("polite", ("rude", "neutral", "polite"))}
        verdicts = [
            ("rude", "neutral"),
            ("neutral", "polite"),
            ("rude", "rude"),
            ("polite", "polite"),
        ]
        rows = [({"ann": person}, judge) for person, judge in verdicts]
        assert agreement_of(Joined(items(rows), three)).criteria[0].judge.bias.value == 0.25
        five = {"polite": Question("polite", ("1", "2", "3", "4", "5"))}
        rows = [
            ({"ann": person}, judge) for person, judge in [("1", "2"), ("4", "3"), ("1", "5")] * 2
        ]
        bias = agreement_of(Joined(items(rows), five)).criteria[0].judge.bias
        assert bias.value == pytest.approx((0.25 - 0.25 + 1) / 3)

    def test_numbers_have_a_bias_and_an_alpha(self):
        """0.1 too high on average; what needs choices says so."""
        rows = [({"ann": 0.2}, 0.4), ({"ann": 0.8}, 0.9), ({"ann": 0.5}, 0.5)]
        found = agreement_of(Joined(items(rows, "alike"), {"alike": Question("alike", ())}))
        judge = found.criteria[0].judge
        assert judge.bias.value == pytest.approx(0.1)
        units = [[0.2, 0.4], [0.8, 0.9], [0.5, 0.5]]
        alpha = krippendorff_alpha(units, "interval").value
        assert judge.interval_alpha.value == pytest.approx(alpha)
        assert judge.kappa.reason == "the answers are numbers, and not choices"
        assert found.overall.judge.pairs == 0


class TestThePeople:
    def test_two_raters_have_cohens_kappa_and_their_own_alpha(self):
        """As scikit-learn has it."""
        ann, bob = "MMUUMUMMUU", "MUUUMUMMMU"
        found = agreement_of(Joined(by_raters("M" * 10, ann=ann, bob=bob), POLITE)).overall.people
        assert found.accuracy.value == pytest.approx(accuracy_score(list(ann), list(bob)))
        assert found.kappa.value == pytest.approx(cohen_kappa_score(list(ann), list(bob)))
        alpha = krippendorff_alpha(list(zip(ann, bob, strict=True))).value
        assert found.nominal_alpha.value == pytest.approx(alpha)

    def test_precision_and_recall_do_not_depend_on_who_sits_where(self):
        """One rater against another: both ways round they are the same."""
        found = agreement_of(Joined(by_raters("MMMM", ann="MMMU", bob="MUUU"), POLITE)).overall
        assert found.people.precision == found.people.recall

    def test_alpha_is_over_all_raters_with_gaps(self):
        """Not over pairs of them."""
        rows = by_raters("MMMMM", ann="MUMU-", bob="MUUU-", cy="M-UUM")
        units = [list(item.people.values()) for item in rows]
        found = agreement_of(Joined(rows, POLITE)).overall.people
        assert found.nominal_alpha.value == pytest.approx(krippendorff_alpha(units).value)

    def test_each_rater_is_held_against_the_others(self):
        """Ann agrees with bob on 2 of 3; the judge with ann on all, with bob on 2."""
        found = agreement_of(Joined(by_raters("MUM", ann="MUM", bob="MUU"), POLITE))
        ann, bob = found.raters
        assert (ann.rater, ann.labels) == ("ann", 3)
        assert ann.others.accuracy.value == pytest.approx(2 / 3)
        assert (ann.judge.accuracy.value, bob.judge.accuracy.value) == (1.0, pytest.approx(2 / 3))

    def test_against_the_majority_a_rater_is_held_against_the_other_raters_alone(self):
        """Ann says MET, the others UNMET: she is never part of what she is measured by."""
        rows = by_raters("M", ann="M", bob="U", cy="U")
        found = agreement_of(Joined(rows, POLITE), reference="majority")
        # Ann against UNMET is wrong; bob and cy each face one MET and one UNMET, which is a tie.
        assert (found.overall.people.pairs, found.overall.people.accuracy.value) == (1, 0.0)

    def test_labels_by_one_person_have_no_ceiling(self):
        """Which is said by a count of 0, and not by perfect agreement."""
        people = agreement_of(Joined(by_raters("MU", ann="MU"), POLITE)).overall.people
        assert (people.pairs, people.accuracy.reason) == (0, "there are no pairs")


class TestOverall:
    def test_criteria_with_different_choices_are_pooled_without_an_order(self):
        """Agreement is counted over both; what needs ranks says why it is missing."""
        scale = Question("clear", ("poor", "fair", "good"))
        rows = (
            *by_raters("MU", ann="MM"),
            LabelledItem("0", 0, "clear", {"ann": "good"}, "good"),
            LabelledItem("1", 0, "clear", {"ann": "fair"}, "good"),
        )
        found = agreement_of(Joined(rows, {**POLITE, "clear": scale}))
        assert (found.overall.judge.accuracy.value, found.overall.judge.examples) == (0.5, 2)
        assert "different choices" in found.overall.judge.quadratic_kappa.reason
        assert [criterion.name for criterion in found.criteria] == ["polite", "clear"]

    def test_intervals_take_whole_examples_for_independent(self):
        """Forty criteria of two examples are two observations: the interval is nearly all there can be."""
        questions = {str(n): Question(str(n)) for n in range(40)}
        rows = [
            LabelledItem(example, 0, name, {"ann": "MET"}, judge)
            for example, judge in (("a", "MET"), ("b", "UNMET"))
            for name in questions
        ]
        found = agreement_of(Joined(tuple(rows), questions)).overall.judge.accuracy
        assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.0, 1.0), abs=0.002)


def test_the_interval_covers_what_the_judge_really_does():
    """90 % right, 100 examples whose two criteria go wrong together: 0.9 lies inside at least 36 of 40 times."""
    draw = np.random.default_rng(7)
    questions = {"a": Question("a"), "b": Question("b")}
    inside = 0
    for _ in range(40):
        rows = [
            LabelledItem(str(number), 0, name, {"ann": "MET"}, "MET" if right else "UNMET")
            for number, right in enumerate(draw.random(100) < 0.9)
            for name in questions
        ]
        joined = Joined(tuple(rows), questions)
        found = agreement_of(joined).overall.judge.accuracy
        inside += found.low <= 0.9 <= found.high
    assert inside >= 36


@pytest.mark.parametrize(
    ("answers", "agreed"),
    [(["MET", "MET", "UNMET"], "MET"), (["MET", "UNMET"], None), ([0.2, 0.4], 0.3), ([], None)],
)
def test_what_most_say(answers, agreed):
    """A tie is nobody's verdict; numbers have a mean."""
    found = consensus(answers)
    assert found == (agreed if agreed is None or isinstance(agreed, str) else pytest.approx(agreed))


RUBRIC = [{"requirement": "Is polite"}]


class TestRuns:
    def test_the_votes_of_a_panel_are_held_against_people_one_by_one(self, make_run):
        """The strict judge is right once in two, the panel twice."""
        rubric = Rubric.from_dict(RUBRIC)
        rows = []
        for example, votes in (("1", "MMM"), ("2", "UMM")):
            judges = [PerCriterionGrader(FakeModel(verdict)) for verdict in said(votes)]
            panel = Panel(dict(zip(("strict", "kind", "fair"), judges, strict=True)))
            [line] = rubric.grade_sync("Thanks.", panel).report
            rows.append((example, {"is_polite": Score(*(getattr(line, f) for f in Score._fields))}))
        run = make_run("run", rubric, rows)
        labels = [Label(example, "is_polite", "MET", "ann") for example in "12"]
        found = agree(run, labels)
        assert found.overall.judge.accuracy.value == 1.0
        accuracies = {name: each.accuracy.value for name, each in found.members.items()}
        assert accuracies == {"strict": 0.5, "kind": 1.0, "fair": 1.0}

    def test_judges_of_a_panel_may_have_any_name(self, make_run):
        """What a vote is does not depend on its name; its lines are still there after saving."""
        rubric = Rubric.from_dict(RUBRIC)
        judges = [PerCriterionGrader(FakeModel(verdict)) for verdict in said("MU")]
        panel = Panel(dict(zip(("sample 1", "usual order"), judges, strict=True)))
        [line] = rubric.grade_sync("Thanks.", panel).report
        score = Score(*(getattr(line, name) for name in Score._fields))
        run = make_run("run", rubric, [("1", {"is_polite": score})])
        found = agree(run, [Label("1", "is_polite", "MET", "ann")])
        accuracies = {name: each.accuracy.value for name, each in found.members.items()}
        assert accuracies == {"sample 1": 1.0, "usual order": 0.0}
        assert (found.swap, found.retest) == (None, None)

    def test_a_second_run_shows_whether_the_judge_says_the_same_again(self, make_run):
        """Same completions; 3 of 4 verdicts stayed."""
        first = make_run(
            "a", RUBRIC, [(str(n), {"is_polite": v}) for n, v in enumerate(said("MMUU"))]
        )
        second = make_run(
            "b", RUBRIC, [(str(n), {"is_polite": v}) for n, v in enumerate(said("MMUM"))]
        )
        found = agree(first, [Label("0", "is_polite", "MET")], again=second)
        assert found.retest.overall.accuracy.value == 0.75
        assert found.swap is None

    def test_a_second_run_with_other_completions_repeats_nothing(self, make_run):
        """It is refused, and says what to do."""
        first = make_run("a", RUBRIC, [("1", {"is_polite": "MET"})])
        other = [{"example": "1", "completion": "something else", "answers": {"is_polite": "MET"}}]
        with pytest.raises(TrustError, match="no rollout is the same"):
            agree(first, [Label("1", "is_polite", "MET")], again=make_run("b", RUBRIC, other))
