"""Two runs on the same examples."""

import json

import pytest

from assay.trust import TrustError, compare, mcnemar

RUBRIC = [{"requirement": "Is polite", "weight": 3}, {"requirement": "Is short", "weight": 1}]


def rows(polite, short=None, **fields):
    """Rows of verdicts by letters: `M` for MET, `U` for UNMET, `E` for an error."""
    words = {"M": "MET", "U": "UNMET", "E": TimeoutError("no reply")}
    short = short or "M" * len(polite)
    return [
        {"example": str(n), "answers": {"is_polite": words[p], "is_short": words[s]}, **fields}
        for n, (p, s) in enumerate(zip(polite, short, strict=True))
    ]


def test_scores_are_paired_by_example(make_run):
    """Eight of ten turn polite, worth 3 of 4 points each: 0.6 more on average; 2 of 2**8 ways by chance."""
    first, second = (
        make_run("a", RUBRIC, rows("U" * 10)),
        make_run("b", RUBRIC, rows("M" * 8 + "UU")),
    )
    score = compare(first, second).score
    assert (score.first, score.second) == (pytest.approx(0.25), pytest.approx(0.85))
    assert score.difference.value == pytest.approx(0.6)
    assert score.difference.low < 0.6 < score.difference.high
    assert (score.better, score.worse, score.examples) == (8, 0, 10)
    assert (score.test, score.p) == ("sign_flip", pytest.approx(2 / 2**8))
    assert score.minimum_detectable_effect == pytest.approx(
        (2.2622 + 0.8834) * score_spread(), rel=1e-3
    )


def score_spread():
    """The standard error of eight differences of 0.75 and two of 0."""
    return (8 * 0.15**2 + 2 * 0.6**2) ** 0.5 / 9**0.5 / 10**0.5


def test_criteria_that_are_met_or_not_have_mcnemar_and_holm(make_run):
    """8 better and 0 worse, times two criteria; the other did not change."""
    first, second = (
        make_run("a", RUBRIC, rows("U" * 10)),
        make_run("b", RUBRIC, rows("M" * 8 + "UU")),
    )
    polite, short = compare(first, second).criteria
    assert (polite.test, polite.p) == ("mcnemar", pytest.approx(2 * mcnemar(8, 0)))
    assert (short.p, short.difference.value) == (1.0, 0.0)


def test_repeated_rollouts_are_one_example_each(make_run):
    """Ten rollouts of three examples: three differences, and p as for three."""
    before = [
        {
            "example": str(n),
            "sample": s,
            "completion": str(s),
            "answers": {"is_polite": "UNMET", "is_short": "MET"},
        }
        for n in range(3)
        for s in range(10)
    ]
    after = [row | {"answers": {"is_polite": "MET", "is_short": "MET"}} for row in before]
    found = compare(make_run("a", RUBRIC, before), make_run("b", RUBRIC, after))
    assert (found.score.examples, found.score.p) == (3, 2 / 2**3)
    assert found.criteria[0].test == "sign_flip"


def test_flips_say_which_examples_changed_and_why(make_run):
    """Largest change first, with both reasons."""
    first, second = (
        make_run("a", RUBRIC, rows("MMU", "MMM")),
        make_run("b", RUBRIC, rows("MUU", "UMM")),
    )
    one, other = compare(first, second).flips
    assert (one.example, one.before, one.after) == ("1", 1.0, 0.25)
    [change] = one.changes
    assert (change.criterion, change.before, change.after) == ("is_polite", "MET", "UNMET")
    assert (change.reason_before, change.reason_after) == ("it is MET", "it is UNMET")
    assert (other.example, other.difference) == ("0", -0.25)


def test_unscored_rollouts_are_counted_and_not_compared(make_run):
    """An error on one side takes the example out of the pair, and stands in the flips."""
    first, second = make_run("a", RUBRIC, rows("MMU")), make_run("b", RUBRIC, rows("MEU"))
    found = compare(first, second)
    assert (found.score.examples, found.score.unanswered) == (2, (0, 1))
    assert found.criteria[0].unanswered == (0, 1)
    [flip] = found.flips
    assert (flip.after, flip.changes[0].after) == (None, "error")
    assert flip.changes[0].reason_after == "TimeoutError: no reply"


def test_a_criterion_without_answers_has_no_difference(make_run):
    """Neither a figure, nor a p-value, nor examples that rose or fell; and the criterion beside it keeps its own."""
    first, second = make_run("a", RUBRIC, rows("EEE")), make_run("b", RUBRIC, rows("MUM", "MMU"))
    polite, short = compare(first, second).criteria
    assert polite.difference.reason == "no example has a value in both runs"
    assert (polite.first, polite.p, polite.examples) == (None, None, 0)
    assert (polite.better, polite.worse, polite.unanswered) == (0, 0, (3, 0))
    assert (short.better, short.worse, short.p) == (0, 1, 1.0)


def test_examples_of_one_run_alone_are_counted(make_run):
    """Three here, five there, three in both."""
    found = compare(make_run("a", RUBRIC, rows("MUM")), make_run("b", RUBRIC, rows("MUMMM")))
    assert (found.examples, found.only_first, found.only_second) == (3, 0, 2)


def test_the_same_number_with_another_prompt_is_another_example(make_run):
    """Row numbers of two files do not make a pair."""
    first = make_run("a", RUBRIC, rows("MU"))
    second = rows("MU")
    second[1]["prompt"] = "something else"
    found = compare(first, make_run("b", RUBRIC, second))
    assert (found.examples, found.other_example) == (1, 1)
    with pytest.raises(TrustError, match="give rows an `id`"):
        compare(first, make_run("c", RUBRIC, rows("MU", prompt="something else")))


def test_criteria_in_other_words_are_not_compared(make_run):
    """They are named, and so are those that one run alone has; another weight changes nothing."""
    other = [
        {"requirement": "Is very polite", "name": "is_polite"},
        {"requirement": "Is short", "weight": 9},
        {"requirement": "Is new"},
    ]
    said = {"is_polite": "MET", "is_short": "MET", "is_new": "MET"}
    found = compare(make_run("a", RUBRIC, rows("M")), make_run("b", other, [("0", said)]))
    assert [criterion.name for criterion in found.criteria] == ["is_short"]
    assert (found.other_wording, found.other_rubric) == (("is_polite",), 1)
    assert found.missing == {"first": (), "second": ("is_new",)}


NEGATIVE = [{"requirement": "Is polite", "weight": 3}, {"requirement": "Is rude", "weight": -2}]


def answers_of(polite, rude):
    words = {"M": "MET", "U": "UNMET"}
    return [
        (str(n), {"is_polite": words[p], "is_rude": words[r]})
        for n, (p, r) in enumerate(zip(polite, rude, strict=True))
    ]


def test_a_fault_that_becomes_rare_is_better(make_run):
    """Its value falls in 8 of 10 examples, and the reward rises."""
    first = make_run("a", NEGATIVE, answers_of("M" * 10, "M" * 10))
    second = make_run("b", NEGATIVE, answers_of("M" * 10, "U" * 8 + "MM"))
    found = compare(first, second)
    rude = found.criteria[1]
    assert rude.difference.value == pytest.approx(-0.8)
    assert (rude.better, rude.worse, rude.direction) == (8, 0, "better")
    assert compare(second, first).criteria[1].direction == "worse"
    assert (found.score.better, found.score.direction) == (8, "better")
    assert found.flips[0].marks == ("✔✗", "✔✔")
    assert found.flips[0].changes[0].words == ("happened", "avoided")
    assert "✔✗ → ✔✔" in str(found)
    assert "less is better: is_rude" in str(found)


def test_it_starts_with_the_decision(make_run):
    """Which run is better, by how much and how certainly; else what could have been detected."""
    before = make_run("before", RUBRIC, rows("U" * 10))
    after = make_run("after", RUBRIC, rows("M" * 8 + "UU"))
    decision = compare(before, after).decide(("before", "after"))
    assert decision.startswith(
        "after is better than before: its mean score is 0.600 higher (0.850 against 0.250, 95 %"
    )
    assert decision.endswith("p = 0.008), over 10 examples")
    names = ("after", "before")
    assert compare(after, before).page(names).text().startswith("before is worse than after: ")

    noisy = make_run("noisy", RUBRIC, rows("UUUUUUUUMM"))
    decision = compare(before, noisy).decide(("before", "noisy"))
    assert decision.startswith("No difference between before and noisy can be shown")
    assert decision.endswith("with 10 examples, only differences above 0.315 could be detected")
    few = compare(make_run("c", RUBRIC, rows("UU")), make_run("d", RUBRIC, rows("UM")))
    assert few.decide().endswith("2 examples cannot show any difference")
    same = compare(before, make_run("e", RUBRIC, rows("U" * 10)))
    assert same.decide() == "first and second have the same score on all 10 examples"


def test_scores_by_different_rubrics_are_not_compared(make_run):
    """Criteria that both share are."""
    reworded = [{"requirement": "Is very polite", "name": "is_polite", "weight": 3}, RUBRIC[1]]
    first = make_run("a", RUBRIC, rows("M" * 8, "M" * 8))
    found = compare(first, make_run("b", reworded, rows("U" * 8, "U" * 8)))
    assert (found.score.examples, found.score.p, found.other_rubric) == (0, None, 8)
    assert found.flips[0].before is None
    [short] = found.criteria
    assert (short.name, short.worse, short.direction) == ("is_short", 8, "worse")
    assert found.decide(("a", "b")).startswith(
        "The scores of a and b cannot be compared, because the runs used different rubrics; of the "
        "only criterion that both share, is_short is worse in b: 1.000 lower (0.000 against 1.000"
    )


def test_runs_that_share_no_criterion_and_no_rubric_are_refused(make_run):
    other = [{"requirement": "Is kind"}]
    second = make_run("b", other, [(str(n), {"is_kind": "MET"}) for n in range(3)])
    with pytest.raises(
        TrustError, match="different rubrics, and no criterion has the same wording"
    ):
        compare(make_run("a", RUBRIC, rows("MMM")), second)


def run_with_id(make_run, name, prompt, polite, **fields):
    from assay import Rubric
    from assay.concurrency import run_sync
    from assay.runs import Run, score_rows

    rubric = Rubric.from_dict([{"check": {"contains": "please"}, "name": "polite"}])
    texts = {"M": "please", "U": "now"}
    data = [
        {"id": f"mail-{n}", "prompt": prompt.format(n), "completion": texts[p], **fields}
        for n, p in enumerate(polite)
    ]
    folder = make_run("parent", RUBRIC, []).path.parent / name
    run_sync(score_rows(rubric, data, folder=folder))
    return Run.open(folder)


def test_examples_with_an_id_are_paired_whatever_the_prompt_is(make_run):
    """And the report says what differs."""
    first = run_with_id(make_run, "short", "Write mail {}", "UUUUUUU")
    second = run_with_id(make_run, "long", "Think first, then write mail {}", "MMMMMMM")
    found = compare(first, second)
    assert (found.examples, found.other_example, found.score.direction) == (7, 0, "better")
    [change] = found.changes
    assert (change.setting, change.second) == ("prompt", "(another for 7 of 7 examples)")


def test_rows_without_id_are_paired_if_their_data_is_the_same(make_run):
    """Two prompt templates over one file: every row has the columns that they were filled with."""
    fields = {"id": None, "question": "Who?"}
    first = run_with_id(make_run, "a", "{}: Who?", "UM", **fields)
    second = run_with_id(make_run, "b", "Q{}: Who?", "MM", **fields)
    other = run_with_id(make_run, "c", "Q{}: When?", "MM", **(fields | {"question": "When?"}))
    assert compare(first, second).examples == 2
    with pytest.raises(TrustError, match="give rows an `id`"):
        compare(first, other)


def test_rollouts_that_pass_on_one_side_are_told_by_a_threshold(make_run):
    """Scores are 1 and 0.75, which both pass at 0.7; and 0.25, which fails."""
    first = make_run("a", RUBRIC, rows("MMU", "MMM"))
    second = make_run("b", RUBRIC, rows("MUU", "UMU"))
    found = compare(first, second)
    assert found.pass_rule == "score ≥ 1"
    assert [flip.example for flip in found.flips if flip.differs] == ["1", "0"]
    found = compare(first, second, pass_threshold=0.7)
    assert [(flip.example, flip.passed) for flip in found.flips if flip.differs] == [
        ("1", (True, False))
    ]
    assert "score ≥ 0.7" in str(found)


def test_pass_rates_are_compared_by_category_and_by_example(make_run):
    """Two rollouts of each of two examples: pass@2 of the first is 1, pass^2 is 0."""
    from assay import Rubric
    from assay.concurrency import run_sync
    from assay.runs import Run, score_rows

    rubric = Rubric.from_dict([{"check": {"contains": "yes"}, "name": "yes"}])
    parent = make_run("parent", RUBRIC, []).path.parent

    def make(name, answers):
        data = [
            {"id": example, "category": example, "task": example, "completion": text}
            for example, texts in answers.items()
            for text in texts
        ]
        run_sync(score_rows(rubric, data, folder=parent / name))
        return Run.open(parent / name)

    first = make("first", {"sums": ["yes", "no"], "words": ["no", "no"]})
    second = make("second", {"sums": ["yes", "yes"], "words": ["no", "yes"]})
    found = compare(first, second)
    rates = {(rates.category, rates.k): rates for rates in found.pass_rates}
    assert rates["", 1].any_passes == (0.25, 0.75)
    assert rates["sums", 2].any_passes == (1.0, 1.0)
    assert rates["sums", 2].all_pass == (0.0, 1.0)
    assert rates["words", 2].any_passes == (0.0, 1.0)
    sums = found.example_passes[0]
    assert (sums.example, sums.passed, sums.scored) == ("sums", (1, 2), (2, 2))
    assert "1 of 2" in str(found)


def test_what_is_not_compared_is_noted_where_a_comparison_is_shown(make_run):
    """A reworded criterion, one that is new, one that is gone, and examples that one run alone has."""
    first = [{"requirement": "Is polite"}, {"requirement": "Is short"}, {"requirement": "Is old"}]
    second = [
        {"requirement": "Is very polite", "name": "is_polite"},
        {"requirement": "Is short"},
        {"requirement": "Is new"},
    ]
    said = {"is_polite": "MET", "is_short": "MET"}
    found = compare(
        make_run("a", first, [("0", said | {"is_old": "MET"})]),
        make_run("b", second, [(n, said | {"is_new": "MET"}) for n in ("0", "1")]),
    )
    for shown in (str(found), found._repr_html_()):
        notes = [line for line in shown.splitlines() if "is_polite" in line]
        assert len(notes) == 1
        assert "not compared" in notes[0]
        assert all(name in shown for name in ("is_new", "is_old"))
        assert "1 example only in the second run" in shown


def test_runs_on_other_data_are_refused(make_run):
    """With an example of each."""
    first = make_run("a", RUBRIC, rows("M"))
    said = {"is_polite": "MET", "is_short": "MET"}
    with pytest.raises(TrustError, match="the first has '0', the second 'x'"):
        compare(first, make_run("b", RUBRIC, [("x", said)]))
    with pytest.raises(TrustError, match="no rows yet"):
        compare(first, make_run("c", RUBRIC, []))


def test_it_becomes_json(make_run):
    """Without NaN, flips and all."""
    first, second = make_run("a", RUBRIC, rows("MU")), make_run("b", RUBRIC, rows("UU"))
    data = json.loads(json.dumps(compare(first, second).to_dict(), allow_nan=False))
    assert data["flips"][0]["changes"][0]["criterion"] == "is_polite"


def test_rollouts_are_paired_in_any_order(make_run):
    """The second run has its rows in the opposite order, and samples that the first does not have."""
    said = {"is_polite": "MET", "is_short": "MET"}
    before = [{"example": str(n), "answers": said} for n in range(5)]
    after = [
        {"example": str(n), "sample": sample, "answers": {**said, "is_polite": "UNMET"}}
        for n in reversed(range(5))
        for sample in (0, 1)
    ]
    found = compare(make_run("a", RUBRIC, before), make_run("b", RUBRIC, after))
    assert sorted((flip.example, flip.sample) for flip in found.flips) == [
        (str(n), 0) for n in range(5)
    ]
    assert [change.setting for change in found.changes] == ["rollouts per example"]
