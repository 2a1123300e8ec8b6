"""`assay models list|pull|prices`: models that run on this machine, and prices of the others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from assay.cli.base_command import Command, Group
from assay.cli.config import read_project_config
from assay.errors import Refused
from assay.redaction import redact


@click.group("models", cls=Group, example="assay models list")
def command() -> None:
    """List and download the models that run on this machine, and print the prices of others."""


@command.command("list", cls=Command, example="assay models list")
def list_models() -> None:
    """List the models, how well each does as a judge, and which judge is named."""
    from assay.local.weights import KNOWN

    for weights in KNOWN.values():
        is_here = _find_weights(f"local:{weights.name}") is not None  # on this machine
        status = "here" if is_here else "not here"
        size = f"{weights.size / 1e6:,.0f} MB"
        print(f"{weights.name}: {status}, {size}, {weights.licence}; {weights.measured}")
    print(f"judge: {_describe_judge()}")


def _describe_judge() -> str:
    """Return the judge that is asked if no option names one, and where that is set."""
    if os.environ.get("ASSAY_JUDGE"):
        return redact(f"{os.environ['ASSAY_JUDGE']} (ASSAY_JUDGE)")
    config = read_project_config(click.get_current_context())
    if config.settings.get("judge"):
        return redact(f"{config.settings['judge']} ({config.path})")
    weights = _find_weights("local")
    if weights is None:
        return "none is named, and none is here: `assay models pull` one, or name one with --judge"
    name, path = weights
    return f"none is named; --judge local would ask {name} ({path})"


def _find_weights(source: str) -> tuple[str, Path] | None:
    """Return the name and file of a model on this machine; None if it is not here."""
    from assay.local.weights import weights_file

    try:
        return weights_file(source)
    except Refused:
        return None


@command.command("prices", cls=Command, example="assay models prices > prices.toml")
def print_prices() -> None:
    """Print the table of prices that assay knows, in the form of a table of your own.

    Name your own in the environment variable ASSAY_PRICES: its prices replace those of assay.
    """
    from importlib.resources import files

    print(files("assay.models").joinpath("prices.toml").read_text(encoding="utf-8"), end="")


@command.command("pull", cls=Command, example="assay models pull qwen2.5-coder-1.5b")
@click.argument("name", metavar="NAME")
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    envvar="ASSAY_QUIET",
    show_envvar=True,
    help="Show no progress.",
)
def pull_model(name: str, quiet: bool) -> None:
    """Download the model of that NAME, unless it is here, and print where it is.

    A download that was interrupted continues where it stopped.
    """
    from assay.local.weights import pull

    shows_bar = sys.stderr.isatty() and not quiet
    print(pull(name, progress=_print_bar if shows_bar else None))


def _print_bar(downloaded: int, size: int) -> None:
    """Print the bar over the one before it; both numbers are in bytes."""
    width = 40
    filled = round(width * downloaded / size)
    bar = "#" * filled + "." * (width - filled)
    end = "\n" if downloaded >= size else ""
    print(
        f"\r{bar} {downloaded / 1e6:,.0f} of {size / 1e6:,.0f} MB",
        end=end,
        file=sys.stderr,
        flush=True,
    )
