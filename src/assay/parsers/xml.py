"""Parse fields between tags: `<reasoning>…</reasoning><answer>…</answer>`. The last match wins."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from assay.messages import completion_text, message_text
from assay.parsers.text_parsers import Parser, identity, mean_score
from assay.types import Messages
from assay.wording import did_you_mean


class _Missing(str):
    """An empty text that stands for a field which is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""What `parse` gives for a field that a text does not have: an empty text, so that a check such as
`parsed.answer.strip() == answer` says no to a model that left the tag out, instead of failing."""


class XMLParser(Parser):
    """Reads tagged fields, matched as written. A field is a name, or several names of which a text uses one.

    >>> parser = XMLParser(["reasoning", ("tool", "answer")])
    >>> parser.parse("<reasoning>2+2</reasoning><answer> 4 </answer>")
    namespace(reasoning='2+2', tool=MISSING, answer='4')
    """

    needs_fields = True

    def __init__(
        self,
        fields: Sequence[str | Sequence[str]],
        answer_field: str = "answer",
        extract_fn: Callable[[str], Any] = identity,
    ) -> None:
        super().__init__(extract_fn)
        self.fields = _checked(fields)  # the names of each field; the first is canonical
        if not self.fields and self.needs_fields:
            raise ValueError("fields is empty: name at least one tag")
        self.answer_field = answer_field  # read by `parse_answer`; the canonical name stands for all names of its field
        self._names = tuple(name for names in self.fields for name in names)
        by_name = {name: (name,) for name in self._names} | {
            names[0]: names for names in self.fields
        }
        self._answer_names = by_name.get(answer_field, ())
        self._tag = re.compile(f"<(/?)({'|'.join(map(re.escape, self._names))})>")

    def parse(self, text: Messages, strip: bool = True, last: bool = True) -> SimpleNamespace:
        """Return every name as an attribute: its last text (or its first), `MISSING` when it is not there."""
        found = vars(self.parse_all(text, strip)).items()
        return SimpleNamespace(
            **{name: texts[-1 if last else 0] if texts else MISSING for name, texts in found}
        )

    def parse_all(self, text: Messages, strip: bool = True) -> SimpleNamespace:
        """Return every name as an attribute: the list of all its texts, in order."""
        text = completion_text(text)
        values: dict[str, list[str]] = {}
        for name in self._names:
            contents = [text[start:end] for start, end in every_span(text, name)]
            values[name] = [content.strip() for content in contents] if strip else contents
        return SimpleNamespace(**values)

    def parse_answer(self, completion: Messages | None) -> Any:
        """Return the last answer field through `extract_fn`, looking back over assistant messages; None without one."""
        if isinstance(completion, str):
            texts = [completion]
        else:
            texts = map(message_text, reversed(self.get_assistant_messages(completion or [])))
        for text in texts:
            spans = [span for name in self._answer_names for span in every_span(text, name)]
            if spans:
                start, end = max(spans)
                return self.extract_fn(text[start:end].strip())
        return None

    def format(self, /, **values: Any) -> str:
        """Return the text that `parse` reads back. Each field needs one value; None and `MISSING` count as not given.

        >>> XMLParser(["answer"]).format(answer=4)
        '<answer>\\n4\\n</answer>'
        """
        given = {
            name: value
            for name, value in values.items()
            if value is not None and value is not MISSING
        }
        for name in values:
            if name not in self._names:
                raise ValueError(f"there is no field {name!r}: {did_you_mean(name, self._names)}")
        written: list[str] = []
        for names in self.fields:
            chosen = [name for name in names if name in given]
            if not chosen:
                raise ValueError(f"field {' or '.join(map(repr, names))} has no value")
            if len(chosen) > 1:
                raise ValueError(
                    f"one field has two values: give {' or '.join(map(repr, chosen))}, not both"
                )
            written.append(f"<{chosen[0]}>\n{given[chosen[0]]}\n</{chosen[0]}>")
        return "\n".join(written)

    def get_fields(self) -> list[str]:
        """The canonical name of each field, in order."""
        return [names[0] for names in self.fields]

    def get_format_str(self) -> str:
        """Return the format as words for a prompt; of several names `<[ tool | answer ]>`."""
        tags = (n[0] if len(n) == 1 else f"[ {' | '.join(n)} ]" for n in self.fields)
        return "\n".join(f"<{tag}>\n...\n</{tag}>" for tag in tags)

    def format_score(self, completion: Messages | None) -> float:
        """Return how well each assistant message keeps the format, on average; 0.0 where no field can be read.

        0.4 times the share of fields that are there with none of our tags inside, and 0.2 each for tags that all pair
        up, for starting with the first field, and for ending with the last.

        >>> XMLParser(["think", "answer"]).format_score("<think>2+2</think> <answer>4</answer>")
        1.0
        """
        return mean_score(completion, self._text_score)

    def _text_score(self, text: str) -> float:
        text = text.strip()
        tags = cast("list[tuple[str, str]]", self._tag.findall(text))
        # The names of which some opening tag is followed by its own closing tag, and no tag between.
        closed = {
            name for (slash, name), after in pairwise(tags) if not slash and after == ("/", name)
        }
        present = sum(not closed.isdisjoint(names) for names in self.fields)
        if not present:
            return 0.0
        starts = text.startswith(tuple(f"<{name}>" for name in self.fields[0]))
        ends = text.endswith(tuple(f"</{name}>" for name in self.fields[-1]))
        # In fifths, so that a full score is exactly 1.
        return (2 * present / len(self.fields) + _pair_up(tags) + starts + ends) / 5


def _checked(fields: object) -> tuple[tuple[str, ...], ...]:
    """The names of each field, or an error that names what is wrong."""
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise TypeError(f"fields is {fields!r}: pass a list of names, such as ['think', 'answer']")
    checked, seen = list[tuple[str, ...]](), set[str]()
    for field in cast("Iterable[object]", fields):
        if not isinstance(field, str | tuple | list):
            raise TypeError(f"field {field!r} is neither a name nor a tuple of names")
        names = (field,) if isinstance(field, str) else tuple(cast("Sequence[str]", field))
        if not names:
            raise ValueError(f"field {field!r} is empty: give it at least one name")
        for name in names:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"field {field!r} holds {name!r}, which is not a name")
            if not re.fullmatch(r"[A-Za-z_][\w.-]*", name):
                raise ValueError(
                    f"field {name!r} cannot be a tag: use letters, digits, '_', '-' and '.'"
                )
            if name in seen:
                raise ValueError(f"field {name!r} is named twice: each name may stand once")
            seen.add(name)
        checked.append(names)
    return tuple(checked)


def _pair_up(tags: Iterable[tuple[str, str]]) -> bool:
    """Whether every opening tag meets its own closing tag, with none crossed."""
    opened: list[str] = []
    for slash, name in tags:
        if not slash:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def every_span(text: str, tag: str) -> Iterator[tuple[int, int]]:
    """Return where the contents of each field of this name start and end, found by plain searches in linear time.

    A field runs from an opening tag to the next closing tag with no other opening tag of its name between them:
    `<a>x<a>y</a>` holds one `a`, which is `y`.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            return
        yield text.rfind(opening, start, end) + len(opening), end
        position = end + len(closing)
