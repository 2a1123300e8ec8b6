"""Read the models under test that `-m` names, with the settings that the config file has for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from assay.cli.config import ConfigError, read_project_config
from assay.redaction import redact
from assay.wording import format_value

if TYPE_CHECKING:
    from assay.models import Price


@dataclass(frozen=True)
class NamedModel:
    """A model under test, with its settings."""

    name: str  # as it was named: a name that `model_of` takes, or a table of the config file
    source: str  # what `model_of` takes
    sampling: Mapping[str, Any]
    price: Price | None = None

    @property
    def label(self) -> str:
        """What tables call it: its name, without the address of an endpoint."""
        address, _, fragment = self.name.partition("#")
        if "://" in address and fragment:
            return fragment
        return redact(self.name)

    @property
    def slug(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^\w.]+", "-", self.label).strip("-.")


def read_named_model(name: str, sampling: Mapping[str, Any]) -> NamedModel:
    """Return the model that `-m` names.

    `sampling` are the options of the command. Those that were typed, or set by a variable of the
    environment, replace the settings of the table `[models.NAME]`, which replace the settings that
    the config file has for all models.
    """
    ctx = click.get_current_context()
    config = read_project_config(ctx)
    # A name without a slash may be a misspelled table of the config file.
    if name not in config.models and "/" not in name:
        similar_names = get_close_matches(name, config.models, n=1)
        if similar_names:
            raise click.UsageError(
                f"there is no model {name!r} in {config.path}: did you mean {similar_names[0]!r}?"
            )
    settings = dict(config.find_model(name))
    source = settings.pop("model", name)
    price = _read_price(settings.pop("price", None), f"{config.path}: models.{name}.price")
    merged_sampling = {**sampling, **settings}
    for option, value in sampling.items():
        if ctx.get_parameter_source(option) in _EXPLICIT_SOURCES:
            merged_sampling[option] = value
    return NamedModel(name, source, merged_sampling, price)


_EXPLICIT_SOURCES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _read_price(amounts: list[Any] | None, setting: str) -> Price | None:
    """Return the price in a config file, or None if it has none; `setting` names it in the error."""
    from assay.models import Price

    if amounts is None:
        return None
    is_valid = len(amounts) == 2 and all(
        isinstance(amount, int | float) and not isinstance(amount, bool) and amount >= 0
        for amount in amounts
    )
    if not is_valid:
        raise ConfigError(
            f"{setting} is {format_value(amounts)}: give the dollars per million tokens of input "
            "and of output, such as [0.5, 1.5]"
        )
    input_price, output_price = cast("list[float]", amounts)
    return Price(input=input_price, output=output_price)
