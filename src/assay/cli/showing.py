"""What a terminal shows of reports and of what they cost. Plain text; every line stands for itself."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from assay.lines import CriterionReport
from assay.models.ledger import Ledger
from assay.report import EvaluationReport

REASON = 160
"""Characters of a reason that are shown; `--json` has all of it."""


def shown_report(name: str, report: EvaluationReport) -> str:
    """A report as lines: the score, and each criterion with its verdict and reason."""
    head = f"{name}: {shown_score(report)}"
    if report.vetoed_by:
        head += f", vetoed by {', '.join(report.vetoed_by)}"
    if report.report is None and report.reason:
        head += f"  {_short(report.reason)}"
    return "\n".join([head, *_lines(report.lines, "  ")])


def shown_score(report: EvaluationReport) -> str:
    """The score, or how much of it is missing."""
    if report.scored and report.score is not None:
        return f"{report.score:.3g}"
    if not report.asked:
        return "unscored, for nothing in the rubric counts"
    missing = report.asked - report.answered
    return f"unscored, no answer to {missing} of {report.asked} criteria"


def _lines(lines: Sequence[CriterionReport], indent: str) -> Iterator[str]:
    for line in lines:
        said = line.error or line.reason
        words = line.requirement or line.name
        yield f"{indent}{_mark(line):<7}{line.weight:+g}  {words}{f': {_short(said)}' if said else ''}"
        if line.requirement is None:
            yield from _lines(line.lines, indent + "  ")


def _mark(line: CriterionReport) -> str:
    if line.error is not None:
        return "error"
    if line.verdict is not None:
        return line.verdict
    return "–" if line.value is None else f"{line.value:.3g}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= REASON else f"{words[:REASON]}…"


def shown_spending(spent: Ledger) -> str:
    """Calls, tokens and money, as far as they are known."""
    parts = [counted(spent.calls, "call")]
    if spent.hits:
        parts.append(f"{counted(spent.hits, 'verdict')} from the cache")
    if spent.calls:
        usage = spent.usage
        parts.append(f"{usage.prompt:,} tokens read and {usage.completion:,} written")
        parts.append(shown_money(spent))
    return ", ".join(parts)


def shown_money(spent: Ledger) -> str:
    """Dollars; what has no known price is said, and not counted as free."""
    dollars = f"${spent.cost:.4f}" if spent.cost else "$0"
    if not spent.unpriced:
        return dollars
    return f"{dollars} and {counted(spent.unpriced, 'call')} whose price is not known"


def counted(number: int, noun: str) -> str:
    """So many of something.

    >>> counted(1, "text"), counted(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_time(seconds: float) -> str:
    """A moment, by the clock here.

    >>> shown_time(0)[:2] in ("19", "20")
    True
    """
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
