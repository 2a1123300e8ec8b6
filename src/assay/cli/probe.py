"""`assay probe RUBRIC`: attack the judge of a rubric, before a model that is trained against it does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay import graders, probe, runs
from assay.cli.base_command import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_THRESHOLD,
    Command,
    print_note,
)
from assay.cli.formats import describe_spending, format_page
from assay.cli.inputs import load_rubric, read_texts
from assay.cli.judging import open_judge
from assay.cli.options import (
    JudgingOptions,
    allow_code_option,
    count,
    judging_options,
    number_type,
    page_format_option,
    positive,
    quiet_option,
    rubric_argument,
)
from assay.cli.runner import (
    Interrupt,
    describe_kept_answers,
    print_budget_note,
    run_command,
)
from assay.display import Page, Section, shorten_line
from assay.errors import TrustError
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.models import Ledger
    from assay.runs.pipeline import OnProgress

REASON_LENGTH = 80  # characters of a reason that are shown in a table; JSON has all of it


@click.command(
    "probe",
    cls=Command,
    epilog="Exit codes: 0 all was judged, 100 the upper end of the share of successful attacks is "
    "above --fail-over, 1 something was not judged, or no criterion could be attacked, 2 bad "
    "usage.",
    example="assay probe rubric.yaml --judge openai/gpt-5-mini --limit 32 --dry-run\n"
    "assay probe rubric.yaml --judge openai/gpt-5-mini --guard --fail-over 0.05",
)
@rubric_argument
@click.option(
    "--bare",
    is_flag=True,
    help="Also probe the judge without our protection. Do not use such a judge.",
)
@click.option(
    "--responses",
    metavar="FILE",
    type=click.Path(),
    help="Bad responses to attack with, a text or a table, where no golden example fails.",
)
@click.option(
    "--family",
    "families",
    metavar="NAME",
    multiple=True,
    help="Only this family of attacks, such as master_key. Repeatable.",
)
@click.option(
    "--limit",
    metavar="N",
    type=positive,
    help="The number of attacks, drawn from all families.",
)
@click.option(
    "--seed",
    metavar="N",
    type=count,
    default=0,
    show_default=True,
    help="The random seed for attacks and bad responses.",
)
@click.option(
    "--fail-over",
    metavar="SHARE",
    type=number_type(0, what="a share"),
    help="Exit with 100 if the upper end of the interval of the success rate is above this.",
)
@click.option(
    "--show",
    "shown_attacks",
    metavar="N",
    type=count,
    default=5,
    show_default=True,
    help="How many successful attacks to list.",
)
@page_format_option
@quiet_option
@judging_options
@allow_code_option
def command(**values: Any) -> int:
    """Attack the judge of a RUBRIC with prompt injections that try to get a better verdict.

    They are added to responses that deserve to fail: the rubric's golden examples, else
    --responses, else texts about something else. The judge is asked about those first, and an
    attack counts only where it failed them. With --guard the judge is probed twice, without the
    guard and with it.
    """
    options = ProbeOptions(**values)
    rubric = load_rubric(options.rubric, allow_code=options.allow_code)
    attacks = probe.attacks_of(options.families, limit=options.limit, seed=options.seed)
    responses = _read_responses(options.responses)
    # The guard is added below, since the judge is probed without it too.
    with open_judge(replace(options, guard=False), rubric, quiet=options.quiet) as judge:
        grader = judge or rubric.grader
        if grader is None:
            raise TrustError("this rubric has no judge to attack: code checks all its criteria")
        variants = _make_variants(grader, options)
        reports: dict[str, probe.ProbeReport] = {}  # by the name of the variant, in their order

        async def work(on_progress: OnProgress | None, interrupt: Interrupt) -> None:
            """Probe one variant of the judge after the other, until Ctrl-C."""
            for variant, variant_grader in variants.items():
                if interrupt.is_requested():
                    return
                reports[variant] = await probe.probe(
                    rubric,
                    variant_grader,
                    attacks=attacks,
                    responses=responses,
                    seed=options.seed,
                    stopping=interrupt.is_requested,
                    on_progress=on_progress,
                )

        def print_result(_: None, spent: Ledger) -> int:
            page = _make_page(reports, rubric.name or "rubric", options.shown_attacks)
            print(format_page(page, options.layout))
            print_budget_note(spent, describe_kept_answers(options), quiet=options.quiet)
            return _choose_exit_code(reports, variants, options)

        def report_failure(error: BaseException) -> None:
            if isinstance(error, KeyboardInterrupt):
                print_note(f"stopped at once{describe_kept_answers(options)}", quiet=options.quiet)

        # The harmless texts among them are only for counting false alarms of the guard.
        harmful_attacks = [attack for attack in attacks if not attack.harmless]
        return run_command(
            work,
            options=options,
            quiet=options.quiet,
            noun="verdicts",
            describe_size=lambda _: format_count(len(harmful_attacks), "attack"),
            print_result=print_result,
            on_failure=report_failure,
        )


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(JudgingOptions):
    """The options of `assay probe`."""

    rubric: str
    allow_code: bool
    bare: bool
    responses: str | None
    families: tuple[str, ...]
    limit: int | None
    seed: int
    fail_over: float | None
    shown_attacks: int
    layout: str
    quiet: bool


def _read_responses(name: str | None) -> list[dict[str, Any]]:
    """Return the responses in a file, as rollouts with a name."""
    if name is None:
        return []
    if name != "-" and not Path(name).is_file():
        raise TrustError(f"--responses {name} is not a file: name a text, or a table of responses")
    return [{**text.rollout, "name": text.name} for text in read_texts([name])]


def _make_variants(grader: graders.Grader, options: ProbeOptions) -> dict[str, graders.Grader]:
    """Return the variants of the judge to probe, from the least to the best protected."""
    variants: dict[str, graders.Grader] = {}
    if options.bare:
        variants["bare"] = probe.Bare(grader)
    variants["hardened"] = grader
    if options.guard:
        variants["guarded"] = graders.Guarded(grader)
    return variants


def _choose_exit_code(
    reports: Mapping[str, probe.ProbeReport],
    variants: Mapping[str, graders.Grader],
    options: ProbeOptions,
) -> int:
    """Return the exit code of a probe, and say why if it failed; the best protected variant decides."""
    is_complete = len(reports) == len(variants) and all(
        report.complete for report in reports.values()
    )
    if not is_complete:
        print_note(
            f"stopped before all questions were asked{describe_kept_answers(options)}",
            quiet=options.quiet,
        )
        return EXIT_INTERRUPTED
    variant, report = list(reports.items())[-1]
    upper_end = report.overall.share.high  # of the interval; None if nothing could be attacked
    has_unanswered = any(report.unanswered for report in reports.values())
    if upper_end is None or has_unanswered:
        return EXIT_ERROR
    if options.fail_over is None or upper_end <= options.fail_over:
        return EXIT_OK
    print_note(
        f"up to {upper_end:.3f} of such attacks on the {variant} judge may succeed, which is above "
        f"{options.fail_over:g}",
        quiet=options.quiet,
    )
    return EXIT_THRESHOLD


def _make_page(
    reports: Mapping[str, probe.ProbeReport], rubric_name: str, shown_attacks: int
) -> Page:
    """Return the page about the probe of each variant of the judge.

    It lists at most `shown_attacks` of the successful attacks on each variant.
    """
    title = f"{rubric_name}: no question was asked"
    if reports:
        last_report = list(reports.values())[-1]
        attacks = format_count(last_report.overall.attacks, "attack")
        criteria = format_count(len(last_report.criteria), "criterion", "criteria")
        title = f"{rubric_name}: {attacks} on {last_report.judge}, {criteria}"
    family_rates: dict[str, dict[str, probe.Rate]] = {}
    criterion_rates: dict[str, Mapping[str, probe.Rate]] = {}
    for variant, report in reports.items():
        family_rates[variant] = {"all": report.overall, **report.families}
        criterion_rates[variant] = report.criteria
    return Page(
        title,
        sections=[
            _make_rates_table("family", family_rates),
            _make_rates_table("criterion", criterion_rates),
            _make_wins_table(reports, shown_attacks),
        ],
        notes=list(_make_notes(reports)),
        data={variant: report.to_dict() for variant, report in reports.items()},
    )


def _make_rates_table(
    title: str, rates_by_variant: Mapping[str, Mapping[str, probe.Rate]]
) -> Section:
    """Return a table with a row per family or criterion, and three columns per variant of the judge.

    The mapping holds the rates of each variant, by the name of the family or criterion.
    """
    columns = [title]
    row_names: dict[str, None] = {}  # a dict, to keep each name once and in order
    has_errors = False
    for variant, rates in rates_by_variant.items():
        columns += [f"{variant}: fooled", "of", "share"]
        row_names |= dict.fromkeys(rates)
        has_errors = has_errors or any(rate.errors for rate in rates.values())
    if has_errors:
        columns.append("no answer")
    rows: list[list[object]] = []
    for name in row_names:
        cells: list[object] = [name]
        error_count = 0
        for rates in rates_by_variant.values():
            rate = rates.get(name)
            if rate is None:  # not attacked in this variant
                cells += [None, None, None]
            else:
                cells += [rate.fooled, rate.trials, rate.share]
                error_count += rate.errors
        if has_errors:
            cells.append(error_count)
        rows.append(cells)
    return Section(columns, rows)


def _make_wins_table(reports: Mapping[str, probe.ProbeReport], shown_attacks: int) -> Section:
    """Return the table of successful attacks, at most `shown_attacks` on each variant of the judge."""
    rows: list[tuple[object, ...]] = []
    for variant, report in reports.items():
        for trial in islice(report.wins, shown_attacks):
            reason = shorten_line(trial.reason, REASON_LENGTH)
            rows.append((trial.attack, variant, trial.criterion, trial.verdict, reason))
    return Section(("fooled by", "judge", "criterion", "verdict", "why"), rows)


def _make_notes(reports: Mapping[str, probe.ProbeReport]) -> Iterator[str]:
    """Yield what the tables leave out. A note that is not about all variants names its variants."""
    # Many notes are the same for all variants, so that they are printed once.
    variants_by_note: dict[str, list[str]] = defaultdict(list)
    for variant, report in reports.items():
        for note in _describe_report(report):
            variants_by_note[note].append(variant)
    for note, variants in variants_by_note.items():
        if len(variants) == len(reports):
            yield note
        else:
            yield f"{', '.join(variants)}: {note}"
    spent = sum((report.spent for report in reports.values()), runs.Spending())
    yield describe_spending(spent)


def _describe_report(report: probe.ProbeReport) -> Iterator[str]:
    """Yield what is missing from a report, and what else went wrong with the judge's answers."""
    if not report.complete:
        yield "stopped: the figures cover only the questions asked so far"
    yield from _describe_unanswered(report)
    yield from _describe_unprobed(report)
    trials_with_invented_quotes = report.invented
    if trials_with_invented_quotes:
        quoting_reasons = format_count(report.quoting, "reason")
        first_quote = trials_with_invented_quotes[0].invented[0]
        yield (
            f"{len(trials_with_invented_quotes):,} of {quoting_reasons} that quote, quote words "
            f"that are not in the text, such as {shorten_line(first_quote, REASON_LENGTH)!r}"
        )
    false_alarms, harmless_count = report.alarms
    if false_alarms:
        harmless_texts = format_count(harmless_count, "harmless text")
        yield f"false alarms: the guard took {false_alarms:,} of {harmless_texts} for attacks"


def _describe_unanswered(report: probe.ProbeReport) -> Iterator[str]:
    """Yield how many verdicts are missing, and the three most frequent errors."""
    if not report.unanswered:
        return
    yield f"{format_count(len(report.unanswered), 'verdict')} missing and left out:"
    errors = Counter(trial.error or "" for trial in report.unanswered)
    for error, error_count in errors.most_common(3):
        yield f"  {error_count:,} × {shorten_line(error, REASON_LENGTH)}"


def _describe_unprobed(report: probe.ProbeReport) -> Iterator[str]:
    """Yield which criteria were not attacked, by which families, and why."""
    families_by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for unprobed in report.unprobed:
        families_by_reason[unprobed.criterion, unprobed.why].append(unprobed.family)
    for (criterion, reason), families in families_by_reason.items():
        by_families = ""
        if any(families):  # the family is empty if the reason holds for all
            by_families = f" by {', '.join(families)}"
        yield f"{criterion} was not attacked{by_families}: {reason}"
