"""The model is asked by a client of the environment's own class, which has its own words for messages, tools and failures."""

import json
import time

import verifiers as vf
from datasets import Dataset

REPLIES = {
    "add": [[["double", {"x": 21}]], "42"],
    "shout": ["hello"],
    "nothing": ["-"],
    "broken": ["{"],
    "long": ["endless"],
    "kept": ["a word too much"],
}
ROWS = [{"question": question, "answer": "42"} for question in REPLIES]
OPTIONS = {"sampling_args": {"max_tokens": 7}, "state_columns": ["seen"]}


class Client(vf.Client[object, str, dict, str]):
    def setup_client(self, config):
        raise AssertionError("a client is given")

    async def to_native_tool(self, tool: vf.Tool):
        return f"{tool.name}({', '.join(tool.parameters['properties'])})"

    async def to_native_prompt(self, messages):
        lines = [
            f"{m.role}: {m.content or [call.name for call in m.tool_calls or ()]}" for m in messages
        ]
        return "\n".join(lines), {"chat": messages}

    async def get_native_response(
        self, prompt, model, sampling_args, tools=None, *, chat, state, **kwargs
    ):
        seen = [
            prompt,
            model,
            sampling_args,
            tools,
            sorted(kwargs),
            isinstance(state["client"], Client),
        ]
        state["seen"] = [*state.get("seen", []), seen]
        plain = [{"role": m.role, "content": m.content or ""} for m in chat]
        reply = await self.client.chat.completions.create(model=model, messages=plain)
        said = reply.choices[0].message
        calls = [
            (call.id, call.function.name, call.function.arguments) for call in said.tool_calls or ()
        ]
        return {"text": said.content, "calls": calls}

    async def raise_from_native_response(self, response):
        if response["text"] == "-":
            raise vf.EmptyModelResponseError("it said nothing")
        if response["text"] == "endless":
            raise vf.OverlongPromptError("it is too long")

    async def from_native_response(self, response):
        if response["text"] == "{":
            json.loads(response["text"])
        cut = response["text"] == "a word too much"
        return vf.Response(
            id="one",
            created=int(time.time()),
            model="mine",
            usage=vf.types.Usage(
                prompt_tokens=3, reasoning_tokens=0, completion_tokens=2, total_tokens=5
            ),
            message=vf.types.ResponseMessage(
                content=response["text"] and response["text"].upper(),
                finish_reason="length" if cut else "stop",
                is_truncated=cut,
                tool_calls=[vf.ToolCall(id=i, name=n, arguments=a) for i, n, a in response["calls"]]
                or None,
            ),
        )

    async def close(self):
        raise AssertionError("it is the caller's to close")


def double(x: int) -> int:
    """Twice a number."""
    return 2 * x


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def loud(state) -> float:
    step = state["trajectory"][-1] if state["trajectory"] else None
    return (
        0.0
        if step is None
        else float(step["response"].message.content.isupper() and step["response"].id == "one")
    )


def tokens(state) -> float:
    return sum(state["usage"].values())


def load_environment() -> vf.Environment:
    rubric = vf.Rubric(funcs=[exact, loud, tokens], weights=[1.0, 0.5, 0.0])
    return vf.ToolEnv(dataset=Dataset.from_list(ROWS), tools=[double], rubric=rubric, max_turns=3)
