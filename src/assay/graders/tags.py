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
without_prompt_tags = Neutraliser(PROMPT)
