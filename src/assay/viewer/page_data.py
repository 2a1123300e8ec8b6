"""Work out what the page shows of a run, as plain data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from assay.criterion import Criterion
from assay.errors import MediaError
from assay.graders.evidence import citations_of
from assay.media import read_medium
from assay.messages import MEDIA_KINDS, Part, completion_text, read_conversation, read_parts
from assay.parsers import XMLParser, extract_boxed_answer, extract_hash_answer
from assay.report import Citation, CriterionReport
from assay.runs import Row, Summary
from assay.runs.jsonable import encodable
from assay.runs.metadata import CriterionAbout
from assay.runs.stats import MeanEstimate
from assay.runs.summary import CriterionSummary
from assay.trust.labels import Label, hash_row_text
from assay.viewer.row_index import RowIndex

_TAGS = XMLParser(["answer"])


def picked(source: object, names: str) -> dict[str, Any]:
    """Some attributes of an object by their names."""
    return {name: getattr(source, name) for name in names.split()}


def overview(index: RowIndex, summary: Summary) -> dict[str, Any]:
    """What a run comes to: errors first, then scores, criteria, parts, and what it took."""
    known = {criterion.name: criterion for criterion in index.run.about.criteria}
    return {
        "rows": summary.rollouts,
        **picked(summary, "examples scored unscored failed complete"),
        "errors": _errors(index, summary),
        "score": _estimate(summary.score) | {"histogram": index.histogram("score")},
        "reward": _estimate(summary.reward) | {"histogram": index.histogram("reward")},
        "criteria": [
            _criterion(encodable(name), found, known.get(name))
            | {"own": index.criteria.get(encodable(name), False)}
            for name, found in summary.criteria.items()
        ],
        "tags": [{"name": name, **_estimate(tag)} for name, tag in summary.tags.items()],
        "tasks": [
            {"name": name, "rows": task.rollouts, "scored": task.scored, **_estimate(task.score)}
            for name, task in summary.tasks.items()
        ],
        "pass": [
            {"k": k, **picked(rate, "any all examples")}
            for k, rate in summary.passes.items()
            if k > 1 or len(summary.passes) > 1
        ],
        "threshold": summary.threshold,
        "pass_measure": summary.pass_measure,
        "spent": summary.spent.to_dict(),
        "slowest": index.most("seconds"),
        "dearest": index.most("cost"),
    }


def whole_row(
    index: RowIndex,
    number: int,
    row: Row,
    labels: Sequence[Label],
    criteria: Sequence[CriterionAbout],
) -> dict[str, Any]:
    """All of one rollout; what judges were asked and said stands under the criterion it was about."""
    fields = dict(row.fields)
    completion = fields.pop("completion", "")
    text = completion_text(completion)
    parts = read_parts(fields.get("prompt"), completion)
    about = index.run.about.rubric
    asked = () if about is None else about.criteria
    # The hashes of the wording that a label may hold; a new label gets the first one.
    guidelines = {criterion.name: [criterion.guideline, criterion.hash] for criterion in criteria}
    names = {criterion.question: criterion.name for criterion in asked}
    return {
        "number": number,
        **picked(row, "example sample task score reward scored error model altered"),
        "prompt": _messages(fields.pop("prompt", ""), "user"),
        "completion": _messages(completion, "assistant"),
        "text": text,
        "text_hash": hash_row_text(row),
        "parsed": _parsed(text),
        "answer": fields.pop("answer", None),
        "info": fields.pop("info", None) or None,
        "columns": {name: value for name, value in fields.items() if name != "task"},
        **picked(row.report, "vetoed_by reason shown"),
        "lines": [
            _line(line, text, [label for label in labels if label.criterion == line.name], parts)
            | {"guidelines": guidelines.get(line.name, [])}
            for line in row.report.lines
        ],
        "media": [_media(part) for part in parts if part.kind in MEDIA_KINDS],
        "timing": dict(row.timing),
        "spent": row.spent.to_dict(),
        "spent_on_model": row.spent_on_model.to_dict(),
        "spent_on_judge": row.spent_on_judge.to_dict(),
        "judge_log": [
            {**call, "criterion": names.get(call["question"].partition("@")[0])}
            for call in row.judge_log
        ],
    }


def _media(part: Part) -> dict[str, Any]:
    """An image, an audio clip or a PDF as the page shows it: of a type that its bytes show, and that no script can be in."""
    try:
        medium = read_medium(part)
    except MediaError as error:
        return {"address": part.address, "error": str(error)}
    return {"address": part.address, **medium.description, "url": medium.url}


def _parsed(text: str) -> str | None:
    """The result that an answer marks: a run does not keep the parser that its rubric read with."""
    if "</answer>" in text:
        return _TAGS.parse_answer(text)
    if "boxed" in text:
        return extract_boxed_answer(text, strict=True) or None
    return extract_hash_answer(text)


def _errors(index: RowIndex, summary: Summary) -> list[dict[str, Any]]:
    """Return each kind of error with its criteria, its first row and the message there."""
    errors: dict[tuple[str, str | None], dict[str, Any]] = {}
    for criterion, kinds in summary.errors_by_criterion.items():
        for kind, count in kinds.items():
            row, message = index.first_error(criterion, kind)
            error = errors.setdefault(
                (kind, message),
                {"criteria": [], "kind": kind, "count": 0, "first_row": row, "message": message},
            )
            error["count"] += count
            if criterion != "rollout":
                error["criteria"].append(criterion)
    return sorted(errors.values(), key=lambda error: -error["count"])


def _criterion(name: str, found: CriterionSummary, about: Criterion | None) -> dict[str, Any]:
    return {
        "name": name,
        "requirement": None if about is None else about.requirement,
        "choices": [] if about is None else list(about.choices),
        "allow_na": about is not None and about.allow_na,
        "judged": about is not None and about.judged,
        "weight": found.weight,
        "counted": about is None or about.counts,
        **_estimate(found.value),
        **picked(found, "met unmet not_applicable unneeded"),
        "error": found.errors,
        "verdicts": [{"word": word, "count": count} for word, count in found.verdicts.items()],
    }


def _estimate(estimate: MeanEstimate) -> dict[str, Any]:
    return picked(estimate, "mean low high count")


def _line(
    line: CriterionReport, text: str, labels: Iterable[Label], parts: Sequence[Part] = ()
) -> dict[str, Any]:
    return {
        **picked(
            line, "name requirement weight value reason error counted passed disagreement tags"
        ),
        "verdict": line.short_answer,
        "evidence": _evidence(line, text, parts)
        if line.requirement is not None
        else list(line.citations),
        "nested": line.requirement is None and bool(line.lines) and not line.steps,
        "steps": bool(line.steps),
        "votes": [_line(vote, text, (), parts) for vote in line.lines],
        "labels": [label.to_dict() for label in labels],
    }


def _evidence(line: CriterionReport, text: str, parts: Sequence[Part]) -> list[Citation]:
    """What a reason cites: of the last reply, or of another part, which is named; or that it is not there."""
    found = citations_of(line.reason, parts if len(parts) > 1 else (), text)
    # The line says what the judge was not shown, which may be in the rollout all the same.
    return [*line.citations, *found[len(line.citations) :]]


def _messages(said: Any, role: str) -> list[dict[str, Any]]:
    """Messages, whatever they were given as, numbered as citations number them."""
    return [
        dict(cast("Mapping[str, Any]", each))
        if isinstance(each, Mapping)
        else {"role": role, "content": each}
        for each in read_conversation(said, role)
    ]
