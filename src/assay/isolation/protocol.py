"""Define the messages between the pool and its worker processes.

What goes to a worker comes from this program and may be pickled. What comes back was written by a process that
has run code under test: it is read as JSON and never unpickled, and it counts only with the token of its task.
"""

import base64
import struct
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

HEAD: Final = struct.Struct(">c16sQ")
"""How every message begins: one letter, a token, and the length of what follows."""
TOKEN_BYTES: Final = 16
NO_TOKEN: Final = bytes(TOKEN_BYTES)
TASK: Final = b"t"
"""To a worker: a call, with the token that every message about it must carry. Pickled, the number of the function, the
function (None when the worker has it), the arguments, and the seconds it may work; function and arguments pickled too."""
HELLO: Final = b"h"
"""From a worker: it is there."""
STARTED: Final = b"s"
"""From a worker: function and arguments are loaded, and work begins. A `worker.Reading` follows, as JSON."""
ANSWER: Final = b"a"
"""From a worker: what came of a task, as JSON."""
LARGEST_VALUE: Final = 1 << 26
"""Characters of JSON that a result may have, so that no worker can fill the memory of this process."""
NUMBER: Final = struct.Struct(">i")
"""What the template says about a worker: at birth its process id, 0 when there is none; at the end its exit status."""

ClockKind: TypeAlias = Literal["schedule", "processor", "wall"]


class WorkerSettings(NamedTuple):
    """What the template and every worker are told when they start."""

    preload: tuple[str, ...] = ()
    """Modules to import before any work."""
    memory: int | None = None
    """Bytes that a worker may take beyond what it has once its function is loaded."""
    clock: ClockKind = "wall"
    """How working time is counted: see `worker.Clock`."""


def message(kind: bytes, *parts: bytes, token: bytes = NO_TOKEN) -> bytes:
    """A message, ready to be sent."""
    return b"".join((HEAD.pack(kind, token, sum(map(len, parts))), *parts))


_SMALL: Final = 1 << 63
_RECORDS: dict[str, Any] = {}


def readable(record: Any) -> None:
    """Let results hold instances of a named tuple; those of any other class arrive as plain tuples."""
    _RECORDS[_record_name(record)] = record


def _record_name(record: Any) -> str:
    return f"{record.__module__}:{record.__qualname__}"


def plain(value: Any) -> Any:
    """A value as JSON can hold it: None, bools, numbers, text, bytes, lists, tuples, dicts and sets, exactly.

    Numbers of other libraries become ints and floats, and named tuples are sent with their name. Raises
    `TypeError` for anything else.

    >>> read_plain(plain({(1, 2): [b"x", 2**70, None]}))
    {(1, 2): [b'x', 1180591620717411303424, None]}
    """
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if -_SMALL < value < _SMALL else {"int": hex(value)}
    if isinstance(value, list):
        return [plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, tuple):
        items = [plain(each) for each in cast("tuple[Any, ...]", value)]
        if not hasattr(cast("Any", value), "_fields"):
            return {"tuple": items}
        return {"record": [_record_name(type(cast("Any", value))), items]}
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {"dict": [[plain(key), plain(each)] for key, each in pairs]}
    if isinstance(value, set | frozenset):
        tag = "set" if isinstance(value, set) else "frozenset"
        return {tag: [plain(each) for each in cast("set[Any]", value)]}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if hasattr(value, "__index__"):
        return plain(int(value))
    if hasattr(value, "__float__"):
        return float(value)
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
            return _RECORDS.get(name, _as_tuple)(*map(read_plain, items))
        case _:
            makers: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
            return makers[tag](map(read_plain, content))


def _as_tuple(*items: Any) -> tuple[Any, ...]:
    return items
