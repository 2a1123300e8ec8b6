"""The messages between the pool and its worker processes: functions, calls, and results as plain data.

Messages to a worker come from this program and may be pickled. Messages from a worker were written by a
process that has run code under test: they are read as JSON and never unpickled, and they count only with
the token of the task.
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
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.errors import MissingExtraError
from assay.module_source import find_spec
from assay.wording import format_value

# The head of every message: its kind, a token, and the length of its content.
HEAD: Final = struct.Struct(">c16sQ")
TOKEN_BYTES: Final = 16
NO_TOKEN: Final = bytes(TOKEN_BYTES)
# To a worker: a call, with the token of all messages about it. The content is pickled: the number of the
# function, the pickled function (None if the worker has it), and the pickled arguments.
TASK: Final = b"t"
HELLO: Final = b"h"  # from a worker: it is ready; the content is its process id
# From a worker: function and arguments are loaded, and work begins. The content is a
# `forkserver.Reading`, as JSON.
STARTED: Final = b"s"
ANSWER: Final = b"a"  # from a worker: the outcome of a task, as JSON
# Characters of JSON in a result, so that no worker can fill the memory of this process.
LARGEST_VALUE: Final = 1 << 26
STATUS: Final = struct.Struct(">i")  # from the template: the exit status of an ended worker
REFERENCE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
# A function, or its name as `package.module:function`.
Function: TypeAlias = Callable[..., Any] | str


class WorkerSettings(NamedTuple):
    """The settings of the template and of its workers."""

    preload: tuple[str, ...] = ()  # modules to import before any work
    # Bytes that a worker may use in addition to those after loading its function.
    memory: int | None = None
    idle: float = 60.0  # seconds without work after which a worker ends
    # Whether the kernel counts how long a process waits for a processor.
    counts_waiting: bool = False


def message(kind: bytes, content: bytes = b"", token: bytes = NO_TOKEN) -> bytes:
    return HEAD.pack(kind, token, len(content)) + content


# Functions and arguments, on their way to a worker


class Packed(NamedTuple):
    """A function in the form in which it is sent to a worker, once."""

    number: int  # identifies it in later tasks
    name: str  # for messages
    home: str | None  # the module that a worker imports for it; None if it is sent by value
    data: bytes


_numbers = count(1)
# Functions that were packed before, by their id, as long as they exist, so that workers know them.
_known: dict[int, tuple[Callable[[], Any], Packed]] = {}


def pack_function(function: Function) -> Packed:
    """Return a function as bytes, which are the same each time.

    It is sent by name if a worker can import it, and otherwise by value.
    """
    if isinstance(function, str):
        return _pack_name(function)
    key = id(function)
    if key in _known:
        reference, packed = _known[key]
        if reference() is function:
            return packed
    packed = _pack_callable(function)
    with suppress(TypeError):  # an object without weak references is packed each time
        # There is no lock, since a function may be collected at any moment, even in this line.
        _known[key] = weakref.ref(function, lambda _: _known.pop(key, None)), packed
    return packed


@lru_cache(maxsize=1024)
def _pack_name(function: str) -> Packed:
    if not REFERENCE.fullmatch(function):
        raise ValueError(f"{function!r} names no function: write it as package.module:function")
    return Packed(next(_numbers), function, function.partition(":")[0], pickle.dumps(function))


def _pack_callable(function: Callable[..., Any]) -> Packed:
    if not callable(function):
        raise TypeError(f"{format_value(function)} cannot be called: give a function")
    innermost: Any = function
    while isinstance(innermost, partial):
        innermost = cast("partial[Any]", innermost).func
    name = str(getattr(innermost, "__name__", None) or type(innermost).__name__)
    home = _find_module(innermost)
    if is_importable(home):
        with suppress(Exception):  # a lambda, or a function inside a function
            return Packed(next(_numbers), name, home, pickle.dumps(function))
    cloudpickle = _import_cloudpickle()
    if cloudpickle is None:
        raise MissingExtraError(
            f"running {name}, which a worker cannot import by name,", package="cloudpickle"
        )
    module = sys.modules.get(home)
    # A worker cannot import the module, so its other functions are sent, too.
    sends_module = module is not None and home != "__main__" and not is_importable(home)
    try:
        if sends_module:
            cloudpickle.register_pickle_by_value(module)
        return Packed(next(_numbers), name, None, cloudpickle.dumps(function))
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to a worker ({error}): "
            "use a function at the top of a module, and pass what it needs as arguments"
        ) from error
    finally:
        if sends_module:
            cloudpickle.unregister_pickle_by_value(module)


def _find_module(function: Any) -> str:
    """Return the name of the module that defines a function, or the class of a method."""
    definition = function
    owner = getattr(function, "__self__", None)
    # The owner of a built-in function is its module.
    if owner is not None and not isinstance(owner, ModuleType):
        definition = owner if isinstance(owner, type) else type(owner)
    return str(getattr(definition, "__module__", None) or type(definition).__module__)


def pack_arguments(args: Sequence[Any], keywords: Mapping[str, Any], name: str) -> bytes:
    """Return arguments as bytes. Raises `TypeError` if one cannot be sent, with its name or position."""
    with suppress(Exception):  # cloudpickle is tried next
        data = pickle.dumps((args, keywords), protocol=pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in data:
            return data
    pickler = _import_cloudpickle() or pickle
    with suppress(Exception):  # the argument that fails is named below
        return pickler.dumps((args, keywords))
    arguments: list[tuple[int | str, Any]] = [*enumerate(args, start=1), *keywords.items()]
    for argument, value in arguments:
        try:
            pickler.dumps(value)
        except Exception as error:  # noqa: BLE001 - the value's own __reduce__
            raise TypeError(
                f"argument {argument!r} of {name}, {format_value(value)}, cannot be sent to a "
                f"worker ({error}): pass plain data"
            ) from None
    raise TypeError(f"the arguments of {name} cannot be sent to a worker: pass plain data")


@lru_cache(maxsize=1)
def _import_cloudpickle() -> Any:
    try:
        return import_module("cloudpickle")
    except ImportError:
        return None


@lru_cache(maxsize=1024)
def is_importable(name: str) -> bool:
    """Return whether a new interpreter with our path would import the same module."""
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(module, "__spec__", None) is not None
    spec = find_spec(name)
    if spec is None:
        return False
    # Built-in modules have no location.
    return spec.origin == file or not spec.has_location


# Results, on their way back

_INT_LIMIT: Final = 1 << 63  # larger ints are written in hexadecimal
_RECORDS: dict[str, Any] = {}  # classes of named tuples, by module and name
_SEQUENCES: Final[dict[str, Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def register_record(record: Any) -> None:
    """Allow instances of this named tuple in results; those of other classes arrive as plain tuples."""
    _RECORDS[f"{record.__module__}:{record.__qualname__}"] = record


def plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold, without any loss.

    It may be None, a bool, a number, text, bytes, or a list, tuple, dict or set of these. Numbers of
    other libraries become ints and floats. Raises `TypeError` for anything else.

    >>> read_plain(plain({(1, 2): [b"x", 2**70, None]}))
    {(1, 2): [b'x', 1180591620717411303424, None]}
    """
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            if -_INT_LIMIT < value < _INT_LIMIT:
                return value
            return {"int": hex(value)}
        case dict():
            pairs = cast("dict[Any, Any]", value).items()
            return {"dict": [[plain(key), plain(item)] for key, item in pairs]}
        case list():
            return [plain(item) for item in cast("list[Any]", value)]
        case tuple() | set() | frozenset():
            items = [plain(item) for item in cast("tuple[Any, ...]", value)]
            kind = cast("Any", type)(value)
            if hasattr(kind, "_fields"):
                return {"record": [f"{kind.__module__}:{kind.__qualname__}", items]}
            for name, base in _SEQUENCES.items():
                if issubclass(kind, base):
                    return {name: items}
            raise AssertionError(kind)
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
    """Return the value from which `plain` made this. Raises any exception for other data."""
    if isinstance(data, list):
        return [read_plain(item) for item in cast("list[Any]", data)]
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
            if name not in _RECORDS:
                return values
            return _RECORDS[name](*values)
        case _:
            return _SEQUENCES[tag](map(read_plain, content))
