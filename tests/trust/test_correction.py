"""The score and the rates of a run, corrected by labels."""

import json

import pytest

from assay import Rubric
from assay.trust import Label, correct, corrected_mean

RUBRIC = [{"requirement": "Is polite", "weight": 3}, {"requirement": "Is rude", "weight": -1}]
"""The score is (3·polite - rude) / 3, between 0 and 1."""


def verdict(yes):
    return "MET" if yes else "UNMET"


def rows(count=200):
    """The judge calls two of three polite and none rude; people call one of three polite."""
    return [
        (str(n), {"is_polite": verdict(n % 3 < 2), "is_rude": verdict(False)}) for n in range(count)
    ]


def labels(count, names=("is_polite", "is_rude")):
    people = {"is_polite": lambda n: n % 3 < 1, "is_rude": lambda n: n % 12 == 2}
    return [Label(str(n), name, verdict(people[name](n))) for n in range(count) for name in names]


class TestTheMean:
    def test_both_methods_find_what_people_would_say(self):
        """The judge says 0.75, people 0.5 of the same."""
        judge = [1.0, 1.0, 1.0, 0.0] * 50
        people = [1.0, 1.0, 0.0, 0.0] * 15 + [None] * 140
        found = corrected_mean("polite", judge, people)
        assert found.judge.value == 0.75
        assert {name: round(e.value, 6) for name, e in found.corrected.items()} == {
            "prediction_powered": 0.5,
            "rogan_gladen": 0.5,
        }
        assert (found.sensitivity.value, found.specificity.value) == (1.0, 0.5)
        assert (found.rollouts, found.labels) == (200, 60)

    def test_scores_are_corrected_by_prediction_powered_inference_alone(self):
        """There is no sensitivity of a number; the judge is 0.1 too high throughout."""
        judge = [0.1, 0.4, 0.8, 1.0] * 50
        people = [0.0, 0.3, 0.7, 0.9] * 10 + [None] * 160
        found = corrected_mean("score", judge, people)
        assert list(found.corrected) == ["prediction_powered"]
        assert found.best.value == pytest.approx(0.475)
        assert found.sensitivity.reason == "only for met or not met"

    def test_a_judge_no_better_than_chance_is_refused_and_the_labels_stand(self):
        """With what the labels alone say, and what to do."""
        judge = [1.0, 0.0] * 100
        people = [1.0, 1.0, 0.0, 0.0] * 20 + [None] * 120
        found = corrected_mean("polite", judge, people)
        assert "not clearly better than chance" in found.refusal
        assert found.corrected == {}
        assert (found.best.value, found.people.value) == (None, 0.5)

    def test_numbers_that_do_not_go_together_are_refused(self):
        """The correlation is 0."""
        found = corrected_mean("score", [0.2, 0.4] * 100, [0.5, 0.5, 0.6, 0.6] * 10 + [None] * 160)
        assert "correlation 0.00" in found.refusal

    @pytest.mark.parametrize(
        ("people", "words"),
        [
            ([1.0, 0.0] * 10, "20 labelled examples are too few"),
            ([1.0] * 40, "all labels say met"),
            ([0.0] * 40, "all labels say not met"),
        ],
    )
    def test_labels_that_show_too_little_are_refused(self, people, words):
        """Too few, or all the same."""
        judge = [1.0, 0.0] * 100
        found = corrected_mean("polite", judge, people + [None] * (200 - len(people)))
        assert words in found.refusal

    @pytest.mark.parametrize("scale", [1.0, 0.8])
    def test_the_least_number_of_labels_is_enough(self, scale):
        """30 labelled examples are corrected; of 29 it says that 1 more is needed. Verdicts and numbers alike."""
        judge = [scale, 0.0] * 100
        people = [scale, 0.0] * 15
        enough = corrected_mean("polite", judge, people + [None] * 170)
        assert (enough.refusal, enough.labels) == ("", 30)
        assert enough.best.value == pytest.approx(scale / 2)
        too_few = corrected_mean("polite", judge, people[:29] + [None] * 171)
        assert "label 1 more" in too_few.refusal
        assert too_few.best.value is None

    def test_repeated_rollouts_are_not_more_labels(self):
        """40 labelled rollouts of 10 examples are 10."""
        judge, people = [1.0, 0.0] * 20, [1.0, 0.0] * 20
        found = corrected_mean("polite", judge, people, [str(n // 4) for n in range(40)])
        assert "10 labelled examples are too few" in found.refusal

    def test_it_says_how_many_labels_would_halve_the_interval(self):
        """And when none would, since the run is small, how much would be left."""
        judge = [1.0, 1.0, 1.0, 0.0] * 500
        people = [1.0, 1.0, 0.0, 0.0] * 15
        large = corrected_mean("polite", judge, people + [None] * 1940)
        small = corrected_mean("polite", judge[:80], people + [None] * 20)
        assert 150 < large.more_labels < 400
        assert small.more_labels is None
        assert 0.5 < small.left_at_most < 1.0

    def test_what_cannot_lie_outside_of_0_and_1_is_not_said_to(self):
        """Scores near 1: the interval would end above it."""
        judge = [1.0] * 34 + [0.6] + [1.0] * 65
        people = [1.0] * 34 + [0.5] + [None] * 65
        open_ended = corrected_mean("score", judge, people)
        unit = corrected_mean("score", judge, people, unit=True)
        assert open_ended.people.high > 1.0
        assert (unit.people.high, unit.people.low) == (1.0, open_ended.people.low)
        assert max(unit.best.high, unit.judge.high) <= 1.0

    def test_lengths_have_to_agree(self):
        """One answer each."""
        with pytest.raises(ValueError, match="2 answers of the judge and 1 of people"):
            corrected_mean("polite", [1.0, 0.0], [1.0])


class TestRuns:
    def test_the_score_is_added_up_anew_from_what_people_say(self, make_run):
        """A third polite and a twelfth rude, which clamps at 0 where nothing was gained: 1/3."""
        run = make_run("run", RUBRIC, rows())
        found = correct(run, labels(120))
        assert found.score.judge.value == pytest.approx(134 / 200)
        assert found.score.people.value == pytest.approx(1 / 3)
        assert found.score.best.low < 1 / 3 < found.score.best.high
        polite, rude = found.criteria
        assert polite.best.value == pytest.approx(1 / 3, abs=0.02)
        assert "not clearly better than chance" in rude.refusal

    def test_a_run_that_is_labelled_throughout_has_the_score_of_people(self, make_run):
        found = correct(make_run("run", RUBRIC, rows(60)), labels(60))
        assert found.no_score == ""
        assert (found.score.rollouts, found.score.labels) == (60, 60)
        assert found.score.best.value == found.score.people.value == pytest.approx(1 / 3)

    def test_labels_that_cover_no_rollout_whole_give_no_score(self, make_run):
        """One half of the rollouts has labels on one criterion, the other half on the other."""
        given = [*labels(60, ["is_polite"]), *labels(120, ["is_rude"])[60:]]
        found = correct(make_run("run", RUBRIC, rows()), given)
        assert found.score is None
        assert "no rollout is labelled on every criterion" in found.no_score

    def test_no_interval_of_a_score_reaches_above_1(self, make_run):
        """Of 100 rollouts judge and people call 1 polite and rude, which is worth 2/3, and all others perfect."""

        def answers(n):
            return {"is_polite": "MET", "is_rude": verdict(n == 3)}

        run = make_run("run", RUBRIC, [(str(n), answers(n)) for n in range(100)])
        given = [Label(str(n), name, said) for n in range(35) for name, said in answers(n).items()]
        score = correct(run, given).score
        assert score.people.value == pytest.approx(1 - 1 / 3 / 35)
        assert (score.judge.high, score.people.high, score.best.high) == (1.0, 1.0, 1.0)

    def test_it_becomes_json(self, make_run):
        """Without NaN."""
        found = correct(make_run("run", RUBRIC, rows()), labels(120))
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert data["criteria"][0]["corrected"]["rogan_gladen"]["value"] == pytest.approx(
            1 / 3, abs=0.02
        )

    def test_a_score_needs_labels_on_all_that_a_model_judges(self, make_run):
        """It names what is missing; the criteria are corrected all the same."""
        found = correct(make_run("run", RUBRIC, rows()), labels(120, ["is_polite"]))
        assert (found.score, found.no_score) == (
            None,
            "there is no label on is_rude, which the score needs",
        )
        assert found.criteria[0].best.value is not None

    def test_what_code_checks_needs_no_label(self, make_run):
        """Its answer stands: every text is long enough, so one of four points is sure."""
        rubric = Rubric.from_dict([RUBRIC[0], {"check": {"min_words": 1}, "name": "long"}])
        said = [
            (name, {"is_polite": answers["is_polite"], "long": True}) for name, answers in rows()
        ]
        found = correct(make_run("run", rubric, said), labels(120, ["is_polite"]))
        assert found.score.people.value == pytest.approx((1 + 3 / 3) / 4)

    def test_a_score_that_is_no_plain_sum_is_not_guessed(self, make_run):
        """A rule of one's own cannot be repeated from its name."""
        rubric = Rubric(
            Rubric.from_dict(RUBRIC).criteria,
            aggregation=lambda lines: sum(line.value for line in lines) / 9,
        )
        found = correct(make_run("run", rubric, rows()), labels(120))
        assert found.score is None
        assert "not the plain sum" in found.no_score

    def test_rollouts_without_an_answer_are_counted_and_left_out(self, make_run):
        """Neither 0 nor 1."""
        said = rows()
        said[7] = ("7", {"is_polite": TimeoutError("no reply"), "is_rude": "UNMET"})
        said[8] = {"example": "8", "error": "Overloaded: no reply"}
        found = correct(make_run("run", RUBRIC, said), labels(120))
        assert (found.criteria[0].rollouts, found.criteria[0].unanswered) == (198, 2)
        assert (found.score.rollouts, found.score.unanswered) == (198, 2)

    def test_what_does_not_apply_is_no_missing_answer(self, make_run):
        """Of 200 the judge says N/A to 5, which leave the rate; 2 it did not answer, and 1 failed as a whole."""
        said = rows()
        for n in range(150, 155):
            said[n] = (str(n), {"is_polite": "N/A", "is_rude": "UNMET"})
        for n in (160, 161):
            said[n] = (str(n), {"is_polite": TimeoutError("away"), "is_rude": "UNMET"})
        said[170] = {"example": "170", "error": "Overloaded: away"}
        rubric = [RUBRIC[0] | {"allow_na": True}, RUBRIC[1]]
        polite, rude = correct(make_run("run", rubric, said), labels(120)).criteria
        assert (polite.rollouts, polite.unanswered) == (192, 3)
        assert (rude.rollouts, rude.unanswered) == (199, 1)

    def test_where_people_are_split_half_a_label_counts(self, make_run):
        """Bob contradicts Ann on one rollout; to leave it out would leave out what is hard."""
        ann = labels(120, ["is_polite"])
        bob = [Label(a.example, a.criterion, a.verdict, "bob") for a in ann if a.example != "5"]
        found = correct(
            make_run("run", RUBRIC, rows()), [*ann, *bob, Label("5", "is_polite", "MET", "bob")]
        )
        [polite] = found.criteria
        assert (polite.labels, polite.people.value) == (120, pytest.approx(40.5 / 120))
        assert polite.sensitivity.value == pytest.approx(40 / 40.5)
        assert "rogan_gladen" in polite.corrected

    def test_not_applicable_leaves_the_rate(self, make_run):
        """Whoever says it."""
        rubric = [{"requirement": "Is polite", "allow_na": True}]
        said = [(name, {"is_polite": answers["is_polite"]}) for name, answers in rows()]
        said[199] = ("199", {"is_polite": "N/A"})
        given = labels(120, ["is_polite"])
        given[0] = Label("0", "is_polite", "N/A")
        found = correct(make_run("run", rubric, said), given)
        assert (found.criteria[0].rollouts, found.criteria[0].labels) == (198, 119)
