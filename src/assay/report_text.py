"""Write reports as text for terminals and as HTML for notebooks."""

from collections.abc import Iterator, Sequence

from assay.display import (
    Page,
    Section,
    TonedCell,
    colour_text,
    format_line,
    shorten_line,
    shorten_middle,
)
from assay.report import Citation, CriterionReport, EvaluationReport
from assay.wording import describe_verdict


def format_report(
    name: str,
    report: EvaluationReport,
    *,
    coloured: bool = False,
    known_errors: dict[str, str] | None = None,
    with_names: bool = False,
) -> str:
    """Return a report as lines of text: the score, then each criterion with its answer.

    A message is written once. `known_errors` says in which report a message was first written, and
    takes those that are new. `with_names` writes the name of a criterion before its requirement.
    """
    if known_errors is None:
        known_errors = {}
    heading = f"{format_line(name)}: {format_score(report)}"
    if report.vetoed_by:
        heading += f", vetoed by {format_line(', '.join(report.vetoed_by))}"
    if report.shown:
        heading += f" (judges were shown: {report.shown})"
    if report.report is None and report.reason:
        heading += f"  {shorten_line(report.reason)}"
    errors = _ErrorText(name, known_errors)
    lines = _format_lines(report.lines, "  ", coloured, errors, with_names=with_names)
    return "\n".join([heading, *lines])


class _ErrorText:
    """Writes each error message once, and then only its kind and where it was written."""

    def __init__(self, name: str, known_errors: dict[str, str]) -> None:
        self._name = name
        self._known_errors = known_errors

    def format(self, error: str) -> str:
        """Return the message, or its kind and the report in which it was already written."""
        if error not in self._known_errors:
            self._known_errors[error] = self._name
            return shorten_middle(error)
        first_name = self._known_errors[error]
        kind = error.partition(":")[0]
        if first_name == self._name:
            return f"{shorten_line(kind, 40)}, as above"
        return f"{shorten_line(kind, 40)}, as in {format_line(first_name)}"


def format_score(report: EvaluationReport) -> str:
    """Return the score as text, or why there is none."""
    if report.score is not None:
        return f"{report.score:.3g}"
    if report.scored:
        return f"reward {report.raw_score:.3g}, and no score, since no criterion can add points"
    if not report.applies:
        return "unscored, since no weighted criterion applies"
    return f"unscored, no answer to {report.asked - report.answered} of {report.asked} criteria"


def _format_lines(
    lines: Sequence[CriterionReport],
    indent: str,
    coloured: bool,
    errors: _ErrorText,
    *,
    with_names: bool,
) -> Iterator[str]:
    """Yield each criterion with its answer, its citations and the lines below it."""
    answers = [describe_verdict(line.short_answer or "–", line.weight) for line in lines]
    width = 8 if any(answer in ("happened", "avoided") for answer in answers) else 6
    for line, answer in zip(lines, answers, strict=True):
        colour = _choose_colour(line) if coloured else ""
        answer = colour_text(f"{answer:<{width}} ", colour)
        question = format_line(line.requirement or line.name)
        if with_names and line.requirement is not None:
            question = f"{format_line(line.name)}  {question}"
        text = f"{indent}{answer}{line.weight:+g}  {question}"
        if line.error:
            text += f": {errors.format(line.error)}"
        elif line.reason:
            text += f": {shorten_line(line.reason)}"
        yield text
        for citation in line.citations:
            yield f"{indent}       {_format_citation(citation)}"
        # The lines of nested rubrics and of steps are shown, those of single judges are not.
        is_judged = line.requirement is not None
        inner = [child for child in line.lines if child.step or not is_judged]
        yield from _format_lines(inner, indent + "  ", coloured, errors, with_names=with_names)


def _choose_colour(line: CriterionReport) -> str:
    """Return the colour of an answer; an empty text for no colour."""
    if line.error is not None:
        return "red"
    if line.verdict is None:
        return ""
    if line.passed:
        return "green"
    # A fault that happened costs points, while an unmet criterion only gains none.
    return "red" if line.weight < 0 else "yellow"


def _format_citation(citation: Citation) -> str:
    """Return a citation as text, with a note if the judge cites what is not there."""
    text = f"cites {citation.get('part', 'the response')}"
    if "quote" in citation:
        text += f" “{shorten_line(citation['quote'])}”"
    if "found" in citation:
        text += ", not there"
    return text


def format_report_html(report: EvaluationReport) -> str:
    """Return a report as an HTML table, for notebooks."""
    tones = {True: "good", False: "bad", None: ""}
    rows: list[tuple[object, ...]] = []
    for line in report.lines:
        tone = "error" if line.error else tones[line.passed]
        answer = TonedCell(describe_verdict(line.short_answer or "–", line.weight), tone)
        rows.append((line.name, f"{line.weight:+g}", answer, line.error or line.reason))
    title = f"score: {format_score(report)}"
    if report.raw_score is not None:
        title += f", reward {report.raw_score:.3g}"
    notes = [f"vetoed by {', '.join(report.vetoed_by)}"] if report.vetoed_by else []
    table = Section(("criterion", "weight", "answer", "reason"), rows)
    return Page(title, [table], notes).text("html")
