"""Figures of a table of two raters: published examples, a second implementation, and edges."""

import math
import random

import numpy as np
import pytest
from sklearn.metrics import (
    cohen_kappa_score,
    f1_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from assay.trust import cohen_kappa
from assay.trust.coefficients import ACCURACY, bias, macro_f1, matthews, precision, recall


def answers(table):
    """Two sequences of verdicts that come to this table."""
    cells = [(row, column) for row in range(len(table)) for column in range(len(table))]
    pairs = [cell for cell in cells for _ in range(table[cell[0]][cell[1]])]
    return [row for row, _ in pairs], [column for _, column in pairs]


# Agresti and Winner (1997), "Evaluating agreement and disagreement among movie reviewers", Chance 10(2):
# Siskel and Ebert on 160 films, con, mixed and pro. They print kappa 0.389 and weighted kappa 0.427.
FILMS = [[24, 8, 13], [8, 13, 11], [10, 9, 64]]
# Fleiss, Levin and Paik (2003), "Statistical Methods for Rates and Proportions", table 18.1:
# two psychiatrists on 100 patients. They print kappa 0.68.
PATIENTS = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]


class TestKappa:
    @pytest.mark.parametrize(
        ("table", "weights", "published"),
        [(FILMS, "none", 0.389), (FILMS, "linear", 0.427), (PATIENTS, "none", 0.68)],
    )
    def test_published_tables_give_the_published_kappa(self, table, weights, published):
        """To the digits that were printed."""
        digits = len(str(published)) - 2
        assert round(cohen_kappa(*answers(table), weights=weights).value, digits) == published

    def test_half_of_what_chance_leaves_is_one_half(self):
        """20 + 15 of 50 agree, 0.7; chance gives 0.5 · 0.6 + 0.5 · 0.4 = 0.5: (0.7 - 0.5) / 0.5."""
        assert cohen_kappa(*answers([[20, 5], [10, 15]])).value == pytest.approx(0.4)

    def test_quadratic_kappa_is_the_concordance_of_the_ranks(self):
        """2·cov / (var + var + (mean - mean)²), exactly (Fleiss and Cohen 1973; Lin 1989)."""
        first, second = (np.array(side, dtype=float) for side in answers(FILMS))
        joint = ((first - first.mean()) * (second - second.mean())).mean()
        below = first.var() + second.var() + (first.mean() - second.mean()) ** 2
        found = cohen_kappa(*answers(FILMS), weights="quadratic").value
        assert found == pytest.approx(2 * joint / below)

    @pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
    def test_it_is_that_of_scikit_learn(self, weights):
        """On random verdicts of two raters who agree now and then."""
        draw = random.Random(1)
        first = [draw.randrange(4) for _ in range(300)]
        second = [one if draw.random() < 0.5 else draw.randrange(4) for one in first]
        theirs = cohen_kappa_score(first, second, weights=None if weights == "none" else weights)
        assert cohen_kappa(first, second, weights=weights).value == pytest.approx(theirs)

    def test_one_verdict_throughout_has_no_kappa_and_says_why(self):
        """Chance alone would agree as well: neither 0 nor 1 nor NaN."""
        found = cohen_kappa(["MET"] * 9, ["MET"] * 9)
        assert found.value is None
        assert "chance alone" in found.reason

    def test_nothing_has_no_kappa(self):
        """No pairs, no figure."""
        assert cohen_kappa([], []).value is None


def table_of(first, second, categories=(0, 1)):
    return np.array(
        [
            [sum(pair == (r, c) for pair in zip(first, second, strict=True)) for c in categories]
            for r in categories
        ],
        dtype=float,
    )


class TestMatthews:
    def test_the_usual_example(self):
        """6 of 8 cats and 3 of 4 dogs known: (6·3 - 1·2) / √(7·8·4·5) = 0.478."""
        found = matthews.estimate(np.array([[3.0, 1.0], [2.0, 6.0]])).value
        assert found == pytest.approx(16 / math.sqrt(7 * 8 * 4 * 5))
        assert round(found, 3) == 0.478

    def test_it_is_that_of_scikit_learn(self):
        """Also for more than two verdicts."""
        draw = random.Random(2)
        first = [draw.randrange(3) for _ in range(200)]
        second = [one if draw.random() < 0.6 else draw.randrange(3) for one in first]
        found = matthews.estimate(table_of(first, second, range(3))).value
        assert found == pytest.approx(matthews_corrcoef(first, second))

    def test_one_side_that_never_varies_has_no_correlation(self):
        """Scikit-learn says 0, which reads as "unrelated"."""
        found = matthews.estimate(table_of([1, 0, 1], [1, 1, 1]))
        assert (found.value, found.reason) == (
            None,
            "one side gives one verdict throughout, so nothing correlates",
        )


class TestShares:
    def test_precision_recall_and_f1_are_those_of_scikit_learn(self):
        """On random verdicts."""
        draw = random.Random(3)
        people = [int(draw.random() < 0.3) for _ in range(200)]
        judge = [one if draw.random() < 0.8 else 1 - one for one in people]
        table = table_of(people, judge)
        assert precision(1, "MET").compute(table) == pytest.approx(precision_score(people, judge))
        assert recall(1, "MET").compute(table) == pytest.approx(recall_score(people, judge))
        assert macro_f1.compute(table) == pytest.approx(f1_score(people, judge, average="macro"))

    def test_accuracy_and_bias_by_hand(self):
        """3 of 4 agree; the judge says MET twice, people once: a quarter too high."""
        table = table_of([1, 0, 0, 0], [1, 1, 0, 0])
        assert ACCURACY.compute(table) == 0.75
        assert bias([0.0, 1.0]).compute(table) == 0.25

    def test_what_is_never_said_has_no_precision(self):
        """Not a number here; the estimate gives None and the reason."""
        assert math.isnan(precision(1, "MET").compute(table_of([1, 0], [0, 0])))


def test_a_verdict_outside_the_categories_is_refused():
    """It would else be lost."""
    with pytest.raises(ValueError, match=r"\['PERHAPS'\] are not among"):
        cohen_kappa(["MET"], ["PERHAPS"], categories=["UNMET", "MET"])
