"""FunctionModel: a function of two prompts as a model."""

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from assay.identity import path_of
from assay.models.base import NOTHING, Reply, Request
from assay.models.ledger import Ledger
from assay.models.reading import read
from assay.models.wire import whole


class FunctionModel:
    """Asks a function of `(system_prompt, user_prompt)`, async or plain; a plain one must not wait.

    It returns a reply model, a mapping with its fields, or a text to read. Its limits, retries and
    money are its own affair.

    >>> import asyncio
    >>> model = FunctionModel(lambda system_prompt, user_prompt: user_prompt.upper())
    >>> asyncio.run(model(Request.of("Shout.", "hey"))).text
    'HEY'
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._by_name = _takes_names(function)
        self.id = path_of(function)

    def __repr__(self) -> str:
        return f"<model {self.id}>"

    async def __call__(self, request: Request) -> Reply:
        if self._by_name:
            said = self._function(system_prompt=request.system, user_prompt=request.user)
        else:
            said = self._function(request.system, request.user)
        if inspect.isawaitable(said):
            said = await said
        ledger = Ledger.current()
        if ledger is not None:
            ledger.add(NOTHING, None)
        return _reply(said, self.id, request)


def _reply(said: Any, where: str, request: Request) -> Reply:
    if isinstance(said, Reply):
        return whole(said, where, request)
    if isinstance(said, str):
        return Reply(said, value=read(said, request))
    text = said.model_dump_json() if isinstance(said, BaseModel) else str(said)
    return Reply(text, value=said)


def _takes_names(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {name for name, p in parameters.items() if p.kind is not p.POSITIONAL_ONLY}
    return any_name or {"system_prompt", "user_prompt"} <= named
