"""Checks that take many rollouts at once and answer for each by itself: `independent = True`."""

import pytest

from assay import Criterion, Rubric, RubricError, Score, SignatureError


def lengths(completions) -> list[float]:
    """One call for all, and how long each text is."""
    lengths.calls += 1
    return [float(len(completion)) for completion in completions]


lengths.independent = True
lengths.calls = 0


@pytest.fixture(autouse=True)
def _uncalled():
    lengths.calls = 0


async def test_a_single_rollout_can_be_scored():
    """Unlike with a function that compares the rollouts of a group."""
    state = {"completion": "abc"}
    await Rubric([lengths]).score_rollout(state)
    assert state["reward"] == 3.0

    def compared(completions):
        return [1.0] * len(completions)

    with pytest.raises(RubricError, match=r"compared.*group"):
        await Rubric([compared]).score_rollout(state)


async def test_a_whole_batch_is_one_call():
    """Two thousand rollouts too."""
    states = [{"completion": "x" * (n % 7)} for n in range(2000)]
    await Rubric([lengths]).score_group(states)
    assert lengths.calls == 1
    assert [state["reward"] for state in states] == [float(n % 7) for n in range(2000)]


async def test_it_may_be_asked_only_when_something_else_holds():
    """And is then called for those rollouts alone."""
    rubric = Rubric(
        [
            Criterion(check=lambda completion: "a" in completion, name="has_a"),
            Criterion(check=lengths, name="length", when="has_a"),
        ]
    )
    first, second = await rubric.score([{"completion": "cat"}, {"completion": "dog"}])
    assert first.metrics == {"has_a": 1.0, "length": 3.0}
    assert second.report[1].verdict == "N/A"


class TestMissingFields:
    async def test_a_rollout_without_the_field_fails_alone(self):
        """The others keep their numbers."""
        states = [{"completion": "abc"}, {"prompt": "q"}, {"completion": "a"}]
        await Rubric([lengths]).score_group(states)
        assert [state["reward"] for state in states] == [3.0, None, 1.0]
        assert [state["advantage"] for state in states] == [1.0, None, -1.0]
        assert "'completion'" in states[1]["errors"]["lengths"]

    async def test_with_raise_the_error_is_raised(self):
        """As from any check."""
        with pytest.raises(SignatureError, match="'completion'"):
            await Rubric([lengths], on_error="raise").score([{"completion": "a"}, {"prompt": "q"}])

    async def test_a_field_of_no_rollout_is_an_error_of_each(self):
        """With the fields that are there."""
        reports = await Rubric([lengths]).score([{"prompt": "q"}, {"prompt": "r"}])
        for report in reports:
            assert "needs an argument 'completions'" in report.errors["lengths"]
            assert "(columns: prompt)" in report.errors["lengths"]


async def test_reasons_and_errors_travel_by_rollout():
    """One is right, one is wrong, and one is nobody's fault; 2 · 1.0 + 0.5 for the first."""

    def verdicts(completions):
        said = {"a": Score(True, "as expected"), "b": Score(0.0, "it is b")}
        return [said.get(completion, Score.failed("OSError: gone")) for completion in completions]

    verdicts.independent = True
    rubric = Rubric([verdicts, lambda: 0.5], weights=[2.0, 1.0])
    states = [{"completion": text} for text in "abc"]
    reports = await rubric.score_group(states)
    assert [report.report[0].reason for report in reports] == ["as expected", "it is b", ""]
    assert [report.report[0].verdict for report in reports] == ["MET", None, None]
    assert [state["reward"] for state in states] == [2.5, 0.5, None]
    assert [report.partial_reward for report in reports] == [2.5, 0.5, 0.5]
    assert [state["advantage"] for state in states] == [1.0, -1.0, None]
    assert [report.scored for report in reports] == [True, True, False]
    assert states[2]["errors"] == {"verdicts": "OSError: gone"}
    assert states[2]["metrics"] == {"check_2": 0.5}


async def test_a_metric_that_fails_leaves_the_rollout_scored():
    """Nothing that counts is missing."""

    def broken(completions):
        return [Score.failed("OSError: gone") for _ in completions]

    states = [{"completion": "abc"}, {"completion": "a"}]
    await Rubric([lengths, broken], weights=[1.0, 0.0]).score_group(states)
    assert [state["advantage"] for state in states] == [1.0, -1.0]
    assert [state["errors"] for state in states] == [{"broken": "OSError: gone"}] * 2
