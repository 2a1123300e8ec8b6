"""The errors that assay raises are one small tree.

    AssayError
    ├── RubricError (ValueError)            a rubric or criterion cannot be built as written
    │   └── RubricFileError                 … and the file, line and field are known
    ├── SignatureError (TypeError)          a check asks for an argument that nothing can supply
    ├── JudgeError                          a judge's reply is no verdict we offered
    ├── ModelError                          a model could not be asked, or gave no usable reply
    │   ├── Refused                         the endpoint refuses the request: key, name, parameters
    │   ├── RateLimited                     … asks to be left alone, still after the last retry
    │   ├── Overloaded                      … fails or cannot be reached, still after the last retry
    │   │   ├── CircuitOpen                 … and has for so long that it is not asked for now
    │   │   └── NoReply                     … or answers with no reply in it
    │   ├── DeadlineExceeded (TimeoutError) no answer in the time given
    │   ├── BudgetExceeded                  the run may not spend more
    │   │   └── NotAsked                    … and nothing at all: it is a dry run
    │   ├── Truncated                       the reply was cut off: no verdict
    │   └── Unreadable (JudgeError)         the reply cannot be read as what was asked for
    │       └── OffMenu                     … or gives a verdict that was not on offer
    ├── RunError (assay.runs)               a run's folder cannot be read, written or gone on with
    │   └── RunRefused (ValueError)         … since what was given does not fit it
    ├── MediaError (ValueError)             an image, audio or file cannot be read, or is not what it says
    ├── TableError (assay.tables)           rows cannot be read as they stand
    ├── FetchError (assay.models.http)      a URL may not be fetched, or gives nothing
    ├── ToolError (assay.envs)              a function cannot be a tool
    ├── TrustError (ValueError)             too little to say how far a judge is to be trusted
    │   └── LabelError                      … or a label that cannot be read
    ├── UnscoredError (assay.aggregation)   a trainer wants a number where there is none
    ├── CacheError                          a verdict cache cannot be opened, read or written
    ├── GradingError                        a text could not be graded whole; holds the partial report
    └── MissingExtraError (ImportError)     an optional dependency is not installed

A check or judge that fails while scoring is none of these: it becomes an error on its line of the
report, where it can be seen and counted.
"""

from importlib import import_module
from typing import Any

from assay.redaction import redacted


class AssayError(Exception):
    """Anything `assay` raises on purpose. Its message holds no key, password or login."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*map(redacted, arguments))


class RubricError(AssayError, ValueError):
    """A rubric or criterion cannot be built as written."""


class RubricFileError(RubricError):
    """A rubric file is wrong; the message names file, line and field."""

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, field: str = ""
    ) -> None:
        where = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{where}: {message}" if where else message)
        self.path = path
        self.line = line
        self.field = field


class SignatureError(AssayError, TypeError):
    """A check asks for an argument that nothing can supply."""


class JudgeError(AssayError):
    """A judge's reply is no verdict that was offered."""


class MediaError(AssayError, ValueError):
    """An image, an audio clip or a file cannot be read, or is not what it says that it is."""


class ModelError(AssayError):
    """A model could not be asked, or gave no usable reply."""


class Refused(ModelError):
    """The endpoint refuses the request, and would again: a wrong key, name or parameter."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # the HTTP status, where it was one


class RateLimited(ModelError):
    """The endpoint asked to be left alone, still after the last retry."""


class Overloaded(ModelError):
    """The endpoint fails or cannot be reached, still after the last retry."""


class CircuitOpen(Overloaded):
    """The endpoint has failed for so long that it is not asked for now."""


class NoReply(Overloaded):
    """The endpoint answered, and there is no reply in what it answered."""


class DeadlineExceeded(ModelError, TimeoutError):
    """There was no answer in the time given to the call or to the run."""


class BudgetExceeded(ModelError):
    """The run may not spend more; what is answered stays answered."""


class NotAsked(BudgetExceeded):
    """The call was counted and not made, for this is a dry run."""


class Truncated(ModelError):
    """The reply was cut off before its end, so nothing in it counts."""


class Unreadable(ModelError, JudgeError):
    """The reply cannot be read as what was asked for."""


class OffMenu(Unreadable):
    """The reply gives a verdict that was not on offer."""


class CacheError(AssayError):
    """A verdict cache cannot be opened, read or written; the message says what to do."""


class GradingError(AssayError):
    """A text could not be graded whole. `report` holds what was answered and each error."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


class TrustError(AssayError, ValueError):
    """A question about a judge that the given runs, labels or responses cannot answer."""


class LabelError(TrustError):
    """Labels cannot be read, or do not fit the run they are for."""


class MissingExtraError(AssayError, ImportError):
    """An optional dependency is not installed; the message says what to install."""

    def __init__(self, purpose: str, *, package: str = "", extra: str = "") -> None:
        # Unpickled, it is made of its message alone.
        install = f"'assay[{extra}]'" if extra else package
        needs = f" needs the package {package!r}, which is not installed: pip install {install}"
        super().__init__(purpose + needs if package else purpose)


def import_extra(module: str, purpose: str, *, extra: str = "", package: str = "") -> Any:
    """The module of an optional dependency; raises `MissingExtraError` with the purpose when it is not installed.

    Without an `extra` the package itself is to be installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(
            purpose, package=package or module.partition(".")[0], extra=extra
        ) from None
