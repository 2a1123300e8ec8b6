"""ModelGrader: what the graders that ask a model have in common."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from inspect import isawaitable
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_args

from pydantic import BaseModel

from assay.criterion import BINARY, Criterion
from assay.errors import JudgeError
from assay.graders.degenerate import Degenerate, foregone
from assay.graders.length import LengthPenalty
from assay.graders.manner import Change, Manner
from assay.graders.odds import expected, value_of
from assay.graders.prompting import labels, prompt_version
from assay.graders.prompting import system_prompt as shipped
from assay.graders.schemas import ChoiceOutput, PerCriterionOutput, TurnedOutput
from assay.graders.scoring import ScoringGrader
from assay.graders.verdicts import verdict_score
from assay.graders.whole import as_whole
from assay.identity import name_of
from assay.models.base import Model, Request
from assay.models.judge_log import ask_judge
from assay.report import EvaluationReport, Score
from assay.types import OnError

Generate = TypeVar("Generate")


class ModelGrader(ScoringGrader, Generic[Generate]):
    """A grader around a model, or around a `generate_fn`: two prompts in, one reply out.

    `generate_fn` may be async or plain; a plain one runs in the event loop, so it should not wait.
    Without it the grader asks `model`, and without that the configured default.
    """

    prompt: ClassVar[str]
    """The name of the system prompt in `prompts/`."""

    def __init__(
        self,
        generate_fn: Generate | None = None,
        *,
        model: Any = None,
        system_prompt: str | None = None,
        normalize: bool = True,
        length_penalty: LengthPenalty | None = None,
        degenerate: Degenerate = "lowest",
    ) -> None:
        """`model` is what `model_of` takes; `system_prompt` replaces the shipped one.

        A text that holds no answer at all (nothing, a lone colon, `Thought process:`) gets the lowest
        choice of every wanted criterion, and nobody is asked; `degenerate="ask"` asks all the same.
        """
        super().__init__(normalize=normalize, length_penalty=length_penalty)
        if degenerate not in get_args(Degenerate):
            raise ValueError(f"degenerate is {degenerate!r}: give 'lowest' or 'ask'")
        self.degenerate: Degenerate = degenerate
        if generate_fn is not None and model is not None:
            raise JudgeError("both generate_fn= and model= are given: say who is to be asked, once")
        self.generate_fn = generate_fn
        self._model = None if model is None else _model_of(model)
        self.system_prompt = shipped(self.prompt) if system_prompt is None else system_prompt
        self.manner = Manner()

    def asking(self, change: Change) -> Self:
        changed = copy(self)
        changed.manner = change(self.manner)
        return changed

    @property
    def instructions(self) -> str:
        """The system prompt, with examples where there are any."""
        examples = self.manner.examples
        return f"{self.system_prompt}\n\n{examples}" if examples else self.system_prompt

    @property
    def wording(self) -> str:
        """The name and version of the words it asks in."""
        shipped_words = self.system_prompt == shipped(self.prompt)
        return prompt_version(self.prompt) if shipped_words else f"{self.prompt}/own"

    async def found(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        known = foregone(to_grade, criteria) if self.degenerate == "lowest" else {}
        rest = [criterion for place, criterion in enumerate(criteria) if place not in known]
        # One number for all weighs the faults against the rest, so there it is all or nothing.
        if not known or (self.judges_whole and rest):
            return await self.ask(to_grade, criteria, query, on_error)
        if self.judges_whole:
            return as_whole(EvaluationReport(0.0, reason=known[0].reason), criteria, self.scale)
        answer = await self.ask(to_grade, rest, query, on_error) if rest else []
        answers = iter(cast("list[Score]", answer))
        return [known[p] if p in known else next(answers) for p in range(len(criteria))]

    @property
    def title(self) -> str:
        """Who is asked: the model's id, or the function's name."""
        if self.generate_fn is not None:
            return name_of(self.generate_fn) or type(self).__name__
        return "default" if self._model is None else self._model.id

    @property
    def model(self) -> Model:
        """Who is asked when there is no `generate_fn`: the grader's own model, or the default."""
        return self._model or _default_model(type(self).__name__)

    def models(self) -> tuple[Model, ...]:
        model = None if self.generate_fn is not None else self._model or _configured_model()
        return () if model is None else (model,)

    async def asked(self, shared: str, question: str, schema: type[BaseModel]) -> Any:
        """The reply to one question about everything; `shared` opens other questions too."""
        if self.generate_fn is None:
            request = Request.of(self.instructions, shared, question, schema=schema)
            return value_of(await ask_judge(self.model, self._put(request)))
        function: Any = self.generate_fn
        reply = function(self.instructions, shared + question)
        return await reply if isawaitable(reply) else reply

    def _put(self, request: Request) -> Request:
        manner = self.manner
        return replace(
            request,
            temperature=manner.temperature,
            logprobs=manner.logprobs,
            sample=manner.sample,
            prompt=self.wording,
        )


# Imported late: a rubric that asks no model does without all that is behind one.


def _model_of(source: Any) -> Model:
    from assay.models.resolve import model_of

    return model_of(source)


def _configured_model() -> Model | None:
    from assay.models.resolve import configured_model

    return configured_model()


def _default_model(grader: str) -> Model:
    from assay.models.resolve import what_to_set

    model = _configured_model()
    if model is None:
        raise JudgeError(
            f"{grader} has no model to ask: {what_to_set()}; or pass it model=, or generate_fn=, a "
            "function of (system_prompt, user_prompt)"
        )
    return model


def reply_model(criterion: Criterion, *, reverse: bool = False) -> type[BaseModel]:
    """What a reply to one criterion is read as. One of few, so that no endpoint compiles more."""
    listed = labels(criterion, reverse=reverse)
    if listed == BINARY:
        return TurnedOutput
    return ChoiceOutput if listed else PerCriterionOutput


def question_of(criterion: Criterion) -> str:
    """The hash of the question, worked out once."""
    known = criterion.memo.get("question_hash")
    if known is None:
        known = criterion.memo["question_hash"] = criterion.question_hash
    return known


def off_menu(criterion: Criterion, *, reverse: bool = False) -> Callable[[Any], str | None] | None:
    """What is wrong with the verdict in a reply, where its schema cannot tell."""
    if not labels(criterion, reverse=reverse):
        return None

    def complaint(reply: Any) -> str | None:
        return read_verdict(criterion, reply).error

    return complaint


def field_of(reply: object, name: str) -> Any:
    """A field of a reply: an attribute, or a mapping's key; None when it has neither."""
    value = getattr(reply, name, None)
    if value is None and isinstance(reply, Mapping):
        return cast("Mapping[str, Any]", reply).get(name)
    return value


def read_verdict(criterion: Criterion, reply: object) -> Score:
    """The score in a reply: `criterion_status` or `choice`, and `explanation`."""
    if type(reply) is PerCriterionOutput:
        verdict = reply.criterion_status
        value = criterion.values.get(verdict)
        if value is not None:
            return Score.given(value, reply.explanation, verdict)
    verdict = field_of(reply, "criterion_status")
    if verdict is None:
        verdict = field_of(reply, "choice")
    if not isinstance(verdict, str):
        return Score.failed(
            JudgeError(
                f"the reply {reply!r:.200} of type {type(reply).__name__} holds no verdict: return "
                "a PerCriterionOutput, or a ChoiceOutput where labels are offered"
            )
        )
    reason = field_of(reply, "explanation")
    score = verdict_score(criterion, verdict, reason if isinstance(reason, str) else "")
    tokens = field_of(reply, "tokens")
    return score if tokens is None else expected(criterion, score, tokens)
