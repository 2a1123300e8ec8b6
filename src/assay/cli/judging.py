"""Open the judge that the options name, with its cache and the media that it may read."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from assay import graders, runs
from assay.cli.base_command import print_note
from assay.errors import AssayError, CacheError, MissingExtraError, Refused
from assay.messages import media_access

if TYPE_CHECKING:
    from assay.cache import VerdictCache
    from assay.cli.options import JudgingOptions, ModelPrice, ViewOptions
    from assay.models import Model, Price


@contextmanager
def open_judge(
    options: JudgingOptions,
    rubric: object,
    *,
    quiet: bool,
    rows_need_judge: bool = False,
    rows_may_need_judge: bool = False,
    models_under_test: Sequence[str] = (),
) -> Generator[graders.Grader | None]:
    """Open the judge that the options name, with its cache.

    Yields None if no model is needed: code checks the whole rubric, or the rubric has its own judge.
    `rows_need_judge` says that rows bring rubrics that need a judge. With `rows_may_need_judge` that
    is not known, and the judge is opened if that is possible. `models_under_test` are the models
    whose answers are judged, if the command calls them.
    """
    from assay.plan import Traits

    needs_judge = Traits.of(rubric).asks_model or rows_need_judge
    uses_own_judge = options.judge is None and has_own_judge(rubric)
    if uses_own_judge:
        _refuse_unread_workspace(options)
        yield None
    elif needs_judge:
        with open_cache(options) as cache:
            model = make_judge_model(
                options, cache, quiet=quiet, models_under_test=models_under_test
            )
            yield make_grader(options, model)
    elif rows_may_need_judge:
        with open_cache(options) as cache:
            yield _make_optional_grader(
                options, cache, quiet=quiet, models_under_test=models_under_test
            )
    else:
        if _is_typed("judge"):
            print_note(
                f"{options.judge} is not asked: no criterion of the rubric needs a judge",
                quiet=quiet,
            )
        yield None


def _refuse_unread_workspace(options: JudgingOptions) -> None:
    if options.workspace is not None:
        raise click.UsageError(
            "the rubric has its own judge, which does not read --workspace: "
            "name another judge with --judge"
        )


def _make_optional_grader(
    options: JudgingOptions,
    cache: VerdictCache | None,
    *,
    quiet: bool,
    models_under_test: Sequence[str],
) -> graders.Grader | None:
    """Return the grader; None if no judge is named and there is no default judge."""
    try:
        model = make_judge_model(options, cache, quiet=quiet, models_under_test=models_under_test)
    except (Refused, MissingExtraError):
        if options.judge is not None:  # a judge that was named has to work
            raise
        return None
    return make_grader(options, model)


def do_rows_need_judge(rubrics: runs.RowRubrics, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any row brings a rubric with criteria for a judge.

    A rubric that cannot be read needs no judge; when its row is scored, that is an error.
    """
    for row in rows:
        if runs.row.own_rubric(row) is None:
            continue
        with suppress(AssayError):
            _, traits = rubrics.of(row)
            if traits.asks_model:  # a model answers some of its criteria
                return True
    return False


def has_own_judge(rubric: object) -> bool:
    """Return whether a rubric, written in Python, has a judge for all its judged criteria."""
    from assay.rubric import Rubric

    if not isinstance(rubric, Rubric):
        return False
    if rubric.grader is not None:
        return True
    # A rubric that asks a model but needs no judge has one in each of its nested rubrics.
    return rubric.traits.asks_model and not rubric.needs_judge


def _is_typed(parameter: str) -> bool:
    """Return whether an option was typed, not read from a file or the environment."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return False
    return ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


@contextmanager
def open_cache(options: JudgingOptions) -> Generator[VerdictCache | None]:
    """Open the cache that the options name; None if nothing is to be cached."""
    from assay.cache import VerdictCache

    if options.no_cache:
        yield None
        return
    cache = VerdictCache(options.cache)
    try:
        yield cache
    finally:
        # Closing stores the last verdicts. If that fails, the error is in the log, and the results
        # are complete without the cache.
        with suppress(CacheError):
            cache.close()


def make_judge_model(
    options: JudgingOptions,
    cache: VerdictCache | None,
    *,
    quiet: bool,
    models_under_test: Sequence[str] = (),
) -> Model:
    """Return the judge's model. In a dry run it is not called, so it needs no key and no weights."""
    from assay.models import model_of

    name = (options.judge or "").strip()
    if not name:
        raise Refused(f"no judge was named: {_advise_judge()}")
    # In a dry run any text will do as the key, but not a word of our messages, since keys are
    # removed from all that is printed. None reads the key from the environment.
    api_key = "no-key-in-a-dry-run" if options.dry_run else None
    model = model_of(
        name,
        api_key=api_key,
        price=find_price(options.prices, name, other_models=models_under_test),
        limits=options.limits,
        cache=cache,
        media=options.judge_media or None,
    )
    if not options.dry_run:
        check_local_model(name, quiet=quiet)
    return model


def _advise_judge() -> str:
    """Return advice on how to name a judge: one whose key is set, or else one on this machine."""
    from assay.local.weights import QWEN, weights_file
    from assay.models.providers import propose_model

    # A variable of the environment that holds a key, and a model of its provider.
    proposal = propose_model()
    if proposal is not None:
        key_variable, name = proposal
        return f"{key_variable} is set, so --judge {name} would do"
    advice = (
        "name one with --judge openai/gpt-5-mini, if OPENAI_API_KEY is set, or with "
        "--judge http://127.0.0.1:8000/v1#name, or "
    )
    try:
        weights_file("local")
    except Refused:  # no model was downloaded
        return f"{advice}get a local model with: assay models pull {QWEN.name}"
    return f"{advice}with --judge local, for the model on this machine"


def find_price(
    prices: Sequence[ModelPrice], model: str, *, other_models: Sequence[str] = ()
) -> Price | None:
    """Return the price that `--price` gives a model; None if it gives none.

    `other_models` are the others that the command calls. Raises a usage error if it is not clear
    whose price one is.
    """
    # Models inside this process cost nothing.
    names = [name for name in (model, *other_models) if not is_local_model(name)]
    if prices and not names:
        raise click.UsageError(f"--price: {model} runs on this machine and is free: drop it")
    price = None
    for model_price in prices:
        is_for_any_model = not model_price.model
        if is_for_any_model and len(set(names)) > 1:
            raise click.UsageError(
                f"--price: {' and '.join(names)} are called: name the model, as in "
                f"--price {names[0]}=0.5,1.5"
            )
        if not is_for_any_model and model_price.model not in names:
            raise click.UsageError(
                f"--price is for {model_price.model!r}, which this command does not ask: name "
                f"{' or '.join(names)}"
            )
        # A model inside this process is not in `names`, and has no price.
        if model in names and (is_for_any_model or model_price.model == model):
            price = model_price.price
    return price


def make_grader(options: JudgingOptions, model: Model) -> graders.Grader:
    """Return a grader of the kind that the options name; with `--guard`, one behind a guard."""
    from assay.server.settings import JudgeSettings

    try:
        settings = JudgeSettings(
            grader=cast("Any", options.grader),
            guard=options.guard,
            workspace=options.workspace,
            window=options.window,
        )
        return settings.build_grader(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def is_local_model(name: str) -> bool:
    """Return whether a model runs on this machine, inside this process."""
    return name.partition(":")[0] in ("local", "smoke")


def check_local_model(name: str, *, quiet: bool) -> None:
    """Print which model on this machine is asked, and raise an error if it cannot run.

    Models elsewhere are not checked.
    """
    from assay.local.weights import KNOWN, weights_file

    if not is_local_model(name):
        return
    if find_spec("xllamacpp") is None:
        raise MissingExtraError("a model on this machine", package="xllamacpp")
    model_name, path = weights_file(name)
    if quiet:
        return
    quality = ""
    if model_name in KNOWN:
        quality = f" ({KNOWN[model_name].measured})"
    print(f"asking {model_name}{quality}, from {path}", file=sys.stderr)


def allow_media_folder(folder: str | None, *, urls: bool = False) -> AbstractContextManager[None]:
    """Let rollouts name media in a folder, if one is given, and media at URLs if `urls`."""
    if folder is None and not urls:
        return nullcontext()
    return media_access(folder or (), urls=urls)


def allow_media(options: ViewOptions, data: Sequence[str]) -> AbstractContextManager[None]:
    """Let rollouts name media in `--media-folder`, or else in the folders of the data.

    `data` are the arguments of the command: files, folders or, for `assay grade`, texts.
    """
    if options.media_folder is not None:
        return media_access(options.media_folder, urls=options.media_urls)
    return media_access(_find_data_folders(data), urls=options.media_urls)


def _find_data_folders(data: Sequence[str]) -> list[Path]:
    """Return the folders of these files; for the folder of a run, those of the data that it scored.

    An argument of `assay grade` may be a text, which has no folder.
    """
    from assay.runs.metadata import media_folders
    from assay.runs.run_schema import is_run

    folders: list[Path] = []
    for name in data:
        if len(name) >= 1000:  # a text: the system refuses paths of that length with an error
            continue
        path = Path(name)
        if path.is_dir():
            folders.append(path)
        elif path.exists():
            folders.append(path.parent)
    if len(folders) == 1 and is_run(folders[0]):
        return media_folders(runs.Run.open(folders[0]).about)
    return folders
