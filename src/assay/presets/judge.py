"""JudgeRubric: a model judges, in your words; its score is the reward, or your functions ask it."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from assay.criterion import Criterion, Scorer
from assay.engine import Plan
from assay.errors import RubricError
from assay.graders.guard import DEGENERATE, degenerate
from assay.graders.judge_input import view_of
from assay.graders.prompting import system_prompt
from assay.messages import question_text
from assay.parsers import Parser
from assay.presets.asking import Judge, models_of, settings_of
from assay.presets.ratings import Points, points_in
from assay.presets.replies import form_of, rated
from assay.report import Score
from assay.rubric import Rubric
from assay.types import Messages, RewardFunc
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
        self._judge = Judge(
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
        self,
        prompt: Messages,
        completion: Messages,
        answer: Any = "",
        state: Any = None,
        **fields: Any,
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
            return Score(0.0, f"{DEGENERATE}: {why}; nobody was asked")
        if len(self._judge.models) == 1:
            return self._rated(await self.judge(prompt, completion, answer, state))
        replies = await self._judge.replies(values, state)
        names = [model.id for model in self._judge.models]
        return _mean(names, [self._rated(reply) for reply in replies])

    def _rated(self, reply: str) -> Score:
        return rated(reply, self.parser if self._reads_replies else Parser(), self.points)

    def _values(
        self, prompt: Messages, completion: Messages, answer: Any, fields: Mapping[str, Any]
    ) -> dict[str, str]:
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
        raise RubricError(
            f"points is {short_repr(points)}: give the lowest and the highest, as (0, 10)"
        )
    return Points(low, high)


def _mean(names: Sequence[str], scores: Sequence[Score]) -> Score:
    values = [score.value or 0.0 for score in scores]
    apart = [abs(one - other) for one, other in combinations(values, 2)]
    said = (f"{n} {v:.3g}: {s.reason}" for n, v, s in zip(names, values, scores, strict=True))
    return Score(fmean(values), "\n".join(said), disagreement=fmean(apart))
