"""The filter language in Python, tested with the same table of cases as the one in JavaScript."""

import json
from pathlib import Path

import pytest

from assay import Criterion, CriterionReport, EvaluationReport, Rubric
from assay.runs import Journal, Row, RunAbout, Spending
from assay.viewer.filters import FilterError
from assay.viewer.viewed_runs import ViewedRuns

TABLE = Path(__file__).parents[1] / "cases" / "run_filters.jsonl"
HEAD, *CASES = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def viewed_run(tmp_path_factory):
    """A run with the rows of the table."""
    folder = tmp_path_factory.mktemp("filters") / "run"
    named = {
        name: [tag for tag, names in HEAD["tags"].items() if name in names]
        for name in HEAD["criteria"]
    }
    rubric = Rubric(
        [Criterion(name=name, requirement=name, tags=tags) for name, tags in named.items()]
    )
    with Journal.open(folder, RunAbout.of("score", rubric=rubric)) as journal:
        for row in HEAD["rows"]:
            journal.write(make_row(row))
        journal.finish()
    labelled = [row for row in HEAD["rows"] if row["labelled"]]
    labels = [
        {"example": t["example"], "sample": t["sample"], "criterion": "polite", "verdict": "MET"}
        for t in labelled
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    [viewed_run] = ViewedRuns([folder]).values()
    return viewed_run


def make_row(values: dict) -> Row:
    """Make a row that has the values of the table in the index."""
    prompt, _, completion = values["text"].partition("\n")
    name, _, message = values["error"].partition(": ")
    lines = [
        make_line(name, verdict, message, values["disagreement"])
        for name, verdict in values["verdicts"].items()
    ]
    report = EvaluationReport(
        values["score"], values["reward"], report=lines, asked=1, answered=int(values["scored"])
    )
    return Row(
        values["example"],
        values["sample"],
        {"prompt": prompt, "completion": completion, "task": values["task"]},
        report,
        error=message if name == "rollout" else None,
        spent=Spending() if values["cost"] is None else Spending(calls=1, cost=values["cost"]),
        timing={} if values["seconds"] is None else {"scoring": values["seconds"]},
    )


def make_line(name: str, verdict: str, message: str, disagreement: float) -> CriterionReport:
    if verdict == "error":
        return CriterionReport(name=name, error=message)
    if verdict == "0.5":
        return CriterionReport(name=name, value=0.5)
    return CriterionReport(
        name=name, value=float(verdict == "MET"), verdict=verdict, disagreement=disagreement
    )


@pytest.mark.parametrize("case", CASES, ids=[case["filter"] for case in CASES])
def test_a_filter_finds_the_rows_of_the_table(viewed_run, case):
    """Or raises the error of the table."""
    if "error" in case:
        with pytest.raises(FilterError) as raised:
            viewed_run.list_rows(case["filter"])
        assert str(raised.value) == case["error"]
    else:
        assert [row["number"] - 1 for row in viewed_run.list_rows(case["filter"])["rows"]] == case[
            "rows"
        ]
