"""Config: what a project always wants, in `assay.toml` or under `[tool.assay]` of `pyproject.toml`.

A flag goes before an environment variable, and that before the file. The file may hold no key to an
endpoint: those come from the environment, so that no file and no run has to keep them.

A file that is found by looking around may be anybody's: that of a project which was just downloaded. So
nothing in it runs code or has a key sent to another machine than a provider's. One that is named with
`--config` is trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import click

from assay.errors import AssayError
from assay.wording import did_you_mean, short_repr

SETTINGS: Final[dict[str, type]] = {
    "rubric": str,
    "model": str,
    "judge": str,
    "grader": str,
    "guard": bool,
    "cache": str,
    "budget": float,
    "concurrency": int,
    "samples": int,
    "temperature": float,
    "max_tokens": int,
    "system_prompt": str,
    "format": str,
    "fail_under": float,
    "fail_interval_under": float,
    "fail_rollout_under": float,
    "quiet": bool,
}
"""Every key that a file may have, and what it holds; each is an option of the same name."""

_PATHS: Final = ("rubric", "cache")
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
        tables = ("tool", "assay") if path.name == "pyproject.toml" else ()
        found = _table(path, tables)
        if found is None:
            what = "holds no table [tool.assay]" if path.is_file() else "is no file"
            raise ConfigError(f"{path} {what}: name a file with settings")
        return cls(path, _settings(path, found), is_named=True)

    @classmethod
    def near(cls, folder: Path) -> "Config":
        """The config of the nearest folder upward that has one."""
        for place in (folder, *folder.parents):
            for name, tables in (("assay.toml", ()), ("pyproject.toml", ("tool", "assay"))):
                found = _table(place / name, tables)
                if found is not None:
                    return cls(place / name, _settings(place / name, found))
        return cls()

    def get(self, name: str, *, allow_code: bool = False) -> Any:
        """A setting; None where there is none. Raises `ConfigError` for one that a found file may not have."""
        value = self.settings.get(name)
        if value is None or self.is_named:
            return value
        from assay.loading.rubric_reader import is_reference

        option = f"--{name.replace('_', '-')}"
        told = f"{self.path}: {name} is {short_repr(value)}"
        trust = f"give --config {self.path} to trust the file, or {option} yourself"
        if name == "rubric" and not allow_code and is_reference(value):
            raise ConfigError(
                f"{told}, which runs Python code, and the file was only found, not named: give --allow-code, or {trust}"
            )
        if (name in ("judge", "model") and _is_elsewhere(value)) or (name == "cache" and "://" in value):
            raise ConfigError(f"{told}, which may be sent keys, and the file was only found, not named: {trust}")
        return value


def _is_elsewhere(model: str) -> bool:
    """Whether a model is asked at an address that is neither a provider's nor on this machine."""
    from urllib.parse import urlsplit

    from assay.models.resolve import provider_at
    from assay.server.settings import is_loopback

    if "://" not in model:
        return False
    address = model.partition("#")[0]
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return provider_at(address) is None and not is_loopback(host)


def config_of(ctx: click.Context) -> Config:
    """The config of the folder we are in, read once a command."""
    kept = ctx.find_root().meta
    if "assay.config" not in kept:
        kept["assay.config"] = Config.near(Path.cwd())
    return kept["assay.config"]


def _table(path: Path, tables: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The table of a TOML file; None when the file or the table is not there."""
    if not path.is_file():
        return None
    import tomllib

    try:
        found: object = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if tables:  # somebody else's file: whoever it is for will complain
            return None
        raise ConfigError(f"{path} is no TOML: {error}") from None
    for table in tables:
        found = cast("Mapping[str, Any]", found).get(table) if isinstance(found, Mapping) else None
    if found is not None and not isinstance(found, Mapping):
        raise ConfigError(f"{path}: {'.'.join(tables)} is {short_repr(found)}: make it a table")
    return cast("Mapping[str, Any] | None", found)


def _settings(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in SETTINGS:
            known = [setting.replace("_", "-") for setting in SETTINGS]
            raise ConfigError(f"{path}: there is no setting {key!r}: {did_you_mean(key, known)}")
        if not _is(value, SETTINGS[name]):
            raise ConfigError(f"{path}: {key} is {short_repr(value)}: give {_FORMS[SETTINGS[name]]}")
        settings[name] = _placed(value, path.parent) if name in _PATHS else value
    return settings


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _placed(place: str, folder: Path) -> str:
    """A path as it is seen from the folder of the file that names it; others as they are."""
    is_path = "://" not in place and ":" not in place[2:]
    return str(folder / Path(place).expanduser()) if is_path else place
