"""ToolRubric: whether the answer is right, whether tools were called well, and which ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from assay.checks.expected import exact, required
from assay.criterion import Criterion
from assay.errors import RubricError
from assay.identity import name_of
from assay.parsers import Parser, XMLParser
from assay.presets.tool_parser import ToolParser, format_of
from assay.presets.tool_uses import RESULT, ToolUse, tool_uses
from assay.report import Score
from assay.rubric import Rubric
from assay.types import Messages
from assay.wording import short_repr

USUAL_WEIGHTS = (1.0, 0.2, 0.2)
"""Of the answer, the calls and the format, when nobody says: what people from verifiers expect."""

Measure: TypeAlias = Literal["reward", "count", "attempt"]


class ToolRubric(Rubric):
    """Scores rollouts in which a model calls tools, natively or as JSON in `<tool>` tags.

    `correct_answer_reward_func`, `tool_execution_reward_func` and `format_reward_func` have the
    three `weights`. For every tool there are three more lines without weight: `{tool}_reward` is 1.0
    when a call of it succeeded, `{tool}_count` how many did, `{tool}_attempt` how many there were.

    >>> from assay.tools import calculator
    >>> rubric = ToolRubric(tools=[calculator], weights=[0.5, 0.3, 0.2])
    >>> chat = [
    ...     {"role": "assistant", "content": '<reasoning>First 6 * 7.</reasoning>'
    ...         '<tool>{"name": "calculator", "args": {"expression": "6 * 7"}}</tool>'},
    ...     {"role": "user", "content": "<result>42</result>"},
    ...     {"role": "assistant", "content": "<reasoning>So.</reasoning><answer>42</answer>"},
    ... ]
    >>> scores = rubric.score_rollout_sync(completion=chat, answer="42")
    >>> scores["calculator_reward"], scores["calculator_count"], scores["reward"]
    (1.0, 1.0, 1.0)
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

        `parser` reads the answer, and is a `ToolParser` unless you give one; `env_parser` reads the
        `<result>` of calls in tags. The rest is as for `Rubric`.
        """
        self.tools = _by_name(tools)
        """The tools by the names that a model calls them by."""
        self.env_parser = _checked_parser(env_parser or XMLParser([RESULT]))
        answer, execution, form = _three(weights)
        criteria = [
            Criterion.of(self.correct_answer_reward_func, answer),
            Criterion.of(self.tool_execution_reward_func, execution),
            Criterion.of(self.format_reward_func, form),
        ]
        for name in self.tools:
            checks = [ToolMetric(self, name, measure) for measure in _MEASURES]
            criteria += [Criterion.of(check, 0.0) for check in checks]
        super().__init__(criteria, None, parser, **rubric)

    def _default_parser(self) -> Parser:
        return ToolParser()

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        """The calls of tools in a completion, in order, and how each went."""
        return tool_uses(completion, self.env_parser)

    def correct_answer_reward_func(self, completion: Messages, answer: Any, **kwargs: Any) -> Score:
        """1.0 when the answer that the parser reads is `answer`, as text or as a number."""
        expected = required(answer)
        found = self._answer(completion)
        if found is None:
            return Score(0.0, "the parser reads no answer in it")
        if _is_same(found, expected):
            return Score(1.0, "the answer is as expected")
        return Score(
            0.0, f"the answer is {short_repr(found)}, and {short_repr(expected)} was expected"
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
        return format_of(completion, self.parser)

    def _answer(self, completion: Messages) -> Any:
        return self.parser.parse_answer(completion)


class ToolMetric:
    """A check: how often a completion calls one tool, and whether with success."""

    def __init__(self, rubric: ToolRubric, tool: str, measure: Measure) -> None:
        self.rubric = rubric
        self.tool = tool
        self.measure: Measure = measure
        self.name = f"{tool}_{measure}"
        # Its identity: what one measures is no answer to what another asks.
        self.__qualname__ = f"ToolMetric.{self.name}"

    def __call__(self, completion: Messages, **kwargs: Any) -> float:
        uses = [use for use in self.rubric.tool_uses(completion) if use.name == self.tool]
        succeeded = sum(bool(use.succeeded) for use in uses)
        if self.measure == "attempt":
            return float(len(uses))
        return float(succeeded if self.measure == "count" else succeeded > 0)

    def __repr__(self) -> str:
        return f"<ToolMetric {self.name}>"


_MEASURES: tuple[Measure, ...] = ("reward", "count", "attempt")


def _by_name(tools: Iterable[Any]) -> dict[str, Any]:
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RubricError(f"tools is {short_repr(cast('object', tools))}: give a list of tools")
    found: dict[str, Any] = {}
    for place, tool in enumerate(tools, start=1):
        name = _name(tool)
        if not name:
            raise RubricError(
                f"tool {place} ({short_repr(tool)}) has no name, so no model could call it: define it "
                "with def, or give it a `name`"
            )
        if name in found:
            raise RubricError(
                f"two tools are called {name!r}, and calls do not say which is meant: rename one"
            )
        found[name] = tool
    return found


def _name(tool: Any) -> str:
    """The name a model calls a tool by; empty when it has none."""
    if isinstance(tool, str):
        return tool.strip()
    if isinstance(tool, Mapping):
        schema = cast("Mapping[str, Any]", tool)
        inner = schema.get("function")
        name = cast("Mapping[str, Any]", inner if isinstance(inner, Mapping) else schema).get(
            "name"
        )
        return name if isinstance(name, str) else ""
    return name_of(tool)


def _three(weights: Sequence[float] | None) -> Sequence[float]:
    given: Any = USUAL_WEIGHTS if weights is None else weights
    three = [] if isinstance(given, str) or not hasattr(given, "__iter__") else [*given]
    if len(three) != 3:
        raise RubricError(
            f"weights is {short_repr(weights)}: give three numbers, for the answer, the calls and the "
            "format; other checks get theirs in add_reward_func"
        )
    return three


def _checked_parser(parser: XMLParser) -> XMLParser:
    names = [name for names in getattr(parser, "fields", ()) for name in names]
    if RESULT not in names:
        raise RubricError(
            f"env_parser is {short_repr(parser)}, which reads no <{RESULT}>: give XMLParser([{RESULT!r}])"
        )
    return parser


def _is_same(found: Any, expected: Any) -> bool:
    if str(found).strip() == str(expected).strip():
        return True
    try:
        return exact(found) == exact(expected)
    except ValueError:  # one of them is no number
        return False
