r"""Find the boxes of a text, `\boxed{…}` and `\fbox{…}`, and decide which one is its answer.

Every function takes linear time, whatever the text.
"""

import re
from collections import deque
from itertools import pairwise
from typing import Final, NamedTuple

_BOX_COMMAND: Final = re.compile(r"\\(?:boxed|fbox)")
_BOX: Final = re.compile(
    r"""
    \\(?:boxed|fbox)\s*+(?:
        (?P<open>\{)
      | (?P<token>[-+]?[0-9]++(?:[.,/][0-9]++)*+ | [A-Za-z](?<=\s.)(?!\w))    # \boxed 1
    )
  | \\(?!\\(?:boxed|fbox))[\\{}]                            # an escaped brace; but \\boxed is a box
  | (?P<brace>[{}])
    """,
    re.VERBOSE,
)
# Words with which a text says that what follows is its answer, or corrects what it said before.
_CONCLUSION: Final = re.compile(
    r"\b(?:answers?|final(?:ly)?|therefore|thus|hence|so|then|conclu(?:de|sion)|overall|altogether"
    r"|total|result|summary|actually|correct(?:ion|ed)?|wait|no|not|instead|rather|sorry|mistake"
    r"|oops|must)\b",
    re.IGNORECASE,
)
_DENIAL_BEFORE: Final = re.compile(
    r"(?:\bnot|n't|\bcannot|\bnever)(?: be)?(?: equal(?: to)?)?[\s$:]*\Z", re.IGNORECASE
)
_DENIAL_AFTER: Final = re.compile(
    r"[\s$]*(?:is|was|would be|seems)? ?(?:wrong|incorrect|impossible|false|not (?:the answer|correct|right)"
    r"|fails)\b",
    re.IGNORECASE,
)
_DENIAL_LENGTH: Final = 60  # how many characters beside a box may deny it
_MAX_BOXES: Final = 100  # boxes further from the end are not looked at
_CONCLUSION_LENGTH: Final = 200  # how many characters before a box may say that it is the answer
_MAX_LISTED_BOXES: Final = 20
# Boxes so many characters apart are parts of one answer; farther ones only with a separator.
_NEAR_BOXES: Final = 10
_FAR_BOXES: Final = 70
_MAX_WORDS_BETWEEN_BOXES: Final = 6
_SEPARATOR: Final = re.compile(r"\b(?:and|or)\b|[,;]")


class Box(NamedTuple):
    start: int  # of the command
    end: int  # behind the closing brace
    content: str


def find_boxes(text: str) -> list[Box]:
    r"""Return the complete boxes in order, also `\boxed 1`; of nested boxes only the inner one."""
    commands = deque(_BOX_COMMAND.finditer(text), maxlen=_MAX_BOXES)  # the last ones
    if not commands:
        return []
    first_command, last_command = commands[0], commands[-1]
    boxes: list[Box] = []
    # The open braces, the innermost last: for that of a box, where its command and its content
    # start, and None for any other brace.
    open_braces: list[tuple[int, int] | None] = []
    for match in _BOX.finditer(text, first_command.start()):
        is_after_last_box = not open_braces and match.start() > last_command.start()
        if is_after_last_box:
            break
        if match["token"]:
            boxes.append(Box(match.start(), match.end(), match["token"]))
        elif match["open"]:
            open_braces.append((match.start(), match.end()))
        elif match["brace"] == "{":
            open_braces.append(None)
        elif match["brace"] == "}" and open_braces:
            opening = open_braces.pop()
            if opening is None:
                continue
            command_start, content_start = opening
            has_inner_box = bool(boxes) and boxes[-1].start > command_start
            if not has_inner_box:
                content = text[content_start : match.start()].strip()
                boxes.append(Box(command_start, match.end(), content))
    return boxes


def find_final_box(text: str) -> str | None:
    """Return the content of the box that is the answer; None if no box is.

    That is the last box. If an earlier box has a different content, the text between them has to
    say that the later one is the answer, by a word such as "therefore", "answer" or "no".
    """
    boxes = find_boxes(text)
    if not boxes:
        return None
    last = boxes[-1]
    if _is_denied(text, last):
        return None
    # Several boxes at the end may repeat the same content. The words that count stand between the
    # first of them and the box before it.
    for later, earlier in pairwise(reversed(boxes)):
        if earlier.content != last.content:
            words_between = text[earlier.end : later.start]
            return last.content if _is_conclusion(words_between) else None
    return last.content


def find_boxed_answers(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` or `\fbox{…}`; None if no box is the answer.

    Boxes close to each other, or with a comma or `and` between them, are one list. If there are
    other boxes before it, the text has to say that the last one is the answer.
    """
    boxes = find_boxes(text)
    if not boxes:
        return None
    if _is_denied(text, boxes[-1]):
        return None
    # Go back from the last box, and collect the boxes that belong to one list with it.
    contents = [boxes[-1].content]  # the last first
    for box, previous in pairwise(reversed(boxes)):
        between = text[previous.end : box.start]
        if previous.content == contents[-1]:
            continue  # a repetition
        if _is_conclusion(between) or len(contents) == _MAX_LISTED_BOXES:
            break
        if not _are_listed(between):
            return None
        contents.append(previous.content)
    return ", ".join(reversed(contents))


def _are_listed(between: str) -> bool:
    """Return True if two boxes are parts of one list, by the text between them."""
    if len(between) < _NEAR_BOXES:
        return True
    if len(between) >= _FAR_BOXES or len(between.split()) > _MAX_WORDS_BETWEEN_BOXES:
        return False
    return _SEPARATOR.search(between) is not None


def _is_denied(text: str, box: Box) -> bool:
    r"""Return True if the words beside a box deny it: `not \boxed{7}`, `\boxed{7} is wrong`."""
    before = text[max(0, box.start - _DENIAL_LENGTH) : box.start]
    after = text[box.end : box.end + _DENIAL_LENGTH]
    return _DENIAL_BEFORE.search(before) is not None or _DENIAL_AFTER.match(after) is not None


def _is_conclusion(words: str) -> bool:
    """Return True if the words between two boxes say that the second one is the answer."""
    return _CONCLUSION.search(words[-_CONCLUSION_LENGTH:]) is not None
