"""Protect prompts against the texts in them: escape our own tags, and put a text in a fence."""

import re
import unicodedata
from collections.abc import Callable
from hashlib import blake2s

# Invisible characters, which a model overlooks: soft hyphens, joiners and other characters without
# width, marks of direction, variation selectors, tag characters.
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)


def make_tag_escaper(*names: str) -> Callable[[str], str]:
    """Return a function that replaces the `<` of tags with these names by `&lt;`.

    It also recognises tags with other case, or with blanks and invisible characters in them.
    """
    # All repetitions are possessive (`*+`): a `<` before a million blanks then takes linear time.
    invisible = rf"[{_INVISIBLE}]*+"
    blank = rf"[\s{_INVISIBLE}]*+"
    # Invisible characters may be between any two letters of a name.
    spellings = "|".join(invisible.join(name) for name in names)
    rest_of_tag = rf"{blank}/?+{blank}(?:{spellings})\b"
    pattern = re.compile(f"<(?={rest_of_tag})", re.IGNORECASE)

    def escape_tags(text: str) -> str:
        if "<" not in text:
            return text
        return pattern.sub("&lt;", text)

    return escape_tags


escape_turn_tags = make_tag_escaper("turn", "part")
escape_prompt_tags = make_tag_escaper(
    "query",
    "reference",
    "response",
    "criteria",
    "criterion",
    "criterion_type",
    "choices",
    "example",
)


def fence(text: str) -> str:
    """Put a text between two lines with a mark that does not occur in the text.

    Equal texts get equal fences, so that prompts with them can be cached.
    """
    mark = make_mark(text)
    return f"[material {mark} begins]\n{text}\n[material {mark} ends]"


# A number, a date or a percentage, which cannot say anything to a judge.
_NUMBER = re.compile(r"[-+\u2212]?[\d.,:/ -]{1,30}[%€$£]?")


def fence_value(value: str) -> str:
    """Put a value in a fence inside a sentence; a number is returned as it is."""
    if _NUMBER.fullmatch(value):
        return value
    mark = make_mark(value)
    separator = "\n" if "\n" in value else ""
    return f"[material {mark} begins]{separator}{value}{separator}[material {mark} ends]"


# Size of a mark's hash. There are too many marks to search for a text that contains its own.
MARK_BYTES = 16
_MARK_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _MARK_CHARACTERS)


def make_mark(text: str) -> str:
    """Return digits that do not occur in a text, to mark its beginning and its end in a prompt.

    The text cannot pretend to end early, since it does not contain its mark: that is a hash of the
    text in hexadecimal digits, and a text into which its mark is inserted has a different one. The
    mark does not occur even if case and all other characters than letters and digits are ignored.
    """
    # Models under test may write half of a surrogate pair, which plain UTF-8 cannot encode.
    data = text.encode("utf-8", "surrogatepass")
    ascii_text = unicodedata.normalize("NFKC", text).casefold().encode("ascii", "ignore")
    letters_and_digits = ascii_text.translate(None, _OTHER_BYTES).decode()
    attempt = 0
    while True:
        salt = attempt.to_bytes(8)
        mark = blake2s(data, digest_size=MARK_BYTES, salt=salt).hexdigest()
        if mark not in letters_and_digits:
            return mark
        attempt += 1
