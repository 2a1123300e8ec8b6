"""Define the input of a judge for one response, and build it from a rollout.

`prompt_text` writes it into prompts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from assay.concurrency import set_variable
from assay.errors import JudgeError
from assay.graders.fences import escape_turn_tags, make_tag_escaper
from assay.messages import MEDIA_KINDS, Part, Shows, completion_text, read_completion, read_parts
from assay.reasoning import THINKING, Thinking, split_reasoning
from assay.types import SECTIONS, Messages, ThinkingOutputDict
from assay.wording import format_count, format_value

if TYPE_CHECKING:
    from assay.media import Attachment

_escape_section_tags = make_tag_escaper(*SECTIONS)

ToGrade: TypeAlias = str | Sequence[Mapping[str, Any]] | ThinkingOutputDict


@dataclass(frozen=True)
class JudgeInput:
    """What a judge is given about one response.

    >>> judge_input = JudgeInput("4", query="What is 2 + 2?", reference="four")
    >>> judge_input.text, judge_input.assistant_text, judge_input.reference
    ('4', '4', 'four')
    """

    text: str  # the response as the judge reads it; of a conversation, its turns in tags
    query: str | None = None  # what the response answers; None if nothing was asked
    # What is known to be right, such as an answer; empty if there is nothing.
    reference: str = ""
    # Whether tags in `reference` separate columns, passages or turns, and are ours.
    reference_is_tagged: bool = False
    # Images, audio and files to show with the text.
    media: tuple["Attachment", ...] = ()
    # The parts of a conversation that are shown, with the addresses that a judge may cite.
    parts: Sequence[Part] = ()
    is_transcript: bool = False  # whether `text` is a conversation, with the turns in tags
    query_is_transcript: bool = False  # whether `query` is one
    # What the assistant itself wrote, without turn tags and tool results. It is the same as `text`
    # unless that is a transcript.
    assistant_text: str = ""
    # How the text differs from the whole rollout, as in "last; left out: 3 texts"; empty if it does
    # not differ.
    left_out: str = ""
    # The reasoning that is left out, which length penalties still count.
    hidden_thinking: str = ""
    # The fields of the rollout; empty if a text is graded without one.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.is_transcript:
            object.__setattr__(self, "assistant_text", self.text)

    @property
    def escaped_text(self) -> str:
        """The response for a prompt: a plain text must not look like turns of a conversation."""
        if self.is_transcript:
            return self.text
        return escape_turn_tags(self.text)

    @property
    def escaped_reference(self) -> str:
        """The reference for a prompt, in the same way; empty if there is none."""
        if self.reference_is_tagged:
            return self.reference
        return escape_turn_tags(self.reference)

    @property
    def escaped_query(self) -> str:
        """The query for a prompt, in the same way; empty if nothing was asked."""
        query = self.query or ""
        if self.query_is_transcript:
            return query
        return escape_turn_tags(query)


def read_to_grade(to_grade: ToGrade) -> tuple[Messages, str]:
    """Return a response in two forms: the completion for checks, and the text for a judge.

    - A text is returned as both.
    - For a chat, the completion is its messages, and the text is its last reply.
    - For a response in two sections, the completion is its output, and the text has both in tags.

    Raises a `TypeError` for anything else.
    """
    if isinstance(to_grade, str):
        return to_grade, to_grade
    if isinstance(to_grade, Mapping) and "role" not in to_grade:
        return _read_sections(cast("Mapping[str, Any]", to_grade))
    try:
        completion = read_completion(to_grade)
    except TypeError as error:
        # It must not count as an empty response, which the model did not give.
        raise TypeError(
            f"cannot grade {format_value(to_grade)}: {error}, "
            "or a mapping with 'thinking' and 'output'"
        ) from None
    return completion, completion_text(completion)


def _read_sections(sections: Mapping[str, Any]) -> tuple[str, str]:
    """Return the output section, and the text of all sections in tags."""
    unknown = [name for name in sections if name not in SECTIONS]
    not_text = [name for name, text in sections.items() if not isinstance(text, str)]
    if unknown or not_text or not sections:
        problem = ", ".join(map(repr, unknown or not_text)) or "no keys"
        raise TypeError(
            f"cannot grade a mapping with {problem}: give 'thinking' and 'output', each a text"
        )
    tagged: list[str] = []
    for name in SECTIONS:
        text = sections.get(name)
        if text:
            # A section must not contain the tags of another one. Other tags of ours are escaped
            # when the prompt is written.
            tagged.append(f"<{name}>{_escape_section_tags(text)}</{name}>")
    return sections.get("output", ""), "\n".join(tagged)


# Which parts of a rollout judges are shown: options such as `last` or `no_tools`.
_shows: ContextVar[Shows] = ContextVar("shows", default=("all",))


def set_shows(shows: Shows | None) -> AbstractContextManager[object]:
    """Set which parts of a rollout judges are shown, for all rollouts inside the block.

    None keeps what an enclosing rubric has set.
    """
    return set_variable(_shows, shows or _shows.get())


def set_thinking(thinking: Thinking | None) -> AbstractContextManager[object]:
    """Set whether judges and text checks read reasoning inside the block.

    None keeps what an enclosing rubric has set.
    """
    return set_variable(THINKING, thinking or THINKING.get())


def build_judge_input(
    row: Mapping[str, Any],
    *,
    sections_text: str | None = None,
    takes_media: bool = False,
    thinking: Thinking | None = None,
) -> JudgeInput:
    """Build what a judge is given about a rollout, as far as `set_shows()` and `thinking` allow.

    A text that answers a text, or one message that answers one, is shown as it is; anything else is
    shown as turns with addresses. Media are attached if the judge takes them; otherwise they raise
    a `JudgeError`.

    A response may consist of two sections, thinking and output. Its completion in the row is then
    only the output, and `sections_text` is both sections in tags, which is what the judge reads
    unless `thinking` is "hidden". Other reasoning, in a text or in a field, is left out unless it is
    "shown". None means what the rubric says.
    """
    thinking = thinking or THINKING.get()
    prompt = row.get("prompt")
    completion: Any = row.get("completion")
    if isinstance(prompt, bytes | bytearray):  # from a binary column of a Parquet file
        raise JudgeError(f"the prompt is {format_value(prompt)}: decode the bytes to a text")
    if sections_text is None and not isinstance(completion, str):
        completion, text = read_to_grade(cast("ToGrade", completion))
        if isinstance(completion, str):  # it was a mapping with sections
            sections_text = text
    if thinking == "hidden":
        sections_text = None  # the judge reads the completion, which is only the output
    shows_thinking = thinking == "shown"
    is_plain_query = prompt is None or isinstance(prompt, str)
    if isinstance(completion, str) and is_plain_query:
        query = cast("str | None", prompt) or None
        if sections_text is not None:
            return JudgeInput(sections_text, query=query, fields=row)
        return _build_from_text(row, completion, query, shows_thinking)
    return _build_from_parts(
        row,
        completion,
        sections_text,
        takes_media=takes_media,
        shows_thinking=shows_thinking,
    )


def _build_from_text(
    row: Mapping[str, Any], completion: str, query: str | None, shows_thinking: bool
) -> JudgeInput:
    """Build the input for a text that answers a text."""
    split = split_reasoning(completion)
    if not split.reasoning:
        return JudgeInput(split.answer, query=query, fields=row)
    if shows_thinking:
        _, text = _read_sections({"thinking": split.reasoning, "output": split.answer})
        return JudgeInput(text, query=query, fields=row)
    return JudgeInput(
        split.answer,
        query=query,
        left_out=f"{_THINKING_HIDDEN}; left out: 1 thought",
        hidden_thinking=split.reasoning,
        fields=row,
    )


def _build_from_parts(
    row: Mapping[str, Any],
    completion: Messages,
    sections_text: str | None,
    *,
    takes_media: bool,
    shows_thinking: bool,
) -> JudgeInput:
    """Build the input for a rollout that is a conversation, or has media.

    With `sections_text`, the judge reads it as the response, as in `build_judge_input()`.
    """
    shows = _shows.get()
    prompt = row.get("prompt")
    parts = read_parts(prompt, completion)
    shown = _select_parts(parts, shows, has_prompt=bool(prompt), shows_thinking=shows_thinking)
    media = [part for part in shown if part.kind in MEDIA_KINDS]
    describes_media = "described" in shows  # instead of attaching them
    attachments: tuple[Attachment, ...] = ()
    if media and not describes_media:
        if not takes_media:
            raise_if_media(media, "the judge is asked in text")
        attachments = attach_media(media)

    includes_prompt = "transcript" in shows and not isinstance(completion, str)
    if includes_prompt:
        # The prompt is shown as the first turns of the conversation, and not as the query.
        query = None
        query_is_transcript = False
        response = shown
    else:
        prompt_parts = [part for part in shown if part.in_prompt]
        query = _write_parts(prompt_parts, "user", describes_media) or None
        query_is_transcript = not _is_plain(prompt_parts, "user")
        response = [part for part in shown if not part.in_prompt]

    left_out = _describe_left_out(parts, shown, shows_thinking)
    hidden_thinking = ""
    if not shows_thinking:
        thoughts = [p.text for p in parts if p.kind == "thinking" and not p.in_prompt]
        hidden_thinking = "\n".join(thoughts)
    if sections_text is None:
        sections_text = _write_single_reply(response)
    if sections_text is not None or _is_plain(response, "assistant"):
        # The response is shown as a plain text, without turns.
        text = sections_text or _write_parts(response, "assistant", describes_media)
        return JudgeInput(
            text,
            query=query,
            query_is_transcript=query_is_transcript,
            media=attachments,
            left_out=left_out,
            hidden_thinking=hidden_thinking,
            fields=row,
        )
    return JudgeInput(
        write_transcript(response, describes_media),
        query=query,
        query_is_transcript=query_is_transcript,
        media=attachments,
        parts=shown,
        is_transcript=True,
        assistant_text=_join_assistant_text(response),
        left_out=left_out,
        hidden_thinking=hidden_thinking,
        fields=row,
    )


def _write_single_reply(response: Sequence[Part]) -> str | None:
    """Return a response that is one message with reasoning as two sections in tags.

    None if the response has several messages, other parts than reasoning and text, or no reasoning.
    """
    texts: dict[str, list[str]] = {"thinking": [], "text": []}
    for part in response:
        is_other_message = part.role != "assistant" or part.message != response[0].message
        if part.kind not in texts or is_other_message:
            return None
        texts[part.kind].append(part.text)
    if not texts["thinking"]:
        return None
    sections = {"thinking": "\n".join(texts["thinking"]), "output": " ".join(texts["text"])}
    return _read_sections(sections)[1]


# The kinds of part that each option hides.
_HIDDEN_KINDS: Mapping[str, frozenset[str]] = {
    "no_tools": frozenset({"call", "result"}),
    "no_media": MEDIA_KINDS,
}


def _select_parts(
    parts: Sequence[Part], shows: Shows, *, has_prompt: bool, shows_thinking: bool
) -> list[Part]:
    """Return the parts of a rollout that judges are shown.

    `shows` are options such as `last` or `no_tools`, and `has_prompt` says whether the rollout has
    a prompt. Reasoning is left out unless `shows_thinking`.
    """
    if "last" in shows:
        parts = _select_last(parts, has_prompt=has_prompt)
    hidden: set[str] = set() if shows_thinking else {"thinking"}
    for option in shows:
        hidden.update(_HIDDEN_KINDS.get(option, ()))
    return [part for part in parts if part.kind not in hidden]


def _select_last(parts: Sequence[Part], *, has_prompt: bool) -> list[Part]:
    """Return texts and media of the last reply, and of the prompt's last user message.

    If the conversation came without a separate prompt, only the last reply is returned.
    """
    last_reply: str | None = None
    last_question: str | None = None
    for part in parts:
        if not part.in_prompt and part.role == "assistant":
            last_reply = part.message
        elif part.in_prompt and part.role == "user" and has_prompt:
            last_question = part.message
    return [
        part
        for part in parts
        if part.message in (last_reply, last_question) and part.kind in {"text", *MEDIA_KINDS}
    ]


_MAX_LISTED_MEDIA = 3  # in an error message


def raise_if_media(parts: Sequence[Part], message_start: str) -> None:
    """Raise a `JudgeError` if there are parts here: they are media that a judge does not take.

    `message_start` says what the judge takes, as in "PerCriterionGrader asks in text".
    """
    if not parts:
        return
    descriptions: list[str] = []
    for part in parts[:_MAX_LISTED_MEDIA]:
        # The text of a medium describes it, as in `image/png, 64x64, sha256 …`.
        media_type_and_size = part.text.partition(", sha256")[0]
        descriptions.append(f"{part.address} ({media_type_and_size:.200})")
    listed = ", ".join(descriptions)
    if len(parts) > _MAX_LISTED_MEDIA:
        listed += f" and {len(parts) - _MAX_LISTED_MEDIA} more"
    kind = parts[0].kind
    raise JudgeError(
        f"{message_start}, and cannot take {listed}: ask a model that takes {kind} (if it does, say so "
        f"with model_of(..., media={kind!r}) or --judge-media {kind}), or use `shows: described` "
        "to show a line about it instead, or `shows: no_media` to leave it out"
    )


def shows_media() -> bool:
    """Return whether judges are shown media themselves, and not only a line about each."""
    return not {"described", "no_media"} & set(_shows.get())


def attach_media(media: Sequence[Part]) -> "tuple[Attachment, ...]":
    """Return the media as attachments, which are read when they are sent."""
    from assay.media import Attachment  # loaded lazily: few rollouts have media

    return tuple(Attachment(part) for part in media)


def _write_parts(parts: Sequence[Part], role: str, describes_media: bool) -> str:
    """Return parts as plain text if they are the text of one message of this role.

    Anything else is written as a transcript.
    """
    if _is_plain(parts, role):
        return " ".join(part.text for part in parts)
    return write_transcript(parts, describes_media)


def _is_plain(parts: Sequence[Part], role: str) -> bool:
    """Whether all parts are text, and in one message of this role. No parts are plain too."""
    return all(
        part.kind == "text" and part.role == role and part.message == parts[0].message
        for part in parts
    )


def write_transcript(parts: Sequence[Part], describes_media: bool = True) -> str:
    """Write a conversation as one `<turn>` tag per message, with its address and role.

    Parts of a message other than its text, such as tool calls, are in tags with their own address.
    Media are described in words; with `describes_media=False` a note says that they are attached.
    """
    lines: list[str] = []
    for message_address, parts_of_message in groupby(parts, key=attrgetter("message")):
        turn = list(parts_of_message)
        # The role is from the rollout, and must not contain a quotation mark or a tag.
        role = "".join(letter for letter in turn[0].role if letter.isalnum()) or "unknown"
        # The result of a tool is the text of its message, so the tag of the message names the call.
        attributes = f'id="{message_address}" role="{role}"'
        for part in turn:
            if part.address == message_address:
                attributes += _name_call(part)
        lines.append(f"<turn {attributes}>")
        lines += [_write_part(part, describes_media) for part in turn]
        lines.append("</turn>")
    return "\n".join(lines)


def _write_part(part: Part, describes_media: bool) -> str:
    """Return a part of a message as text.

    The text of the message itself has the address of the message, and is returned without a tag.
    Anything else is in a tag with its own address.
    """
    text = part.text
    if part.kind in MEDIA_KINDS:
        text = f"(not shown: {part.text})" if describes_media else "(attached below)"
    text = escape_turn_tags(text)
    has_own_address = part.address != part.message
    if not has_own_address:
        return text
    return f'<part id="{part.address}"{_name_call(part)}>\n{text}\n</part>'


def _name_call(part: Part) -> str:
    """Return the attribute of a tag that names the tool call that a part is the result of.

    It is empty if the part is not a result.
    """
    if part.call:
        return f' of="{part.call}"'
    return ""


def _join_assistant_text(response: Sequence[Part]) -> str:
    """Return what the assistant wrote in a conversation; its thinking first, in tags."""
    thoughts: list[str] = []
    texts: list[str] = []
    for part in response:
        if part.role != "assistant" or part.in_prompt:
            continue
        if part.kind == "thinking":
            thoughts.append(_escape_section_tags(part.text))
        else:
            texts.append(part.text)
    text = "\n".join(texts)
    thinking = "\n".join(thoughts)
    if thinking:
        return f"<thinking>{thinking}</thinking>\n{text}"
    return text


# How kinds of part are called in a message, where that is not the name of the kind.
_KIND_NAMES = {
    "thinking": "thought",
    "call": "tool call",
    "result": "tool result",
    "audio": "audio clip",
}


_THINKING_HIDDEN = "thinking hidden"


def _describe_left_out(parts: Sequence[Part], shown: Sequence[Part], shows_thinking: bool) -> str:
    """Return which parts are not shown, and by which options, as in "last; left out: 3 texts".

    If no part is left out, return only the options, or an empty text if everything is shown as it
    is.
    """
    options = list(_shows.get())  # such as "all", or "last" and "described"
    left_out = Counter(part.kind for part in parts) - Counter(part.kind for part in shown)
    if not left_out:
        # The options "described" and "transcript" change how parts are shown.
        has_media = any(part.kind in MEDIA_KINDS for part in shown)
        describes_media = "described" in options and has_media
        if describes_media or "transcript" in options:
            return ", ".join(options)
        return ""
    # With the option "last" thinking is left out anyway, so that needs no mention.
    if left_out["thinking"] and not shows_thinking and "last" not in options:
        options = [option for option in options if option != "all"]
        options.append(_THINKING_HIDDEN)
    counts: list[str] = []
    for kind, count in left_out.items():
        counts.append(format_count(count, _KIND_NAMES.get(kind, kind)))
    return f"{', '.join(options)}; left out: {', '.join(counts)}"
