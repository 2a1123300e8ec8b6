"""Whether a judge has moved."""

import pytest

from assay.trust import Label, LabelError, TrustError, drift_between

RUBRIC = [{"requirement": "Is polite"}, {"requirement": "Is short"}]


def rows(polite, short=None, **fields):
    words = {"M": "MET", "U": "UNMET", "E": TimeoutError("no reply"), "N": "N/A"}
    short = short or "M" * len(polite)
    return [
        {"example": str(n), "said": {"is_polite": words[p], "is_short": words[s]}, **fields}
        for n, (p, s) in enumerate(zip(polite, short, strict=True))
    ]


def test_a_judge_that_grew_kinder_has_moved(make_run):
    """Nine of twelve verdicts rose: p is 2 of 2**9, twice for two criteria."""
    found = drift_between(
        make_run("a", RUBRIC, rows("U" * 12)), make_run("b", RUBRIC, rows("M" * 9 + "UUU"))
    )
    polite, short = found.criteria
    assert (polite.before, polite.after, polite.change.value) == (0.0, 0.75, 0.75)
    assert polite.p == pytest.approx(2 * 2 / 2**9)
    assert (found.moved, short.p) == (("is_polite",), 1.0)


def test_a_change_that_chance_can_make_is_none(make_run):
    """Two up and one down."""
    found = drift_between(
        make_run("a", RUBRIC, rows("UUMUMU")), make_run("b", RUBRIC, rows("MMUUMU"))
    )
    assert found.moved == ()


def test_labels_show_whether_it_moved_towards_people(make_run):
    """Right once of four before, and on all after."""
    labels = [Label(str(n), "is_polite", "MET") for n in range(4)]
    found = drift_between(
        make_run("a", RUBRIC, rows("MUUU")), make_run("b", RUBRIC, rows("MMMM")), labels
    )
    before, after = found.criteria[0].accuracy
    assert (before.value, after.value) == (0.25, 1.0)
    assert found.criteria[1].accuracy is None


def test_labels_that_do_not_fit_are_refused_or_left_out(make_run):
    """As everywhere."""
    runs = make_run("a", RUBRIC, rows("MU")), make_run("b", RUBRIC, rows("MM"))
    labels = [Label("0", "is_polite", "MET"), Label("9", "is_polite", "MET")]
    with pytest.raises(LabelError, match="1 label about examples"):
        drift_between(*runs, labels)
    assert drift_between(*runs, labels, skip_unknown=True).criteria[0].accuracy is not None


def test_only_rollouts_that_are_the_same_tell_of_the_judge(make_run):
    """Another completion, another rollout: both are counted."""
    second = rows("MMM")
    second[0]["completion"] = "something else"
    found = drift_between(make_run("a", RUBRIC, rows("MMMM")), make_run("b", RUBRIC, second))
    assert (found.rollouts, found.changed, found.only_one) == (2, 1, 1)


def test_answers_that_are_missing_are_counted(make_run):
    """An error is no change, and N/A has no worth."""
    rubric = [{"requirement": "Is polite", "allow_na": True}, {"requirement": "Is short"}]
    found = drift_between(make_run("a", rubric, rows("MMMM")), make_run("b", rubric, rows("MENM")))
    assert (found.criteria[0].rollouts, found.criteria[0].unanswered) == (2, 1)


def test_runs_that_share_nothing_are_refused(make_run):
    """No rollout, or no criterion in the same words."""
    first = make_run("a", RUBRIC, rows("M"))
    with pytest.raises(TrustError, match="no rollout is the same"):
        drift_between(first, make_run("b", RUBRIC, rows("M", completion="something else")))
    with pytest.raises(TrustError, match="no judged criterion in the same words"):
        drift_between(
            first, make_run("c", [{"requirement": "Is kind"}], [("0", {"is_kind": "MET"})])
        )
