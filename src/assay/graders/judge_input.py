"""Write what a judge reads: what was asked, the response in a fence, and after it the criteria.

Every prompt about one response starts with the same bytes, so a provider can cache them. What others wrote is put in
as it is, in one pass, but for the `<` of our own tags. The words of the system prompts are in `prompts/`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2s
from itertools import count, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from assay.concurrency import set_variable
from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE, Criterion
from assay.errors import JudgeError
from assay.messages import MEDIA_KINDS, Part, Shows, completion_text, read_completion, read_parts
from assay.types import Messages
from assay.wording import format_count, format_value

if TYPE_CHECKING:
    from assay.media import Attachment, Medium

SECTIONS = ("thinking", "output")  # the tags of a reply in two parts


class ThinkingOutputDict(TypedDict, total=False):
    """A reply in two parts."""

    thinking: str
    output: str


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
    reference: str = ""  # an answer known to be good; empty if there is none
    # Images, audio and files to show with the text.
    media: tuple["Attachment", ...] = ()
    # The parts of a conversation that are shown, with the addresses that a judge may cite.
    parts: Sequence[Part] = ()
    is_transcript: bool = False  # whether `text` is a conversation, with the turns in tags
    # What the assistant itself wrote, without turn tags and tool results; `text` unless that is a transcript.
    assistant_text: str = ""
    # How the text differs from the whole rollout, as in "last; left out: 3 texts"; empty if it does not.
    left_out: str = ""
    # The fields of the rollout; empty if a text is graded without one.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.is_transcript:
            object.__setattr__(self, "assistant_text", self.text)


def view_of(to_grade: ToGrade) -> tuple[Messages, str]:
    """The completion that checks read, and the text that a judge reads: of a chat, the last reply."""
    if isinstance(to_grade, str):
        return to_grade, to_grade
    if isinstance(to_grade, Mapping) and "role" not in to_grade:
        parts = cast("Mapping[str, Any]", to_grade)
        bad = [n for n in parts if n not in SECTIONS] or [
            n for n, text in parts.items() if not isinstance(text, str)
        ]
        if bad or not parts:
            held = ", ".join(map(repr, bad)) or "no keys"
            raise TypeError(
                f"cannot grade a mapping with {held}: give 'thinking' and 'output', each a text"
            )
        # A part that holds the tags of a section must not pass for two parts. Every other tag of
        # ours is for `opening` to neutralise, which leaves sections as they are.
        sections = [f"<{n}>{_without_sections(parts[n])}</{n}>" for n in SECTIONS if parts.get(n)]
        return str(parts.get("output", "")), "\n".join(sections)
    try:
        read = read_completion(to_grade)
    except TypeError as error:
        # An empty text here would be judged, and pass for what the model said.
        told = f"{error}, or a mapping with 'thinking' and 'output'"
        raise TypeError(f"cannot grade {format_value(to_grade)}: {told}") from None
    return read, completion_text(read)


_SHOWS: ContextVar[Shows] = ContextVar("shows", default=("all",))


def showing(shows: Shows | None) -> AbstractContextManager[object]:
    """Show judges this much of every rollout; None leaves it as a rubric around this one has it."""
    return set_variable(_SHOWS, shows or _SHOWS.get())


def build_judge_input(
    row: Mapping[str, Any], *, view: str | None = None, takes_media: bool = False
) -> JudgeInput:
    """Build what a judge is given about a rollout, as far as `showing()` allows.

    A text that answers a text, or one message that answers one, is shown as it is; anything else is
    shown as turns with addresses. `view` is the text of a response that was given as thinking and
    output. Media are attached if the judge takes them; otherwise they raise a `JudgeError`.
    """
    shows = _SHOWS.get()
    prompt = row.get("prompt")
    completion: Any = row.get("completion")
    if isinstance(prompt, bytes | bytearray):  # from a binary column of a Parquet file
        raise JudgeError(f"the prompt is {format_value(prompt)}: decode the bytes to a text")
    if view is None and not isinstance(completion, str):
        completion, text = view_of(cast("ToGrade", completion))
        if isinstance(completion, str):
            view = text
    if "no_thinking" in shows:
        view = None  # the completion holds only the output
    is_plain_query = prompt is None or isinstance(prompt, str)
    if isinstance(completion, str) and is_plain_query:
        text = completion if view is None else view
        return JudgeInput(text, query=cast("str | None", prompt) or None, fields=row)
    return _build_from_parts(row, completion, view, takes_media=takes_media)


def _build_from_parts(
    row: Mapping[str, Any], completion: Messages, view: str | None, *, takes_media: bool
) -> JudgeInput:
    """Build the input for a rollout that is more than two plain texts."""
    shows = _SHOWS.get()
    prompt = row.get("prompt")
    parts = read_parts(prompt, completion)
    kept = _kept(parts, shows, asked=bool(prompt))
    media = [part for part in kept if part.kind in MEDIA_KINDS]
    are_described = "described" in shows
    attachments: tuple[Attachment, ...] = ()
    if media and not are_described:
        if not takes_media:
            refuse_media(media, "the judge is asked in text")
        attachments = _attach(media)

    # With `transcript`, the prompt is shown as the first turns of the conversation.
    is_one_transcript = "transcript" in shows and not isinstance(completion, str)
    query = None
    response = kept
    if not is_one_transcript:
        prompt_parts = [part for part in kept if part.in_prompt]
        query = _written(prompt_parts, "user", are_described) or None
        response = [part for part in kept if not part.in_prompt]

    if view is not None or _is_plain(response, "assistant"):
        return JudgeInput(
            view or _written(response, "assistant", are_described),
            query=query,
            media=attachments,
            left_out=_describe_left_out(parts, kept),
            fields=row,
        )
    return JudgeInput(
        transcript(response, are_described),
        query=query,
        media=attachments,
        parts=kept,
        is_transcript=True,
        assistant_text=_assistant_text(response),
        left_out=_describe_left_out(parts, kept),
        fields=row,
    )


def _attach(media: Sequence[Part]) -> "tuple[Attachment, ...]":
    from assay.media import Attachment  # loaded lazily: few rollouts have media

    return tuple(Attachment(part) for part in media)


def _describe_left_out(parts: Sequence[Part], kept: Sequence[Part]) -> str:
    """Say how what is shown differs from the rollout; empty if it does not."""
    shows = _SHOWS.get()
    options = ", ".join(shows)
    left_out = Counter(part.kind for part in parts) - Counter(part.kind for part in kept)
    if left_out:
        counts = [format_count(count, _NOUNS.get(kind, kind)) for kind, count in left_out.items()]
        return f"{options}; left out: {', '.join(counts)}"
    has_described_media = "described" in shows and any(part.kind in MEDIA_KINDS for part in kept)
    if has_described_media or "transcript" in shows:
        return options
    return ""


def _assistant_text(response: Sequence[Part]) -> str:
    """Return what the assistant wrote in a conversation; its thinking first, in tags."""
    thoughts: list[str] = []
    texts: list[str] = []
    for part in response:
        if part.role != "assistant" or part.in_prompt:
            continue
        if part.kind == "thinking":
            thoughts.append(_without_sections(part.text))
        else:
            texts.append(part.text)
    text = "\n".join(texts)
    thinking = "\n".join(thoughts)
    if thinking:
        return f"<thinking>{thinking}</thinking>\n{text}"
    return text


def refuse_media(parts: Sequence[Part], who: str) -> None:
    """Raise when there are any, saying which, who cannot take them, and what to do."""
    if parts:
        held = ", ".join(
            f"{part.address} ({part.text.partition(', sha256')[0]:.200})" for part in parts[:3]
        )
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        kind = parts[0].kind
        ask = f"ask a model that takes {kind} (model_of(..., media={kind!r}) or --judge-media {kind} says so of one)"
        other = "`shows: described` puts a line about it in its place, and `shows: no_media` leaves it out"
        raise JudgeError(f"{who}, and cannot take {held}{more}: {ask}; {other}")


_NOUNS = {
    "thinking": "thought",
    "call": "tool call",
    "result": "tool result",
    "audio": "audio clip",
}


def _kept(parts: Sequence[Part], shows: Shows, *, asked: bool) -> list[Part]:
    """The parts that are shown. Of a conversation that came without a prompt, the last reply alone is the last."""
    if "last" in shows:
        ends = {
            p.in_prompt: p.message
            for p in parts
            if p.role == ("user" if p.in_prompt else "assistant")
        }
        last = {ends.get(False), ends.get(True) if asked else None}
        parts = [
            part for part in parts if part.message in last and part.kind in {"text", *MEDIA_KINDS}
        ]
    kinds = {"no_thinking": {"thinking"}, "no_tools": {"call", "result"}, "no_media": MEDIA_KINDS}
    out = {kind for name in shows for kind in kinds.get(name, ())}
    return [part for part in parts if part.kind not in out]


def _written(parts: Sequence[Part], role: str, are_described: bool) -> str:
    return (
        " ".join(part.text for part in parts)
        if _is_plain(parts, role)
        else transcript(parts, are_described)
    )


def _is_plain(parts: Sequence[Part], role: str) -> bool:
    """Whether these are the text of one message of this role, so that they are shown as they are."""
    return all(
        part.kind == "text" and part.role == role and part.message == parts[0].message
        for part in parts
    )


def transcript(parts: Sequence[Part], are_described: bool = True) -> str:
    """The turns of a conversation in tags with their address and role, with parts of other kinds; media may be attached."""
    lines: list[str] = []
    for address, group in groupby(parts, key=attrgetter("message")):
        held = list(group)
        role = "".join(letter for letter in held[0].role if letter.isalnum()) or "unknown"
        of = "".join(f' of="{part.call}"' for part in held if part.call and part.address == address)
        lines.append(f'<turn id="{address}" role="{role}"{of}>')
        for part in held:
            stand_in = f"(not shown: {part.text})" if are_described else "(attached below)"
            words = _without_turns(stand_in if part.kind in MEDIA_KINDS else part.text)
            of = f' of="{part.call}"' if part.call else ""
            lines.append(
                words
                if part.address == address
                else f'<part id="{part.address}"{of}>\n{words}\n</part>'
            )
        lines.append("</turn>")
    return "\n".join(lines)


# Characters that show nothing, which a judge reads over: soft hyphens, joiners and other zero widths, marks of
# direction, variation selectors, tags.
_UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\U000e0000-\U000e0fff"
)
_GAP = rf"[\s{_UNSEEN}]*+"


def without_tags(*names: str) -> Callable[[str], str]:
    """A function that writes `&lt;` for the `<` of these tags, however they are spelled; one linear pass."""
    # Possessive gaps: a `<` and a million blanks must not be tried a million ways.
    spelled = "|".join(f"[{_UNSEEN}]*+".join(name) for name in names)
    tag = re.compile(rf"<(?={_GAP}/?+{_GAP}(?:{spelled})\b)", re.IGNORECASE)
    return lambda text: tag.sub("&lt;", text) if "<" in text else text


_without_sections = without_tags(*SECTIONS)
_without_turns = without_tags("turn", "part")
without_prompt_tags = without_tags(
    "query",
    "reference",
    "response",
    "criteria",
    "criterion",
    "criterion_type",
    "choices",
    "example",
)

MARK_BYTES = 16  # of a fence's mark: too many to search for a text that holds its own
_NO_MARK = (
    bytes(range(48)) + bytes(range(58, 97)) + bytes(range(123, 256))
)  # all but digits and small letters
_VERSION = re.compile(r"<!-- version (\d+) -->\s*")


@cache
def _prompt_file(name: str, home: str) -> str:
    from importlib.resources import files  # slow to load, and only judged rubrics need it

    return files(home).joinpath("prompts", name).read_text(encoding="utf-8")


@cache
def system_prompt(name: str, home: str = "assay.graders") -> str:
    """The system prompt in `prompts/` of a package, as prose."""
    return _VERSION.sub("", _prompt_file(f"{name}.md", home), count=1).strip()


@cache
def prompt_version(name: str, home: str = "assay.graders") -> str:
    """The name and version of a prompt, such as `per_criterion/2`: part of every cache key. Its file opens with it."""
    version = _VERSION.match(_prompt_file(f"{name}.md", home))
    assert version is not None, f"prompts/{name}.md does not open with its version"
    return f"{name}/{version.group(1)}"


def opening(judge_input: JudgeInput) -> str:
    """Write what all prompts about one response share: query, reference, and the fenced response."""
    sections: list[str] = []
    if judge_input.query:
        sections.append(f"<query>{without_prompt_tags(judge_input.query)}</query>\n\n")
    if judge_input.reference:
        reference = without_prompt_tags(judge_input.reference)
        sections.append(f"<reference>\n{reference}\n</reference>\n\n")
    response = judge_input.text
    if not judge_input.is_transcript:
        # A plain text must not pass for a conversation with replies and tool results in it.
        response = _without_turns(response)
    # The response comes last: prompts about other responses to the same query are alike up to here.
    sections.append(fenced(f"<response>\n{without_prompt_tags(response)}\n</response>"))
    return "".join(sections) + "\n\n"


def with_media(shared: str, media: "Sequence[Medium]") -> str | tuple[Any, ...]:
    """What prompts share, with media after it, each under its address and all of them in a fence; text alone as it is."""
    if not media:
        return shared
    mark = mark_of("".join(medium.description["sha256"] for medium in media))
    content: list[Any] = []
    before = f"{shared}[material {mark} begins]"
    for medium in media:
        content += [f'{before}\n<part id="{medium.address}">', medium]
        before = "</part>"
    return (*content, f"</part>\n[material {mark} ends]\n\n")


def fenced(text: str) -> str:
    """The text between two lines that nothing in it can pass for; the same text has the same fence, so that caches hold."""
    # The mark needs no secret: putting a text's mark into the text changes the mark.
    mark = mark_of(text)
    return f"[material {mark} begins]\n{text}\n[material {mark} ends]"


def mark_of(text: str) -> str:
    """Letters that follow from the text and do not occur in it, whatever capitals or hidden characters are between them."""
    # Half of a surrogate pair is no text, but models under test write it.
    data = text.encode("utf-8", "surrogatepass")
    ascii_only = unicodedata.normalize("NFKC", text).casefold().encode("ascii", "ignore")
    letters = ascii_only.translate(None, _NO_MARK).decode()
    marks = (
        blake2s(data, digest_size=MARK_BYTES, salt=attempt.to_bytes(8)).hexdigest()
        for attempt in count()
    )
    return next(mark for mark in marks if mark not in letters)


def one_criterion(criterion: Criterion, *, reverse: bool = False) -> str:
    """The end of a prompt about a single criterion; on request with its choices turned round."""
    key = "one_criterion_reversed" if reverse else "one_criterion"
    ending = criterion.memo.get(key)
    if ending is None:
        kind, asked = _kind(criterion), _requirement(criterion)
        ending = f"<criterion_type>{kind}</criterion_type>\n<criterion>{asked}</criterion>"
        if offered := labels(criterion, reverse=reverse):
            order = (
                ' order="from the most to the least"' if offered[0] == criterion.choices[-1] else ""
            )
            ending += (
                f"\n<choices{order}>\n{without_prompt_tags(chr(10).join(offered))}\n</choices>"
            )
        if criterion.requires_evidence:
            ending += f"\n\n{system_prompt('evidence')}"
        criterion.memo[key] = ending
    return ending


def all_criteria(
    criteria: Sequence[Criterion], *, vetoes: bool = False, reverse: bool = False
) -> str:
    """The end of a prompt about all criteria, one numbered line each; `vetoes` tells what a failed required one leaves."""
    lines: list[str] = []
    for number, criterion in enumerate(criteria, start=1):
        traits = f"{_kind(criterion)}, weight {criterion.weight:.12g}"
        if offered := labels(criterion, reverse=reverse):
            order = ", from the most to the least" if offered[0] == criterion.choices[-1] else ""
            traits += f", one of{order}: {without_prompt_tags(' | '.join(offered))}"
        if criterion.requires_evidence:
            traits += ", evidence required"
        if vetoes and criterion.required:
            traits += f", required: if it fails, at most {100 * criterion.cap:.12g} overall"
        # A line break in a requirement must not start a numbered line of its own.
        indented = _requirement(criterion).replace("\n", "\n   ")
        lines.append(f"{number}. [{traits}] {indented}")
    needs = any(criterion.requires_evidence for criterion in criteria)
    asked = f"\n\nWhere evidence is required: {system_prompt('evidence')}" if needs else ""
    return f"<criteria>\n{chr(10).join(lines)}\n</criteria>{asked}"


def labels(criterion: Criterion, *, reverse: bool = False) -> tuple[str, ...]:
    """The labels to list; none when they are MET and UNMET, which every judge knows, unless they are reversed."""
    choices = criterion.choices
    if choices == BINARY_CHOICES and not criterion.allow_na:
        return choices if reverse else ()
    listed = choices[::-1] if reverse else choices
    return (*listed, NOT_APPLICABLE) if criterion.allow_na else listed


def _kind(criterion: Criterion) -> str:
    return "negative" if criterion.weight < 0 else "positive"


def _requirement(criterion: Criterion) -> str:
    if criterion.requirement is None:
        why = "is answered by code, and has no words for a model to judge: score it with a Rubric"
        raise JudgeError(f"criterion {criterion.name!r} {why}")
    return without_prompt_tags(criterion.requirement)


# What to do about a text without an answer: give wanted criteria their lowest choice, or ask all the same.
Degenerate: TypeAlias = Literal["lowest", "ask"]

DEGENERATE = "degenerate answer"  # how the reason begins that a text without an answer gets

LONGEST = 100  # characters that an announcement has at most
_SECTION_TAG = re.compile(rf"</?(?:{'|'.join(SECTIONS)})>", re.IGNORECASE)


@cache
def _announcements() -> frozenset[str]:
    """What announces an answer and gives none, as it stands once case, marks and blanks are taken off."""
    return frozenset(
        _prompt_file("announcements.txt", "assay.graders").replace("\n", "|").split("|")
    ) - {""}


def degenerate(text: str) -> str | None:
    """Why a text holds no answer at all; None when it may hold one. Of a conversation, give the assistant's text."""
    # A lone colon, or `Thought process:` and nothing after it, makes many a model say that an answer is right
    # (arXiv 2507.08794). No judge needs to be asked about those.
    bare = _SECTION_TAG.sub(" ", text) if "<" in text else text
    if not bare.strip():
        return "it is empty"
    # Signs such as ∞ say something; marks, blanks, controls and lone accents do not.
    kinds = ("L" if letter.isalnum() else unicodedata.category(letter) for letter in bare)
    if not any(kind[0] in "LS" and kind != "Sk" for kind in kinds):
        return "no word or number in it"
    if len(bare) <= LONGEST:
        plain = unicodedata.normalize("NFKC", bare).casefold().replace("'", "").replace("’", "")
        if " ".join(re.findall(r"\w+", plain.replace("_", " "))) in _announcements():
            return "it announces an answer and gives none"
    return None
