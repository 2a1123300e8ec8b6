"""RowForm: a row as a line of rollouts.jsonl, and back."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from assay.criterion import Criterion
from assay.errors import AssayError
from assay.redaction import redacted
from assay.report import EvaluationReport
from assay.runs.compact import Compact
from assay.runs.errors import RunError, RunRefused
from assay.runs.plain import as_ascii, as_text, plain, quoted
from assay.runs.row import LARGEST_SAMPLE, Key, Row
from assay.runs.spending import NOTHING, Spending
from assay.wording import first_error, short_repr

_OPENING = re.compile(
    rb'\{"example":"([^"\\]*)","sample":(\d{1,15}),(?:"row":(\d{1,15}),)?("errors":)?'
)
"""How nearly every line begins: enough to know whose it is, and whether it is to be done again."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    "fields": (dict,), "error": (str, NoneType), "spent": (dict, NoneType), "timing": (dict,),
    "model": (str, NoneType), "exchanges": (list,), "altered": (list,), "errors": (dict,),
    "answers": (list, NoneType), "report": (dict,), "row": (int, NoneType),
    "score": (int, float, NoneType), "reward": (int, float, NoneType),
}  # fmt: skip
"""What may stand on a line besides its key."""


class Opening(NamedTuple):
    """What the opening of a line tells."""

    key: Key
    number: int | None
    """The place of the row in the data; None when that is not known."""
    has_errors: bool
    """Whether anything on it went wrong, so that it is done again on resuming."""


class RowForm:
    """Writes and reads the rows of one run, whose criteria are known."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._compact = Compact(criteria)

    def written(self, row: Row, fields: tuple[str, tuple[str, ...]]) -> bytes:
        """One line. The `fields` are the row's, made `holdable`, before a check could touch them."""
        if not 0 <= row.sample <= LARGEST_SAMPLE:
            raise RunRefused(f"a row has the sample {row.sample}: give 0 to {LARGEST_SAMPLE}")
        text, altered = fields
        quick = None if altered else self._quick(row)
        if quick is not None:
            try:
                return f'{quick},"fields":{text}}}\n'.encode()
            except UnicodeEncodeError:
                pass
        return self._slow(row, text, (*row.altered, *altered))

    def _quick(self, row: Row) -> str | None:
        """All but the fields, where there is nothing but numbers to say; a third of the work."""
        if row.error is not None or row.timing or row.spent is not NOTHING or row.exchanges:
            return None
        said = None if row.model or row.altered else self._compact.text(row.report)
        if said is None:
            return None
        number = "" if row.number is None else f'"row":{row.number},'
        return f'{{"example":{quoted(row.example)},"sample":{row.sample},{number}{said}'

    def _slow(self, row: Row, text: str, altered: Sequence[str]) -> bytes:
        head = self._head(row)
        if altered:
            head["altered"] = list(dict.fromkeys(altered))
        try:
            line = as_text(head)
        except (TypeError, ValueError):
            line = as_text(head := plain(head))
        try:
            return f'{line[:-1]},"fields":{text}}}\n'.encode()
        except UnicodeEncodeError:
            # Half a character, which JSON can name and UTF-8 cannot write.
            return as_ascii({**head, "fields": json.loads(text)}).encode() + b"\n"

    def _head(self, row: Row) -> dict[str, Any]:
        head: dict[str, Any] = {"example": row.example, "sample": row.sample}
        if row.number is not None:
            head["row"] = row.number
        said = self._compact.written(row.report) if row.error is None else {"error": row.error}
        errors = row.errors
        head |= redacted({"errors": errors, **said}) if errors else said
        if row.spent is not NOTHING and row.spent != NOTHING:
            head["spent"] = row.spent.to_dict()
        if row.timing:
            head["timing"] = dict(row.timing)
        if row.model is not None:
            head["model"] = row.model
        if row.exchanges:
            head["exchanges"] = list(row.exchanges)
        return head

    def read(self, line: bytes, where: str) -> Row:
        """The row of a line; its report is made when somebody looks."""
        data = data_of(line, where)
        row = object.__new__(Row)
        error: str | None = data.get("error")
        row.__dict__.update(
            example=data["example"],
            sample=data["sample"],
            fields=data.get("fields", {}),
            error=error,
            spent=_spending(data.get("spent"), where),
            timing=_timing(data.get("timing", {}), where),
            model=data.get("model"),
            exchanges=tuple(data.get("exchanges", ())),
            altered=tuple(map(str, data.get("altered", ()))),
            number=data.get("row"),
        )
        if error is not None:
            row.__dict__["report"] = EvaluationReport()
        else:
            row.__dict__["_make_report"] = lambda: self._report(data, where)
        return row

    def _report(self, data: Mapping[str, Any], where: str) -> EvaluationReport:
        try:
            return self._compact.read(data)
        except (AssayError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = first_error(error)[1] if isinstance(error, ValidationError) else str(error)
            raise _no_row(where, f"its report cannot be read: {why}") from error


def data_of(line: bytes, where: str) -> dict[str, Any]:
    """What stands on a line. Raises `RunError` when that is no row."""
    try:
        data: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _no_row(where, str(error)) from None
    if not isinstance(data, dict):
        raise _no_row(where, "it is no JSON object")
    found = cast("dict[str, Any]", data)
    if type(found.get("example")) is not str or type(found.get("sample")) is not int:
        raise _no_row(where, "it has no `example` (a text) and `sample` (a number)")
    if not 0 <= found["sample"] <= LARGEST_SAMPLE:
        raise _no_row(where, f"its sample is {found['sample']}")
    for name, kinds in _KINDS.items():
        if name in found and type(found[name]) not in kinds:
            raise _no_row(where, f"its {name} is {short_repr(found[name])}")
    if not 0 <= (found.get("row") or 0) <= LARGEST_SAMPLE:
        raise _no_row(where, f"its row is {found['row']}")
    return found


def opening_of(line: bytes, where: str) -> Opening:
    """Whose line it is, and whether anything on it went wrong, without reading the rest."""
    found = _OPENING.match(line)
    if found is not None and line.endswith(b"}\n"):
        example, sample, number, errors = found.groups()
        try:
            key = (example.decode(), int(sample))
        except UnicodeDecodeError as error:
            raise _no_row(where, str(error)) from None
        return Opening(key, None if number is None else int(number), errors is not None)
    data = data_of(line, where)
    return Opening((data["example"], data["sample"]), data.get("row"), bool(data.get("errors")))


def _spending(data: dict[str, Any] | None, where: str) -> Spending:
    if data is None:
        return NOTHING
    known = {each.name: each for each in fields(Spending)}
    for name, value in data.items():
        is_amount = type(value) in (int, float) or (name == "cost" and value is None)
        if name not in known or not is_amount:
            raise _no_row(where, f"it spent {short_repr(value)} {short_repr(name)}")
    return Spending(**data)


def _timing(data: dict[str, Any], where: str) -> dict[str, float]:
    for name, value in data.items():
        if type(value) not in (int, float):
            raise _no_row(where, f"its timing of {short_repr(name)} is {short_repr(value)}")
    return data


def _no_row(where: str, why: str) -> RunError:
    return RunError(
        f"{where}: this line is no row of a run ({why}): mend it, or delete the line and resume, "
        "which does its rollout again"
    )
