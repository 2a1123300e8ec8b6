"""Identify functions, objects and settings by everything that can change what they return.

The rule: if anything that can change an answer differs, the identity differs. What cannot be
identified has no identity, and is never equal to anything.

Some things are outside: what a function reads while it runs (files, the environment, a network),
what it imports by a name that it computes, and what `__getstate__` of an object leaves out. The
functions of an installed package are identified by their names and the version of the package.
Compiled code is compared, so the same function has another identity under another version of Python.
"""

import hashlib
import json
import re
import sys
import sysconfig
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from logging import Logger
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast, get_args, get_origin

from assay.module_source import compile_file, find_file, list_imports, list_passed_names

# The version of a rubric that cannot be identified.
UNKNOWN: Final = "unknown"

MAX_OBJECTS: Final = 20_000  # a function that refers to more objects is not identified
MAX_BYTES: Final = 16_000_000  # nor is one that refers to a larger array or byte string

# Values that are identified by their type and their `repr`. A subclass of users may hold more.
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

# Locks decide when something is computed, not what. They cannot be read, and checks often hold one.
_LOCK_TYPES: Final = (type(threading.Lock()), type(threading.RLock()))

# What Python and pydantic note about a class, besides what the class defines.
_CLASS_NOTES: Final = frozenset(
    {
        "__abstractmethods__",
        "__annotate__",
        "__annotate_func__",
        "__annotations__",
        "__annotations_cache__",
        "__dataclass_params__",
        "__dict__",
        "__firstlineno__",
        "__match_args__",
        "__module__",
        "__orig_bases__",
        "__parameters__",
        "__qualname__",
        "__signature__",
        "__slotnames__",
        "__slots__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
    }
)

# Functions that reach the variables of the module that calls them by names that they compute.
_NAMESPACE_NAMES: Final = frozenset({"eval", "exec", "globals", "modules", "vars"})

# The packages whose clients are identified by what they send with every call.
_CLIENT_PACKAGES: Final = frozenset({"anthropic", "google", "httpx", "httpx2", "openai"})


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
    identifier = _Identifier()
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

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._count = 0
        # The position of each object that was described, by its id. The objects are kept, since
        # the id of one that is gone may be given to another.
        self._positions: dict[int, int] = {}
        self._kept: list[object] = []
        # The modules of users whose files were described.
        self._module_files: set[str] = set()

    def add(self, thing: Any) -> None:
        """Describe an object. What was described before is only referred to."""
        if type(thing) is int:
            self._write("int", hex(thing))
        elif _is_plain(thing):
            self._write("plain", type(thing).__qualname__, repr(thing))
        elif type(thing) in (bytes, bytearray):
            self._write(type(thing).__name__)
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
        self._add_subclass(thing)
        if isinstance(thing, ModuleType):
            self._add_module(thing)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif isinstance(thing, MethodType):
            self._write("method")
            self._add_all([thing.__func__, thing.__self__])
        elif isinstance(thing, BuiltinFunctionType):
            self._write("built-in function", thing.__qualname__)
            self.add(thing.__self__)
        elif isinstance(thing, CodeType):
            self._add_code(thing)
        elif isinstance(thing, type):
            self._add_class(thing)
        elif isinstance(thing, GenericAlias | UnionType):
            self._write("type")
            self._add_all([get_origin(thing), *get_args(thing)])
        elif isinstance(thing, partial):
            self._write("partial")
            call = cast("partial[Any]", thing)
            self._add_all([call.func, *call.args])
            self._add_mapping(call.keywords)
            self._add_attributes(vars(call))
        elif isinstance(thing, re.Pattern):
            pattern = cast("re.Pattern[Any]", thing)
            self._write("pattern", repr(pattern.pattern), str(pattern.flags))
        elif isinstance(thing, Enum):
            self._write("member", thing.name)
            self.add(type(thing))
        elif isinstance(thing, Logger):
            self._write("logger", thing.name)
        elif isinstance(thing, _LOCK_TYPES):
            self._write("lock")
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

    def _add_subclass(self, thing: Any) -> None:
        """Describe the class of a partial, a property or the like, if users have made a subclass."""
        cls = cast("type[Any]", type(thing))
        if issubclass(cls, _EXTENDABLE_TYPES) and not _is_library(cls.__module__):
            self._write("subclass")
            self.add(cls)
            self._add_attributes(getattr(thing, "__dict__", {}))

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
        code = function.__code__
        attribute_names = set(_list_names(code))
        passed_names = list_passed_names(code)
        self._add_variables(_read_closure(function), attribute_names, passed_names)
        if _is_library_function(function):
            self._write("version", _read_version(function.__module__))
            return
        self.add(code)
        self.add(function.__doc__)
        self._add_annotations(function)
        variables = function.__globals__
        used = {name: value for name, value in variables.items() if name in attribute_names}
        self._add_variables(used, attribute_names, passed_names)
        self._add_imports(code, variables)
        if not _NAMESPACE_NAMES.isdisjoint(attribute_names):
            self._add_module_file(str(variables.get("__name__")))

    def _add_annotations(self, thing: Any) -> None:
        """Describe the annotations of a function or class, which validators and tools read."""
        annotations: dict[str, Any] = {}
        with suppress(Exception):  # they may name what is only there for a type checker
            annotations = dict(thing.__annotations__)
        self._write("annotations", str(len(annotations)))
        for name, annotation in annotations.items():
            identity = identify_or_unknown(annotation)
            # A type is written in the same way by all processes, unless it holds an object.
            self._write(name, repr(annotation) if identity == UNKNOWN else identity)

    def _add_variables(
        self,
        variables: Mapping[str, Any],
        attribute_names: set[str],
        passed_names: set[str],
        outer_modules: frozenset[str] = frozenset(),
    ) -> None:
        """Describe the variables that code refers to.

        `attribute_names` are the names that the code may read from a module, and `passed_names`
        those of variables with which it does something else. `outer_modules` are those in which
        these variables were found: modules may refer to each other.
        """
        for name in sorted(variables):
            value = variables[name]
            self._write("variable", name)
            if not isinstance(value, ModuleType) or name in passed_names:
                self.add(value)
                continue
            self._write("module", value.__name__, _read_version(value.__name__))
            if _is_library(value.__name__) or value.__name__ in outer_modules:
                continue
            names = {*attribute_names, "__getattr__"}
            inside = {n: v for n, v in vars(value).items() if n in names}
            modules = outer_modules | {value.__name__}
            self._add_variables(inside, attribute_names, set(), modules)
        self._write("end of variables")

    def _add_module(self, module: ModuleType) -> None:
        """Describe a module that code passes on: anything in it may be read."""
        self._write("module", module.__name__)
        if _is_library(module.__name__):
            self._write("version", _read_version(module.__name__))
            return
        # Users may set these to something else than the file says.
        values = {name: value for name, value in vars(module).items() if _is_setting(name, value)}
        self._add_attributes(values)
        self._add_module_file(module.__name__)

    def _add_imports(self, code: CodeType, variables: Mapping[str, Any]) -> None:
        """Describe the modules that code imports while it runs. They are not imported here."""
        package = variables.get("__package__") or ""
        for name in sorted(list_imports(code, str(package))):
            self._write("import", name)
            if _is_library(name):
                self._write("version", _read_distribution_version(name))
            elif find_file(name) is not None:
                self._add_module_file(name)

    def _add_module_file(self, name: str) -> None:
        """Describe the file of a user's module, and those of the modules that it imports."""
        self._write("module file", name)
        if name in self._module_files:
            return
        self._module_files.add(name)
        file = find_file(name)
        if file is None:
            raise UnidentifiableError(f"it refers to the module {name}, which has no file")
        try:
            if not file.endswith(".py"):
                self._add_bytes(Path(file).read_bytes())
                return
            code = compile_file(file)
        except (OSError, SyntaxError, ValueError) as error:
            raise UnidentifiableError(
                f"it refers to the module {name}, whose file cannot be read: {error}"
            ) from None
        self.add(code)
        is_package = PurePath(file).name == "__init__.py"
        package = name if is_package else name.rpartition(".")[0]
        self._add_imports(code, {"__package__": package})

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
        if _is_library_class(cls):
            self._write("version", _read_version(cls.__module__))
            return
        self._add_all([type(cls), *cls.__bases__])
        attributes: dict[str, Any] = {}
        for name, value in vars(cls).items():
            is_pydantic_note = name.startswith("__pydantic_")
            if name not in _CLASS_NOTES and not is_pydantic_note:
                attributes[name] = value
        # Pydantic removes the defaults of fields from the class.
        attributes["__pydantic_fields__"] = vars(cls).get("__pydantic_fields__")
        self._add_attributes(attributes)
        self._add_annotations(cls)

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
        if cls.__module__.startswith("assay.") and callable(thing):
            model_id = getattr(thing, "id", None)
            if isinstance(model_id, str):
                self._write("model", model_id)
                return
        if _is_of_client_package(cls):
            client = describe_client(thing)
            if client is not None:
                self._write("client")
                self.add(client)
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
            name = f"{type(thing).__module__}.{type(thing).__qualname__}"
            raise UnidentifiableError(
                f"it refers to a {name}, which cannot be read: {error}"
            ) from None
        if isinstance(reduced, str):
            self._write("name", reduced)
            self._add_attributes(getattr(thing, "__dict__", {}))
            return
        parts: list[Any] = [*reduced, None, None, None]
        _, arguments, state, list_items, dict_items = parts[:5]
        self._add_all(arguments)
        if not isinstance(type(thing).__reduce__, FunctionType) and state is None:
            # Classes written in C, such as `date`, leave out what a subclass adds.
            state = getattr(thing, "__dict__", None)
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


# Kinds of objects that are described by what they hold, and that users may extend.
_EXTENDABLE_TYPES: Final = (ModuleType, partial, Logger, staticmethod, classmethod, property)

_CONTAINERS: Final = (list, tuple, dict, set, frozenset, MappingProxyType)


def _is_plain(thing: object) -> bool:
    """Return whether a value is identified by its type and its `repr`."""
    if not isinstance(thing, _PLAIN_TYPES) or isinstance(thing, Enum):
        return False
    return type(thing) in _PLAIN_TYPES or _is_library(type(thing).__module__)


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


def _is_setting(name: str, value: object) -> bool:
    """Return whether a variable of a module is a plain value of users."""
    return not name.startswith("__") and (_is_plain(value) or type(value) is int)


def _is_library_function(function: FunctionType) -> bool:
    """Return whether a function was defined in a library.

    `functools.wraps` gives a function of users the `__module__` of the one that it wraps.
    """
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is function.__globals__ and _is_library(name)


def _is_library_class(cls: type) -> bool:
    """Return whether a class was defined in a library, and not made by a function of one."""
    if not _is_library(cls.__module__):
        return False
    if any(isinstance(value, _C_METHOD_TYPES) for value in vars(cls).values()):
        return True  # it is written in C, and such classes need not be found by their names
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


_C_METHOD_TYPES: Final = (MethodDescriptorType, WrapperDescriptorType)


@lru_cache(maxsize=4096)
def _is_library(module_name: object) -> bool:
    """Return whether a module is part of Python, of this package or of an installed package."""
    if not isinstance(module_name, str):
        return False
    package = module_name.partition(".")[0]
    if package == "assay" or (package in sys.stdlib_module_names and package != "__main__"):
        return True
    file = find_file(module_name)
    if file is None:
        return False
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return any(PurePath(file).is_relative_to(folder) for folder in folders)


@lru_cache(maxsize=4096)
def _read_distribution_version(module_name: str) -> str:
    """Return the version of a package that may not have been imported; empty if it has none."""
    package = module_name.partition(".")[0]
    if package != "assay" and package not in sys.stdlib_module_names:
        with suppress(PackageNotFoundError, ValueError):
            return metadata.version(package)
    return ""


@lru_cache(maxsize=4096)
def _read_version(module_name: str) -> str:
    """Return the version of the installed package of a module; empty if it has none.

    Python and this package have none: rubrics keep their version when those are replaced.
    """
    package = module_name.partition(".")[0]
    if package == "assay" or package in sys.stdlib_module_names or not _is_library(module_name):
        return ""
    version = getattr(sys.modules.get(package), "__version__", None)
    if version is None:
        with suppress(PackageNotFoundError, ValueError):
            version = metadata.version(package)
    return str(version or "")


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
    - A method, a closure, a lambda, a `partial`, a callable object, and a function whose code
      cannot be identified get a name that no other object has, in this process or in any other.
    """
    judge_id = _get_judge_id(function)
    if judge_id is not None:
        return judge_id
    path = get_qualified_name(function)
    identity = _identify_by_name(function)
    if identity is None:
        return f"{path}#{_get_token(function)}"
    return f"{path}@{identity[:12]}"


def has_lasting_name(function: object) -> bool:
    """Return whether `identify_judge` returns the same name in another process."""
    return _get_judge_id(function) is not None or _identify_by_name(function) is not None


def _get_judge_id(function: object) -> str | None:
    judge_id = getattr(function, "judge_id", None)
    return judge_id if isinstance(judge_id, str) and judge_id else None


def _identify_by_name(function: object) -> str | None:
    """Return the identity of a function that can be imported by its name.

    Return None for a method, a closure, a lambda, and for what cannot be identified.
    """
    if not isinstance(function, FunctionType) or function.__closure__:
        return None
    module = sys.modules.get(function.__module__)
    if getattr(module, function.__qualname__, None) is not function:
        return None
    try:
        return identify(function)
    except UnidentifiableError:
        return None


def _get_token(thing: object) -> str:
    """Return a text that no other object has. The same object always gets the same one."""
    if isinstance(thing, MethodType):
        # Each access makes another bound method, so the token is made of those of its parts.
        return f"{_get_token(thing.__self__)}.{_get_token(thing.__func__)}"
    owner = thing
    reference, token = _TOKENS.get(id(owner), (None, ""))
    if reference is None or reference() is not owner:
        token = uuid.uuid4().hex[:12]
        # An object that cannot be referred to weakly gets a new token from every call.
        with suppress(TypeError):
            _TOKENS[id(owner)] = (weakref.ref(owner), token)
    return token


def hash_settings(settings: object) -> str:
    """Return a keyed hash of settings that may hold secrets, for a cache key.

    The key separates these hashes from all others, so that a known SHA-256 of a secret does not
    show where it was used.
    """
    text = json.dumps(_with_text_keys(settings), sort_keys=True, default=identify_or_token)
    key = b"assay settings of a model"
    return hashlib.blake2b(text.encode(), key=key, digest_size=12).hexdigest()


def identify_or_token(thing: object) -> str:
    """Return the identity of a thing; if it has none, a text that no other object has."""
    try:
        return identify(thing)
    except UnidentifiableError:
        return _get_token(thing)


def _with_text_keys(value: Any) -> Any:
    """Return settings with the keys of all mappings as text, as JSON writes them."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return {str(key): _with_text_keys(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in cast("Sequence[Any]", value)]
    return value


# Clients of SDKs.

# Headers that an SDK sends on its own, and those that say whose account pays, as the key does.
_IGNORED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-version",
        "api-key",
        "authorization",
        "connection",
        "content-type",
        "openai-organization",
        "openai-project",
        "user-agent",
        "x-api-key",
        "x-goog-api-client",
        "x-goog-api-key",
    }
)


def select_own_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that may change an answer, by their names in lower case."""
    own_headers: dict[str, str] = {}
    for name, value in headers.items():
        lower_name = name.lower()
        is_of_sdk = lower_name in _IGNORED_HEADERS or lower_name.startswith("x-stainless-")
        # The SDK of OpenAI has an object in place of a header that it does not send.
        if isinstance(value, str) and not is_of_sdk:
            own_headers[lower_name] = value
    return own_headers


def read_client_settings(client: Any) -> dict[str, Any]:
    """Return what a client sends with every call, besides its key, that may change an answer."""
    settings: dict[str, Any] = {}
    google_options = getattr(getattr(client, "_api_client", None), "_http_options", None)
    # The client of httpx through which the SDKs of OpenAI and Anthropic send, which users may make.
    http_client = getattr(client, "_client", None)
    own_headers: dict[str, str] = {}
    for headers in (
        getattr(http_client, "headers", None),
        getattr(client, "default_headers", None) or getattr(google_options, "headers", None),
    ):
        if isinstance(headers, Mapping):
            own_headers.update(select_own_headers(cast("Mapping[str, Any]", headers)))
    if own_headers:
        settings["headers"] = own_headers
    query = getattr(client, "default_query", None)
    if isinstance(query, Mapping):
        own_query = dict(cast("Mapping[str, Any]", query))
        own_query.pop("api-version", None)  # the protocol of Azure, like `anthropic-version`
        if own_query:
            settings["query"] = own_query
    body = getattr(google_options, "extra_body", None)
    if isinstance(body, Mapping) and body:
        settings["body"] = dict(cast("Mapping[str, Any]", body))
    arguments = getattr(google_options, "client_args", None)
    async_arguments = getattr(google_options, "async_client_args", None)
    if arguments or async_arguments:
        settings["client_args"] = identify_or_token((arguments, async_arguments))[:12]
    settings.update(_read_http_settings(http_client))
    if not _is_of_client_package(cast("type[Any]", type(client))):
        settings["client"] = identify_or_token(client)[:12]
    return settings


def _is_of_client_package(thing: object) -> bool:
    """Return whether an SDK or httpx defines a class or function."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] in _CLIENT_PACKAGES


# The transports of httpx that send what they are given; a proxy may be None.
_PLAIN_TRANSPORTS: Final = frozenset({"AsyncHTTPTransport", "HTTPTransport", "NoneType"})


def _read_http_settings(http_client: Any) -> dict[str, Any]:
    """Return what users have added to the httpx client of an SDK, besides headers."""
    settings: dict[str, Any] = {}
    if not type(http_client).__module__.startswith(("httpx", "openai", "anthropic")):
        return settings
    if str(http_client.params):
        settings["http_query"] = str(http_client.params)
    own_parts: list[Any] = []
    for event, hooks in http_client.event_hooks.items():
        own_parts += [(event, hook) for hook in hooks if not _is_of_client_package(hook)]
    for transport in (http_client._transport, *http_client._mounts.values()):
        if type(transport).__name__ not in _PLAIN_TRANSPORTS:
            own_parts.append(transport)
    if http_client.auth is not None and not _is_of_client_package(
        cast("type[Any]", type(http_client.auth))
    ):
        own_parts.append(http_client.auth)
    if own_parts:
        settings["http_client"] = identify_or_token(own_parts)[:12]
    return settings


def describe_client(client: Any) -> dict[str, Any] | None:
    """Return the URL of an SDK's or an httpx client, and what it sends with every call.

    Return None if the object does not show a URL.
    """
    google_options = getattr(getattr(client, "_api_client", None), "_http_options", None)
    url = getattr(client, "base_url", None)
    if url is None:
        url = getattr(google_options, "base_url", None)
    if url is None:
        return None
    description: dict[str, Any] = {"url": str(url), **read_client_settings(client)}
    if type(client).__module__.startswith("httpx"):
        description["headers"] = select_own_headers(client.headers)
        description["query"] = str(client.params)
    return description
