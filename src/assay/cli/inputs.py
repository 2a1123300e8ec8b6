"""Load what the arguments of a command name: a rubric, a run, or texts to grade."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from assay import runs
from assay.cli.base_command import print_note
from assay.wording import suggest_path

if TYPE_CHECKING:
    from assay.cli.options import RunOptions, ViewOptions
    from assay.criterion import Criterion
    from assay.rubric import Rubric

# Names of the column with the text of a row, the usual name first.
COMPLETION_COLUMNS = ("completion", "response", "text", "output")
# Words in names of columns that probably hold the completion or the prompt, the likeliest first.
_COMPLETION_WORDS = (
    *("completion", "response", "output", "reply", "generated", "generation", "prediction"),
    *("antwort", "ausgabe", "respuesta", "réponse", "reponse", "risposta", "resposta", "antwoord"),
    "text",
)
_PROMPT_WORDS = (
    *("prompt", "question", "query", "instruction", "input", "request"),
    *("frage", "anfrage", "eingabe", "pregunta", "domanda", "pergunta", "vraag"),
)
_PROMPT_COLUMNS = ("prompt", "query", "question")
_NAME_COLUMNS = ("id", "name", "example_id")

# Files with one text per row. A `.json` file may also be the text itself.
_TABLE_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".xlsx", ".parquet")
# An argument that looks like a path: one word with a slash or a file extension.
_PATH_PATTERN = re.compile(r"[^\s]*(?:[/\\][^\s]*|\.[A-Za-z]\w{0,4})")
_ANSWER_WORDS = (
    *("answer", "expected", "reference", "solution", "gold", "target", "label"),
    *("antwort", "lösung", "musterlösung", "respuesta", "réponse", "risposta", "antwoord"),
)


def load_rubric(name: str, *, allow_code: bool) -> Rubric:
    """Load a rubric from a file, or from `module:object` if there is no such file."""
    from assay.loading.document import SHEET_SUFFIXES, read_file
    from assay.loading.rubric_reader import is_reference
    from assay.rubric import rubric_at, rubric_in_python

    suffix = Path(name).suffix.lower()
    # A rubric may be a spreadsheet, but not another kind of table.
    if suffix in _TABLE_SUFFIXES and suffix not in SHEET_SUFFIXES:
        raise click.UsageError(
            f"{name} is a table, not a rubric: pass the rubric with -r, and the table without an option"
        )
    is_file = not is_reference(name) or Path(name).is_file()
    may_import_modules = not is_file or allow_code
    current_folder = str(Path.cwd())
    if may_import_modules and current_folder not in sys.path:
        # Find modules in this folder, as `python -m` does.
        sys.path.insert(0, current_folder)
    if is_file:
        return rubric_at(read_file(name), allow_code=allow_code)
    return rubric_in_python(name)


def make_rubric(data: Mapping[str, Any], *, allow_code: bool) -> Rubric:
    """Make a rubric from data in the form of a rubric file."""
    from assay.rubric import Rubric

    return Rubric.from_dict(data, allow_code=allow_code)


def apply_view_options(rubric: Rubric, options: ViewOptions) -> None:
    """Let judges and checks read what the options say, where they say it, not what the rubric says."""
    rubric.show(options.shows or None, thinking=options.thinking)
    if options.parser is not None:
        rubric.use_parser(options.parser)


def make_row_rubrics(rubric: Rubric | None, options: ViewOptions) -> runs.RowRubrics:
    """Return an object that scores each row by its own rubric, or else by this one.

    View options replace what the rubrics of rows say.
    """
    return runs.RowRubrics(
        rubric,
        shows=options.shows or None,
        thinking=options.thinking,
        parser=options.parser,
    )


def note_rubrics_of_rows(data: str, options: RunOptions) -> None:
    """Say on stderr which rubric counts, if one was given although rows bring their own."""
    if options.rubric is not None:
        print_note(
            f"rows of {data} with a `rubric` are scored by it; {options.rubric} scores only rows "
            "that have none",
            quiet=options.quiet,
        )


MAX_INSPECTED_ROWS = 100


def refuse_unknown_columns(
    rubric: Rubric | None, rows: Iterable[Mapping[str, Any]], data: str
) -> None:
    """Raise a usage error if none of the first rows has a column that a criterion names.

    If this were only found out row by row, the other criteria would be judged and paid for, and no
    row would have a score. `data` is the name of the file for the message.
    """
    # Slow to load.
    from assay.placeholders import describe_unknown_column
    from assay.plan import list_columns
    from assay.rollout import Rollout

    if rubric is None:
        return
    needed: list[tuple[Criterion, str]] = []
    for criterion in rubric.criteria:
        if criterion.when:  # it may apply to few rows, and only those need its columns
            continue
        for path in list_columns(criterion):
            needed.append((criterion, path))
    if not needed:
        return
    known: dict[str, None] = {}
    for row in islice(rows, MAX_INSPECTED_ROWS):
        # Scoring splits `messages` into `prompt` and `completion` too.
        scored_row = runs.row.split_messages(dict(row))
        known |= dict.fromkeys(Rollout.from_state(scored_row).columns)
    for criterion, path in needed:
        column = path.partition(".")[0]  # `info.city` is a field of the column `info`
        if path in known or column in known:  # a column may also have a dot in its own name
            continue
        # The criterion names the column in its wording, or else as the reference for the judge.
        is_placeholder = path not in criterion.reference
        raise click.UsageError(
            f"criterion {criterion.name!r} cannot be scored, because the rows of {data} have "
            f"{describe_unknown_column(known, path, is_placeholder)}"
        )


def open_run(path: str) -> runs.Run:
    """Open the run in a folder; a folder without a run is a usage error."""
    from assay.runs.run_schema import is_run

    try:
        return runs.Run.open(path)
    except runs.RunError as error:
        hint = ""
        if not Path(path).exists():
            hint = suggest_path(path)
        elif any(map(is_run, Path(path).glob("*/"))):
            hint = f"; the runs in it are listed by: assay list {shlex.quote(path)}"
        raise click.UsageError(f"{error}{hint}") from None


class Text(NamedTuple):
    """A text to grade."""

    name: str  # the file and row that it is from, or its first words
    rollout: dict[str, Any]


def read_texts(
    arguments: Sequence[str], query: str = "", *, are_literal: bool = False
) -> list[Text]:
    """Return the texts that the arguments stand for.

    An argument is a file with a text, a table with a text per row, `-` for standard input, or the
    text itself. A folder, or what looks like a path but does not exist, is an error. With
    `are_literal`, every argument is the text itself. `query` is the prompt of texts without one.
    """
    texts: list[Text] = []
    for argument in arguments:
        if are_literal:
            texts.append(_make_literal_text(argument))
        else:
            texts.extend(_read_argument(argument))
    for text in texts:
        if not text.rollout.get("prompt"):
            text.rollout["prompt"] = query
    return texts


def _read_argument(argument: str) -> list[Text]:
    """Return the texts that one argument stands for: those of a file, or itself."""
    from assay.tables import TableError

    name = argument.strip()
    is_file = False
    is_folder = False
    if name:
        with suppress(OSError):  # the text is too long for a file name
            is_file = Path(name).is_file()
            is_folder = Path(name).is_dir()
    if name == "-":
        return [_read_text_file(name, "standard input")]
    if is_file and name.endswith(_TABLE_SUFFIXES):
        return list(_read_table(name))
    if is_file:
        return [_read_text_file(name, name)]
    if is_folder:
        raise TableError(f"{name} is a folder: name a file, or give --text to grade these words")
    if _PATH_PATTERN.fullmatch(name):
        raise TableError(f"{name} is not a file: name one, or give --text to grade these words")
    return [_make_literal_text(argument)]


def _make_literal_text(argument: str) -> Text:
    """Return an argument as a text, which is named by its first 40 characters."""
    line = " ".join(argument.split())
    name = repr(line[:40])
    if len(line) > 40:
        name += "…"
    return Text(name, {"completion": argument})


def _read_text_file(path: str, name: str) -> Text:
    """Read a file, or standard input if the path is `-`, as one text of that name."""
    from assay.tables import TableError

    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    try:
        return Text(name, {"completion": data.decode()})
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: {error}") from None


def _read_table(path: str) -> Iterator[Text]:
    """Yield the text in each row of a table, with its prompt and its name if the row has them."""
    from assay.tables import TableError, rows_of

    for number, row in enumerate(rows_of(path)):
        completion = _get_first(row, COMPLETION_COLUMNS)
        if completion is None:
            raise TableError(
                f"{path} row {number} has no text: name its column "
                f"{' or '.join(COMPLETION_COLUMNS)}"
            )
        rollout = {**row, "completion": completion}
        prompt = _get_first(row, _PROMPT_COLUMNS)
        if prompt is not None:
            rollout["prompt"] = prompt
        name = _get_first(row, _NAME_COLUMNS)
        if name is None:
            name = f"{path} row {number}"
        yield Text(str(name), rollout)


def suggest_mapping(columns: Sequence[str]) -> str:
    """Return the `--map` options that the user probably needs; empty if no column looks like a completion.

    It is called for tables that have no column `completion`.

    >>> suggest_mapping(["Nr", "Frage", "Antwort"])
    '--map prompt=Frage --map completion=Antwort'
    """
    completion = _find_column(columns, _COMPLETION_WORDS)
    if completion is None:
        return ""
    options: list[str] = []
    others = [column for column in columns if column != completion]
    prompt = _find_column(others, _PROMPT_WORDS)
    if prompt is not None and prompt != "prompt":
        options.append(f"--map prompt={shlex.quote(prompt)}")
    options.append(f"--map completion={shlex.quote(completion)}")
    return " ".join(options)


def suggest_question_mapping(columns: Sequence[str]) -> str:
    """Return the `--map` options that a data set of questions probably needs; empty if unknown.

    >>> suggest_question_mapping(["Nr", "Frage", "Antwort"])
    '--map prompt=Frage --map answer=Antwort'
    """
    prompt = _find_column(columns, _PROMPT_WORDS)
    if prompt is None:
        return ""
    options = f"--map prompt={shlex.quote(prompt)}"
    others = [column for column in columns if column != prompt]
    answer = _find_column(others, _ANSWER_WORDS)
    if answer is not None and "answer" not in columns:
        options += f" --map answer={shlex.quote(answer)}"
    return options


def _find_column(columns: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the column that has the earliest of these words in its name; None if none has one."""
    for word in words:
        for column in columns:
            words_of_name = re.findall(r"[^\W_]+", column.casefold())
            if word in words_of_name:
                return column
    return None


def _get_first(row: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """Return the first value among these columns that is not None, or None."""
    for column in columns:
        if row.get(column) is not None:
            return row[column]
    return None
