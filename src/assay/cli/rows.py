"""A row as output shows it: its name, and its data for a program."""

import json
from typing import Any

from assay.runs.row import Row


def row_name(row: Row) -> str:
    """The example, and which of its samples where there are several.

    >>> row_name(Row("apples")), row_name(Row("apples", sample=2))
    ('apples', 'apples #2')
    """
    return f"{row.example} #{row.sample}" if row.sample else row.example


def row_data(row: Row, judge: str | None) -> dict[str, Any]:
    """Plain data, with who judged. `report` is what `EvaluationReport.from_dict` reads."""
    data: dict[str, Any] = {"example": row.example, "sample": row.sample}
    data |= {"score": row.score, "reward": row.reward, "errors": row.errors}
    data |= {"metrics": row.report.metrics, "report": row.report.to_dict()}
    data |= {
        "model": row.model,
        "judge": judge,
        "spent": row.spent.to_dict(),
        "timing": dict(row.timing),
    }
    return {**data, "fields": dict(row.fields)}


def json_text(data: object) -> str:
    """JSON on one line; what JSON has no word for is null."""
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(data), parse_constant=_none))


def _none(constant: str) -> None:
    """NaN and infinities are no JSON."""
