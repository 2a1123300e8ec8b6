"""What the environments and rubrics of verifiers 0.1.14 have beside what evaluating needs works here too."""

import importlib
import sys
import threading
import types
from pathlib import Path

import datasets
import openai
import pytest
from assay.compat.verifiers.utils.save_utils import state_to_output

import assay.compat.verifiers as vf
from assay.testing import ModelServer


class Boxes:
    """A service of sandboxes that refuses the first of every kind of call."""

    def __init__(self):
        self.log, self.refused = [], set()

    def _told(self, *call):
        self.log.append(call)
        if call[0] not in self.refused:
            self.refused.add(call[0])
            raise OSError("busy")

    async def create(self, request):
        self._told("create", request.docker_image, request.cpu_cores, request.labels)
        return types.SimpleNamespace(id=f"box-{len(self.log)}")

    async def wait_for_creation(self, sandbox_id):
        raise OSError("it did not come up")

    async def delete(self, sandbox_id):
        self._told("delete", sandbox_id)

    def teardown(self):
        self.log.append(("teardown",))


class ManyBoxes(Boxes):
    async def bulk_delete(self, sandbox_ids):
        self._told("bulk_delete", [*sandbox_ids])


@pytest.mark.parametrize("service", [Boxes, ManyBoxes])
async def test_sandboxes_that_are_left_are_deleted_when_the_environment_is_closed(service):
    """Before the client is torn down, and again after a refusal; a subclass may override each step and call it."""

    class Env(vf.SandboxEnv):
        async def bulk_delete_sandboxes(self, global_ids):
            deleted.append(sorted(global_ids))
            await super().bulk_delete_sandboxes(global_ids)

        @vf.teardown
        async def teardown_sandbox_client(self):
            deleted.append("client")
            await super().teardown_sandbox_client()

    deleted = []
    env = Env(dataset=[{"question": "?"}], base_delay=0.0, cpu_cores=4)
    env.sandbox_client = client = service()
    state = vf.State()
    await env.setup_state(state)
    assert client.log == [("create", "python:3.11-slim", 4, [])] * 2
    with pytest.raises(vf.SandboxError, match="did not come up"):
        await env.bash("ls", state["sandbox_id"], state["sandbox_state"])
    env.active_sandboxes |= {"lost", "gone"}
    await env.destroy_sandbox(state)
    await env.aclose()
    assert deleted == [["gone", "lost"], "client"]
    many = [("bulk_delete", ["gone", "lost"])] * 2
    left = many if service is ManyBoxes else [("delete", "gone"), ("delete", "lost")]
    assert client.log[2:] == [*[("delete", "box-2")] * 2, *left, ("teardown",)]
    assert not env.active_sandboxes


async def test_a_sandbox_that_cannot_be_deleted_is_kept_in_mind():
    """What a service refuses for good is a line in the log, and the sandbox stays in `active_sandboxes`."""
    env = vf.SandboxEnv(dataset=[{"question": "?"}], max_retries=1)
    env.sandbox_client, env.active_sandboxes = ManyBoxes(), {"a", "b"}
    await env.destroy_sandbox(vf.State(sandbox_id="a"))
    await env.bulk_delete_sandboxes(["a", "b"])
    assert env.active_sandboxes == {"a", "b"}
    await env.teardown_sandboxes()
    assert not env.active_sandboxes


# Environments.


def spell(completion, answer):
    return float(completion[-1]["content"] == answer)


async def evaluated(env, reply="4", **options):
    with ModelServer(reply) as server:
        return await env.evaluate(model=server.model, **options)


class Crowded(vf.SingleTurnEnv):
    """Remembers how many rollouts were under way together."""

    now = most = 0

    async def setup_state(self, state):
        self.now += 1
        self.most = max(self.most, self.now)

    @vf.cleanup
    async def leave(self, state):
        self.now -= 1


@pytest.mark.parametrize(("options", "expected"), [({}, 2), ({"max_concurrent": 3}, 3)])
async def test_the_concurrency_of_an_environment_bounds_its_rollouts(options, expected):
    """Where the evaluation does not name another number."""
    env = Crowded(
        dataset=[{"question": str(n)} for n in range(8)],
        rubric=vf.Rubric(funcs=[lambda completion: 1.0]),
    )
    env.set_concurrency(2)
    await evaluated(env, **options)
    assert env.most == expected


async def test_what_is_set_for_a_group_is_set_in_its_environments():
    """By the setters that an environment overrides, also in a group of groups."""

    class Watching(vf.SingleTurnEnv):
        def set_max_seq_len(self, max_seq_len):
            super().set_max_seq_len(max_seq_len)
            self.told = max_seq_len

    inner = Watching(dataset=[{"question": "?"}], rubric=vf.Rubric(funcs=[spell]))
    group = vf.EnvGroup([vf.EnvGroup([inner])])
    group.set_kwargs(max_seq_len=128, score_rollouts=False, color="red")
    assert (inner.max_seq_len, inner.told, inner.score_rollouts, group.color) == (
        128,
        128,
        False,
        "red",
    )
    results = await evaluated(group)
    assert (results["reward"], results["metrics"]) == ([0.0], [{}])


def test_a_data_set_that_a_function_gives_is_built_when_it_is_first_asked_for():
    """And once; `build_dataset` and `build_eval_dataset` ask for it, and return None where there is none."""
    built = []

    def rows():
        built.append(True)
        return datasets.Dataset.from_list([{"question": "2 + 2?", "answer": "4"}])

    env = vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[spell]))
    assert (built, env.build_eval_dataset()) == ([], None)
    assert env.build_dataset()["answer"] == env.get_dataset()["answer"] == ["4"]
    assert len(built) == 1


async def test_tokens_are_counted_in_the_state():
    """Those of the model by themselves, others where the environment says so, in the words of either API."""
    env = vf.SingleTurnEnv(
        dataset=[{"question": "?"}], rubric=vf.Rubric(funcs=[lambda completion: 1.0])
    )
    results = await evaluated(env)
    [state], [spent] = results["state"], results["token_usage"]
    assert env.get_state_usage(state) == state["usage"] == spent
    assert spent["output_tokens"] > 0
    for usage in (
        types.SimpleNamespace(prompt_tokens=2, completion_tokens=3),
        {"input_tokens": 2, "output_tokens": 3},
    ):
        env.increment_state_usage_from_response(state, types.SimpleNamespace(usage=usage))
    assert state["usage"] == {
        name: count + {"input_tokens": 4, "output_tokens": 6}[name] for name, count in spent.items()
    }
    assert env.get_state_usage(vf.State()) is None
    with pytest.raises(ValueError, match="token counts are -1 and 0: give 0 or more"):
        env.increment_state_usage(state, input_tokens=-1)


async def test_a_rollout_whose_completion_cannot_be_rendered_failed():
    """It has its error, and the other hooks are called nevertheless."""

    class Broken(Crowded):
        async def render_completion(self, state):
            raise LookupError("no way back")

    env = Broken(dataset=[{"question": "?"}], rubric=vf.Rubric(funcs=[spell]))
    results = await evaluated(env)
    assert results["error"][0]["error"] == "LookupError"
    assert (env.most, env.now) == (1, 0)


async def test_results_become_a_data_set():
    """Ours, and the outputs of others."""
    env = vf.SingleTurnEnv(
        dataset=[{"question": "?", "answer": "4"}], rubric=vf.Rubric(funcs=[spell])
    )
    assert env.make_dataset(await evaluated(env))["reward"] == [1.0]
    assert vf.Environment.make_dataset({"outputs": [{"reward": 0.5}]})["reward"] == [0.5]


async def test_an_environment_with_a_loop_of_its_own_asks_whether_it_is_over():
    """A direct subclass of `Environment` has the stop conditions and the hooks that tidy up."""

    class Loop(vf.Environment):
        @vf.stop
        async def twice(self, state):
            return len(state["replies"]) == 2

        @vf.cleanup
        async def finish(self, state):
            state["completion"] = [vf.AssistantMessage(content=" ".join(state["replies"]))]

        async def rollout(self, input, client, model, sampling_args=None):
            state = await self.init_state(input, client, model, sampling_args)
            state["replies"] = []
            while not await self.is_completed(state):
                response = await self.get_model_response(state, state["prompt"])
                state["replies"].append(response.message.content)
            await self.cleanup(state)
            return state

    env = Loop(dataset=[{"question": "?", "answer": "4 4"}], rubric=vf.Rubric(funcs=[spell]))
    results = await evaluated(env)
    assert (results["reward"], results["stop_condition"]) == ([1.0], ["twice"])


# Rubrics.


async def test_a_provider_that_fails_costs_only_the_functions_that_name_what_it_gives():
    """The others are scored, and so are the rollouts for which it does not fail."""

    def size(completion, length):
        return float(length)

    rubric = vf.Rubric(funcs=[spell, size])
    rubric.add_score_object_provider(
        lambda state: {"length": len(state["completion"][0]["content"])}
    )
    said = [{"completion": [{"role": "assistant", "content": "4"}]}, {"completion": []}]
    states = [{"prompt": "?", "answer": "4", "trajectory": [], **fields} for fields in said]
    await vf.RubricGroup([rubric]).score_group(states)
    assert states[0]["metrics"] == {"spell": 1.0, "size": 1.0}
    assert set(states[1]["errors"]) == {"spell", "size"}


async def test_a_provider_of_a_group_reaches_the_rubrics_inside():
    """As it does in a rubric by itself."""
    rubric = vf.Rubric(funcs=[lambda completions, names: [float(len(names))] * len(completions)])
    group = vf.RubricGroup([rubric])
    group.add_group_score_object_provider(
        lambda states: {"names": [state["name"] for state in states]}
    )
    states = [{"prompt": "?", "completion": [], "trajectory": [], "name": name} for name in "ab"]
    await group.score_group(states)
    assert [state["reward"] for state in states] == [2.0, 2.0]


# Experimental environments.


SHOP = Path(__file__).parent / "environments" / "servers" / "shop.py"


def shop(name="shop", command=sys.executable):
    return {"name": name, "command": command, "args": [str(SHOP)]}


def test_servers_end_with_the_environment_and_when_one_of_them_does_not_start(tmp_path):
    """The error names the server that did not, with the reason."""
    mark = tmp_path / "alive"
    script = tmp_path / "server.py"
    wrapped = f"import atexit, pathlib\npath = pathlib.Path({str(mark)!r})\npath.touch()\natexit.register(path.unlink)\n"
    script.write_text(wrapped + SHOP.read_text(encoding="utf-8"), encoding="utf-8")
    marked = {"name": "marked", "command": sys.executable, "args": [str(script)]}
    with vf.MCPEnv([marked], dataset=[{"question": "?"}]) as env:
        assert mark.exists()
        assert list(env.tool_map) == ["price", "nothing", "stock"]
    assert not mark.exists()
    with pytest.raises(
        vf.InfraError,
        match=r"the MCP server 'gone' did not start: FileNotFoundError: .*nothing_there",
    ):
        vf.MCPEnv([marked, shop("gone", "/nothing_there")], dataset=[{"question": "?"}])
    assert not mark.exists()


def test_a_server_that_never_answers_is_an_error(monkeypatch, tmp_path):
    """And its process is ended."""
    mark = tmp_path / "process"
    code = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(600)"
    monkeypatch.setattr("assay.compat.verifiers.tool_environments.CONNECT_SECONDS", 3)
    with pytest.raises(
        vf.InfraError, match="one of the MCP servers 'mute' did not answer within 3 s"
    ):
        vf.MCPEnv(
            [{"name": "mute", "command": sys.executable, "args": ["-c", code]}],
            dataset=[{"question": "?"}],
        )
    process = Path("/proc") / mark.read_text()
    assert not process.exists() or " Z " in (process / "stat").read_text()


async def test_a_server_that_dies_is_an_error_of_the_rollout_and_no_answer(tmp_path):
    """Its own call and those of others after it: the model is told of no failure that is not its own."""
    script = tmp_path / "server.py"
    script.write_text(
        SHOP.read_text(encoding="utf-8").replace('return ["tea", "milk"]', "import os; os._exit(1)")
    )
    with vf.MCPEnv(
        [{"name": "x", "command": sys.executable, "args": [str(script)]}],
        dataset=[{"question": "?"}],
    ) as env:
        assert (await env.call_tool("price", {"item": "tea"}, "c"))["content"] == "3"
        for tool, arguments in (("stock", {}), ("price", {"item": "tea"})):
            with pytest.raises(
                vf.InfraError, match=f"the MCP server of the tool '{tool}' is gone: "
            ):
                await env.call_tool(tool, arguments, "c")
        call = {"id": "c", "name": "price", "arguments": '{"item": "tea"}'}
        with pytest.raises(vf.InfraError, match="is gone"):
            await env.env_response([{"role": "assistant", "tool_calls": [call]}], vf.State())


def test_the_package_for_servers_is_named_when_it_is_missing(monkeypatch):
    """With the extra that has it."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(
        ImportError,
        match=r"MCPEnv needs the package 'mcp', which is not installed: pip install mcp",
    ):
        vf.MCPEnv([shop()], dataset=[{"question": "?"}])


async def test_a_gym_that_hangs_holds_up_no_other_rollout():
    """Twenty episodes begin at once and wait for each other, which they could not in the thread of the loop."""
    together = threading.Barrier(20, timeout=60)

    class Waiting:
        def reset(self, seed):
            self.thread = threading.get_ident()
            return f"seed {seed}"

        def step(self, action):
            together.wait()
            return "obs", float(self.thread == threading.get_ident()), True, False, {}

    env = vf.GymEnv(Waiting, num_train_episodes=0, num_eval_episodes=20)
    assert (await evaluated(env))["reward"] == [1.0] * 20


async def test_a_step_of_a_wrong_shape_is_an_error_of_its_rollout():
    """And so is what the gym itself raises; what it was is told."""

    class Odd:
        def reset(self, seed):
            return f"seed {seed}"

        def step(self, action):
            return ("obs", 1.0)

    env = vf.GymEnv(Odd, num_train_episodes=0, num_eval_episodes=1)
    [error] = (await evaluated(env))["error"]
    assert error["error_chain_str"] == "ValueError"
    assert (
        "step() returned ('obs', 1.0): return (obs, reward, terminated,"
        in error["error_chain_repr"]
    )


@pytest.mark.parametrize(
    ("path", "name", "why"),
    [
        ("", "CliAgentEnv", "runs an agent in containers of Prime's service"),
        ("envs.experimental.rlm_env", "RLMEnv", "runs an agent in containers"),
        ("envs.integrations.browser_env", "BrowserEnv", "connects another package"),
        ("v1", "Taskset", "belongs to verifiers.v1"),
        ("", "GRPOTrainer", "a part of the trainer"),
    ],
)
def test_what_is_not_there_says_why_when_it_is_imported(path, name, why):
    """In one sentence, with what to do; an unknown name is unknown as ever."""
    module = importlib.import_module(".".join(filter(None, ["assay.compat.verifiers", path])))
    with pytest.raises(ImportError, match=f"{name} is not available: it.*{why}.*: .*"):
        getattr(module, name)
    assert not hasattr(module, "Nonsense")


@pytest.mark.parametrize(
    "name",
    [
        "OpenAIChatCompletionsClient",
        "OpenAICompletionsClient",
        "OpenAIResponsesClient",
        "AnthropicMessagesClient",
    ],
)
def test_a_client_for_one_api_is_that_of_the_sdk(name):
    """It is not wrapped, and a class derived from it is refused with what to derive from."""
    client, kind = object(), getattr(vf, name)
    assert kind(client) is client
    assert not isinstance(client, kind)
    with pytest.raises(
        TypeError, match=r"Mine is derived from the client for one API: derive it from vf\.Client"
    ):
        type("Mine", (kind,), {})


async def test_whatever_a_client_raises_is_an_error_of_the_model():
    """An error of the program's own client too, with its cause, as there; a budget that is spent stays what it is."""

    class Broken:
        class chat:  # noqa: N801 - as an SDK spells it
            class completions:  # noqa: N801
                @staticmethod
                async def create(**asked):
                    raise RuntimeError("the wire is cut")

    env = vf.SingleTurnEnv(dataset=[{"question": "2 + 2?", "answer": "4"}], rubric=vf.Rubric())
    state = await env.rollout(env.get_dataset()[0], Broken(), "m")
    assert isinstance(state["error"], vf.ModelError)
    assert isinstance(state["error"].__cause__, RuntimeError)
    assert "the wire is cut" in str(state["error"])


async def test_hooks_that_tidy_up_get_what_they_name():
    """The environment beside the state, in any order; one that names the state alone may call it as it likes."""
    seen = []

    class Named(vf.SingleTurnEnv):
        @vf.cleanup
        async def tidy(self, resources, env, state):
            seen.append((env is self, resources, state["answer"]))

        @vf.cleanup
        def plain(self, rollout):
            seen.append(rollout["answer"])

    env = Named(dataset=[{"question": "2 + 2?", "answer": "4"}])
    with ModelServer("4") as server:
        [output] = (await env.evaluate(model=server.model))["outputs"]
    assert output["error"] is None
    assert seen == ["4", (True, None, "4")]


def test_small_things_that_a_program_may_touch(tmp_path):
    """Endpoints are records and hold no endpoints, parsers are of their kind, and a system message comes out of a file."""
    config = vf.ClientConfig(
        endpoint_configs=[{"api_base_url": "http://a/v1"}, vf.EndpointClientConfig(timeout=1.0)]
    )
    assert config.endpoint_configs[0].api_base_url == "http://a/v1"
    assert config.endpoint_configs[1].max_retries == 10
    with pytest.raises(ValueError, match="endpoint_configs cannot include endpoint_configs"):
        vf.ClientConfig(endpoint_configs=[{"endpoint_configs": [{"api_base_url": "http://b/v1"}]}])
    assert type(vf.Rubric().parser) is vf.Parser
    (tmp_path / "system.md").write_text("Add.\n", encoding="utf-8")
    assert vf.SystemMessage.from_path(tmp_path / "system.md") == {
        "role": "system",
        "content": "Add.\n",
    }


async def test_what_is_saved_of_a_rollout_has_its_tokens():
    """Those that were counted, and none where no model told any."""
    env = vf.SingleTurnEnv(dataset=[{"question": "2 + 2?", "answer": "4"}], rubric=vf.Rubric())
    with ModelServer("4") as server:
        state = await env.rollout(env.get_dataset()[0], None, server.model)
    state["metrics"] = {}
    usage = state["usage"]
    assert usage["output_tokens"] > 0
    assert state_to_output(state)["token_usage"] == usage
    assert "token_usage" not in state_to_output(
        vf.State(state, usage={"input_tokens": 0.0, "output_tokens": 0.0})
    )


async def test_what_a_rubrics_own_code_leaves_in_one_state_costs_no_other_rollout_its_score():
    """A reward that is no number, after scoring, is passed over; metrics that are no mapping, in scoring, are an error."""

    class Cleaning(vf.Rubric):
        async def cleanup(self, state):
            if state["answer"] == "1":
                state |= {"reward": "good", "metrics": "many"}

    class Scoring(vf.Rubric):
        async def score_group(self, states):
            await super().score_group(states)
            for state in states:
                if state["answer"] == "1":
                    state["metrics"] = 5

    rows = [{"question": "q", "answer": str(n)} for n in range(3)]
    with ModelServer(lambda *_: "yes") as server:
        for rubric, expected in ((Cleaning, [1.0, 1.0, 1.0]), (Scoring, [1.0, 0.0, 1.0])):
            env = vf.SingleTurnEnv(dataset=rows, rubric=rubric(funcs=[lambda completion: 1.0]))
            client = openai.AsyncOpenAI(base_url=server.url, api_key="none")
            results = await env.evaluate(client, "m")
            assert [output["reward"] for output in results["outputs"]] == expected
            failed = [output["errors"] for output in results["outputs"] if output["errors"]]
            assert all("wrote 5 as the metrics, not a mapping" in str(errors) for errors in failed)
            assert len(failed) == expected.count(0.0)
