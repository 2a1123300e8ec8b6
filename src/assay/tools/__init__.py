"""Tools that a model can call. Each takes text and gives text, and a failure begins with `Error:`.

arithmetic   calculator: an expression, worked out and never run; operations keeps numbers small
interpreter  python: code, run in a process of its own; program is our end of it
warden       the process that watches it, and puts up fences; system, landlock and seccomp ask Linux for them
failures     how a tool says that it failed, and how one can tell
"""

from typing import TYPE_CHECKING

from assay.lazy import lazily

if TYPE_CHECKING:
    from assay.tools.arithmetic import calculator as calculator
    from assay.tools.failures import failure as failure
    from assay.tools.failures import is_failure as is_failure
    from assay.tools.interpreter import Interpreter as Interpreter
    from assay.tools.interpreter import python as python
    from assay.tools.interpreter import python_async as python_async

_HOMES = {
    "Interpreter": "interpreter",
    "calculator": "arithmetic",
    "failure": "failures",
    "is_failure": "failures",
    "python": "interpreter",
    "python_async": "interpreter",
}

__all__ = ["Interpreter", "calculator", "failure", "is_failure", "python", "python_async"]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
