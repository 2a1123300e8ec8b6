"""Prefixes: how much of each prompt repeats the start of an earlier one, as a provider's cache sees it."""

BLOCK = 64
"""Characters that are remembered together: 16 tokens, as inference servers do."""
CHARACTERS = 4
"""In a token."""


class Prefixes:
    """Remembers prompts by their starts.

    >>> prefixes = Prefixes()
    >>> prefixes.shared("x" * 640), prefixes.shared("x" * 640 + "y" * 64)
    (0, 160)
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def shared(self, prompt: str) -> int:
        """How many tokens of a prompt were the start of an earlier one; it is remembered too."""
        known = True
        tokens = chain = 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            known = known and chain in self._seen
            if known:
                tokens += BLOCK // CHARACTERS
            else:
                self._seen.add(chain)
        return tokens


def count_tokens(text: str) -> int:
    """About how many tokens a text has; never none."""
    return max(1, len(text) // CHARACTERS)
