"""Pack functions and arguments as bytes that a worker can read."""

import pickle
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import count
from typing import Any, Final, TypeAlias, cast

from assay.errors import MissingExtraError
from assay.wording import short_repr

Function: TypeAlias = Callable[..., Any] | str
"""A function, or where it is: `package.module:function`."""

REFERENCE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Packed:
    """A function as it is sent to a worker, once."""

    number: int
    """What it is called by from then on."""
    name: str
    """What it is called in messages."""
    home: str | None
    """The module that a worker will import for it; None when it is sent by value."""
    data: bytes


class Functions:
    """Functions that were packed before, for as long as they live."""

    def __init__(self) -> None:
        self._named: dict[str, Packed] = {}
        self._packed: dict[int, tuple[weakref.ref[Any], Packed]] = {}

    def packed(self, function: Function) -> Packed:
        """The function packed; the same each time, so that a worker knows it again."""
        if isinstance(function, str):
            if function not in self._named:
                self._named[function] = packed(function)
            return self._named[function]
        known = self._packed.get(id(function))
        if known is not None and known[0]() is function:
            return known[1]
        made, key = packed(function), id(function)
        with suppress(TypeError):  # what cannot be referred to weakly is packed anew each time
            # Nothing is locked, since a function may end at any moment, also while we are here.
            reference = weakref.ref(function, lambda _: self._packed.pop(key, None))
            self._packed[key] = reference, made
        return made


def packed(function: Function) -> Packed:
    """A function as bytes: by name when a worker can import it, else by value."""
    if isinstance(function, str):
        if not REFERENCE.fullmatch(function):
            raise ValueError(f"{function!r} names no function: write it as package.module:function")
        return Packed(next(_numbers), function, function.partition(":")[0], pickle.dumps(function))
    if not callable(function):
        raise TypeError(f"{short_repr(function)} cannot be called: give a function")
    name, home = _name(function), _home(function)
    if is_importable(home):
        try:
            return Packed(next(_numbers), name, home, pickle.dumps(function))
        except Exception:  # noqa: BLE001 - a lambda, or made inside a function: by value then
            pass
    return Packed(next(_numbers), name, None, _by_value(function, name, home))


def packed_arguments(args: Sequence[Any], keywords: Mapping[str, Any], name: str) -> bytes:
    """Arguments as bytes. Raises `TypeError`, with the argument's name or place, when one cannot be."""
    try:
        data = pickle.dumps((args, keywords), protocol=pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in data:
            return data
    except Exception:  # noqa: BLE001 - what pickle cannot do, cloudpickle may
        data = None
    cloudpickle = _cloudpickle()
    if cloudpickle is not None:
        try:
            return cloudpickle.dumps((args, keywords))
        except Exception:  # noqa: BLE001 - said below, of the argument at fault
            pass
    if data is not None:
        return data
    raise TypeError(_whats_wrong(args, keywords, name))


def _whats_wrong(args: Sequence[Any], keywords: Mapping[str, Any], name: str) -> str:
    places = [(f"argument {place}", value) for place, value in enumerate(args, start=1)]
    for where, value in [*places, *((f"argument {key!r}", v) for key, v in keywords.items())]:
        try:
            (_cloudpickle() or pickle).dumps(value)
        except Exception as error:  # noqa: BLE001 - the value's own __reduce__
            return f"{where} of {name}, {short_repr(value)}, cannot be sent to a worker ({error}): pass plain data"
    return f"the arguments of {name} cannot be sent to a worker: pass plain data"


def _by_value(function: Callable[..., Any], name: str, home: str) -> bytes:
    cloudpickle = _cloudpickle()
    if cloudpickle is None:
        raise MissingExtraError(
            f"running {name}, which a worker cannot import by name,", package="cloudpickle", extra="isolation"
        )
    try:
        with _sent_whole(cloudpickle, home):
            return cloudpickle.dumps(function)
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to a worker ({error}): use a function at the top of a module, "
            "and pass what it needs as arguments"
        ) from error


@contextmanager
def _sent_whole(cloudpickle: Any, home: str) -> Any:
    """While a module is sent by value, since a worker could not import it."""
    module = sys.modules.get(home)
    if module is None or home == "__main__" or is_importable(home):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


@lru_cache(maxsize=1)
def _cloudpickle() -> Any:
    try:
        cloudpickle = import_module("cloudpickle")
    except ImportError:
        return None
    return cloudpickle


def _bare(function: Any) -> Any:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return function


def _name(function: Any) -> str:
    bare = _bare(function)
    return str(getattr(bare, "__name__", None) or type(bare).__name__)


def _home(function: Any) -> str:
    bare = _bare(function)
    owner = getattr(bare, "__self__", None)
    if owner is not None and not isinstance(owner, type(sys)):
        bare = owner if isinstance(owner, type) else cast("Any", type(owner))
    return str(getattr(bare, "__module__", None) or type(bare).__module__)


@lru_cache(maxsize=1024)
def is_importable(name: str) -> bool:
    """Whether a fresh interpreter with our path would find this module, and the same one."""
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    own = getattr(module, "__file__", None)
    if own is None:
        return getattr(module, "__spec__", None) is not None
    # Not `importlib.util.find_spec`, which believes whatever is loaded under the name.
    locations: Sequence[str] | None = None
    found: ModuleSpec | None = None
    steps = name.split(".")
    for depth in range(1, len(steps) + 1):
        found = _found(".".join(steps[:depth]), locations)
        if found is None:
            return False
        locations = found.submodule_search_locations or ()
    # Modules that Python is born with have no location.
    return found is not None and (found.origin == own or not found.has_location)


def _found(name: str, locations: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        found = finder.find_spec(name, locations)
        if found is not None:
            return found
    return None
