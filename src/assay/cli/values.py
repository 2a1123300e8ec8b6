"""Values that an option may have, refused in a sentence when they are something else."""

import math
from collections.abc import Callable
from typing import Any, cast

import click

from assay.runs.thresholds import threshold_of


def number(least: float = -math.inf, *, what: str = "number") -> Callable[[Any], float]:
    """A finite number, of `least` or more.

    >>> number(0)("0.5")
    0.5
    """

    def read(value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not (math.isfinite(found) and found >= least):
            more = f" of {least:g} or more" if math.isfinite(least) else ""
            raise click.BadParameter(f"{value!r} is no {what}{more}")
        return found

    return read


def threshold(value: Any) -> float:
    """A score between 0 and 1."""
    try:
        return threshold_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def dollars(value: Any) -> float:
    """A sum of money, with its sign or without."""
    return number(0, what="sum of money")(str(value).removeprefix("$"))


def seconds(value: Any) -> float:
    """A time above 0."""
    found = number(0)(value)
    if not found:
        raise click.BadParameter(f"{value!r} is no time: give seconds above 0")
    return found


def count(least: int = 0) -> Callable[[Any], int]:
    """A whole number, of `least` or more."""

    def read(value: Any) -> int:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise click.BadParameter(f"{value!r} is no whole number of {least} or more")
        return int(text)

    return read


def pair(value: Any) -> tuple[str, str]:
    """Two names, as `ours=theirs`.

    >>> pair("completion=output")
    ('completion', 'output')
    """
    if isinstance(value, tuple):
        return cast("tuple[str, str]", value)
    ours, _, theirs = str(value).partition("=")
    if not (ours.strip() and theirs.strip()):
        raise click.BadParameter(f"{value!r} is no pair of columns: write completion=output")
    return ours.strip(), theirs.strip()
