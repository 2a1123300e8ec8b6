"""Our tags, and how to keep what somebody else wrote from passing for them."""

import re
from collections.abc import Sequence

SECTIONS = ("thinking", "output")
"""The tags of a reply in two parts; `views` writes them."""

PROMPT = (
    "query", "reference", "response", "criteria", "criterion", "criterion_type", "choices",
    "example",
)  # fmt: skip
"""The tags of a prompt; `prompting` writes them."""

# Blanks of every kind, and characters that show nothing: a judge reads over them.
_GAP = r"[\s\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]*+"


class Neutraliser:
    """Writes `&lt;` for the `<` of some tags, however they are spelled; one linear pass.

    >>> Neutraliser(["response"])("a < b </ Response > <responses>")
    'a < b &lt;/ Response > <responses>'
    """

    def __init__(self, names: Sequence[str]) -> None:
        # Possessive gaps: a `<` and a million blanks must not be tried a million ways.
        self._tag = re.compile(rf"<(?={_GAP}/?+{_GAP}(?:{'|'.join(names)})\b)", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        return self._tag.sub("&lt;", text) if "<" in text else text


without_sections = Neutraliser(SECTIONS)
without_turns = Neutraliser(["turn"])
without_prompt_tags = Neutraliser(PROMPT)
