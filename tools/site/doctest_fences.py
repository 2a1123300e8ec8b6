"""Put the examples of docstrings into fences, so that Markdown does not take `>>>` for quotations."""

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^|\n)((?: *>>> .*\n?)(?:.+(?:\n|$))*)")


class DoctestFences(Extension):
    """Rewrite each docstring as it is loaded."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Fence every block that begins with `>>>` and ends with an empty line."""
        if obj.docstring and ">>> " in obj.docstring.value and "```" not in obj.docstring.value:
            text = _EXAMPLE.sub(lambda block: f"\n\n```pycon\n{block[1].rstrip()}\n```\n\n", obj.docstring.value)
            obj.docstring.value = text.strip()
