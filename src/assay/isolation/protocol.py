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
# The kinds of messages.
# To a worker: a call. Its token has to be in all messages of the worker about this call. The content is
# a pickled tuple: the number of the function, the pickled function (None if the worker has it already),
# and the pickled arguments.
TASK: Final = b"t"
HELLO: Final = b"h"  # from a worker: it is ready; the content is its process id
# From a worker: function and arguments are loaded, and the call begins. The content is a
# `forkserver.ProcessCounts`, as JSON.
STARTED: Final = b"s"
ANSWER: Final = b"a"  # from a worker: the outcome of a task, as JSON
# How many characters of JSON a result may have, so that no worker can fill the memory of this process.
LARGEST_VALUE: Final = 1 << 26
# From the template, the process that forks workers: the exit status of a worker that has ended.
STATUS: Final = struct.Struct(">i")
REFERENCE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
# A function, or its name as `package.module:function`.
Function: TypeAlias = Callable[..., Any] | str


class WorkerSettings(NamedTuple):
    """The settings of the template, which is the process that forks workers, and of its workers."""

    preload: tuple[str, ...] = ()  # modules that the template imports before it forks workers
    # Bytes that a worker may use in addition to those after loading its function.
    memory: int | None = None
    idle: float = 60.0  # seconds without work after which a worker ends
    # Whether the kernel counts how long a process waits for a processor.
    counts_waiting: bool = False


def encode_message(kind: bytes, content: bytes = b"", token: bytes = NO_TOKEN) -> bytes:
    """Return a message as it is sent: its head and its content."""
    return HEAD.pack(kind, token, len(content)) + content


# Functions and arguments, on their way to a worker


class PackedFunction(NamedTuple):
    """A function in the form in which it is sent to workers. Each worker gets it only once."""

    number: int  # identifies it in later tasks of the same worker
    name: str  # for messages
    module: str | None  # the module that a worker imports for it; None if its code is sent
    data: bytes  # the pickled function, or its pickled name


_function_numbers = count(1)
# Functions that were packed before, by `id(function)`: a weak reference to the function, and its packed
# form. A function that is packed again keeps its number, so that workers which have it recognize it.
_packed_functions: dict[int, tuple[Callable[[], Any], PackedFunction]] = {}


def pack_function(function: Function) -> PackedFunction:
    """Return a function as bytes for a worker; the same function is packed only once.

    Its name is sent if a worker can import it, and its code if not.
    """
    if isinstance(function, str):
        return _pack_name(function)
    key = id(function)
    if key in _packed_functions:
        reference, packed = _packed_functions[key]
        if reference() is function:  # not another one that got the id of a deleted function
            return packed
    packed = _pack_callable(function)
    with suppress(TypeError):  # an object that has no weak references is packed each time
        # Without a lock: the garbage collector may call the lambda at any moment, even while this
        # line runs, and would wait for the lock forever.
        reference = weakref.ref(function, lambda _: _packed_functions.pop(key, None))
        _packed_functions[key] = reference, packed
    return packed


@lru_cache(maxsize=1024)
def _pack_name(function: str) -> PackedFunction:
    """Pack a function that is given as `package.module:function`; it is not imported here."""
    if not REFERENCE.fullmatch(function):
        raise ValueError(f"{function!r} names no function: write it as package.module:function")
    module = function.partition(":")[0]
    return PackedFunction(next(_function_numbers), function, module, pickle.dumps(function))


def _pack_callable(function: Callable[..., Any]) -> PackedFunction:
    """Pack a function by its name, or with its code if a worker cannot import it.

    Raise TypeError if it cannot be sent, and MissingExtraError if that needs cloudpickle.
    """
    if not callable(function):
        raise TypeError(f"{format_value(function)} cannot be called: give a function")
    innermost: Any = function
    while isinstance(innermost, partial):
        innermost = cast("partial[Any]", innermost).func
    name = str(getattr(innermost, "__name__", None) or type(innermost).__name__)
    module_name = _find_module(innermost)
    if is_importable(module_name):
        # `pickle` fails for a lambda, or for a function inside a function. Then its code is sent.
        with suppress(Exception):
            data = pickle.dumps(function)
            return PackedFunction(next(_function_numbers), name, module_name, data)
    cloudpickle = _import_cloudpickle()
    if cloudpickle is None:
        raise MissingExtraError(
            f"running {name}, which a worker cannot import by name,", package="cloudpickle"
        )
    module = sys.modules.get(module_name)
    # By default, cloudpickle sends the code of what is in `__main__`, and the names of what is in other
    # modules. If a worker cannot import such a module, let it send the code of that, too.
    sends_module = (
        module is not None and module_name != "__main__" and not is_importable(module_name)
    )
    try:
        if sends_module:
            cloudpickle.register_pickle_by_value(module)
        data = cloudpickle.dumps(function)
        return PackedFunction(next(_function_numbers), name, module=None, data=data)
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to a worker ({error}): "
            "use a function at the top of a module, and pass what it needs as arguments"
        ) from error
    finally:
        if sends_module:
            cloudpickle.unregister_pickle_by_value(module)


def _find_module(function: Any) -> str:
    """Return the name of the module that defines a function; for a method, the one of its class."""
    definition = function  # what has the attribute `__module__`
    owner = getattr(function, "__self__", None)
    # A method belongs to an object or a class. Built-in functions belong to their module.
    if owner is not None and not isinstance(owner, ModuleType):
        definition = owner if isinstance(owner, type) else type(owner)
    return str(getattr(definition, "__module__", None) or type(definition).__module__)


def pack_arguments(args: Sequence[Any], keywords: Mapping[str, Any], name: str) -> bytes:
    """Return the arguments for a function of this name as bytes.

    Raises `TypeError` if one cannot be sent; the message has its name or position.
    """
    with suppress(Exception):  # cloudpickle is tried next
        data = pickle.dumps((args, keywords), protocol=pickle.HIGHEST_PROTOCOL)
        # A worker has another `__main__`, so it could not find a class that is defined there.
        if b"__main__" not in data:
            return data
    pickler = _import_cloudpickle() or pickle
    with suppress(Exception):  # the loop below finds the argument that fails
        return pickler.dumps((args, keywords))
    arguments: list[tuple[int | str, Any]] = [*enumerate(args, start=1), *keywords.items()]
    for argument, value in arguments:
        try:
            pickler.dumps(value)
        except Exception as error:  # noqa: BLE001 - pickling runs code of the value's class
            raise TypeError(
                f"argument {argument!r} of {name}, {format_value(value)}, cannot be sent to a "
                f"worker ({error}): pass plain data"
            ) from None
    raise TypeError(f"the arguments of {name} cannot be sent to a worker: pass plain data")


@lru_cache(maxsize=1)
def _import_cloudpickle() -> Any:
    """Return the module `cloudpickle`; None if it is not installed."""
    try:
        return import_module("cloudpickle")
    except ImportError:
        return None


@lru_cache(maxsize=1024)
def is_importable(name: str) -> bool:
    """Return whether a new interpreter with the `sys.path` of this one would import the same module.

    It would not for `__main__`, for a module that was made in memory, or if another file now comes
    first on the path.
    """
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
_RECORD_CLASSES: dict[str, Any] = {}  # classes of named tuples, by `module:name`
_SEQUENCES: Final[dict[str, Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def register_record(record: Any) -> None:
    """Let instances of this class of named tuples arrive from workers as such.

    Those of other classes arrive as plain tuples, so that a worker cannot choose which class of this
    program is called.
    """
    _RECORD_CLASSES[f"{record.__module__}:{record.__qualname__}"] = record


def make_plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold, and from which `read_plain` makes it again.

    It may be None, a bool, a number, text, bytes, or a list, tuple, dict or set of these. A type that
    JSON does not have is written as an object with one key, the name of the type. Numbers of other
    libraries become ints and floats. Raises `TypeError` for anything else.

    >>> make_plain((1, 2))
    {'tuple': [1, 2]}
    >>> read_plain(make_plain({(1, 2): [b"x", 2**70, None]}))
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
            return {"dict": [[make_plain(key), make_plain(item)] for key, item in pairs]}
        case list():
            return [make_plain(item) for item in cast("list[Any]", value)]
        case tuple() | set() | frozenset():
            items = [make_plain(item) for item in cast("tuple[Any, ...]", value)]
            value_type = cast("Any", type)(value)
            if hasattr(value_type, "_fields"):  # a named tuple
                return {"record": [f"{value_type.__module__}:{value_type.__qualname__}", items]}
            for name, sequence_type in _SEQUENCES.items():
                if issubclass(value_type, sequence_type):
                    return {name: items}
            raise AssertionError(value_type)
        case bytes() | bytearray():
            return {"bytes": base64.b64encode(value).decode()}
        case complex():
            return {"complex": [value.real, value.imag]}
        case _ if hasattr(value, "__index__"):  # an integer of another library
            return make_plain(int(value))
        case _ if hasattr(value, "__float__"):
            return float(value)
        case _:
            raise TypeError("only numbers, text, bytes, None, lists, tuples, dicts and sets can be")


def read_plain(data: Any) -> Any:
    """Return the value from which `make_plain` made this. Raises any exception for other data."""
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
            if name not in _RECORD_CLASSES:
                return values
            return _RECORD_CLASSES[name](*values)
        case _:  # a tuple or a set
            return _SEQUENCES[tag](map(read_plain, content))
