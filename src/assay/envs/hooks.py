"""Hooks are methods of an environment that are called at the end of a turn, a rollout or a session.

class Game(MultiTurnEnv):
    @stop                       # ends the rollout when it is true
    def solved(self, state): ...

    @cleanup                    # after each rollout, whatever became of it
    def close_board(self, state): ...

    @teardown(priority=10)      # when the environment is closed; higher priorities go first
    def stop_server(self): ...
"""

import atexit
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

from assay.concurrency import FAILURES, is_stop, run_sync
from assay.redaction import logger_of
from assay.wording import described


async def awaited(value: Any) -> Any:
    """The value, waited for when it is not there yet."""
    return await value if inspect.isawaitable(value) else value


async def called(method: Callable[..., Any], **known: Any) -> Any:
    """What a method returns, given those of the known arguments that it takes.

    So `is_completed(messages, state)`, `is_completed(state)` and one with `**kwargs` all do.
    """
    function = getattr(method, "__func__", method)
    names = _names(function)
    given = known if names is None else {name: known[name] for name in names if name in known}
    return await awaited(method(**given))


@lru_cache(maxsize=1024)
def _names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the arguments that a function takes; None when it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters)


Moment: TypeAlias = Literal["stop", "cleanup", "teardown"]
Method = TypeVar("Method", bound=Callable[..., Any])


class _Marker:
    """A decorator that marks a method for one moment, with or without a priority."""

    def __init__(self, moment: Moment, purpose: str) -> None:
        self._moment = moment
        self.__name__ = moment
        self.__doc__ = purpose

    @overload
    def __call__(self, method: Method, /) -> Method: ...
    @overload
    def __call__(self, method: None = None, /, *, priority: int = 0) -> Callable[[Method], Method]: ...
    def __call__(self, method: Any = None, /, *, priority: int = 0) -> Any:
        def marked(method: Any) -> Any:
            setattr(method, self._moment, True)
            setattr(method, f"{self._moment}_priority", priority)
            return method

        return marked if method is None else marked(method)


stop = _Marker("stop", "Mark a method of `state` that says whether a rollout is over.")
cleanup = _Marker("cleanup", "Mark a method of `state` that tidies up after a rollout.")
teardown = _Marker("teardown", "Mark a method that frees what the environment holds.")


def hooks_of(environment: object, moment: Moment) -> list[Callable[..., Any]]:
    """The marked methods, highest priority first, and by name where priorities are equal."""
    # Looked at without being fetched: a property is no hook, and may cost something.
    names = [name for name in dir(environment) if _is_marked(environment, name, moment)]
    methods = [(name, getattr(environment, name)) for name in names]
    methods.sort(key=lambda named: (-getattr(named[1], f"{moment}_priority", 0), named[0]))
    return [method for _, method in methods]


def _is_marked(environment: object, name: str, moment: Moment) -> bool:
    found: Any = inspect.getattr_static(environment, name, None)
    function = getattr(found, "__func__", found)
    return callable(function) and getattr(function, moment, False) is True


logger = logger_of("assay")


class Closing:
    """Something with teardown hooks, which are called once.

    Use it in a `with` or `async with` block, or close it. What was used and never closed is closed
    when the interpreter ends; nothing is arranged for before that, and no signal is ever touched.
    """

    _closed = False
    _awaits_exit = False

    def close(self) -> None:
        """Call the teardown hooks, from synchronous code."""
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Call the teardown hooks; one that fails does not keep the others from it."""
        if self._closed:
            return
        self._closed = True
        if self._awaits_exit:
            atexit.unregister(self.close)
        for hook in hooks_of(self, "teardown"):
            try:
                await awaited(hook())
            except FAILURES as error:
                if is_stop(error):
                    raise
                logger.error("teardown %s failed: %s", hook.__name__, described(error))

    def _close_at_exit(self) -> None:
        """From now on there may be something to let go of."""
        if not self._awaits_exit and hooks_of(self, "teardown"):
            self._awaits_exit = True
            atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
