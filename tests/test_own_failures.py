"""One rollout's failure stays its own: what is asked about many at once is asked again one by one."""

import asyncio
import sys

import pytest

from assay import Criterion, MathRubric, PerCriterionGrader, Rubric, RubricError, Score
from assay.math import verify_many
from assay.server import RemoteRubric, RewardServer

DEEP = r"\boxed{5" + "!" * 328 + "}"
"""Mathematics that nests deeper than the reader can follow."""


def states(*completions, answer="5"):
    return [{"completion": completion, "answer": answer} for completion in completions]


async def scored(rubric, rows):
    """The rewards and the errors of every row."""
    await rubric.score_group(rows)
    return [row["reward"] for row in rows], [row.get("errors") or None for row in rows]


def lengths(completions):
    """Takes many at a time, each for itself, and fails when one of them is bad."""
    if "bad" in completions:
        raise ValueError("this one cannot be read")
    return [len(completion) for completion in completions]


lengths.independent = True


class TestMathematics:
    async def test_an_answer_that_cannot_be_read_fails_alone(self):
        """The ten right answers beside it get their reward."""
        rewards, errors = await scored(MathRubric(), states(*[r"\boxed{5}"] * 10, DEEP))
        assert rewards[:10] == [1.0] * 10
        assert errors[:10] == [None] * 10
        assert rewards[10] in (0.0, None)
        assert (rewards[10] is None) == (errors[10] is not None)

    def test_verify_many_gives_a_verdict_for_every_pair(self):
        """A number of 5,000 digits that Python refuses to write is that pair's error alone."""
        verdicts = verify_many(
            [("5", "5"), ("5", DEEP), ("5", 10**5000), (10**5000, "5"), ("6", "5")]
        )
        assert [bool(verdict) for verdict in verdicts] == [True, False, False, False, False]
        assert verdicts[2].status == verdicts[3].status == "error"


class TestIndependentChecks:
    async def test_only_the_guilty_rollout_fails(self):
        """The lengths of the others are 1 and 3."""
        rewards, errors = await scored(Rubric([lengths]), states("a", "bad", "abc"))
        assert rewards == [1.0, None, 3.0]
        assert errors == [None, {"lengths": "ValueError: this one cannot be read"}, None]

    async def test_the_same_for_one_that_is_awaited(self):
        async def later(completions):
            return lengths(completions)

        later.independent = True
        assert (await scored(Rubric([later]), states("a", "bad")))[0] == [1.0, None]

    async def test_the_same_for_one_with_a_condition(self):
        """Where it does not hold, nothing is asked."""
        asked = Criterion(check=lengths, name="lengths", when="short")
        short = Criterion(check=lambda completion: len(completion) < 4, name="short", weight=0.0)
        rewards, _ = await scored(Rubric([short, asked]), states("a", "bad", "too long"))
        assert rewards == [1.0, None, None]

    async def test_the_same_when_the_answers_are_too_few(self):
        """One answer for many rollouts says nothing of any; asked alone, each has one."""

        def first_only(completions):
            return [1.0]

        first_only.independent = True
        assert (await scored(Rubric([first_only]), states("a", "b")))[0] == [1.0, 1.0]

    async def test_on_error_raise_still_raises(self):
        with pytest.raises(ValueError, match="cannot be read"):
            await Rubric([lengths], on_error="raise").score_group(states("a", "bad"))

    async def test_behind_a_server_too(self):
        """Also when the rubric raises what goes wrong."""
        for on_error in ("record", "raise"):
            with RewardServer(Rubric([lengths], on_error=on_error)) as server:
                rewards, errors = await scored(RemoteRubric(server.url), states("a", "bad", "abc"))
            assert rewards == [1.0, None, 3.0]
            assert "this one cannot be read" in errors[1]["lengths"]


async def test_a_check_that_compares_fails_its_group_and_says_so():
    """Asked about one rollout alone it would answer another question."""

    def shortest(completions):
        if "bad" in completions:
            raise ValueError("this one cannot be read")
        return [completion == min(completions, key=len) for completion in completions]

    rewards, errors = await scored(Rubric([shortest, lambda: 1.0]), states("a", "bad"))
    assert rewards == [None, None]
    assert errors[0] == errors[1]
    assert "2 rollouts" in errors[0]["shortest"]


async def test_a_rubric_inside_another_fails_for_one_rollout_alone():
    """Though it raises what goes wrong, and anything else with a `score` may."""
    inner = Rubric([lengths], on_error="raise", aggregation="sum", name="inner")
    rewards, errors = await scored(Rubric([inner.as_criterion()]), states("a", "bad", "abc"))
    assert rewards == [1.0, None, 3.0]
    assert errors[1] == {"inner": "ValueError: this one cannot be read"}


class TestOwnFormula:
    """A function as the aggregation."""

    @staticmethod
    def inverse(lines):
        return 1 / lines[0].value

    async def test_it_fails_for_one_rollout_alone(self):
        """The inverse of 2 and of nothing."""
        rubric = Rubric([lambda completion: len(completion)], aggregation=self.inverse)
        rewards, errors = await scored(rubric, states("ab", ""))
        assert rewards == [0.5, None]
        assert errors == [None, {"inverse": "ZeroDivisionError: float division by zero"}]

    async def test_on_error_raise_raises_it(self):
        rubric = Rubric([lambda: Score(0.0)], aggregation=self.inverse, on_error="raise")
        with pytest.raises(ZeroDivisionError):
            await rubric.score([{"completion": ""}])
        rubric = Rubric([lambda: 1.0], aggregation=lambda lines: "much", on_error="raise")
        with pytest.raises(RubricError, match="finite number"):
            await rubric.score([{"completion": ""}])


def runs(completion):
    exec(completion, {})
    return 1.0


async def runs_later(completion):
    await asyncio.sleep(0)
    return runs(completion)


def runs_many(completions):
    return [runs(completion) for completion in completions]


runs_many.independent = True


def formula(lines):
    return sys.exit("no") if lines[0].value > 5 else 1.0


async def judge(system_prompt, user_prompt):
    runs("exit()" if "exit()" in user_prompt else "")
    return {"explanation": "it runs", "criterion_status": "MET"}


class Running(Rubric):
    async def score_rollout(self, state):
        runs(state["completion"])
        return await super().score_rollout(state)


class Interruption(BaseException):
    """Not an `Exception`, as the outcomes of some test frameworks."""


class TestLeaving:
    @pytest.mark.parametrize(
        "rubric",
        [
            Rubric([runs]),
            Rubric([runs_later]),
            Rubric([runs_many]),
            Rubric([Criterion(check=runs, isolate=True)]),
            Rubric([Rubric([runs]).as_criterion()]),
            Rubric([lambda completion: len(completion)], aggregation=formula),
            Rubric([Criterion(requirement="It runs")], judge=PerCriterionGrader(judge)),
            Running([lambda: 1.0]),
        ],
        ids=["check", "async", "many", "isolated", "nested", "formula", "judge", "own method"],
    )
    async def test_code_that_calls_exit_is_that_rollouts_error(self, rubric):
        """The rollouts beside it are scored, and the program goes on."""
        rewards, errors = await scored(rubric, states("1", "exit()", "2"))
        assert rewards == [1.0, None, 1.0]
        assert ["SystemExit" in str(error) for error in errors] == [False, True, False]

    @pytest.mark.parametrize(
        "error",
        [
            SystemExit,
            GeneratorExit,
            RecursionError,
            MemoryError,
            asyncio.CancelledError,
            Interruption,
        ],
    )
    async def test_no_error_of_a_check_ends_the_batch(self, error):
        """Whatever class it is of."""

        def check(completion):
            if completion == "bad":
                raise error
            return 1.0

        rewards, errors = await scored(Rubric([check]), states("a", "bad", "b"))
        assert rewards == [1.0, None, 1.0]
        assert error.__name__ in errors[1]["check"]

    def test_an_interrupt_ends_the_batch(self):
        """The one who presses Ctrl-C means the program."""

        def check(completion):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Rubric([check]).score_rollouts(["", ""], ["a", "b"], ["", ""])

    async def test_on_error_raise_lets_exit_through(self):
        """As any other error."""
        with pytest.raises(SystemExit):
            await Rubric([runs], on_error="raise").score(states("exit()"))
