"""What a judge reads: a text, a chat's last reply, or thinking and output in their tags."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, cast

from assay.graders.tags import SECTIONS, without_sections
from assay.messages import last_with_role, message_text
from assay.types import Messages
from assay.wording import shown


class ThinkingOutputDict(TypedDict, total=False):
    """A reply in two parts."""

    thinking: str
    output: str


ToGrade: TypeAlias = str | Sequence[Mapping[str, Any]] | ThinkingOutputDict


def view_of(to_grade: ToGrade) -> tuple[Messages, str]:
    """The completion that checks read, and the text that a judge reads.

    >>> view_of({"thinking": "2 and 2", "output": "4"})
    ('4', '<thinking>2 and 2</thinking>\\n<output>4</output>')
    """
    if isinstance(to_grade, str):
        return to_grade, to_grade
    if isinstance(to_grade, Mapping) and "role" not in to_grade:
        return _two_parts(cast("Mapping[str, Any]", to_grade))
    reply = last_with_role(cast("Messages", to_grade), "assistant")
    if reply is None:
        # An empty text here would be judged, and pass for what the model said.
        raise TypeError(
            f"cannot grade {shown(to_grade)}: give a text, messages with one of the assistant's, "
            "or a mapping with 'thinking' and 'output'"
        )
    return cast("Messages", to_grade), message_text(reply)


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
