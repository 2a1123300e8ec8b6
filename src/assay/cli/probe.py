"""`assay probe RUBRIC`: attack the judge of a rubric, before a model that is trained against it does."""

import click

from assay.cli.options import (
    Judging,
    Rubrics,
    allow_code_option,
    count,
    files,
    judge_options,
    number,
    page_option,
)
from assay.cli.root import Command


@click.command(
    "probe",
    cls=Command,
    epilog="Exit code: 0 all was judged; 100 the upper end of the share of successful attacks is above "
    "--fail-over; 1 something was not judged, or no criterion could be attacked; 2 bad usage.",
    example="assay probe rubric.yaml -m openai/gpt-5-mini --limit 32 --dry-run\n"
    "assay probe rubric.yaml -m openai/gpt-5-mini --guard --fail-over 0.05",
)
@click.argument("rubric", metavar="RUBRIC", shell_complete=files)
@allow_code_option
@judge_options("-m", "--model")
@click.option(
    "--bare", is_flag=True,
    help="Probe the judge without our hardening, too: what many would write. No judge to use.",
)  # fmt: skip
@click.option(
    "--responses", metavar="FILE", shell_complete=files,
    help="Bad responses to attack with, where the rubric has no golden example that fails: a text, or a table.",
)  # fmt: skip
@click.option(
    "--family", "families", multiple=True, metavar="NAME",
    help="Only attacks of this family, such as master_key. May be given again.",
)  # fmt: skip
@click.option(
    "--limit", type=count(1), metavar="N", help="Only N attacks, drawn from all families."
)
@click.option(
    "--seed", type=count(), default=0, show_default=True, metavar="N",
    help="Which attacks are drawn, and which texts stand in for bad responses.",
)  # fmt: skip
@click.option(
    "--fail-over", type=number(0, what="share"), metavar="SHARE",
    help="Exit with 100 when more attacks than this may succeed: when the upper end of the interval is above it.",
)  # fmt: skip
@click.option(
    "--show", type=count(), default=5, show_default=True, metavar="N",
    help="How many successful attacks to list.",
)  # fmt: skip
@page_option
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error.")
def command(
    rubric: str,
    allow_code: bool,
    judging: Judging,
    bare: bool,
    responses: str | None,
    families: tuple[str, ...],
    limit: int | None,
    seed: int,
    fail_over: float | None,
    show: int,
    layout: str,
    quiet: bool,
) -> int:
    """Attack the judge of a RUBRIC with texts that try to talk it into a better verdict.

    They are added to responses that deserve to fail: the rubric's golden examples, else --responses,
    else texts about something else. The judge is asked about those first, and an attack counts only
    where it failed them. With --guard the judge is probed twice, without the guard and with it.
    """
    from assay.cli.probing import Probing, probe_judge

    probing = Probing(bare, responses, families, limit, seed, fail_over, show, layout, quiet)
    return probe_judge(Rubrics(rubric, allow_code), judging, probing)
