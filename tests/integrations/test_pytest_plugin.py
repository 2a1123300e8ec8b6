"""Grades in tests: a threshold is missed as on the command line, and by a missing score always."""

import pytest

from assay import Rubric, RubricError
from assay.concurrency import run_sync
from assay.integrations import assert_grades, assert_not_worse
from assay.trust import TrustError

pytest_plugins = ("pytester",)


def says_yes(completion):
    return completion == "yes"


def answers(*completions):
    return [{"prompt": str(n), "completion": text} for n, text in enumerate(completions)]


def test_good_answers_pass():
    assert assert_grades(Rubric([says_yes]), answers(*["yes"] * 10), fail_under=0.9).score.mean == 1


def test_rows_are_read_from_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"completion": "yes"}\n{"completion": "no"}\n')
    for source in (path, str(path)):
        assert assert_grades(Rubric([says_yes]), source).score.mean == 0.5


@pytest.mark.parametrize(
    ("completions", "fail_under"),
    [(["no"], 0.5), (["yes"] * 7 + ["no"] * 3, 0.8), (["no"] * 30, 0.01)],
)
def test_a_mean_below_the_threshold_fails(completions, fail_under):
    """However few the rollouts are, and however wide the interval is."""
    mean = completions.count("yes") / len(completions)
    with pytest.raises(AssertionError, match=rf"mean score is {mean:g} over .* below {fail_under}"):
        assert_grades(Rubric([says_yes]), answers(*completions), fail_under=fail_under)


def test_a_single_score_below_the_threshold_fails():
    """0.1 is no pass at 0.99, though one rollout that is neither 0 nor 1 has no interval."""
    with pytest.raises(AssertionError, match=r"0\.1 over 1 rollout, which is below 0\.99"):
        assert_grades(Rubric([lambda: 0.1]), answers("text"), fail_under=0.99)


def test_the_interval_is_asked_for_by_name():
    """10 of 10 is a mean of 1, with a lower bound of 0.722."""
    rollouts = answers(*["yes"] * 10)
    assert_grades(Rubric([says_yes]), rollouts, fail_under=0.8, fail_interval_under=0.72)
    with pytest.raises(AssertionError, match=r"interval starts at 0\.722467, which is below 0\.8"):
        assert_grades(Rubric([says_yes]), rollouts, fail_interval_under=0.8)


def test_too_few_rollouts_for_an_interval_fail():
    """A hundred rollouts of one example have no interval, and a mean of 1 alone."""
    rollouts = [{"prompt": "same", "completion": "yes"}] * 100
    assert_grades(Rubric([says_yes]), rollouts, fail_under=0.5)
    with pytest.raises(AssertionError, match="too few for an interval: it is not known"):
        assert_grades(Rubric([says_yes]), rollouts, fail_interval_under=0.5)


def test_every_rollout_may_have_a_threshold():
    """A good mean does not hide one bad rollout, which is named by its place."""
    rollouts = answers(*["yes"] * 9, "no")
    with pytest.raises(AssertionError, match=r"1 of 10 rollouts scores below 0\.5: number 9"):
        assert_grades(Rubric([says_yes]), rollouts, fail_under=0.8, fail_rollout_under=0.5)


@pytest.mark.parametrize("name", ["fail_under", "fail_interval_under", "fail_rollout_under"])
@pytest.mark.parametrize("value", [80, -0.1, float("nan"), True, "much"])
def test_a_threshold_lies_between_0_and_1(name, value):
    """80 was meant as a percentage, and would never be met."""
    with pytest.raises(ValueError, match="is not a threshold: give a score between 0 and 1"):
        assert_grades(Rubric([says_yes]), answers("yes"), **{name: value})


def test_a_rollout_without_a_score_fails_and_says_why():
    def broken(completion):
        raise ConnectionError("no judge")

    with pytest.raises(AssertionError, match=r"1 of 1 rollout has no score\n.*\n    broken: Conn"):
        assert_grades(Rubric([broken]), answers("yes"), fail_under=0)


def test_a_failure_shows_the_worst_rollouts_with_criteria_reasons_and_texts():
    """The lowest score first, and of each the criteria that it failed; a fault that happened is one."""
    rubric = Rubric.from_dict(
        [
            {"check": {"contains": "sorry"}, "name": "apologises"},
            {"check": {"contains": "idiot"}, "name": "insults", "weight": -1},
        ]
    )
    texts = ["sorry", "no", "sorry, idiot", "you idiot", "sorry!"]
    rollouts = [{"id": f"mail-{n}", "completion": text} for n, text in enumerate(texts)]
    with pytest.raises(AssertionError) as failure:
        assert_grades(rubric, rollouts, fail_under=0.9)
    lines = str(failure.value).splitlines()
    assert lines[1] == "  mail-1, score 0: “no”"
    assert lines[2].startswith("    apologises: UNMET, ")
    assert lines[3] == "  mail-2, score 0: “sorry, idiot”"
    assert lines[4].startswith("    insults: happened")
    assert lines[5] == "  mail-3, score 0: “you idiot”"
    assert len(lines) == 8


def save_run(path, texts, rubric=None):
    from assay.runs import score_rows

    rubric = rubric or Rubric.from_dict([{"check": {"contains": "yes"}, "name": "agrees"}])
    rows = [{"id": f"q{n}", "completion": text} for n, text in enumerate(texts)]
    run_sync(score_rows(rubric, rows, folder=path))
    return path


def test_a_run_that_is_worse_than_its_baseline_fails(tmp_path):
    """By more than chance; and what fell is shown."""
    baseline = save_run(tmp_path / "baseline", ["yes"] * 8)
    worse = save_run(tmp_path / "worse", ["never"] * 7 + ["yes"])
    with pytest.raises(AssertionError) as failure:
        assert_not_worse(worse, baseline)
    lines = str(failure.value).splitlines()
    assert lines[0].startswith("the run is worse than the baseline: its mean score is 0.875 lower")
    assert lines[1] == "  q0, score 1 → 0: “never”"
    assert lines[2].startswith("    agrees: MET → UNMET")
    assert len(lines) == 7


def test_a_fall_within_chance_passes(tmp_path):
    baseline = save_run(tmp_path / "baseline", ["yes"] * 8)
    lower = save_run(tmp_path / "lower", ["never"] + ["yes"] * 7)
    assert assert_not_worse(lower, baseline).score.worse == 1
    assert assert_not_worse(baseline, lower).score.better == 1


def test_a_baseline_by_another_rubric_is_an_error_and_no_failure(tmp_path):
    other = Rubric.from_dict([{"check": {"contains": "y"}, "name": "agrees"}])
    baseline = save_run(tmp_path / "baseline", ["yes"] * 8, other)
    with pytest.raises(TrustError, match="different rubrics"):
        assert_not_worse(save_run(tmp_path / "run", ["yes"] * 8), baseline)


def test_no_rollouts_prove_nothing():
    with pytest.raises(RubricError, match="there are no rollouts to grade"):
        assert_grades(Rubric([says_yes]), [], fail_under=0.5)


@pytest.mark.slow
def test_the_fixture_takes_its_threshold_from_the_command_line(pytester, monkeypatch):
    """And the summary tells what came out."""
    # The plugins of other packages take longer to load than all the rest.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "assay.integrations.pytest_plugin")
    pytester.makepyfile(
        """
        from assay import Rubric

        def test_answers(grades):
            rollouts = [{"prompt": str(n), "completion": "no"} for n in range(30)]
            grades(Rubric([lambda completion: completion == "yes"]), rollouts)
        """
    )
    for name in ("fail-under", "fail-interval-under", "fail-rollout-under"):
        assert pytester.runpytest_subprocess(f"--assay-{name}=0.5").ret == 1
    refused = pytester.runpytest_subprocess("--assay-fail-under=80")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*'80' is not a threshold: give a score between 0 and 1*"])
    fine = pytester.runpytest_subprocess()
    assert fine.ret == 0
    fine.stdout.fnmatch_lines(["*test_answers: 0.000 (95 %: 0.000 to 0.114) over 30 rollouts"])
