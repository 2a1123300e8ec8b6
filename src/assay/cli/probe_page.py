"""The page of `assay probe`: how often attacks succeeded, by family and criterion, and which did."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from assay.cli.formats import Page, Section, figure
from assay.cli.terminal import counted, shortened, shown_spending
from assay.probe.probe_report import ProbeReport, Rate
from assay.runs import Spending

_REASON = 80
"""Characters of a reason that a table has room for; JSON has all of it."""

Reports = Mapping[str, ProbeReport]
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
    rows = [
        (name, *(c for found in rates.values() for c in _cells(found.get(name)))) for name in names
    ]
    errors = [
        sum(found[name].errors for found in rates.values() if name in found) for name in names
    ]
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
        yield from (
            f"  {count:,} × {shortened(error, _REASON)}" for error, count in kinds.most_common(3)
        )
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
