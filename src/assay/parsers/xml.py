"""Parse fields between tags: `<reasoning>…</reasoning><answer>…</answer>`. The last match counts."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from assay.messages import text_with_reasoning
from assay.parsers.text_parsers import Parser, average_score, identity
from assay.reasoning import REASONING_TAGS, remove_reasoning
from assay.types import Messages
from assay.wording import suggest_word


class _Missing(str):
    """An empty text that stands for a missing field."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


# What `parse` returns for a field that a text does not have. It is an empty text, so that a check
# such as `parsed.answer.strip() == answer` is false, and does not fail, if the tag was left out.
MISSING = _Missing()


class XMLParser(Parser):
    """Reads tagged fields. A field is one name, or several names of which a text uses one.

    >>> parser = XMLParser(["reasoning", ("tool", "answer")])
    >>> parser.parse("<reasoning>2+2</reasoning><answer> 4 </answer>")
    namespace(reasoning='2+2', tool=MISSING, answer='4')
    """

    # A field such as `<think>` is read where it is; all other fields, outside of reasoning.
    reads_reasoning = True

    # Whether the constructor refuses an empty list of fields.
    needs_fields = True

    def __init__(
        self,
        fields: Sequence[str | Sequence[str]],
        answer_field: str = "answer",
        extract_fn: Callable[[str], Any] = identity,
    ) -> None:
        super().__init__(extract_fn)
        # The names of each field. The first is its canonical name.
        self.fields = _read_fields(fields)
        if not self.fields and self.needs_fields:
            raise ValueError("fields is empty: name at least one tag")
        # The field that `parse_answer` reads. A canonical name stands for all names of its field.
        self.answer_field = answer_field
        self._names = tuple(name for names in self.fields for name in names)
        self._answer_names = self._find_answer_names()
        # The fields for reasoning. What a message has in a field of its own is put in such a tag.
        self._reasoning_names = tuple(n for n in self._names if n.lower() in REASONING_TAGS)
        # Matches `<name>` and `</name>`.
        self._tag = re.compile(f"<(/?)({'|'.join(map(re.escape, self._names))})>")

    def _find_answer_names(self) -> tuple[str, ...]:
        for names in self.fields:
            if names[0] == self.answer_field:
                return names
        if self.answer_field in self._names:
            return (self.answer_field,)
        return ()

    def parse(self, text: Messages, strip: bool = True, last: bool = True) -> SimpleNamespace:
        """Return a namespace with the last text of each name, or the first if `last` is False.

        A name without a text is `MISSING`.
        """
        index = -1 if last else 0
        values: dict[str, str] = {}
        for name, texts in vars(self.parse_all(text, strip)).items():
            values[name] = texts[index] if texts else MISSING
        return SimpleNamespace(**values)

    def parse_all(self, text: Messages, strip: bool = True) -> SimpleNamespace:
        """Return a namespace with a list of all texts of each name, in order."""
        full_text = self._read_text(text)
        answer_text = remove_reasoning(full_text)
        values: dict[str, list[str]] = {}
        for name in self._names:
            source = full_text if name in self._reasoning_names else answer_text
            contents = [source[start:end] for start, end in find_tag_spans(source, name)]
            values[name] = [content.strip() for content in contents] if strip else contents
        return SimpleNamespace(**values)

    def _read_message(self, message: object) -> str:
        """Return the text of a message; reasoning from a field is in a tag of this parser."""
        tag = self._reasoning_names[0] if self._reasoning_names else "think"
        return text_with_reasoning(message, tag)

    def parse_answer(self, completion: Messages | None) -> Any:
        """Return the last answer field of a completion, through `extract_fn`; None without one.

        The assistant messages are searched from the last to the first. An answer inside of
        reasoning does not count.
        """
        if isinstance(completion, str):
            texts = [completion]
        else:
            messages = self.get_assistant_messages(completion or [])
            texts = [self._read_message(message) for message in reversed(messages)]
        is_in_reasoning = not set(self._answer_names).isdisjoint(self._reasoning_names)
        for text in texts:
            if not is_in_reasoning:
                text = remove_reasoning(text)
            spans: list[tuple[int, int]] = []
            for name in self._answer_names:
                spans.extend(find_tag_spans(text, name))
            if spans:
                start, end = max(spans)  # the field that starts last
                return self.extract_fn(text[start:end].strip())
        return None

    def format(self, /, **values: Any) -> str:
        """Return a text that `parse` reads back. Each field needs a value under one of its names.

        None and `MISSING` count as no value.

        >>> XMLParser(["answer"]).format(answer=4)
        '<answer>\\n4\\n</answer>'
        """
        for name in values:
            if name not in self._names:
                raise ValueError(f"there is no field {name!r}: {suggest_word(name, self._names)}")
        missing_names = {
            name for name, value in values.items() if value is None or value is MISSING
        }
        lines: list[str] = []
        for names in self.fields:
            used_names = [name for name in names if name in values and name not in missing_names]
            if not used_names:
                raise ValueError(f"field {' or '.join(map(repr, names))} has no value")
            if len(used_names) > 1:
                raise ValueError(
                    f"one field has two values: give {' or '.join(map(repr, used_names))}, not both"
                )
            name = used_names[0]
            lines.append(f"<{name}>\n{values[name]}\n</{name}>")
        return "\n".join(lines)

    def get_fields(self) -> list[str]:
        """Return the canonical name of each field, in order."""
        return [names[0] for names in self.fields]

    def get_format_str(self) -> str:
        """Return a description of the format for a prompt.

        A field with several names is written as `<[ tool | answer ]>`.
        """
        lines: list[str] = []
        for names in self.fields:
            tag = names[0] if len(names) == 1 else f"[ {' | '.join(names)} ]"
            lines.append(f"<{tag}>\n...\n</{tag}>")
        return "\n".join(lines)

    def format_score(self, completion: Messages | None) -> float:
        """Return how well the assistant messages keep the format, on average.

        The score of a message is 0.4 times the share of fields that it has (with none of our tags
        inside), plus 0.2 each if all tags pair up, if it starts with the first field, and if it
        ends with the last. A message without any field scores 0.

        >>> XMLParser(["think", "answer"]).format_score("<think>2+2</think> <answer>4</answer>")
        1.0
        """
        return average_score(completion, self._score_text, self._read_message)

    def _score_text(self, text: str) -> float:
        if not self._reasoning_names:
            text = remove_reasoning(text)  # it is not part of the format
        text = text.strip()
        # For each tag, "/" or "" and its name.
        tags = cast("list[tuple[str, str]]", self._tag.findall(text))
        # The names with an opening tag that is directly followed by its closing tag.
        complete_names: set[str] = set()
        for (slash, name), next_tag in pairwise(tags):
            if slash == "" and next_tag == ("/", name):
                complete_names.add(name)
        present_count = sum(not complete_names.isdisjoint(names) for names in self.fields)
        if present_count == 0:
            return 0.0
        first_tags = tuple(f"<{name}>" for name in self.fields[0])
        last_tags = tuple(f"</{name}>" for name in self.fields[-1])
        # In fifths, so that a full score is exactly 1.
        fifths = 2 * present_count / len(self.fields)
        fifths += _all_pair_up(tags)
        fifths += text.startswith(first_tags)
        fifths += text.endswith(last_tags)
        return fifths / 5


def _all_pair_up(tags: Iterable[tuple[str, str]]) -> bool:
    """Return True if every opening tag has its closing tag, and no pairs overlap."""
    open_names: list[str] = []
    for slash, name in tags:
        if not slash:
            open_names.append(name)
        elif not open_names or open_names.pop() != name:
            return False
    return not open_names


def _read_fields(fields: object) -> tuple[tuple[str, ...], ...]:
    """Return the names of each field; raise TypeError or ValueError for what cannot be a field."""
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise TypeError(f"fields is {fields!r}: pass a list of names, such as ['think', 'answer']")
    names_by_field: list[tuple[str, ...]] = []
    seen_names: set[str] = set()
    for field in cast("Iterable[object]", fields):
        if isinstance(field, str):
            names = (field,)
        elif isinstance(field, tuple | list):
            names = tuple(cast("Sequence[str]", field))
        else:
            raise TypeError(f"field {field!r} is neither a name nor a tuple of names")
        if not names:
            raise ValueError(f"field {field!r} is empty: give it at least one name")
        for name in names:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"field {field!r} contains {name!r}, which is not a name")
            if not re.fullmatch(r"[A-Za-z_][\w.-]*", name):
                raise ValueError(
                    f"field {name!r} cannot be a tag: use letters, digits, '_', '-' and '.'"
                )
            if name in seen_names:
                raise ValueError(f"field {name!r} is named twice: use each name once")
            seen_names.add(name)
        names_by_field.append(names)
    return tuple(names_by_field)


def find_tag_spans(text: str, tag: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the content of each field with this tag, in linear time.

    A field runs from an opening tag to the next closing tag, with no other opening tag of the same
    name between them: `<a>x<a>y</a>` contains one `a`, which is `y`.
    """
    opening_tag = f"<{tag}>"
    closing_tag = f"</{tag}>"
    position = 0
    while (opening := text.find(opening_tag, position)) >= 0:
        end = text.find(closing_tag, opening)
        if end < 0:
            return
        last_opening = text.rfind(opening_tag, opening, end)
        yield last_opening + len(opening_tag), end
        position = end + len(closing_tag)
