"""Join labels with the answers that they are about."""

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


def test_each_item_has_the_answers_of_all_raters_and_of_the_judge(run):
    """They are matched by example, sample and criterion; a failed judge has an error, no answer."""
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
    """All are reported at once, so that a file can be corrected in one pass."""
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


def test_skipped_labels_are_counted(run):
    """The labels that fit are used."""
    labels = [Label("1", "is_polite", "MET"), Label("9", "is_polite", "MET")]
    result = joined(run, labels, skip_unknown=True)
    assert (len(result.items), result.skipped) == (1, {"unknown example": 1})


def test_it_is_an_error_if_no_label_fits(run):
    """An empty result would look like a valid one."""
    with pytest.raises(LabelError, match="no label fits this run"):
        joined(run, [Label("9", "is_polite", "MET")], skip_unknown=True)


def test_labels_for_another_wording_are_left_out_and_reported(run):
    """`any_wording` uses them; a label without a guideline is always used."""
    [polite, _] = run.about.rubric.criteria
    labels = [
        Label("1", "is_polite", "MET", "ann", guideline=polite.question),
        Label("1", "is_polite", "MET", "bob", guideline=polite.hash),
        Label("1", "is_polite", "UNMET", "cy", guideline="0123"),
        Label("1", "is_polite", "MET", "di"),
    ]
    result = joined(run, labels)
    assert list(result.items[0].people) == ["ann", "bob", "di"]
    assert result.other_wording == {"is_polite": 1}
    assert "cy" in joined(run, labels, any_wording=True).items[0].people


def test_it_is_an_error_if_all_labels_are_for_another_wording(run):
    """The error says what to do."""
    with pytest.raises(LabelError, match="another wording"):
        joined(run, [Label("1", "is_polite", "MET", guideline="0123")])


def test_a_rollout_that_failed_has_no_answer(make_run):
    """The item has the error of the rollout."""
    rows = [{"example": "1", "error": "Overloaded: no reply"}, ("2", POLITE)]
    result = joined(make_run("run", RUBRIC, rows), [Label("1", "is_polite", "MET")])
    assert result.items[0].error == "Overloaded: no reply"


class TestQuestion:
    def test_a_choice_is_recognised_in_any_spelling(self):
        """The spelling counts before the value: on a scale of 1 to 3, `1` is the worst choice."""
        scale = Question("q", ("1", "2", "3"))
        assert [scale.parse_answer(label) for label in (1, 1.0, "2", 0.5)] == ["1", "1", "2", "2"]

    def test_other_numbers_are_answers_only_without_choices(self):
        """0.5 is neither met nor unmet."""
        assert Question("q", ()).parse_answer("0.25") == 0.25
        with pytest.raises(ValueError, match="give one of UNMET, MET"):
            Question("q").parse_answer(0.5)
        with pytest.raises(ValueError, match="give a number"):
            Question("q", ()).parse_answer("nan")

    def test_checks_that_give_numbers_have_no_choices(self, make_run):
        """Checks that give only 0 and 1 have choices."""
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

    async def test_questions_of_rubrics_in_rows_are_read(self, tmp_path):
        """Their choices are kept in order."""
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
        result = joined(run, [Label("a", "is_polite", "MET"), Label("b", "is_clear", "good")])
        assert [(item.judge, item.people["human"]) for item in result.items] == [
            ("MET", "MET"),
            ("fair", "good"),
        ]
