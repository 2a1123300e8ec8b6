"""Subclasses that override scoring methods: which method is used, and what counts of what it writes."""

import pytest

from assay import GradingError, Rubric, RubricGroup, compat, envs
from assay.compat import verifiers as vf
from assay.testing import ModelServer


def words(completion):
    return float(len(completion.split()))


def one(completion):
    return 1.0


def broken(completion):
    raise OSError("no disk")


class Both(Rubric):
    """Adds 10 to the reward of a rollout, and 100 to those of a group."""

    async def score_rollout(self, state):
        report = await super().score_rollout(state)
        state["reward"] += 10
        return report

    async def score_group(self, states, **options):
        reports = await super().score_group(states, **options)
        for state in states:
            state["reward"] += 100
        return reports


def make_state():
    return {"completion": "a b c"}


def evaluate(kind, rubric, **options):
    """Return the only reward of an environment that asks once, and its errors."""
    package = vf if kind is vf.Rubric else envs
    env = package.SingleTurnEnv(dataset=[{"prompt": "Three words?", "answer": ""}], rubric=rubric)
    with ModelServer("a b c") as server:
        [output] = env.evaluate_sync(model=server.model, **options).outputs
    return output["reward"], output["errors"]


class TestTheMethodThatWasCalled:
    """A rubric that overrides two methods is used through the one that the caller called."""

    async def test_by_itself(self):
        rubric = Both([one])
        state = make_state()
        await rubric.score_rollout(state)
        assert state["reward"] == 11.0
        await rubric.score_group([state])
        assert state["reward"] == 101.0

    async def test_in_a_group(self):
        group = RubricGroup([Both([one]), Rubric([one])])
        state = make_state()
        await group.score_rollout(state)
        assert state["reward"] == 12.0
        await group.score_group([state])
        assert state["reward"] == 102.0

    async def test_in_a_group_inside_a_group(self):
        group = RubricGroup([RubricGroup([Both([one])])])
        state = make_state()
        await group.score_rollout(state)
        assert state["reward"] == 11.0

    @pytest.mark.parametrize("kind", [Rubric, vf.Rubric])
    async def test_as_a_criterion_of_another_rubric(self, kind):
        """A tenth, and a tenth or five of them from the override."""

        class AddsToScore(kind):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] += 0.1

            async def score_group(self, states, **options):
                await super().score_group(states, **options)
                for state in states:
                    state["reward"] += 0.5

        rubric = kind([AddsToScore([lambda completion: 0.1]).as_criterion()])
        state = make_state()
        await rubric.score_rollout(state)
        assert state["reward"] == pytest.approx(0.2)
        assert rubric.score_rollout_sync(completion="a b c")["reward"] == pytest.approx(0.2)
        assert rubric.grade_sync("a b c").raw_score == pytest.approx(0.2)
        await rubric.score_group([state])
        assert state["reward"] == pytest.approx(0.6)

    def test_from_synchronous_code(self):
        rubric = Both([one])
        assert rubric.score_rollout_sync(completion="a b c")["reward"] == 11.0
        assert rubric.grade_sync("a b c").raw_score == 11.0
        columns = rubric.score_rollouts([""], ["a b c"], [""])
        assert columns["reward"] == [101.0]

    def test_in_an_environment(self):
        """Which scores groups, or with verifiers' option each rollout by itself."""

        class BothOfTheirs(Both, vf.Rubric):
            pass

        assert evaluate(Rubric, Both([one])) == (101.0, {})
        assert evaluate(vf.Rubric, BothOfTheirs([one])) == (101.0, {})
        assert evaluate(vf.Rubric, BothOfTheirs([one]), independent_scoring=True) == (11.0, {})

    async def test_a_single_override_is_used_through_every_method(self):
        class OnlyRollout(Rubric):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] += 10

        states = [make_state(), make_state()]
        await OnlyRollout([one]).score_group(states)
        assert [state["reward"] for state in states] == [11.0, 11.0]

    async def test_a_base_method_that_an_override_calls_scores_by_the_criteria(self):
        class CallsGroup(Rubric):
            async def score_rollout(self, state):
                [report] = await self.score_group([state])
                state["reward"] = report.raw_score * 2
                return

        state = make_state()
        await CallsGroup([words]).score_rollout(state)
        assert state["reward"] == 6.0


@pytest.mark.parametrize("kind", [Rubric, vf.Rubric])
class TestWhatAnOverrideWrites:
    """It counts in a group too, where the group adds the rewards of its rubrics."""

    def make_doubling(self, kind):
        class Doubling(kind):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] = 2 * state["metrics"]["words"]

        return Doubling

    async def test_where_the_base_class_has_nothing_to_score(self, kind):
        """Three words, doubled, with a metric of weight 0; and 1 for the rubric beside it."""
        doubling = self.make_doubling(kind)([words], weights=[0.0])
        state = make_state()
        await RubricGroup([doubling, Rubric([one])]).score_rollout(state)
        assert state["reward"] == 7.0
        assert state["metrics"] == {"words": 3.0, "one": 1.0}

    async def test_in_a_group_of_states(self, kind):
        doubling = self.make_doubling(kind)([words], weights=[0.0])
        states = [make_state(), {"completion": "a"}]
        await RubricGroup([doubling]).score_group(states)
        assert [state["reward"] for state in states] == [6.0, 2.0]

    async def test_the_error_of_a_failed_metric_stays(self, kind):
        doubling = self.make_doubling(kind)([words, broken], weights=[0.0, 0.0])
        state = make_state()
        await RubricGroup([doubling, Rubric([one])]).score_rollout(state)
        assert state["reward"] == 7.0
        assert state["errors"] == {"broken": "OSError: no disk"}

    async def test_no_error_stays_that_nothing_was_to_score(self, kind):
        state = make_state()
        await self.make_doubling(kind)([words], weights=[0.0]).score_rollout(state)
        assert (state["reward"], "errors" in state) == (6.0, False)

    def test_in_an_environment(self, kind):
        doubling = self.make_doubling(kind)
        assert evaluate(kind, doubling([words], weights=[0.0])) == (6.0, {})
        assert evaluate(kind, doubling([words, broken], weights=[0.0, 0.0])) == (
            6.0,
            {"broken": "OSError: no disk"},
        )

    async def test_metrics_that_it_adds_are_reported(self, kind):
        class Noting(kind):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["metrics"]["noted"] = 5.0

        state = make_state()
        report = await RubricGroup([Noting([one])]).score_rollout(state)
        assert (state["reward"], report.metrics) == (1.0, {"one": 1.0, "noted": 5.0})


async def test_a_reward_that_is_set_after_a_failed_check_counts():
    """Natively the base class writes None, so that the override decided by itself."""

    class Lenient(Rubric):
        async def score_rollout(self, state):
            await super().score_rollout(state)
            if state["reward"] is None:
                state["reward"] = 0.25

    state = make_state()
    report = await RubricGroup([Lenient([broken])]).score_rollout(state)
    assert (state["reward"], report.scored) == (0.25, True)
    assert report.errors == {"broken": "OSError: no disk"}


async def test_what_is_added_to_the_number_of_an_unscored_rollout_is_no_score():
    """A rubric for verifiers writes the sum of what was answered: 0 + 10, and still no score."""

    class Adding(vf.Rubric):
        async def score_rollout(self, state):
            await super().score_rollout(state)
            state["reward"] += 10

    [report] = await RubricGroup([Adding([broken])]).score([make_state()])
    assert (report.scored, report.partial_reward) == (False, 10.0)


def test_grading_names_the_check_that_failed():
    """Also where an override has replaced the reward."""

    class Adding(vf.Rubric):
        async def score_rollout(self, state):
            await super().score_rollout(state)
            state["reward"] += 10

    with pytest.raises(GradingError, match="broken: OSError: no disk"):
        Adding([broken]).grade_sync("a b c")


def test_a_rubric_whose_only_failed_check_has_no_weight_is_not_called_unscored(caplog):
    vf.Rubric([broken], weights=[0.0]).score_rollout_sync(completion="a b c")
    assert "unscored" not in caplog.text


class TestAsVerifiersDoes:
    """With `strict = False` a method that is not overridden scores by the criteria: 3 words."""

    class OnlyGroup(vf.Rubric):
        async def score_group(self, states):
            await super().score_group(states)
            for state in states:
                state["reward"] += 100

    async def score(self, make):
        state = make_state()
        await make().score_rollout(state)
        states = [make_state()]
        await make().score_group(states)
        return state["reward"], states[0]["reward"]

    async def test_an_override_is_called_by_its_own_name_only(self, monkeypatch):
        assert await self.score(lambda: self.OnlyGroup([words])) == (103.0, 103.0)
        monkeypatch.setattr(compat, "strict", False)
        assert await self.score(lambda: self.OnlyGroup([words])) == (3.0, 103.0)

    async def test_in_a_group(self, monkeypatch):
        """One more for the rubric beside it."""

        def make():
            return vf.RubricGroup([self.OnlyGroup([words]), vf.Rubric([one])])

        assert await self.score(make) == (104.0, 104.0)
        monkeypatch.setattr(compat, "strict", False)
        assert await self.score(make) == (4.0, 104.0)

    def test_an_environment_scores_groups(self, monkeypatch):
        class OnlyRollout(vf.Rubric):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] += 10

        def split(completion):
            return words(completion if isinstance(completion, str) else completion[-1]["content"])

        assert evaluate(vf.Rubric, OnlyRollout([split])) == (13.0, {})
        monkeypatch.setattr(compat, "strict", False)
        assert evaluate(vf.Rubric, OnlyRollout([split])) == (3.0, {})
