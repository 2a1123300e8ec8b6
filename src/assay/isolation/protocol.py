"""Define what passes between the pool and its worker processes: functions, calls, and results as plain data.

What goes to a worker comes from this program and may be pickled. What comes back was written by a process that
has run code under test: it is read as JSON and never unpickled, and it counts only with the token of its task.
"""

import base64
import pickle
import re
import struct
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.errors import MissingExtraError
from assay.module_source import find_spec
from assay.wording import format_value

HEAD: Final = struct.Struct(
    ">c16sQ"
)  # how every message begins: one letter, a token, and the length of what follows
TOKEN_BYTES: Final = 16
NO_TOKEN: Final = bytes(TOKEN_BYTES)
# To a worker: a call, with the token that every message about it must carry. Pickled, the number of the function, the
# function (None when the worker has it), and the arguments; function and arguments pickled too.
TASK: Final = b"t"
HELLO: Final = b"h"  # from a worker: it is there, and this is its process id
# From a worker: function and arguments are loaded, and work begins. A `forkserver.Reading` follows, as JSON.
STARTED: Final = b"s"
ANSWER: Final = b"a"  # from a worker: what came of a task, as JSON
LARGEST_VALUE: Final = (
    1 << 26
)  # characters of JSON in a result, so that no worker fills the memory of this process
STATUS: Final = struct.Struct(
    ">i"
)  # what the template says about a worker at its end: its exit status
REFERENCE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
Function: TypeAlias = (
    Callable[..., Any] | str
)  # A function, or where it is: `package.module:function`


class WorkerSettings(NamedTuple):
    """What the template and every worker are told when they start."""

    preload: tuple[str, ...] = ()  # modules to import before any work
    memory: int | None = (
        None  # bytes that a worker may take beyond what it has once its function is loaded
    )
    idle: float = 60.0  # seconds without work after which a worker ends
    counts_waiting: bool = (
        False  # whether the kernel tells how long a process waited for a processor
    )


def message(kind: bytes, content: bytes = b"", token: bytes = NO_TOKEN) -> bytes:
    return HEAD.pack(kind, token, len(content)) + content


# Functions and arguments, on their way to a worker


class Packed(NamedTuple):
    """A function as it is sent to a worker, once."""

    number: int  # what it is called by from then on
    name: str  # what it is called in messages
    home: str | None  # the module that a worker will import for it; None when it is sent by value
    data: bytes


_numbers = count(1)
# Functions that were packed before, by identity, for as long as they live, so that a worker knows them again.
_known: dict[int, tuple[Callable[[], Any], Packed]] = {}


def packed(function: Function) -> Packed:
    """A function as bytes, the same ones each time: by name when a worker can import it, else by value."""
    if isinstance(function, str):
        return _packed_name(function)
    key = id(function)
    known = _known.get(key)
    if known is not None and known[0]() is function:
        return known[1]
    made = _packed(function)
    with suppress(TypeError):  # what cannot be referred to weakly is packed anew each time
        # Nothing is locked, since a function may end at any moment, also while we are here.
        _known[key] = weakref.ref(function, lambda _: _known.pop(key, None)), made
    return made


@lru_cache(maxsize=1024)
def _packed_name(function: str) -> Packed:
    if not REFERENCE.fullmatch(function):
        raise ValueError(f"{function!r} names no function: write it as package.module:function")
    return Packed(next(_numbers), function, function.partition(":")[0], pickle.dumps(function))


def _packed(function: Callable[..., Any]) -> Packed:
    if not callable(function):
        raise TypeError(f"{format_value(function)} cannot be called: give a function")
    bare: Any = function
    while isinstance(bare, partial):
        bare = cast("partial[Any]", bare).func
    name = str(getattr(bare, "__name__", None) or type(bare).__name__)
    owner = getattr(bare, "__self__", None)
    if owner is not None and not isinstance(owner, type(sys)):
        bare = owner if isinstance(owner, type) else type(owner)
    home = str(getattr(bare, "__module__", None) or type(bare).__module__)
    if is_importable(home):
        with suppress(Exception):  # a lambda, or made inside a function: by value then
            return Packed(next(_numbers), name, home, pickle.dumps(function))
    cloudpickle = _cloudpickle()
    if cloudpickle is None:
        what = f"running {name}, which a worker cannot import by name,"
        raise MissingExtraError(what, package="cloudpickle")
    module = sys.modules.get(home)
    is_sent_whole = module is not None and home != "__main__" and not is_importable(home)
    try:
        if is_sent_whole:  # since a worker could not import it
            cloudpickle.register_pickle_by_value(module)
        return Packed(next(_numbers), name, None, cloudpickle.dumps(function))
    except Exception as error:
        instead = "use a function at the top of a module, and pass what it needs as arguments"
        raise TypeError(f"{name} cannot be sent to a worker ({error}): {instead}") from error
    finally:
        if is_sent_whole:
            cloudpickle.unregister_pickle_by_value(module)


def packed_arguments(args: Sequence[Any], keywords: Mapping[str, Any], name: str) -> bytes:
    """Arguments as bytes. Raises `TypeError`, with the argument's name or place, when one cannot be."""
    with suppress(Exception):  # what pickle cannot do, cloudpickle may
        data = pickle.dumps((args, keywords), protocol=pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in data:
            return data
    pickler = _cloudpickle() or pickle
    with suppress(Exception):  # said below, of the argument at fault
        return pickler.dumps((args, keywords))
    for where, value in [*enumerate(args, start=1), *keywords.items()]:
        try:
            pickler.dumps(value)
        except Exception as error:  # noqa: BLE001 - the value's own __reduce__
            text = f"argument {where!r} of {name}, {format_value(value)}, cannot be sent to a worker ({error})"
            raise TypeError(f"{text}: pass plain data") from None
    raise TypeError(f"the arguments of {name} cannot be sent to a worker: pass plain data")


@lru_cache(maxsize=1)
def _cloudpickle() -> Any:
    try:
        return import_module("cloudpickle")
    except ImportError:
        return None


@lru_cache(maxsize=1024)
def is_importable(name: str) -> bool:
    """Whether a fresh interpreter with our path would find this module, and the same one."""
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    own = getattr(module, "__file__", None)
    if own is None:
        return getattr(module, "__spec__", None) is not None
    spec = find_spec(name)
    # Modules that Python is born with have no location.
    return spec is not None and (spec.origin == own or not spec.has_location)


# Results, on their way back

_SMALL: Final = 1 << 63
_RECORDS: dict[str, Any] = {}
_SEQUENCES: Final[dict[str, Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def readable(record: Any) -> None:
    """Let results hold instances of a named tuple; those of any other class arrive as plain tuples."""
    _RECORDS[f"{record.__module__}:{record.__qualname__}"] = record


def plain(value: Any) -> Any:
    """A value as JSON can hold it: None, bools, numbers, text, bytes, lists, tuples, dicts and sets, exactly.

    Numbers of other libraries become ints and floats. Raises `TypeError` for anything else.

    >>> read_plain(plain({(1, 2): [b"x", 2**70, None]}))
    {(1, 2): [b'x', 1180591620717411303424, None]}
    """
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return value if -_SMALL < value < _SMALL else {"int": hex(value)}
        case dict():
            return {
                "dict": [
                    [plain(key), plain(each)] for key, each in cast("dict[Any, Any]", value).items()
                ]
            }
        case list():
            return [plain(each) for each in cast("list[Any]", value)]
        case tuple() | set() | frozenset():
            items = [plain(each) for each in cast("tuple[Any, ...]", value)]
            kind = cast("Any", type)(value)
            if hasattr(kind, "_fields"):
                return {"record": [f"{kind.__module__}:{kind.__qualname__}", items]}
            return {
                next(name for name, base in _SEQUENCES.items() if issubclass(kind, base)): items
            }
        case bytes() | bytearray():
            return {"bytes": base64.b64encode(value).decode()}
        case complex():
            return {"complex": [value.real, value.imag]}
        case _ if hasattr(value, "__index__"):
            return plain(int(value))
        case _ if hasattr(value, "__float__"):
            return float(value)
        case _:
            raise TypeError("only numbers, text, bytes, None, lists, tuples, dicts and sets can be")


def read_plain(data: Any) -> Any:
    """The value that `plain` made this of. Raises some exception when it is nothing that `plain` makes."""
    if isinstance(data, list):
        return [read_plain(each) for each in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    [(tag, content)] = cast("dict[str, Any]", data).items()
    match tag:
        case "int":
            return int(content, 16)
        case "bytes":
            return base64.b64decode(content, validate=True)
        case "complex":
            return complex(*content)
        case "dict":
            return {read_plain(key): read_plain(value) for key, value in content}
        case "record":
            name, items = content
            values = tuple(map(read_plain, items))
            return _RECORDS[name](*values) if name in _RECORDS else values
        case _:
            return _SEQUENCES[tag](map(read_plain, content))
