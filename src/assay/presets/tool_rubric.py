"""Score rollouts with tools: whether the answer is right, whether tools were called well, and which ones."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from assay.checks.expected import exact, required
from assay.criterion import Criterion, get_check_name
from assay.errors import RubricError
from assay.messages import get_field, get_role, list_messages, message_text, read_tool_calls
from assay.parsers import Parser, XMLParser
from assay.parsers.text_parsers import average_score
from assay.parsers.xml import find_tag_spans
from assay.report import Score
from assay.rubric import Rubric
from assay.tools import is_failure
from assay.trajectory import read_calls
from assay.types import Messages
from assay.wording import format_value

# Of the answer, the calls and the format, unless you say otherwise: what people from verifiers expect.
USUAL_WEIGHTS = (1.0, 0.2, 0.2)
TAG = "tool"  # the tag in which a model writes a call, where it has no other way to call
RESULT = "result"  # the tag in which the environment replies to such a call
MEASURES = ("reward", "count", "attempt")  # the lines without weight of each tool


class ToolUse(NamedTuple):
    """One call of a tool."""

    name: str  # empty when the call cannot be read, so that it is not known which tool was meant
    arguments: str  # as the model wrote them
    succeeded: bool | None  # None when there was no reply


class ToolRubric(Rubric):
    """Scores rollouts in which a model calls tools, natively or as JSON in `<tool>` tags.

    `correct_answer_reward_func`, `tool_execution_reward_func` and `format_reward_func` have the three `weights`. Every
    tool has three lines without weight: `{tool}_reward` (1.0 when a call succeeded), `{tool}_count` (how many did) and
    `{tool}_attempt` (how many there were).

    >>> said = '<reasoning>6 * 7.</reasoning><tool>{"name": "calculator", "args": {"expression": "6 * 7"}}</tool>'
    >>> answer = "<reasoning>So.</reasoning><answer>42</answer>"
    >>> told = [("assistant", said), ("user", "<result>42</result>"), ("assistant", answer)]
    >>> chat = [{"role": role, "content": text} for role, text in told]
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
        """A tool is a function, an object with a `name`, a JSON schema of one, or just a name.

        `parser` reads the answer (`ToolParser`), and `env_parser` the `<result>` of calls in tags.
        """
        self.tools = _by_name(tools)  # the tools by the names that a model calls them by
        self.env_parser = env_parser or XMLParser([RESULT])
        if not any(RESULT in names for names in getattr(self.env_parser, "fields", ())):
            told = f"env_parser is {format_value(env_parser)}, which reads no <{RESULT}>"
            raise RubricError(f"{told}: give XMLParser([{RESULT!r}])")
        given: Any = USUAL_WEIGHTS if weights is None else weights
        three = [] if isinstance(given, str) or not hasattr(given, "__iter__") else [*given]
        if len(three) != 3:
            advice = "for the answer, the calls and the format; other checks get theirs in add_reward_func"
            raise RubricError(f"weights is {format_value(weights)}: give three numbers, {advice}")
        checks = (
            self.correct_answer_reward_func,
            self.tool_execution_reward_func,
            self.format_reward_func,
        )
        criteria = [
            Criterion.of(check, weight) for check, weight in zip(checks, three, strict=True)
        ]
        criteria += [
            Criterion.of(ToolMetric(self, name, measure), 0.0)
            for name in self.tools
            for measure in MEASURES
        ]
        super().__init__(criteria, None, parser, **rubric)

    def _default_parser(self) -> Parser:
        return ToolParser()

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        """The calls, native or in `<tool>` tags; one fails when its reply is an `Error:` or has no `<result>`."""
        # What the model said each time, and the replies up to the next time.
        turns: list[tuple[object, list[object]]] = []
        for message in [completion] if isinstance(completion, str) else list_messages(completion):
            if isinstance(completion, str) or get_role(message) == "assistant":
                turns.append((message, []))
            elif turns and get_role(message) in ("tool", "user"):
                turns[-1][1].append(message)
        uses: list[ToolUse] = []
        for said, replies in turns:
            if read_tool_calls(said):
                calls = read_calls("", [said, *replies])
                uses += [
                    ToolUse(c.name, c.arguments, None if c.result is None else not c.failed)
                    for c in calls
                ]
            else:
                uses += _tagged(said, replies, self.env_parser)
        return uses

    def correct_answer_reward_func(self, completion: Messages, answer: Any, **kwargs: Any) -> Score:
        """1.0 when the answer that the parser reads is `answer`, as text or as a number."""
        expected = required(answer)
        found = self._answer(completion)
        if found is None:
            return Score(0.0, "the parser reads no answer in it")
        same = str(found).strip() == str(expected).strip()
        with suppress(ValueError):  # one of them is no number
            same = same or exact(found) == exact(expected)
        if same:
            return Score(1.0, "the answer is as expected")
        return Score(
            0.0, f"the answer is {format_value(found)}, and {format_value(expected)} was expected"
        )

    def tool_execution_reward_func(self, completion: Messages, **kwargs: Any) -> Score:
        """The share of calls that succeeded, of those that were replied to; 0.0 without any."""
        replied = [use for use in self.tool_uses(completion) if use.succeeded is not None]
        if not replied:
            return Score(0.0, "no tool was run")
        succeeded = sum(bool(use.succeeded) for use in replied)
        return Score(succeeded / len(replied), f"{succeeded} of {len(replied)} calls succeeded")

    def format_reward_func(self, completion: Messages, **kwargs: Any) -> float:
        """How well the parser's format is kept. What calls a tool natively has none to keep."""
        if isinstance(completion, str) or isinstance(self.parser, ToolParser):
            return self.parser.format_score(completion)
        return self.parser.format_score(
            [m for m in list_messages(completion) if not read_tool_calls(m)]
        )

    def _answer(self, completion: Messages) -> Any:
        return self.parser.parse_answer(completion)


class ToolMetric:
    """A check: how often a completion calls one tool, and whether with success."""

    def __init__(self, rubric: ToolRubric, tool: str, measure: str) -> None:
        self.rubric, self.tool, self.measure = rubric, tool, measure
        self.name = f"{tool}_{measure}"
        # Its identity: what one measures is no answer to what another asks.
        self.__qualname__ = f"ToolMetric.{self.name}"

    def __call__(self, completion: Messages, **kwargs: Any) -> float:
        uses = [use for use in self.rubric.tool_uses(completion) if use.name == self.tool]
        succeeded = sum(bool(use.succeeded) for use in uses)
        return float(
            {"attempt": len(uses), "count": succeeded, "reward": succeeded > 0}[self.measure]
        )


def _by_name(tools: Iterable[Any]) -> dict[str, Any]:
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RubricError(f"tools is {format_value(cast('object', tools))}: give a list of tools")
    found: dict[str, Any] = {}
    for place, tool in enumerate(tools, start=1):
        if isinstance(tool, Mapping):  # a JSON schema, in an envelope or not
            name = get_field(get_field(tool, "function") or tool, "name")
        else:
            name = tool.strip() if isinstance(tool, str) else get_check_name(tool)
        if not name or not isinstance(name, str):
            told = f"tool {place} ({format_value(cast('object', tool))}) has no name, so no model could call it"
            raise RubricError(f"{told}: define it with def, or give it a `name`")
        if name in found:
            raise RubricError(
                f"two tools are called {name!r}, and calls do not say which is meant: rename one"
            )
        found[name] = tool
    return found


class ToolParser(XMLParser):
    """Reads `<reasoning>` and then `<tool>` or `<answer>`; after native calls, the last message needs no tags."""

    def __init__(self) -> None:
        super().__init__(["reasoning", ("tool", "answer")])

    def parse_answer(self, completion: Messages | None) -> Any:
        """The last `<answer>`; else the last message after native calls; else None."""
        found = super().parse_answer(completion)
        said = [m for m in list_messages(completion) if get_role(m) == "assistant"]
        if found is not None or not any(map(read_tool_calls, said)) or read_tool_calls(said[-1]):
            return found
        return message_text(said[-1]).strip() or None

    def format_score(self, completion: Messages | None) -> float:
        """Score as an `XMLParser`, over messages without native calls; beside native calls, no tags are needed."""
        chat = list_messages(completion)
        if not any(map(read_tool_calls, chat)):
            return super().format_score(completion)
        by_tags, said = super().format_score, [m for m in chat if not read_tool_calls(m)]
        return average_score(
            said,
            lambda text: by_tags(text) if self._tag.search(text) else float(bool(text.strip())),
        )


def _tagged(said: object, replies: Sequence[object], env_parser: XMLParser) -> Iterator[ToolUse]:
    """Calls in tags, with the results that answer the last of them."""
    text = message_text(said)
    calls = [text[start:end] for start, end in find_tag_spans(text, TAG)]
    results: list[str] = []
    for reply in replies if calls else ():
        results += getattr(env_parser.parse_all(message_text(reply)), RESULT)
    outcomes: list[bool | None] = [not is_failure(result) for result in results[-len(calls) :]]
    # A reply without a result says that something went wrong; no reply says nothing.
    unknown = False if replies else None
    for call, succeeded in zip(
        calls, [unknown] * (len(calls) - len(outcomes)) + outcomes, strict=True
    ):
        try:
            asked: Any = json.loads(call)
        except (ValueError, RecursionError):
            asked = None
        name = get_field(asked, "name")
        if isinstance(name, str):
            yield ToolUse(name, json.dumps(get_field(asked, "args") or {}), succeeded)
        else:
            yield ToolUse("", call.strip(), succeeded)
