"""One rubric, one rollout, one reward: the same through every way in, and None where there is none."""

import asyncio
import json
import logging
import urllib.request
from types import SimpleNamespace

import pytest

import assay.compat.verifiers as vf
from assay import (
    Criterion,
    GradingError,
    Parser,
    PerCriterionGrader,
    Rollout,
    Rubric,
    RubricGroup,
    Score,
    SingleTurnEnv,
)
from assay.checks import ExactMatch, MaxWords
from assay.integrations import as_trl_reward, compute_scores_of, custom_rm_of
from assay.runs import Run, score_rows
from assay.server import RemoteRubric, RewardServer
from assay.testing import FakeModel, ModelServer


def by_score(rubric, rows):
    return [report.raw_score for report in asyncio.run(rubric.score(rows))]


def by_rollouts(rubric, rows):
    return by_score(rubric, [Rollout(**row) for row in rows])


def by_group(rubric, rows):
    states = [dict(row) for row in rows]
    asyncio.run(rubric.score_group(states))
    return [state["reward"] for state in states]


def by_single_states(rubric, rows):
    states = [dict(row) for row in rows]
    for state in states:
        asyncio.run(rubric.score_rollout(state))
    return [state["reward"] for state in states]


def by_columns(rubric, rows):
    columns = [[row.get(name, "") for row in rows] for name in ("prompt", "completion", "answer")]
    return rubric.score_rollouts(*columns)["reward"]


def by_flat_dict(rubric, rows):
    return [rubric.score_rollout_sync(**row)["reward"] for row in rows]


def by_grade(rubric, rows):
    def graded(row):
        try:
            return rubric.grade_sync(row["completion"], answer=row.get("answer", "")).raw_score
        except GradingError as error:
            return error.report.raw_score
        except TypeError:
            return None

    return [graded(row) for row in rows]


def numbered(rows):
    return [{"example_id": str(place), **row} for place, row in enumerate(rows)]


def by_rows(rubric, rows):
    found = []
    asyncio.run(score_rows(rubric, numbered(rows), on_row=found.append))
    return [row.reward for row in sorted(found, key=lambda row: int(row.example))]


def by_saved_run(rubric, rows, folder):
    asyncio.run(score_rows(rubric, numbered(rows), folder=folder))
    return [Run.open(folder).row(str(place)).reward for place in range(len(rows))]


def by_server(rubric, rows):
    with RewardServer(rubric) as server:
        request = urllib.request.Request(
            f"{server.url}/v1/score",
            json.dumps({"rollouts": rows}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as reply:
            return [item["reward"] for item in json.load(reply)["items"]]


def by_remote_rubric(rubric, rows):
    with RewardServer(rubric) as server:
        return by_group(RemoteRubric(server.url), rows)


def by_trl(rubric, rows):
    columns = {name: [row.get(name, "") for row in rows] for name in ("prompt", "completion")}
    answers = [row.get("answer", "") for row in rows]
    reward = as_trl_reward(rubric)
    paid = reward(columns["prompt"], columns["completion"], answer=answers)
    return asyncio.run(paid) if asyncio.iscoroutine(paid) else paid


def by_verl(rubric, rows):
    told = compute_scores_of(rubric, unscored="zero")(
        data_sources=["x"] * len(rows),
        solution_strs=[row["completion"] for row in rows],
        ground_truths=[row.get("answer", "") for row in rows],
        extra_infos=[{"index": 0}] * len(rows),
    )
    return [None if one["unscored"] else one["score"] for one in told]


def by_slime(rubric, rows):
    samples = [
        SimpleNamespace(
            prompt="",
            response=row["completion"],
            label=row.get("answer", ""),
            metadata={},
            remove_sample=False,
        )
        for row in rows
    ]
    reward = custom_rm_of(rubric, unscored="zero")
    paid = asyncio.run(reward(None, samples))
    unscored = [sample.metadata["assay"]["unscored"] for sample in samples]
    return [None if none else one for one, none in zip(paid, unscored, strict=True)]


WAYS = {
    "score": by_score,
    "score of Rollouts": by_rollouts,
    "score_group": by_group,
    "score_rollout": by_single_states,
    "score_rollouts": by_columns,
    "score_rollout_sync": by_flat_dict,
    "grade": by_grade,
    "score_rows": by_rows,
    "saved run": by_saved_run,
    "server": by_server,
    "RemoteRubric": by_remote_rubric,
    "TRL": by_trl,
    "verl": by_verl,
    "slime": by_slime,
}


@pytest.fixture(params=WAYS)
def rewards(request, tmp_path):
    """The rewards that a rubric gives to rows, by one of the ways in."""
    way = WAYS[request.param]
    if way is by_saved_run:
        return lambda rubric, rows: way(rubric, rows, tmp_path / "run")
    return way


def right(completion, answer):
    return completion == answer


def unlucky(completion):
    if "!" in completion:
        raise OSError("the compiler did not answer")
    return 1.0


class TestUnscored:
    """A rollout with a counted criterion that has no answer."""

    ROWS = ({"completion": "4", "answer": "4"}, {"completion": "4!", "answer": "4!"})

    def test_the_reward_is_none(self, rewards):
        """And never the sum of what was answered, through any way in."""
        assert rewards(Rubric([right, unlucky]), [*self.ROWS]) == [2.0, None]

    def test_a_fault_that_could_not_be_checked_is_no_full_credit(self, rewards):
        """A rubric of faults alone pays 0 at best."""
        assert rewards(Rubric([unlucky], weights=[-1.0]), [*self.ROWS]) == [-1.0, None]

    def test_the_partial_sum_stands_beside_it(self):
        """In states, in columns, in the flat dict and in reports; and only where there is no reward."""
        rubric = Rubric([right, unlucky], weights=[0.5, 1.0])
        states = [dict(row) for row in self.ROWS]
        reports = asyncio.run(rubric.score_group(states))
        assert [state.get("partial_reward") for state in states] == [None, 0.5]
        assert [report.partial_reward for report in reports] == [1.5, 0.5]
        assert [report.score for report in reports] == [1.0, None]
        columns = rubric.score_rollouts([""] * 2, ["4", "4!"], ["4", "4!"])
        assert (columns["reward"], columns["partial_reward"]) == ([1.5, None], [1.5, 0.5])
        flat = rubric.score_rollout_sync(completion="4!", answer="4!")
        assert flat == {"right": 1.0, "unlucky": None, "reward": None, "partial_reward": 0.5}
        assert "partial_reward" not in rubric.score_rollout_sync(completion="4", answer="4")

    def test_scoring_again_leaves_nothing_of_the_failure(self):
        """Neither the partial sum nor the errors."""
        state = dict(self.ROWS[1])
        asyncio.run(Rubric([unlucky]).score_rollout(state))
        assert (state["reward"], state["partial_reward"]) == (None, 0.0)
        asyncio.run(Rubric([right]).score_rollout(state))
        assert (state["reward"], state["errors"]) == (1.0, {})
        assert "partial_reward" not in state


def no_question(completion):
    return Score.not_applicable("nothing was asked") if completion == "-" else 1.0


CONDITIONAL = [
    Criterion(check=lambda completion: completion != "-", name="asks", weight=0.0),
    Criterion(check=right, name="right", when="asks"),
]


class TestNothingApplies:
    """A rollout to which no counted criterion applies is unscored, although nothing failed."""

    ROWS = ({"completion": "4", "answer": "4"}, {"completion": "-", "answer": "4"})

    @pytest.mark.parametrize(
        "criteria", [[no_question], CONDITIONAL], ids=["answered so", "by its condition"]
    )
    @pytest.mark.parametrize("aggregation", ["weighted", "mean"])
    def test_the_reward_is_none(self, rewards, criteria, aggregation):
        """Where the others get 1.0."""
        assert rewards(Rubric(criteria, aggregation=aggregation), [*self.ROWS]) == [1.0, None]

    def test_it_is_out_of_baselines_and_means(self):
        """The two scored rollouts, at 1 and 0, are half a point from their mean; the third is neither."""
        rows = [*self.ROWS, {"completion": "5", "answer": "4"}]
        states = [dict(row) for row in rows]
        asyncio.run(Rubric(CONDITIONAL).score_group(states))
        assert [state["advantage"] for state in states] == [0.5, None, -0.5]
        assert states[1]["errors"]["rubric"].startswith("NotApplicable: ")
        summary = asyncio.run(score_rows(Rubric(CONDITIONAL), rows))
        assert (summary.scored, summary.unscored, summary.reward.mean) == (2, 1, 0.5)
        assert summary.errors == {}

    def test_another_rubric_of_a_group_may_still_score_it(self, rewards):
        """1 + 1 where both apply, 1 where one does."""
        group = RubricGroup([Rubric([no_question]), Rubric([unlucky])])
        assert rewards(group, [*self.ROWS]) == [2.0, 1.0]

    def test_a_rubric_inside_another_does_not_apply_either(self, rewards):
        """Its line leaves the score of the rubric around it."""
        inner = Rubric([no_question], name="inner")
        assert rewards(Rubric([inner.as_criterion(), unlucky]), [*self.ROWS]) == [2.0, 1.0]


class Message:
    """A message as an SDK has it."""

    role = "assistant"

    def __init__(self, content):
        self.content = content


def said(content):
    return [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": content}]


class TestNoText:
    """A completion that is no text is no empty text."""

    # Without a word nothing is too long: an empty text is worth 1 here.
    RUBRIC = staticmethod(lambda: Rubric([MaxWords(3), ExactMatch()], parser=Parser()))

    @pytest.mark.parametrize(
        "completion",
        [4, said(4), said("4"), "4", {"role": "assistant", "content": "4"}, said(["4"])],
        ids=str,
    )
    def test_a_number_is_its_text(self, rewards, completion):
        """Against the answer 4, which a table may hold as a number too."""
        rows = [{"completion": completion, "answer": "4"}, {"completion": "5", "answer": "4"}]
        assert rewards(self.RUBRIC(), rows) == [2.0, 1.0]

    def test_so_is_a_fraction(self, rewards):
        assert rewards(self.RUBRIC(), [{"completion": 0.5, "answer": "0.5"}]) == [2.0]

    @pytest.mark.parametrize(
        "completion",
        [
            True,
            None,
            {"text": "4"},
            {},
            ["4"],
            [],
            [4],
            [{"content": "4"}],
            said(None),
            said(True),
            said({"a": 1}),
            said([4]),
            [{"role": "user", "content": "4"}],
        ],
        ids=str,
    )
    def test_anything_else_is_an_error(self, rewards, completion):
        """Of its rollout alone."""
        rows = [{"completion": completion, "answer": "4"}, {"completion": "4", "answer": "4"}]
        assert rewards(self.RUBRIC(), rows) == [None, 2.0]

    @pytest.mark.parametrize(
        "completion",
        [b"4", {"4"}, float("nan"), object(), [Message(None)]],
        ids=["bytes", "set", "nan", "object", "message"],
    )
    def test_so_is_what_json_cannot_hold(self, rewards, completion, request):
        if "[server-" in request.node.name:
            pytest.skip("a request is JSON")
        rows = [{"completion": completion, "answer": "4"}, {"completion": "4", "answer": "4"}]
        assert rewards(self.RUBRIC(), rows) == [None, 2.0]

    @pytest.mark.parametrize(
        ("completion", "kind"),
        [
            (True, "completion is True"),
            (None, "completion is null"),
            (["4"], "completion is ['4']"),
            (said(None), "last message is null"),
        ],
    )
    async def test_the_error_names_the_kind(self, completion, kind):
        """On every line that reads the completion, and on no other."""
        rubric = Rubric([MaxWords(3), lambda answer: answer == "4"])
        [report] = await rubric.score([{"completion": completion, "answer": "4"}])
        assert report.errors["max_words"].startswith("TypeError: ")
        assert kind in report.errors["max_words"]
        assert report.metrics == {"check_2": 1.0}

    async def test_a_judge_is_not_asked_about_it(self):
        """An empty text would be judged, and pay for a fault that is not there."""
        model = FakeModel("UNMET")
        rubric = Rubric([{"requirement": "Is rude", "weight": -1.0}])
        grader = PerCriterionGrader(generate_fn=model)
        rows = [{"completion": True}, {"completion": "Go away."}]
        reports = await rubric.score(rows, judge=grader)
        assert [report.raw_score for report in reports] == [None, 0.0]
        assert len(model.calls) == 1

    async def test_on_error_raise_raises(self):
        with pytest.raises(TypeError, match="True"):
            await Rubric([MaxWords(3)], on_error="raise").score([{"completion": True}])

    async def test_calls_of_tools_need_no_words(self):
        """A message that calls a tool has none, and is an empty text."""
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}
        [report] = await Rubric([MaxWords(3)]).score([{"completion": [call]}])
        assert report.raw_score == 1.0

    async def test_checks_that_need_no_completion_are_asked_without_one(self):
        [report] = await Rubric([lambda answer: answer]).score([{"answer": 0.5}])
        assert report.raw_score == 0.5


class Generous(Rubric):
    """Adds to the reward, and returns nothing, as a rubric written for verifiers does."""

    async def score_rollout(self, state):
        await super().score_rollout(state)
        state["reward"] += 10


class GenerousByScore(Rubric):
    """Asks another method of the base class."""

    async def score_rollout(self, state):
        [report] = await self.score([state])
        state["reward"] = report.raw_score + 10


class GenerousByGroup(Rubric):
    async def score_group(self, states):
        await super().score_group(states)
        for state in states:
            state["reward"] += 10


class GenerousReport(Rubric):
    async def score_rollout(self, state):
        report = await super().score_rollout(state)
        return report.model_copy(update={"raw_score": report.raw_score + 10})


class GenerousScore(Rubric):
    async def score(self, rollouts, *, judge=None):
        reports = await super().score(rollouts, judge=judge)
        return [
            report.model_copy(update={"raw_score": report.raw_score + 10}) for report in reports
        ]


class Alone(Rubric):
    """Has no functions, and does not ask the base class."""

    async def score_rollout(self, state):
        state["reward"] = 11.0 if state["completion"] == state["answer"] else 10.0
        state["metrics"] = {"mine": 1.0}


OWN = [
    Generous([right]),
    GenerousByScore([right]),
    GenerousByGroup([right]),
    GenerousReport([right]),
    GenerousScore([right]),
    Alone(),
]


@pytest.mark.parametrize("rubric", OWN, ids=lambda rubric: type(rubric).__name__)
class TestOwnMethods:
    """A class with a `score_rollout`, `score_group` or `score` of its own is scored by that."""

    ROWS = ({"completion": "4", "answer": "4"}, {"completion": "5", "answer": "4"})

    def test_by_itself(self, rewards, rubric):
        """1 and 0 for the answer, and 10 of its own."""
        if isinstance(rubric, GenerousReport):
            rubric = RubricGroup([rubric])  # called by hand, its state has what it wrote there
        assert rewards(rubric, [*self.ROWS]) == [11.0, 10.0]

    def test_in_a_group(self, rewards, rubric):
        """Its reward is added to that of the others: 1 each."""
        group = RubricGroup([Rubric([lambda: 1.0]), rubric])
        assert rewards(group, [*self.ROWS]) == [12.0, 11.0]

    def test_in_an_environment(self, rubric):
        """The model says 4 to both; the group of the environment and the monitor is asked too."""
        data = [{"question": "2+2?", "answer": "4"}, {"question": "3+3?", "answer": "6"}]
        env = SingleTurnEnv(data, rubric=_on_texts(rubric))
        with ModelServer("4") as server:
            results = env.evaluate(model=server.model)
            assert results["reward"] == [11.0, 10.0]
            assert [state["reward"] for state in results["state"]] == [11.0, 10.0]
            env.add_rubric(Rubric([lambda: 1.0]))
            assert env.evaluate(model=server.model)["reward"] == [12.0, 11.0]
            repeated = env.evaluate(model=server.model, rollouts_per_example=2)
        assert repeated["reward"] == [12.0, 12.0, 11.0, 11.0]
        assert repeated["advantage"] == [0.0] * 4

    def test_the_state_of_a_group_has_the_total_alone(self, rubric):
        """Advantage and step rewards are from the total, and scores are written once."""
        states = [{**row, "trajectory": [{"step": 1}]} for row in self.ROWS]
        asyncio.run(RubricGroup([rubric, Rubric([lambda: 1.0])]).score_group(states))
        assert [state["advantage"] for state in states] == [0.5, -0.5]
        assert [state["trajectory"][0]["reward"] for state in states] == [12.0, 11.0]
        assert "errors" not in states[0]


def _on_texts(rubric):
    """The same rubric for chats."""
    if isinstance(rubric, Alone):

        class AloneOnTexts(Rubric):
            async def score_rollout(self, state):
                said = state["completion"][-1]["content"]
                state["reward"] = 11.0 if said == state["answer"] else 10.0

        return AloneOnTexts()
    return type(rubric)([right_text])


class TestOwnMethodsThatFail:
    """What a subclass's own method does wrong is said on the line, and is no zero."""

    ROWS = ({"completion": "4"}, {"completion": "4!"})

    def test_one_that_raises_fails_its_rollout_alone(self, rewards):
        class Unlucky(Rubric):
            async def score_rollout(self, state):
                state["reward"] = unlucky(state["completion"])

        assert rewards(RubricGroup([Unlucky()]), [*self.ROWS]) == [1.0, None]

    def test_one_that_writes_no_reward_is_an_error(self, rewards):
        class Forgetful(Rubric):
            async def score_rollout(self, state):
                state["metrics"] = {"a": 1.0}

        assert rewards(RubricGroup([Forgetful(), Rubric([right])]), [*self.ROWS]) == [None, None]

    async def test_the_error_says_what_to_do(self):
        class Loud(Rubric):
            async def score_group(self, states):
                for state in states:
                    state["reward"] = "much"

        [report] = await Loud().score([{"completion": "4"}])
        assert report.raw_score is None
        [error] = report.errors.values()
        assert all(part in error for part in ("score_group of Loud", "'much'", "finite number"))

    async def test_a_criterion_that_fails_inside_keeps_its_error(self):
        """Natively there is nothing to add to, and through verifiers' names no number passes for a score."""
        for kind in (Rubric, vf.Rubric):

            class Adding(kind):
                async def score_rollout(self, state):
                    await super().score_rollout(state)
                    state["reward"] += 10

            [report] = await RubricGroup([Adding([unlucky])]).score([{"completion": "4!"}])
            assert report.scored is False
            assert report.errors == {"unlucky": "OSError: the compiler did not answer"}


class TestVerifiersNames:
    """Programs written for verifiers add rewards up, so there a reward is always a number."""

    async def test_a_rubric_keeps_a_number_and_warns_once(self, caplog):
        """The sum of what was answered, with the errors beside it and no advantage."""
        caplog.set_level(logging.WARNING, logger="assay")
        rubric = vf.Rubric([right, unlucky])
        for _ in range(2):
            states = [dict(row) for row in TestUnscored.ROWS]
            await rubric.score_group(states)
            assert [state["reward"] for state in states] == [2.0, 1.0]
            assert [state["advantage"] for state in states] == [0.0, None]
            assert "OSError" in states[1]["errors"]["unlucky"]
        assert rubric.score_rollout_sync(completion="4!", answer="")["reward"] == 0.0
        warned = [one for one in caplog.records if one.levelname == "WARNING"]
        assert len(warned) == 1
        assert "1 of 2 rollouts are unscored" in warned[0].getMessage()

    def test_every_rubric_of_it_does(self):
        """Groups and ready-made rubrics are rubrics of the same kind."""
        kinds = (vf.MathRubric, vf.RubricGroup, vf.JudgeRubric, vf.ToolRubric, vf.SmolaToolRubric)
        assert all(issubclass(kind, vf.Rubric) for kind in kinds)
        group = vf.RubricGroup([vf.Rubric([right]), vf.Rubric([unlucky])])
        assert group.score_rollout_sync(completion="4!", answer="4!")["reward"] == 1.0

    def test_an_environment_does_too(self, caplog):
        """In its results and states; the mean leaves the rollout out nevertheless."""
        caplog.set_level(logging.WARNING, logger="assay")
        data = [{"question": "2+2?", "answer": "4"}, {"question": "3+1?", "answer": "4!"}]
        env = vf.SingleTurnEnv(dataset=data, rubric=Rubric([right_text, unlucky_answer]))
        with ModelServer("4") as server:
            results = env.evaluate(model=server.model)
        assert (results["reward"], results.metadata["avg_reward"]) == ([2.0, 0.0], 2.0)
        assert [state["reward"] for state in results["state"]] == [2.0, 0.0]
        assert "1 of 2 rollouts are unscored" in caplog.text


def right_text(completion, answer, parser):
    return parser.parse_answer(completion) == answer


def unlucky_answer(answer):
    return unlucky(answer)
