"""Score with your own judge prompt.

The judge's score is the reward, or your own reward functions call the judge.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from itertools import chain, combinations
from statistics import fmean
from string import Formatter
from typing import Any, TypeAlias, cast

from assay.checks.expected import read_answer
from assay.concurrency import run_concurrently
from assay.criterion import Criterion, Scorer
from assay.errors import JudgeError, RubricError
from assay.graders.degenerate import DEGENERATE_REASON, explain_degenerate
from assay.graders.fences import fence
from assay.graders.judge_input import build_judge_input
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.models import Model, Request, default_judge, model_of
from assay.models.model import ask_and_log
from assay.models.structured import without_thoughts
from assay.parsers import Parser, XMLParser
from assay.plan import Plan
from assay.presets.ratings import SHOWN_LENGTH, Points, check_points, find_points, read_rating
from assay.reasoning import THINKING
from assay.report import Score
from assay.rubric import Rubric
from assay.types import Message, Messages, RewardFunc
from assay.wording import format_value

# Asks whether `{response}` gives the `{answer}` to the `{question}`, yes or no.
DEFAULT_JUDGE_PROMPT = system_prompt("judge_answer")
# Asked if there is a client but no model name, as in verifiers.
DEFAULT_CLIENT_MODEL = "gpt-4.1-nano"
REPLIES_FIELD = "judge_response"  # the field of a state that holds replies, by judge and prompt
# The template fields for what the model under test wrote. A template needs one of them.
RESPONSE_FIELDS = ("completion", "response")
# Names of an XML field with the score, most likely first. If there is none of them, the parser's
# answer field or its first field is read.
SCORE_FIELDS = (
    "score",
    "rating",
    "grade",
    "points",
    "verdict",
    "judgment",
    "judgement",
    "decision",
)


class JudgeRubric(Rubric):
    """Asks a model about each completion, in your own words.

    The reward is `judge_score`, from 0 to 1, until you add reward functions. They can take `judge`
    as an argument and call it; it is asked once per rollout. If a judge fails, or its reply has no
    clear rating, there is no score.

    >>> from assay.testing import ModelServer
    >>> words = "Question: {prompt}\\nAnswer: {completion}\\n\\nScore from 0-10:"
    >>> with ModelServer("8") as server:
    ...     rubric = JudgeRubric(judge_models=[server.model], template=words)
    ...     rubric.score_rollout_sync(prompt="2 + 2?", completion="4")
    {'judge_score': 0.8, 'reward': 0.8}
    """

    shows_answer = True  # whether a template must have a field for what is judged
    judges_alone = True  # whether the judge's score is the reward until a function is added

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
        """Configure the judges, with one of two sets of options.

        With `judge_models`, `client` and `template`, the score is the mean of all judges, and the
        `parser` reads their replies. With `judge_client`, `judge_model` and `judge_prompt`, the
        `parser` reads the `{response}` from the completion.

        A client is one of an SDK. Without it, model names are passed to `model_of`; without names,
        the configured default judge is asked. `points` is the scale of the score if the prompt
        names none. `hardened=False` sends only your words, with no fence around the response.
        """
        uses_template_options = any(
            option is not None for option in (judge_models, client, template)
        )
        # The two sets have different names for the same three settings.
        chosen_prompt = _choose(template=template, judge_prompt=judge_prompt)
        self.judge_prompt: str = chosen_prompt or DEFAULT_JUDGE_PROMPT
        self.judge_model = _choose(judge_models=judge_models, judge_model=judge_model)
        self.judge_client = _choose(client=client, judge_client=judge_client)
        self.judge_sampling_args = dict(judge_sampling_args or {})
        if parser is None and uses_template_options:
            # This parser reads the judge's replies, so an environment must not set its own.
            parser = self._default_parser()
        super().__init__(funcs, weights, parser, **rubric)
        # Whether the parser reads the judge's replies, and not the completion.
        self._parses_replies = uses_template_options
        self._hardened = hardened
        # The scale of the judge's score; None for yes or no, or a number from 0 to 1.
        self.points: Points | None
        if points is None:
            self.points = find_points(self.judge_prompt)
        else:
            self.points = check_points(points)
        self._read_settings()
        self._system_prompt = self._write_system_prompt()
        # Reward functions may take these as arguments.
        for name in ("judge", "judge_client", "judge_model", "judge_prompt", "judge_sampling_args"):
            self.add_class_object(name, getattr(self, name))
        has_counted_criteria = any(criterion.counts for criterion in self.criteria)
        # Whether the judge's score is the whole reward.
        self._is_judge_only = self.judges_alone and not has_counted_criteria
        if self._is_judge_only:
            super().add_reward_func(self.judge_score)

    def _write_system_prompt(self) -> str:
        """Return the system prompt; for an XML parser of replies, with the format that it reads."""
        if self._parses_replies and isinstance(self.parser, XMLParser):
            texts = [
                system_prompt("judge"),
                system_prompt("judge_form"),
                self.parser.get_format_str(),
            ]
            return "\n\n".join(texts)
        return system_prompt("judge")

    def _read_settings(self) -> None:
        """Prepare template, request settings and models from the public attributes.

        Raises a `RubricError` if the prompt has no field for the response, which it needs unless
        `shows_answer` is False.
        """
        self._template = JudgeTemplate(self.judge_prompt)
        if self.shows_answer and self._template.fields.isdisjoint(RESPONSE_FIELDS):
            raise RubricError(
                f"the template {format_value(self.judge_prompt)} does not show the judge the text "
                "to be judged: put {completion} or {response} in it"
            )
        self._request_settings, model_options = _split_sampling_args(self.judge_sampling_args)
        self._models = _find_models(self.judge_client, self.judge_model, model_options)

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a reward function. The first one with a weight replaces `judge_score`."""
        if self._is_judge_only and weight:
            # The reward now comes from functions, which may call the judge themselves.
            self._is_judge_only = False
            others = [
                criterion for criterion in self.criteria if criterion.check != self.judge_score
            ]
            self._plan = Plan(others, self.aggregation, ask_judge=self.ask_judge)
        super().add_reward_func(func, weight)

    async def judge(
        self,
        prompt: Messages,
        completion: Messages,
        answer: Any = "",
        state: Any = None,
        **fields: Any,
    ) -> str:
        """Return the first judge's reply. It is kept in the state, so asking again is free.

        Raises a `ModelError` if there is no reply.
        """
        values = self._collect_values(prompt, completion, answer, fields)
        model = self._models[0] if self._models else default_judge()
        return await self._get_reply(model, self.fill_template(values), state)

    async def judge_score(
        self, completion: Messages, prompt: Messages = "", answer: Any = "", state: Any = None
    ) -> Score:
        """Return the mean score of the judges, from 0 to 1.

        A response without content scores 0 without a judge, if the rubric is `hardened`. Raises a
        `JudgeError` if a judge gives no clear rating.
        """
        values = self._collect_values(prompt, completion, answer, {})
        if self._hardened:
            problem = self._explain_degenerate(prompt, completion, values)
            if problem is not None:
                return Score(0.0, f"{DEGENERATE_REASON}: {problem}; no judge was asked")
        models = self._models
        if len(models) < 2:
            # A single judge is asked through the public method, which a subclass may override.
            reply = await self.judge(prompt, completion, answer, state)
            return self._read_score(reply)

        user_prompt = self.fill_template(values)
        replies = await run_concurrently(
            lambda model: self._get_reply(model, user_prompt, state), models
        )
        ratings: list[float] = []
        reasons: list[str] = []
        for model, reply in zip(models, replies, strict=True):
            score = self._read_score(reply)
            rating = score.value or 0.0
            ratings.append(rating)
            reasons.append(f"{model.id} {rating:.3g}: {score.reason}")
        distances = [abs(first - second) for first, second in combinations(ratings, 2)]
        return Score(fmean(ratings), "\n".join(reasons), disagreement=fmean(distances))

    def _explain_degenerate(
        self, prompt: Messages, completion: Messages, values: Mapping[str, str]
    ) -> str | None:
        """Return why the response has no content; None if it has some.

        A response that equals the known answer counts as content, even if it is a lone `:`.
        `values` are those of the template fields.
        """
        response = values["response"]
        known_answer = values["answer"].strip()
        if known_answer and response.strip() == known_answer:
            return None
        if self._parses_replies:
            # The response is then the whole conversation, in which only what the model wrote counts
            # as its content.
            judge_input = build_judge_input({"prompt": prompt, "completion": completion})
            return explain_degenerate(judge_input.assistant_text)
        return explain_degenerate(response)

    def _read_score(self, reply: str) -> Score:
        """Return the score in a reply of the judge.

        The rubric's parser reads it, unless that parser is for completions.
        """
        parser = self.parser if self._parses_replies else Parser()
        return _parse_score(reply, parser, self.points)

    def fill_template(self, values: Mapping[str, str]) -> str:
        """Fill the template; what the model under test wrote is put in a fence if `hardened`."""
        filled_values = dict(values)
        if self._hardened:
            for name in RESPONSE_FIELDS:
                if name in filled_values:
                    filled_values[name] = fence(filled_values[name])
        return self._template.fill(filled_values)

    def _collect_values(
        self, prompt: Messages, completion: Messages, answer: Any, fields: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the values for the fields of the template, by name.

        `fields` are further fields of the rollout, which a template may name too.
        """
        judge_input = build_judge_input({"prompt": prompt, "completion": completion})
        question = judge_input.query or ""
        response: Any = judge_input.text
        if not self._parses_replies:  # the parser is for the completion
            response = read_answer(completion, self.parser, THINKING.get() == "shown")
        values = {name: str(value) for name, value in fields.items()}
        values["prompt"] = question
        values["question"] = question
        values["answer"] = "" if answer is None else str(answer)
        values["completion"] = judge_input.text
        values["response"] = "" if response is None else str(response)
        return values

    async def _get_reply(self, model: Model, user_prompt: str, state: object) -> str:
        """Return a model's reply to a prompt.

        Replies are kept in the state, if it is a mapping, so that each is asked for only once.
        """
        replies: dict[str, str] = {}
        if isinstance(state, MutableMapping):
            kept_replies = cast("Any", state).setdefault(REPLIES_FIELD, {})
            if isinstance(kept_replies, dict):
                replies = cast("dict[str, str]", kept_replies)
        key = f"{model.id}\n\n{user_prompt}"
        if key in replies:
            return replies[key]
        messages: tuple[Message, ...] = ({"role": "user", "content": user_prompt},)
        if self._hardened:
            messages = ({"role": "system", "content": self._system_prompt}, *messages)
        request = Request(messages, prompt=prompt_version("judge"), **self._request_settings)
        reply = await ask_and_log(model, request)
        replies[key] = reply.text
        return reply.text


def _choose(**options: Any) -> Any:
    """Return the value of the only option that is not None; None if all are.

    The options are two names for the same thing, so giving both is an error.
    """
    used = [name for name, value in options.items() if value is not None]
    if len(used) > 1:
        raise RubricError(f"{used[0]}= and {used[1]}= say the same thing: give one of them")
    if used:
        return options[used[0]]
    return None


# Sampling arguments that are fields of a `Request`, with the name of the field.
_REQUEST_FIELDS = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "max_completion_tokens": "max_tokens",
}


def _split_sampling_args(
    sampling_args: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split sampling arguments into fields of a `Request` and options of `model_of`.

    Arguments that are None are left out, except for the temperature: there None means the default
    of the endpoint.
    """
    request_settings: dict[str, Any] = {}
    for name, field in _REQUEST_FIELDS.items():
        if name not in sampling_args:
            continue
        value = sampling_args[name]
        if value is not None or name == "temperature":
            request_settings[field] = value
    model_options = {
        name: value
        for name, value in sampling_args.items()
        if name not in _REQUEST_FIELDS and value is not None
    }
    return request_settings, model_options


def _find_models(client: Any, names: Any, options: Mapping[str, Any]) -> tuple[Model, ...]:
    """Return the models with these names at this client; none if there is neither of the two.

    `names` is one name or a list of them. A name may also be a model or anything else that
    `model_of` takes. `options` are sent with every call.
    """
    if names is None and client is None:
        _check_no_options(options, "the configured default judge")
        return ()
    if names is None:
        names = client if isinstance(client, Model) else DEFAULT_CLIENT_MODEL
    if not isinstance(names, list | tuple):
        names = (names,)
    if not names:
        raise RubricError("judge_models is empty: name at least one model")
    return tuple(_find_model(client, name, options) for name in cast("Sequence[Any]", names))


def _find_model(client: Any, name: Any, options: Mapping[str, Any]) -> Model:
    """Return the model with this name: at the client, if there is one, or at the named provider.

    A name without a provider, such as `gpt-5-mini`, is that of a model of OpenAI. `name` may also
    be a model already. `options` are sent with every call.
    """
    if not isinstance(name, str):
        _check_no_options(options, format_value(name))
        return model_of(name)
    if client is not None:
        return model_of(client, name, **options)
    # `openai/gpt-5-mini`, `http://127.0.0.1:8000/v1#name`, or a name that `model_of` knows itself.
    has_provider = any(character in name for character in "/:#") or name in ("local", "smoke")
    if not has_provider:
        name = f"openai/{name}"
    return model_of(name, **options)


def _check_no_options(options: Mapping[str, Any], model: str) -> None:
    """Raise if there are options for a model that exists already, since it takes no more of them.

    `model` is how the message calls the model.
    """
    if options:
        raise RubricError(
            f"judge_sampling_args hold {', '.join(options)}, which {model} cannot be given any "
            "more: give them to model_of(...)"
        )


_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


class JudgeTemplate:
    """A text with fields such as `{completion}`.

    If `str.format` accepts it, with plain names as its only fields, `{{` is written for `{`.
    Otherwise all braces other than those of fields stay as they are.

    >>> JudgeTemplate('Answer: {completion}. Reply as {"score": 7}').fill({"completion": "{answer}"})
    'Answer: {answer}. Reply as {"score": 7}'
    """

    def __init__(self, text: str) -> None:
        pieces = _split_format(text)
        if pieces is None:
            pieces = _split_at_fields(text)
        self._pieces = pieces
        self.fields = frozenset(field for _, field in pieces if field is not None)

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with these values; a field without a value stays as it is."""
        texts: list[str] = []
        for text, field in self._pieces:
            texts.append(text)
            if field is not None:
                texts.append(values.get(field, f"{{{field}}}"))
        return "".join(texts)


# A text, and the name of the field after it; None if there is no field after it.
_Piece: TypeAlias = tuple[str, str | None]


def _split_format(text: str) -> list[_Piece] | None:
    """Split a text for `str.format` at its fields.

    Returns None if `str.format` does not accept it, or if a field is more than a plain name.
    """
    try:
        parsed_fields = list(Formatter().parse(text))
    except ValueError:
        return None
    pieces: list[_Piece] = []
    for literal, field, format_spec, conversion in parsed_fields:
        is_plain_name = field is None or field.isidentifier()
        if format_spec or conversion or not is_plain_name:
            return None
        pieces.append((literal, field))
    return pieces


def _split_at_fields(text: str) -> list[_Piece]:
    """Split any text at names in braces."""
    pieces: list[_Piece] = []
    start = 0
    for field in _FIELD.finditer(text):
        pieces.append((text[start : field.start()], field.group(1)))
        start = field.end()
    pieces.append((text[start:], None))
    return pieces


def _parse_score(reply: str, parser: Parser, points: Points | None) -> Score:
    """Return the score in a reply, from 0 to 1, with its reason.

    Raises a `JudgeError` if there is none.
    """
    answer = without_thoughts(reply)
    if isinstance(parser, XMLParser):
        return _read_xml_score(answer, parser, points)
    parsed: Any = parser.parse(answer)
    if isinstance(parsed, int | float) and not isinstance(parsed, bool):
        parsed = f"{parsed:f}"  # `read_rating()` reads texts
    if not isinstance(parsed, str):
        raise JudgeError(
            f"the parser reads {format_value(parsed)} out of the reply {reply[:SHOWN_LENGTH]!r}: "
            "return a text or a number"
        )
    return Score(read_rating(parsed, points), answer.strip())


def _read_xml_score(answer: str, parser: XMLParser, points: Points | None) -> Score:
    """Return the score in a reply with XML fields; the other fields are its reason.

    The score is in a field of `SCORE_FIELDS`. If the reply has none of them, it is in the parser's
    answer field, or in its first field. A reply without any tags is read as plain text.
    """
    field_names = list(chain.from_iterable(parser.fields))
    possible_score_fields = [*SCORE_FIELDS, parser.answer_field, field_names[0]]  # in this order
    values = vars(parser.parse(answer))  # by field
    score_field = next((name for name in possible_score_fields if values.get(name)), None)
    if score_field is None:
        has_tags = any(f"<{name}>" in answer for name in field_names)
        if has_tags:
            [missing, *_] = [name for name in possible_score_fields if name in field_names]
            raise JudgeError(f"the reply has no {missing!r} in its tags: {answer[:SHOWN_LENGTH]!r}")
        return Score(read_rating(answer, points), answer.strip())
    rating = read_rating(values[score_field], points)
    # The field may occur several times. All ratings in it have to be the same.
    all_ratings: set[float] = {rating}
    for field_value in getattr(parser.parse_all(answer), score_field):
        with suppress(JudgeError):  # a field without a rating does not contradict the others
            all_ratings.add(read_rating(field_value, points))
    if len(all_ratings) > 1:
        raise JudgeError(f"the reply gives two different verdicts: {answer[:SHOWN_LENGTH]!r}")
    reasons = [text for name, text in values.items() if text and name != score_field]
    return Score(rating, "\n".join(reasons))
