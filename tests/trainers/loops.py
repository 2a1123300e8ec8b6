"""The trainers' own loops of many turns, around a model that says what a test wants."""

import importlib.util
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

from assay import Criterion, Rubric
from assay.integrations import agent_loop_of, as_skyrl_env, as_verifiers_reward, openrlhf_agent_of
from tests.trainers.conftest import make_tokenizer

PROMPT = [{"role": "user", "content": "Six times seven?"}]
GOOD = [
    "I think.",
    "SHOUT",
    "42",
]  # of three turns the second is bad: 2 × 2/3 for the process, 1 for the answer
DOWN = ["I think.", "judge me", "42"]
CALL = '<tool_call>{"name": "look", "arguments": {"place": "%s"}}</tool_call>'


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
    return None if text.isdigit() else "And?"


RUBRIC = Rubric([Criterion(check=calm, scope="step", combine="mean", weight=2), right])


def skyrl_episode(turns, room=9, rubric=RUBRIC, extras=(), **options):
    """What the steps return, and the metrics: SkyRL steps until the environment is done, or until there is no room."""
    gym, registration = import_module("skyrl_gym"), import_module("skyrl_gym.envs.registration")
    registration.registry.pop("turns", None)
    registration.register(id="turns", entry_point=as_skyrl_env(rubric, respond=respond, **options))
    given = {"reward_spec": {"ground_truth": "42"}, "max_turns": 5, **dict(extras)}
    env = gym.make("turns", env_config={}, extras=given)
    env.init(PROMPT)
    told = []
    for text in turns[:room]:
        told.append(env.step(text))
        if told[-1]["done"]:
            break
    return told, env.get_metrics()


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


async def openrlhf_response(turns, max_length=400, label="42", **options):
    """What OpenRLHF's workers return for one sample, and what the model was asked."""
    asked, written = [], iter(turns)

    class Engine:
        async def generate(self, tokens, params, **_):
            asked.append("".join(map(chr, tokens)))
            text = f"{next(written)}<|im_end|>"
            out = SimpleNamespace(
                token_ids=[*map(ord, text)], text=text, finish_reason="stop", logprobs=None
            )
            return SimpleNamespace(outputs=[out])

    executor = openrlhf_agent_of(RUBRIC, respond, **options)()
    params = SimpleNamespace(max_tokens=20, logprobs=None)
    prompt = Tokenizer().apply_chat_template(PROMPT, add_generation_prompt=True)
    told = await executor.execute(
        prompt=prompt,
        label=label,
        sampling_params=params,
        max_length=max_length,
        hf_tokenizer=Tokenizer(),
        llm_engine=Engine(),
        images=None,
    )
    return told, asked


def openrlhf_module(name, monkeypatch):
    """A module of OpenRLHF that imports vLLM, which needs a GPU: it is an empty one here."""
    if importlib.util.find_spec("vllm") is None:
        for part in ("vllm", "vllm.inputs", "vllm.utils"):
            stub = ModuleType(part)
            stub.SamplingParams = stub.TokensPrompt = stub.random_uuid = object
            monkeypatch.setitem(sys.modules, part, stub)
    return import_module(name)


def look(place: str) -> str:
    """Look at a place.

    Args:
        place: where to look
    """
    return "Error: nothing" if place == "void" else f"6 times 7 is in the {place}"


def verl_worker():
    """verl's own worker, without the engine and the model that it would load."""
    loops, omegaconf = (
        import_module("verl.experimental.agent_loop.agent_loop"),
        import_module("omegaconf"),
    )
    tools = import_module("verl.tools.function_tool")
    worker = object.__new__(loops.AgentLoopWorker)
    turns = {
        "max_user_turns": 0,
        "max_assistant_turns": 0,
        "max_parallel_calls": 2,
        "max_tool_response_length": 99,
        "tool_response_truncate_side": "left",
        "format": "hermes",
    }
    rollout = {
        "prompt_length": 800,
        "response_length": 600,
        "full_determinism": False,
        "multi_turn": turns,
    }
    worker.config = omegaconf.OmegaConf.create(
        {"actor_rollout_ref": {"rollout": rollout}, "data": {}}
    )
    worker.rollout_config = worker.config.actor_rollout_ref.rollout
    worker.tokenizer, worker.processor, worker.hf_model_type = make_tokenizer(), None, None
    worker.dataset_cls, worker.distillation_enabled, worker.mm_processor_kwargs = None, False, {}
    worker.reward_loop_worker_handles = None
    schema = tools._build_schema_from_fn(look, "look")
    worker.tools = [tools.FunctionTool(name="look", fn=look, tool_schema=schema)]
    worker.registry = loops._agent_loop_registry
    return worker


async def verl_batch(worker, *rollouts, rubric=RUBRIC, loop=None, info=(), **options):
    """The batch that verl trains on, of one sample for each list of turns."""
    replica = import_module("verl.workers.rollout.replica")
    globals()["Loop"] = agent_loop_of(rubric, **options)  # hydra finds it by its name
    worker.registry["turns"] = loop or {"_target_": f"{__name__}.Loop"}
    trajectory = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
    row = {
        "raw_prompt": PROMPT,
        "data_source": "sums",
        "reward_model": {"ground_truth": "42"},
        "extra_info": dict(info),
    }
    outputs = []
    for turns in rollouts:
        written = iter(turns)

        async def generate(written=written, **_):
            return replica.TokenOutput(token_ids=worker.tokenizer.encode(next(written) + "<|eos|>"))

        worker.llm_client = SimpleNamespace(generate=generate)
        outputs.append(
            await worker._run_agent_loop({}, trajectory, agent_name="turns", trace=False, **row)
        )
    return worker._postprocess(outputs)


async def verifiers_trace(turns, rubric=RUBRIC, place="book"):
    """A trace of verifiers' own graph, scored by a task; every turn but the last calls a tool."""
    vf, graph, types = (import_module(f"verifiers.v1{name}") for name in ("", ".graph", ".types"))
    traces = import_module("verifiers.v1.trace")
    said = [types.UserMessage(content="Six times seven?")]
    for number, text in enumerate(turns[:-1]):
        call = types.ToolCall(id=str(number), name="look", arguments=f'{{"place": "{place}"}}')
        said.append(types.AssistantMessage(content=text, tool_calls=[call]))
        said.append(types.ToolMessage(tool_call_id=str(number), content=look(place)))
    said.append(types.AssistantMessage(content=turns[-1]))
    nodes = [
        graph.MessageNode(parent=n - 1 if n else None, message=m, sampled=m.role == "assistant")
        for n, m in enumerate(said)
    ]
    data = type("Data", (vf.TaskData,), {"__annotations__": {"answer": str}})(
        prompt="6*7?", answer="42"
    )
    scoring = as_verifiers_reward(rubric)

    class Sums(vf.Task[type(data), vf.State, vf.TaskConfig]):
        @vf.reward
        async def rubric(self, trace):
            return await scoring(self.data, trace)

    task = traces.TraceTask.model_construct(type="Sums", data=data)
    agent = traces.AgentInfo.model_construct(config=None)
    trace = vf.Trace.model_construct(task=task, agent=agent, nodes=nodes, calls=[])
    await Sums(data).score(trace)
    return trace
