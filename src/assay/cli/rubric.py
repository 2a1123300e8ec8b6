"""`assay rubric lint|test|show|convert|schema`: rubrics themselves, before anything is scored."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.golden import command as test
from assay.cli.lint import command as lint
from assay.cli.options import Rubrics, allow_code_option, files
from assay.cli.root import Group
from assay.errors import RubricError

if TYPE_CHECKING:
    from assay.criterion import Criterion
    from assay.rubric import Rubric

_rubric = click.argument("rubric", shell_complete=files)


@click.group("rubric", cls=Group, example="assay rubric lint rubric.yaml")
def command() -> None:
    """Look at a rubric, find what is wrong with it, test it, and write it in another format.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python.
    """


command.add_command(lint)
command.add_command(test)


@command.command("show", example="assay rubric show rubric.yaml")
@_rubric
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print it as a rubric file in JSON.")
def show(rubric: str, allow_code: bool, as_json: bool) -> None:
    """Print the criteria of a rubric: weight, name, who answers, and what is asked."""
    from assay.cli.sources import rubric_of

    found = rubric_of(Rubrics(rubric, allow_code))
    if as_json:
        print(found.to_json())
        return
    print(f"{found.name or rubric}: {_counted(found)}, {found.content_hash[:12]}")
    for line in _lines(found.criteria, "  "):
        print(line)


@command.command("convert", example="assay rubric convert rubric.yaml rubric.json")
@_rubric
@click.argument("output", shell_complete=files)
@allow_code_option
def convert(rubric: str, output: str, allow_code: bool) -> None:
    """Write a rubric to the file OUTPUT, as YAML or JSON by its ending; - prints YAML.

    Comments are lost. Nothing is overwritten.
    """
    from assay.cli.sources import rubric_of

    ending = Path(output).suffix.lower()
    if output != "-" and ending not in (".yaml", ".yml", ".json"):
        raise click.UsageError(f"{output} does not end in .yaml or .json: it is by that I know")
    if output != "-" and Path(output).exists():
        raise click.UsageError(f"{output} would be overwritten: name another file")
    found = rubric_of(Rubrics(rubric, allow_code))
    text = found.to_json() if ending == ".json" else found.to_yaml()
    text = f"{text.rstrip()}\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, encoding="utf-8")


@command.command("schema", example="assay rubric schema > rubric.schema.json")
def schema() -> None:
    """Print the JSON Schema of rubric files, for editors."""
    from assay.loading import SCHEMA_FILE

    sys.stdout.write(SCHEMA_FILE.read_text(encoding="utf-8"))


def _counted(rubric: "Rubric") -> str:
    from assay.cli.terminal import counted

    judged = sum(criterion.judged for criterion in rubric.criteria)
    how = f", {judged} of them judged by a model" if judged else ", checked by code"
    return f"{counted(len(rubric.criteria), 'criterion', 'criteria')}{how}"


def _lines(criteria: "tuple[Criterion, ...]", indent: str) -> Iterator[str]:
    for criterion in criteria:
        who = "judge" if criterion.judged else "check"
        yield f"{indent}{criterion.weight:+g}  {who}  {criterion.name}: {_asked(criterion)}"
        inner: tuple[Criterion, ...] = getattr(criterion.check, "criteria", ())
        yield from _lines(inner, indent + "    ")


def _asked(criterion: "Criterion") -> str:
    """The words for a model, or the check as a file writes it."""
    if criterion.requirement is not None:
        return criterion.requirement
    try:
        written = criterion.to_dict()
    except RubricError:  # a lambda, which no file can name
        return "a function"
    check = written.get("check", "a rubric")
    return check if isinstance(check, str) else json.dumps(check, ensure_ascii=False)
