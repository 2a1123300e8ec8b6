"""Score runs of smolagents: its steps, as objects, saved dicts or messages, stand for a chat with tools."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from assay.messages import (
    ToolCall,
    completion_text,
    get_content_text,
    get_field,
    get_role,
    message_text,
    read_tool_calls,
)
from assay.presets.tool_rubric import ToolRubric, ToolUse
from assay.tools import failure
from assay.types import Message, Messages


class SmolaToolRubric(ToolRubric):
    """Scores runs of smolagents (its memory, steps or messages), and any rollout in which its tools are called.

    The answer of a run is what the agent returned. In code, every place that calls a tool counts as one call, and all
    succeed when the code does. The format of a run is the share of turns that could be read.

    >>> call = {"id": "1", "function": {"name": "calculator", "arguments": {"expression": "6 * 7"}}}
    >>> final = {"id": "2", "function": {"name": "final_answer", "arguments": {"answer": "42"}}}
    >>> last = {"step_number": 2, "tool_calls": [final], "observations": "42", "is_final_answer": True}
    >>> steps = [{"step_number": 1, "tool_calls": [call], "observations": "42"}, last]
    >>> SmolaToolRubric(tools=["calculator"]).score_rollout_sync(completion=steps, answer="42")["reward"]
    1.4
    """

    def _read_completion(self, completion: object) -> Any:
        return completion if is_run(completion) else super()._read_completion(completion)

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        if not is_run(completion):
            return super().tool_uses(completion)
        uses: list[ToolUse] = []
        for use in super().tool_uses(transcript_of(completion)):
            uses.append(use)
            if use.name == CODE:
                called = [name for name in names_called(use.arguments) if name in self.tools]
                uses += [ToolUse(name, "", use.succeeded) for name in called]
        return uses

    def format_reward_func(self, completion: Messages, **kwargs: Any) -> float:
        """The share of turns that could be read as a call or as code; for another chat, how well it keeps the format."""
        if not is_run(completion):
            return super().format_reward_func(completion)
        actions = [
            step for step in _steps(completion) if get_field(step, "step_number") is not None
        ]
        turns = [step for step in actions if _calls(step) or get_field(step, "model_output")]
        return sum(bool(_calls(step)) for step in turns) / len(turns) if turns else 0.0

    def _answer(self, completion: Messages) -> Any:
        """What the parser reads in the answer of a run, or the whole of it."""
        if not is_run(completion):
            return super()._answer(completion)
        chat = transcript_of(completion)
        found = super()._answer(chat)
        return completion_text(chat) if found is None else found


FINAL = "final_answer"  # the tool by which an agent gives its answer
CODE = "python_interpreter"  # the name of the call that stands for a step of code
_CALL, _RESPONSE = "tool-call", "tool-response"
_CALLING, _OBSERVED, _FAILED = "Calling tools:\n", "Observation:\n", "Error:\n"
_LAST = "Last output from code snippet:\n"


def is_run(completion: object) -> bool:
    """Whether a completion is what smolagents keeps, rather than a usual chat."""

    def is_kept(item: object) -> bool:
        is_step = any(get_field(item, name) is not None for name in ("step_number", "plan", "task"))
        return get_role(item) in (_CALL, _RESPONSE) or (is_step and not get_role(item))

    return any(map(is_kept, _items(completion)))


def transcript_of(run: object) -> list[Message]:
    """Return the chat of a smolagents run: what the model said, its calls, their replies, and last its answer.

    `run` is an agent, its memory or its `RunResult`, a list of steps, or the messages it writes for its model.
    """
    chat: list[Message] = []
    for step in _steps(run):
        if get_field(step, "step_number") is not None:
            chat += _of_action(step)
        elif (plan := get_field(step, "plan")) is not None:
            chat.append({"role": "assistant", "content": get_content_text(plan)})
        elif chat and (task := get_field(step, "task")) is not None:
            chat.append({"role": "user", "content": str(task)})
    return chat


def names_called(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [function.id for function in called if isinstance(function, ast.Name)]


def _calls(step: object) -> list[ToolCall]:
    """What the model called. A call that failed is kept in the model's own message alone."""
    return read_tool_calls(step) or read_tool_calls(get_field(step, "model_output_message"))


def _of_action(step: object) -> Iterator[Message]:
    """The messages of one step: what the model said and called, what came back, and its answer if it gave one."""
    text, called = get_content_text(get_field(step, "model_output")), _calls(step)
    calls = [call for call in called if call.name != FINAL]
    observed, output = get_field(step, "observations"), get_field(step, "action_output")
    error: Any = get_field(step, "error")
    failed = "" if error is None else str(get_field(error, "message") or error)
    if calls:
        yield {
            "role": "assistant",
            "content": text,
            "tool_calls": [call.openai_entry for call in calls],
        }
        # The agent keeps the replies to all calls in one text. After an error the model is shown that
        # alone, whatever else was done in the step.
        whole = failure(failed) if failed else str(observed or "")
        lines = whole.split("\n")
        replies = lines if len(lines) == len(calls) and not failed else [whole] * len(calls)
        for call, reply in zip(calls, replies, strict=True):
            yield {"role": "tool", "tool_call_id": call.id, "content": reply}
    elif text and not called:
        yield {"role": "assistant", "content": text}
        if failed:
            yield {"role": "user", "content": failure(failed)}
    answer: Any = None
    if get_field(step, "is_final_answer"):
        answer = observed if output is None else output
    elif not called:
        answer = output  # what an agent says when it may take no more steps
    if answer is not None:
        yield {"role": "assistant", "content": str(answer)}


def _items(run: object) -> Sequence[Any]:
    """The steps or messages of an agent, of its memory, of its result, or of a list of them."""
    memory = get_field(run, "memory")
    steps = get_field(run if memory is None else memory, "steps")
    found = run if steps is None else steps
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Sequence):
        return ()
    return cast("Sequence[Any]", found)


def _steps(run: object) -> Iterator[Any]:
    """Steps as they are, and messages gathered into the steps they were written from."""
    held: list[Any] = []
    for item in _items(run):
        role = get_role(item)
        if not role:
            yield item
            continue
        begins = role == "assistant"
        if role == _CALL:
            begins = any(get_role(each) != "assistant" for each in held)
        elif role == _RESPONSE:
            # The error of a step with calls names the first of them.
            begins = message_text(item).startswith(_FAILED) and any(
                get_role(each) == _CALL for each in held
            )
        if held and begins:
            yield _step(held)
            held = []
        if role in ("assistant", _CALL, _RESPONSE):
            held.append(item)
    if held:
        yield _step(held)


def _step(messages: Sequence[Any]) -> dict[str, Any]:
    step: dict[str, Any] = {"step_number": 0}
    for message in messages:
        text = message_text(message)
        if get_role(message) == "assistant":
            step["model_output"] = text
        elif get_role(message) == _CALL:
            try:  # the calls stand there as Python writes them
                step["tool_calls"] = ast.literal_eval(text.removeprefix(_CALLING))
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                step["tool_calls"] = None
        elif text.startswith(_OBSERVED):
            step["observations"] = text.removeprefix(_OBSERVED)
        else:
            step["error"] = text.partition(_FAILED)[2] or text
    gives_answer = any(
        call.name == FINAL or (call.name == CODE and FINAL in names_called(call.arguments))
        for call in read_tool_calls(step)
    )
    if gives_answer and "error" not in step:
        step["is_final_answer"] = True
        observed = step.get("observations", "")
        step["action_output"] = observed.rpartition(_LAST)[2] or observed
    return step
