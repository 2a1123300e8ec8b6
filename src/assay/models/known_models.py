"""Look up a model by its name: its price, the media it accepts, and its context window."""

import math
import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from assay.errors import AssayError
from assay.lazy import read_toml
from assay.models.model import Price
from assay.wording import format_value, suggest_word

# The end of a name that fixes a version: gpt-5-mini-2025-08-07, claude-sonnet-4-5@20250929,
# mistral-large-latest.
_VERSION = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
# What Amazon Bedrock adds to the name of a model: us.anthropic.claude-haiku-4-5-20251001-v1:0.
_BEDROCK_AFFIXES = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$")


def price_of(provider: str, name: str) -> Price | None:
    """Return the price of a provider's model; None if it is unknown.

    The user's table, which the environment variable `ASSAY_PRICES` names, comes before ours. In it,
    `provider` may also be the URL of an endpoint. A price holds for all versions of a model, unless
    a version is listed too.

    >>> price_of("openai", "gpt-5-mini-2025-08-07") == price_of("openai", "gpt-5-mini")
    True
    >>> price_of("anthropic", "us.anthropic.claude-haiku-4-5-20251001-v1:0").output
    5.0
    """
    tables = [_built_in_prices()]
    users_file = os.environ.get("ASSAY_PRICES")
    if users_file:
        tables.insert(0, _read_prices(Path(users_file)))
    without_version = _VERSION.sub("", name)
    without_affixes = _VERSION.sub("", _BEDROCK_AFFIXES.sub("", name))
    possible_names = (name, without_version, without_affixes)
    for table in tables:
        prices = table.get(provider, {})
        for possible_name in possible_names:
            if possible_name in prices:
                return prices[possible_name]
    return None


@cache
def _built_in_prices() -> Mapping[str, Mapping[str, Price]]:
    """Return the prices of assay's own table, by provider and model."""
    return _parse_prices(read_toml("assay.models", "prices.toml"))


class PriceTableError(AssayError, ValueError):
    """A price table cannot be read; the message says what is wrong and names the right form."""


@cache
def _read_prices(path: Path) -> Mapping[str, Mapping[str, Price]]:
    """Return the prices of the user's table, by provider and model."""
    try:
        return _parse_prices(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise PriceTableError(
            f"the price table {path}, which ASSAY_PRICES names, cannot be read: {problem}. Write a "
            'table [provider] with lines such as "model" = { input = 0.25, output = 2.00 }, in '
            "dollars per million tokens; `assay models prices` prints an example"
        ) from None


def _parse_prices(data: Mapping[str, Any]) -> Mapping[str, Mapping[str, Price]]:
    """Return the prices by provider and model."""
    table: dict[str, dict[str, Price]] = {}
    for provider, models in data.items():
        if not isinstance(models, Mapping):
            raise ValueError(f"{provider} is {format_value(models)}, not a table of models")
        table[provider] = {}
        for name, prices in cast("Mapping[str, object]", models).items():
            table[provider][name] = _parse_price(f'{provider}."{name}"', prices)
    return table


_PRICE_KEYS: Final = ("input", "cached", "output", "stored")


def _parse_price(name: str, prices: object) -> Price:
    """Return the price of one model; raise `ValueError` if it is not a table of amounts."""
    if not isinstance(prices, Mapping):
        raise ValueError(f"{name} is {format_value(prices)}, not {{ input = …, output = … }}")
    amounts = cast("Mapping[str, object]", prices)
    for key, amount in amounts.items():
        if key not in _PRICE_KEYS:
            raise ValueError(f"{name} has the key {key!r}: {suggest_word(key, _PRICE_KEYS)}")
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not 0 <= cast("float", amount) < math.inf:
            raise ValueError(f"{name}: {key} is {format_value(amount)}, not an amount in dollars")
    for key in ("input", "output"):
        if key not in amounts:
            raise ValueError(f"{name} has no {key!r}")
    return Price(**{key: float(cast("float", amount)) for key, amount in amounts.items()})


def known_media(name: str) -> frozenset[str]:
    """Return the kinds of media that a model of this name accepts; none if the name is unknown."""
    return frozenset(_find_by_prefix(read_toml("assay.models", "media.toml"), name) or ())


def known_window(name: str) -> int | None:
    """Return the context window of a model of this name, in tokens of prompt and reply together.

    Return None if the name is unknown.
    """
    return _find_by_prefix(read_toml("assay.models", "windows.toml"), name)


def _find_by_prefix(table: Mapping[str, Any], name: str) -> Any:
    """Return the value of the longest key that the name begins with; None if there is none."""
    without_organisation = name.rpartition("/")[2]  # qwen3-8b of qwen/qwen3-8b
    plain_name = _BEDROCK_AFFIXES.sub("", without_organisation).lower()
    prefixes = [prefix for prefix in table if plain_name.startswith(prefix)]
    if not prefixes:
        return None
    return table[max(prefixes, key=len)]
