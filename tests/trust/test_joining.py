"""Join labels with the answers that they are about."""

import pytest

from assay import Criterion, PerCriterionGrader
from assay.runs import Run, score_rows
from assay.testing import FakeModel
from assay.trust import Label, LabelError, Question, hash_text, join, questions_of

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
        await score_rows(None, rows, folder=tmp_path / "run", judge=grader)
        run = Run.open(tmp_path / "run")
        questions = questions_of(run)
        assert questions["is_clear"].choices == ("poor", "fair", "good")
        result = joined(run, [Label("a", "is_polite", "MET"), Label("b", "is_clear", "good")])
        assert [(item.judge, item.people["human"]) for item in result.items] == [
            ("MET", "MET"),
            ("fair", "good"),
        ]


class TestText:
    """A label with a hash of its text is used only for this text."""

    COMPLETIONS = ("Thanks.", "Go away.", "Please wait.")

    @pytest.fixture
    def labels(self):
        """A label on each of three rows."""
        return [
            Label(
                example=str(number),
                criterion="is_polite",
                verdict="MET",
                text_hash=hash_text("ask", completion),
            )
            for number, completion in enumerate(self.COMPLETIONS)
        ]

    @pytest.fixture
    def run_of(self, make_run):
        """Make a run of rows without an id, with these completions."""

        def make(*completions):
            rows = [
                {"example": str(number), "prompt": "ask", "completion": text, "answers": POLITE}
                for number, text in enumerate(completions)
            ]
            return make_run(f"run-{len(completions)}-{completions[0]}", RUBRIC, rows)

        return make

    def test_labels_follow_their_text_when_a_row_is_inserted(self, run_of, labels):
        """Rows 0 to 2 are now rows 1 to 3."""
        result = joined(run_of("A new row.", *self.COMPLETIONS), labels)
        assert [item.example for item in result.items] == ["1", "2", "3"]
        assert (result.moved, result.changed_text) == (3, {})

    def test_labels_whose_text_has_changed_are_counted_and_named(self, run_of, labels):
        """The completion of row 1 was written anew, and no row has the old one."""
        result = joined(run_of("Thanks.", "Go.", "Please wait."), labels)
        assert [item.example for item in result.items] == ["0", "2"]
        assert result.changed_text == {"'1'": 1}
        assert result.moved == 0

    def test_a_label_of_a_removed_row_is_counted_and_named(self, run_of, labels):
        """Row 2 is the last one, so that no other row has its number."""
        result = joined(run_of("Thanks.", "Go away."), labels)
        assert [item.example for item in result.items] == ["0", "1"]
        assert result.changed_text == {"'2'": 1}

    def test_rows_with_the_same_text_are_taken_in_order(self, run_of, labels):
        """Both old rows said the same, and so do the two rows after the new one."""
        same = [
            Label(str(number), "is_polite", verdict, text_hash=hash_text("ask", "Thanks."))
            for number, verdict in ((0, "MET"), (1, "UNMET"))
        ]
        result = joined(run_of("A new row.", "Go away.", "Thanks.", "Thanks."), same)
        assert [(item.example, item.people["human"]) for item in result.items] == [
            ("2", "MET"),
            ("3", "UNMET"),
        ]

    def test_labels_from_before_and_after_an_insertion_meet_on_one_row(self, run_of):
        """Ann labelled row 0, which bob found as row 1."""
        labels = [
            Label("0", "is_polite", "MET", "ann", text_hash=hash_text("ask", "Thanks.")),
            Label("1", "is_polite", "UNMET", "bob", text_hash=hash_text("ask", "Thanks.")),
        ]
        [item] = joined(run_of("A new row.", "Thanks."), labels).items
        assert item.people == {"bob": "UNMET", "ann": "MET"}

    def test_it_is_an_error_if_no_label_has_its_text_in_the_run(self, run_of, labels):
        with pytest.raises(LabelError, match=r"3 labels, all made for texts that this run does"):
            joined(run_of("All", "rows", "are new."), labels)

    def test_labels_without_a_hash_are_counted_if_rows_have_no_id(self, run_of, make_run):
        """They are matched by the number of the row, which nothing can check."""
        labels = [Label("1", "is_polite", "MET")]
        assert joined(run_of("Thanks.", "Go away."), labels).by_row_number == 1
        rows = [("mail-1", POLITE)]
        result = joined(make_run("named", RUBRIC, rows), [Label("mail-1", "is_polite", "MET")])
        assert result.by_row_number == 0

    def test_a_text_has_the_hash_of_a_chat_of_one_message(self):
        """A change of the prompt or of the completion changes it."""
        chat = [{"role": "assistant", "content": "4"}]
        assert hash_text("2+2?", "4") == hash_text("2+2?", chat)
        assert len({hash_text("2+2?", "4"), hash_text("2+3?", "4"), hash_text("2+2?", "5")}) == 3


def test_raters_are_compared_without_case_and_surrounding_space(run):
    """The name is spelled as it was the first time, and the last label of the person counts."""
    labels = [
        Label("1", "is_polite", "MET", "Anna"),
        Label("2", "is_polite", "MET", " anna "),
        Label("1", "is_polite", "UNMET", "ANNA"),
    ]
    first, second = joined(run, labels).items
    assert first.people == {"Anna": "UNMET"}
    assert second.people == {"Anna": "MET"}


async def test_a_wording_is_that_of_the_row_if_rows_bring_rubrics(tmp_path):
    """Two rows ask the same name in different words; a label is only about the words of its row."""
    wordings = ["Is polite to the customer", "Is polite to everyone"]
    rows = [
        {
            "id": str(number),
            "completion": "Thanks.",
            "rubric": [{"name": "polite", "requirement": text}],
        }
        for number, text in enumerate(wordings)
    ]
    grader = PerCriterionGrader(FakeModel(lambda system, user: "MET"))
    await score_rows(None, rows, folder=tmp_path / "run", judge=grader)
    hashes = [Criterion(name="polite", requirement=text).question_hash for text in wordings]
    labels = [
        Label("0", "polite", "MET", guideline=hashes[0]),
        Label("1", "polite", "MET", guideline=hashes[0]),
    ]
    result = joined(Run.open(tmp_path / "run"), labels)
    assert [item.example for item in result.items] == ["0"]
    assert result.other_wording == {"polite": 1}
