"""Find what the options name: the rubric, the texts, the run, and the judge."""

import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

from assay.cache import VerdictCache
from assay.cli.options import JudgingOptions, RubricOptions, ViewOptions
from assay.cli.runner import say
from assay.errors import MissingExtraError, Refused
from assay.graders import Grader
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.local.weights import KNOWN, weights_file
from assay.messages import media_access
from assay.models import Model, model_of
from assay.models.providers import propose_model
from assay.models.resolve import what_to_set
from assay.plan import Traits
from assay.rubric import Rubric, rubric_at, rubric_in_python
from assay.runs import RowRubrics, Run
from assay.runs.folder import Folder
from assay.runs.metadata import media_folders
from assay.server.settings import Judge
from assay.tables import TableError, rows_of


def rubric_of(rubrics: RubricOptions) -> Rubric:
    """The rubric that is named. A file goes before a module of the same name."""
    name = rubrics.rubric or ""
    is_file = not is_reference(name) or Path(name).is_file()
    if (not is_file or rubrics.allow_code) and str(Path.cwd()) not in sys.path:
        sys.path.insert(
            0, str(Path.cwd())
        )  # modules of this folder are found, as `python -m` finds them
    rubric = (
        rubric_at(read_file(name), allow_code=rubrics.allow_code)
        if is_file
        else rubric_in_python(name)
    )
    if isinstance(rubrics, ViewOptions):
        apply_view(rubric, rubrics)
    return rubric


def apply_view(rubric: Rubric, options: ViewOptions) -> None:
    """Let options replace what a rubric says about what judges and checks read."""
    rubric.show(options.shows or None, thinking=options.thinking)
    if options.parser is not None:
        rubric.use_parser(options.parser)


def row_rubrics(rubric: Rubric | None, options: ViewOptions) -> RowRubrics:
    """Return the rubrics of rows; what options say replaces what the rubrics say."""
    return RowRubrics(
        rubric,
        shows=options.shows or None,
        thinking=options.thinking,
        parser=options.parser,
    )


TABLES = (
    ".jsonl",
    ".ndjson",
    ".csv",
    ".tsv",
    ".parquet",
)  # one text a row; a `.json` file may be the text itself
COMPLETION = (
    "completion",
    "response",
    "text",
    "output",
)  # what the field of a row is called, most usual first
PROMPT = ("prompt", "query", "question")
_PATH = re.compile(r"[^\s]*(?:[/\\][^\s]*|\.[A-Za-z]\w{0,4})")


# Its name, which is the file it is in or the words themselves, and the rollout it is from.
Text = tuple[str, dict[str, Any]]


def texts_of(arguments: Sequence[str], query: str = "", *, are_words: bool = False) -> list[Text]:
    """The texts that arguments stand for: a file, a table with one a row, `-` for standard input, or the words themselves.

    What looks like a path and is none is refused, and so is a folder.
    """
    found: list[Text] = []
    for argument in arguments:
        words, is_file, is_folder = argument.strip(), False, False
        with suppress(OSError):  # too long for a name
            is_file, is_folder = (
                bool(words) and Path(words).is_file(),
                bool(words) and Path(words).is_dir(),
            )
        if are_words or not (is_file or is_folder or words == "-" or _PATH.fullmatch(words)):
            shown = " ".join(argument.split())
            found.append(
                (f"{shown[:40]!r}{'…' if len(shown) > 40 else ''}", {"completion": argument})
            )
        elif is_file and words.endswith(TABLES):
            found += _rows(words)
        elif is_file or words == "-":
            with click.open_file(words, "rb") as file:
                data: bytes = file.read()
            try:
                found.append(
                    ("standard input" if words == "-" else words, {"completion": data.decode()})
                )
            except UnicodeDecodeError as error:
                raise TableError(f"{words} is no text in UTF-8: {error}") from None
        else:
            what = "is a folder, and not a file" if is_folder else "is no file"
            raise TableError(f"{words} {what}: name one, or give --text to grade these very words")
    return [(name, rollout | {"prompt": rollout.get("prompt") or query}) for name, rollout in found]


def _rows(path: str) -> Iterator[Text]:
    def first(row: dict[str, Any], names: Sequence[str]) -> Any:
        return next((row[name] for name in names if row.get(name) is not None), None)

    for number, row in enumerate(rows_of(path), start=1):
        name, completion = f"{path} row {number}", first(row, COMPLETION)
        if completion is None:
            raise TableError(f"{name} has no text: call its field {' or '.join(COMPLETION)}")
        own, prompt = first(row, ("id", "name", "example_id")), first(row, PROMPT)
        rollout = {**row, "completion": completion} | ({} if prompt is None else {"prompt": prompt})
        yield name if own is None else str(own), rollout


LOCAL = "local"  # asked when no judge is named: it costs nothing and sends nothing away


@contextmanager
def judging_with(
    judging: JudgingOptions, rubric: object, *, quiet: bool, rows_may_ask: bool = False
) -> Generator[Grader | None]:
    """The grader that the options name, with its cache; None where code answers everything, or a rubric has its own.

    Where only rows with rubrics of their own may ask, one is there if there can be.
    """
    asks, keeps_own = Traits.of(rubric).asks, judging.judge is None and has_own_grader(rubric)
    if keeps_own and getattr(judging, "workspace", None):
        own = "the rubric has a judge of its own, which does not look at --workspace"
        raise click.UsageError(f"{own}: name one with -m")
    with media_allowed(judging):
        if keeps_own or not (asks or rows_may_ask):
            if not keeps_own and _is_on_command_line("judge"):
                say(
                    f"{judging.judge} is not asked: no criterion of the rubric is for a judge",
                    quiet=quiet,
                )
            yield None
            return
        with opened_cache(judging) as cache:
            try:
                model = judge_of(judging, cache, quiet=quiet)
            except (Refused, MissingExtraError):
                if asks or judging.judge is not None:
                    raise
                yield None
            else:
                yield grader_of(judging, model)


def _is_on_command_line(parameter: str) -> bool:
    """Return whether an option was typed, and does not come from a file or the environment."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def media_allowed(judging: JudgingOptions) -> AbstractContextManager[None]:
    """Read media from the folder that the options name, or from those of the data; from URLs on request."""
    if not isinstance(judging, ViewOptions):
        return nullcontext()
    names: Sequence[str] = getattr(judging, "files", getattr(judging, "texts", ()))
    named = [Path(name) for name in names if len(name) < 1000 and Path(name).exists()]
    folders = [path if path.is_dir() else path.parent for path in named]
    if len(folders) == 1 and Folder(folders[0]).run_json.exists():
        folders = media_folders(Run.open(folders[0]).about)
    return media_access(judging.media_folder or folders, urls=judging.media_urls)


def opened_cache(judging: JudgingOptions) -> AbstractContextManager[VerdictCache | None]:
    return nullcontext() if judging.no_cache else closing(VerdictCache(judging.cache))


def has_own_grader(rubric: object) -> bool:
    """Whether a rubric, written in Python, says itself who judges."""
    return isinstance(rubric, Rubric) and rubric.autograder is not None


def grader_of(judging: JudgingOptions, model: Model) -> Grader:
    """The grader of the kind that is named around a model, behind a guard on request."""
    workspace = getattr(judging, "workspace", None)  # which not every command has
    try:
        kind = cast("Any", judging.grader)
        judge = Judge(grader=kind, guard=judging.guard, workspace=workspace, window=judging.window)
        return judge.grader_around(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def judge_of(judging: JudgingOptions, cache: VerdictCache | None, *, quiet: bool) -> Model:
    """The model that is named, or the default. In a dry run it needs no key, for it is not asked."""
    name = judging.judge
    source = (name or "").strip() or LOCAL
    try:
        # Keys are removed from everything that is printed, so this is not a phrase of ours.
        key = "no-key-in-a-dry-run" if judging.dry_run else None
        model = model_of(source, api_key=key, cache=cache, media=judging.judge_media or None)
        if not judging.dry_run:
            see_to_engine(source, quiet=quiet)
    except Refused as error:
        if name:
            raise
        has_key = propose_model() is not None
        why = f"no local model is here: {what_to_set()}" if has_key else str(error)
        raise Refused(f"no judge was named, and {why}") from None
    return model


def see_to_engine(source: str, *, quiet: bool) -> None:
    """Refuse a model on this machine that cannot run, and say which is asked and what it is worth."""
    if source.partition(":")[0] not in (LOCAL, "smoke"):
        return
    if find_spec("xllamacpp") is None:
        raise MissingExtraError("a model on this machine", package="xllamacpp", extra="local")
    name, path = weights_file(source)
    worth = f" ({KNOWN[name].measured})" if name in KNOWN else ""
    if not quiet:
        print(f"asking {name}{worth}, from {path}", file=sys.stderr)
