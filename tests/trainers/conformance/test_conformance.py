"""One table of cases against every adapter, through the trainer's own code where it runs on a processor.

`table.json` is what came out, and the page about trainers prints it. Where a trainer does not install here, its call is
made as its source has it. `ASSAY_RECORD=1` writes the table and the page again; run it by `make test-trl`.
"""

import asyncio
import json
import math
import os
import socket
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from assay import Criterion, Rubric, RubricError
from assay.aggregation import UnscoredError
from assay.integrations import (
    areal_reward_of,
    as_skyrl_env,
    as_trl_reward,
    as_verifiers_reward,
    compute_score_of,
    custom_rm_of,
    reward_func_of,
)
from assay.server import RewardServer, Settings
from tests.trainers import loops

HERE = Path(__file__).parent
TABLE = HERE / "table.json"
PAGE = HERE.parents[2] / "docs" / "how-to" / "reward-for-other-trainers.md"
RECORDS = bool(os.environ.get("ASSAY_RECORD"))
QUESTION, ANSWER = "2+2?", "4"
OWN = [{"check": {"contains": "4"}, "weight": 5}]

pytestmark = pytest.mark.filterwarnings("default")  # trainers warn of much that is not ours


def short(completion):
    return len(text_of(completion)) <= 2


async def judged(completion):
    """A judge that may be down, late, or out of its mind."""
    text = text_of(completion)
    if text == "judge me":
        raise ConnectionError("the judge is down")
    if text == "late":
        async with asyncio.timeout(0.05):
            await asyncio.sleep(60)
    return math.nan if text == "nan" else 2.0 * (text == ANSWER)


def longest(completions):
    """Compares the rollouts of a group."""
    most = max(len(text_of(completion)) for completion in completions)
    return [float(len(text_of(completion)) == most) for completion in completions]


def text_of(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]


PLAIN = Rubric([short, Criterion(check=judged, name="judged")])
GROUP = ["4", "5", "44", "wrong"]
CASES = {  # the rubric, the completions of one group, whether each row brings its own rubric, whether they are messages
    "all scored": (PLAIN, GROUP, False, False),
    "one criterion failed": (PLAIN, ["4", "judge me", "5", "wrong"], False, False),
    "all failed": (PLAIN, ["judge me"] * 4, False, False),
    "timeout": (PLAIN, ["4", "late", "5", "wrong"], False, False),
    "NaN": (PLAIN, ["4", "nan", "5", "wrong"], False, False),
    "row's rubric": (PLAIN, GROUP, True, False),
    "group check": (Rubric([short, longest]), GROUP, False, False),
    "messages": (PLAIN, GROUP, False, True),
}


TURNS = {
    "turns": loops.GOOD,
    "a turn failed": loops.DOWN,
}  # of one rollout, where the trainer has a place for their rewards


def chat(text):
    return [{"role": "assistant", "content": text}]


class Trl:
    """`_calculate_rewards` of a real GRPOTrainer; NaN is what it made of None."""

    title, package, policies, takes_messages = (
        "TRL (GRPO)",
        "trl",
        ("drop", "zero", "group_mean"),
        True,
    )
    trainer = None

    @property
    def none(self):
        masks = tuple(map(int, version("trl").split(".")[:2])) >= (1, 6)
        return "no advantage, and not in the group's mean" if masks else "0, so `drop` is refused"

    async def rewards(self, rubric, texts, policy, own, messages):
        trainer = self.made()
        trainer.reward_funcs = [as_trl_reward(rubric, unscored=policy)]
        columns = {"answer": ANSWER, **({"rubric": OWN} if own else {})}
        asked = [{"role": "user", "content": QUESTION}] if messages else QUESTION
        said = [chat(text) if messages else text for text in texts]
        found = trainer._calculate_rewards(
            [columns] * len(texts), [asked] * len(texts), said, [[1]] * len(texts)
        )
        return [None if math.isnan(number) else number for number in found[:, 0].tolist()]

    @classmethod
    def made(cls):
        if cls.trainer is None:
            sys.path.insert(0, str(HERE.parent))
            made = import_module("conftest")
            trl, datasets, tokenizer = (
                import_module("trl"),
                import_module("datasets"),
                made.make_tokenizer(),
            )
            config = trl.GRPOConfig(
                use_cpu=True,
                bf16=False,
                report_to="none",
                num_generations=4,
                per_device_train_batch_size=4,
                output_dir=tempfile.mkdtemp(),
                save_strategy="no",
            )
            cls.trainer = trl.GRPOTrainer(
                model=made.make_model(tokenizer),
                processing_class=tokenizer,
                args=config,
                reward_funcs=as_trl_reward(PLAIN, unscored="zero"),
                train_dataset=datasets.Dataset.from_list([{"prompt": QUESTION}]),
            )
        return cls.trainer


class Verl:
    """Its naive reward manager, sample by sample."""

    title, package, policies, takes_messages = "verl", "verl", ("raise", "zero"), False
    none = "not taken: `raise` stops the step"

    async def rewards(self, rubric, texts, policy, own, messages):
        naive = import_module("verl.experimental.reward_loop.reward_manager.naive")
        torch, np, proto = import_module("torch"), import_module("numpy"), import_module("verl")
        tokenizer = SimpleNamespace(decode=lambda ids, **_: "".join(map(chr, ids.tolist())))
        manager = naive.NaiveRewardManager(
            None, tokenizer, compute_score_of(rubric, unscored=policy)
        )
        manager.loop = asyncio.get_running_loop()

        async def one(text):
            ids = torch.tensor([[ord(sign) for sign in text]])
            extra = {"question": QUESTION, **({"rubric": OWN} if own else {})}
            columns = {
                "data_source": "sums",
                "reward_model": {"ground_truth": ANSWER},
                "extra_info": extra,
            }
            data = proto.DataProto.from_dict(
                {"responses": ids, "attention_mask": torch.ones_like(ids)},
                non_tensors={
                    name: np.array([value], dtype=object) for name, value in columns.items()
                },
            )
            return (await manager.run_single(data))["reward_score"]

        return [await one(text) for text in texts]

    async def turns(self, texts, policy):
        """`turn_scores` of its agent loop; every turn but the last calls a tool."""
        called = [text + loops.CALL % "book" for text in texts[:-1]]
        batch = await loops.verl_batch(loops.verl_worker(), [*called, texts[-1]], unscored=policy)
        return batch.non_tensor_batch["turn_scores"][0]


class OpenRLHF:
    """Its own executor around the file of `--reward.remote_url`."""

    title, package, policies, takes_messages = "OpenRLHF", "openrlhf", ("raise", "zero"), False
    none = "the sample has no reward, and is left out"

    async def rewards(self, rubric, texts, policy, own, messages):
        agent = import_module("openrlhf.utils.agent")
        holder = ModuleType("conformance_reward")
        holder.reward_func = reward_func_of(rubric, unscored=policy)
        sys.modules["conformance_reward"] = holder
        executor = agent.SingleTurnAgentExecutor(str(HERE / "openrlhf_reward.py"))
        label = {"rubric": OWN, "answer": ANSWER} if own else ANSWER
        params = SimpleNamespace(max_tokens=50, logprobs=None)
        rewards = []
        for text in texts:
            told = await executor.execute(
                QUESTION, label, params, 100, self.Tokenizer(), self.Engine(f"{text}<|im_end|>")
            )
            rewards.append(None if told["reward"] is None else float(told["reward"][0]))
        return rewards

    async def turns(self, texts, policy):
        """`turn_rewards` of the response of its executor of many turns."""
        return (await loops.openrlhf_response(texts, unscored=policy))[0]["turn_rewards"]

    class Tokenizer:
        def __call__(self, text, **_):
            return {"input_ids": import_module("torch").tensor([[ord(sign) for sign in text]])}

        def decode(self, tokens, **_):
            return "".join(map(chr, tokens))

    class Engine:
        def __init__(self, text):
            self.text = text

        async def generate(self, tokens, params, **_):
            written = SimpleNamespace(
                token_ids=[*map(ord, self.text)], finish_reason="stop", logprobs=None
            )
            return SimpleNamespace(outputs=[written])


class SkyRL:
    """An environment that skyrl_gym makes."""

    title, package, policies, takes_messages = (
        "SkyRL (skyrl-gym)",
        "skyrl_gym",
        ("raise", "zero"),
        False,
    )
    none = "not taken: `raise` stops the step"

    async def rewards(self, rubric, texts, policy, own, messages):
        gym = import_module("skyrl_gym")
        registration = import_module("skyrl_gym.envs.registration")
        registration.registry.pop("conformance", None)
        registration.register(id="conformance", entry_point=as_skyrl_env(rubric, unscored=policy))
        extras = {"reward_spec": {"ground_truth": ANSWER}, **({"rubric": OWN} if own else {})}
        rewards = []
        for text in texts:
            env = gym.make("conformance", env_config={}, extras=extras)
            env.init([{"role": "user", "content": QUESTION}])
            rewards.append(env.step(text)["reward"])
        return rewards

    async def turns(self, texts, policy):
        """The reward of each step, with `pays="change"`."""
        told, _ = await asyncio.to_thread(loops.skyrl_episode, texts, unscored=policy)
        return [one["reward"] for one in told]


class Verifiers:
    """A task of verifiers 0.4, which prime-rl trains on."""

    title, package, policies, takes_messages = "verifiers, prime-rl", "verifiers", ("raise",), False
    none = "the rollout errors, and is left out"

    async def rewards(self, rubric, texts, policy, own, messages):
        vf, trace_module = import_module("verifiers.v1"), import_module("verifiers.v1.trace")
        fields = {"prompt": QUESTION, "answer": ANSWER, "rubric": OWN if own else None}
        task_data = type(
            "Data", (vf.TaskData,), {"__annotations__": {"answer": str, "rubric": list | None}}
        )
        scoring = as_verifiers_reward(rubric)

        class Sums(vf.Task[task_data, vf.State, vf.TaskConfig]):
            @vf.reward
            async def rubric(self, trace):
                return await scoring(self.data, trace)

        rewards = []
        for text in texts:
            task = Sums(task_data(**fields))
            told = trace_module.TraceTask.model_construct(type="Sums", data=task.data)
            agent = trace_module.AgentInfo.model_construct(config=None)
            trace = vf.Trace.model_construct(task=told, agent=agent, root_reply=text, nodes=[])
            try:
                await task.score(trace)
                rewards.append(trace.reward)
            except vf.TaskError:
                rewards.append(None)
        return rewards

    async def turns(self, texts, policy):
        """The metrics of the trace."""
        try:
            trace = await loops.verifiers_trace(texts)
        except import_module("verifiers.v1").TaskError:
            return [None] * len(texts)
        return [trace.metrics[f"turn_{n}"] for n in range(1, len(texts) + 1)]


class Slime:
    """`custom_rm(args, samples)`, as `--custom-rm-path` with `--group-rm` calls it."""

    title, package, policies, takes_messages = (
        "slime",
        None,
        ("raise", "zero", "group_mean", "drop"),
        False,
    )
    none = "not taken: `drop` pays the group's mean, and marks `remove_sample`"

    async def rewards(self, rubric, texts, policy, own, messages):
        metadata = {"rubric": OWN} if own else {}
        samples = [
            SimpleNamespace(
                prompt=QUESTION,
                response=text,
                label=ANSWER,
                metadata=dict(metadata),
                remove_sample=False,
            )
            for text in texts
        ]
        rewards = await custom_rm_of(rubric, unscored=policy)(SimpleNamespace(), samples)
        assert policy != "drop" or [s.remove_sample for s in samples] == [
            s.metadata["assay"]["unscored"] for s in samples
        ]
        return [
            None if sample.remove_sample else reward
            for sample, reward in zip(samples, rewards, strict=True)
        ]


class AReaL:
    """`reward_fn(prompt, completions, prompt_ids, completion_ids, **data)`, as its workflows call it."""

    title, package, policies, takes_messages = "AReaL", None, ("raise", "zero"), False
    none = "not taken: `raise` stops the step"

    async def rewards(self, rubric, texts, policy, own, messages):
        reward_fn = areal_reward_of(rubric, unscored=policy)
        data = {"answer": ANSWER, **({"rubric": OWN} if own else {})}
        return [
            await asyncio.to_thread(reward_fn, QUESTION, text, [1], [2], **data) for text in texts
        ]


class NemoGym:
    """Its own agent and collection, with the reward server as the resources server."""

    title, package, policies, takes_messages = "NeMo-Gym", "nemo_gym", ("raise", "zero"), True
    none = "the row is masked (`mask_sample`)"

    async def rewards(self, rubric, texts, policy, own, messages):
        server = RewardServer(rubric, Settings(port=0, unscored=policy))
        await asyncio.to_thread(server.__enter__)
        try:
            columns = {"expected_answer": ANSWER} | ({"rubric": OWN} if own else {})
            results, _ = await nemo_collected(
                server.url, texts, Path(tempfile.mkdtemp()), **columns
            )
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)
        return [None if row.get("mask_sample") else row["reward"] for row in results]


async def nemo_collected(url, said, folder, **columns):
    """What NeMo-Gym collects, row by row, and its metrics at the end; two rollouts a question."""
    from nemo_gym import server_utils
    from nemo_gym.rollout_collection import RolloutCollectionHelper
    from omegaconf import OmegaConf
    from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

    model, agent = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    places = {
        "rewards": ("127.0.0.1", int(url.rpartition(":")[2])),
        "model": model.getsockname(),
        "agent": agent.getsockname(),
    }
    config = {
        name: {"servers": {name: {"host": host, "port": port}}}
        for name, (host, port) in places.items()
    }
    client = server_utils.ServerClient(
        head_server_config={"host": "127.0.0.1", "port": 1},
        global_config_dict=OmegaConf.create(config),
    )

    class Helper(RolloutCollectionHelper):
        def setup_server_client(self, head_server_config=None):
            return client

    host, port = places["agent"]
    settings = SimpleAgentConfig(
        name="agent",
        host=host,
        port=port,
        entrypoint="app.py",
        resources_server={"type": "resources_servers", "name": "rewards"},
        model_server={"type": "responses_api_models", "name": "model"},
    )
    rows = [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": "2+2?"}],
                "metadata": {"say": text},
            },
            "agent_ref": {"name": "agent"},
            **columns,
            "_ng_task_index": place // 2,
            "_ng_rollout_index": place % 2,
        }
        for place, text in enumerate(said)
    ]
    session = server_utils.set_global_aiohttp_client(server_utils.GlobalAIOHTTPAsyncClientConfig())
    async with AsyncExitStack() as stack:
        stack.callback(setattr, server_utils, "_GLOBAL_AIOHTTP_CLIENT", None)
        stack.push_async_callback(session.close)
        await stack.enter_async_context(served(model_app(), model))
        await stack.enter_async_context(
            served(SimpleAgent(config=settings, server_client=client).setup_webserver(), agent)
        )
        helper = Helper()
        found = [await future for future in helper.run_examples(rows)]
        found.sort(key=lambda pair: (pair[0]["_ng_task_index"], pair[0]["_ng_rollout_index"]))
        results = [
            result | {key: row[key] for key in row if key.startswith("_ng")}
            for row, result in found
        ]
        path = await helper._call_aggregate_metrics(
            results, [row for row, _ in found], folder / "rollouts.jsonl"
        )
    return results, json.loads(path.read_text())


def model_app():
    """A model that says what the request asks it to say."""
    from fastapi import FastAPI, Request

    app = FastAPI()

    @app.post("/v1/responses")
    async def responses(request: Request):
        asked = await request.json()
        text = {"type": "output_text", "text": asked["metadata"]["say"], "annotations": []}
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
        return {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "scripted",
            "output": [message],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }

    return app


@asynccontextmanager
async def served(app, listening):
    import uvicorn

    config = uvicorn.Config(app, log_level="warning")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    yield
    await server.shutdown(sockets=[listening])


ADAPTERS = (Trl, Verl, OpenRLHF, SkyRL, Verifiers, Slime, AReaL, NemoGym)
ROWS = [(adapter, policy) for adapter in ADAPTERS for policy in adapter.policies]


def installed(adapter):
    """The version that is here; empty where the trainer's call is made as its source has it."""
    if adapter.package is None:
        return "as recorded"
    try:
        return version(adapter.package.replace("_", "-"))
    except PackageNotFoundError:
        return None


async def outcome(adapter, policy, case):
    """The rewards of the group as one line; `-` stands for a rollout without one."""
    rubric, texts, own, messages = CASES[case]
    if messages and not adapter.takes_messages:
        return "text only"
    return await told(adapter().rewards(rubric, texts, policy, own, messages))


async def turns_outcome(adapter, policy, case):
    """The same for the turns of one rollout."""
    return (
        await told(adapter().turns(TURNS[case], policy))
        if hasattr(adapter, "turns")
        else "one number"
    )


async def told(rewards):
    try:
        return " ".join("-" if reward is None else f"{reward:g}" for reward in await rewards)
    except (UnscoredError, RubricError):
        return "refused"


@pytest.mark.slow
@pytest.mark.parametrize(("adapter", "policy"), ROWS, ids=[f"{a.title} {p}" for a, p in ROWS])
async def test_every_case_comes_out_as_the_table_says(adapter, policy):
    """No failure is a 0 unless that was asked for, none is a NaN, and all others get the reward of the rubric."""
    found_version = installed(adapter)
    if found_version is None:
        pytest.skip(f"{adapter.title} needs an environment of its own: make test-trl")
    found = {case: await outcome(adapter, policy, case) for case in CASES}
    found |= {case: await turns_outcome(adapter, policy, case) for case in TURNS}
    assert "nan" not in " ".join(found.values())
    row = {
        "trainer": adapter.title,
        "version": found_version,
        "unscored": policy,
        "None becomes": adapter().none,
        **found,
    }
    if RECORDS:
        record(row)
    [wanted] = [each for each in table() if key_of(each) == key_of(row)]
    assert row == wanted


async def test_the_collection_of_nemo_gym_leaves_a_failed_row_out_of_its_metrics(tmp_path):
    """Three questions of two rollouts each: the judge fails once, that row is masked, and the mean is of the other five."""
    pytest.importorskip(
        "nemo_gym", reason="NeMo-Gym needs an environment of its own: make test-trl"
    )
    said = ["4", "5", "judge me", "4", "4", "4"]
    with RewardServer(PLAIN, Settings(port=0, unscored="drop")) as server:
        results, [metrics] = await nemo_collected(
            server.url, said, tmp_path, expected_answer=ANSWER
        )
    assert [row.get("mask_sample", False) for row in results] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert metrics["key_metrics"] == {"mean/reward": 2.6, "mean/mask_sample": pytest.approx(1 / 6)}


def test_the_page_prints_the_table():
    """As it came out."""
    assert printed(table()) in PAGE.read_text()


def table():
    return json.loads(TABLE.read_text()) if TABLE.exists() else []


def key_of(row):
    return row["trainer"], row["version"], row["unscored"]


def record(row):
    """Put one row into the table, in the order of the adapters, and the table into the page."""
    kept = [each for each in table() if key_of(each) != key_of(row)]
    order = [adapter.title for adapter in ADAPTERS]
    rows = sorted(
        [*kept, row],
        key=lambda each: (
            order.index(each["trainer"]),
            [*map(len, each["version"].split("."))][::-1],
        ),
    )
    TABLE.write_text(json.dumps(rows, indent=1) + "\n")
    before, start, rest = PAGE.read_text().partition("<!-- conformance -->\n")
    _, end, after = rest.partition("<!-- end of conformance -->")
    assert start, "the page has no place for the table"
    assert end, "the page has no place for the table"
    PAGE.write_text(before + start + printed(rows) + end + after)


def printed(rows):
    columns = ["trainer", "version", "unscored", *CASES, *TURNS, "None becomes"]
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [
        " | ".join(f"`{row[c]}`" if c == "unscored" else row[c] for c in columns) for row in rows
    ]
    return "".join(f"| {line} |\n" for line in lines)
