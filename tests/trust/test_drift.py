"""Detect whether a judge answers differently in a later run."""

import pytest

from assay.trust import Label, LabelError, TrustError, drift_between

RUBRIC = [{"requirement": "Is polite"}, {"requirement": "Is short"}]


def rows(polite, short=None, **fields):
    words = {"M": "MET", "U": "UNMET", "E": TimeoutError("no reply"), "N": "N/A"}
    short = short or "M" * len(polite)
    return [
        {"example": str(n), "answers": {"is_polite": words[p], "is_short": words[s]}, **fields}
        for n, (p, s) in enumerate(zip(polite, short, strict=True))
    ]


def test_a_judge_that_grew_kinder_has_moved(make_run):
    """Nine of twelve verdicts rose: p is 2 / 2**9, doubled since there are two criteria."""
    drift = drift_between(
        make_run("a", RUBRIC, rows("U" * 12)), make_run("b", RUBRIC, rows("M" * 9 + "UUU"))
    )
    polite, short = drift.criteria
    assert (polite.before, polite.after, polite.change.value) == (0.0, 0.75, 0.75)
    assert polite.p == pytest.approx(2 * 2 / 2**9)
    assert (drift.moved, short.p) == (("is_polite",), 1.0)


def test_a_change_within_chance_is_not_reported(make_run):
    """Two verdicts rose and one fell."""
    drift = drift_between(
        make_run("a", RUBRIC, rows("UUMUMU")), make_run("b", RUBRIC, rows("MMUUMU"))
    )
    assert drift.moved == ()


def test_labels_show_whether_it_moved_towards_people(make_run):
    """The judge was right on one of four before, and on all after."""
    labels = [Label(str(n), "is_polite", "MET") for n in range(4)]
    drift = drift_between(
        make_run("a", RUBRIC, rows("MUUU")), make_run("b", RUBRIC, rows("MMMM")), labels
    )
    before, after = drift.criteria[0].accuracy
    assert (before.value, after.value) == (0.25, 1.0)
    assert drift.criteria[1].accuracy is None


def test_labels_that_do_not_fit_are_refused_or_left_out(make_run):
    """`skip_unknown` leaves them out, as in other functions."""
    runs = make_run("a", RUBRIC, rows("MU")), make_run("b", RUBRIC, rows("MM"))
    labels = [Label("0", "is_polite", "MET"), Label("9", "is_polite", "MET")]
    with pytest.raises(LabelError, match="1 label about examples"):
        drift_between(*runs, labels)
    assert drift_between(*runs, labels, skip_unknown=True).criteria[0].accuracy is not None


def test_only_equal_rollouts_are_compared(make_run):
    """Changed and missing rollouts are counted."""
    second = rows("MMM")
    second[0]["completion"] = "something else"
    drift = drift_between(make_run("a", RUBRIC, rows("MMMM")), make_run("b", RUBRIC, second))
    assert (drift.rollouts, drift.changed, drift.only_one) == (2, 1, 1)


def test_missing_answers_are_counted(make_run):
    """An error is not a change, and N/A has no value."""
    rubric = [{"requirement": "Is polite", "allow_na": True}, {"requirement": "Is short"}]
    drift = drift_between(make_run("a", rubric, rows("MMMM")), make_run("b", rubric, rows("MENM")))
    assert (drift.criteria[0].rollouts, drift.criteria[0].unanswered) == (2, 1)


def test_runs_without_anything_in_common_are_refused(make_run):
    """There is no common rollout, or no common criterion."""
    first = make_run("a", RUBRIC, rows("M"))
    with pytest.raises(TrustError, match="no rollout is the same"):
        drift_between(first, make_run("b", RUBRIC, rows("M", completion="something else")))
    with pytest.raises(TrustError, match="no judged criterion in the same words"):
        drift_between(
            first, make_run("c", [{"requirement": "Is kind"}], [("0", {"is_kind": "MET"})])
        )
