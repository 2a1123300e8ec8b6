"""Our parsers under the names of `verifiers`.

With `compat.strict = False` they read texts as those of `verifiers` 0.1.14 do, with their mistakes.
"""

from collections.abc import Iterator
from logging import Logger
from types import SimpleNamespace
from typing import Any

import assay
from assay import compat, parsers
from assay.messages import completion_text, message_text
from assay.parsers.text_parsers import CLOSING_TAG, OPENING_TAG, average_score
from assay.redaction import get_logger
from assay.types import Messages


class Parser(assay.Parser):
    """Our parser, which keeps reasoning in the text, as in verifiers."""

    logger: Logger = get_logger("assay")

    @property
    def _hides_reasoning(self) -> bool:
        # A reward function for verifiers may look for the tags in what the parser returns.
        return False


class ThinkParser(Parser, assay.ThinkParser):
    """Reads the text after the last `</think>`."""

    def parse(self, text: Messages) -> Any:
        """Return the answer after the reasoning; without a closing tag there is none."""
        if compat.strict:
            return super().parse(text)
        _, closing_tag, answer = completion_text(text).rpartition(CLOSING_TAG)
        return self.extract_fn(answer.strip() if closing_tag else "")

    def format_score(self, completion: Messages | None) -> float:
        """Return the share of assistant messages that are reasoning followed by something."""
        if compat.strict:
            return super().format_score(completion)
        return average_score(completion, _starts_with_reasoning)


def _starts_with_reasoning(text: str) -> bool:
    """Return whether a text is reasoning between tags, with anything (even spaces) after it."""
    has_one_pair = text.count(OPENING_TAG) == 1 and text.count(CLOSING_TAG) == 1
    rest = text.rpartition(CLOSING_TAG)[2]
    return has_one_pair and text.strip().startswith(OPENING_TAG) and rest != ""


class MaybeThinkParser(Parser, assay.MaybeThinkParser):
    """Reads the text after the last `</think>`, or the whole text if there is no such tag."""

    def parse(self, text: Messages) -> Any:
        """Return the answer; unlike in strict mode, unfinished reasoning is taken as the answer."""
        if compat.strict:
            return super().parse(text)
        answer = completion_text(text).rpartition(CLOSING_TAG)[2]
        return self.extract_fn(answer.strip())


class XMLParser(Parser, assay.XMLParser):
    """Reads fields between tags such as `<answer>` and `</answer>`."""

    needs_fields = False  # some environments create a parser without fields

    def parse(
        self, text: Messages, strip: bool = True, last: bool | None = None
    ) -> SimpleNamespace:
        """Return an object with the content of each field, which is None if the text has no such tag.

        A field that occurs several times has its last content, or its first one if `last` is False.
        With `compat.strict = False` it has its first one unless `last` is True.
        """
        if compat.strict:
            return super().parse(text, strip, last is not False)
        values: dict[str, str | None] = {}
        for name in self._names:
            contents = list(_find_contents(completion_text(text), tag=name))
            if not contents:
                values[name] = None
            else:
                values[name] = contents[-1] if last else contents[0]
        return SimpleNamespace(**values)

    def parse_answer(self, completion: Messages | None) -> Any:
        """Return the answer field.

        With `compat.strict = False`, of a chat it is taken from the last assistant message that has
        the field.
        """
        if compat.strict:
            return super().parse_answer(completion)
        if isinstance(completion, str):
            return getattr(self.parse(completion, last=True), self.answer_field, None)
        for message in reversed(self.get_assistant_messages(completion or [])):
            fields = self.parse(message_text(message), last=False)
            answer = getattr(fields, self.answer_field, None)
            if answer is not None:
                return answer
        return None

    def format_score(self, completion: Messages | None) -> float:
        """Return how well the assistant messages keep the format, from 0 to 1."""
        if compat.strict:
            return super().format_score(completion)
        if isinstance(completion, str):
            return 0.0  # verifiers only looks at messages
        return average_score(completion, self._score_format_as_verifiers)

    def _score_format_as_verifiers(self, text: str) -> float:
        """Return the format score of one message as verifiers computes it.

        It is 0.2, plus 0.2 each if the first field opens and if the last one closes the message,
        plus 0.4 times the share of fields whose tags occur if any field could be parsed.
        """
        named_field_count = 0
        for names in self.fields:  # a field may have alternative names
            if any(f"<{name}>" in text or f"</{name}>" in text for name in names):
                named_field_count += 1
        score = 0.0
        if any(value is not None for value in vars(self.parse(text)).values()):
            score = 0.4 * (named_field_count / len(self.fields))
        opening_tags = tuple(f"<{name}>" for name in self.fields[0])
        closing_tags = tuple(f"</{name}>" for name in self.fields[-1])
        # Added in the order of verifiers, since the order of a sum changes its last bit.
        score += 0.2
        score += 0.2 * text.strip().startswith(opening_tags)
        score += 0.2 * text.strip().endswith(closing_tags)
        return score


def _find_contents(text: str, tag: str) -> Iterator[str]:
    """Yield the stripped text between each opening tag and the next closing one."""
    opening_tag = f"<{tag}>"
    closing_tag = f"</{tag}>"
    position = 0
    while True:
        start = text.find(opening_tag, position)
        if start < 0:
            return
        end = text.find(closing_tag, start)
        if end < 0:
            return
        yield text[start + len(opening_tag) : end].strip()
        position = end + len(closing_tag)


def extract_hash_answer(text: str) -> str | None:
    """Return the answer after `####`.

    With `compat.strict = False` that is the text between the first two of them, or the whole text
    if there is none.
    """
    if compat.strict:
        return parsers.extract_hash_answer(text)
    if "####" not in text:
        return text
    return text.split("####")[1].strip()


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""Return the content of the last `\boxed{...}`.

    Without a box, return the text itself, or `""` if `strict` is True.
    """
    if compat.strict:
        return parsers.extract_boxed_answer(text, strict)
    text_without_box = "" if strict else text
    if "\\boxed{" not in text:
        return text_without_box
    start = text.rfind("\\boxed{") + len("\\boxed{")
    open_braces = 1
    for index in range(start, len(text)):
        if text[index] == "{":
            open_braces += 1
        elif text[index] == "}":
            open_braces -= 1
        if open_braces == 0:
            return text[start:index]
    return text_without_box  # the box does not end


def strip_non_numeric(text: str) -> str:
    """Return the digits and points of a text, with a minus sign unless `compat.strict = False`."""
    if compat.strict:
        return parsers.strip_non_numeric(text)
    return "".join(character for character in text if character.isdigit() or character == ".")
