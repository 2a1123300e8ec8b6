"""Turn what is graded into the text that a judge reads, and take that text apart again.

A text stays as it is; of a chat the judge reads the last reply; thinking and output stand in tags of their own.
"""

import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypedDict, cast

from assay.messages import chat_of, completion_text, message_text, read_completion, role_of, tool_calls
from assay.types import Messages
from assay.wording import short_repr

SECTIONS = ("thinking", "output")
"""The tags of a reply in two parts."""

_PROMPT_TAGS = (
    "query", "reference", "response", "criteria", "criterion", "criterion_type", "choices",
    "example",
)  # fmt: skip


class ThinkingOutputDict(TypedDict, total=False):
    """A reply in two parts."""

    thinking: str
    output: str


ToGrade: TypeAlias = str | Sequence[Mapping[str, Any]] | ThinkingOutputDict


class JudgeInput(str):
    """The text that a judge reads, with the rollout it is from, for graders that show more of it.

    >>> text = JudgeInput("4", {"answer": "four"}, reference="four")
    >>> text == "4", text.fields["answer"], text.reference
    (True, 'four', 'four')
    """

    __slots__ = ("fields", "reference")

    fields: Mapping[str, Any]
    """The rollout's fields; none when a text is graded by itself."""
    reference: str
    """An answer known to be good, to judge by; empty when there is none."""

    def __new__(cls, text: str, fields: Mapping[str, Any] | None = None, reference: str = "") -> Self:
        made = super().__new__(cls, text)
        made.fields = {} if fields is None else fields
        made.reference = reference
        return made

    @classmethod
    def of(cls, text: str) -> "JudgeInput":
        """A text as a judge's input; one that is an input already as it is."""
        return text if isinstance(text, JudgeInput) else cls(text)


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
        spoken = [{"role": "assistant", "content": chat}] if isinstance(chat, str) else chat_of(chat)
        turns += [_turn(message) for message in spoken]
    return "\n".join(turns)


def _turn(message: object) -> str:
    calls = [f"{call.name}({call.arguments})" for call in tool_calls(message)]
    said = "\n".join(part for part in (message_text(message), *calls) if part)
    role = "".join(letter for letter in role_of(message) if letter.isalnum()) or "unknown"
    return f'<turn role="{role}">\n{without_turns(said)}\n</turn>'


# Characters that show nothing, which a judge reads over: soft hyphens, joiners and other zero widths, marks of
# direction, variation selectors, tags.
_UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\U000e0000-\U000e0fff"
)
_GAP = rf"[\s{_UNSEEN}]*+"


class Neutraliser:
    """Writes `&lt;` for the `<` of some tags, however they are spelled; one linear pass.

    >>> Neutraliser(["response"])("a < b </ Response > <responses>")
    'a < b &lt;/ Response > <responses>'
    """

    def __init__(self, names: Sequence[str]) -> None:
        # Possessive gaps: a `<` and a million blanks must not be tried a million ways.
        spelled = "|".join(f"[{_UNSEEN}]*+".join(name) for name in names)
        self._tag = re.compile(rf"<(?={_GAP}/?+{_GAP}(?:{spelled})\b)", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        return self._tag.sub("&lt;", text) if "<" in text else text


without_sections = Neutraliser(SECTIONS)
without_turns = Neutraliser(["turn"])
without_prompt_tags = Neutraliser(_PROMPT_TAGS)


_OPENING = {name: re.compile(f"<{name}>", re.IGNORECASE) for name in SECTIONS}
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in SECTIONS}
_OUTPUT_TAG = re.compile("</?output>", re.IGNORECASE)


def parse_thinking_output(text: str) -> ThinkingOutputDict:
    """The first section of each name; without an output section, all but the thinking is output.

    A tag that is never closed is plain text.

    >>> parse_thinking_output("<thinking>2 and 2</thinking> 4")
    {'thinking': '2 and 2', 'output': '4'}
    """
    thinking, output = (_first(text, name) for name in SECTIONS)
    if thinking is None and output is None:
        return {"thinking": "", "output": text}
    said = _inside(text, output) if output else _without(text, "thinking")
    return {"thinking": _inside(text, thinking).strip(), "output": said.strip()}


def normalize_to_grade_input(to_grade: str | ThinkingOutputDict) -> ThinkingOutputDict:
    """A text or mapping as thinking and output; either is empty when it is not there."""
    if isinstance(to_grade, str):
        return parse_thinking_output(to_grade)
    if not isinstance(to_grade, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"to_grade must be a string or dict, got {type(to_grade).__name__}")
    parts = cast("Mapping[str, object]", to_grade)
    if unknown := sorted(set(parts) - set(SECTIONS)):
        warnings.warn(f"Unexpected keys in to_grade: {unknown}. Only 'thinking' and 'output' are read.", stacklevel=2)
    texts = {name: parts.get(name, "") for name in SECTIONS}
    for name, part in texts.items():
        if not isinstance(part, str):
            raise ValueError(f"{name!r} must be a string, got {type(part).__name__}")
    return cast("ThinkingOutputDict", texts)


def thinking_and_rest(text: str) -> ThinkingOutputDict:
    """The first thinking section, and everything else as output, sections or not.

    For counting: an empty output section, written by the model that is scored, hides nothing.

    >>> thinking_and_rest("<thinking>hm</thinking><output></output> and so on")
    {'thinking': 'hm', 'output': 'and so on'}
    """
    section = _first(text, "thinking")
    rest = text if section is None else text[: section.before] + text[section.after :]
    return {"thinking": _inside(text, section).strip(), "output": _OUTPUT_TAG.sub(" ", rest).strip()}


class _Section(NamedTuple):
    """Where a section stands: its opening tag, its inside and its end."""

    before: int
    start: int
    end: int
    after: int


def _first(text: str, name: str, position: int = 0) -> _Section | None:
    opening = _OPENING[name].search(text, position)
    closing = _CLOSING[name].search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    return _Section(opening.start(), opening.end(), closing.start(), closing.end())


def _inside(text: str, section: _Section | None) -> str:
    return "" if section is None else text[section.start : section.end]


def _without(text: str, name: str) -> str:
    """The text without any section of this name."""
    pieces: list[str] = []
    position = 0
    while (section := _first(text, name, position)) is not None:
        pieces.append(text[position : section.before])
        position = section.after
    return "".join([*pieces, text[position:]])


Degenerate: TypeAlias = Literal["lowest", "ask"]
"""What to do about such a text: give wanted criteria their lowest choice, or ask all the same."""

DEGENERATE = "degenerate answer"
"""How the reason begins that a text without an answer gets."""

LONGEST = 100
"""Characters that an announcement has at most."""

_SECTION_TAG = re.compile(rf"</?(?:{'|'.join(SECTIONS)})>", re.IGNORECASE)

# As they stand once case, marks and blanks are taken off; each announces an answer and gives none.
_ANNOUNCEMENTS = frozenset(
    """
    thought process|my thought process|thinking process|reasoning|my reasoning|reasoning process
    solution|the solution|my solution|here is the solution|heres the solution|solution process
    answer|the answer|my answer|final answer|the final answer|my final answer|the answer is
    the final answer is|here is the answer|heres the answer|here is my answer|answer is
    explanation|here is my explanation|analysis|here is my analysis|step by step|step 1|conclusion
    lets solve this|lets solve this step by step|lets solve this problem step by step
    lets solve the problem step by step|let us solve this problem step by step|lets think step by step
    lets think about this step by step|let us think step by step|lets break this down
    lets break it down step by step|let me think|let me think step by step|let me solve this step by step
    to solve this problem|to solve this problem we need to|we need to solve this problem
    解|解答|答案|回答|解説|解析|かいせつ|解题过程|思考过程|让我们一步一步思考|让我们一步步解决这个问题
    풀이|정답|답|해설|ответ|решение|ход мыслей|давайте решим это шаг за шагом
    respuesta|la respuesta|solución|la respuesta es|solucion|resolvamos este problema paso a paso
    réponse|la réponse est|solution étape par étape|antwort|die antwort|die antwort ist|lösung
    lösungsweg|gedankengang|schritt für schritt|risposta|la risposta è|soluzione|resposta|solução
    """.replace("\n", "|")
    .replace("  ", "")
    .split("|")
) - {""}


def degenerate(text: str) -> str | None:
    """Why a text holds no answer at all; None when it may hold one.

    A lone colon, or `Thought process:` and nothing after it, makes many a model say that an answer is right
    (arXiv 2507.08794). No judge needs to be asked about those.

    >>> degenerate(" ... "), degenerate("Thought process:")
    ('no word or number in it', 'it announces an answer and gives none')
    >>> degenerate("42") is degenerate("Solution: none exists.") is None
    True
    """
    bare = _SECTION_TAG.sub(" ", text) if "<" in text else text
    if not bare.strip():
        return "it is empty"
    if not any(map(_says_something, bare)):
        return "no word or number in it"
    if len(bare) <= LONGEST and _folded(bare) in _ANNOUNCEMENTS:
        return "it announces an answer and gives none"
    return None


def _says_something(letter: str) -> bool:
    """Whether a character is more than a mark, a blank or a control; signs such as ∞ are."""
    if letter.isalnum():
        return True
    kind = unicodedata.category(letter)
    return kind[0] == "S" and kind != "Sk"


def _folded(text: str) -> str:
    """Words in lower case with one blank between, whatever stood around them."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", plain.replace("_", " ")))
