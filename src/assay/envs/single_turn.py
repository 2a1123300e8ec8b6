"""SingleTurnEnv: a question, an answer, and that is that."""

from typing import Any, Unpack

from assay.envs.given import Given
from assay.envs.multi_turn import MultiTurnEnv
from assay.messages import message_text
from assay.types import Message, State


class SingleTurnEnv(MultiTurnEnv):
    """The model is asked once for each example.

    An example whose `prompt` is a plain text, with no system prompt and no examples before it, is
    answered in plain text too, so that a check may say `completion == answer`. Any other is a chat.

    >>> env = SingleTurnEnv([{"question": "2 + 2?", "answer": "4"}], system_prompt="Only the number.")
    >>> [message["role"] for message in env.dataset[0]["prompt"]]
    ['system', 'user']
    """

    keeps_text = True

    def __init__(self, dataset: Any = None, **given: Unpack[Given]) -> None:
        """Everything as for `Environment`."""
        super().__init__(dataset, max_turns=1, **given)

    def _watch(self) -> None:
        """There is nothing to count: it is one turn."""

    def env_response(self, messages: list[Message], state: State) -> Any:
        """Nothing, for nobody is asked again."""
        return []

    def render_completion(self, state: State) -> None:
        """As for every dialogue; in plain text where the question was."""
        super().render_completion(state)
        if isinstance(state["prompt"], str) and state["completion"]:
            state["completion"] = message_text(state["completion"][-1])
