"""`assay doctor`: show the effective settings, whether the judge answers, and the installed extras."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from assay.cli.base_command import EXIT_ERROR, EXIT_OK, Command
from assay.cli.config import SETTINGS, read_project_config
from assay.cli.formats import format_page
from assay.cli.options import page_format_option, rubric_option, seconds, section_option
from assay.display import Page, Section
from assay.errors import DISTRIBUTION, AssayError
from assay.redaction import redact, redact_settings

if TYPE_CHECKING:
    from assay.cli.config import Config

EXTRAS = ("cli", "judge", "math", "server", "trainers")
_option = section_option("Settings")


@click.command(
    "doctor",
    cls=Command,
    epilog="Exit codes: 0 all is well, 1 the judge does not answer, 2 a setting is wrong.",
    example="assay doctor\nassay doctor --judge http://127.0.0.1:8000/v1#qwen",
)
@rubric_option()
@_option(
    "--judge",
    metavar="MODEL",
    envvar="ASSAY_JUDGE",
    show_envvar=True,
    help="The judge to ask.",
)
@_option(
    "--timeout",
    metavar="SECONDS",
    type=seconds,
    default=20.0,
    show_default=True,
    help="Seconds to wait for its answer.",
)
@page_format_option
@click.pass_context
def command(
    ctx: click.Context, rubric: str | None, judge: str | None, timeout: float, layout: str
) -> int:
    """Show the effective settings and their sources, whether the judge answers, and the installed extras.

    The judge is asked one short question, which costs very little.
    """
    config = read_project_config(ctx)
    settings = list(_list_settings(ctx, config))
    judge_name, judge_source = _find_judge(ctx, config, judge)
    is_judge_fine = True  # also without a judge
    if judge_name is None:
        state = "none is named: criteria in words need one, with --judge or ASSAY_JUDGE"
    else:
        is_judge_fine, state = _ask_judge(judge_name, timeout)
    extras: list[tuple[str, str, str]] = []
    for name in EXTRAS:
        status, install_command = _check_extra(name)
        extras.append((name, status, install_command))
    page = Page(
        f"assay {metadata.version(DISTRIBUTION)}",
        [
            Section(("setting", "value", "from"), settings),
            Section(("judge", "from", "state"), [(judge_name, judge_source, state)]),
            Section(("extra", "state", "what to install"), extras),
        ],
        data={
            "settings": {
                name: {"value": value, "from": source} for name, value, source in settings
            },
            "judge": {"model": judge_name, "from": judge_source, "state": state},
            "extras": {name: status for name, status, _ in extras},
        },
    )
    print(format_page(page, layout))
    return EXIT_OK if is_judge_fine else EXIT_ERROR


def _list_settings(ctx: click.Context, config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the value and the source of every setting that has a value."""
    defaults = _find_defaults()
    for name in SETTINGS:
        option = name.replace("_", "-")
        # The `--timeout` of this command is for its question to the judge, and not the setting.
        is_typed = (
            name != "timeout" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        )
        if is_typed:
            yield option, redact(str(ctx.params[name])), f"--{option}"
            continue
        variable = f"ASSAY_{name.upper()}"
        if os.environ.get(variable):
            yield option, redact(os.environ[variable]), f"variable {variable}"
        elif name in config.settings:
            value = redact_settings(config.settings[name])
            yield option, str(value), f"{config.path}"
        elif name in defaults:
            yield option, defaults[name], "default"


def _find_defaults() -> dict[str, str]:
    """Return the values that `assay score` and `assay eval` use for settings that are not set."""
    from assay.cache.store import default_place
    from assay.cli import eval, score
    from assay.models import Limits

    defaults = {"cache": default_place(), "timeout": f"{Limits().timeout:g}"}
    for param in (*score.command.params, *eval.command.params):
        # An option without a value, such as --quiet, is off by default, which is not worth a line.
        is_shown = isinstance(param.default, str | int | float) and param.default is not False
        if not is_shown:
            continue
        for option in param.opts:
            name = option.lstrip("-").replace("-", "_")
            if name in SETTINGS:
                defaults[name] = str(param.default)
    return defaults


def _find_judge(ctx: click.Context, config: Config, judge: str | None) -> tuple[str | None, str]:
    """Return the judge that commands would ask, and where it is named; None and "" if it is not."""
    if ctx.get_parameter_source("judge") is ParameterSource.COMMANDLINE:
        return judge, "--judge"
    if os.environ.get("ASSAY_JUDGE"):
        return os.environ["ASSAY_JUDGE"], "variable ASSAY_JUDGE"
    if config.settings.get("judge"):
        # `get` refuses an unknown address in a file that is not trusted.
        return config.get("judge"), f"{config.path}"
    return None, ""


def _ask_judge(name: str, timeout: float) -> tuple[bool, str]:
    """Ask the judge a short question. Return whether it answers, and what to say about that."""
    import asyncio  # slow to load

    from assay.models import Limits, Request, model_of

    question = {"role": "user", "content": "Reply with the word OK."}
    limits = Limits(timeout=timeout, deadline=timeout, attempts=1)

    async def ask() -> None:
        model = model_of(name, limits=limits)
        await model(Request(messages=(question,), max_tokens=16))

    start = time.monotonic()
    try:
        asyncio.run(ask())
    except AssayError as error:
        return False, f"{type(error).__name__}: {error}"
    return True, f"answers, in {time.monotonic() - start:.1f} s"


def _check_extra(extra: str) -> tuple[str, str]:
    """Return the state of an extra, and the command that installs it if packages are missing."""
    missing = sorted(set(_list_missing(extra, seen=[])))
    if not missing:
        return "installed", ""
    from assay.errors import find_requirement

    return f"missing: {', '.join(missing)}", f"pip install {find_requirement(extra)}"


def _list_missing(extra: str, seen: Sequence[str]) -> Iterator[str]:
    """Yield the packages of an extra, and of the extras that it includes, that are not installed.

    `seen` are the extras that led to this one, since extras may include each other.
    """
    for requirement in metadata.requires(DISTRIBUTION) or ():
        # Such as `uvloop>=0.21; sys_platform != "win32" and extra == "server"`, or, for an extra that
        # includes others, `assay[judge,math]; extra == "trainers"`.
        package, _, marker = requirement.partition(";")
        if not re.search(rf"extra == ['\"]{extra}['\"]", marker):
            continue
        if "win32" in marker and os.name == "nt":  # our markers only ever exclude Windows
            continue
        name, _, included_extras = re.split(r"[<>=!~ ]", package.strip())[0].partition("[")
        if name == DISTRIBUTION:
            for included in included_extras.rstrip("]").split(","):
                if included not in seen:
                    yield from _list_missing(included, [*seen, extra])
            continue
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name
