"""Packing: rollouts as the JSON that a reward server takes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel

from assay.graders.judge_input import view_of
from assay.rollout import Batch
from assay.wording import short_repr

_FIELDS: Final = frozenset({"prompt", "completion", "answer", "task", "info"})


def rows_of(batch: Batch) -> list[bytes]:
    """Every rollout of a batch as JSON; raises `TypeError` for what JSON cannot carry."""
    _refuse_views(batch)
    pairs = enumerate(zip(batch.rows, batch.states, strict=True))
    return [_packed(place, row, state) for place, (row, state) in pairs]


def bodies(rows: Sequence[bytes]) -> bytes:
    """The request to score rollouts."""
    return b'{"rollouts":[' + b",".join(rows) + b'],"report":true}'


def _packed(place: int, row: Mapping[str, Any], state: Mapping[str, Any]) -> bytes:
    try:
        return _written(_body(row, state))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"rollout {place} cannot be sent to a server: {error}") from None


def _body(row: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    if row is state or "completion" not in row:
        return {"state": dict(row)}
    body = {name: row[name] for name in row if name in _FIELDS}
    columns = {name: row[name] for name in row if name not in _FIELDS}
    return (
        body | ({"state": dict(state)} if state else {}) | ({"columns": columns} if columns else {})
    )


def _written(body: dict[str, Any]) -> bytes:
    options: dict[str, Any] = {"separators": (",", ":"), "allow_nan": False, "default": _plain}
    try:
        return json.dumps(body, ensure_ascii=False, **options).encode()
    except UnicodeEncodeError:  # half a character, which only an escape can carry
        return json.dumps(body, **options).encode()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"JSON has no form for {short_repr(value)}")


def _refuse_views(batch: Batch) -> None:
    """Refuse what a judge would read here and could not read there."""
    for row, view in zip(batch.rows, batch.views or (), strict=False):
        if view_of(row["completion"])[1] != view:
            raise TypeError(
                "a remote rubric grades a text or messages: join thinking and output into one text"
            )
