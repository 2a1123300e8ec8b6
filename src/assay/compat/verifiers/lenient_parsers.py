"""Parsers read as ours do; with `compat.strict = False` they read as those of `verifiers` 0.1.14 do, faults included."""

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
    logger: Logger = get_logger("assay")

    @property
    def _hides_reasoning(self) -> bool:
        # As in verifiers: a function may look for the tags in what the parser returns.
        return False


class ThinkParser(Parser, assay.ThinkParser):
    def parse(self, text: Messages) -> Any:
        _, closing, answer = completion_text(text).rpartition(CLOSING_TAG)
        return (
            super().parse(text)
            if compat.strict
            else self.extract_fn(answer.strip() if closing else "")
        )

    def format_score(self, completion: Messages | None) -> float:
        return (
            super().format_score(completion)
            if compat.strict
            else average_score(completion, _opens_with_thought)
        )


def _opens_with_thought(text: str) -> bool:
    once = text.count(OPENING_TAG) == text.count(CLOSING_TAG) == 1
    return once and text.strip().startswith(OPENING_TAG) and text.rpartition(CLOSING_TAG)[2] != ""


class MaybeThinkParser(Parser, assay.MaybeThinkParser):
    def parse(self, text: Messages) -> Any:
        theirs = completion_text(text).rpartition(CLOSING_TAG)[2].strip()
        return super().parse(text) if compat.strict else self.extract_fn(theirs)


class XMLParser(Parser, assay.XMLParser):
    needs_fields = False  # there are environments that name none, and look for an answer in vain

    def parse(
        self, text: Messages, strip: bool = True, last: bool | None = None
    ) -> SimpleNamespace:
        if compat.strict:
            return super().parse(text, strip, last is not False)
        found = {name: list(_contents(completion_text(text), name)) for name in self._names}
        return SimpleNamespace(
            **{name: each[-1 if last else 0] if each else None for name, each in found.items()}
        )

    def parse_answer(self, completion: Messages | None) -> Any:
        if compat.strict:
            return super().parse_answer(completion)
        is_text = isinstance(completion, str)
        texts = (
            [completion]
            if is_text
            else map(message_text, reversed(self.get_assistant_messages(completion or [])))
        )
        answers = (
            getattr(self.parse(text, last=is_text), self.answer_field, None) for text in texts
        )
        return next((answer for answer in answers if answer is not None), None)

    def format_score(self, completion: Messages | None) -> float:
        if compat.strict:
            return super().format_score(completion)
        return 0.0 if isinstance(completion, str) else average_score(completion, self._their_score)

    def _their_score(self, text: str) -> float:
        named = [
            any(f"<{name}>" in text or f"</{name}>" in text for name in names)
            for names in self.fields
        ]
        any_parsed = any(value is not None for value in vars(self.parse(text)).values())
        score = 0.4 * (sum(named) / len(self.fields)) if any_parsed else 0.0
        starts = text.strip().startswith(tuple(f"<{name}>" for name in self.fields[0]))
        ends = text.strip().endswith(tuple(f"</{name}>" for name in self.fields[-1]))
        # One after the other, since the order of sums is in the last bit.
        for share in (0.2, 0.2 * starts, 0.2 * ends):
            score += share
        return score


def _contents(text: str, tag: str) -> Iterator[str]:
    """What stands between each opening tag and the next closing one, whatever else is opened between them."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    position = 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start)) >= 0:
        yield text[start + len(opening) : end].strip()
        position = end + len(closing)


def extract_hash_answer(text: str) -> str | None:
    theirs = text.split("####")[1].strip() if "####" in text else text
    return parsers.extract_hash_answer(text) if compat.strict else theirs


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    if compat.strict:
        return parsers.extract_boxed_answer(text, strict)
    start = text.rfind("\\boxed{") + len("\\boxed{")
    depth = 1
    for place, sign in enumerate(text[start:] if "\\boxed{" in text else "", start):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return text[start:place]
    return "" if strict else text


def strip_non_numeric(text: str) -> str:
    theirs = "".join(sign for sign in text if sign.isdigit() or sign == ".")
    return parsers.strip_non_numeric(text) if compat.strict else theirs
