"""Score runs of smolagents, whose steps are read as a chat with tool calls.

The steps may be objects, saved dicts, or the messages that smolagents writes for its model.
"""

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

FINAL_ANSWER_TOOL = "final_answer"  # the tool that an agent calls to give its answer
CODE_TOOL = "python_interpreter"  # the name of the call that stands for a step of code

# The roles that smolagents adds to those of a usual chat.
_CALL_ROLE = "tool-call"
_RESPONSE_ROLE = "tool-response"
# How its messages begin, by what they hold.
_CALLS_HEADING = "Calling tools:\n"
_OBSERVATION_HEADING = "Observation:\n"
_ERROR_HEADING = "Error:\n"
# Within an observation, it stands before the value of the last line of code.
_LAST_OUTPUT_HEADING = "Last output from code snippet:\n"


class SmolaToolRubric(ToolRubric):
    """Scores runs of smolagents (its memory, steps or messages), and ordinary chats with its tools.

    The answer of a run is what the agent returned. In code, every place that calls a tool counts as
    one call, and all of them succeed if the code does. The format score of a run is the share of
    the model's outputs in which smolagents could read a call or code.

    >>> call = {"id": "1", "function": {"name": "calculator", "arguments": {"expression": "6 * 7"}}}
    >>> final = {"id": "2", "function": {"name": "final_answer", "arguments": {"answer": "42"}}}
    >>> first_step = {"step_number": 1, "tool_calls": [call], "observations": "42"}
    >>> last_step = {"step_number": 2, "tool_calls": [final], "observations": "42"}
    >>> run = [first_step, {**last_step, "is_final_answer": True}]
    >>> SmolaToolRubric(tools=["calculator"]).score_rollout_sync(completion=run, answer="42")["reward"]
    1.4
    """

    def _read_completion(self, completion: object) -> Any:
        """Return a run as it is; anything else is read as a chat."""
        if is_run(completion):
            return completion
        return super()._read_completion(completion)

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        """Return the tool calls. After a step of code come the calls of this rubric's tools in it."""
        if not is_run(completion):
            return super().tool_uses(completion)
        uses: list[ToolUse] = []
        for use in super().tool_uses(transcript_of(completion)):
            uses.append(use)
            if use.name == CODE_TOOL:
                for function_name in list_called_functions(use.arguments):
                    if function_name in self.tools:
                        uses.append(ToolUse(function_name, "", use.succeeded))
        return uses

    def format_reward_func(self, completion: Messages, **kwargs: Any) -> float:
        """Return the share of the model's outputs in which a call or code could be read.

        A completion that is not a run is scored by the format of the parser.
        """
        if not is_run(completion):
            return super().format_reward_func(completion)
        output_count = 0
        readable_count = 0
        for step in _read_steps(completion):
            if not _is_action(step):
                continue
            has_calls = bool(_read_step_calls(step))
            if has_calls or get_field(step, "model_output"):
                output_count += 1
            if has_calls:
                readable_count += 1
        if output_count == 0:
            return 0.0
        return readable_count / output_count

    def _answer(self, completion: Messages) -> Any:
        """Return the answer of a run as the parser reads it; all of it if that reads nothing."""
        if not is_run(completion):
            return super()._answer(completion)
        chat = transcript_of(completion)
        parsed_answer = super()._answer(chat)
        if parsed_answer is None:
            return completion_text(chat)
        return parsed_answer


def is_run(completion: object) -> bool:
    """Whether a completion holds steps or messages of smolagents, and is not a usual chat."""
    for item in _list_items(completion):
        role = get_role(item)
        if role in (_CALL_ROLE, _RESPONSE_ROLE):
            return True
        has_step_field = any(
            get_field(item, name) is not None for name in ("step_number", "plan", "task")
        )
        if has_step_field and not role:
            return True
    return False


def transcript_of(run: object) -> list[Message]:
    """Return a smolagents run as a chat: the model's texts and calls, the results, and the answer.

    `run` is an agent, its memory or its `RunResult`, a list of steps, or the messages that it
    writes for its model.
    """
    chat: list[Message] = []
    for step in _read_steps(run):
        plan = get_field(step, "plan")
        task = get_field(step, "task")
        if _is_action(step):
            chat += _write_action(step)
        elif plan is not None:
            chat.append({"role": "assistant", "content": get_content_text(plan)})
        elif chat and task is not None:  # the first task is the prompt, and not of the completion
            chat.append({"role": "user", "content": str(task)})
    return chat


def list_called_functions(code: str) -> list[str]:
    """Return the name of every function that the code calls by name, once for each call.

    Returns no names if the code is not valid Python.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.append(node.func.id)
    return names


def _is_action(step: object) -> bool:
    """Whether a step is an action of the agent, and not a plan or a task."""
    return get_field(step, "step_number") is not None


def _read_step_calls(step: object) -> list[ToolCall]:
    """Return the tool calls of a step.

    If the step failed, smolagents keeps them only in the message of the model.
    """
    return read_tool_calls(step) or read_tool_calls(get_field(step, "model_output_message"))


def _write_action(step: object) -> Iterator[Message]:
    """Yield one action as messages: the model's text and calls, their results, and the answer."""
    text = get_content_text(get_field(step, "model_output"))
    all_calls = _read_step_calls(step)
    calls = [call for call in all_calls if call.name != FINAL_ANSWER_TOOL]
    observations = get_field(step, "observations")
    error = get_field(step, "error")
    error_message = ""
    if error is not None:
        error_message = str(get_field(error, "message") or error)

    if calls:
        entries = [call.openai_entry for call in calls]
        yield {"role": "assistant", "content": text, "tool_calls": entries}
        results = _split_results(observations, error_message, len(calls))
        for call, result in zip(calls, results, strict=True):
            yield {"role": "tool", "tool_call_id": call.id, "content": result}
    elif text and not all_calls:
        # The text beside a call of `final_answer` is left out: only the answer follows.
        yield {"role": "assistant", "content": text}
        if error_message:
            yield {"role": "user", "content": failure(error_message)}

    output = get_field(step, "action_output")
    answer: Any = None
    if get_field(step, "is_final_answer"):
        answer = observations if output is None else output
    elif not all_calls:
        answer = output  # the answer of an agent that has used up its steps
    if answer is not None:
        yield {"role": "assistant", "content": str(answer)}


def _split_results(observations: object, error_message: str, call_count: int) -> list[str]:
    """Return one result per call of a step.

    smolagents keeps the results of all calls in one text. If it has one line per call, each call
    gets its line, otherwise each gets the whole text. After an error, the model sees nothing but
    the error, so that is the result of each call.
    """
    if error_message:
        return [failure(error_message)] * call_count
    text = str(observations or "")
    lines = text.split("\n")
    if len(lines) == call_count:
        return lines
    return [text] * call_count


def _list_items(run: object) -> Sequence[Any]:
    """Return the steps or messages of an agent, of its memory or result, or of a list of them.

    Returns none if the run is something else.
    """
    memory = get_field(run, "memory")
    owner_of_steps = run if memory is None else memory
    items = get_field(owner_of_steps, "steps")
    if items is None:
        items = run
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        return ()
    return cast("Sequence[Any]", items)


def _read_steps(run: object) -> Iterator[Any]:
    """Yield the steps of a run; messages are grouped into the steps that they were written from."""
    messages: list[Any] = []  # of the step that is being read
    for item in _list_items(run):
        role = get_role(item)
        if not role:
            yield item  # it is a step, and not a message
            continue
        if messages and _starts_step(item, messages):
            yield _build_step(messages)
            messages = []
        if role in ("assistant", _CALL_ROLE, _RESPONSE_ROLE):
            messages.append(item)
    if messages:
        yield _build_step(messages)


def _starts_step(message: object, messages: Sequence[Any]) -> bool:
    """Whether a message starts a new step, and is not part of the step of the messages before it.

    A step is written as the model's text, its calls, and the responses, each of which may be
    missing.
    """
    role = get_role(message)
    if role == "assistant":
        return True
    if role == _CALL_ROLE:
        # In one step, only the model's text comes before the calls.
        return any(get_role(earlier) != "assistant" for earlier in messages)
    # The error of a step with calls starts with the id of the first call. So an error that starts
    # with the heading is that of a step without calls.
    if role == _RESPONSE_ROLE and message_text(message).startswith(_ERROR_HEADING):
        return any(get_role(earlier) == _CALL_ROLE for earlier in messages)
    return False


def _build_step(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the step that these messages were written from, with the fields of smolagents."""
    step: dict[str, Any] = {"step_number": 0}
    for message in messages:
        role = get_role(message)
        text = message_text(message)
        if role == "assistant":
            step["model_output"] = text
        elif role == _CALL_ROLE:
            step["tool_calls"] = _read_python_literal(text.removeprefix(_CALLS_HEADING))
        elif text.startswith(_OBSERVATION_HEADING):
            step["observations"] = text.removeprefix(_OBSERVATION_HEADING)
        else:
            step["error"] = text.partition(_ERROR_HEADING)[2] or text
    if "error" not in step and _gives_answer(step):
        observations = step.get("observations", "")
        step["is_final_answer"] = True
        step["action_output"] = observations.rpartition(_LAST_OUTPUT_HEADING)[2] or observations
    return step


def _read_python_literal(text: str) -> Any:
    """Return the value of a Python literal, as which smolagents writes calls; None if it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _gives_answer(step: Mapping[str, Any]) -> bool:
    """Whether a step calls `final_answer`, as a tool or in its code."""
    for call in read_tool_calls(step):
        if call.name == FINAL_ANSWER_TOOL:
            return True
        if call.name == CODE_TOOL and FINAL_ANSWER_TOOL in list_called_functions(call.arguments):
            return True
    return False
