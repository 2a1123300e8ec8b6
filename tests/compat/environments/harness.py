"""Run one of these environments on scripted replies, and put what came of it into rows that two packages can compare.

Imported by `record.py`, where verifiers itself is installed, and by the tests, where `import verifiers` finds ours.
"""

import importlib.util
import json
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from openai import AsyncOpenAI

from assay.messages import ToolCall
from assay.testing import Fault, ModelServer

HERE = Path(__file__).parent
PACKAGES = HERE / "packages"  # small ones with the interface of those that environments join
NAMES = sorted(
    path.stem
    for path in HERE.glob("*.py")
    if "\ndef load_environment(" in path.read_text(encoding="utf-8")
)


def module_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"environment_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answering(replies: Any) -> Any:
    """A rule for a `ModelServer`: what the script has for the question, in the turn that it is."""
    given: Counter[str] = Counter()

    def answer(messages):
        if callable(replies):
            return replies(messages)
        asked = [
            (n, m["content"])
            for n, m in enumerate(messages)
            if m["role"] == "user" and m["content"] in replies
        ]
        place, question = asked[0]
        turn = sum(m["role"] == "assistant" for m in messages[place:])
        reply = replies[question][turn]
        if isinstance(reply, dict):
            reply = reply["any of"][given[question]]
            given[question] += 1
        calls = reply if isinstance(reply, list) else [reply]
        if isinstance(calls[0], str):
            return calls[0]
        texts = [
            (name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls
        ]
        return [
            ToolCall(name, text, f"call_{turn}_{number}")
            for number, (name, text) in enumerate(texts)
        ]

    return answer


async def rows_of(name: str) -> list[dict[str, Any]]:
    """Evaluate an environment, and return a row a rollout: what was asked and said, scored, and how it ended."""
    module = module_of(name)
    faults = [
        None if f is None else getattr(Fault, f[0])(f[1]) for f in getattr(module, "FAULTS", ())
    ]
    options = getattr(module, "OPTIONS", {})
    with ModelServer(
        answering(getattr(module, "replies", None) or module.REPLIES), faults=faults
    ) as server:
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        environment = module.load_environment()
        async with AsyncOpenAI(max_retries=0) as client:
            vf = __import__("verifiers")
            asked = getattr(module, "Client", vf.OpenAIChatCompletionsClient)(client)
            results = await environment.evaluate(asked, "test", **options)
        for rubric in getattr(environment.rubric, "rubrics", [environment.rubric]):
            if getattr(rubric, "judge_client", None) is not None:
                await rubric.judge_client.close()
    rows = [row_of(output, options.get("state_columns", ())) for output in results["outputs"]]
    return sorted(rows, key=lambda row: json.dumps([row["example"], row["completion"]]))


def row_of(output: dict[str, Any], columns: Any) -> dict[str, Any]:
    error = output["error"]
    return {
        "example": output["example_id"],
        "prompt": [message_of(message) for message in output["prompt"]],
        "completion": [message_of(message) for message in output["completion"] or ()],
        "reward": output["reward"],
        # A time is another one in every run.
        "metrics": {
            n: 0.0 if n.endswith("_time") else float(v)
            for n, v in sorted((output["metrics"] or {}).items())
        },
        "stop_condition": output["stop_condition"],
        "is_truncated": output["is_truncated"],
        "error": None if error is None else error["error"],
        **{name: output[name] for name in columns},
    }


def message_of(message: Any) -> dict[str, Any]:
    fields = message if isinstance(message, dict) else message.model_dump(exclude_none=True)
    calls = [
        json.loads(call) if isinstance(call, str) else call
        for call in fields.get("tool_calls") or ()
    ]
    calls = [call if isinstance(call, dict) else call.model_dump() for call in calls]
    told = [
        {"id": c["id"], **{n: (c.get("function") or c)[n] for n in ("name", "arguments")}}
        for c in calls
    ]
    plain = {"role": fields["role"], "content": plain_content(fields.get("content"))}
    return (
        plain
        | ({"tool_calls": told} if told else {})
        | {n: fields[n] for n in ("tool_call_id",) if fields.get(n)}
    )


def plain_content(content: Any) -> Any:
    parts = content if isinstance(content, list) else []
    return (
        [p if isinstance(p, dict) else p.model_dump(exclude_none=True) for p in parts]
        or content
        or ""
    )
