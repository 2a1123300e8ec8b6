"""What a judge reads: a text, a chat or its last reply, or thinking and output in their tags."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias, TypedDict, cast

from assay.graders.tags import SECTIONS, without_sections, without_turns
from assay.messages import (
    chat_of,
    completion_text,
    message_text,
    read_completion,
    role_of,
    tool_calls,
)
from assay.types import Messages
from assay.wording import short_repr


class ThinkingOutputDict(TypedDict, total=False):
    """A reply in two parts."""

    thinking: str
    output: str


ToGrade: TypeAlias = str | Sequence[Mapping[str, Any]] | ThinkingOutputDict


class View(str):
    """The text that a judge reads, with the rollout it is from, for graders that show more of it.

    >>> view = View("4", {"answer": "four"}, reference="four")
    >>> view == "4", view.fields["answer"], view.reference
    (True, 'four', 'four')
    """

    __slots__ = ("fields", "reference")

    fields: Mapping[str, Any]
    """The rollout's fields; none when a text is graded by itself."""
    reference: str
    """An answer known to be good, to judge by; empty when there is none."""

    def __new__(
        cls, text: str, fields: Mapping[str, Any] | None = None, reference: str = ""
    ) -> Self:
        view = super().__new__(cls, text)
        view.fields = {} if fields is None else fields
        view.reference = reference
        return view

    @classmethod
    def of(cls, text: str) -> "View":
        """A text as a view; one that is a view already as it is."""
        return text if isinstance(text, View) else cls(text)


def transcript(*chats: Messages) -> str:
    """All turns of some chats that follow each other, each in a tag with its role.

    A text is a turn of the assistant's; calls of tools are shown by name and arguments.

    >>> print(transcript([{"role": "user", "content": "2+2?"}], "4"))
    <turn role="user">
    2+2?
    </turn>
    <turn role="assistant">
    4
    </turn>
    """
    turns: list[str] = []
    for chat in chats:
        spoken = (
            [{"role": "assistant", "content": chat}] if isinstance(chat, str) else chat_of(chat)
        )
        turns += [_turn(message) for message in spoken]
    return "\n".join(turns)


def _turn(message: object) -> str:
    calls = [f"{call.name}({call.arguments})" for call in tool_calls(message)]
    said = "\n".join(part for part in (message_text(message), *calls) if part)
    role = "".join(letter for letter in role_of(message) if letter.isalnum()) or "unknown"
    return f'<turn role="{role}">\n{without_turns(said)}\n</turn>'


def view_of(to_grade: ToGrade) -> tuple[Messages, str]:
    """The completion that checks read, and the text that a judge reads.

    >>> view_of({"thinking": "2 and 2", "output": "4"})
    ('4', '<thinking>2 and 2</thinking>\\n<output>4</output>')
    """
    if isinstance(to_grade, str):
        return to_grade, to_grade
    if isinstance(to_grade, Mapping) and "role" not in to_grade:
        return _two_parts(cast("Mapping[str, Any]", to_grade))
    try:
        read = read_completion(to_grade)
    except TypeError as error:
        # An empty text here would be judged, and pass for what the model said.
        raise TypeError(
            f"cannot grade {short_repr(to_grade)}: {error}, or a mapping with 'thinking' and 'output'"
        ) from None
    return read, completion_text(read)


def _two_parts(parts: Mapping[str, Any]) -> tuple[str, str]:
    unknown = [name for name in parts if name not in SECTIONS]
    bad = [name for name, text in parts.items() if not isinstance(text, str)]
    if unknown or bad or not parts:
        raise TypeError(
            f"cannot grade a mapping with {', '.join(map(repr, unknown or bad)) or 'no keys'}: "
            "give 'thinking' and 'output', each a text"
        )
    # A part that holds the tags of a section must not pass for two parts. Every other tag of
    # ours is for `prompting` to neutralise, which leaves sections as they are.
    sections = [f"<{n}>{without_sections(parts[n])}</{n}>" for n in SECTIONS if parts.get(n)]
    return str(parts.get("output", "")), "\n".join(sections)
