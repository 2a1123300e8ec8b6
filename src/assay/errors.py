"""The errors that assay raises.

    AssayError
    ├── RubricError (ValueError)            a rubric or criterion cannot be built as written
    │   └── RubricFileError                 the same in a file, with its path, line and field
    ├── ColumnError (ValueError)            a row lacks a column that a placeholder or reference names
    ├── SignatureError (TypeError)          a check has an argument that nothing can supply
    ├── JudgeError                          a judge's reply is not one of the offered verdicts
    ├── ModelError                          a model could not be called, or gave no usable reply
    │   ├── Refused                         the endpoint refuses the request: key, name, parameters
    │   ├── RateLimited                     the rate limit still applied after the last retry
    │   ├── Overloaded                      the endpoint still failed after the last retry
    │   │   ├── Unreachable                 nothing accepts connections at its address
    │   │   ├── CircuitOpen                 it failed for so long that it is not called for now
    │   │   └── NoReply                     it answered without a reply
    │   ├── DeadlineExceeded (TimeoutError) there was no answer before the deadline
    │   ├── BudgetExceeded                  the run may not spend more
    │   │   └── NotAsked                    a dry run makes no calls
    │   ├── Truncated                       the reply was cut off, so it has no verdict
    │   └── Unreadable (JudgeError)         the reply does not have the requested format
    │       └── OffMenu                     the reply gives a verdict that was not offered
    ├── RunError (assay.runs)               a run's folder cannot be read, written or resumed
    │   └── RunRefused (ValueError)         the input does not fit the run
    ├── MediaError (ValueError)             an image, audio or file cannot be read, or has a wrong type
    ├── TableError (assay.tables)           rows cannot be read
    ├── FetchError (assay.models.http)      a URL may not be fetched, or has no content
    ├── ToolError (assay.envs)              a function cannot be used as a tool
    ├── TrustError (ValueError)             the data are not enough to assess a judge
    │   └── LabelError                      a label cannot be read
    ├── UnscoredError (assay.aggregation)   a trainer needs a number for an unscored rollout
    ├── CacheError                          a verdict cache cannot be opened, read or written
    ├── GradingError                        some criteria have no answer; holds the partial report
    └── MissingExtraError (ImportError)     an optional dependency is not installed

A check or judge that fails during scoring raises none of these: its error is recorded on its line
of the report.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from assay.redaction import redact


class AssayError(Exception):
    """Base class of all errors that assay raises. Keys, passwords and logins are removed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*map(redact, arguments))


class RubricError(AssayError, ValueError):
    """A rubric or criterion cannot be built as written."""


class RubricFileError(RubricError):
    """A rubric file is wrong; the message begins with its path and line."""

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, field: str = ""
    ) -> None:
        location = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{location}: {message}" if location else message)
        self.path = path
        self.line = line
        self.field = field


class ColumnError(AssayError, ValueError):
    """A row has no value in a column that a placeholder or a reference names."""


class SignatureError(AssayError, TypeError):
    """A check has an argument that nothing can supply."""


class JudgeError(AssayError):
    """A judge's reply is not one of the offered verdicts."""


class MediaError(AssayError, ValueError):
    """An image, an audio clip or a file cannot be read, or is not of its declared type."""


class ModelError(AssayError):
    """A model could not be called, or gave no usable reply."""


class Refused(ModelError):
    """The endpoint refuses the request; a retry would not help: a wrong key, name or parameter."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # the HTTP status, if there was a response


class RateLimited(ModelError):
    """The rate limit of the endpoint still applied after the last retry."""


class Overloaded(ModelError):
    """The endpoint still failed, or could not be reached, after the last retry."""


class Unreachable(Overloaded):
    """Nothing accepts connections at the address of the endpoint."""


class CircuitOpen(Overloaded):
    """The endpoint has failed for so long that it is not called for now."""


class NoReply(Overloaded):
    """The endpoint answered, but its answer contains no reply of the model."""


class DeadlineExceeded(ModelError, TimeoutError):
    """There was no answer before the deadline of the call or of the run."""


class BudgetExceeded(ModelError):
    """The run may not spend more. Answers that it already has are kept."""


class NotAsked(BudgetExceeded):
    """The call was counted but not made, because this is a dry run."""


class Truncated(ModelError):
    """The reply was cut off before its end, so it is not used."""


class Unreadable(ModelError, JudgeError):
    """The reply does not have the requested format."""


class OffMenu(Unreadable):
    """The reply gives a verdict that was not offered."""


class CacheError(AssayError):
    """A verdict cache cannot be opened, read or written; the message says what to do."""


class GradingError(AssayError):
    """Some criteria have no answer. `report` holds the answers and the errors."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


class TrustError(AssayError, ValueError):
    """The given runs, labels or responses are not enough to assess a judge."""


class LabelError(TrustError):
    """Labels cannot be read, or do not fit their run."""


DISTRIBUTION = "assay-rubrics"  # the name on PyPI, where `assay` is another package


class MissingExtraError(AssayError, ImportError):
    """An optional dependency is not installed; the message says what to install."""

    def __init__(self, purpose: str, *, package: str = "", extra: str = "") -> None:
        message = purpose
        # Without a package, `purpose` is the whole message: that is how the error is unpickled.
        if package:
            requirement = find_requirement(extra) if extra else package
            message = (
                f"{purpose} needs the package {package!r}, which is not installed: "
                f"pip install {requirement}"
            )
        super().__init__(message)


def find_requirement(extra: str) -> str:
    """Return what to give pip to install an extra of assay.

    That is the distribution, `'assay-rubrics[server]'`, or the folder of the clone that assay was
    installed from: `'.[server]'` if it is the current folder.
    """
    source = DISTRIBUTION
    clone = _find_clone()
    if clone is not None:
        source = "." if clone == Path.cwd() else str(clone)
    return f"'{source}[{extra}]'"


def _find_clone() -> Path | None:
    """Return the folder that assay was installed from by pip; None if that was a package index."""
    # Loaded late: they would take a good part of the time of `import assay`.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if origin is None:
        return None
    record: dict[str, Any] = json.loads(origin)
    if "dir_info" not in record:
        return None
    address: str = record["url"]
    return Path(unquote(urlsplit(address).path))


def import_extra(module: str, purpose: str, *, extra: str = "", package: str = "") -> Any:
    """Import a module of an optional dependency; raise `MissingExtraError` if it is missing.

    The message names `purpose`, which needs the module, and how to install it: by an extra of
    assay, or without `extra` by the package itself.
    """
    try:
        return import_module(module)
    except ImportError:
        package = package or module.partition(".")[0]
        raise MissingExtraError(purpose, package=package, extra=extra) from None
