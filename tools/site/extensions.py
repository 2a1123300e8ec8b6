"""Read docstrings and classes as the reference shows them."""

import re
from typing import Any

from griffe import Attribute, Class, Decorator, Docstring, Expr, Extension, Object

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
_ABOVE = re.compile(r"^ +# (.*)$")


class FieldComments(Extension):
    """Show the comment behind a field of a class, or above it, as what is said of it, where it has no docstring."""

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Make a sentence of it."""
        if (
            attr.docstring
            or attr.lineno is None
            or not isinstance(attr.parent, Class)
            or attr.name.startswith("_")
        ):
            return
        lines = attr.lines_collection[attr.filepath]
        behind, above = _BEHIND.search(lines[attr.endlineno - 1]), list[str]()
        while not behind and (found := _ABOVE.match(lines[attr.lineno - 2 - len(above)])):
            above.insert(0, found[1])
        said = behind[1] if behind else " ".join(above)
        if said:
            attr.docstring = Docstring(f"{said[0].upper()}{said[1:].rstrip('.')}.", parent=attr)
