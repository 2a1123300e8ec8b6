"""Read labels from files and lists."""

import json

import pytest

from assay.runs import Journal, Row, Run, RunAbout
from assay.trust import Label, LabelError, read_labels, read_run_labels, save_label

FIELDS = "example,sample,criterion,verdict,rater,note"


def test_csv_and_jsonl_give_the_same_labels(tmp_path):
    """An empty sample is 0, and a note is kept."""
    table = tmp_path / "labels.csv"
    table.write_text(f"{FIELDS}\n7,,polite,MET,ann,thanks twice\n8,1,polite,0,bob,\n")
    lines = tmp_path / "labels.jsonl"
    rows = [
        {
            "example": 7,
            "criterion": "polite",
            "verdict": "MET",
            "rater": "ann",
            "note": "thanks twice",
        },
        {"example": "8", "sample": 1, "criterion": "polite", "verdict": "0", "rater": "bob"},
    ]
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert read_labels(table) == read_labels(lines)
    assert read_labels(table)[0] == Label("7", "polite", "MET", "ann", 0, "thanks twice")


def test_the_last_label_of_a_rater_counts():
    """An empty verdict withdraws the label."""
    rows = [
        {"example": "1", "criterion": "polite", "verdict": "MET", "rater": "ann"},
        {"example": "1", "criterion": "polite", "verdict": "UNMET", "rater": "ann"},
        {"example": "2", "criterion": "polite", "verdict": "MET", "rater": "ann"},
        {"example": "2", "criterion": "polite", "verdict": None, "rater": "ann"},
    ]
    assert [(label.example, label.verdict) for label in read_labels(rows)] == [("1", "UNMET")]


def test_a_written_label_can_be_read_back():
    """`to_dict` leaves out empty fields."""
    label = Label("1", "polite", "MET", rater="ann", time="2026-01-31T09:30:00Z", guideline="ab12")
    assert read_labels([label.to_dict()]) == [label]
    assert "note" not in label.to_dict()


def test_columns_may_have_other_names():
    """Common names are recognised, and others can be mapped."""
    row = {"example_id": 3, "criterion": "polite", "grade": "MET", "annotator": "ann"}
    [label] = read_labels([row], mapping={"verdict": "grade", "rater": "annotator"})
    assert (label.example, label.verdict, label.rater) == ("3", "MET", "ann")


def test_column_names_ignore_case_and_spaces():
    """Case and surrounding spaces do not matter."""
    [label] = read_labels([{" Example": 3, "Criterion": "polite", "VERDICT ": "MET"}])
    assert (label.example, label.criterion, label.verdict) == ("3", "polite", "MET")


def test_our_column_name_takes_precedence():
    """A row may have other columns named `id` and `label`."""
    row = {"example": 3, "id": "row 17", "criterion": "polite", "verdict": "MET", "label": "train"}
    [label] = read_labels([row])
    assert (label.example, label.verdict) == ("3", "MET")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"example": 1, "verdict": "MET"}, "label 1: it has no 'criterion'"),
        ({"example": "", "criterion": "a", "verdict": "MET"}, "it has no 'example'"),
        ({"example": 1, "criterium": "a", "verdict": "MET"}, "did you mean 'criterion'"),
        ({"example": 1, "criterion": "a", "verdict": ["MET"]}, "give a choice or a number"),
        ({"example": 1, "criterion": "a", "verdict": 1, "sample": "x"}, "sample is 'x'"),
        ({"example": 1, "criterion": "a", "verdict": 1, "sample": -1}, "whole number from 0"),
    ],
)
def test_a_row_that_is_not_a_label_is_refused_by_number(row, words):
    """The error names what is missing and suggests a column."""
    with pytest.raises(LabelError, match=words):
        read_labels([row])


def test_a_file_without_labels_is_refused(tmp_path):
    """The error names the file."""
    path = tmp_path / "labels.csv"
    path.write_text(f"{FIELDS}\n")
    with pytest.raises(LabelError, match=r"labels\.csv holds no labels"):
        read_labels(path)


ROW = {"example": "1", "criterion": "polite", "rater": "ann"}


class TestMerging:
    """Labels of several files are merged."""

    def test_files_are_merged(self, tmp_path):
        """Two people labelled the same question in files of their own."""
        paths = [tmp_path / "ann.csv", tmp_path / "bob.csv"]
        paths[0].write_text("example,criterion,verdict,rater\n1,polite,MET,ann\n")
        paths[1].write_text("example,criterion,verdict,rater\n1,polite,UNMET,bob\n")
        assert [(label.rater, label.verdict) for label in read_labels(*paths)] == [
            ("ann", "MET"),
            ("bob", "UNMET"),
        ]

    def test_the_latest_label_counts_whatever_the_order_of_the_files(self):
        """Times may have different offsets: 11:30+02:00 is half an hour before 10:00 UTC."""
        older = ROW | {"verdict": "MET", "time": "2026-01-31T11:30:00+02:00"}
        newer = ROW | {"verdict": "UNMET", "time": "2026-01-31T10:00:00Z"}
        for sources in ([older], [newer]), ([newer], [older]):
            [label] = read_labels(*sources)
            assert label.verdict == "UNMET"

    def test_an_older_copy_of_a_withdrawn_label_does_not_count(self):
        older = ROW | {"verdict": "MET", "time": "2026-01-31T09:30:00Z"}
        withdrawn = ROW | {"verdict": None, "time": "2026-01-31T10:00:00Z"}
        other = ROW | {"verdict": "MET", "rater": "bob"}
        assert [label.rater for label in read_labels([withdrawn, other], [older])] == ["bob"]

    def test_the_last_label_counts_if_one_has_no_time(self):
        timed = ROW | {"verdict": "MET", "time": "2026-01-31T09:30:00Z"}
        untimed = ROW | {"verdict": "UNMET", "time": "yesterday"}
        assert [label.verdict for label in read_labels([timed], [untimed])] == ["UNMET"]
        assert [label.verdict for label in read_labels([untimed], [timed])] == ["MET"]

    def test_a_person_has_one_label_in_any_spelling(self):
        """Case and surrounding space do not make another person."""
        rows = [
            ROW | {"verdict": "MET", "rater": "Anna"},
            ROW | {"verdict": "UNMET", "rater": " anna"},
        ]
        [label] = read_labels(rows)
        assert (label.rater, label.verdict) == ("anna", "UNMET")

    def test_labels_of_a_run_are_merged_with_files_beside_it(self, tmp_path):
        """The files hold what was exported from a report; the latest label counts."""
        with Journal.open(tmp_path, RunAbout.of("score")) as journal:
            journal.write(Row("1", fields={"completion": "yes"}))
        run = Run.open(tmp_path)
        assert read_run_labels(run) == []
        first = {"verdict": "MET", "time": "2026-01-31T09:30:00Z"}
        save_label(run, Label.from_row(ROW | first))
        assert [label.verdict for label in read_run_labels(run)] == ["MET"]
        later = {"verdict": "UNMET", "time": "2026-02-01T09:30:00Z"}
        (tmp_path / "labels-2026.jsonl").write_text(json.dumps(ROW | later))
        assert [label.verdict for label in read_run_labels(run)] == ["UNMET"]

    def test_labels_of_another_run_are_read_from_it(self, tmp_path):
        """By its folder, its file or the run itself, and merged with tables."""
        with Journal.open(tmp_path / "run", RunAbout.of("score")) as journal:
            journal.write(Row("1", fields={"completion": "yes"}))
        run = Run.open(tmp_path / "run")
        save_label(run, Label.from_row(ROW | {"verdict": "MET", "rater": "anna"}))
        beside = [ROW | {"grade": "UNMET", "rater": "bob"}]
        for source in (run, tmp_path / "run", str(run.file.path)):
            labels = read_labels(source, beside, mapping={"verdict": "grade"})
            assert [(label.rater, label.verdict) for label in labels] == [
                ("anna", "MET"),
                ("bob", "UNMET"),
            ]

    def test_a_label_can_be_saved_while_the_run_is_written(self, tmp_path):
        """And replaces an earlier one of the same person, in any spelling of the name."""
        with Journal.open(tmp_path, RunAbout.of("score")) as journal:
            journal.write(Row("1", fields={"completion": "yes"}))
            run = Run.open(tmp_path)
            for rater, verdict in (("Anna", "MET"), ("anna", "UNMET")):
                save_label(run, Label.from_row(ROW | {"verdict": verdict, "rater": rater}))
            journal.write(Row("2", fields={"completion": "no"}))
        assert [label.verdict for label in read_run_labels(run)] == ["UNMET"]
        assert len(run) == 2
