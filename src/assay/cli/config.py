"""Config: what a project always wants, in `assay.toml` or under `[tool.assay]` of `pyproject.toml`.

A flag goes before an environment variable, and that before the file. The file may hold no key to an
endpoint: those come from the environment, so that no file and no run has to keep them.

A file that is found by looking around may be anybody's: that of a project which was just downloaded. So
nothing in it runs code or has a key sent to another machine than a provider's. One that is named with
`--config` is trusted.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import click

from assay.errors import AssayError
from assay.wording import did_you_mean, short_repr

SETTINGS: Final[dict[str, type]] = {
    "rubric": str, "model": str, "judge": str, "grader": str, "guard": bool, "cache": str, "budget": float,
    "concurrency": int, "samples": int, "temperature": float, "max_tokens": int, "system_prompt": str, "format": str,
    "fail_under": float, "fail_interval_under": float, "fail_rollout_under": float, "quiet": bool,
}  # fmt: skip
"""Every key that a file may have, and what it holds; each is an option of the same name."""

_FORMS: Final = {str: "a text, in quotes", bool: "true or false", float: "a number", int: "a whole number"}


class ConfigError(AssayError, ValueError):
    """A config file is wrong; the message names the file and the key."""


@dataclass(frozen=True)
class Config:
    """What a file says. Without a file, nothing."""

    path: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_named: bool = False
    """Whether it was named, and not found."""

    @classmethod
    def at(cls, path: Path) -> "Config":
        """The config in a file that is named, and so trusted."""
        found = _settings(path)
        if found is None:
            what = "holds no table [tool.assay]" if path.is_file() else "is no file"
            raise ConfigError(f"{path} {what}: name a file with settings")
        return cls(path, found, is_named=True)

    @classmethod
    def near(cls, folder: Path) -> "Config":
        """The config of the nearest folder upward that has one."""
        for place in (folder, *folder.parents):
            for path in (place / "assay.toml", place / "pyproject.toml"):
                if (found := _settings(path)) is not None:
                    return cls(path, found)
        return cls()

    def get(self, name: str, *, allow_code: bool = False) -> Any:
        """A setting; None where there is none. Raises `ConfigError` for one that a found file may not have."""
        value = self.settings.get(name)
        if value is None or self.is_named:
            return value
        from assay.loading.rubric_reader import is_reference

        told = f"{self.path}: {name} is {short_repr(value)}"
        only_found = "and the file was only found, not named"
        trust = f"give --config {self.path} to trust the file, or --{name.replace('_', '-')} yourself"
        if name == "rubric" and not allow_code and is_reference(value):
            raise ConfigError(f"{told}, which runs Python code, {only_found}: give --allow-code, or {trust}")
        if (name in ("judge", "model") and _is_elsewhere(value)) or (name == "cache" and "://" in value):
            raise ConfigError(f"{told}, which may be sent keys, {only_found}: {trust}")
        return value


def config_of(ctx: click.Context) -> Config:
    """The config of the folder we are in, read once a command."""
    kept = ctx.find_root().meta
    if "assay.config" not in kept:
        kept["assay.config"] = Config.near(Path.cwd())
    return kept["assay.config"]


def _is_elsewhere(model: str) -> bool:
    """Whether a model is asked at an address that is neither a provider's nor on this machine."""
    from assay.models.resolve import provider_at
    from assay.server.settings import is_loopback

    address = model.partition("#")[0]
    if "://" not in model:
        return False
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return provider_at(address) is None and not is_loopback(host)


def _settings(path: Path) -> dict[str, Any] | None:
    """The settings of a TOML file, or of its table [tool.assay]; None when the file or the table is not there."""
    if not path.is_file():
        return None
    tables = ("tool", "assay") if path.name == "pyproject.toml" else ()
    try:
        found: object = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if tables:  # a file of other programs, which will complain of it
            return None
        raise ConfigError(f"{path} is no TOML: {error}") from None
    for table in tables:
        found = cast("Mapping[str, Any]", found).get(table) if isinstance(found, Mapping) else None
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path}: {'.'.join(tables)} is {short_repr(found)}: make it a table")
    settings: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", found).items():
        name = key.replace("-", "_")
        if name not in SETTINGS:
            known = [setting.replace("_", "-") for setting in SETTINGS]
            raise ConfigError(f"{path}: there is no setting {key!r}: {did_you_mean(key, known)}")
        kind = SETTINGS[name]
        # To Python True is an int, and 1 is no float.
        if isinstance(value, bool) is not (kind is bool) or not isinstance(
            value, (int, float) if kind is float else kind
        ):
            raise ConfigError(f"{path}: {key} is {short_repr(value)}: give {_FORMS[kind]}")
        if name in ("rubric", "cache") and "://" not in value and ":" not in value[2:]:
            value = str(path.parent / Path(value).expanduser())  # as it is seen from the folder of the file
        settings[name] = value
    return settings
