"""The filter language over a real run, held to the table that the JavaScript one is held to."""

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
        for told in HEAD["rows"]:
            journal.write(row_of(told))
        journal.finish()
    labelled = [told for told in HEAD["rows"] if told["labelled"]]
    labels = [
        {"example": t["example"], "sample": t["sample"], "criterion": "polite", "verdict": "MET"}
        for t in labelled
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    [viewed_run] = ViewedRuns([folder]).values()
    return viewed_run


def row_of(told: dict) -> Row:
    """A row that shows in the index what the table tells of it."""
    prompt, _, completion = told["text"].partition("\n")
    name, _, message = told["error"].partition(": ")
    lines = [
        line_of(each, said, message, told["disagreement"])
        for each, said in told["verdicts"].items()
    ]
    report = EvaluationReport(
        told["score"], told["reward"], report=lines, asked=1, answered=int(told["scored"])
    )
    return Row(
        told["example"],
        told["sample"],
        {"prompt": prompt, "completion": completion, "task": told["task"]},
        report,
        error=message if name == "rollout" else None,
        spent=Spending() if told["cost"] is None else Spending(calls=1, cost=told["cost"]),
        timing={} if told["seconds"] is None else {"scoring": told["seconds"]},
    )


def line_of(name: str, said: str, message: str, disagreement: float) -> CriterionReport:
    if said == "error":
        return CriterionReport(name=name, error=message)
    if said == "0.5":
        return CriterionReport(name=name, value=0.5)
    return CriterionReport(
        name=name, value=float(said == "MET"), verdict=said, disagreement=disagreement
    )


@pytest.mark.parametrize("case", CASES, ids=[case["filter"] for case in CASES])
def test_a_filter_gives_what_the_table_says(viewed_run, case):
    """Its rows, or why it cannot be read."""
    if "error" in case:
        with pytest.raises(FilterError) as refused:
            viewed_run.list_rows(case["filter"])
        assert str(refused.value) == case["error"]
    else:
        assert [row["number"] - 1 for row in viewed_run.list_rows(case["filter"])["rows"]] == case[
            "rows"
        ]
