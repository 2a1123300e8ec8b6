"""Hooks: methods of an environment that are called at the end of a turn, a rollout or a session.

class Game(MultiTurnEnv):
    @stop                       # ends the rollout when it is true
    def solved(self, state): ...

    @cleanup                    # after each rollout, whatever became of it
    def close_board(self, state): ...

    @teardown(priority=10)      # when the environment is closed; higher priorities go first
    def stop_server(self): ...
"""

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, overload

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
    def __call__(
        self, method: None = None, /, *, priority: int = 0
    ) -> Callable[[Method], Method]: ...
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
    # Looked at without being fetched: a property is nobody's hook, and may cost something.
    names = [name for name in dir(environment) if _is_marked(environment, name, moment)]
    methods = [(name, getattr(environment, name)) for name in names]
    methods.sort(key=lambda named: (-getattr(named[1], f"{moment}_priority", 0), named[0]))
    return [method for _, method in methods]


def _is_marked(environment: object, name: str, moment: Moment) -> bool:
    found: Any = inspect.getattr_static(environment, name, None)
    function = getattr(found, "__func__", found)
    return callable(function) and getattr(function, moment, False) is True
