"""Cut a conversation that is longer than the judge's window into pieces, and show what readings of them cite."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from assay.messages import Part
from assay.report import Score

_BYTES: Final = 4  # of UTF-8 in a token, by and large
_REPLY: Final = 1000  # tokens that are left for the reply
_FILLED: Final = 0.6  # the share of the window that a piece may fill: it fits where a token has as few as 2.4 bytes
_OVERLAP: Final = 0.1  # the share of a piece, at least, with which the next one begins
_WHOLE: Final = 0.25  # the share of a piece up to which a part is not cut
_AROUND: Final = 600  # characters that are shown before and after a citation
_TAGS: Final = 80  # bytes of the tags around a part


class Span(NamedTuple):
    """Some of the text of a part, or all of it."""

    part: Part
    start: int
    end: int
    size: int = 0  # in bytes

    @property
    def read(self) -> Part:
        """The part with this much of its text."""
        return self.part._replace(text=self.part.text[self.start : self.end])


def size_of(text: str) -> int:
    """The length of a text in bytes, by which its tokens are estimated."""
    return len(text.encode("utf-8", "surrogatepass"))


def fits(window: int, *texts: str) -> bool:
    """Whether a prompt of these texts, and the reply to it, fit into a window of so many tokens, by and large."""
    return sum(map(size_of, texts)) <= (window - min(_REPLY, window // 4)) * _BYTES


def room_in(window: int, *texts: str) -> int:
    """The bytes that a piece may have beside these texts."""
    return int(_FILLED * window * _BYTES) - sum(map(size_of, texts))


def pieces_of(parts: Sequence[Part], room: int) -> list[list[Span]]:
    """The parts in pieces of at most so many bytes. Each begins with the end of the one before; only large parts are cut."""
    pieces: list[list[Span]] = []
    piece: list[Span] = []
    held = 0
    for span in (span for part in parts for span in _grains(part, room)):
        if held + span.size > room:
            pieces.append(piece)
            again, held = 0, 0
            while held < _OVERLAP * room and held + piece[-1 - again].size <= _WHOLE * room:
                held += piece[-1 - again].size
                again += 1
            piece = piece[len(piece) - again :]
        piece.append(span)
        held += span.size
    return [_joined(each) for each in (*pieces, piece)]


def _grains(part: Part, room: int) -> Iterator[Span]:
    """A part whole; of a large one, what may stay together."""
    text, size = part.text, size_of(part.text) + _TAGS
    if size <= _WHOLE * room:
        yield Span(part, 0, len(text), size)
        return
    start, most = 0, int(_OVERLAP / 2 * room)
    while start < len(text):
        grain = text[start : start + most]
        while (size := size_of(grain)) > most:
            grain = grain[: len(grain) * most // size]
        yield Span(part, start, start + len(grain), size + _TAGS)
        start += len(grain)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The spans, in which those of one part that touch are one."""
    joined: list[Span] = []
    for span in spans:
        if joined and (last := joined[-1]).part is span.part and span.start <= last.end:
            joined[-1] = last._replace(end=max(last.end, span.end))
        else:
            joined.append(span)
    return joined


def excerpts(
    pieces: Sequence[Sequence[Span]], answers: Sequence[Score], room: int
) -> tuple[list[Part], int]:
    """The passages that the answers about the pieces cite, in order, and the end of all; how many of them did not fit."""
    end = pieces[-1][-1]
    wanted = defaultdict[str, list[Span]](
        list, {end.part.address: [_around(end.part, end.end, end.end)]}
    )
    for piece, answer in zip(pieces, answers, strict=True):
        for cited in answer.citations:
            for span in piece if "found" not in cited else ():
                if cited.get("part") in (span.part.address, span.part.message):
                    start, stop = (span.start + cited.get(name, 0) for name in ("start", "end"))
                    wanted[span.part.address].append(_around(span.part, start, stop))
    order = dict.fromkeys(span.part.address for piece in pieces for span in piece)
    spans = [
        each
        for at in order
        if at in wanted
        for each in _joined(sorted(wanted[at], key=lambda one: one.start))
    ]
    left = room - size_of(spans[-1].read.text)
    kept: list[Span] = []
    for span in spans[:-1]:
        if (size := size_of(span.read.text) + _TAGS) <= left:
            kept.append(span)
            left -= size
    shown = [
        _shown(list(same))
        for _, same in groupby([*kept, spans[-1]], key=lambda one: one.part.address)
    ]
    return shown, len(spans) - 1 - len(kept)


def _around(part: Part, start: int, end: int) -> Span:
    """A passage with the words around it; of a part that is not long, all of it."""
    length = len(part.text)
    is_short = length <= 4 * _AROUND
    return Span(
        part,
        0 if is_short else max(0, start - _AROUND),
        length if is_short else min(length, end + _AROUND),
    )


def _shown(spans: Sequence[Span]) -> Part:
    """Passages of one part as one, with a sign where something is left out."""
    part, text = spans[0].part, "\n[…]\n".join(span.read.text for span in spans)
    return part._replace(
        text=f"{'[…] ' * (spans[0].start > 0)}{text}{' […]' * (spans[-1].end < len(part.text))}"
    )
