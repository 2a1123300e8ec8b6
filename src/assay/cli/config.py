"""Read the settings of a project from `assay.toml`, or from `[tool.assay]` in `pyproject.toml`.

A config file that was found, not named with `--config`, is not trusted: it may belong to a project
that was just downloaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import click

from assay.errors import AssayError
from assay.wording import format_value, suggest_word

# The keys that a config file may have, with the type of each value. Each is an option of the same name.
SETTINGS: Final[dict[str, type]] = {
    "rubric": str,
    "model": str,
    "judge": str,
    "grader": str,
    "guard": bool,
    "cache": str,
    "budget": float,
    "concurrency": int,
    "timeout": float,
    "samples": int,
    "prompt": str,
    "few_shot": str,
    "shots": int,
    "system_prompt": str,
    "temperature": float,
    "top_p": float,
    "seed": int,
    "stop": list,
    "max_tokens": int,
    "format": str,
    "fail_under": float,
    "fail_interval_under": float,
    "fail_rollout_under": float,
    "quiet": bool,
}

# The keys of a table such as `[models.small]`, which holds the settings of a model under test.
MODEL_SETTINGS: Final[dict[str, type]] = {
    "model": str,  # a name or a URL; by default the name of the table
    "temperature": float,
    "top_p": float,
    "seed": int,
    "stop": list,
    "max_tokens": int,
    "price": list,  # dollars per million tokens of input and of output
    "extra_body": dict,  # more fields that are sent with every call
}

_PATH_SETTINGS: Final = ("rubric", "cache", "prompt", "few_shot")

_TYPE_NAMES: Final = {
    str: "a string in quotes",
    list: "a list in square brackets",
    dict: "a table",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
}


class ConfigError(AssayError, ValueError):
    """A config file is wrong; the message names the file and the key."""


@dataclass(frozen=True)
class Config:
    """The settings of a config file; without a file there are none."""

    path: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_trusted: bool = False  # True if the user named the file
    # The settings of models under test, by the name that `-m` takes.
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])

    @classmethod
    def find(cls, folder: Path) -> Config:
        """Return the config of the nearest folder, from this one upward, that has one."""
        for parent in (folder, *folder.parents):
            for path in (parent / "assay.toml", parent / "pyproject.toml"):
                config = cls.read(path)
                if config is not None:
                    return config
        return cls()

    @classmethod
    def read(cls, path: Path, *, is_trusted: bool = False) -> Config | None:
        """Return the config in a TOML file, or None if the file or its table does not exist."""
        table = _read_table(path)
        if table is None:
            return None
        models = table.get("models", {})
        settings = {key: value for key, value in table.items() if key != "models"}
        return cls(
            path=path,
            settings=_check_settings(path, settings),
            is_trusted=is_trusted,
            models=_check_models(path, models),
        )

    def find_model(self, name: str) -> Mapping[str, Any]:
        """Return the settings of a model under test; empty if the file has none for that name.

        Raises `ConfigError` if the file is not trusted and names an address that would be sent keys.
        """
        settings = self.models.get(name, {})
        address = settings.get("model", "")
        if not self.is_trusted and _may_receive_keys("model", address):
            raise ConfigError(
                f"{self.path}: models.{name}.model is {format_value(address)}, which may be sent "
                f"keys, but the file was found, not named: give --config {self.path} to trust the "
                "file"
            )
        return settings

    def get(self, name: str, *, allow_code: bool = False) -> Any:
        """Return a setting, or None if the file does not have it.

        Raises `ConfigError` if the file is not trusted and the setting would run code or send
        keys to another machine.
        """
        value = self.settings.get(name)
        if value is None or self.is_trusted:
            return value
        trust_advice = (
            f"give --config {self.path} to trust the file, or give --{name.replace('_', '-')}"
        )
        if name == "rubric" and not allow_code and _names_code(value):
            raise ConfigError(
                f"{self.path}: rubric is {format_value(value)}, which runs Python code, but the "
                f"file was found, not named: give --allow-code, or {trust_advice}"
            )
        if _may_receive_keys(name, value):
            raise ConfigError(
                f"{self.path}: {name} is {format_value(value)}, which may be sent keys, but the "
                f"file was found, not named: {trust_advice}"
            )
        return value


def read_project_config(ctx: click.Context) -> Config:
    """Return the config of the current folder, or the one that `--config` named.

    It is read once per command.
    """
    shared = ctx.find_root().meta  # `use_config_file` puts the config that was named here
    if "assay.config" not in shared:
        shared["assay.config"] = Config.find(Path.cwd())
    return shared["assay.config"]


def use_config_file(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take the settings from the file that `--config` names, and trust it."""
    if value is None or ctx.resilient_parsing:
        return
    path = Path(value)
    if not path.is_file():
        raise ConfigError(f"{path} is not a file: give a file with settings")
    config = Config.read(path, is_trusted=True)
    if config is None:
        raise ConfigError(f"{path} has no table [tool.assay]: give a file with settings")
    ctx.find_root().meta["assay.config"] = config


def _names_code(rubric: str) -> bool:
    """Return whether a rubric setting names a Python object, not a file."""
    from assay.loading.rubric_reader import is_reference

    return is_reference(rubric)


def _may_receive_keys(name: str, value: str) -> bool:
    """Return whether a setting names an address to which keys or passwords could be sent."""
    if name in ("judge", "model"):
        return _is_unknown_address(value)
    return name == "cache" and "://" in value


def _is_unknown_address(model: str) -> bool:
    """Return whether a model is at an address of neither a known provider nor this machine."""
    from assay.models.providers import provider_at
    from assay.server.settings import is_loopback

    if "://" not in model:
        return False
    address = model.partition("#")[0]
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return provider_at(address) is None and not is_loopback(host)


def _read_table(path: Path) -> Mapping[str, Any] | None:
    """Return the table of settings in a TOML file, or None if the file or its table does not exist."""
    if not path.is_file():
        return None
    if path.name == "pyproject.toml":
        return _read_pyproject_table(path)
    return _read_toml_file(path)


def _check_settings(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file by the names of their options, after checking each."""
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        _check_value(path, key, value, known=SETTINGS)
        if name in _PATH_SETTINGS and _is_path(value):
            # Paths in the file are relative to the folder of the file.
            value = str(path.parent / Path(value).expanduser())
        settings[name] = value
    return settings


def _check_models(path: Path, tables: object) -> dict[str, dict[str, Any]]:
    """Return the settings of models under test, by the name of their table, after checking each."""
    if not isinstance(tables, Mapping):
        raise ConfigError(
            f"{path}: models is {format_value(tables)}: give a table for each model, such as "
            "[models.small]"
        )
    models: dict[str, dict[str, Any]] = {}
    for name, table in cast("Mapping[str, object]", tables).items():
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"{path}: models.{name} is {format_value(table)}: give a table, such as "
                f"[models.{name}]"
            )
        models[name] = {}
        for key, value in cast("Mapping[str, object]", table).items():
            _check_value(path, key, value, known=MODEL_SETTINGS, prefix=f"models.{name}.")
            models[name][key.replace("-", "_")] = value
    return models


def _read_toml_file(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _read_pyproject_table(path: Path) -> Mapping[str, Any] | None:
    """Return `[tool.assay]`, or None if it does not exist or the file cannot be read."""
    try:
        project = _read_toml_file(path)
    except ConfigError:  # the tools that the file belongs to will report it
        return None
    tools: object = project.get("tool")
    if not isinstance(tools, Mapping):
        return None
    table = cast("Mapping[str, object]", tools).get("assay")
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{path}: tool.assay must be a table, not {format_value(table)}")
    return cast("Mapping[str, Any] | None", table)


def _check_value(
    path: Path, key: str, value: object, *, known: Mapping[str, type], prefix: str = ""
) -> None:
    """Raise `ConfigError` if the key is unknown or the value has the wrong type.

    `known` holds the types by key, and `prefix` is what the message writes before the key: the
    name of its table.
    """
    name = key.replace("-", "_")
    if name not in known:
        known_keys = [setting.replace("_", "-") for setting in known]
        raise ConfigError(
            f"{path}: there is no setting {prefix + key!r}: {suggest_word(key, known_keys)}"
        )
    expected_type = known[name]
    # In Python a bool is also an int, but true is not a number in a config file.
    if expected_type is bool:
        is_valid = isinstance(value, bool)
    elif expected_type is float:
        is_valid = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        is_valid = isinstance(value, expected_type) and not isinstance(value, bool)
    if not is_valid:
        raise ConfigError(
            f"{path}: {prefix}{key} must be {_TYPE_NAMES[expected_type]}, not {format_value(value)}"
        )


def _is_path(value: str) -> bool:
    """Return whether a value is a path, not a URL or `module:object`.

    A colon after one letter belongs to a drive of Windows.
    """
    return "://" not in value and ":" not in value[2:]
