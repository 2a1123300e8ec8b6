"""Work out what the page shows of a run, as plain data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.aggregation import advantages
from assay.messages import completion_text
from assay.parsers import XMLParser, extract_boxed_answer, extract_hash_answer
from assay.report import CriterionReport
from assay.runs import Row, RunAbout, Summary
from assay.runs.jsonable import encodable
from assay.runs.metadata import CriterionAbout, RubricAbout
from assay.runs.row import whole_exchanges
from assay.runs.stats import MeanEstimate
from assay.runs.summary import CriterionSummary
from assay.trust.evidence import evidence_of
from assay.trust.labels import Label
from assay.viewer.row_index import RowIndex

_TAGS = XMLParser(["answer"])


def heading(identity: str, name: str, about: RunAbout, rows: int, *, live: bool) -> dict[str, Any]:
    """A run in one line."""
    rubric = about.rubric
    return {
        "id": identity,
        "name": name,
        "kind": about.kind,
        "created": about.created,
        "model": about.model,
        "judge": about.judge,
        "resolved": list(about.resolved),
        "rubric": None if rubric is None else {"name": rubric.name, "hash": rubric.hash},
        "rows": rows,
        "live": live,
    }


def overview(index: RowIndex, summary: Summary) -> dict[str, Any]:
    """What a run comes to: errors first, then scores, criteria, parts, and what it took."""
    rubric = index.run.about.rubric
    known = {} if rubric is None else {criterion.name: criterion for criterion in rubric.criteria}
    return {
        "rows": summary.rollouts,
        "examples": summary.examples,
        "scored": summary.scored,
        "unscored": summary.unscored,
        "failed": summary.failed,
        "complete": summary.complete,
        "errors": _errors(index, summary),
        "score": _estimate(summary.score) | {"histogram": index.histogram("score")},
        "reward": _estimate(summary.reward) | {"histogram": index.histogram("reward")},
        "criteria": [
            _criterion(encodable(name), found, known.get(name))
            | {"own": index.criteria.get(encodable(name), -1) >= index.shared}
            for name, found in summary.criteria.items()
        ],
        "tags": [{"name": name, **_estimate(tag)} for name, tag in summary.tags.items()],
        "tasks": [
            {"name": name, "rows": task.rollouts, "scored": task.scored, **_estimate(task.score)}
            for name, task in summary.tasks.items()
        ],
        "pass": [
            {"k": k, "any": rate.any, "all": rate.all, "examples": rate.examples}
            for k, rate in summary.passes.items()
            if k > 1 or len(summary.passes) > 1
        ],
        "threshold": summary.threshold,
        "spent": summary.spent.to_dict(),
        "slowest": index.most("seconds"),
        "dearest": index.most("cost"),
    }


def whole_row(index: RowIndex, number: int, row: Row, labels: Sequence[Label]) -> dict[str, Any]:
    """All of one rollout."""
    fields = dict(row.fields)
    completion = fields.pop("completion", "")
    text = completion_text(completion)
    about = index.run.about.rubric
    hashes = {} if about is None else {criterion.name: criterion.hash for criterion in about.criteria}
    return {
        "number": number,
        "example": row.example,
        "sample": row.sample,
        "task": row.task,
        "prompt": _messages(fields.pop("prompt", ""), "user"),
        "completion": _messages(completion, "assistant"),
        "text": text,
        "parsed": _parsed(text),
        "answer": fields.pop("answer", None),
        "info": fields.pop("info", None) or None,
        "columns": {name: value for name, value in fields.items() if name != "task"},
        "score": row.score,
        "reward": row.reward,
        "scored": row.scored,
        "vetoed_by": list(row.report.vetoed_by),
        "reason": row.report.reason,
        "error": row.error,
        "lines": [
            _line(line, text, [label for label in labels if label.criterion == line.name])
            | {"hash": hashes.get(line.name)}
            for line in row.report.lines
        ],
        "timing": dict(row.timing),
        "spent": row.spent.to_dict(),
        "model": row.model,
        "altered": list(row.altered),
        "exchanges": _exchanges(row, about),
    }


def _parsed(text: str) -> str | None:
    """The result that an answer marks: by answer tags, in a box, or after ####; None when it marks none.

    A run does not keep the parser that its rubric read with.
    """
    if "</answer>" in text:
        return _TAGS.parse_answer(text)
    if "boxed" in text:
        return extract_boxed_answer(text, strict=True) or None
    return extract_hash_answer(text)


def _exchanges(row: Row, about: RubricAbout | None) -> list[dict[str, Any]]:
    """What judges were asked and said, each under the criterion it was about."""
    names = {} if about is None else {asked.question: asked.name for asked in about.criteria}
    return [{**exchange, "criterion": names.get(exchange["question"])} for exchange in whole_exchanges(row.exchanges)]


def group(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rollouts of one prompt side by side, with the advantage that each has over the others."""
    rewards = [row["reward"] for row in rows]
    return {
        "example": rows[0]["example"],
        "prompt": rows[0]["prompt"],
        "rows": [{**row, "advantage": advantage} for row, advantage in zip(rows, advantages(rewards), strict=True)],
    }


def _errors(index: RowIndex, summary: Summary) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for criterion, kinds in summary.errors_by_criterion.items():
        for kind, count in kinds.items():
            words = f"{criterion}: {kind}"
            row = index.first_error(words)
            message = index.error_of(row, criterion) if row is not None else ""
            found.append(
                {
                    "criterion": None if criterion == "rollout" else criterion,
                    "kind": kind,
                    "count": count,
                    "first_row": row,
                    "message": message,
                }
            )
    return sorted(found, key=lambda error: -error["count"])


def _criterion(name: str, found: CriterionSummary, about: CriterionAbout | None) -> dict[str, Any]:
    return {
        "name": name,
        "requirement": None if about is None else about.requirement,
        "choices": [] if about is None else list(about.choices),
        "allow_na": about is not None and about.allow_na,
        "judged": about is not None and about.judged,
        "weight": found.weight,
        "counted": about is None or about.counts,
        **_estimate(found.value),
        "met": found.met,
        "unmet": found.unmet,
        "not_applicable": found.not_applicable,
        "error": found.errors,
        "unneeded": found.unneeded,
        "verdicts": [{"word": word, "count": count} for word, count in found.verdicts.items()],
    }


def _estimate(estimate: MeanEstimate) -> dict[str, Any]:
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "count": estimate.count}


def _line(line: CriterionReport, text: str, labels: Iterable[Label]) -> dict[str, Any]:
    nested = line.requirement is None and line.lines
    return {
        "name": line.name,
        "requirement": line.requirement,
        "weight": line.weight,
        "verdict": line.said,
        "value": line.value,
        "reason": line.reason,
        "evidence": evidence_of(line.reason, text) if line.requirement is not None else [],
        "error": line.error,
        "counted": line.counted,
        "passed": line.passed,
        "tags": list(line.tags),
        "disagreement": line.disagreement,
        "nested": bool(nested),
        "votes": [_line(vote, text, ()) for vote in line.lines],
        "labels": [label.to_dict() for label in labels],
    }


def _messages(said: Any, role: str) -> list[dict[str, Any]]:
    """Messages, whatever they were given as."""
    if isinstance(said, list):
        return [
            dict(message) if isinstance(message, Mapping) else {"role": role, "content": message}  # pyright: ignore[reportUnknownArgumentType]
            for message in said  # pyright: ignore[reportUnknownVariableType]
        ]
    return [{"role": role, "content": said}] if said else []
