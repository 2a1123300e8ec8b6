"""Who judges: the model that was named, else one on this machine."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

from assay.cache import VerdictCache
from assay.cli.options import JudgeOptions
from assay.engine import Traits
from assay.errors import MissingExtraError, Refused
from assay.graders import Autograder, Guarded, PerCriterionGrader, PerCriterionOneShotGrader, RubricAsJudgeGrader
from assay.local.weights import KNOWN, weights_file
from assay.models import Model, model_of
from assay.models.resolve import BY_KEY, what_to_set
from assay.rubric import Rubric

LOCAL = "local"
"""Asked when nobody is named: it costs nothing and sends nothing away."""

_GRADERS = {"per-criterion": PerCriterionGrader, "one-shot": PerCriterionOneShotGrader, "holistic": RubricAsJudgeGrader}


@contextmanager
def judging_with(
    judging: JudgeOptions, rubric: object, *, quiet: bool, rows_may_ask: bool = False
) -> Generator[Autograder | None]:
    """The grader that the options name, with its cache.

    None where code answers everything, and where a rubric has a grader of its own and no other is
    named. Where only rows with rubrics of their own may ask, one is there if there can be.
    """
    has_own = judging.judge is None and has_own_grader(rubric)
    asks = Traits.of(rubric).asks
    if has_own or not (asks or rows_may_ask):
        yield None
        return
    cache = None if judging.no_cache else VerdictCache(judging.cache)
    try:
        yield _grader(judging, cache, quiet=quiet, can_do_without=not asks)
    finally:
        if cache is not None:
            cache.close()


def _grader(
    judging: JudgeOptions, cache: VerdictCache | None, *, quiet: bool, can_do_without: bool
) -> Autograder | None:
    try:
        model = judge_of(judging.judge, cache, is_asked=not judging.dry_run, quiet=quiet)
    except (Refused, MissingExtraError):
        if can_do_without and judging.judge is None:
            return None
        raise
    return grader_of(judging.grader, model, guard=judging.guard)


def has_own_grader(rubric: object) -> bool:
    """Whether a rubric, written in Python, says itself who judges."""
    return isinstance(rubric, Rubric) and rubric.autograder is not None


def grader_of(kind: str, model: Model, *, guard: bool) -> Autograder:
    """The grader of that kind around a model, behind a guard on request."""
    grader = _GRADERS[kind](model=model)
    return Guarded(grader) if guard else grader


def judge_of(name: str | None, cache: VerdictCache | None, *, is_asked: bool, quiet: bool) -> Model:
    """The model of that name, or the default. What is missing to ask it is said at once.

    One that is not asked needs no key.
    """
    source = (name or "").strip() or LOCAL
    try:
        model = model_of(source, api_key=None if is_asked else "not asked", cache=cache)
        if is_asked:
            see_to_engine(source, quiet=quiet)
    except Refused as error:
        if not name and any(os.environ.get(variable) for variable in BY_KEY):
            raise Refused(f"no judge was named, and no local model is here: {what_to_set()}") from None
        if not name:
            raise Refused(f"no judge was named, and {error}") from None
        raise
    return model


def see_to_engine(source: str, *, quiet: bool) -> None:
    if source.partition(":")[0] not in (LOCAL, "smoke"):
        return
    if find_spec("xllamacpp") is None:
        raise MissingExtraError("a model on this machine", package="xllamacpp", extra="local")
    name, path = weights_file(source)
    known = KNOWN.get(name)
    worth = f" ({known.measured})" if known is not None else ""
    if not quiet:
        print(f"asking {name}{worth}, from {path}", file=sys.stderr)
