"""`assay demo [FOLDER]`: score built-in answers with a scripted judge, and open the page."""

from __future__ import annotations

import errno
import shlex
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.base_command import EXIT_OK, Command
from assay.cli.options import parse_port
from assay.cli.scripted_judge import answer_by_script

if TYPE_CHECKING:
    from assay.testing import ModelServer

JUDGE_NAME = "scripted-judge"
JUDGE_PORT = 7599


@click.command(
    "demo",
    cls=Command,
    epilog="Exit codes: 0 stopped by Ctrl-C, 1 the port is in use, 2 bad usage, such as a folder "
    "with a run.",
    example="assay demo\nassay demo --judge-only",
)
@click.argument("folder", type=click.Path(file_okay=False), default="demo")
@click.option(
    "--port",
    metavar="PORT",
    type=parse_port,
    default=JUDGE_PORT,
    show_default=True,
    help="The port of the scripted judge; 0 takes any free one.",
)
@click.option(
    "--judge-only",
    is_flag=True,
    help="Only start the scripted judge, for your own commands.",
)
@click.option("--no-open", is_flag=True, help="Only print the address of the page.")
@click.pass_context
def command(ctx: click.Context, folder: str, port: int, judge_only: bool, no_open: bool) -> int:
    """Try assay without a key: score built-in answers, and open the page.

    A rubric, the answers and the run are saved in FOLDER. The judge is a script on this machine with
    an address like any model: it only looks for keywords, and the run says so.
    It runs until you press Ctrl-C, so you can try your own commands in the meantime.
    """
    target = Path(folder)
    if not judge_only and (target / "run").exists():
        raise click.UsageError(
            f"{target / 'run'} exists already: look at it with assay view {folder}, or name "
            "another folder"
        )
    with _start_judge(port) as judge:
        click.echo(f"scripted judge at {judge.model} (press Ctrl-C to stop)")
        if judge_only:
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            return EXIT_OK
        _score_answers(ctx, target, judge.model)
        _open_page(target, no_open=no_open)
    return EXIT_OK


@contextmanager
def _start_judge(port: int) -> Generator[ModelServer]:
    """Start the scripted judge, and stop it at the end."""
    from assay.testing import ModelServer

    # The stack keeps the body of the `with` out of the `try`, so that only errors of the start are
    # caught.
    with ExitStack() as stack:
        try:
            judge = stack.enter_context(ModelServer(answer_by_script, name=JUDGE_NAME, port=port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(
                f"port {port} is in use, perhaps by another demo: stop that, or give --port 0"
            ) from None
        yield judge


def _score_answers(ctx: click.Context, target: Path, judge: str) -> None:
    """Write the files of the demo, and score them as the command that is printed would."""
    from assay.cli.score import command as score_command

    target.mkdir(parents=True, exist_ok=True)
    for name in ("rubric.yaml", "answers.jsonl"):
        file = Path(__file__).with_name("demo_files") / name
        if not (target / name).exists():
            (target / name).write_bytes(file.read_bytes())
    arguments = [
        str(target / "answers.jsonl"),
        "-r",
        str(target / "rubric.yaml"),
        "--judge",
        judge,
        "-o",
        str(target / "run"),
    ]
    click.echo(f"$ assay score {shlex.join(arguments)}")
    arguments.append("--no-cache")  # the user's cache should not hold verdicts of a script
    with score_command.make_context("score", arguments, parent=ctx) as score_ctx:
        score_command.invoke(score_ctx)


def _open_page(target: Path, *, no_open: bool) -> None:
    """Serve the page of the run until Ctrl-C, and open it in a browser if there is a display."""
    from assay.viewer.page_server import has_display, serve_page

    click.echo(f"$ assay view {shlex.quote(str(target / 'run'))}")
    serve_page(
        [target / "run"],
        opens_browser=not no_open and has_display(),
        print_address=lambda address: click.echo(f"{address} (press Ctrl-C to stop)"),
    )
