"""Score by a judge that is asked in words of your own: its score is the reward, or your functions ask it."""

import math
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from string import Formatter
from typing import Any, TypeAlias, cast

from assay.concurrency import side_by_side
from assay.criterion import Criterion, Scorer
from assay.engine import Plan
from assay.errors import JudgeError, RubricError
from assay.graders.judge_input import DEGENERATE, degenerate, fenced, prompt_version, system_prompt, view_of
from assay.messages import question_text
from assay.models import Model, Request, default_model, model_of
from assay.models.model import ask_judge
from assay.models.structured import without_thoughts
from assay.parsers import Parser, XMLParser
from assay.presets.ratings import SHOWN, Points, points_in, read_rating
from assay.report import Score
from assay.rubric import Rubric
from assay.types import Message, Messages, RewardFunc
from assay.wording import short_repr

DEFAULT_JUDGE_PROMPT = system_prompt("judge_answer")
"""Asks whether `{response}` gives the `{answer}` to the `{question}`, yes or no."""


class JudgeRubric(Rubric):
    """Asks a model about each completion, in words of your own.

    Until you add a reward function, the reward is `judge_score`: what the judge says, between 0 and 1.
    Functions of yours take its place; they can name `judge` and ask, and however many do, the
    judge is asked once a rollout. A judge that fails, or says nothing clear, is an error and no score.

    >>> from assay.testing import ModelServer
    >>> words = "Question: {prompt}\\nAnswer: {completion}\\n\\nScore from 0-10:"
    >>> with ModelServer("8") as server:
    ...     rubric = JudgeRubric(judge_models=[server.model], template=words)
    ...     rubric.score_rollout_sync(prompt="2 + 2?", completion="4")
    {'judge_score': 0.8, 'reward': 0.8}
    """

    def __init__(
        self,
        funcs: Sequence[RewardFunc | Criterion | Mapping[str, Any] | Scorer] | None = None,
        weights: Sequence[float | None] | None = None,
        parser: Parser | None = None,
        *,
        judge_client: Any = None,
        judge_model: Any = None,
        judge_prompt: str | None = None,
        judge_sampling_args: Mapping[str, Any] | None = None,
        judge_models: Sequence[Any] | None = None,
        client: Any = None,
        template: str | None = None,
        points: tuple[float, float] | None = None,
        hardened: bool = True,
        **rubric: Any,
    ) -> None:
        """Say who judges and how in one of two forms.

        - `judge_models`, `client`, `template`: the template has `{prompt} {completion} {answer}`, the score is the
          mean over the models, and the `parser` reads their replies;
        - `judge_client`, `judge_model`, `judge_prompt`: the prompt has `{question} {answer} {response}`, and the
          `parser` reads the response out of the completion.

        A client is an SDK's; without one the names are those of `model_of`, and without names the
        configured default is asked. `judge_sampling_args` go into every call. `points` is the scale of the
        score, where the words do not name it (`from 0-10`). `hardened=False` sends your words
        alone, without a fence around what is judged, and asks about degenerate answers too.
        """
        by_template = not (judge_models is None and client is None and template is None)
        words = _once(template=template, judge_prompt=judge_prompt) or DEFAULT_JUDGE_PROMPT
        asked = _once(judge_models=judge_models, judge_model=judge_model)
        settings, extra = settings_of(judge_sampling_args)
        if parser is None and by_template:
            # It reads the judge's replies, and so is none that an environment may replace.
            parser = Parser()
        super().__init__(funcs, weights, parser, **rubric)
        self._reads_replies = by_template
        self._hardened = hardened
        self.points = points_in(words) if points is None else _checked(points)
        """The scale of the judge's score; None for yes or no, or a share."""
        self._judge = TemplateJudge(
            models_of(
                _once(client=client, judge_client=judge_client),
                judge_models if judge_model is None else [judge_model],
                extra,
            ),
            words,
            form=form_of(self.parser) if by_template else "",
            settings=settings,
            hardened=hardened,
        )
        self.judge_client = client if judge_client is None else judge_client
        self.judge_model = asked
        self.judge_prompt = words
        self.judge_sampling_args = dict(judge_sampling_args or {})
        for name in ("judge", "judge_client", "judge_model", "judge_prompt", "judge_sampling_args"):
            self.add_class_object(name, getattr(self, name))
        self._alone = not any(criterion.counts for criterion in self.criteria)
        if self._alone:
            super().add_reward_func(self.judge_score)

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check with this weight; the first one takes the place of `judge_score`."""
        if self._alone and weight:
            self._alone = False
            kept = [c for c in self.criteria if c.check != self.judge_score]
            self._plan = Plan.of(kept, self.aggregation)
        super().add_reward_func(func, weight)

    async def judge(
        self, prompt: Messages, completion: Messages, answer: Any = "", state: Any = None, **fields: Any
    ) -> str:
        """What the judge replies, as it wrote it; of several judges, the first.

        The reply is kept in the state, and asking again about the same costs nothing. `fields` are
        further places of the template. Raises a `ModelError` when there is no reply.
        """
        values = self._values(prompt, completion, answer, fields)
        [reply] = await self._judge.replies(values, state, count=1)
        return reply

    async def judge_score(
        self, completion: Messages, prompt: Messages = "", answer: Any = "", state: Any = None
    ) -> Score:
        """What the judges think of the completion, 0 to 1; of several, the mean.

        Raises a `JudgeError` when one of them gives no clear verdict.
        """
        values = self._values(prompt, completion, answer, {})
        why = degenerate(values["response"]) if self._hardened else None
        known = values["answer"].strip()
        if why is not None and (not known or values["response"].strip() != known):
            return Score(0.0, f"{DEGENERATE}: {why}; no judge was asked")
        if len(self._judge.models) == 1:
            return self._rated(await self.judge(prompt, completion, answer, state))
        replies = await self._judge.replies(values, state)
        names = [model.id for model in self._judge.models]
        return _mean(names, [self._rated(reply) for reply in replies])

    def _rated(self, reply: str) -> Score:
        return rated(reply, self.parser if self._reads_replies else Parser(), self.points)

    def _values(self, prompt: Messages, completion: Messages, answer: Any, fields: Mapping[str, Any]) -> dict[str, str]:
        """What stands in each place of the template."""
        text = view_of(completion)[1]
        found = text if self._reads_replies else self.parser.parse_answer(completion)
        question = question_text(prompt)
        return {
            **{name: str(value) for name, value in fields.items()},
            "prompt": question,
            "question": question,
            "answer": "" if answer is None else str(answer),
            "completion": text,
            "response": "" if found is None else str(found),
        }


def _once(**given: Any) -> Any:
    """The one of two names for the same thing that was used; None for neither."""
    used = [name for name, value in given.items() if value is not None]
    if len(used) > 1:
        raise RubricError(f"{used[0]}= and {used[1]}= say the same thing: give one of them")
    return given[used[0]] if used else None


def _checked(points: Any) -> Points:
    try:
        low, high = map(float, points)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high < math.inf or low == -math.inf:
        raise RubricError(f"points is {short_repr(points)}: give the lowest and the highest, as (0, 10)")
    return Points(low, high)


def _mean(names: Sequence[str], scores: Sequence[Score]) -> Score:
    values = [score.value or 0.0 for score in scores]
    apart = [abs(one - other) for one, other in combinations(values, 2)]
    said = (f"{n} {v:.3g}: {s.reason}" for n, v, s in zip(names, values, scores, strict=True))
    return Score(fmean(values), "\n".join(said), disagreement=fmean(apart))


USUAL_MODEL = "gpt-4.1-nano"
"""Asked of a client without a name of a model: what people who come from verifiers expect."""

KEPT = "judge_response"
"""The field of a state in which replies are kept, by judge and prompt."""

WRITTEN = ("completion", "response")
"""The places for what the model under test wrote; one of them must be in a template."""

_LIMITS = ("max_tokens", "max_completion_tokens")


class TemplateJudge:
    """Asks models in the words of a template. What is asked of one state twice is asked once."""

    def __init__(
        self,
        models: Sequence[Model],
        template: str,
        *,
        form: str = "",
        settings: Mapping[str, Any] | None = None,
        hardened: bool = True,
    ) -> None:
        """`models` may be empty: then the configured default is asked. `form` is how to reply.

        `settings` are fields of the request. Without `hardened` the words are sent alone and as they are.
        """
        self.template = PromptTemplate(template)
        if not self.template.places & set(WRITTEN):
            raise RubricError(
                f"the template {short_repr(template)} does not show the judge what it is to judge: put "
                "{completion} or {response} in it"
            )
        self._models = tuple(models)
        self._settings = dict(settings or {})
        self._hardened = hardened
        self._system = "\n\n".join(part for part in (system_prompt("judge"), form) if part)

    @property
    def models(self) -> tuple[Model, ...]:
        """Who is asked: those that were named, or the configured default."""
        return self._models or (default_model(),)

    async def replies(self, values: Mapping[str, str], state: object = None, *, count: int | None = None) -> list[str]:
        """What the models, or the first `count` of them, reply to the template with these values."""
        words = self.words(values)

        async def ask(model: Model) -> str:
            return await self._reply(model, words, state)

        return await side_by_side(ask, self.models[:count])

    def words(self, values: Mapping[str, str]) -> str:
        """The template with these values in it; what the model under test wrote in a fence."""
        if self._hardened:
            written = {name: fenced(values[name]) for name in WRITTEN if name in values}
            values = {**values, **written}
        return self.template.filled(values)

    async def _reply(self, model: Model, words: str, state: object) -> str:
        kept, key = _kept(state), f"{model.id}\n\n{words}"
        if kept is not None and key in kept:
            return kept[key]
        reply = await ask_judge(model, self._request(words))
        if kept is not None:
            kept[key] = reply.text
        return reply.text

    def _request(self, words: str) -> Request:
        asked: tuple[Message, ...] = ({"role": "user", "content": words},)
        if self._hardened:
            asked = ({"role": "system", "content": self._system}, *asked)
        return Request(asked, prompt=prompt_version("judge"), **self._settings)


def _kept(state: object) -> dict[str, str] | None:
    """Where the replies of a state are kept; None when it cannot hold them."""
    if not isinstance(state, MutableMapping):
        return None
    fields = cast("MutableMapping[str, Any]", state)
    kept: object = fields.setdefault(KEPT, {})
    return cast("dict[str, str]", kept) if isinstance(kept, dict) else None


def settings_of(sampling: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sampling arguments as fields of a request, and the rest, which goes into every call.

    >>> settings_of({"temperature": 0.7, "max_completion_tokens": 9, "top_p": 0.9, "n": None})
    ({'temperature': 0.7, 'max_tokens': 9}, {'top_p': 0.9})
    """
    settings: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in (sampling or {}).items():
        if name == "temperature":
            settings[name] = value
        elif value is None:
            continue
        elif name == "seed" or name in _LIMITS:
            settings["max_tokens" if name in _LIMITS else name] = value
        else:
            extra[name] = value
    return settings, extra


def models_of(client: Any, names: Sequence[Any] | None, extra: Mapping[str, Any]) -> tuple[Model, ...]:
    """The models that a client and names stand for; none when there are neither."""
    if isinstance(names, str):
        names = (names,)
    if names is None and client is None:
        _refuse_extra(extra, "the configured default model")
        return ()
    if names is None:
        names = (client,) if isinstance(client, Model) else (USUAL_MODEL,)
        client = None if isinstance(client, Model) else client
    if not names:
        raise RubricError("judge_models is empty: name at least one model")
    return tuple(_model(client, name, extra) for name in names)


def _model(client: Any, name: Any, extra: Mapping[str, Any]) -> Model:
    if not isinstance(name, str):
        _refuse_extra(extra, short_repr(name))
        return model_of(name)
    if client is not None:
        return model_of(client, name, **extra)
    is_bare = not set("/:#") & set(name) and name not in ("local", "smoke")
    return model_of(f"openai/{name}" if is_bare else name, **extra)


def _refuse_extra(extra: Mapping[str, Any], whom: str) -> None:
    if extra:
        raise RubricError(
            f"judge_sampling_args hold {', '.join(extra)}, which {whom} cannot be given any more: "
            "give them to model_of(...)"
        )


SCORES = ("score", "rating", "grade", "points", "verdict", "judgment", "judgement", "decision")
"""What a field with the score is called, most likely first; else the parser's answer, or its first."""


def form_of(parser: Parser) -> str:
    """How a judge is told to reply, for this parser to read it; nothing for one without a form."""
    if not isinstance(parser, XMLParser):
        return ""
    return f"{system_prompt('judge_form')}\n\n{parser.get_format_str()}"


def rated(reply: str, parser: Parser, points: Points | None) -> Score:
    """The score in a reply, 0 to 1, with its reason. Raises `JudgeError` when there is none."""
    answer = without_thoughts(reply)
    if isinstance(parser, XMLParser):
        return _of_fields(answer, parser, points)
    found: Any = parser.parse(answer)
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = f"{found:f}"
    if not isinstance(found, str):
        raise JudgeError(f"the parser reads {short_repr(found)} out of the reply {reply[:SHOWN]!r}")
    return Score(read_rating(found, points), answer.strip())


def _of_fields(answer: str, parser: XMLParser, points: Points | None) -> Score:
    names = [name for names in parser.fields for name in names]
    parsed = vars(parser.parse(answer))
    wanted = [*SCORES, parser.answer_field, names[0]]
    offered = [name for name in wanted if parsed.get(name)]
    if not offered:
        if any(f"<{name}>" in answer for name in names):
            raise JudgeError(f"the reply has no {_first(wanted, names)!r} in its tags: {answer[:SHOWN]!r}")
        # A judge that leaves every tag out may still have said something clear.
        return Score(read_rating(answer, points), answer.strip())
    value = read_rating(parsed[offered[0]], points)
    for other in getattr(parser.parse_all(answer), offered[0]):
        _refuse_another(other, value, answer, points)
    reasons = [text for name, text in parsed.items() if text and name != offered[0]]
    return Score(value, "\n".join(reasons))


def _refuse_another(other: str, value: float, answer: str, points: Points | None) -> None:
    """Raise `JudgeError` when another tag of the same name gives another score."""
    try:
        found = read_rating(other, points)
    except JudgeError:
        return
    if found != value:
        raise JudgeError(f"the reply gives two different verdicts: {answer[:SHOWN]!r}")


def _first(wanted: list[str], names: list[str]) -> str:
    return next(name for name in wanted if name in names)


Piece: TypeAlias = tuple[str, str | None]
"""Words, and the name of the place after them; None when there is none."""

_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class PromptTemplate:
    """Words with places such as `{completion}`. What is put in is never looked at again.

    Other braces stay as they are. Where the whole could also be filled by `str.format`, doubled
    braces mean single ones, as there.

    >>> PromptTemplate('Answer: {completion}. Reply as {"score": 7}').filled({"completion": "{answer}"})
    'Answer: {answer}. Reply as {"score": 7}'
    >>> PromptTemplate('Answer: {completion}. Reply as {{"score": 7}}').filled({"completion": "4"})
    'Answer: 4. Reply as {"score": 7}'
    """

    text: str

    @cached_property
    def _pieces(self) -> "list[Piece]":
        return _formatted(self.text) or _literal(self.text)

    @cached_property
    def places(self) -> frozenset[str]:
        """The names in braces."""
        return frozenset(name for _, name in self._pieces if name is not None)

    def filled(self, values: Mapping[str, str]) -> str:
        """The words with these values in their places; a place without a value stays as written."""
        parts: list[str] = []
        for words, name in self._pieces:
            parts.append(words)
            if name is not None:
                parts.append(values.get(name, f"{{{name}}}"))
        return "".join(parts)


def _formatted(text: str) -> list[Piece] | None:
    """The pieces as `str.format` sees them; None when it would refuse, or do more than fill."""
    pieces: list[Piece] = []
    try:
        for words, name, form, conversion in Formatter().parse(text):
            if form or conversion or not (name is None or name.isidentifier()):
                return None
            pieces.append((words, name))
    except ValueError:
        return None
    return pieces


def _literal(text: str) -> list[Piece]:
    """The pieces when only names alone in braces are places."""
    parts: list[str | None] = [*_PLACE.split(text), None]
    return [(str(words), name) for words, name in zip(parts[::2], parts[1::2], strict=True)]
