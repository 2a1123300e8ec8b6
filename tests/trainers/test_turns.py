"""Rewards of turns inside the trainers' own loops: many turns, a failure in the middle, a rollout that ends early."""

import asyncio
import threading
from importlib import import_module
from types import SimpleNamespace

import pytest

from assay import Criterion, Rubric
from assay.aggregation import UnscoredError
from assay.errors import RubricError
from assay.integrations import (
    Dialogue,
    RewardMonitor,
    agent_loop_of,
    as_skyrl_env,
    as_verifiers_reward,
    openrlhf_agent_of,
)
from assay.integrations.agents import feedback_of
from tests.trainers.conftest import made_tokenizer

pytestmark = pytest.mark.filterwarnings("default")  # trainers warn of much that is not ours

PROMPT = [{"role": "user", "content": "Six times seven?"}]
GOOD = ["I think.", "SHOUT", "42"]  # of three turns the second is bad: 2 × 2/3 for the process, 1 for the answer
DOWN = ["I think.", "judge me", "42"]


def calm(step):
    if step.text == "judge me":
        raise ConnectionError("the judge is down")
    return not step.text.isupper()


def right(completion, answer):
    last = completion if isinstance(completion, str) else completion[-1]["content"]
    return last == answer


def respond(messages, row):
    """Ask on until there is a number."""
    text = messages[-1]["content"]
    if text == "crash":
        raise OSError("the environment is gone")
    row["asked"] = row.get("asked", 0) + 1
    return None if text.isdigit() else "And?"


RUBRIC = Rubric([Criterion(check=calm, scope="step", combine="mean", weight=2), right])


class TestSkyRL:
    """The loop of SkyRL's generator: it steps until an environment is done, or until there is no more room."""

    @pytest.fixture(autouse=True)
    def gym(self):
        return pytest.importorskip("skyrl_gym", reason="run by `make test-trl`, in an environment of its own")

    def episode(self, gym, turns, room=9, **options):
        registration = import_module("skyrl_gym.envs.registration")
        registration.registry.pop("turns", None)
        registration.register(id="turns", entry_point=as_skyrl_env(RUBRIC, respond=respond, **options))
        env = gym.make("turns", env_config={}, extras={"reward_spec": {"ground_truth": "42"}, "max_turns": 5})
        env.init(PROMPT)
        told = []
        for text in turns[:room]:
            told.append(env.step(text))
            if told[-1]["done"]:
                break
        return told, env.get_metrics()

    def test_the_changes_of_all_turns_add_up_to_the_reward(self, gym):
        """The turn that shouts loses half of the process: 2, then 2 × 1/2, then 2 × 2/3 and 1 for the answer."""
        told, metrics = self.episode(gym, GOOD)
        assert [one["reward"] for one in told] == pytest.approx([2, -1, 2 * 2 / 3 + 1 - 1])
        assert [one["done"] for one in told] == [False, False, True]
        assert told[0]["observations"] == [{"role": "user", "content": "And?"}]
        assert told[2]["metadata"]["steps"] == [3, 1, 3]
        assert metrics == {
            "outcome": pytest.approx(7 / 3), "calm": pytest.approx(2 / 3), "right": 1, "unscored": 0, "turns": 3,
            "unscored_turns": 0,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("pays", "rewards", "cut"), [("change", [2, -1], 1), ("whole", [2, 1], 1), ("last", [0, 0], None)]
    )
    def test_a_rollout_that_is_cut_is_worth_what_it_was_by_then(self, gym, pays, rewards, cut):
        """The sum, or the last alone, is the reward of what was said; with `last` it is counted as unscored."""
        told, metrics = self.episode(gym, GOOD, room=2, pays=pays)
        assert [one["reward"] for one in told] == rewards
        assert not told[-1]["done"]
        assert metrics["unscored"] == (cut is None)

    def test_step_wise_training_reads_the_last_turn_alone(self, gym):
        """So every turn is paid all that the rollout is worth by then."""
        told, _ = self.episode(gym, GOOD, pays="whole")
        assert [one["reward"] for one in told] == pytest.approx([2, 1, 7 / 3])

    def test_a_failed_turn_is_counted_and_no_zero(self, gym):
        """All steps of the criterion stay an error, so the whole rollout is unscored: its turns add up to the 0 asked for."""
        told, metrics = self.episode(gym, DOWN, unscored="zero")
        assert [one["reward"] for one in told] == [2, 0, -2]
        assert told[2]["metadata"]["steps"] == [None, None, None]
        assert (metrics["unscored"], metrics["unscored_turns"]) == (1, 2)
        with pytest.raises(UnscoredError, match="the judge is down"):
            self.episode(gym, DOWN)

    def test_a_judge_that_comes_back_costs_nothing(self, gym, monkeypatch):
        """The next turn that can be scored is paid for both."""
        failures = iter([False, True])

        def flaky(completion):
            if next(failures, False):
                raise ConnectionError("the judge is down")
            return len(completion)

        monkeypatch.setattr(f"{__name__}.RUBRIC", Rubric([flaky]))
        told, metrics = self.episode(gym, GOOD, unscored="zero")
        assert [one["reward"] for one in told] == [1, 0, 4]
        assert (metrics["unscored"], metrics["unscored_turns"]) == (0, 1)

    def test_an_environment_that_fails_leaves_no_score(self, gym):
        told, metrics = self.episode(gym, ["I think.", "crash", "42"], unscored="zero")
        assert [(one["reward"], one["done"]) for one in told] == [(2, False), (-2, True)]
        assert metrics["unscored"] == 1
        with pytest.raises(UnscoredError, match="respond failed: OSError: the environment is gone"):
            self.episode(gym, ["crash"])

    def test_the_most_turns_of_the_generator_end_it(self, gym):
        """SkyRL tells its `max_turns` in the extras, and counts no turns itself."""
        told, _ = self.episode(gym, ["I think."] * 9)
        assert [one["done"] for one in told] == [False] * 4 + [True]

    def test_a_row_may_bring_criteria_about_steps(self, gym):
        """As any other rubric of a row."""
        own = [{"check": {"max_words": 1}, "scope": "step", "combine": "mean"}]
        env = as_skyrl_env(Rubric([right]), respond=respond)(extras={"rubric": own})
        env.init(PROMPT)
        told = [env.step(text) for text in GOOD]
        assert [one["reward"] for one in told] == pytest.approx([0, 1 / 2, 1 / 6])
        assert told[2]["metadata"]["steps"] == [0, 1, 1]

    def test_the_class_goes_to_another_process(self, gym):
        """By cloudpickle, as Ray sends it."""
        cloudpickle = pytest.importorskip("cloudpickle")
        env = cloudpickle.loads(cloudpickle.dumps(as_skyrl_env(RUBRIC, respond=respond)))()
        assert env.step("I think.")["reward"] == 2

    def test_a_wrong_way_to_pay_is_refused(self, gym):
        with pytest.raises(RubricError, match="pays is 'all': give 'change', 'whole' or 'last'"):
            as_skyrl_env(RUBRIC, respond=respond, pays="all")

    def test_a_monitor_sees_the_rollout_and_not_its_beginnings(self, gym):
        seen = []
        monitor = RewardMonitor(step_size=1, sinks=[lambda step, signs: seen.append(step)])
        self.episode(gym, GOOD, monitor=monitor)
        assert seen == [1]


class Tokenizer:
    """Characters as tokens, with a template in which turns end with `<|im_end|>`."""

    all_special_tokens = ("<|im_end|>",)
    chat_template = "chatml"

    def __call__(self, text, **_):
        return {"input_ids": import_module("torch").tensor([[ord(sign) for sign in text]])}

    def decode(self, tokens, **_):
        return "".join(map(chr, tokens))

    def apply_chat_template(self, messages, *, add_generation_prompt, **_):
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return text + "<|im_start|>assistant\n" * add_generation_prompt


class TestOpenRLHF:
    """Its own executor of many turns, loaded as from a file."""

    async def executed(self, turns, max_length=400, label="42", **options):
        pytest.importorskip("openrlhf.utils.agent", reason="run by `make test-trl`, in an environment of its own")
        asked, written = [], iter(turns)

        class Engine:
            async def generate(self, tokens, params, **_):
                asked.append("".join(map(chr, tokens)))
                text = f"{next(written)}<|im_end|>"
                out = SimpleNamespace(token_ids=[*map(ord, text)], text=text, finish_reason="stop", logprobs=None)
                return SimpleNamespace(outputs=[out])

        executor = openrlhf_agent_of(RUBRIC, respond, **options)()
        params = SimpleNamespace(max_tokens=20, logprobs=None)
        prompt = Tokenizer().apply_chat_template(PROMPT, add_generation_prompt=True)
        told = await executor.execute(
            prompt=prompt, label=label, sampling_params=params, max_length=max_length, hf_tokenizer=Tokenizer(),
            llm_engine=Engine(), images=None,
        )  # fmt: skip
        return told, asked

    async def test_the_executor_gets_one_reward_and_the_turns_beside_it(self):
        """OpenRLHF keeps the sum alone, so it is the rubric's; each turn has a range of tokens and a reward."""
        told, asked = await self.executed(GOOD)
        assert told["reward"] == pytest.approx(7 / 3)
        assert told["scores"] == pytest.approx(7 / 9)
        assert told["turn_rewards"] == [3, 1, 3]
        assert len(told["action_ranges"]) == 3
        assert told["extra_logs"] == {
            "outcome": told["reward"], "calm": pytest.approx(2 / 3), "right": 1, "unscored": 0, "turns": 3,
            "lowest_turn": 1,
        }  # fmt: skip
        assert asked[1] == asked[0] + "I think.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"

    async def test_it_becomes_an_experience(self):
        """As OpenRLHF's generator makes one of the response, with all logs as numbers."""
        torch = pytest.importorskip("torch")
        told, _ = await self.executed(GOOD)
        info = {name: torch.tensor([value]) for name, value in told["extra_logs"].items()}
        assert all(torch.isfinite(value).all() for value in info.values())
        assert torch.tensor([told["reward"]]).dtype == torch.float32

    @pytest.mark.parametrize(
        ("turns", "why"), [(DOWN, "the judge is down"), (["I think.", "crash"], "the environment is gone")]
    )
    async def test_a_failure_is_counted(self, turns, why):
        with pytest.raises(UnscoredError, match=why):
            await self.executed(turns)
        told, _ = await self.executed(turns, unscored="zero")
        assert (told["reward"], told["extra_logs"]["unscored"], told["extra_logs"]["lowest_turn"]) == (0, 1, 0)

    async def test_a_rollout_without_room_is_scored_as_it_stands(self):
        """The executor breaks off without asking the agent; two turns were said, one of them bad."""
        told, asked = await self.executed(GOOD, max_length=170)
        assert len(asked) == 2
        assert told["reward"] == 1

    async def test_a_rollout_in_which_nothing_was_said_is_unscored(self):
        with pytest.raises(UnscoredError, match="before the model said anything"):
            await self.executed(GOOD, max_length=20)

    async def test_a_label_may_bring_criteria_about_steps(self):
        own = {"rubric": [{"check": {"max_words": 1}, "scope": "step", "combine": "mean"}]}
        told, _ = await self.executed(GOOD, label=own)
        assert told["turn_rewards"] == [0, 1, 1]

    async def test_max_turns_end_it(self):
        told, _ = await self.executed(["I think."] * 9, max_turns=2, max_length=4000)
        assert len(told["action_ranges"]) == 2


@pytest.mark.parametrize(
    ("action", "between"),
    [
        ("4<|im_end|>", "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"),
        ("4", "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"),
    ],
)
def test_a_turn_ends_once(action, between):
    """Whether the model ended its turn itself or was cut."""
    assert feedback_of(Tokenizer(), [{"role": "user", "content": "And?"}], action) == between


def test_without_a_template_the_reply_follows_as_it_is():
    assert feedback_of(object(), [{"role": "user", "content": "\nHuman: And?\n"}], "4") == "\nHuman: And?\n"


CALL = '<tool_call>{"name": "look", "arguments": {"place": "%s"}}</tool_call>'


def look(place: str) -> str:
    """Look at a place.

    Args:
        place: where to look
    """
    return "Error: nothing" if place == "void" else f"6 times 7 is in the {place}"


def succeeds(step):
    if "judge me" in step.arguments:
        raise ConnectionError("the judge is down")
    return step.succeeded


TOOLS = Rubric([Criterion(check=succeeds, scope="call", combine="mean", weight=2), right])


class TestVerl:
    """verl's own worker around its agent loop, with an engine that says what the test wants."""

    @pytest.fixture
    def worker(self, tmp_path):
        pytest.importorskip("verl", reason="run by `make test-trl`, in an environment of its own")
        loops, omegaconf = import_module("verl.experimental.agent_loop.agent_loop"), import_module("omegaconf")
        tools = import_module("verl.tools.function_tool")
        worker = object.__new__(loops.AgentLoopWorker)
        turns = {
            "max_user_turns": 0, "max_assistant_turns": 0, "max_parallel_calls": 2, "max_tool_response_length": 99,
            "tool_response_truncate_side": "left", "format": "hermes",
        }  # fmt: skip
        rollout = {"prompt_length": 800, "response_length": 600, "full_determinism": False, "multi_turn": turns}
        worker.config = omegaconf.OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
        worker.rollout_config = worker.config.actor_rollout_ref.rollout
        worker.tokenizer, worker.processor, worker.hf_model_type = made_tokenizer(), None, None
        worker.dataset_cls, worker.distillation_enabled, worker.mm_processor_kwargs = None, False, {}
        worker.reward_loop_worker_handles = None
        schema = tools._build_schema_from_fn(look, "look")
        worker.tools = [tools.FunctionTool(name="look", fn=look, tool_schema=schema)]
        worker.registry = loops._agent_loop_registry
        worker.trajectory = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
        return worker

    async def batch(self, worker, *rollouts, rubric=TOOLS, loop=None, **options):
        """The batch that verl trains on, of one sample for each list of turns."""
        replica = import_module("verl.workers.rollout.replica")
        globals()["Loop"] = agent_loop_of(rubric, **options)
        worker.registry["turns"] = loop or {"_target_": f"{__name__}.Loop"}
        outputs = []
        for turns in rollouts:
            written = iter(turns)

            async def generate(written=written, **_):
                return replica.TokenOutput(token_ids=worker.tokenizer.encode(next(written) + "<|eos|>"))

            worker.llm_client = SimpleNamespace(generate=generate)
            row = {
                "raw_prompt": PROMPT,
                "data_source": "sums",
                "reward_model": {"ground_truth": "42"},
                "extra_info": {},
            }
            outputs.append(await worker._run_agent_loop({}, worker.trajectory, agent_name="turns", trace=False, **row))
        return worker._postprocess(outputs)

    async def test_turn_scores_are_the_rewards_of_the_turns(self, worker):
        """The reward stands at the last token, and no reward function is asked."""
        batch = await self.batch(worker, [CALL % "book", CALL % "void", "42"], ["42"])
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 1, 2], [1]]
        assert batch.batch["rm_scores"].sum(dim=1).tolist() == [2, 1]
        assert batch.non_tensor_batch["succeeds"].tolist() == [0.5, 0]
        assert batch.meta_info["reward_extra_keys"] == ["score", "unscored", "outcome", "succeeds", "right"]

    async def test_a_failed_turn_is_counted(self, worker):
        turns = [CALL % "book", CALL % "judge me", "42"]
        with pytest.raises(UnscoredError, match="the judge is down"):
            await self.batch(worker, turns)
        batch = await self.batch(worker, turns, [CALL % "book", "42"], unscored="zero")
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[None, None, None], [3, 3]]
        assert batch.non_tensor_batch["unscored"].tolist() == [1, 0]
        assert batch.batch["rm_scores"].sum(dim=1).tolist() == [0, 3]

    async def test_the_turn_after_which_verl_stops_is_scored_too(self, worker):
        """For its number: it is not among the messages that verl keeps."""
        worker.config.actor_rollout_ref.rollout.multi_turn.max_assistant_turns = 2
        batch = await self.batch(worker, [CALL % "book", "42"])
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 3]]

    async def test_a_file_names_loop_and_rubric(self, worker, tmp_path):
        """As on the page: the `_target_` is a function of assay, and the rubric a path."""
        path = tmp_path / "rubric.yaml"
        path.write_text("- {check: exact_match, weight: 3}\n- {check: {max_words: 2}, scope: step}\n")
        loop = {"name": "turns", "_target_": "assay.integrations.verl.agent_loop", "rubric": str(path)}
        batch = await self.batch(worker, [CALL % "book" + "a b c", "42"], loop=loop)
        assert batch.non_tensor_batch["turn_scores"].tolist() == [[3, 4]]


class TestVerifiers:
    """A task of verifiers 0.4 and a trace of its own graph."""

    async def scored(self, rubric, turns):
        vf = pytest.importorskip("verifiers.v1", reason="run by `make test-trl`, in an environment of its own")
        graph = import_module("verifiers.v1.graph")
        types = import_module("verifiers.v1.types")
        trace_module = import_module("verifiers.v1.trace")
        said = [types.UserMessage(content="Six times seven?")]
        for number, place in enumerate(turns[:-1]):
            call = types.ToolCall(id=str(number), name="look", arguments=place)
            said.append(types.AssistantMessage(content=None, tool_calls=[call]))
            said.append(types.ToolMessage(tool_call_id=str(number), content=look(place)))
        said.append(types.AssistantMessage(content=turns[-1]))
        nodes = [
            graph.MessageNode(parent=n - 1 if n else None, message=m, sampled=m.role == "assistant")
            for n, m in enumerate(said)
        ]
        data = type("Data", (vf.TaskData,), {"__annotations__": {"answer": str}})(prompt="6*7?", answer="42")
        scoring = as_verifiers_reward(rubric)

        class Sums(vf.Task[type(data), vf.State, vf.TaskConfig]):
            @vf.reward
            async def rubric(self, trace):
                return await scoring(self.data, trace)

        task = Sums(data)
        told = trace_module.TraceTask.model_construct(type="Sums", data=data)
        agent = trace_module.AgentInfo.model_construct(config=None)
        trace = vf.Trace.model_construct(task=told, agent=agent, nodes=nodes, calls=[])
        await task.score(trace)
        return trace

    async def test_the_rewards_of_turns_are_metrics(self):
        """verifiers has one reward a trace; the turns are in its info too, in the order of the sampled nodes."""
        trace = await self.scored(TOOLS, ["book", "void", "42"])
        assert trace.reward == 2
        assert trace.info["assay"] == {"steps": [3, 1, 2]}
        assert [trace.metrics[f"turn_{n}"] for n in (1, 2, 3)] == [3, 1, 2]

    async def test_a_failed_turn_errors_the_rollout(self):
        vf = pytest.importorskip("verifiers.v1", reason="run by `make test-trl`, in an environment of its own")
        with pytest.raises(vf.TaskError, match="the judge is down"):
            await self.scored(TOOLS, ["book", "judge me", "42"])

    async def test_one_reply_is_a_text(self):
        trace = await self.scored(Rubric([lambda completion: completion == "42"]), ["42"])
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
        """It may be async and reply with messages; checks can name what it leaves in the row, and other rollouts do not see it."""
        seen, given = [], {"answer": "42"}

        async def reply(messages, row):
            seen.append([message["content"] for message in messages])
            row["looked"] = row.get("looked", 0) + 1
            return [{"role": "user", "content": "And?"}] if row["looked"] < 2 else []

        rollout = Dialogue(PROMPT, given, reply)
        await rollout.add("I look.")
        await rollout.add("42")
        found = await rollout.score(Rubric([lambda looked, completion: looked + len(completion)]))
        assert seen == [["Six times seven?", "I look."], ["Six times seven?", "I look.", "And?", "42"]]
        assert found.reward == 2 + 3
        assert given == {"answer": "42"}

    async def test_what_the_model_has_not_answered_is_not_scored(self):
        """A rollout ends with a turn of the model, wherever it is cut."""
        rollout = Dialogue("?", {}, lambda messages, row: "And?")
        await rollout.add("I look.")
        found = await rollout.score(Rubric([lambda completion: len(completion)]))
        assert found.reward == 1

    @pytest.mark.parametrize("reply", [7, [{"content": "no role"}]])
    async def test_a_reply_that_is_no_message_is_the_trouble_of_the_rollout(self, reply):
        rollout = Dialogue("?", {}, lambda messages, row: reply)
        await rollout.add("I look.")
        found = await rollout.score(RUBRIC)
        assert rollout.is_over
        assert found.reward is None
        assert "respond failed: TableError: respond: " in found.error
