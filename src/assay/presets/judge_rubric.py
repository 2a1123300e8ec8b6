"""Score by a judge that is asked in words of your own: its score is the reward, or your functions ask it.

Its rating is a number, or yes or no, alone on a line or after a word such as `Score:`. Two different ones are an
error, unless only the last is called final or overall; numbers in passing count only when there is no other.
"""

import math
import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from itertools import combinations
from statistics import fmean
from string import Formatter
from typing import Any, NamedTuple, cast

from assay.concurrency import run_concurrently
from assay.criterion import Criterion, Scorer
from assay.errors import JudgeError, RubricError
from assay.graders.judge_input import (
    DEGENERATE,
    build_judge_input,
    degenerate,
    fenced,
    prompt_version,
    system_prompt,
)
from assay.lazy import read_toml
from assay.models import Model, Request, default_model, model_of
from assay.models.model import ask_judge
from assay.models.structured import without_thoughts
from assay.parsers import Parser, XMLParser
from assay.plan import Plan
from assay.report import Score
from assay.rubric import Rubric
from assay.types import Message, Messages, RewardFunc
from assay.wording import format_value

# Asks whether `{response}` gives the `{answer}` to the `{question}`, yes or no.
DEFAULT_JUDGE_PROMPT = system_prompt("judge_answer")
USUAL_MODEL = "gpt-4.1-nano"  # asked of a client without a name of a model: what people who come from verifiers expect
KEPT = "judge_response"  # the field of a state in which replies are kept, by judge and prompt
WRITTEN = (
    "completion",
    "response",
)  # the places for what the model under test wrote; a template needs one of them
# What a field with the score is called, most likely first; else the parser's answer, or its first.
SCORES = ("score", "rating", "grade", "points", "verdict", "judgment", "judgement", "decision")
SHOWN = 200  # characters of a reply that go into a message


class JudgeRubric(Rubric):
    """Asks a model about each completion, in words of your own; a judge that fails, or is unclear, gives no score.

    The reward is `judge_score`, 0 to 1, until you add functions; they can name `judge`, which is asked once a rollout.

    >>> from assay.testing import ModelServer
    >>> words = "Question: {prompt}\\nAnswer: {completion}\\n\\nScore from 0-10:"
    >>> with ModelServer("8") as server:
    ...     rubric = JudgeRubric(judge_models=[server.model], template=words)
    ...     rubric.score_rollout_sync(prompt="2 + 2?", completion="4")
    {'judge_score': 0.8, 'reward': 0.8}
    """

    shows_answer = True  # whether a template must have a place for what is judged
    judges_alone = True  # whether the judge's own score is the reward until there is a function

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
        """Say who judges by `judge_models`, `client`, `template` (the mean of all; the `parser` reads replies), or by
        `judge_client`, `judge_model`, `judge_prompt` (the `parser` reads the `{response}` out of the completion).

        A client is an SDK's; without one names go to `model_of`, without names the default is asked. `points` is the
        scale where the words name none. `hardened=False` sends your words alone, with no fence around the answer.
        """
        by_template = not (judge_models is None and client is None and template is None)
        self.judge_prompt: str = (
            _once(template=template, judge_prompt=judge_prompt) or DEFAULT_JUDGE_PROMPT
        )
        self.judge_model = _once(judge_models=judge_models, judge_model=judge_model)
        self.judge_client = _once(client=client, judge_client=judge_client)
        self.judge_sampling_args = dict(judge_sampling_args or {})
        if parser is None and by_template:
            # It reads the judge's replies, and so is none that an environment may replace.
            parser = Parser()
        super().__init__(funcs, weights, parser, **rubric)
        self._reads_replies = by_template
        self._hardened = hardened
        self.points = points_in(self.judge_prompt) if points is None else _checked(points)
        """The scale of the judge's score; None for yes or no, or a share."""
        self._read_settings()
        self._system = system_prompt("judge")
        if by_template and isinstance(self.parser, XMLParser):
            # Or the parser could not read what the judge writes.
            self._system += f"\n\n{system_prompt('judge_form')}\n\n{self.parser.get_format_str()}"
        for name in ("judge", "judge_client", "judge_model", "judge_prompt", "judge_sampling_args"):
            self.add_class_object(name, getattr(self, name))
        self._alone = self.judges_alone and not any(criterion.counts for criterion in self.criteria)
        if self._alone:
            super().add_reward_func(self.judge_score)

    def _read_settings(self) -> None:
        self._template = PromptTemplate(self.judge_prompt)
        if self.shows_answer and not self._template.places & set(WRITTEN):
            told = f"the template {format_value(self.judge_prompt)} does not show the judge what it is to judge"
            raise RubricError(f"{told}: put {{completion}} or {{response}} in it")
        self._models, self._settings = _judges(
            self.judge_client, self.judge_model, self.judge_sampling_args
        )

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check with this weight; the first one takes the place of `judge_score`."""
        if self._alone and weight:
            self._alone = False
            self._plan = Plan(
                [c for c in self.criteria if c.check != self.judge_score], self.aggregation
            )
        super().add_reward_func(func, weight)

    async def judge(
        self,
        prompt: Messages,
        completion: Messages,
        answer: Any = "",
        state: Any = None,
        **fields: Any,
    ) -> str:
        """Return the first judge's reply, kept in the state: asking again is free. Raises `ModelError` without one."""
        words = self.words(self._values(prompt, completion, answer, fields))
        model = self._models[0] if self._models else default_model()
        return await self._reply(model, words, state)

    async def judge_score(
        self, completion: Messages, prompt: Messages = "", answer: Any = "", state: Any = None
    ) -> Score:
        """Return the judges' mean score, 0 to 1. Raises a `JudgeError` when one of them gives no clear verdict."""
        judge_input = build_judge_input({"prompt": prompt, "completion": completion})
        values = self._values(prompt, completion, answer, {})
        # Of a conversation, only what the assistant wrote is looked at.
        response = judge_input.assistant_text if self._reads_replies else values["response"]
        why = degenerate(response) if self._hardened else None
        known = values["answer"].strip()
        if why is not None and (not known or values["response"].strip() != known):
            return Score(0.0, f"{DEGENERATE}: {why}; no judge was asked")
        parser = self.parser if self._reads_replies else Parser()
        models = self._models
        if len(models) < 2:
            # Through `judge`, which a subclass may have replaced.
            return _rated(await self.judge(prompt, completion, answer, state), parser, self.points)
        words = self.words(values)
        replies = await run_concurrently(lambda model: self._reply(model, words, state), models)
        scores = [_rated(reply, parser, self.points) for reply in replies]
        ratings = [score.value or 0.0 for score in scores]
        said = (
            f"{m.id} {v:.3g}: {s.reason}" for m, v, s in zip(models, ratings, scores, strict=True)
        )
        apart = fmean(abs(one - other) for one, other in combinations(ratings, 2))
        return Score(fmean(ratings), "\n".join(said), disagreement=apart)

    def words(self, values: Mapping[str, str]) -> str:
        """The template with these values in it; what the model under test wrote in a fence."""
        if self._hardened:
            values = {
                **values,
                **{name: fenced(values[name]) for name in WRITTEN if name in values},
            }
        return self._template.filled(values)

    def _values(
        self, prompt: Messages, completion: Messages, answer: Any, fields: Mapping[str, Any]
    ) -> dict[str, str]:
        judge_input = build_judge_input({"prompt": prompt, "completion": completion})
        found = judge_input.text
        if not self._reads_replies:
            found = self.parser.parse_answer(completion)
        question = judge_input.query or ""
        return {
            **{name: str(value) for name, value in fields.items()},
            "prompt": question,
            "question": question,
            "answer": "" if answer is None else str(answer),
            "completion": judge_input.text,
            "response": found if isinstance(found, str) else "" if found is None else str(found),
        }

    async def _reply(self, model: Model, words: str, state: object) -> str:
        """What a model replies. What is asked of one state twice is asked once."""
        held = (
            cast("Any", state).setdefault(KEPT, {}) if isinstance(state, MutableMapping) else None
        )
        kept = cast("dict[str, str]", held) if isinstance(held, dict) else {}
        key = f"{model.id}\n\n{words}"
        if key not in kept:
            asked: tuple[Message, ...] = ({"role": "user", "content": words},)
            if self._hardened:
                asked = ({"role": "system", "content": self._system}, *asked)
            reply = await ask_judge(
                model, Request(asked, prompt=prompt_version("judge"), **self._settings)
            )
            kept[key] = reply.text
        return kept[key]


def _once(**given: Any) -> Any:
    """The one of two names for the same thing that was used; None for neither."""
    used = [name for name, value in given.items() if value is not None]
    if len(used) > 1:
        raise RubricError(f"{used[0]}= and {used[1]}= say the same thing: give one of them")
    return given[used[0]] if used else None


def _judges(
    client: Any, names: Any, sampling: Mapping[str, Any]
) -> tuple[tuple[Model, ...], dict[str, Any]]:
    """The models that a client and names stand for, none when there are neither, and the fields of their requests."""
    # A temperature may be None, which leaves it to the endpoint. What is not a field of a request goes into every call.
    extra = {
        name: value
        for name, value in sampling.items()
        if name == "temperature" or value is not None
    }
    fields = {name: name for name in ("temperature", "max_tokens", "seed")} | {
        "max_completion_tokens": "max_tokens"
    }
    settings = {fields[name]: extra.pop(name) for name in fields if name in extra}

    def refuse_extra(whom: str) -> None:
        if extra:
            told = f"judge_sampling_args hold {', '.join(extra)}, which {whom} cannot be given any more"
            raise RubricError(f"{told}: give them to model_of(...)")

    def model(name: Any) -> Model:
        if not isinstance(name, str):
            refuse_extra(format_value(name))
            return model_of(name)
        if client is not None:
            return model_of(client, name, **extra)
        is_bare = not set("/:#") & set(name) and name not in ("local", "smoke")
        return model_of(f"openai/{name}" if is_bare else name, **extra)

    if names is not None and not isinstance(names, list | tuple):
        names = (names,)
    if names is None and client is None:
        refuse_extra("the configured default model")
        return (), settings
    if names is None:
        names = (client if isinstance(client, Model) else USUAL_MODEL,)
    if not names:
        raise RubricError("judge_models is empty: name at least one model")
    return tuple(map(model, cast("Sequence[Any]", names))), settings


_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


class PromptTemplate:
    """Words with places such as `{completion}`; other braces stay, unless `str.format` could fill it: `{{` is `{`.

    >>> PromptTemplate('Answer: {completion}. Reply as {"score": 7}').filled({"completion": "{answer}"})
    'Answer: {answer}. Reply as {"score": 7}'
    """

    def __init__(self, text: str) -> None:
        # Words, and the name of the place after them; None when there is none. Names alone in braces are places.
        parts: list[Any] = [*_PLACE.split(text), None]
        self._pieces: list[tuple[str, str | None]] = list(zip(parts[::2], parts[1::2], strict=True))
        with suppress(ValueError):
            pieces = list(Formatter().parse(text))
            if all(
                not form and not conv and (name is None or name.isidentifier())
                for _, name, form, conv in pieces
            ):
                self._pieces = [(words, name) for words, name, _, _ in pieces]
        self.places = frozenset(
            name for _, name in self._pieces if name is not None
        )  # the names in braces

    def filled(self, values: Mapping[str, str]) -> str:
        """The words with these values in their places; a place without a value stays as written."""
        return "".join(
            text if name is None else text + values.get(name, f"{{{name}}}")
            for text, name in self._pieces
        )


def _rated(reply: str, parser: Parser, points: "Points | None") -> Score:
    """The score in a reply, 0 to 1, with its reason. Raises `JudgeError` when there is none."""
    answer = without_thoughts(reply)
    if not isinstance(parser, XMLParser):
        found: Any = parser.parse(answer)
        if isinstance(found, int | float) and not isinstance(found, bool):
            found = f"{found:f}"
        if not isinstance(found, str):
            raise JudgeError(
                f"the parser reads {format_value(found)} out of the reply {reply[:SHOWN]!r}"
            )
        return Score(read_rating(found, points), answer.strip())
    names = [name for names in parser.fields for name in names]
    parsed = vars(parser.parse(answer))
    wanted = [*SCORES, parser.answer_field, names[0]]
    offered = next((name for name in wanted if parsed.get(name)), None)
    if offered is None:
        if any(f"<{name}>" in answer for name in names):
            missing = next(name for name in wanted if name in names)
            raise JudgeError(f"the reply has no {missing!r} in its tags: {answer[:SHOWN]!r}")
        # A judge that leaves every tag out may still have said something clear.
        return Score(read_rating(answer, points), answer.strip())
    value = read_rating(parsed[offered], points)
    for other in getattr(parser.parse_all(answer), offered):
        try:
            differs = read_rating(other, points) != value
        except JudgeError:
            continue
        if differs:
            raise JudgeError(f"the reply gives two different verdicts: {answer[:SHOWN]!r}")
    return Score(
        value, "\n".join(text for name, text in parsed.items() if text and name != offered)
    )


class Points(NamedTuple):
    """A scale of points, worst to best."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def _pattern(*names: str) -> re.Pattern[str]:
    table = read_toml("assay.presets", "ratings.toml")
    return re.compile("".join(table[name] for name in names).replace("\n", ""), re.IGNORECASE)


def _checked(points: Any) -> Points:
    try:
        low, high = map(float, points)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high < math.inf or low == -math.inf:
        raise RubricError(
            f"points is {format_value(points)}: give the lowest and the highest, as (0, 10)"
        )
    return Points(low, high)


_RANGE, _OUT_OF, _ABOUT_POINTS = map(_pattern, ("range", "out_of", "about_points"))


def points_in(words: str) -> Points | None:
    """Return the scale that words to a judge name, the widest of several if it holds all others; else None.

    >>> points_in("Rate the answer from 1 to 5 (1-2: poor, 3-4: fair, 5: good).")
    Points(low=1.0, high=5.0)
    """
    found: set[Points] = set()
    for line in words.splitlines():
        if _ABOUT_POINTS.search(line):
            found |= {Points(float(a or b), float(high)) for a, b, high in _RANGE.findall(line)}
            found |= {Points(0.0, float(high)) for high in _OUT_OF.findall(line)}
    found = {points for points in found if points.low < points.high}
    widest = max(found, key=lambda points: points.high - points.low, default=None)
    if widest is None or any(p.low < widest.low or p.high > widest.high for p in found):
        return None
    return widest


def read_rating(text: str, points: Points | None = None) -> float:
    """Return what a reply is worth, 0 to 1: by these points, else yes or no, a share, or as `8/10` and `80%` say.

    Raises `JudgeError` when the reply offers nothing, or a number that is off the scale.

    >>> read_rating("It misses a step.\\nScore: 8", Points(0, 10)), read_rating("80%"), read_rating("No")
    (0.8, 0.8, 0.0)
    """
    shown, two = f": {text[:SHOWN]!r}", "the reply gives two different verdicts"
    answer = without_thoughts(text)
    if points is None:
        words = [match.group(1).casefold() for match in _offered(answer, _WORD)]
        # One that opens the reply is offered, if a pause follows.
        if opening := _OPENING.match(answer):
            words.insert(0, opening.group(1).casefold())
        if len(set(words)) > 1:
            raise JudgeError(f"{two}, {words[0]} and then {words[-1]}{shown}")
        if words:
            return float(words[-1] == "yes")
    answer = _SEVERAL.sub("(several numbers)", answer)
    numbers = [_number(match) for match in _offered(answer, _NUMBER)]
    if not numbers:
        # Else the only number, however often it is said.
        others = {_number(match) for match in _NUMBER.finditer(answer)}
        if len(others) != 1:
            wanted = (
                "a yes or no, or a number from 0 to 1" if points is None else f"one from {points}"
            )
            raise JudgeError(f"the reply offers no verdict ({wanted}){shown}")
        numbers = [*others]
    worth, last = _worth(numbers[-1], points), f"{numbers[-1][0]:g}"
    if not 0 <= worth <= 1:
        advice = "" if points else "; name the scale in the prompt, or pass points="
        raise JudgeError(
            f"the reply gives {last}, which is not from {points or '0 to 1'}{advice}{shown}"
        )
    for number in numbers[:-1]:
        other = _worth(number, points)
        # A number that is off the scale is about something else.
        if 0 <= other <= 1 and other != worth:
            raise JudgeError(f"{two}, {number[0]:g} and then {last}{shown}")
    return worth


_SEVERAL, _NUMBER, _WORD, _FINAL = map(_pattern, ("several", "number", "word", "final"))
_OPENING = _pattern("before_opening", "word", "after_opening")
_LABELLED, _LABEL = _pattern("label"), _pattern("label", "after_label")
_NEAR = 80  # characters before a verdict in which its label must be, and of a line that it can have alone


def _offered(text: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """The matches that are offered as a verdict and must agree, the last of which counts."""
    # With each, whether its label may be about something else, as in `The right answer is 4`, and whether it is final.
    offers: list[tuple[re.Match[str], bool, bool]] = []
    # Most long lists of numbers have no label at all, and looking before each for one is dear.
    labelled = _LABELLED.search(text) is not None
    for match in pattern.finditer(text):
        start, end = match.span()
        before = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
        after = text[end : end + _NEAR].partition("\n")[0]
        label = _LABEL.search(before) if labelled else None
        if label is not None:
            offers.append((match, label["weak"] is not None, _FINAL.search(before) is not None))
        elif not re.search(r"\w", before + after):
            offers.append((match, False, False))
    meant = [offer for offer in offers if not offer[1]] or offers
    if meant and meant[-1][2]:
        meant = [offer for offer in meant if offer[2]]
    return [match for match, _, _ in meant]


def _number(match: re.Match[str]) -> tuple[float, float | None, bool]:
    value, slash, words, percent = match.groups()
    return float(value), float(slash or words) if slash or words else None, percent is not None


def _worth(number: tuple[float, float | None, bool], points: Points | None) -> float:
    value, out_of, percent = number
    if percent:
        return value / 100
    low, high = points or (0.0, 1.0)
    if out_of is not None and (points is None or out_of != high):
        return value / out_of if out_of else -1.0
    return (value - low) / (high - low)
