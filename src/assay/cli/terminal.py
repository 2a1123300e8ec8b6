"""Write reports, counts and costs as plain text for a terminal; every line stands for itself."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TextIO

from assay.wording import counted as counted

if TYPE_CHECKING:
    from assay.models import Ledger
    from assay.report import CriterionReport, EvaluationReport
    from assay.runs.spending import Spending


_CODES: Final = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}


def are_wanted(stream: TextIO) -> bool:
    """Whether it is a terminal that shows colours, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in that colour; as it is where colours are not wanted."""
    if not are_wanted(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


_ACTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters but for tab and new line."""

REASON = 160
"""Characters of a reason that are shown; `--json` has all of it."""


def shown_report(name: str, report: "EvaluationReport", *, coloured: bool = False) -> str:
    """A report as lines: the score, and each criterion with its verdict and reason."""
    head = f"{on_one_line(name)}: {shown_score(report)}"
    if report.vetoed_by:
        head += f", vetoed by {on_one_line(', '.join(report.vetoed_by))}"
    if report.report is None and report.reason:
        head += f"  {shortened(report.reason)}"
    return "\n".join([head, *_lines(report.lines, "  ", coloured)])


def shown_score(report: "EvaluationReport") -> str:
    """The score, or how much of it is missing."""
    if report.score is not None:
        return f"{report.score:.3g}"
    if report.scored:
        return f"reward {report.raw_score:.3g}, and no score, since nothing can be gained"
    if not report.applies:
        return "unscored, since no counted criterion applies"
    missing = report.asked - report.answered
    return f"unscored, no answer to {missing} of {report.asked} criteria"


def _lines(lines: "Sequence[CriterionReport]", indent: str, coloured: bool) -> Iterator[str]:
    for line in lines:
        said = line.error or line.reason
        words = line.requirement or line.name
        told = f": {shortened(said)}" if said else ""
        mark, colour = _mark(line)
        mark = f"{mark:<6} "
        mark = painted(mark, colour) if coloured and colour else mark
        yield f"{indent}{mark}{line.weight:+g}  {on_one_line(words)}{told}"
        if line.requirement is None:
            yield from _lines(line.lines, indent + "  ", coloured)


def _mark(line: "CriterionReport") -> tuple[str, str]:
    """The answer in a word, and the colour of that."""
    if line.error is not None:
        return line.said, "red"
    if line.verdict is not None:
        return line.said, "green" if line.passed else "yellow"
    return line.said or "–", ""


def shortened(text: str, most: int = REASON) -> str:
    """The text on one line, cut where that grows too long.

    >>> shortened("as long as it is", 7)
    'as long…'
    """
    words = on_one_line(text)
    return words if len(words) <= most else f"{words[:most]}…"


def printable(text: str) -> str:
    """The text without what would act on a terminal, since a model may have written it.

    >>> printable("red: \\x1b[31m")
    'red: \\\\x1b[31m'
    """
    return _ACTS.sub(lambda found: repr(found[0])[1:-1], text)


def on_one_line(text: str) -> str:
    """The text as `printable`, with its line ends as spaces.

    >>> on_one_line("two\\nlines")
    'two lines'
    """
    return printable(" ".join(text.split()))


def shown_spending(spent: "Spending") -> str:
    """Calls, tokens and money, as far as they are known."""
    parts = [counted(spent.calls, "call")]
    if spent.hits:
        parts.append(f"{counted(spent.hits, 'verdict')} from the cache")
    if spent.calls:
        parts.append(f"{spent.prompt:,} tokens read and {spent.completion:,} written")
        parts.append(shown_money(spent))
    return ", ".join(parts)


def shown_dry_run(spent: "Ledger") -> str:
    """What a dry run counted: what it would take if all goes well, and at most.

    The number of calls is a bound. Dollars rest on a guess of how much judges write; `--budget` bounds those.
    """
    from assay.runs.spending import Spending

    told = shown_spending(Spending.of(spent))
    if not spent.calls:
        return told
    money = "" if spent.unpriced else f" and ${spent.most_cost:.4f}"
    return (
        f"{told}; at most {counted(spent.most_calls, 'call')}{money}, if every call were tried as often as "
        "allowed and every reply asked for again"
    )


def shown_money(spent: "Spending") -> str:
    """Dollars; what has no known price is said, and not counted as free."""
    dollars = f"${spent.cost:.4f}" if spent.cost else "$0"
    if not spent.unpriced:
        return dollars
    return f"{dollars} and {counted(spent.unpriced, 'call')} whose price is not known"


def shown_time(seconds: float) -> str:
    """A moment, by the clock here.

    >>> shown_time(0)[:2] in ("19", "20")
    True
    """
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
