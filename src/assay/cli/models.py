"""`assay models list|pull`: the models that run on this machine, and which is asked by default."""

import os
import sys
from pathlib import Path

import click

from assay import cli
from assay.errors import Refused
from assay.redaction import redact


@click.group("models", cls=cli.Group)
def command() -> None:
    """List and download the models that run on this machine, with no key."""


@command.command("models list")
def list_models() -> None:
    """List the models, how well each does as a judge, and which model is asked by default."""
    from assay.local.weights import KNOWN

    for weights in KNOWN.values():
        here = "here" if _file(f"local:{weights.name}") else "not here"
        size = f"{weights.size / 1e6:,.0f} MB"
        print(f"{weights.name}: {here}, {size}, {weights.licence}; {weights.measured}")
    print(f"asked by default: {_default()}")


def _default() -> str:
    """What a judge is where no option names one, and who says so."""
    for variable in ("ASSAY_JUDGE", "ASSAY_MODEL"):
        if os.environ.get(variable):
            return redact(f"{os.environ[variable]} ({variable})")
    config = cli.config_of(click.get_current_context())
    if named := config.settings.get("judge") or config.settings.get("model"):
        return redact(f"{named} ({config.path})")
    if found := _file("local"):
        return f"local, which is {found[0]} ({found[1]})"
    return "local, and none is here: `assay models pull` a judge, or name a model with -m"


def _file(source: str) -> tuple[str, Path] | None:
    try:
        return cli.weights_file(source)
    except Refused:
        return None


@cli.declare("models pull", command)
def pull(name: str = cli.argument("NAME"), quiet: bool = cli.value_of()) -> None:
    """Download the model of that NAME, unless it is here, and print where it is.

    A download that was broken off goes on where it stopped.
    """
    shows = sys.stderr.isatty() and not quiet
    print(cli.pull(name, progress=_bar if shows else None))


def _bar(here: int, size: int) -> None:
    width = round(40 * here / size)
    line = f"\r{'#' * width}{'.' * (40 - width)} {here / 1e6:,.0f} of {size / 1e6:,.0f} MB"
    print(line, end="\n" if here >= size else "", file=sys.stderr, flush=True)
