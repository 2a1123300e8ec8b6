"""SmolaToolRubric: a ToolRubric for smolagents, its tools and what its agents leave behind."""

from typing import Any

from assay.messages import completion_text
from assay.presets.smola_steps import CODE, is_run, names_called, transcript_of, turns_read
from assay.presets.tool_uses import ToolUse
from assay.presets.tools import ToolRubric
from assay.types import Messages


class SmolaToolRubric(ToolRubric):
    """Scores runs of smolagents, and any rollout in which its tools are called.

    A completion is the agent's memory, its steps (as objects, or as dicts that were saved), the
    messages it writes for its model, or a chat as for `ToolRubric`. The answer of a run is what
    the agent returned. In code, every place that calls a tool counts as one call, and all of them
    succeed when the code does. The format of a run is the share of turns that could be read.
    smolagents itself need not be installed.

    >>> rubric = SmolaToolRubric(tools=["calculator"])
    >>> call = {"id": "1", "function": {"name": "calculator", "arguments": {"expression": "6 * 7"}}}
    >>> final = {"id": "2", "function": {"name": "final_answer", "arguments": {"answer": "42"}}}
    >>> steps = [
    ...     {"step_number": 1, "tool_calls": [call], "observations": "42"},
    ...     {"step_number": 2, "tool_calls": [final], "observations": "42", "is_final_answer": True},
    ... ]
    >>> rubric.score_rollout_sync(completion=steps, answer="42")["reward"]
    1.4
    """

    def _read_completion(self, completion: object) -> Any:
        return completion if is_run(completion) else super()._read_completion(completion)

    def tool_uses(self, completion: Messages) -> list[ToolUse]:
        """The calls of tools in a completion, in order, and how each went."""
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
        """The share of turns that could be read; for another chat, how well it keeps the format."""
        if not is_run(completion):
            return super().format_reward_func(completion)
        read, turns = turns_read(completion)
        return read / turns if turns else 0.0

    def _answer(self, completion: Messages) -> Any:
        """What the parser reads in the answer of a run, or the whole of it."""
        if not is_run(completion):
            return super()._answer(completion)
        chat = transcript_of(completion)
        found = super()._answer(chat)
        return completion_text(chat) if found is None else found
