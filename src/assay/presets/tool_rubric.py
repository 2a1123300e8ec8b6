"""Score rollouts with tools: the answer, the share of calls that succeeded, and the format."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from assay.checks.expected import exact, required
from assay.criterion import Criterion, get_check_name
from assay.errors import RubricError
from assay.messages import (
    get_field,
    get_role,
    list_messages,
    message_text,
    read_tool_calls,
    split_message,
)
from assay.parsers import Parser, XMLParser
from assay.parsers.text_parsers import average_score
from assay.parsers.xml import find_tag_spans
from assay.report import Score
from assay.rubric import Rubric
from assay.tools import is_failure
from assay.trajectory import read_calls
from assay.types import Messages
from assay.wording import format_value

# The default weights of the answer, the calls and the format. They are those of verifiers.
DEFAULT_WEIGHTS = (1.0, 0.2, 0.2)
CALL_TAG = "tool"  # the tag in which a model writes a call if it cannot call tools natively
RESULT_TAG = "result"  # the tag in which the environment replies to such a call
MEASURES = ("reward", "count", "attempt")  # the lines without weight of each tool


class ToolUse(NamedTuple):
    """One call of a tool."""

    name: str  # empty if the call cannot be read, so that it is not known which tool was meant
    arguments: str  # as the model wrote them
    succeeded: bool | None  # None if there was no reply


class ToolRubric(Rubric):
    """Scores rollouts in which a model calls tools, natively or as JSON in `<tool>` tags.

    `correct_answer_reward_func`, `tool_execution_reward_func` and `format_reward_func` have the
    three `weights`. Every tool has three lines without weight: `{tool}_reward` (1.0 if a call
    succeeded), `{tool}_count` (how many succeeded) and `{tool}_attempt` (how many there were).

    >>> call = '{"name": "calculator", "args": {"expression": "6 * 7"}}'
    >>> chat = [
    ...     {"role": "assistant", "content": f"<reasoning>6 * 7.</reasoning><tool>{call}</tool>"},
    ...     {"role": "user", "content": "<result>42</result>"},
    ...     {"role": "assistant", "content": "<reasoning>So.</reasoning><answer>42</answer>"},
    ... ]
    >>> scores = ToolRubric(tools=["calculator"]).score_rollout_sync(completion=chat, answer="42")
    >>> scores["calculator_reward"], scores["calculator_count"], scores["reward"]
    (1.0, 1.0, 1.4)
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        weights: Sequence[float] | None = None,
        parser: Parser | None = None,
        env_parser: XMLParser | None = None,
        **rubric: Any,
    ) -> None:
        """Set the tools that a model may call, and how completions are read.

        A tool is a function, an object with a `name`, a JSON schema of one, or just a name.
        `parser` reads the answer (by default a `ToolParser`). `env_parser` reads what the
        environment replies to a call that was written in a tag: the text in `<result>`.
        """
        self.tools: Any = _name_tools(tools)  # by the name that a model calls them by
        self.env_parser = env_parser or XMLParser([RESULT_TAG])
        # Each field of an `XMLParser` is a tuple of names: its tag and the alternatives.
        fields = getattr(self.env_parser, "fields", ())
        if not any(RESULT_TAG in names for names in fields):
            raise RubricError(
                f"env_parser is {format_value(env_parser)}, which reads no <{RESULT_TAG}>: "
                f"give XMLParser([{RESULT_TAG!r}])"
            )
        super().__init__(self._make_criteria(weights), None, parser, **rubric)

    def _make_criteria(self, weights: Sequence[float] | None) -> list[Criterion]:
        """Return the three criteria with weights, and the metrics of each tool."""
        answer_weight, execution_weight, format_weight = _check_weights(weights)
        criteria = [
            Criterion.of(self.correct_answer_reward_func, answer_weight),
            Criterion.of(self.tool_execution_reward_func, execution_weight),
            Criterion.of(self.format_reward_func, format_weight),
        ]
        for name in self.tools:
            for measure in MEASURES:
                criteria.append(Criterion.of(ToolMetric(self, name, measure), 0.0))
        return criteria

    def _default_parser(self) -> Parser:
        return ToolParser()

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        """Return the calls of a completion in order, native ones and those in `<tool>` tags.

        A call fails if its reply is an `Error:` or, for a call in tags, has no `<result>`.
        """
        uses: list[ToolUse] = []
        for message, replies in _pair_with_replies(completion):
            if read_tool_calls(message):
                for call in read_calls("", [message, *replies]):
                    succeeded = None if call.result is None else not call.failed
                    uses.append(ToolUse(call.name, call.arguments, succeeded))
            else:
                uses += _read_tagged_calls(message, replies, self.env_parser)
        return uses

    def correct_answer_reward_func(self, completion: Messages, answer: Any, **kwargs: Any) -> Score:
        """Return 1.0 if the answer that the parser reads equals `answer`, as a text or a number."""
        expected = required(answer)
        parsed_answer = self._answer(completion)
        if parsed_answer is None:
            return Score(0.0, "the parser reads no answer in it")
        is_equal = str(parsed_answer).strip() == str(expected).strip()
        if not is_equal:
            with suppress(ValueError):  # `exact()` raises if one of them is not a number
                is_equal = exact(parsed_answer) == exact(expected)
        if is_equal:
            return Score(1.0, "the answer is as expected")
        return Score(
            0.0,
            f"the answer is {format_value(parsed_answer)}, and {format_value(expected)} was expected",
        )

    def tool_execution_reward_func(self, completion: Messages, **kwargs: Any) -> Score:
        """Return the share of calls that succeeded, among those with a reply; 0.0 if there are none."""
        with_reply = [use for use in self.tool_uses(completion) if use.succeeded is not None]
        if not with_reply:
            return Score(0.0, "no tool was run")
        success_count = sum(bool(use.succeeded) for use in with_reply)
        return Score(
            success_count / len(with_reply),
            f"{success_count} of {len(with_reply)} calls succeeded",
        )

    def format_reward_func(self, completion: Messages, **kwargs: Any) -> float:
        """Return how well the completion keeps the parser's format, from 0 to 1.

        Messages that call a tool natively have no format to keep, so they are left out.
        """
        # A `ToolParser` leaves out such messages itself.
        if isinstance(completion, str) or isinstance(self.parser, ToolParser):
            return self.parser.format_score(completion)
        return self.parser.format_score(_without_native_calls(completion))

    def _answer(self, completion: Messages) -> Any:
        """Return the answer in a completion; None if there is none. Subclasses override it."""
        return self.parser.parse_answer(completion)


class ToolMetric:
    """A check of how often a completion calls one tool, and whether successfully.

    `measure` is one of `MEASURES`.
    """

    def __init__(self, rubric: ToolRubric, tool: str, measure: str) -> None:
        self.rubric = rubric
        self.tool = tool
        self.measure = measure
        self.name = f"{tool}_{measure}"
        # Checks are told apart by this name, so that no answer of one is used for another.
        self.__qualname__ = f"ToolMetric.{self.name}"

    def __call__(self, completion: Messages, **kwargs: Any) -> float:
        """Return the number of calls, the number of successful ones, or 1.0 if there is any."""
        uses = [use for use in self.rubric.tool_uses(completion) if use.name == self.tool]
        if self.measure == "attempt":
            return float(len(uses))
        success_count = sum(bool(use.succeeded) for use in uses)
        if self.measure == "count":
            return float(success_count)
        return float(success_count > 0)


def _name_tools(tools: Iterable[Any]) -> dict[str, Any]:
    """Return the tools by name. Raise a `RubricError` if a name is missing or repeated."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RubricError(f"tools is {format_value(cast('object', tools))}: give a list of tools")
    tools_by_name: dict[str, Any] = {}
    for number, tool in enumerate(tools, start=1):
        name = _get_tool_name(tool)
        if not name or not isinstance(name, str):
            raise RubricError(
                f"tool {number} ({format_value(cast('object', tool))}) has no name, so no model "
                "could call it: define it with def, or give it a `name`"
            )
        if name in tools_by_name:
            raise RubricError(
                f"two tools are called {name!r}, and calls do not say which is meant: rename one"
            )
        tools_by_name[name] = tool
    return tools_by_name


def _get_tool_name(tool: Any) -> Any:
    """Return the name of a tool, which is a name, a JSON schema or a function.

    The name is empty or None if the tool has none.
    """
    if isinstance(tool, str):
        return tool.strip()
    if isinstance(tool, Mapping):
        # A JSON schema, either alone or below the key `function`.
        function = get_field(tool, "function")
        if function:
            return get_field(function, "name")
        return get_field(tool, "name")
    return get_check_name(tool)


def _check_weights(weights: Any) -> Sequence[Any]:
    """Return the three weights, by default `DEFAULT_WEIGHTS`. Raise if there are not three."""
    if weights is None:
        return DEFAULT_WEIGHTS
    is_list = hasattr(weights, "__iter__") and not isinstance(weights, str)
    if is_list:
        weights_list = list(weights)
        if len(weights_list) == 3:
            return weights_list
    raise RubricError(
        f"weights is {format_value(weights)}: give three numbers, for the answer, the calls and "
        "the format; other checks get theirs in add_reward_func"
    )


def _pair_with_replies(completion: Messages) -> list[tuple[object, list[object]]]:
    """Return each message of the assistant with the messages that reply to it, in order.

    A completion that is a text counts as one message without replies.
    """
    if isinstance(completion, str):
        return [(completion, [])]
    pairs: list[tuple[object, list[object]]] = []
    for message in list_messages(completion):
        role = get_role(message)
        if role == "assistant":
            pairs.append((message, []))
        elif pairs and role in ("tool", "user"):
            _, replies = pairs[-1]
            replies.append(message)
    return pairs


def _read_tagged_calls(
    message: object, replies: Sequence[object], env_parser: XMLParser
) -> Iterator[ToolUse]:
    """Yield the calls that a message has in `<tool>` tags."""
    text = message_text(message)
    calls = [text[start:end] for start, end in find_tag_spans(text, CALL_TAG)]
    if not calls:
        return
    results: list[str] = []
    for reply in replies:
        results += getattr(env_parser.parse_all(message_text(reply)), RESULT_TAG)
    # If there are fewer results than calls, they belong to the last calls. A reply without a result
    # means that a call failed; without any reply, it is not known whether the call succeeded.
    outcomes: list[bool | None] = [not is_failure(result) for result in results[-len(calls) :]]
    missing_outcome = False if replies else None
    missing_count = len(calls) - len(outcomes)
    outcomes = [missing_outcome] * missing_count + outcomes
    for call, succeeded in zip(calls, outcomes, strict=True):
        yield _read_tagged_call(call, succeeded)


def _read_tagged_call(call: str, succeeded: bool | None) -> ToolUse:
    """Return the call in the JSON of a tag; without a name if it cannot be read."""
    try:
        fields: Any = json.loads(call)
    except (ValueError, RecursionError):
        fields = None
    name = get_field(fields, "name")
    if not isinstance(name, str):
        return ToolUse("", call.strip(), succeeded)
    arguments = json.dumps(get_field(fields, "args") or {})
    return ToolUse(name, arguments, succeeded)


class ToolParser(XMLParser):
    """Reads `<reasoning>` and then `<tool>` or `<answer>`.

    In a chat with native tool calls, the messages without calls need no tags.
    """

    def __init__(self) -> None:
        super().__init__(["reasoning", ("tool", "answer")])

    def parse_answer(self, completion: Messages | None) -> Any:
        """Return the last `<answer>`.

        Without one, it is the last message of a chat with native calls, unless that message calls a
        tool itself. Returns None if there is no answer.
        """
        tagged_answer = super().parse_answer(completion)
        if tagged_answer is not None:
            return tagged_answer
        messages = [
            message for message in list_messages(completion) if get_role(message) == "assistant"
        ]
        if not _has_native_calls(messages) or read_tool_calls(messages[-1]):
            return None
        return split_message(messages[-1]).answer.strip() or None

    def format_score(self, completion: Messages | None) -> float:
        """Return the mean format score of the assistant's messages, from 0 to 1.

        In a chat with native tool calls, messages with calls are left out, and a message without
        tags scores 1.0 if it has any text.
        """
        score_tags = super().format_score
        messages = list_messages(completion)
        if not _has_native_calls(messages):
            return score_tags(completion)

        def score_text(text: str) -> float:
            if self._tag.search(text):
                return score_tags(text)
            return float(bool(text.strip()))

        return average_score(_without_native_calls(messages), score_text)


def _has_native_calls(messages: Sequence[object]) -> bool:
    """Return True if a message calls a tool natively, and not as JSON in a tag."""
    return any(read_tool_calls(message) for message in messages)


def _without_native_calls(completion: Messages) -> list[Any]:
    """Return the messages that do not call a tool natively."""
    return [message for message in list_messages(completion) if not read_tool_calls(message)]


# Metrics of the calls that a model made natively, whatever came of them.


def total_tool_calls(completion: Any) -> int:
    """Return how many tools were called."""
    return sum(_count_calls(completion).values())


def make_call_counter(name: str) -> Callable[..., int]:
    """Return the metric `{name}_calls`, which counts the calls of one tool."""

    def count_calls(completion: Any) -> int:
        return _count_calls(completion)[name]

    count_calls.__name__ = f"{name}_calls"
    return count_calls


def _count_calls(completion: Any) -> Counter[str]:
    """Return the number of calls of each tool."""
    counts: Counter[str] = Counter()
    for message in list_messages(completion):
        for call in read_tool_calls(message):
            counts[call.name] += 1
    return counts
