"""Prices: what tokens cost, from a table that you can replace."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from assay.models.base import Usage

MILLION = 1_000_000
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
_SOLD = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$")
"""What Bedrock puts around a model's name: `us.anthropic.claude-haiku-4-5-20251001-v1:0`."""


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens.

    >>> Price(read=2.0, cached=0.5, written=8.0).of(Usage(prompt=1000, cached=800, completion=100))
    0.0016
    """

    read: float
    written: float
    cached: float | None = None
    """Read from the provider's cache; as `read` when None."""
    stored: float | None = None
    """Put into the provider's cache; as `read` when None."""

    def of(self, usage: Usage) -> float:
        """What so many tokens cost, in dollars."""
        fresh = usage.prompt - usage.cached - usage.stored
        cached = self.read if self.cached is None else self.cached
        stored = self.read if self.stored is None else self.stored
        total = fresh * self.read + usage.cached * cached + usage.stored * stored
        return (total + usage.completion * self.written) / MILLION


FREE = Price(0.0, 0.0)


def price_of(provider: str, name: str) -> Price | None:
    """The price of a provider's model, in the user's table or else ours; None when in neither.

    An endpoint of one's own stands in the table under its address.

    >>> price_of("openai", "gpt-5-mini-2025-08-07") == price_of("openai", "gpt-5-mini")
    True
    >>> price_of("anthropic", "us.anthropic.claude-haiku-4-5-20251001-v1:0").written
    5.0
    """
    tables = [_table(Path(own))] if (own := os.environ.get("ASSAY_PRICES")) else []
    for table in (*tables, _table(None)):
        models = table.get(provider, {})
        for known in (name, _DATED.sub("", name), _DATED.sub("", _SOLD.sub("", name))):
            if known in models:
                return models[known]
    return None


@cache
def _table(path: Path | None) -> Mapping[str, Mapping[str, Price]]:
    source = files("assay.models").joinpath("prices.toml") if path is None else path
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
        return {provider: _prices(models) for provider, models in data.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the prices in {path} cannot be read ({error}): write a [provider] and under it "
            '"model" = { read = 0.25, cached = 0.025, written = 2.00 }, dollars for a million tokens'
        ) from None


def _prices(models: Mapping[str, Any]) -> dict[str, Price]:
    return {name: Price(**{k: float(v) for k, v in m.items()}) for name, m in models.items()}
