"""Labels beside the answers they are about."""

import pytest

from assay import PerCriterionGrader
from assay.runs import Run, score_rows
from assay.testing import FakeModel
from assay.trust import Label, LabelError, Question, join, questions_of

RUBRIC = [
    {"requirement": "Is polite"},
    {"requirement": "Is clear", "choices": ["poor", "fair", "good"]},
]
POLITE = {"is_polite": "MET", "is_clear": "fair"}


@pytest.fixture
def run(make_run):
    return make_run(
        "run", RUBRIC, [("1", POLITE), ("2", POLITE | {"is_polite": ValueError("no reply")})]
    )


def joined(run, labels, **options):
    return join(run.rows(), questions_of(run), labels, **options)


def test_every_rater_stands_beside_the_judge(run):
    """By example, sample and criterion; an error of the judge is no answer, and says why."""
    labels = [
        Label("1", "is_polite", "MET", "ann"),
        Label("1", "is_polite", "unmet", "bob"),
        Label("2", "is_polite", "MET", "ann"),
        Label("1", "is_clear", 1.0, "ann"),
    ]
    first, clear, second = joined(run, labels).items
    assert (first.judge, first.people) == ("MET", {"ann": "MET", "bob": "UNMET"})
    assert (clear.judge, clear.people) == ("fair", {"ann": "good"})
    assert (second.judge, second.error) == (None, "ValueError: no reply")


def test_labels_that_do_not_fit_are_counted_by_kind(run):
    """All of them at once, so that a file is mended in one go."""
    labels = [
        Label("1", "is_polite", "MET"),
        Label("1", "is_kind", "MET"),
        Label("9", "is_polite", "MET"),
        Label("1", "is_polite", "MET", sample=3),
        Label("2", "is_clear", "superb"),
    ]
    with pytest.raises(LabelError) as caught:
        joined(run, labels)
    message = str(caught.value)
    assert "4 labels do not fit this run" in message
    assert "1 label about criteria it does not have: 'is_kind'" in message
    assert "2 labels about examples it does not have: '9', '1' (sample 3)" in message
    assert "'superb' is not an answer: give one of poor, fair, good" in message
    assert "--skip-unknown" in message


def test_they_can_be_left_out_and_are_still_counted(run):
    """What fits is used."""
    labels = [Label("1", "is_polite", "MET"), Label("9", "is_polite", "MET")]
    found = joined(run, labels, skip_unknown=True)
    assert (len(found.items), found.skipped) == (1, {"unknown example": 1})


def test_nothing_that_fits_is_an_error(run):
    """Not an empty table."""
    with pytest.raises(LabelError, match="no label fits this run"):
        joined(run, [Label("9", "is_polite", "MET")], skip_unknown=True)


def test_labels_for_another_wording_are_left_out_and_reported(run):
    """Unless they are asked for; a label that does not tell its wording is taken."""
    [polite, _] = run.about.rubric.criteria
    labels = [
        Label("1", "is_polite", "MET", "ann", guideline=polite.question),
        Label("1", "is_polite", "MET", "bob", guideline=polite.hash),
        Label("1", "is_polite", "UNMET", "cy", guideline="0123"),
        Label("1", "is_polite", "MET", "di"),
    ]
    found = joined(run, labels)
    assert list(found.items[0].people) == ["ann", "bob", "di"]
    assert found.other_wording == {"is_polite": 1}
    assert "cy" in joined(run, labels, any_wording=True).items[0].people


def test_labels_for_other_wordings_alone_are_an_error(run):
    """It says what can be done."""
    with pytest.raises(LabelError, match="another wording"):
        joined(run, [Label("1", "is_polite", "MET", guideline="0123")])


def test_a_rollout_that_failed_has_no_answer(make_run):
    """Its error is the reason."""
    rows = [{"example": "1", "error": "Overloaded: no reply"}, ("2", POLITE)]
    found = joined(make_run("run", RUBRIC, rows), [Label("1", "is_polite", "MET")])
    assert found.items[0].error == "Overloaded: no reply"


class TestQuestion:
    def test_a_choice_is_known_however_it_is_spelled(self):
        """By its text before its worth: on a scale of 1 to 3, `1` is the worst."""
        scale = Question("q", ("1", "2", "3"))
        assert [scale.parse_answer(given) for given in (1, 1.0, "2", 0.5)] == ["1", "1", "2", "2"]

    def test_numbers_are_answers_only_where_there_are_no_choices(self):
        """A half is neither met nor unmet."""
        assert Question("q", ()).parse_answer("0.25") == 0.25
        with pytest.raises(ValueError, match="give one of UNMET, MET"):
            Question("q").parse_answer(0.5)
        with pytest.raises(ValueError, match="give a number"):
            Question("q", ()).parse_answer("nan")

    def test_checks_that_give_numbers_are_questions_for_numbers(self, make_run):
        """Those that give only 0 and 1 are met or not."""
        rubric = [
            {"check": {"similarity": {"to": "a"}}, "name": "alike"},
            {"check": {"min_words": 1}, "name": "long"},
        ]
        run = make_run(
            "run", rubric, [("1", {"alike": 0.25, "long": 1}), ("2", {"alike": 1, "long": 0})]
        )
        questions = questions_of(run)
        assert (questions["alike"].choices, questions["long"].choices) == ((), ("UNMET", "MET"))
        assert not questions["alike"].judged

    async def test_rubrics_that_rows_bring_along_are_known(self, tmp_path):
        """By their own choices, in their own order."""
        rows = [
            {"id": "a", "completion": "Thanks.", "rubric": RUBRIC[:1]},
            {"id": "b", "completion": "Thanks.", "rubric": RUBRIC[1:]},
        ]
        fair = {"explanation": "", "choice": "fair"}
        model = FakeModel(lambda system, user: fair if "Is clear" in user else "MET")
        grader = PerCriterionGrader(model)
        await score_rows(None, rows, folder=tmp_path / "run", grader=grader)
        run = Run.open(tmp_path / "run")
        questions = questions_of(run)
        assert questions["is_clear"].choices == ("poor", "fair", "good")
        found = joined(run, [Label("a", "is_polite", "MET"), Label("b", "is_clear", "good")])
        assert [(item.judge, item.people["human"]) for item in found.items] == [
            ("MET", "MET"),
            ("fair", "good"),
        ]
