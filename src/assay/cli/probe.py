"""`assay probe RUBRIC`: attack the judge of a rubric, before a model that is trained against it does."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.formats import Page, Section, figure
from assay.cli.options import (
    JudgeOptions,
    RubricOptions,
    allow_code_option,
    bundled,
    count,
    files,
    judge_options,
    number,
    page_option,
)
from assay.cli.root import BROKEN, FINE, INTERRUPTED, MISSED, Command
from assay.cli.terminal import counted, shortened, shown_spending
from assay.errors import TrustError

if TYPE_CHECKING:
    from assay.cli.runner import Stopping, Tell
    from assay.graders import Autograder
    from assay.probe.attacks import Attack
    from assay.probe.probe_report import ProbeReport, Rate
    from assay.rubric import Rubric


BARE, HARDENED, GUARDED = "bare", "hardened", "guarded"


@dataclass(frozen=True)
class Probing:
    """What is tried, what makes a failure of it, and how it is shown."""

    bare: bool
    responses: str | None
    families: tuple[str, ...]
    limit: int | None
    seed: int
    fail_over: float | None
    show: int
    layout: str
    quiet: bool


_probing = bundled(
    "probing",
    Probing,
    click.option(
        "--bare", is_flag=True,
        help="Probe the judge without our hardening, too: what many would write. No judge to use.",
    ),
    click.option(
        "--responses", metavar="FILE", shell_complete=files,
        help="Bad responses to attack with, where the rubric has no golden example that fails: a text, or a table.",
    ),
    click.option(
        "--family", "families", multiple=True, metavar="NAME",
        help="Only attacks of this family, such as master_key. May be given again.",
    ),
    click.option(
        "--limit", type=count(1), metavar="N", help="Only N attacks, drawn from all families."
    ),
    click.option(
        "--seed", type=count(), default=0, show_default=True, metavar="N",
        help="Which attacks are drawn, and which texts stand in for bad responses.",
    ),
    click.option(
        "--fail-over", type=number(0, what="share"), metavar="SHARE",
        help="Exit with 100 when more attacks than this may succeed: when the upper end of the interval is above it.",
    ),
    click.option(
        "--show", type=count(), default=5, show_default=True, metavar="N",
        help="How many successful attacks to list.",
    ),
    page_option,
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error."),
)  # fmt: skip


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
@_probing
def command(rubric: str, allow_code: bool, judging: JudgeOptions, probing: Probing) -> int:
    """Attack the judge of a RUBRIC with texts that try to talk it into a better verdict.

    They are added to responses that deserve to fail: the rubric's golden examples, else --responses,
    else texts about something else. The judge is asked about those first, and an attack counts only
    where it failed them. With --guard the judge is probed twice, without the guard and with it.
    """
    from assay.cli.judges import judging_with
    from assay.cli.runner import quiet_log
    from assay.cli.sources import rubric_of

    found = rubric_of(RubricOptions(rubric, allow_code))
    plain = replace(judging, guard=False)
    with judging_with(plain, found, quiet=probing.quiet) as named, quiet_log():
        grader = named or found.autograder
        if grader is None:
            raise TrustError("nothing in this rubric is judged by a model, so there is no judge to attack")
        work = _Work(found, _graders(grader, judging, probing), judging, probing)
        return work.rehearse() if judging.dry_run else work.carry_out()


def _graders(grader: Autograder, judging: JudgeOptions, probing: Probing) -> dict[str, Autograder]:
    """The judge in every form that is wanted, from the least to the most hardened."""
    from assay.graders import Guarded
    from assay.probe.trials import Bare

    forms: dict[str, Autograder] = {BARE: Bare(grader)} if probing.bare else {}
    forms[HARDENED] = grader
    return {**forms, GUARDED: Guarded(grader)} if judging.guard else forms


@dataclass(frozen=True)
class _Work:
    rubric: Rubric
    graders: dict[str, Autograder]
    judging: JudgeOptions
    probing: Probing

    def rehearse(self) -> int:
        """Say what it would take, and ask no model."""
        from assay.cli.runner import Stopping, say_cost

        async def probe_all() -> int:
            for grader in self.graders.values():
                await self._probe(grader, Stopping(), None)
            return sum(not attack.harmless for attack in self._attacks())

        return say_cost(probe_all(), lambda number: counted(number, "attack"))

    def carry_out(self) -> int:
        from assay.cli.runner import shown_progress, stoppable
        from assay.models import budget

        reports: dict[str, ProbeReport] = {}
        with stoppable() as stopping, budget(dollars=self.judging.budget) as spent:
            try:
                with shown_progress("verdicts", quiet=self.probing.quiet) as tell:
                    for form, grader in self.graders.items():
                        if not stopping():
                            reports[form] = stopping.run(self._probe(grader, stopping, tell))
            except KeyboardInterrupt:
                self._say(f"stopped at once{self._kept()}")
                raise
        print(page_of(reports, self.rubric.name or "rubric", self.probing.show).text(self.probing.layout))
        if out := spent.errors["BudgetExceeded"]:
            self._say(f"the budget ran out before {counted(out, 'call')} could be made{self._kept()}")
        return self._code(reports)

    async def _probe(self, grader: Autograder, stopping: Stopping, tell: Tell | None) -> ProbeReport:
        from assay.probe.trials import probe

        return await probe(
            self.rubric,
            grader,
            attacks=self._attacks(),
            responses=self._responses(),
            seed=self.probing.seed,
            stopping=stopping,
            on_progress=tell,
        )

    def _attacks(self) -> tuple[Attack, ...]:
        from assay.probe.attacks import attacks_of

        wanted = self.probing
        return attacks_of(wanted.families, limit=wanted.limit, seed=wanted.seed)

    def _responses(self) -> list[dict[str, Any]]:
        from assay.cli.sources import texts_of

        name = self.probing.responses
        if name is None:
            return []
        if name != "-" and not Path(name).is_file():
            raise TrustError(f"--responses {name} is no file: name a text, or a table of responses")
        return [{**text.rollout, "name": text.name} for text in texts_of([name], "")]

    def _code(self, reports: Mapping[str, ProbeReport]) -> int:
        """The most hardened form is what would be used, so that one is held to the threshold."""
        if len(reports) < len(self.graders) or not all(r.complete for r in reports.values()):
            self._say(f"stopped before all was asked{self._kept()}")
            return INTERRUPTED
        form, report = list(reports.items())[-1]
        high, most = report.overall.share.high, self.probing.fail_over
        if high is None or any(each.unanswered for each in reports.values()):
            return BROKEN
        if most is None or high <= most:
            return FINE
        self._say(f"up to {high:.3f} of such attacks on the {form} judge may succeed: above {most:g}")
        return MISSED

    def _kept(self) -> str:
        from assay.cli.runner import kept_answers

        return kept_answers(self.judging)

    def _say(self, line: str) -> None:
        if not self.probing.quiet:
            print(line, file=sys.stderr, flush=True)


_REASON = 80
"""Characters of a reason that a table has room for; JSON has all of it."""

Reports = Mapping[str, "ProbeReport"]
"""What was found of each form of the judge, from the least to the most hardened."""


def page_of(reports: Reports, rubric: str, wins: int) -> Page:
    """The page, with so many of the successful attacks on each form."""
    sections = [
        _rates("family", {form: {"all": r.overall, **r.families} for form, r in reports.items()}),
        _rates("criterion", {form: r.criteria for form, r in reports.items()}),
    ]
    listed = list(_wins(reports, wins))
    if listed:
        sections.append(Section(("fooled by", "judge", "criterion", "verdict", "why"), listed))
    sections = [section for section in sections if section.rows]
    data = {form: report.to_dict() for form, report in reports.items()}
    return Page(_title(reports, rubric), sections, list(_notes(reports)), data)


def _title(reports: Reports, rubric: str) -> str:
    last = list(reports.values())[-1:]
    if not last:
        return f"{rubric}: nothing was asked"
    attacks = counted(last[0].overall.attacks, "attack")
    criteria = counted(len(last[0].criteria), "criterion", "criteria")
    return f"{rubric}: {attacks} on {last[0].judge}, {criteria}"


def _rates(what: str, rates: Mapping[str, Mapping[str, Rate]]) -> Section:
    """One row a family or criterion, and three columns for each form of the judge."""
    columns = [what]
    for form in rates:
        columns += [f"{form}: fooled", "of", "share"]
    names = dict.fromkeys(name for found in rates.values() for name in found)
    rows = [(name, *(c for found in rates.values() for c in _cells(found.get(name)))) for name in names]
    errors = [sum(found[name].errors for found in rates.values() if name in found) for name in names]
    if any(errors):
        columns.append("no answer")
        rows = [(*row, f"{count:,}") for row, count in zip(rows, errors, strict=True)]
    return Section(tuple(columns), rows)


def _cells(rate: Rate | None) -> tuple[str, str, str]:
    if rate is None:
        return "–", "–", "–"
    return f"{rate.fooled:,}", f"{rate.trials:,}", figure(rate.share)


def _wins(reports: Reports, most: int) -> Iterator[tuple[str, ...]]:
    for form, report in reports.items():
        for trial in islice(report.wins, most):
            verdict = trial.verdict or "–"
            yield trial.attack, form, trial.criterion, verdict, shortened(trial.reason, _REASON)


def _notes(reports: Reports) -> Iterator[str]:
    """What the tables do not say: what was left out, and why; what judges made up; what it took."""
    from assay.runs import Spending

    told: dict[str, list[str]] = defaultdict(list)
    for form, report in reports.items():
        for line in (*_left_out(report), *_said(report)):
            told[line].append(form)
    for line, forms in told.items():
        yield line if len(forms) == len(reports) else f"{', '.join(forms)}: {line}"
    spent = sum((report.spent for report in reports.values()), Spending())
    yield shown_spending(spent)


def _left_out(report: ProbeReport) -> Iterator[str]:
    if not report.complete:
        yield "stopped: what follows is about what was asked until then"
    unanswered = report.unanswered
    if unanswered:
        yield f"{counted(len(unanswered), 'verdict')} could not be had, and count neither way:"
        kinds = Counter(trial.error or "" for trial in unanswered)
        yield from (f"  {count:,} × {shortened(error, _REASON)}" for error, count in kinds.most_common(3))
    by_why: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in report.unprobed:
        by_why[each.criterion, each.why].append(each.family)
    for (criterion, why), families in by_why.items():
        which = f" by {', '.join(families)}" if any(families) else ""
        yield f"{criterion} was not attacked{which}: {why}"


def _said(report: ProbeReport) -> Iterator[str]:
    if report.invented:
        quote = report.invented[0].invented[0]
        yield (
            f"{len(report.invented):,} of {counted(report.quoting, 'reason')} that quote, quote words "
            f"that are not in the text, such as {shortened(quote, _REASON)!r}"
        )
    alarms, texts = report.alarms
    if alarms:
        yield f"false alarms: the guard took {alarms:,} of {counted(texts, 'harmless text')} for attacks"
