"""Identify functions, objects and settings by everything that can change what they return.

The rule: if anything that can change an answer differs, the identity differs. What cannot be
identified has no identity, and is never equal to anything.

Some things are outside: what a function reads or imports while it runs (files, the environment,
a network), and the code of libraries, which are identified by the names of their functions.
Compiled code is compared, so the same function has another identity under another version of
Python.
"""

import hashlib
import json
import re
import sys
import sysconfig
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from logging import Logger
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, cast

# The version of a rubric that cannot be identified.
UNKNOWN: Final = "unknown"

MAX_OBJECTS: Final = 20_000  # a function that refers to more objects is not identified
MAX_BYTES: Final = 16_000_000  # nor is one that refers to a larger array or byte string

# Values that are identified by their type and their `repr`.
_PLAIN_TYPES: Final = (
    bool,
    float,
    complex,
    str,
    date,
    time,
    timedelta,
    tzinfo,
    Decimal,
    Fraction,
    PurePath,
    range,
    uuid.UUID,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
)


class UnidentifiableError(Exception):
    """Raised for something that cannot be identified; the message says what and why."""


def is_same_version(first: str, second: str) -> bool:
    """Return whether two versions are known and equal."""
    return first == second and first != UNKNOWN


def identify(thing: object) -> str:
    """Return a SHA-256 of everything that can change what a function or an object returns.

    Two lambdas with different code differ, and so do two objects with different attributes.
    Raises UnidentifiableError for what cannot be read, such as a lock, a client or a tensor.

    >>> identify(partial(pow, 2)) == identify(partial(pow, 3))
    False
    """
    identifier = _Identifier(skips_unreadable=False)
    try:
        identifier.add(thing)
    except RecursionError:
        raise UnidentifiableError("it refers to objects that are nested too deeply") from None
    return identifier.digest.hexdigest()


def identify_or_unknown(thing: object) -> str:
    """Return the identity of a thing; "unknown" if it cannot be identified."""
    try:
        return identify(thing)
    except UnidentifiableError:
        return UNKNOWN


class _Identifier:
    """Feeds a description of objects, and of all that they refer to, into one digest."""

    def __init__(self, *, skips_unreadable: bool) -> None:
        """With `skips_unreadable`, what cannot be read is described by its class alone."""
        self.digest = hashlib.sha256()
        self._skips_unreadable = skips_unreadable
        self._count = 0
        # The position of each object that was described, by its id. The objects are kept, since
        # the id of one that is gone may be given to another.
        self._positions: dict[int, int] = {}
        self._kept: list[object] = []

    def add(self, thing: Any) -> None:
        """Describe an object. What was described before is only referred to."""
        if isinstance(thing, int) and not isinstance(thing, bool | Enum):
            self._write("int", hex(thing))
        elif isinstance(thing, _PLAIN_TYPES):
            self._write("plain", type(thing).__qualname__, repr(thing))
        elif isinstance(thing, bytes | bytearray):
            self._add_bytes(bytes(thing))
        elif id(thing) in self._positions:
            self._write("again", str(self._positions[id(thing)]))
        else:
            self._count += 1
            if self._count > MAX_OBJECTS:
                raise UnidentifiableError(f"it refers to more than {MAX_OBJECTS} objects")
            # Whether equal constants are one object depends on how the code was loaded.
            is_constant = type(thing) in (tuple, frozenset)
            if not is_constant:
                self._positions[id(thing)] = len(self._kept)
                self._kept.append(thing)
            self._add_new(thing)

    def _add_new(self, thing: Any) -> None:
        """Describe an object that was not described before, by its kind."""
        if isinstance(thing, ModuleType):
            self._write("module", thing.__name__)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif isinstance(thing, MethodType | BuiltinFunctionType):
            self._write("method", thing.__qualname__)
            self.add(thing.__self__)
        elif isinstance(thing, CodeType):
            self._add_code(thing)
        elif isinstance(thing, type):
            self._add_class(thing)
        elif isinstance(thing, partial):
            self._write("partial")
            call = cast("partial[Any]", thing)
            self._add_all([call.func, *call.args])
            self._add_mapping(call.keywords)
        elif isinstance(thing, re.Pattern):
            pattern = cast("re.Pattern[Any]", thing)
            self._write("pattern", repr(pattern.pattern), str(pattern.flags))
        elif isinstance(thing, Enum):
            self._write("member", thing.name)
            self.add(type(thing))
        elif isinstance(thing, Logger):
            self._write("logger", thing.name)
        elif isinstance(thing, staticmethod):
            self._write("static method")
            self.add(cast("staticmethod[..., Any]", thing).__func__)
        elif isinstance(thing, classmethod):
            self._write("class method")
            self.add(cast("classmethod[Any, ..., Any]", thing).__func__)
        elif isinstance(thing, property):
            self._write("property")
            self._add_all([thing.fget, thing.fset, thing.fdel])
        elif hasattr(thing, "__wrapped__") and type(thing).__module__ == "functools":
            self._write("cached function")  # what it has computed so far does not matter
            self.add(thing.__wrapped__)
        else:
            self._add_object(thing)

    def _add_all(self, things: Sequence[Any]) -> None:
        self._write("sequence", str(len(things)))
        for thing in things:
            self.add(thing)

    def _add_mapping(self, mapping: Mapping[Any, Any]) -> None:
        """Describe the items of a mapping in their order, which a function may depend on."""
        self._write("mapping", str(len(mapping)))
        for key, value in mapping.items():
            self.add(key)
            self.add(value)

    def _add_bytes(self, value: bytes) -> None:
        if len(value) > MAX_BYTES:
            raise UnidentifiableError(f"it refers to {len(value):,} bytes")
        self._write("bytes", str(len(value)))
        self.digest.update(value)

    def _add_function(self, function: FunctionType) -> None:
        """Describe a function by its name, its code, and the values that its code refers to.

        The code of a library's function is not read, but what it is bound to is.
        """
        self._write("function", function.__module__ or "", function.__qualname__)
        self._add_all(function.__defaults__ or ())
        self._add_mapping(function.__kwdefaults__ or {})
        self._add_attributes(vars(function))
        attribute_names = set(_list_names(function.__code__))
        self._add_variables(_read_closure(function), attribute_names)
        if _is_library(function.__module__):
            return
        self.add(function.__code__)
        used = {n: v for n, v in function.__globals__.items() if n in attribute_names}
        self._add_variables(used, attribute_names)

    def _add_variables(
        self,
        variables: Mapping[str, Any],
        attribute_names: set[str],
        outer_modules: frozenset[str] = frozenset(),
    ) -> None:
        """Describe the variables that code refers to.

        `attribute_names` are the names that the code may read from a module. `outer_modules` are
        those in which these variables were found: modules may refer to each other.
        """
        for name in sorted(variables):
            value = variables[name]
            self._write("variable", name)
            self.add(value)
            if not isinstance(value, ModuleType) or _is_library(value.__name__):
                continue
            if value.__name__ not in outer_modules:
                inside = {n: v for n, v in vars(value).items() if n in attribute_names}
                self._add_variables(inside, attribute_names, outer_modules | {value.__name__})
        self._write("end of variables")

    def _add_code(self, code: CodeType) -> None:
        """Describe compiled code by what it does, without its file and line numbers."""
        self._write(
            "code",
            code.co_code.hex(),
            repr(code.co_names),
            repr(code.co_varnames),
            repr(code.co_freevars),
            repr(code.co_cellvars),
            str(code.co_argcount),
            str(code.co_posonlyargcount),
            str(code.co_kwonlyargcount),
            str(code.co_flags),
            code.co_exceptiontable.hex(),
        )
        self._add_all(code.co_consts)

    def _add_class(self, cls: type) -> None:
        """Describe a class by its name, its bases and what it defines."""
        self._write("class", cls.__module__, cls.__qualname__)
        if _is_library(cls.__module__):
            return
        self._add_all(cls.__bases__)
        attributes: dict[str, Any] = {}
        for name, value in vars(cls).items():
            # Python and pydantic keep notes about a class under such names, such as `__doc__`.
            is_note = name.startswith("__") and name.endswith("__") and not callable(value)
            if not is_note and name != "_abc_impl":
                attributes[name] = value
        self._add_attributes(attributes)

    def _add_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Describe attributes in the order of their names."""
        for name in sorted(attributes):
            self._write("attribute", name)
            self.add(attributes[name])
        self._write("end of attributes")

    def _add_object(self, thing: Any) -> None:
        """Describe an object by its class and its contents."""
        self._write("object")
        cls = cast("type[Any]", type(thing))
        self.add(cls)
        if _is_library(cls.__module__):
            # These identify an object completely: the id of a model of this package, and the URL
            # that the client of an SDK asks.
            name = getattr(thing, "id", None) or getattr(thing, "base_url", None)
            if name is not None:
                self._write("id", str(name))
                return
        if isinstance(thing, list | tuple):
            self._add_all(cast("Sequence[Any]", thing))
        elif isinstance(thing, dict | MappingProxyType):
            self._add_mapping(cast("Mapping[Any, Any]", thing))
        elif isinstance(thing, set | frozenset):
            members = cast("set[Any]", thing)
            self._write("set", *sorted(identify(member) for member in members))
        if cls in _CONTAINERS:
            return
        size = getattr(cast("Any", thing), "nbytes", 0)
        if isinstance(size, int) and size > MAX_BYTES:
            raise UnidentifiableError(f"it refers to a {cls.__qualname__} of {size:,} bytes")
        self._add_state(thing)

    def _add_state(self, thing: Any) -> None:
        """Describe what an object would be pickled as.

        A class of this package may say by `identity_state` what decides its results. For any other
        object, the method of `object` itself is called. It refuses classes written in C that do not say
        how their objects are pickled, where a class's own method might copy a whole model.
        """
        read_state = getattr(cast("type[Any]", type(thing)), "identity_state", None)
        if read_state is not None:
            self.add(read_state(thing))
            return
        try:
            reduced = object.__reduce_ex__(thing, 2)
        except Exception as error:  # noqa: BLE001 - a class of users may raise anything
            if self._skips_unreadable:
                return
            name = f"{type(thing).__module__}.{type(thing).__qualname__}"
            raise UnidentifiableError(
                f"it refers to a {name}, which cannot be read: {error}"
            ) from None
        if isinstance(reduced, str):
            self._write("name", reduced)
            return
        parts: list[Any] = [*reduced, None, None, None]
        _, arguments, state, list_items, dict_items = parts[:5]
        self._add_all(arguments)
        if isinstance(state, dict):
            attributes = cast("dict[Any, Any]", state)
            self._add_attributes({str(name): value for name, value in attributes.items()})
        else:
            self.add(state)
        self._add_all(list(list_items or ()))
        self._add_mapping(dict(dict_items or ()))

    def _write(self, *texts: str) -> None:
        """Add texts to the digest, each with its length, so that they cannot run together."""
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self.digest.update(f"{len(data)}:".encode())
            self.digest.update(data)


_CONTAINERS: Final = (list, tuple, dict, set, frozenset, MappingProxyType)


def _read_closure(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function refers to, by name."""
    variables: dict[str, Any] = {}
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        with suppress(ValueError):  # a variable that has no value yet
            variables[name] = cell.cell_contents
    return variables


def _list_names(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses for global values and attributes, also in inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_names(constant)


@lru_cache(maxsize=4096)
def _is_library(module_name: str | None) -> bool:
    """Return whether a module is part of Python, of this package or of an installed package."""
    if module_name is None:
        return False
    package = module_name.partition(".")[0]
    if package == "assay" or (package in sys.stdlib_module_names and package != "__main__"):
        return True
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file is None:
        return False
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return any(PurePath(file).is_relative_to(folder) for folder in folders)


# Functions as judges.

# The tokens of objects that have no identity across processes, by their id, each with a weak
# reference to its object, since the id of one that is gone may be given to another.
_TOKENS: dict[int, tuple["weakref.ref[Any]", str]] = {}


def get_qualified_name(thing: object) -> str:
    """Return the `module:name` of a function or class, or of the class of another object.

    A `partial` has the name of its function.
    """
    while isinstance(thing, partial):
        thing = cast("partial[Any]", thing).func
    named: Any = thing if hasattr(thing, "__qualname__") else type(thing)
    module = getattr(named, "__module__", "builtins")  # methods such as `str.upper` have none
    return f"{module}:{named.__qualname__}"


def identify_judge(function: object) -> str:
    """Return the name under which the answers of a function are kept.

    - With an attribute `judge_id`, that is its name.
    - A function that can be imported is known by its path and its code.
    - A method, a closure, a lambda, a `partial` or a callable object gets a name that no other
      object has, in this process or in any other.
    """
    judge_id = getattr(function, "judge_id", None)
    if isinstance(judge_id, str) and judge_id:
        return judge_id
    path = get_qualified_name(function)
    if not has_own_name(function):
        return f"{path}#{_get_token(function)}"
    identifier = _Identifier(skips_unreadable=True)
    identifier.add(function)
    return f"{path}@{identifier.digest.hexdigest()[:12]}"


def has_own_name(function: object) -> bool:
    """Return whether a function can be imported by its name: no method, closure or lambda can."""
    if not isinstance(function, FunctionType) or function.__closure__:
        return False
    module = sys.modules.get(function.__module__)
    return getattr(module, function.__qualname__, None) is function


def _get_token(thing: object) -> str:
    """Return a text that no other object has. The same object always gets the same one."""
    owner = thing
    suffix = ""
    if isinstance(thing, MethodType):
        # Each access makes another bound method, so the token is that of the object.
        owner = thing.__self__
        suffix = f".{thing.__name__}"
    reference, token = _TOKENS.get(id(owner), (None, ""))
    if reference is None or reference() is not owner:
        token = uuid.uuid4().hex[:12]
        # An object that cannot be referred to weakly gets a new token from every call.
        with suppress(TypeError):
            _TOKENS[id(owner)] = (weakref.ref(owner), token)
    return token + suffix


def hash_settings(settings: object) -> str:
    """Return a keyed hash of settings that may hold secrets, for a cache key.

    The key separates these hashes from all others, so that a known SHA-256 of a secret does not
    show where it was used.
    """
    text = json.dumps(settings, sort_keys=True, default=identify_or_token)
    key = b"assay settings of a model"
    return hashlib.blake2b(text.encode(), key=key, digest_size=12).hexdigest()


def identify_or_token(thing: object) -> str:
    """Return the identity of a thing; if it has none, a text that no other object has."""
    try:
        return identify(thing)
    except UnidentifiableError:
        return _get_token(thing)
