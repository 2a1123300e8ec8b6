"""Who judges: the model that was named, else ASSAY_MODEL, else one on this machine."""

import os
import sys
from importlib.util import find_spec

from assay.cache import VerdictCache
from assay.criterion import is_scorer
from assay.errors import MissingExtraError, Refused
from assay.graders import (
    Autograder,
    Guarded,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    RubricAsJudgeGrader,
)
from assay.models import Model, model_of
from assay.models.client import http_package
from assay.models.local_weights import KNOWN, weights_file
from assay.rubric import Rubric

LOCAL = "local"
"""Asked when nobody is named: it costs nothing and sends nothing away."""

_GRADERS = {
    "per-criterion": PerCriterionGrader,
    "one-shot": PerCriterionOneShotGrader,
    "holistic": RubricAsJudgeGrader,
}


def is_judged(rubric: object) -> bool:
    """Whether a model has to answer some criterion, here or in a rubric inside."""
    return isinstance(rubric, Rubric) and any(
        c.judged or (is_scorer(c.check) and is_judged(c.check)) for c in rubric.criteria
    )


def grader_of(kind: str, model: Model, *, guard: bool) -> Autograder:
    """The grader of that kind around a model, behind a guard on request."""
    grader = _GRADERS[kind](model=model)
    return Guarded(grader) if guard else grader


def judge_of(name: str | None, cache: VerdictCache | None, *, is_asked: bool) -> Model:
    """The model of that name, or the default. What is missing to ask it is said at once.

    One that is not asked needs no key.
    """
    source = name or os.environ.get("ASSAY_MODEL", "").strip() or LOCAL
    try:
        model = model_of(source, api_key=None if is_asked else "not asked", cache=cache)
    except Refused as error:
        if name is None and source == LOCAL:
            raise Refused(f"no --model was given, and {error}") from None
        raise
    if is_asked:
        http_package()
        _see_to_engine(source)
    return model


def _see_to_engine(source: str) -> None:
    if source.partition(":")[0] not in (LOCAL, "smoke"):
        return
    if find_spec("xllamacpp") is None:
        raise MissingExtraError("a model on this machine", package="xllamacpp", extra="local")
    name, path = weights_file(source)
    known = KNOWN.get(name)
    worth = f" ({known.measured})" if known is not None else ""
    print(f"asking {name}{worth}, from {path}", file=sys.stderr)
