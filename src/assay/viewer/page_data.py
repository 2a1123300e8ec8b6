"""Collect the data that the page shows about a run, as plain data for JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from assay.criterion import Criterion
from assay.errors import MediaError
from assay.graders.evidence import citations_of
from assay.media import read_medium
from assay.messages import MEDIA_KINDS, Part, completion_text, read_conversation, read_parts
from assay.parsers import XMLParser, extract_boxed_answer, extract_hash_answer
from assay.report import Citation, CriterionReport
from assay.runs import Row, Run, Summary
from assay.runs.jsonable import escape_surrogates
from assay.runs.metadata import CriterionAbout
from assay.runs.stats import MeanEstimate
from assay.runs.summary import CriterionSummary
from assay.trust.labels import Label, hash_row_text
from assay.viewer.rollout_table import RolloutTable

_ANSWER_PARSER = XMLParser(["answer"])


def pick_attributes(source: object, names: str) -> dict[str, Any]:
    """Return some attributes of an object; `names` are separated by spaces."""
    return {name: getattr(source, name) for name in names.split()}


def describe_run(run: Run, summary: Summary, table: RolloutTable) -> dict[str, Any]:
    """Return the overview of a run: errors, scores, criteria, tags, categories, and the cost."""
    tags = [{"name": name, **_describe_mean(mean)} for name, mean in summary.tags.items()]
    tasks: list[dict[str, Any]] = []
    for name, task in summary.tasks.items():
        counts = {"name": name, "rows": task.rollouts, "scored": task.scored}
        tasks.append({**counts, **_describe_mean(task.score)})
    pass_rates: list[dict[str, Any]] = []
    has_repeated_rollouts = list(summary.passes) != [1]
    if has_repeated_rollouts:  # else there is only pass@1, the share that the page shows anyway
        for k, rates in summary.passes.items():
            pass_rates.append({"k": k, **pick_attributes(rates, "any all examples")})
    return {
        "rows": summary.rollouts,
        **pick_attributes(summary, "examples scored unscored failed complete"),
        "errors": _list_errors(table, summary),
        "score": {**_describe_mean(summary.score), "histogram": table.make_histogram("score")},
        "reward": {**_describe_mean(summary.reward), "histogram": table.make_histogram("reward")},
        "criteria": _describe_criteria(run, summary, table),
        "tags": tags,
        "tasks": tasks,
        "pass": pass_rates,
        "threshold": summary.threshold,
        "pass_measure": summary.pass_measure,
        "spent": summary.spent.to_dict(),
        "spent_on_model": summary.spent_on_model.to_dict(),
        "spent_on_judge": summary.spent_on_judge.to_dict(),
        "worst": table.list_worst(),
        "slowest": table.list_largest("seconds"),
        "dearest": table.list_largest("cost"),
        "columns": table.list_data_columns(),
        "constant": table.list_constant_columns(),
    }


def _describe_criteria(run: Run, summary: Summary, table: RolloutTable) -> list[dict[str, Any]]:
    """Return what the overview shows of every criterion, of the run's rubric and of those in rows."""
    rubric_criteria = {criterion.name: criterion for criterion in run.about.criteria}
    conditional_names: set[str] = set()  # criteria that are asked only under a condition
    if run.about.rubric is not None:
        for criterion in run.about.rubric.criteria:
            if criterion.when:
                conditional_names.add(criterion.name)
    is_only_in_rows = table.list_criteria()  # by name
    criteria: list[dict[str, Any]] = []
    for raw_name, criterion_summary in summary.criteria.items():
        name = escape_surrogates(raw_name)  # as the tables of the run have it
        criterion = rubric_criteria.get(raw_name)
        described = _describe_criterion(name, criterion_summary, criterion)
        described["conditional"] = raw_name in conditional_names
        described["own"] = is_only_in_rows.get(name, False)
        criteria.append(described)
    return criteria


def _list_errors(table: RolloutTable, summary: Summary) -> list[dict[str, Any]]:
    """Return the errors, the most frequent first, with their criteria and their first row.

    Criteria whose errors of a kind begin with the same message share one entry.
    """
    errors: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and message
    for criterion, kinds in summary.errors_by_criterion.items():
        for kind, count in kinds.items():
            # The first error stands for all errors of this kind.
            first_row, message = table.find_first_error(criterion, kind)
            error = errors.setdefault(
                (kind, message),
                {
                    "criteria": [],
                    "kind": kind,
                    "count": 0,
                    "first_row": first_row,
                    "message": message,
                },
            )
            error["count"] += count
            if criterion != "rollout":  # which stands for errors of a whole rollout
                error["criteria"].append(criterion)
    return sorted(errors.values(), key=lambda error: -error["count"])


def _describe_criterion(
    name: str, summary: CriterionSummary, criterion: Criterion | None
) -> dict[str, Any]:
    """Return what the overview shows of a criterion; `criterion` is None if only rows have it.

    `judged` is None if it is not known: a criterion of rows that has only errors.
    """
    verdicts = [{"word": word, "count": count} for word, count in summary.verdicts.items()]
    if criterion is not None:
        judged = criterion.judged
    elif summary.verdicts:
        judged = True  # only models give verdicts
    elif summary.errors:
        judged = None
    else:
        judged = False
    return {
        "name": name,
        "requirement": None if criterion is None else criterion.requirement,
        "choices": [] if criterion is None else list(criterion.choices),
        "allow_na": criterion is not None and criterion.allow_na,
        "judged": judged,
        "weight": summary.weight,
        "counted": criterion is None or criterion.counts,
        "required": criterion is not None and criterion.required,
        **_describe_mean(summary.value),
        **pick_attributes(summary, "met unmet not_applicable unneeded"),
        "error": summary.errors,
        "verdicts": verdicts,
    }


def _describe_mean(estimate: MeanEstimate) -> dict[str, Any]:
    return pick_attributes(estimate, "mean low high count")


def describe_row(
    run: Run,
    number: int,
    row: Row,
    labels: Sequence[Label],
    criteria: Sequence[CriterionAbout],
) -> dict[str, Any]:
    """Return everything about one rollout: its texts, and for each criterion its answer and labels.

    `number` is the number of the row, from 1. `criteria` are those that it was scored by.
    """
    fields = dict(row.fields)  # what is left of them in the end are the columns of the data
    completion = fields.pop("completion", "")
    text = completion_text(completion)  # the last reply
    parts = read_parts(fields.get("prompt"), completion)
    # The hashes by which a label may name the wording that it is about; a new label gets the first.
    guidelines = {criterion.name: [criterion.guideline, criterion.hash] for criterion in criteria}
    lines: list[dict[str, Any]] = []
    for line in row.report.lines:  # a line is the answer to one criterion
        line_labels = [label for label in labels if label.criterion == line.name]
        described = _describe_line(line, text, line_labels, parts)
        lines.append({**described, "guidelines": guidelines.get(line.name, [])})
    return {
        "number": number,
        **pick_attributes(row, "example sample task score reward scored error model altered"),
        "prompt": _list_messages(fields.pop("prompt", ""), "user"),
        "completion": _list_messages(completion, "assistant"),
        "text": text,
        "text_hash": hash_row_text(row),
        "parsed": _parse_answer(text),
        "answer": fields.pop("answer", None),
        "info": fields.pop("info", None) or None,
        "columns": {name: value for name, value in fields.items() if name != "task"},
        **pick_attributes(row.report, "vetoed_by reason shown"),
        "lines": lines,
        "media": [_describe_medium(part) for part in parts if part.kind in MEDIA_KINDS],
        "timing": dict(row.timing),
        "spent": row.spent.to_dict(),
        "spent_on_model": row.spent_on_model.to_dict(),
        "spent_on_judge": row.spent_on_judge.to_dict(),
        "calls": list(row.calls),
    }


def _describe_line(
    line: CriterionReport, text: str, labels: Iterable[Label], parts: Sequence[Part]
) -> dict[str, Any]:
    """Return what the page shows of the answer to one criterion, with people's labels of it.

    `text` is the last reply of the rollout, and `parts` are the pieces of its whole conversation.
    """
    attributes = "name requirement weight value reason error counted passed disagreement tags"
    is_judged = line.requirement is not None
    evidence = list(line.citations)
    if is_judged:
        evidence = _list_evidence(line, text, parts)
    # The lines below a judged one are the votes of several judges. Below a check they are the
    # criteria of a nested rubric, or the steps of the rollout.
    inner_lines = [_describe_line(inner, text, (), parts) for inner in line.lines]
    return {
        **pick_attributes(line, attributes),
        "verdict": line.short_answer,
        "evidence": evidence,
        "nested": not is_judged and bool(line.lines) and not line.steps,
        "steps": bool(line.steps),
        "votes": inner_lines,
        "labels": [label.to_dict() for label in labels],
    }


def _list_evidence(line: CriterionReport, text: str, parts: Sequence[Part]) -> list[Citation]:
    """Return what the reason of an answer cites, of the last reply or of another part.

    The citations that were saved with the answer are kept, since they may refer to something
    outside the rollout, such as a file. Others are quotations, which are looked up here.
    """
    searched_parts = parts if len(parts) > 1 else ()  # a single part is the text
    citations = citations_of(line.reason, searched_parts, text)
    # The saved citations come first in the reason, so they are the first ones here too.
    return [*line.citations, *citations[len(line.citations) :]]


def _describe_medium(part: Part) -> dict[str, Any]:
    """Return an image, an audio clip or a PDF as the page shows it.

    Its type is that of its bytes, and is never one that can contain a script.
    """
    try:
        medium = read_medium(part)
    except MediaError as error:
        return {"address": part.address, "error": str(error)}
    return {"address": part.address, **medium.description, "url": medium.url}


def _parse_answer(text: str) -> str | None:
    """Return the final answer that a text marks: in `<answer>`, in `\\boxed{}` or after `####`.

    This is a guess, because a run does not save the parser of its rubric. None if nothing is marked.
    """
    if "</answer>" in text:
        return _ANSWER_PARSER.parse_answer(text)
    if "boxed" in text:
        return extract_boxed_answer(text, strict=True) or None
    return extract_hash_answer(text)


def _list_messages(conversation: Any, role: str) -> list[dict[str, Any]]:
    """Return messages in any form as mappings. A plain text becomes one message with this role."""
    messages: list[dict[str, Any]] = []
    for message in read_conversation(conversation, role):
        if isinstance(message, Mapping):
            messages.append(dict(cast("Mapping[str, Any]", message)))
        else:
            messages.append({"role": role, "content": message})
    return messages
