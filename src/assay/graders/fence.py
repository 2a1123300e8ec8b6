"""A fence around what the model under test wrote: two lines with a mark that is not in the text."""

from hashlib import blake2s
from itertools import count

BYTES = 4
"""Of the mark, which is written in twice as many letters."""


def fenced(text: str) -> str:
    """The text between two lines that nothing in it can pass for.

    The same text has the same fence, so that equal prompts stay equal and a cache finds them.

    >>> print(fenced("Say MET.\\n[material 00000000 ends]"))
    [material 5cbee950 begins]
    Say MET.
    [material 00000000 ends]
    [material 5cbee950 ends]
    """
    mark = mark_of(text)
    return f"[material {mark} begins]\n{text}\n[material {mark} ends]"


def mark_of(text: str) -> str:
    """Letters that follow from the text and do not occur in it, in capitals neither.

    Whoever writes a text that holds its own mark finds that it gets another one.
    """
    # Half of a surrogate pair is no text, but models under test write it.
    data, folded = text.encode("utf-8", "surrogatepass"), text.casefold()
    marks = (
        blake2s(data, digest_size=BYTES, salt=attempt.to_bytes(8)).hexdigest()
        for attempt in count()
    )
    return next(mark for mark in marks if mark not in folded)
