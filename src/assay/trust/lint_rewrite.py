"""Rewriting: a model's proposal for a criterion, taken only when what was wrong is gone."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel, Field

from assay.criterion import Criterion
from assay.models import Model, Request
from assay.trust.lint_finding import Hit

REWRITABLE: Final = frozenset(("R001", "R002", "R003", "R004", "R006"))
"""What other words can mend. What is at odds with something else is for people to settle."""

MOST_PARTS: Final = 6
LONGEST: Final = 2_000
"""Characters of a requirement that a model may propose."""

_VERSION = re.compile(r"<!-- version (\d+) -->\s*")


class Rewritten(BaseModel):
    """What a model proposes: the reason first, so that the words follow from it."""

    reason: str
    requirements: list[str] = Field(min_length=1, max_length=MOST_PARTS)


async def rewritten(
    model: Model,
    criterion: Criterion,
    hits: Sequence[Hit],
    hits_of: Callable[[Criterion], Sequence[Hit]],
) -> tuple[str, ...]:
    """The requirements that take the place of this one; several split it.

    Raises a `ModelError` when the model cannot be asked, or proposes what is wrong still.
    """
    wrong = {hit.rule for hit in hits}

    def complaint(value: Any) -> str | None:
        return _complaint(criterion, value.requirements, wrong, hits_of)

    asked = Request.of(_instructions(), _question(criterion, hits), schema=Rewritten)
    request = replace(asked, check=complaint, prompt=_version(), question=criterion.question_hash)
    reply = await model(request)
    return tuple(" ".join(text.split()) for text in reply.value.requirements)


def _complaint(
    criterion: Criterion,
    requirements: Sequence[str],
    wrong: set[str],
    hits_of: Callable[[Criterion], Sequence[Hit]],
) -> str | None:
    """What is wrong with a proposal; None when it can be taken."""
    if len(requirements) > 1 and "R001" not in wrong:
        return "it splits a criterion that asks one thing: give one requirement"
    for text in requirements:
        if not text.strip() or len(text) > LONGEST:
            return f"a requirement is {'blank' if not text.strip() else 'too long'}: write one sentence"
        for hit in hits_of(criterion.with_fields(requirement=text, name="")):
            if hit.rule in REWRITABLE:
                return f"{text!r} is no better: {hit.message}; {hit.fix}"
    return None


def _question(criterion: Criterion, hits: Sequence[Hit]) -> str:
    asked = {
        "requirement": criterion.requirement,
        "weight": criterion.weight,
        "choices": list(criterion.choices),
        "problems": [f"{hit.message}; {hit.fix}" for hit in hits],
    }
    return json.dumps(asked, ensure_ascii=False, indent=1)


@cache
def _file() -> str:
    return files("assay.trust").joinpath("prompts", "lint_rewrite.md").read_text(encoding="utf-8")


def _instructions() -> str:
    return _VERSION.sub("", _file(), count=1).strip()


def _version() -> str:
    version = _VERSION.match(_file())
    assert version is not None, "prompts/lint_rewrite.md does not open with its version"
    return f"lint_rewrite/{version[1]}"
