"""Read docstrings and classes as the reference shows them."""

import re
from typing import Any

from griffe import Class, Decorator, Expr, Extension, Object

_EXAMPLE = re.compile(r"(?:^|\n)((?: *>>> .*\n?)(?:.+(?:\n|$))*)")


class DoctestFences(Extension):
    """Put the examples of docstrings into fences, so that Markdown does not take `>>>` for quotations."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Fence every block that begins with `>>>` and ends with an empty line."""
        if obj.docstring and ">>> " in obj.docstring.value and "```" not in obj.docstring.value:
            text = _EXAMPLE.sub(lambda block: f"\n\n```pycon\n{block[1].rstrip()}\n```\n\n", obj.docstring.value)
            obj.docstring.value = text.strip()


class _Dataclass(Expr):
    canonical_path = "dataclasses.dataclass"


class InheritedDataclasses(Extension):
    """Show the fields of classes that are dataclasses by what they inherit from, as those of any other dataclass."""

    def on_class_instance(self, *, cls: Class, **kwargs: Any) -> None:
        """Add the decorator that the base class applies when it is inherited from."""
        if {str(base) for base in cls.bases} & {"BuiltinCheck", "Record"}:
            cls.decorators.append(Decorator(_Dataclass(), lineno=cls.lineno, endlineno=cls.lineno))
