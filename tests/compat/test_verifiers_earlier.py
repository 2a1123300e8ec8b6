"""Programs that were written for `verifiers` before 0.1.11 find what they used there."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest
from assay.compat.verifiers.utils.message_utils import concat_messages
from assay.compat.verifiers.utils.response_utils import (
    parse_is_truncated,
    parse_response_messages,
    parse_response_tokens,
)
from assay.compat.verifiers.utils.tool_utils import convert_func_to_oai_tool

import assay.compat.verifiers as vf
from assay.compat.verifiers.types import ChatCompletion, Completion
from assay.testing import ModelServer


def env_of(question, **given):
    def right(completion, answer, task):
        return float(completion[-1].content == answer and task == "words")

    return vf.SingleTurnEnv(
        dataset=[{"question": question, "answer": "4"}], rubric=vf.Rubric(funcs=[right]), **given
    )


async def test_the_task_of_an_example_is_the_way_to_its_environment():
    """And the name that functions get; an input that names no environment of the group fails alone."""
    group = vf.EnvGroup([env_of("2 + 2?"), env_of("Four?")], env_names=["sums", "words"])
    assert group.get_dataset()["task"] == ["sums", "words"]
    assert (group.get_env_for_task("words"), group.get_env_for_task("other")) == (
        group.envs[1],
        group.envs[0],
    )
    inputs = [
        {
            "prompt": [{"role": "user", "content": "?"}],
            "answer": "4",
            "task": task,
            "example_id": place,
        }
        for place, task in enumerate(["words", "sums", "other"])
    ]
    with ModelServer("4") as server:
        outputs = (await group.generate(inputs, model=server.model))["outputs"]
    assert [output["reward"] for output in outputs] == [1.0, 0.0, 0.0]
    assert [bool(output["error"]) for output in outputs] == [False, False, True]
    assert "use sums, words" in outputs[2]["error"]["error_chain_repr"]
    assert group.rubric.all_reward_names == ["num_turns", "right"]


async def test_tools_in_the_form_of_openai_are_those_of_the_environment():
    """Set, added to or taken out under the name that they had, and read by either form."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def shout(text: str) -> str:
        return text.upper()

    env = vf.ToolEnv(tools=[add], dataset=[{"question": "2 + 2?", "answer": "4"}])
    assert [tool["function"]["name"] for tool in env.oai_tools] == ["add"]
    assert env.oai_tools == [convert_func_to_oai_tool(add)]
    assert json.loads(json.dumps(env.oai_tools))[0].keys() == {"type", "function"}
    assert convert_func_to_oai_tool(add)["function"]["parameters"]["required"] == ["a", "b"]
    env.oai_tools.append({"type": "function", "function": {"name": "stop"}})
    with ModelServer("4") as server:
        await env.evaluate(model=server.model)
        env.remove_tool(add)
        env.oai_tools = [*env.oai_tools, convert_func_to_oai_tool(shout)]
        await env.evaluate(model=server.model)
    told = [[tool["function"]["name"] for tool in asked.body["tools"]] for asked in server.requests]
    assert told == [["add", "stop"], ["stop", "shout"]]
    assert list(env.tool_monitor_rubric.tool_names) == []


async def test_an_environment_with_a_loop_of_its_own_reads_responses_by_the_functions_of_its_time():
    """A chat gives messages, and a completion a text; texts are joined to a text."""

    class Own(vf.Environment):
        async def rollout(self, input, client, model, sampling_args=None):
            state = await self.init_state(input, client, model, sampling_args)
            response = await self.get_model_response(state, state["prompt"])
            assert isinstance(response, ChatCompletion)
            assert not isinstance(response, Completion)
            said = await parse_response_messages(response, self.message_type)
            state["completion"] = concat_messages([state["prompt"], said])[len(state["prompt"]) :]
            state["cut"] = await parse_is_truncated(response, self.message_type)
            assert (
                await parse_response_tokens(response, self.message_type, self.max_seq_len) is None
            )
            assert response.choices[0].text == "4"
            await self._cleanup(state)
            return state

        @vf.cleanup
        async def mark(self, state):
            state["tidied"] = True

    for kind, prompt, said in (
        ("chat", [{"role": "user", "content": "2 + 2?"}], [{"role": "assistant", "content": "4"}]),
        ("completion", "2 + 2 =", "4"),
    ):
        env = Own(dataset=[{"prompt": prompt}], message_type=kind)
        with ModelServer("4") as server:
            results = await env.evaluate(model=server.model, state_columns=["cut", "tidied"])
        assert (results["completion"], results["cut"], results["tidied"]) == (
            [said],
            [False],
            [True],
        )
    assert concat_messages([prompt, said]) == "2 + 2 =4"
    assert (
        concat_messages([[{"role": "user", "content": "a"}], {"role": "user", "content": "b"}])[1][
            "content"
        ]
        == "b"
    )


@pytest.mark.parametrize(("retries", "kind"), [(1, None), (0, "InvalidModelResponseError")])
async def test_an_answer_without_a_reply_is_asked_for_again(monkeypatch, retries, kind):
    """So often as `max_retries` says; then it is an invalid response, as there."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"}}
    answers = iter([{"choices": None}, {"choices": [choice]}])

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"id": "1", "model": "m", **next(answers)}).encode())

        def log_message(self, *told):
            pass

    async def at_once(seconds):
        return None

    monkeypatch.setattr("assay.compat.verifiers.example_data.asyncio.sleep", at_once)
    env = vf.SingleTurnEnv(
        dataset=[{"question": "2 + 2?", "answer": "4"}],
        rubric=vf.Rubric(funcs=[lambda answer: 1.0]),
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        async with openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k"
        ) as client:
            [output] = (await env.evaluate(client, "m", max_retries=retries))["outputs"]
        server.shutdown()
    assert (output["error"] or {}).get("error") == kind
    assert output["reward"] == (kind is None)


async def test_a_gym_is_played_in_texts_where_the_type_is_completion():
    """Its examples begin with a text, and the completion is one."""

    class Count:
        def reset(self, seed=None):
            return f"x={seed}"

        def step(self, action):
            return "x=1", float(action == "4"), True, {}

    env = vf.GymEnv(Count, message_type="completion", num_train_episodes=0, num_eval_episodes=1)
    with ModelServer("4") as server:
        [output] = (await env.evaluate(model=server.model))["outputs"]
    assert (output["prompt"], type(output["completion"]), output["reward"]) == ("x=0", str, 1.0)
