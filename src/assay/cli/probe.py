"""`assay probe RUBRIC`: attack the judge of a rubric, before a model that is trained against it does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from assay import cli, graders, probe, runs
from assay.display import Page, Section, shorten_line
from assay.errors import TrustError
from assay.wording import format_count


class ProbeOptions(cli.JudgingOptions, cli.RubricArgument):
    """What is tried, what makes a failure of it, and how it is shown."""

    bare: bool = cli.value_of()
    responses: str | None = cli.value_of()
    families: tuple[str, ...] = cli.value_of(multiple=True)
    limit: int | None = cli.value_of(cli.positive)
    seed: int = cli.value_of(cli.count, 0)
    fail_over: float | None = cli.value_of(cli.number(0, what="share"))
    show: int = cli.value_of(cli.count, 5)
    layout: str = cli.value_of(cli.PAGES, "table")
    quiet: bool = cli.value_of()


@cli.declare("probe")
def command(options: ProbeOptions) -> int:
    """Attack the judge of a RUBRIC with texts that try to talk it into a better verdict.

    They are added to responses that deserve to fail: the rubric's golden examples, else --responses,
    else texts about something else. The judge is asked about those first, and an attack counts only
    where it failed them. With --guard the judge is probed twice, without the guard and with it.
    """
    rubric, quiet, kept = cli.rubric_of(options), options.quiet, cli.kept_answers(options)
    attacks = probe.attacks_of(options.families, limit=options.limit, seed=options.seed)
    reports: dict[str, probe.ProbeReport] = {}
    forms: dict[str, graders.Grader] = {}
    responses: list[dict[str, Any]] = []
    if options.responses is not None:
        if options.responses != "-" and not Path(options.responses).is_file():
            raise TrustError(
                f"--responses {options.responses} is no file: name a text, or a table of responses"
            )
        responses = [
            {**rollout, "name": name} for name, rollout in cli.texts_of([options.responses])
        ]

    async def work(under: cli.Conditions) -> None:
        told: dict[str, Any] = {"stopping": under.stopping, "on_progress": under.on_progress}
        for form, grader in forms.items():
            if not under.stopping():
                reports[form] = await probe.probe(
                    rubric, grader, attacks=attacks, responses=responses, seed=options.seed, **told
                )

    def show(_: None, spent: cli.Ledger) -> int:
        print(cli.page_text(_page(reports, rubric.name or "rubric", options.show), options.layout))
        cli.say_budget(spent, kept, quiet=quiet)
        if len(reports) < len(forms) or not all(report.complete for report in reports.values()):
            cli.say(f"stopped before all was asked{kept}", quiet=quiet)
            return cli.INTERRUPTED
        # The most hardened form is what would be used, so that one is held to the threshold.
        form, report = list(reports.items())[-1]
        high, most = report.overall.share.high, options.fail_over
        if high is None or any(each.unanswered for each in reports.values()):
            return cli.BROKEN
        if most is None or high <= most:
            return cli.FINE
        cli.say(
            f"up to {high:.3f} of such attacks on the {form} judge may succeed: above {most:g}",
            quiet=quiet,
        )
        return cli.MISSED

    with cli.judging_with(replace(options, guard=False), rubric, quiet=quiet) as named:
        grader = named or rubric.autograder
        if grader is None:
            raise TrustError(
                "nothing in this rubric is judged by a model, so there is no judge to attack"
            )
        # From the least to the most hardened.
        forms = {"bare": probe.Bare(grader)} if options.bare else {}
        forms |= {
            "hardened": grader,
            **({"guarded": graders.Guarded(grader)} if options.guard else {}),
        }
        return cli.run_work(
            work,
            show,
            options,
            what=lambda _: format_count(sum(not attack.harmless for attack in attacks), "attack"),
            noun="verdicts",
            quiet=quiet,
            stopped=lambda: f"stopped at once{kept}",
        )


_REASON = 80  # characters of a reason that a table has room for; JSON has all of it


def _page(reports: Mapping[str, probe.ProbeReport], rubric: str, wins: int) -> Page:
    """The page, with so many of the successful attacks on each form."""
    title = f"{rubric}: nothing was asked"
    if reports:
        last = list(reports.values())[-1]
        criteria = format_count(len(last.criteria), "criterion", "criteria")
        title = (
            f"{rubric}: {format_count(last.overall.attacks, 'attack')} on {last.judge}, {criteria}"
        )
    listed = [
        (trial.attack, form, trial.criterion, trial.verdict, shorten_line(trial.reason, _REASON))
        for form, report in reports.items()
        for trial in islice(report.wins, wins)
    ]
    sections = [
        _rates("family", {form: {"all": r.overall, **r.families} for form, r in reports.items()}),
        _rates("criterion", {form: r.criteria for form, r in reports.items()}),
        Section(("fooled by", "judge", "criterion", "verdict", "why"), listed),
    ]
    data = {form: report.to_dict() for form, report in reports.items()}
    return Page(title, sections, list(_notes(reports)), data)


def _rates(what: str, rates: Mapping[str, Mapping[str, probe.Rate]]) -> Section:
    """One row a family or criterion, and three columns for each form of the judge."""
    columns = [what]
    for form in rates:
        columns += [f"{form}: fooled", "of", "share"]
    rows: list[list[object]] = []
    errors: list[int] = []
    for name in dict.fromkeys(name for found in rates.values() for name in found):
        each = [found.get(name) for found in rates.values()]
        cells = [(rate.fooled, rate.trials, rate.share) if rate else (None,) * 3 for rate in each]
        rows.append([name, *(cell for three in cells for cell in three)])
        errors.append(sum(rate.errors for rate in each if rate))
    if any(errors):
        columns.append("no answer")
        rows = [[*row, count] for row, count in zip(rows, errors, strict=True)]
    return Section(columns, rows)


def _notes(reports: Mapping[str, probe.ProbeReport]) -> Iterator[str]:
    """What the tables do not say: what was left out, and why; what judges made up; what it took."""
    told: dict[str, list[str]] = defaultdict(list)
    for form, report in reports.items():
        for line in _remarks(report):
            told[line].append(form)
    for line, forms in told.items():
        yield line if len(forms) == len(reports) else f"{', '.join(forms)}: {line}"
    yield cli.shown_spending(sum((report.spent for report in reports.values()), runs.Spending()))


def _remarks(report: probe.ProbeReport) -> Iterator[str]:
    if not report.complete:
        yield "stopped: what follows is about what was asked until then"
    if report.unanswered:
        yield f"{format_count(len(report.unanswered), 'verdict')} could not be had, and count neither way:"
        kinds = Counter(trial.error or "" for trial in report.unanswered)
        yield from (
            f"  {count:,} × {shorten_line(error, _REASON)}" for error, count in kinds.most_common(3)
        )
    by_why: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in report.unprobed:
        by_why[each.criterion, each.why].append(each.family)
    for (criterion, why), families in by_why.items():
        which = f" by {', '.join(families)}" if any(families) else ""
        yield f"{criterion} was not attacked{which}: {why}"
    if report.invented:
        some = f"{len(report.invented):,} of {format_count(report.quoting, 'reason')} that quote"
        first = shorten_line(report.invented[0].invented[0], _REASON)
        yield f"{some}, quote words that are not in the text, such as {first!r}"
    alarms, texts = report.alarms
    if alarms:
        yield f"false alarms: the guard took {alarms:,} of {format_count(texts, 'harmless text')} for attacks"
