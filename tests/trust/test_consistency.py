"""Whether a judge says the same again, and the same the other way round."""

import pytest

from assay import PerCriterionGrader, Rubric, Samples, Score, Swapped
from assay.testing import FakeModel
from assay.trust import Label, agree, krippendorff_alpha

RUBRIC = [{"requirement": "Is polite"}]


def answer(grader):
    """The answer of a grader, with its votes, as a run keeps it."""
    [line] = Rubric.from_dict(RUBRIC).grade_sync("Thanks.", grader).report
    return {"is_polite": Score(*(getattr(line, field) for field in Score._fields))}


def consistency(make_run, graders):
    rows = [(str(number), answer(grader)) for number, grader in enumerate(graders)]
    return agree(make_run("run", RUBRIC, rows), [Label("0", "is_polite", "MET")])


def test_samples_of_one_judge_show_test_and_retest(make_run):
    """MET MET UNMET agree in 1 of 3 pairs, UNMET three times in 3 of 3: 4 of 6."""
    votes = [["MET", "MET", "UNMET"], ["UNMET", "UNMET", "UNMET"]]
    found = consistency(
        make_run, [Samples(PerCriterionGrader(FakeModel(list(said))), 3) for said in votes]
    )
    assert found.retest.overall.accuracy.value == pytest.approx(4 / 6)
    alpha = krippendorff_alpha(votes).value
    assert found.retest.criteria["is_polite"].nominal_alpha.value == pytest.approx(alpha)


def test_both_orders_show_swap_consistency(make_run):
    """One judge that stays with its verdict, one that takes whatever comes first."""
    steady = Swapped(PerCriterionGrader(FakeModel("MET")))
    fickle = Swapped(PerCriterionGrader(FakeModel(["MET", "UNMET"])))
    found = consistency(make_run, [steady, fickle])
    assert (found.swap.overall.accuracy.value, found.swap.overall.pairs) == (0.5, 2)
    assert found.retest is None


def test_samples_inside_orders_show_both(make_run):
    """The votes on a vote count too."""
    judge = PerCriterionGrader(FakeModel("MET"))
    found = consistency(make_run, [Swapped(Samples(judge, 2)), Swapped(Samples(judge, 2))])
    assert (found.swap.overall.pairs, found.retest.overall.pairs) == (2, 4)


def test_a_vote_that_failed_is_counted_and_not_compared(make_run):
    """Two answers are left of three: one pair."""
    failing = PerCriterionGrader(FakeModel(["MET", ValueError("no reply"), "MET"]))
    found = consistency(make_run, [Samples(failing, 3)])
    assert (found.retest.overall.pairs, found.retest.unanswered) == (1, 1)


def test_one_answer_shows_nothing(make_run):
    """None, and not perfect consistency."""
    found = agree(
        make_run("run", RUBRIC, [("0", {"is_polite": "MET"})]), [Label("0", "is_polite", "MET")]
    )
    assert (found.swap, found.retest) == (None, None)
