"""Judge a text that is longer than the judge's context window.

The text is split into overlapping pieces, and every criterion is asked about every piece. If the
answers to a criterion agree and cite nothing, they stand. Otherwise the judge is asked once more,
about the passages that were cited, and that answer counts. If these passages do not fit into one
prompt, even with few words around them, they are read in pieces again. Sizes are in bytes of UTF-8, from which tokens are
estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay import graders
from assay.concurrency import run_concurrently
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.grader import JudgeOptions
from assay.graders.judge_input import JudgeInput, write_transcript
from assay.graders.prompt_text import system_prompt, write_criteria
from assay.messages import Part, read_parts
from assay.models.budgets import is_dry_run
from assay.report import Citation, Score
from assay.types import OnError
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.graders.model_grader import BatchGrader
    from assay.media import Attachment

_FITS_ANY_WINDOW: Final = 4000  # characters that fit into every judge's window
_SMALLEST_PIECE: Final = 4000  # bytes; smaller pieces are of no use
_BYTES_PER_TOKEN: Final = 4  # an estimate
_REPLY_TOKENS: Final = 1000  # tokens reserved for the reply
# The share of the window that a piece may fill. It fits even if a token has only 2.4 bytes.
_FILLED_SHARE: Final = 0.6
# The share of a piece, at least, that is repeated at the start of the next one.
_OVERLAP_SHARE: Final = 0.1
# A part up to this share of a piece is not split. What a piece repeats is not larger either.
_WHOLE_SHARE: Final = 0.25
# Characters shown before and after a cited passage: the first number with which all passages fit
# into one prompt.
_CONTEXT_LENGTHS: Final = (600, 200, 60)
_TAG_SIZE: Final = 80  # bytes of the tags around a part
_MAX_READINGS: Final = 4  # how often the cited passages are read again if they do not fit


def plan_pieces(
    grader: BatchGrader[Any],
    judge_input: JudgeInput,
    criteria: list[Criterion],
    on_error: OnError,
) -> PieceReader | None:
    """Return a reader for a text that exceeds the judge's window.

    Returns None if the text fits, or if the window is not known. Raises a `JudgeError` if the
    window is too small even for pieces.
    """
    query = judge_input.query or ""
    if len(judge_input.text) + len(query) <= _FITS_ANY_WINDOW:
        return None
    window = grader.known_window()
    if window is None:
        return None
    questions = [write_criteria(batch) for batch in grader.batches_of(criteria)]
    longest_question = max(questions, key=len)
    reference = judge_input.reference
    if fits(window, grader.system_prompt, longest_question, query, reference, judge_input.text):
        return None

    capacity = _compute_capacity(grader, window, [longest_question, reference])
    parts = judge_input.parts or read_parts(judge_input.query, judge_input.text)
    parts_to_read = parts
    shown_query = None
    # A query of up to a quarter of a piece is shown with every piece. A longer one is split too, as
    # the turns before the response.
    if query and 4 * size_of(query) <= capacity:
        shown_query = query
        capacity -= size_of(query)
        parts_to_read = [part for part in parts if not part.in_prompt]
    if capacity < _SMALLEST_PIECE:
        raise JudgeError(
            "the judge cannot read this text in pieces, since instructions, criteria and reference "
            f"alone nearly fill its window of {window:,} tokens: ask one with a larger window"
        )
    return PieceReader(
        grader=grader,
        judge_input=judge_input,
        criteria=criteria,
        query=shown_query,
        on_error=on_error,
        parts=parts,
        pieces=split_into_pieces(parts_to_read, capacity),
        capacity=capacity,
    )


def _compute_capacity(grader: BatchGrader[Any], window: int, other_texts: Sequence[str]) -> int:
    """Return how many bytes of the judged text fit into one prompt.

    `window` is the number of tokens that the judge takes. The rest of it is for the instructions of
    the judge and for `other_texts`. The result is negative if these alone do not fit.
    """
    capacity = int(_FILLED_SHARE * window * _BYTES_PER_TOKEN)
    instructions = [
        grader.system_prompt,
        grader.options.extra_instructions,
        system_prompt("citing"),
        system_prompt("piece"),
        system_prompt("settle"),
    ]
    for text in (*instructions, *other_texts):
        capacity -= size_of(text)
    return capacity


def fits(window: int, *texts: str) -> bool:
    """Estimate whether a prompt of these texts and its reply fit into a window of tokens."""
    reply_tokens = min(_REPLY_TOKENS, window // 4)
    return sum(map(size_of, texts)) <= (window - reply_tokens) * _BYTES_PER_TOKEN


def size_of(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class PieceReader:
    """Judges a text piece by piece."""

    grader: BatchGrader[Any]
    judge_input: JudgeInput
    criteria: list[Criterion]
    query: str | None  # shown with every piece; None if it is split itself
    on_error: OnError
    parts: Sequence[Part]  # of the whole conversation, also those that are shown as the query
    pieces: list[list[Span]]
    capacity: int  # bytes of the text that fit into one prompt

    async def score(self) -> list[Score]:
        """Ask about every piece of the text; return one score per criterion for the whole text."""
        scores_by_piece = await run_concurrently(self._score_piece, self.pieces)

        async def score_criterion(index: int) -> Score:
            # A criterion about one step was not asked about pieces without this step.
            piece_scores: list[PieceScore] = []
            for piece, scores in zip(self.pieces, scores_by_piece, strict=True):
                if index in scores:
                    piece_scores.append(PieceScore(piece, scores[index]))
            return await self._combine(self.criteria[index], piece_scores)

        return await run_concurrently(score_criterion, range(len(self.criteria)))

    async def _score_piece(self, piece: Sequence[Span]) -> dict[int, Score]:
        """Ask about one piece; return the scores by the index of the criterion."""
        parts = [span.as_part() for span in piece]
        addresses: set[str] = set()
        for part in parts:
            addresses.update((part.address, part.message))
        # A criterion about one step is asked only about the pieces that hold this step.
        indices: list[int] = []
        for index, criterion in enumerate(self.criteria):
            step = criterion.memo.get("step")
            if step is None or step in addresses:
                indices.append(index)
        if not indices:
            return {}
        # Evidence is required of the final answer, not of every piece.
        criteria = [self.criteria[index].with_fields(requires_evidence=False) for index in indices]
        scores = await self._ask(
            criteria, parts, instructions=system_prompt("piece"), citable_parts=parts
        )
        return dict(zip(indices, scores, strict=True))

    async def _combine(self, criterion: Criterion, piece_scores: Sequence[PieceScore]) -> Score:
        """Return the final score of a criterion, given its scores on the pieces of a long text.

        If all pieces got the same verdict and no citations, it is their score. Otherwise the judge
        is shown the cited passages and asked for a final answer. As long as the passages do not fit
        into one prompt, they are read in pieces again, in which the judge cites fewer passages.
        """
        note = f"read in {format_count(len(piece_scores), 'piece')}"  # for the reason
        for _ in range(_MAX_READINGS):
            failed_score = _find_failed_score(piece_scores)
            if failed_score is not None:
                return failed_score
            if not _needs_final_answer(criterion, piece_scores):
                return _add_note(piece_scores[0].score, note)
            verdicts = _list_verdicts(piece_scores)
            new_pieces = select_passages(piece_scores, self.capacity - size_of(verdicts))
            if len(new_pieces) == 1:
                score = await self._get_final_answer(criterion, new_pieces[0], verdicts)
                return _add_note(score, note)
            piece_scores = await run_concurrently(partial(self._read_again, criterion), new_pieces)
            note += f", and what was cited there in {len(new_pieces)}"
        return Score.failed(
            JudgeError(
                f"the passages that the judge cites do not fit into its window, even after they "
                f"were read {_MAX_READINGS} times: ask a judge with a larger window"
            )
        )

    async def _get_final_answer(
        self, criterion: Criterion, passages: Sequence[Span], verdicts: str
    ) -> Score:
        """Ask for the final score of a criterion, after its scores on the pieces of the text.

        The judge is shown the passages that it cited in the pieces, and the list of its verdicts.
        """
        [score] = await self._ask(
            [criterion],
            _join_by_part(passages),
            instructions=f"{system_prompt('settle')}\n\n{verdicts}",
            citable_parts=self.parts,
        )
        return score

    async def _read_again(self, criterion: Criterion, piece: list[Span]) -> PieceScore:
        """Ask about some of the passages that were cited."""
        parts = [span.as_part() for span in piece]
        [score] = await self._ask(
            [criterion.with_fields(requires_evidence=False)],
            parts,
            instructions=system_prompt("piece"),
            citable_parts=parts,
        )
        return PieceScore(piece, score)

    async def _ask(
        self,
        criteria: list[Criterion],
        shown_parts: Sequence[Part],
        *,
        instructions: str,
        citable_parts: Sequence[Part],
    ) -> list[Score]:
        """Ask about some parts of the text; return one score per criterion.

        The instructions follow the system prompt. What the judge cites is looked up in the
        `citable_parts`.
        """

        def add_instructions(options: JudgeOptions) -> JudgeOptions:
            texts = [text for text in (instructions, options.extra_instructions) if text]
            return replace(options, extra_instructions="\n\n".join(texts))

        # The media of the parts that are shown, and those of the query if it is shown.
        shown_addresses = {part.address for part in shown_parts}
        media: list[Attachment] = []
        for attachment in self.judge_input.media:
            is_in_query = self.query is not None and attachment.part.in_prompt
            if attachment.part.address in shown_addresses or is_in_query:
                media.append(attachment)
        piece_input = replace(
            self.judge_input,
            text=write_transcript(shown_parts, describes_media=not self.judge_input.media),
            query=self.query,
            media=tuple(media),
            parts=citable_parts,
            is_transcript=True,
        )
        grader = self.grader.with_options(add_instructions)
        return await grader.score_criteria(piece_input, criteria, on_error=self.on_error)


class Span(NamedTuple):
    """A stretch of a part's text, or all of it."""

    part: Part
    start: int
    end: int
    size: int = 0  # in bytes, with tags

    def as_part(self) -> Part:
        """Return the part with only this stretch of its text."""
        return self.part._replace(text=self.part.text[self.start : self.end])


class PieceScore(NamedTuple):
    """The score of one criterion on one piece."""

    piece: list[Span]
    score: Score

    @property
    def name(self) -> str:
        """The addresses of the first and last part of the piece."""
        return f"{self.piece[0].part.address}–{self.piece[-1].part.address}"

    @property
    def verdict(self) -> str:
        """The verdict, or the value if there is only a value."""
        return self.score.verdict or f"{self.score.value}"

    def citations(self) -> list[Citation]:
        """Return the citations of what is really in the text."""
        return [
            citation for citation in self.score.citations if graders.evidence.is_found(citation)
        ]


def _find_failed_score(piece_scores: Sequence[PieceScore]) -> Score | None:
    """Return a failed score that says which piece could not be scored; None if all were.

    In a dry run every question fails. It is None too then, so that the calls that could follow are
    counted.
    """
    if is_dry_run():
        return None
    for number, piece_score in enumerate(piece_scores, start=1):
        if piece_score.score.error is not None:
            error = JudgeError(
                f"piece {number} of {len(piece_scores)} ({piece_score.name}) was not read: "
                f"{piece_score.score.error}"
            )
            return Score.failed(error)
    return None


def _needs_final_answer(criterion: Criterion, piece_scores: Sequence[PieceScore]) -> bool:
    """Return whether the judge has to be asked once more, about the cited passages."""
    if is_dry_run() or criterion.requires_evidence:
        return True
    verdicts = {piece_score.verdict for piece_score in piece_scores}
    has_citations = any(piece_score.citations() for piece_score in piece_scores)
    return len(verdicts) > 1 or has_citations


def _add_note(score: Score, note: str) -> Score:
    """Return the score with a note after its reason."""
    if score.error is not None:
        return score
    return score._replace(reason=f"{score.reason} ({note})")


def _list_verdicts(piece_scores: Sequence[PieceScore]) -> str:
    """List the verdicts in order, with adjacent pieces that agree on one line."""
    lines: list[str] = []
    for verdict, group in groupby(piece_scores, key=lambda piece_score: piece_score.verdict):
        names = [piece_score.name for piece_score in group]
        lines.append(f"- from {names[0]} to {names[-1]}: {verdict}")
    return "\n".join(lines)


def split_into_pieces(parts: Sequence[Part], capacity: int) -> list[list[Span]]:
    """Split parts into pieces of at most `capacity` bytes; only large parts are cut.

    Each piece starts with the end of the one before.
    """
    pieces: list[list[Span]] = []
    piece: list[Span] = []
    size = 0
    for part in parts:
        for span in _split_part(part, capacity):
            if size + span.size > capacity:
                pieces.append(piece)
                piece = _find_overlap(piece, capacity)
                size = sum(repeated.size for repeated in piece)
            piece.append(span)
            size += span.size
    pieces.append(piece)
    return [_join_adjacent(spans) for spans in pieces]


def _split_part(part: Part, capacity: int) -> Iterator[Span]:
    """Yield a part as one span, or a large part as several small spans.

    A small span is half as large as the overlap of two pieces, so that spans can be repeated.
    """
    text = part.text
    size = size_of(text) + _TAG_SIZE
    if size <= _WHOLE_SHARE * capacity:
        yield Span(part, 0, len(text), size)
        return
    max_size = int(_OVERLAP_SHARE / 2 * capacity)
    start = 0
    while start < len(text):
        # A character has at least one byte. If some have more, the stretch is shortened.
        stretch = text[start : start + max_size]
        size = size_of(stretch)
        while size > max_size:
            stretch = stretch[: len(stretch) * max_size // size]
            size = size_of(stretch)
        end = start + len(stretch)
        yield Span(part, start, end, size + _TAG_SIZE)
        start = end


def _find_overlap(piece: Sequence[Span], capacity: int) -> list[Span]:
    """Return the last spans of a piece, which the next piece repeats, so that no context is lost.

    Spans are taken from the end until they are large enough together, or one more would make them
    too large.
    """
    min_size = _OVERLAP_SHARE * capacity
    max_size = _WHOLE_SHARE * capacity
    overlap: list[Span] = []
    size = 0
    for span in reversed(piece):
        if size >= min_size or size + span.size > max_size:
            break
        overlap.insert(0, span)
        size += span.size
    return overlap


def _join_adjacent(spans: Sequence[Span]) -> list[Span]:
    """Join spans of one part that touch or overlap."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last is not None and last.part is span.part and span.start <= last.end:
            joined[-1] = last._replace(end=max(last.end, span.end))
        else:
            joined.append(span)
    return joined


def select_passages(piece_scores: Sequence[PieceScore], capacity: int) -> list[list[Span]]:
    """Return the cited passages, and the end of the text, in pieces of at most `capacity` bytes.

    The passages have as much text around them as fits into one piece. If they do not fit into one
    even with the least text around them, there are several pieces.
    """
    pieces: list[list[Span]] = []
    for context_length in _CONTEXT_LENGTHS:
        pieces = _pack(_find_passages(piece_scores, context_length), capacity)
        if len(pieces) == 1:
            break
    return pieces


def _pack(passages: Sequence[Span], capacity: int) -> list[list[Span]]:
    """Return passages, in order, in as few pieces of at most `capacity` bytes as possible."""
    pieces: list[list[Span]] = [[]]
    free = capacity
    for passage in passages:
        size = size_of(passage.as_part().text) + _TAG_SIZE
        if size > free and pieces[-1]:
            pieces.append([])
            free = capacity
        pieces[-1].append(passage)
        free -= size
    return pieces


def _join_by_part(passages: Sequence[Span]) -> list[Part]:
    """Return the parts that passages are from, with only these passages as their text."""
    parts: list[Part] = []
    for _, passages_of_part in groupby(passages, lambda passage: passage.part.address):
        parts.append(_join_passages(list(passages_of_part)))
    return parts


def _find_passages(piece_scores: Sequence[PieceScore], context_length: int) -> list[Span]:
    """Return the cited passages in order, with so many characters of the text around each.

    The last passage has the end of the text.
    """
    # Each part that was read has an entry, so that the entries are in the order of the text.
    passages_by_part: dict[str, list[Span]] = {}
    for piece_score in piece_scores:
        citations = piece_score.citations()
        for span in piece_score.piece:
            passages = passages_by_part.setdefault(span.part.address, [])
            for citation in citations:
                if citation.get("part") in (span.part.address, span.part.message):
                    # The judge was shown this span as the text of the part, so positions count
                    # from its start. Of several spans of one part, a shorter one is not meant.
                    start = span.start + citation.get("start", 0)
                    end = span.start + citation.get("end", 0)
                    if end <= span.end:
                        passages.append(_with_context(span.part, start, end, context_length))
    last_span = piece_scores[-1].piece[-1]
    end_of_text = _with_context(last_span.part, last_span.end, last_span.end, context_length)
    passages_by_part[last_span.part.address].append(end_of_text)

    ordered: list[Span] = []
    for passages in passages_by_part.values():
        ordered += _join_adjacent(sorted(passages, key=lambda passage: passage.start))
    return ordered


def _with_context(part: Part, start: int, end: int, context_length: int) -> Span:
    """Return a passage of a part with the text around it; of a short part, return all of it."""
    length = len(part.text)
    if length <= 4 * context_length:
        return Span(part, 0, length)
    return Span(part, max(0, start - context_length), min(length, end + context_length))


def _join_passages(spans: Sequence[Span]) -> Part:
    """Join passages of one part, with an ellipsis where text is left out."""
    part = spans[0].part
    text = "\n[…]\n".join(span.as_part().text for span in spans)
    if spans[0].start > 0:
        text = f"[…] {text}"
    if spans[-1].end < len(part.text):
        text = f"{text} […]"
    return part._replace(text=text)
