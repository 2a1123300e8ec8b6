"""A rubric as data, as text, and as a hash."""

import json
from collections.abc import Sequence
from typing import Any

from assay.aggregation import AGGREGATIONS, Aggregation
from assay.criterion import Criterion
from assay.errors import RubricError
from assay.identity import hash_of, path_of, reference_of
from assay.loading.yaml_text import dump_yaml


def rubric_data(
    name: str, aggregation: Aggregation, criteria: Sequence[Criterion]
) -> dict[str, Any]:
    """What a rubric file holds; what is as usual is left out."""
    data: dict[str, Any] = {"name": name} if name else {}
    if aggregation is not AGGREGATIONS["weighted"]:
        data["aggregation"] = _written_aggregation(aggregation)
    try:
        return {**data, "criteria": [criterion.to_dict() for criterion in criteria]}
    except RecursionError:
        raise RubricError("rubrics are nested too deep to be written: flatten them") from None


def _written_aggregation(aggregation: Aggregation) -> str:
    if AGGREGATIONS.get(aggregation.name) is aggregation:
        return aggregation.name
    return reference_of(aggregation.over_lines or aggregation)


def rubric_hash(name: str, aggregation: Aggregation, criteria: Sequence[Criterion]) -> str:
    """The hash of what `rubric_data` gives, and of rubrics whose checks a file cannot hold."""
    own = aggregation.over_lines
    return hash_of(
        {
            "format": "assay.rubric/1",
            "name": name,
            "aggregation": aggregation.name if own is None else path_of(own),
            "criteria": [criterion.content_hash for criterion in criteria],
        }
    )


def group_hash(name: str, hashes: Sequence[str]) -> str:
    """The hash of a group, from those of its rubrics in order."""
    return hash_of({"format": "assay.group/1", "name": name, "rubrics": hashes})


def as_json(data: object) -> str:
    """Data as a JSON text that can be saved as UTF-8."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    return text if _is_unicode(text) else json.dumps(data, indent=2, allow_nan=False)


def as_yaml(data: object) -> str:
    """Data as a YAML text; raises for the half characters that only JSON can write."""
    if not _is_unicode(json.dumps(data, ensure_ascii=False)):
        raise RubricError("a text holds a lone surrogate, which YAML cannot write: use to_json")
    return dump_yaml(data)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
