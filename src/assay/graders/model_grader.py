"""Ask a model about criteria: each in a call of its own, a few a call, all in one, or for one number for all."""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from inspect import isawaitable
from itertools import groupby, pairwise
from typing import Any, Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args

from pydantic import BaseModel

from assay.aggregation import normalise, share_of
from assay.concurrency import FAILURES, side_by_side
from assay.criterion import BINARY, Criterion, name_of
from assay.errors import JudgeError
from assay.graders import judge_input, verdicts
from assay.graders.autograder import Grader, JudgeOptions, OptionsChange, as_whole
from assay.graders.judge_input import Degenerate, JudgeInput
from assay.graders.length import LengthPenalty
from assay.media import MOST_BYTES, Attachment
from assay.messages import Part, field_of, parts_of
from assay.models.budgets import is_dry_run
from assay.models.model import Model, Reply, Request, ask_judge, innermost, limiter_of, media_of
from assay.models.resolve import configured_model, keeps_prefixes, model_of, what_to_set
from assay.report import UNASKED, EvaluationReport, Score
from assay.types import Message, OnError
from assay.wording import counted

_SURELY_FITS = 4000  # characters that every judge takes
_LEAST_PIECE = 4000  # bytes without which a piece is of no use
WORTH = 2000  # characters of query and response from which reading them once pays for waiting on one call
_REMEMBERED = 1024  # how many prompts are remembered by how they begin
Generate = TypeVar("Generate")
Opened: TypeAlias = tuple[Message, Message]  # how a prompt begins: the system prompt, and what the questions share
Complain: TypeAlias = Callable[[Any], str | None] | None  # says what is wrong with a reply; None of both takes it


class GraderOptions(TypedDict, total=False):
    """What every grader around a model takes; see `ModelGrader`."""

    model: Any
    system_prompt: str | None
    normalize: bool
    length_penalty: LengthPenalty | None
    degenerate: Degenerate
    window: int | None


class ModelGrader(Grader, Generic[Generate]):
    """A grader around a `generate_fn` (two prompts in, one reply out), else a `model`, else the configured default."""

    prompt: str  # the name of the system prompt in `prompts/`
    size: int | None = None  # how many criteria a call asks about; None is all of them

    def __init__(
        self,
        generate_fn: Generate | None = None,
        *,
        model: Any = None,
        system_prompt: str | None = None,
        normalize: bool = True,
        length_penalty: LengthPenalty | None = None,
        degenerate: Degenerate = "lowest",
        window: int | None = None,
    ) -> None:
        """`model` is what `model_of` takes; `system_prompt` replaces the shipped one.

        `window` is how many tokens the judge takes in one call, prompt and reply together; None is what is known of the model.
        A degenerate text (nothing, a lone colon) gets the lowest choice of every wanted criterion unless `degenerate="ask"`.
        """
        super().__init__(normalize=normalize, length_penalty=length_penalty)
        if degenerate not in get_args(Degenerate):
            raise ValueError(f"degenerate is {degenerate!r}: give 'lowest' or 'ask'")
        self.degenerate: Degenerate = degenerate
        if window is not None and window < 1:
            raise ValueError(f"window is {window!r}: give the number of tokens that the judge takes in one call")
        self.window = window
        if generate_fn is not None and model is not None:
            raise JudgeError("both generate_fn= and model= are given: give one of them")
        self.generate_fn = generate_fn
        self._model = None if model is None else model_of(model)
        self.system_prompt = judge_input.system_prompt(self.prompt) if system_prompt is None else system_prompt
        self.options = JudgeOptions()
        self._sent: dict[int, None] = {}

    def with_options(self, change: OptionsChange) -> Self:
        changed = copy(self)
        changed.options = change(self.options)
        return changed

    @property
    def wording(self) -> str:
        """The name and version of the words it asks in."""
        shipped_words = self.system_prompt == judge_input.system_prompt(self.prompt)
        return judge_input.prompt_version(self.prompt) if shipped_words else f"{self.prompt}/own"

    @property
    def takes_media(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether it asks a model, which may take media; a function is asked in text."""
        return self.generate_fn is None and "judge" not in self._own_steps

    @property
    def title(self) -> str:
        """The model's id, or the function's name."""
        if self.generate_fn is not None:
            return name_of(self.generate_fn) or type(self).__name__
        return "default" if self._model is None else self._model.id

    @property
    def model(self) -> Model:
        """The grader's own model, or the default; what is asked without a `generate_fn`."""
        model = self._model or configured_model()
        if model is None:
            ways = f"{what_to_set()}; or pass it model=, or generate_fn=, a function of (system_prompt, user_prompt)"
            raise JudgeError(f"{type(self).__name__} has no model to ask: {ways}")
        return model

    def models(self) -> tuple[Model, ...]:
        model = None if self.generate_fn is not None else self._model or configured_model()
        return () if model is None else (model,)

    def opened(self, shared: str | tuple[Any, ...], *, cites: bool = False) -> Opened:
        """How a prompt begins: the system prompt, with how to cite and examples where they are wanted, and what is shared."""
        citing = judge_input.system_prompt("citing") if cites and not self.wording.endswith("/own") else ""
        instructions = "\n\n".join(filter(None, (self.system_prompt, citing, self.options.examples)))
        return {"role": "system", "content": instructions}, {"role": "user", "content": shared}

    async def _shared(self, to_grade: str, query: str | None) -> str | tuple[Any, ...]:
        """What all prompts about a response share, with its media. Raises when the model does not take one of them."""
        attached: Sequence[Attachment] = getattr(to_grade, "media", ())
        if not attached:
            return judge_input.opening(to_grade, query)
        taken = media_of(self.model)
        who = f"{self.model.id} takes {', '.join(['text', *sorted(taken)])}"
        # What a file is shows when it is read.
        open_to = {*taken, "file"} if taken else taken
        judge_input.refuse_media([a.part for a in attached if a.part.kind not in open_to], who)
        media = [await each.read() for each in attached]
        judge_input.refuse_media([a.part for a, m in zip(attached, media, strict=True) if m.kind not in taken], who)
        total = sum(len(medium.data) for medium in media)
        if total > MOST_BYTES:
            said = f"the {len(media)} images, clips and files of this rollout have {total:,} bytes together"
            raise JudgeError(f"{said}, and at most {MOST_BYTES >> 20} MiB go into one prompt: give fewer")
        return judge_input.with_media(judge_input.opening(to_grade, query), media)

    async def reply(
        self, opened: Opened, question: str, schema: type[BaseModel], *, check: Complain = None, question_hash: str = ""
    ) -> Any:
        """What the model, or the function, replies to one question after this opening."""
        if self.generate_fn is not None:
            function: Any = self.generate_fn
            system, user = opened[0]["content"], opened[1]["content"] + question
            said: Any = function(system_prompt=system, user_prompt=user) if self.size == 1 else function(system, user)
            return await said if isawaitable(said) else said
        model, options, source = self.model, self.options, ""
        asked = (*opened, {"role": "user", "content": question})
        how: Any = {"temperature": options.temperature, "logprobs": options.logprobs, "sample": options.sample}
        request = Request(asked, schema, check, len(opened), question=question_hash, prompt=self.wording, **how)
        try:
            reply = await self.asked(model, request)
            source = reply.source
        finally:
            # What a cache answers has not reached the model.
            if source != "cache":
                self._sent[_opening_key(model, opened)] = None
                if len(self._sent) > _REMEMBERED:
                    del self._sent[next(iter(self._sent))]
        if reply.logprobs is None:
            return reply.value
        # Imported late: few judges are asked for log-probabilities.
        from assay.graders.expectation import value_of

        return value_of(reply)

    async def asked(self, model: Model, request: Request) -> Reply:
        """What the model replies in the end."""
        return await ask_judge(model, request)


class _BatchGrader(ModelGrader[Generate]):
    """Asks about `size` criteria a call, the calls side by side. A call that fails fails its batch."""

    warm: bool | None = None

    async def ask(self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError) -> list[Score]:
        """One score a criterion; the first failure is raised, and ends the rest, on request."""
        known = foregone(to_grade, criteria) if self.degenerate == "lowest" else {}
        scores = [known.get(place, UNASKED) for place in range(len(criteria))]
        cut = [[place for place in batch if place not in known] for batch in _batches(len(criteria), self.size)]
        calls = [places for places in cut if places]
        if not calls:
            return scores
        text = JudgeInput.of(to_grade)
        by_pieces = await self._scores_by_pieces(text, [criteria[p] for call in calls for p in call], query, on_error)
        if by_pieces:
            return [by_pieces.pop(0) if score is UNASKED else score for score in scores]
        opened = self.opened(await self._shared(text, query), cites=bool(text.parts))

        async def one(places: Sequence[int]) -> None:
            batch = [criteria[place] for place in places]
            try:
                found = await self._scores(opened, batch, text)
                if on_error == "raise":
                    verdicts.refuse_errors(batch, found)
            except FAILURES as error:
                found = [verdicts.failed_score(error, on_error)] * len(batch)
            for place, score in zip(places, found, strict=True):
                scores[place] = score

        # One call goes ahead of the rest, so that the endpoint has read the response when those come.
        warm = self.warm if self.size == 1 and self.generate_fn is None and len(calls) > 1 else False
        if warm is None:
            shared = opened[1]["content"]
            warm = (isinstance(shared, tuple) or len(shared) >= WORTH) and keeps_prefixes(self.model.id)
        if warm:
            model, following = self.model, len(calls) - 1
            begins, limiter = _opening_key(model, opened), limiter_of(model)
            if limiter is not None:
                # Or so many texts would be begun meanwhile that those calls come all at once.
                limiter.announce(following)
            try:
                # What a cache answers warms nothing, so the next one goes ahead too.
                while calls and begins not in self._sent:
                    await one(calls.pop(0))
            finally:
                if limiter is not None:
                    limiter.announce(-following)
        await side_by_side(one, calls)
        return scores

    async def _scores_by_pieces(
        self, text: JudgeInput, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion about a text that the judge's window does not hold; none about one that it may hold.

        Every criterion is asked about every piece. Where all answers are alike and cite nothing, they stand; otherwise one
        more prompt shows the passages that were cited, and its answer counts.
        """
        if len(text) + len(query or "") <= _SURELY_FITS:
            return []
        model, window = self.models(), self.window
        window = getattr(innermost(model[0]), "window", None) if window is None and model else window
        from assay.graders.pieces import Span, excerpts, fits, pieces_of, room_in, size_of  # few texts are that long

        batches = [criteria[places.start : places.stop] for places in _batches(len(criteria), self.size)]
        questions, asked = max(map(judge_input.all_criteria, batches), key=len), query or ""
        if window is None or fits(window, self.system_prompt, questions, asked, text.reference, text):
            return []
        reading, settling, citing = map(judge_input.system_prompt, ("piece", "settle", "citing"))
        words = (self.system_prompt, self.options.examples, citing, reading, settling, questions, text.reference)
        # A query that is itself long is read in pieces too, as the turns before the response.
        beside = query if 4 * size_of(asked) <= room_in(window, *words) else None
        room = room_in(window, *words, beside or "")
        if room < _LEAST_PIECE:
            taken = f"instructions, criteria and reference alone nearly fill its window of {window:,} tokens"
            raise JudgeError(f"the judge cannot read this text in pieces, since {taken}: ask one with a larger window")
        parts = text.parts or parts_of(query, str(text))
        pieces = pieces_of([part for part in parts if not (beside and part.in_prompt)], room)

        async def ask(told: str, read: Sequence[Part], cites: Sequence[Part], of: list[Criterion]) -> list[Score]:
            grader = self.with_options(lambda o: replace(o, examples="\n\n".join(filter(None, (told, o.examples)))))
            grader.window, grader.degenerate = sys.maxsize, "ask"
            shown = {part.address for part in read}
            media = tuple(a for a in text.media if a.part.address in shown or (beside and a.part.in_prompt))
            turns = judge_input.transcript(read, are_described=not text.media)
            kept: Any = {"fields": text.fields, "reference": text.reference, "said": text.said}
            piece = JudgeInput(turns, **kept, parts=cites, media=media)
            return await grader.ask(piece, of, beside, on_error)

        async def read(piece: Sequence[Span]) -> dict[int, Score]:
            held = [span.read for span in piece]
            there = {name for part in held for name in (part.address, part.message)}
            # A criterion about one step is asked where that step is; what is cited is looked at in the end.
            own = [place for place, c in enumerate(criteria) if c.memo.get("step") is None or c.memo["step"] in there]
            of = [criteria[place].with_fields(requires_evidence=False) for place in own]
            return dict(zip(own, await ask(reading, held, held, of) if of else [], strict=True))

        async def settle(place: int) -> Score:
            own = [number for number, each in enumerate(answers) if place in each]
            found, names = [answers[number][place] for number in own], [all_names[number] for number in own]
            said, note = [score.verdict or f"{score.value}" for score in found], f"read in {counted(len(own), 'piece')}"
            for number, score in enumerate(() if is_dry_run() else found):
                if score.error is not None:
                    unread = f"piece {own[number] + 1} of {len(pieces)} ({names[number]}) was not read"
                    return Score.failed(JudgeError(f"{unread}: {score.error}"))
            cited = any("found" not in each for score in found for each in score.citations)
            if len(set(said)) == 1 and not (cited or criteria[place].requires_evidence or is_dry_run()):
                answer = found[0]
            else:
                runs = (list(run) for _, run in groupby(range(len(own)), said.__getitem__))
                listed = "\n".join(f"- from {names[run[0]]} to {names[run[-1]]}: {said[run[0]]}" for run in runs)
                shown, unseen = excerpts([pieces[number] for number in own], found, room - size_of(listed))
                note += f"; {unseen} of the passages that were cited did not fit and were left out" if unseen else ""
                [answer] = await ask(f"{settling}\n\n{listed}", shown, parts, [criteria[place]])
            return answer if answer.error is not None else answer._replace(reason=f"{answer.reason} ({note})")

        all_names = [f"{piece[0].part.address}–{piece[-1].part.address}" for piece in pieces]
        answers = await side_by_side(read, pieces)
        return await side_by_side(settle, range(len(criteria)))

    async def _scores(self, opened: Opened, batch: Sequence[Criterion], text: JudgeInput) -> list[Score]:
        reverse = self.options.reverse
        if self.size == 1:
            [criterion] = batch
            offered = judge_input.labels(criterion, reverse=reverse)

            def score(said: object) -> Score:
                return verdicts.cited(criterion, verdicts.read_verdict(criterion, said), text)

            question, schema = judge_input.one_criterion(criterion, reverse=reverse), reply_model(offered)
            # The schema of a label is any text, so it cannot tell that a label was not on offer.
            check: Complain = (lambda said: score(said).error) if offered or criterion.requires_evidence else None
            reply = await self.reply(opened, question, schema, check=check, question_hash=question_of(criterion))
            return [score(reply)]
        plain = not any(judge_input.labels(criterion, reverse=reverse) for criterion in batch)
        schema = verdicts.OneShotOutput if plain else verdicts.OneShotChoiceOutput
        found = _matched(batch, await self.reply(opened, judge_input.all_criteria(batch, reverse=reverse), schema))
        return [verdicts.cited(criterion, score, text) for criterion, score in zip(batch, found, strict=True)]


class PerCriterionGrader(_BatchGrader[verdicts.PerCriterionGenerateFn]):
    """Asks about each criterion in a call of its own. A call that fails fails its criterion alone.

    >>> from assay import PerCriterionOutput, Rubric
    >>> async def ask(system_prompt, user_prompt):
    ...     status = "MET" if "mentions Paris" in user_prompt else "UNMET"
    ...     return PerCriterionOutput(criterion_status=status, explanation="as asked")
    >>> rubric = Rubric.from_dict([
    ...     {"requirement": "Response mentions Paris", "weight": 10},
    ...     {"requirement": "Response is concise", "weight": 5},
    ... ])
    >>> rubric.grade_sync("Paris.", autograder=PerCriterionGrader(generate_fn=ask)).raw_score
    10.0
    """

    prompt = "per_criterion"
    size = 1

    def __init__(
        self,
        generate_fn: verdicts.PerCriterionGenerateFn | None = None,
        *,
        warm: bool | None = None,
        **options: Unpack[GraderOptions],
    ) -> None:
        """`warm` says whether one call goes ahead of the rest about a response, so that the endpoint has cached the prefix.

        None does so where it pays: for long responses, at endpoints that are known to cache prefixes.
        """
        super().__init__(generate_fn, **options)
        self.warm = warm


class PerCriterionOneShotGrader(_BatchGrader[verdicts.OneShotGenerateFn]):
    """Asks about all criteria in one call, and matches the replies by their number.

    A criterion without a reply, or with two, has no answer; none has one when a number is not in the list.

    >>> from assay import Rubric
    >>> from assay.testing import FakeModel
    >>> rubric = Rubric.from_dict([{"requirement": "Names a date", "weight": 3}, {"requirement": "Is short"}])
    >>> rubric.grade_sync("In 1789.", PerCriterionOneShotGrader(FakeModel(("MET", "UNMET")))).score
    0.75
    """

    prompt = "one_shot"


class PerBatchGrader(_BatchGrader[Any]):
    """Asks about `size` criteria a call, the calls side by side. A call that fails fails its batch.

    With 1 it asks as `PerCriterionGrader` does, with None as `PerCriterionOneShotGrader`. In between
    a judge reads the response less often, and minds more than one thing at a time.

    >>> from assay import Rubric
    >>> from assay.testing import FakeModel
    >>> model = FakeModel(("MET", "MET"))
    >>> rubric = Rubric.from_dict([{"requirement": f"Holds {n}"} for n in range(4)])
    >>> rubric.grade_sync("a text", PerBatchGrader(model, size=2)).score, len(model.calls)
    (1.0, 2)
    """

    def __init__(self, generate_fn: Any = None, *, size: int | None, **options: Unpack[GraderOptions]) -> None:
        """`generate_fn` returns a `PerCriterionOutput` for a size of 1, else a `OneShotOutput`."""
        if size is not None and size < 1:
            raise ValueError(f"size is {size}: ask about at least 1 at a time, or None for all")
        self.size = size
        self.prompt = "per_criterion" if size == 1 else "one_shot"
        super().__init__(generate_fn, **options)


class RubricAsJudgeGrader(ModelGrader[verdicts.RubricAsJudgeGenerateFn]):
    """Asks for one number from 0 to 100. The report has no lines.

    `raw_score` is that share of the weights, so it compares with other graders' sums;
    `llm_raw_score` is the number as it was given.

    >>> from assay import Rubric
    >>> from assay.testing import FakeModel
    >>> rubric = Rubric.from_dict([{"requirement": "Names a date", "weight": 10}, {"requirement": "Is short", "weight": 5}])
    >>> report = rubric.grade_sync("In 1789.", RubricAsJudgeGrader(FakeModel(85)))
    >>> report.score, report.raw_score, report.llm_raw_score
    (0.85, 12.75, 85.0)
    """

    prompt = "holistic"
    judges_whole = True

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> EvaluationReport:
        if not criteria:
            return EvaluationReport(scale=self.scale or "unit")
        known = foregone(to_grade, criteria) if self.degenerate == "lowest" else {}
        if len(known) == len(criteria):
            # One number weighs the faults against the rest, so it is foregone for all criteria or for none.
            return as_whole(EvaluationReport(0.0, reason=known[0].reason), criteria, self.scale)
        question = judge_input.all_criteria(criteria, vetoes=True, reverse=self.options.reverse)
        opened = self.opened(await self._shared(to_grade, query))
        reply = await self.reply(opened, question, verdicts.RubricAsJudgeOutput)
        number, reason = field_of(reply, "overall_score"), field_of(reply, "explanation")
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise verdicts.no_field(reply, "score from 0 to 100: return a RubricAsJudgeOutput")
        totals = share_of(min(1.0, max(0.0, number / 100)), [c.weight for c in criteria if c.counts])
        score, why = normalise(totals, self.scale or "unit"), reason if isinstance(reason, str) else ""
        report = EvaluationReport(score, totals.raw, llm_raw_score=float(number), reason=why)
        # The number is the sum itself: no formula moved the score off it.
        return replace(as_whole(report, criteria, self.scale), worth=None)


def _batches(count: int, size: int | None) -> list[range]:
    """The places of so many criteria, in as few batches of at most `size` as there can be, evenly filled."""
    number = -(-count // (size or count)) if count else 0
    least, more = divmod(count, number) if number else (0, 0)
    starts = [n * least + min(n, more) for n in range(number + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


def _opening_key(model: Model, opened: Opened) -> int:
    return hash((model.id, opened[0]["content"], opened[1]["content"]))


def reply_model(offered: Sequence[str]) -> type[BaseModel]:
    """The reply model for the labels on offer: one of few, since endpoints compile each."""
    if offered == BINARY:
        return verdicts.TurnedOutput
    return verdicts.ChoiceOutput if offered else verdicts.PerCriterionOutput


def question_of(criterion: Criterion) -> str:
    """The hash of the question, worked out once."""
    memo = criterion.memo
    return memo.get("question_hash") or memo.setdefault("question_hash", criterion.question_hash)


def _matched(criteria: Sequence[Criterion], reply: object) -> list[Score]:
    """The score of each criterion, by the number that its verdict has in the reply."""
    entries = field_of(reply, "criteria_evaluations")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise verdicts.no_field(reply, "list of verdicts: return a OneShotOutput")
    entries_of: defaultdict[int, list[Any]] = defaultdict(list)
    for entry in cast("Sequence[Any]", entries):
        # A verdict may have its number from 1 or its index from 0, or both where they agree.
        number, index = field_of(entry, "criterion_number"), field_of(entry, "criterion_idx")
        whole = all(type(value) is int for value in (number, index) if value is not None)
        numbers = {number, None if index is None else index + 1} - {None} if whole else set[int]()
        place = numbers.pop() if len(numbers) == 1 else None
        if place is None or not 1 <= place <= len(criteria):
            named = "no number" if place is None else f"number {place}"
            listed = f"the criteria go from 1 to {len(criteria)}: none of the numbers can be trusted"
            return [Score.failed(JudgeError(f"a verdict has {named}, and {listed}"))] * len(criteria)
        entries_of[place].append(entry)

    def score(criterion: Criterion, own: list[Any]) -> Score:
        if len(own) == 1:
            return verdicts.read_verdict(criterion, own[0])
        said = f"{len(own)} verdicts" if own else "no verdict"
        return Score.failed(JudgeError(f"the judge gave {said} on this criterion, where one is needed"))

    return [score(criterion, entries_of[place]) for place, criterion in enumerate(criteria, start=1)]


_QUOTES = ("'{}'", '"{}"', "`{}`", "‘{}’", "“{}”", "«{}»", "„{}“")  # noqa: RUF001


def foregone(text: str, criteria: Sequence[Criterion]) -> dict[int, Score]:
    """The criteria, by place, on which a degenerate text needs no judge, and their score: the lowest choice."""
    why = judge_input.degenerate(text)
    if why is None:
        return {}
    # A fault is asked about, since what a text lacks may be the fault, and so is a criterion that quotes the text.
    bare = str(getattr(text, "said", text)).strip().casefold()
    quoted = [quotes.format(bare) for quotes in _QUOTES] if bare else []
    reason = f"{judge_input.DEGENERATE}: {why}; no judge was asked"
    return {
        place: Score(criterion.values[criterion.choices[0]], reason, criterion.choices[0])
        for place, criterion in enumerate(criteria)
        if criterion.weight >= 0 and not any(q in (criterion.requirement or "").casefold() for q in quoted)
    }
