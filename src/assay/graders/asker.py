"""Asker: one question after the other about one response, in prompts that open alike."""

from collections.abc import Hashable
from typing import Any

from assay.criterion import Criterion
from assay.graders.manner import Manner
from assay.graders.model import off_menu, question_of, reply_model
from assay.graders.odds import value_of
from assay.graders.prompting import one_criterion
from assay.models.base import Model, Reply, Request
from assay.models.judge_log import ask_judge
from assay.types import Message

KEPT = 1024
"""How many prompts are remembered by how they begin."""


class Recent:
    """The last few things that were added.

    >>> recent = Recent()
    >>> for number in range(2000):
    ...     recent.add(number)
    >>> 0 in recent, 1999 in recent
    (False, True)
    """

    def __init__(self) -> None:
        self._things: dict[Hashable, None] = {}

    def add(self, thing: Hashable) -> None:
        self._things[thing] = None
        if len(self._things) > KEPT:
            del self._things[next(iter(self._things))]

    def __contains__(self, thing: Hashable) -> bool:
        return thing in self._things


class Opened:
    """A prompt as far as it is shared, and the model it goes to."""

    def __init__(self, model: Model, system_prompt: str, shared: str, recent: Recent) -> None:
        """`recent` remembers which prompts have gone out, for all who ask in the same way."""
        self.messages: tuple[Message, ...] = (
            {"role": "system", "content": system_prompt},
            {"role": "user", "content": shared},
        )
        self._model = model
        self._recent = recent
        self._key = hash((model.id, system_prompt, shared))

    @property
    def reached(self) -> bool:
        """Whether a prompt that begins so has gone to the model, and come back or failed."""
        return self._key in self._recent

    async def ask(self, request: Request) -> Reply:
        """The model's reply; one that a cache gave has reached nobody."""
        source = ""
        try:
            reply = await ask_judge(self._model, request)
            source = reply.source
            return reply
        finally:
            if source != "cache":
                self._recent.add(self._key)


class Asker:
    """Asks about one criterion at a time."""

    def __init__(self, opened: Opened, manner: Manner, wording: str) -> None:
        self._opened = opened
        self._manner = manner
        self._wording = wording

    @property
    def reached(self) -> bool:
        """Whether the model has seen how the prompts begin."""
        return self._opened.reached

    async def __call__(self, criterion: Criterion) -> Any:
        manner, opened = self._manner, self._opened.messages
        question = {"role": "user", "content": one_criterion(criterion, reverse=manner.reverse)}
        request = Request(
            (*opened, question),
            reply_model(criterion, reverse=manner.reverse),
            off_menu(criterion, reverse=manner.reverse),
            shared=len(opened),
            temperature=manner.temperature,
            logprobs=manner.logprobs,
            sample=manner.sample,
            question=question_of(criterion),
            prompt=self._wording,
        )
        return value_of(await self._opened.ask(request))
