"""Fill requirements with the columns of a row."""

from collections.abc import Mapping
from typing import Any

from assay.criterion import Criterion
from assay.graders.fences import fence_value
from assay.graders.prompt_text import system_prompt
from assay.placeholders import parse_template


def fill_requirement(criterion: Criterion, row: Mapping[str, Any]) -> Criterion:
    """Return the question that a criterion with placeholders asks about a row.

    The values are in fences, since they may come from anywhere. Raises `ColumnError` if the row
    lacks a column.
    """
    template = parse_template(criterion.requirement or "")
    requirement = template.fill(row)
    fenced = template.fill(row, write_value=fence_value)
    if fenced != requirement:
        requirement = f"{fenced}\n\n{system_prompt('filled')}"
    question = criterion.with_fields(requirement=requirement)
    question.memo["template_hash"] = criterion.question_hash
    return question
