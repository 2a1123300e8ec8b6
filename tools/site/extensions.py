"""Read docstrings and classes as the reference shows them."""

import re
from collections.abc import Sequence
from typing import Any

from griffe import Attribute, Class, Decorator, Docstring, Expr, Extension, Module, Object

_EXAMPLE = re.compile(r"(?:^|\n)((?: *>>> .*\n?)(?:.+(?:\n|$))*)")


class DoctestFences(Extension):
    """Put the examples of docstrings into fences, so that Markdown does not take `>>>` for quotations."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Fence every block that begins with `>>>` and ends with an empty line."""
        if obj.docstring and ">>> " in obj.docstring.value and "```" not in obj.docstring.value:
            text = _EXAMPLE.sub(
                lambda block: f"\n\n```pycon\n{block[1].rstrip()}\n```\n\n", obj.docstring.value
            )
            obj.docstring.value = text.strip()


class _Dataclass(Expr):
    canonical_path = "dataclasses.dataclass"


class InheritedDataclasses(Extension):
    """Show the fields of classes that are dataclasses by what they inherit from, as those of any other dataclass."""

    def on_class_instance(self, *, cls: Class, **kwargs: Any) -> None:
        """Add the decorator that the base class applies when it is inherited from."""
        if {str(base) for base in cls.bases} & {"BuiltinCheck", "Record"}:
            cls.decorators.append(Decorator(_Dataclass(), lineno=cls.lineno, endlineno=cls.lineno))


_BEHIND = re.compile(r"  # (?!noqa|pyright|type:|fmt:)(\S.*)$")
_ABOVE = re.compile(r"^ *# (.*)$")


class FieldComments(Extension):
    """Show the comment behind or above an attribute as its description, if it has no docstring.

    This holds for the fields of classes, and for constants and type aliases of modules.
    """

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Make a sentence of the comment."""
        if attr.docstring or attr.lineno is None or attr.name.startswith("_"):
            return
        if not isinstance(attr.parent, Class | Module):
            return
        lines = attr.lines_collection[attr.filepath]
        comment = _find_comment(lines, attr.lineno, attr.endlineno or attr.lineno)
        if comment:
            sentence = f"{comment[0].upper()}{comment[1:].rstrip('.')}."
            attr.docstring = Docstring(sentence, parent=attr)


def _find_comment(lines: Sequence[str], first_line: int, last_line: int) -> str:
    """Return the comment behind a statement or in the lines above it; line numbers are from 1."""
    behind = _BEHIND.search(lines[last_line - 1])
    if behind:
        return behind[1]
    comment_lines: list[str] = []
    index = first_line - 2
    while index >= 0 and (above := _ABOVE.match(lines[index])):
        comment_lines.insert(0, above[1])
        index -= 1
    return " ".join(comment_lines)
