"""Rewards of turns inside the trainers' own loops: many turns, a failure in the middle, a rollout that ends early."""

import asyncio
import threading
from importlib import import_module
from types import SimpleNamespace

import pytest

from assay import Criterion, PerCriterionGrader, Rubric, RubricError, VersionedRubric
from assay.aggregation import UnscoredError
from assay.integrations import Dialogue, RewardMonitor, as_skyrl_env
from assay.integrations.trainer_envs import make_feedback
from assay.testing import FakeModel
from tests.trainers.loops import (
    CALL,
    DOWN,
    GOOD,
    PROMPT,
    RUBRIC,
    Tokenizer,
    openrlhf_module,
    openrlhf_response,
    respond,
    right,
    skyrl_episode,
    verifiers_trace,
    verl_batch,
    verl_worker,
)

pytestmark = pytest.mark.filterwarnings("default")  # trainers warn of much that is not ours
APART = "run by `make test-trl`, in an environment of its own"
SHORT = [
    {"check": {"max_words": 1}, "scope": "step", "combine": "mean"}
]  # the rubric of a row: 0, 1 and 1 for the turns


class TestSkyRL:
    """An environment that skyrl_gym makes, stepped as SkyRL's generator does."""

    @pytest.fixture(autouse=True)
    def gym(self):
        return pytest.importorskip("skyrl_gym", reason=APART)

    def test_the_changes_of_all_turns_add_up_to_the_reward(self):
        """The turn that shouts loses half of the process: 2, then 2 × 1/2, then 2 × 2/3 and 1 for the answer."""
        told, metrics = skyrl_episode(GOOD)
        assert [one["reward"] for one in told] == pytest.approx([2, -1, 2 * 2 / 3 + 1 - 1])
        assert [one["done"] for one in told] == [False, False, True]
        assert told[0]["observations"] == [{"role": "user", "content": "And?"}]
        assert told[2]["metadata"]["steps"] == [3, 1, 3]
        assert metrics == {
            "outcome": pytest.approx(7 / 3),
            "calm": pytest.approx(2 / 3),
            "right": 1,
            "unscored": 0,
            "turns": 3,
            "unscored_turns": 0,
        }

    @pytest.mark.parametrize(
        ("pays", "rewards", "is_unscored"),
        [("change", [2, -1], 0), ("whole", [2, 1], 0), ("last", [0, 0], 1)],
    )
    def test_a_rollout_that_is_cut_is_worth_what_it_was_by_then(self, pays, rewards, is_unscored):
        """The sum, or the last alone, is the reward of what was said; with `last` it is counted as unscored."""
        told, metrics = skyrl_episode(GOOD, room=2, pays=pays)
        assert [one["reward"] for one in told] == rewards
        assert not told[-1]["done"]
        assert metrics["unscored"] == is_unscored

    def test_step_wise_training_reads_the_last_turn_alone(self):
        """So every turn is paid all that the rollout is worth by then."""
        told, _ = skyrl_episode(GOOD, pays="whole")
        assert [one["reward"] for one in told] == pytest.approx([2, 1, 7 / 3])

    def test_a_failed_turn_is_counted_and_no_zero(self):
        """A step without an answer is an error on the whole line, so the turns add up to the 0 that was asked for."""
        told, metrics = skyrl_episode(DOWN, unscored="zero")
        assert [one["reward"] for one in told] == [2, 0, -2]
        assert told[2]["metadata"]["steps"] == [None, None, None]
        assert (metrics["unscored"], metrics["unscored_turns"]) == (1, 2)
        with pytest.raises(UnscoredError, match="the judge is down"):
            skyrl_episode(DOWN)

    def test_a_judge_that_comes_back_costs_nothing(self):
        """The next turn that can be scored is paid for both."""
        failures = iter([False, True])

        def flaky(messages):
            if next(failures, False):
                raise ConnectionError("the judge is down")
            return len(messages)

        told, metrics = skyrl_episode(GOOD, rubric=Rubric([flaky]), unscored="zero")
        assert [one["reward"] for one in told] == [1, 0, 4]
        assert (metrics["unscored"], metrics["unscored_turns"]) == (0, 1)

    def test_an_environment_that_fails_leaves_no_score(self):
        told, metrics = skyrl_episode(["I think.", "crash", "42"], unscored="zero")
        assert [(one["reward"], one["done"]) for one in told] == [(2, False), (-2, True)]
        assert metrics["unscored"] == 1
        with pytest.raises(UnscoredError, match="respond failed: OSError: the environment is gone"):
            skyrl_episode(["crash"])

    def test_the_most_turns_of_the_generator_end_it(self):
        """SkyRL tells its `max_turns` in the extras, and counts no turns itself."""
        told, _ = skyrl_episode(["I think."] * 9)
        assert [one["done"] for one in told] == [False] * 4 + [True]

    def test_a_row_may_bring_criteria_about_steps(self):
        """As any other rubric of a row."""
        told, _ = skyrl_episode(GOOD, rubric=Rubric([right]), extras={"rubric": SHORT})
        assert [one["reward"] for one in told] == pytest.approx([0, 1 / 2, 1 / 6])
        assert told[2]["metadata"]["steps"] == [0, 1, 1]

    def test_the_class_goes_to_another_process(self):
        """By cloudpickle, as Ray sends it."""
        cloudpickle = pytest.importorskip("cloudpickle")
        env = cloudpickle.loads(cloudpickle.dumps(as_skyrl_env(RUBRIC, respond=respond)))()
        assert env.step("I think.")["reward"] == 2

    def test_a_wrong_way_to_pay_is_refused(self):
        with pytest.raises(RubricError, match="pays is 'all': give 'change', 'whole' or 'last'"):
            as_skyrl_env(RUBRIC, respond=respond, pays="all")

    def test_a_monitor_sees_the_rollout_and_not_its_beginnings(self):
        seen = []
        skyrl_episode(
            GOOD,
            monitor=RewardMonitor(
                step_size=1, sinks=[lambda step, signs: seen.append(signs["unscored"])]
            ),
        )
        assert seen == [0]


class TestOpenRLHF:
    """Its own executor of many turns, and what it makes of the response."""

    @pytest.fixture(autouse=True)
    def openrlhf(self):
        pytest.importorskip("openrlhf.utils.agent", reason=APART)

    async def test_the_executor_gets_one_reward_and_the_turns_beside_it(self):
        """OpenRLHF keeps the sum alone, so it is the rubric's; each turn has a range of tokens and a reward."""
        told, asked = await openrlhf_response(GOOD)
        assert told["reward"] == pytest.approx(7 / 3)
        assert told["scores"] == pytest.approx(7 / 9)
        assert told["turn_rewards"] == [3, 1, 3]
        assert len(told["action_ranges"]) == 3
        assert told["extra_logs"] == {
            "outcome": told["reward"],
            "calm": pytest.approx(2 / 3),
            "right": 1,
            "unscored": 0,
            "turns": 3,
            "lowest_turn": 1,
        }
        assert (
            asked[1]
            == asked[0]
            + "I think.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
        )

    async def test_responses_become_one_batch_of_experience(self, monkeypatch):
        """By OpenRLHF's own generator of samples, with one that failed among them: all have the same keys."""
        samples = openrlhf_module("openrlhf.trainer.ppo_utils.samples_generator", monkeypatch)
        experience = import_module("openrlhf.trainer.ppo_utils.experience")
        told = [
            (await openrlhf_response(turns, unscored="zero"))[0] for turns in (GOOD, DOWN, ["42"])
        ]
        made = samples.SamplesGenerator._process_response_into_experience
        batch = experience.Experience.concat_experiences(
            [made(None, one, max_len=400) for one in told], pad_token_id=0
        )
        assert batch.rewards.tolist() == pytest.approx([7 / 3, 0, 3])
        assert batch.info["unscored"].tolist() == [0, 1, 0]
        assert batch.info["lowest_turn"].tolist() == [1, 0, 3]
        items = experience.split_experience_batch(batch)
        assert experience.make_experience_batch(items).info["turns"] == [3, 3, 1]

    def test_a_file_is_loaded_as_openrlhf_loads_it(self, tmp_path, monkeypatch):
        engine = openrlhf_module("openrlhf.trainer.ray.vllm_engine", monkeypatch)
        path = tmp_path / "agent.py"
        path.write_text(
            "from assay import Rubric\n"
            "from assay.integrations import openrlhf_agent_of\n"
            "rubric = Rubric.from_yaml('- {check: exact_match}')\n"
            "AgentExecutor = openrlhf_agent_of(rubric, lambda messages, row: None)\n"
        )
        assert type(engine._load_agent_executor(str(path))).__name__ == "RubricAgentExecutor"

    @pytest.mark.parametrize(
        ("turns", "why"),
        [(DOWN, "the judge is down"), (["I think.", "crash"], "the environment is gone")],
    )
    async def test_a_failure_is_counted(self, turns, why):
        """And stops the step where that was asked for."""
        with pytest.raises(UnscoredError, match=why):
            await openrlhf_response(turns)
        told, _ = await openrlhf_response(turns, unscored="zero")
        assert (
            told["reward"],
            told["extra_logs"]["unscored"],
            told["extra_logs"]["lowest_turn"],
        ) == (0, 1, 0)

    async def test_a_rollout_without_room_is_scored_as_it_stands(self):
        """The executor breaks off without asking the agent; two turns were said, one of them bad."""
        told, asked = await openrlhf_response(GOOD, max_length=170)
        assert len(asked) == 2
        assert told["reward"] == 1

    async def test_a_rollout_in_which_nothing_was_said_is_unscored(self):
        with pytest.raises(UnscoredError, match="before the model said anything"):
            await openrlhf_response(GOOD, max_length=20)

    async def test_a_label_may_bring_criteria_about_steps(self):
        told, _ = await openrlhf_response(GOOD, label={"rubric": SHORT})
        assert told["turn_rewards"] == [0, 1, 1]

    async def test_max_turns_end_it(self):
        told, _ = await openrlhf_response(["I think."] * 9, max_turns=2, max_length=4000)
        assert len(told["action_ranges"]) == 2


class TestFeedback:
    """What stands between two turns of the model, in OpenRLHF."""

    @pytest.mark.parametrize(
        ("action", "between"),
        [
            ("4<|im_end|>", "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"),
            ("4", "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"),
        ],
    )
    def test_a_turn_ends_once(self, action, between):
        """Whether the model ended its turn itself or was cut."""
        assert make_feedback(Tokenizer(), [{"role": "user", "content": "And?"}], action) == between

    def test_without_a_template_the_reply_follows_as_it_is(self):
        assert (
            make_feedback(object(), [{"role": "user", "content": "\nHuman: And?\n"}], "4")
            == "\nHuman: And?\n"
        )

    def test_a_template_without_turns_of_the_model_is_refused(self):
        tokenizer = SimpleNamespace(
            chat_template="x", apply_chat_template=lambda *_, **__: "Question: And?"
        )
        with pytest.raises(RubricError, match="leaves a turn of the assistant out"):
            make_feedback(tokenizer, [{"role": "user", "content": "And?"}], "4")


def succeeds(step):
    if "judge me" in step.arguments:
        raise ConnectionError("the judge is down")
    return step.succeeded


TOOLS = Rubric([Criterion(check=succeeds, scope="call", combine="mean", weight=2), right])


class TestVerl:
    """verl's own worker around its agent loop, with an engine that says what the test wants."""

    @pytest.fixture
    def worker(self):
        pytest.importorskip("verl", reason=APART)
        return verl_worker()

    async def test_turn_scores_are_the_rewards_of_the_turns(self, worker):
        """The reward stands at the last token, and no reward function is asked."""
        batch = await verl_batch(worker, [CALL % "book", CALL % "void", "42"], ["42"], rubric=TOOLS)
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 1, 2], [1]]
        assert batch.batch["rm_scores"].sum(dim=1).tolist() == [2, 1]
        assert batch.non_tensor_batch["succeeds"].tolist() == [0.5, 0]
        assert batch.meta_info["reward_extra_keys"] == [
            "score",
            "unscored",
            "outcome",
            "succeeds",
            "right",
        ]

    async def test_the_turns_are_the_runs_of_the_mask(self, worker):
        """So an estimator of one's own finds the tokens of each turn."""
        batch = await verl_batch(worker, [text + CALL % "book" for text in GOOD[:2]] + ["42"])
        mask = batch.batch["response_mask"][0].tolist()
        starts = sum(now and not before for before, now in zip([0, *mask], mask, strict=False))
        assert (starts, batch.non_tensor_batch["turn_scores"].tolist()) == (3, [[3, 1, 3]])

    async def test_a_failed_turn_is_counted(self, worker):
        turns = [CALL % "book", CALL % "judge me", "42"]
        with pytest.raises(UnscoredError, match="the judge is down"):
            await verl_batch(worker, turns, rubric=TOOLS)
        batch = await verl_batch(
            worker, turns, [CALL % "book", "42"], rubric=TOOLS, unscored="zero"
        )
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[None, None, None], [3, 3]]
        assert batch.non_tensor_batch["unscored"].tolist() == [1, 0]
        assert batch.batch["rm_scores"].sum(dim=1).tolist() == [0, 3]

    @pytest.mark.parametrize(
        ("setting", "most"), [("multi_turn.max_assistant_turns", 2), ("response_length", 117)]
    )
    async def test_the_turn_after_which_verl_stops_is_scored_too(self, worker, setting, most):
        """For their number or their length, 117 tokens by then: it is not among the messages that verl keeps."""
        import_module("omegaconf").OmegaConf.update(
            worker.config.actor_rollout_ref.rollout, setting, most
        )
        batch = await verl_batch(worker, [CALL % "book", "42"], rubric=TOOLS)
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 3]]

    async def test_the_record_of_the_newer_trainer_holds_both(self, worker):
        """It stores what the loop returns, with the reward at the last token."""

        async def stored(output, validate, **row):
            return output.as_dict()

        worker._agent_loop_postprocess, worker._postprocess = stored, lambda outputs: outputs
        [record] = await verl_batch(worker, [CALL % "book", CALL % "void", "42"], rubric=TOOLS)
        assert (record["rm_scores"][-1], record["rm_scores"].sum()) == (2, 2)
        assert record["extra_fields"]["turn_scores"] == [3, 1, 2]
        assert record["extra_fields"]["reward_extra_info"]["unscored"] == 0

    async def test_a_row_may_bring_criteria_about_steps(self, worker):
        batch = await verl_batch(worker, ["I think." + CALL % "book", "42"], info={"rubric": SHORT})
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[0, 1]]

    async def test_a_file_names_loop_and_rubric(self, worker, tmp_path):
        """As on the page: the `_target_` is a function of assay, and the rubric a path."""
        path = tmp_path / "rubric.yaml"
        path.write_text(
            "- {check: exact_match, weight: 3}\n- {check: {max_words: 2}, scope: step}\n"
        )
        loop = {
            "name": "turns",
            "_target_": "assay.integrations.verl.agent_loop",
            "rubric": str(path),
        }
        batch = await verl_batch(worker, [CALL % "book" + "a b c", "42"], loop=loop)
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 4]]


class TestVerifiers:
    """A task of verifiers 0.4 and a trace of its own graph."""

    @pytest.fixture(autouse=True)
    def vf(self):
        # Of 0.4 itself: a test of environments before it may have put ours in its place.
        pytest.importorskip("verifiers.v1.graph", reason=APART)
        return import_module("verifiers.v1")

    async def test_the_rewards_of_turns_are_metrics(self):
        """verifiers has one reward a trace; the turns are in its info too, in the order of the sampled nodes."""
        trace = await verifiers_trace(GOOD)
        assert trace.reward == pytest.approx(7 / 3)
        assert trace.info["assay"] == {"steps": [3, 1, 3]}
        assert [trace.metrics[f"turn_{n}"] for n in (1, 2, 3)] == [3, 1, 3]

    async def test_calls_have_their_results(self):
        """As the checks of tool calls read them."""
        trace = await verifiers_trace(GOOD, TOOLS, place="void")
        assert trace.info["assay"] == {"steps": [1, 1, 1]}

    async def test_a_failed_turn_errors_the_rollout(self, vf):
        with pytest.raises(vf.TaskError, match="the judge is down"):
            await verifiers_trace(DOWN)

    async def test_one_reply_is_a_text(self):
        trace = await verifiers_trace(["42"], Rubric([lambda completion: completion == "42"]))
        assert trace.reward == 1


class TestDialogue:
    """In a loop of one's own, without a trainer."""

    async def test_many_rollouts_take_turns_at_once(self):
        """A `respond` that blocks holds up no other rollout."""
        both = threading.Barrier(2, timeout=60)
        rollouts = [Dialogue("?", {}, lambda messages, row: both.wait() and None) for _ in range(2)]
        await asyncio.gather(*(one.add("4") for one in rollouts))
        assert all(one.is_over for one in rollouts)

    async def test_respond_sees_the_conversation_and_keeps_a_state(self):
        """It may be async and reply with messages; checks can name what it leaves in the row, and no other rollout sees it."""
        seen, given = [], {"answer": "42"}

        async def reply(messages, row):
            seen.append([message["content"] for message in messages])
            row["looked"] = row.get("looked", 0) + 1
            return [{"role": "user", "content": "And?"}] if row["looked"] < 2 else []

        rollout = Dialogue(PROMPT, given, reply)
        await rollout.add("I look.")
        await rollout.add("42")
        found = await rollout.score(Rubric([lambda looked, completion: looked + len(completion)]))
        assert seen == [
            ["Six times seven?", "I look."],
            ["Six times seven?", "I look.", "And?", "42"],
        ]
        assert found.reward == 2 + 3
        assert given == {"answer": "42"}

    async def test_what_the_model_has_not_answered_is_not_scored(self):
        """A rollout ends with a turn of the model, wherever it is cut."""
        rollout = Dialogue("?", {}, lambda messages, row: "And?")
        await rollout.add("I look.")
        found = await rollout.score(Rubric([lambda messages: len(messages)]))
        assert found.reward == 1

    @pytest.mark.parametrize("reply", [7, [{"content": "no role"}]])
    async def test_a_reply_that_is_no_message_is_the_trouble_of_the_rollout(self, reply):
        rollout = Dialogue("?", {}, lambda messages, row: reply)
        await rollout.add("I look.")
        found = await rollout.score(RUBRIC)
        assert rollout.is_over
        assert found.reward is None
        assert "respond failed: TableError: respond: " in found.error

    async def test_a_judge_is_asked_about_each_turn(self):
        """One that is down about one of them leaves the rollout and all its turns without a reward."""
        verdicts = {"m2": "MET", "m4": "UNMET", "m6": "MET"}

        def verdict(system, user):
            return next(verdicts[m] for m in verdicts if f"the conversation, {m}," in user)

        judged = Criterion(requirement="Says what is true", scope="step", combine="mean")
        rubric = VersionedRubric(Rubric([judged], judge=PerCriterionGrader(FakeModel(verdict))))
        rollout = Dialogue(PROMPT, {"answer": "42"}, respond)
        for text in GOOD:
            await rollout.add(text)
        found = await rollout.score(rubric)
        assert (found.reward, found.steps, found.version) == (
            pytest.approx(2 / 3),
            [1, 0, 1],
            rubric.version,
        )
        verdicts["m4"] = ConnectionError("the judge is down")
        found = await rollout.score(rubric)
        assert (found.reward, found.steps) == (None, [None, None, None])
        assert "the judge is down" in found.error

    async def test_a_reply_that_never_comes_holds_no_other_rollout(self):
        """More environments hang than a pool has threads, and the last rollout is replied to all the same."""
        gate = threading.Event()

        def respond(messages, row):
            if row["hangs"]:
                gate.wait()

        rollouts = [Dialogue("2+2?", {"hangs": number < 40}, respond) for number in range(41)]
        hanging = [asyncio.create_task(rollout.add("4")) for rollout in rollouts[:40]]
        async with asyncio.timeout(60):
            await rollouts[40].add("4")
            assert rollouts[40].is_over
            assert not any(task.done() for task in hanging)
            gate.set()
            await asyncio.gather(*hanging)
