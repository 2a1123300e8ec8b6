"""Rows have the same columns and values as JSON, CSV, Parquet and data frames."""

import csv
import io
import json
import math
import subprocess
import sys

import pyarrow.parquet
import pytest

from assay import Autograder, PerCriterionGrader, Rubric, Run, Score, score_rows
from assay.cli import main
from assay.envs import SingleTurnEnv
from assay.models import Price, model_of
from assay.runs import Row, Spending
from assay.runs.export import make_record
from assay.testing import ModelServer


class Judge(Autograder):
    """Call every text polite, and fail for one word."""

    async def judge(self, to_grade, rubric, query=None):
        if to_grade == "trouble":
            raise ConnectionError("the endpoint is gone")
        return [Score(1.0, "it says please", "MET")] * len(rubric)


ROWS = [
    {"id": "a", "prompt": "Where?", "completion": "Paris, please", "category": "geo", "level": 1},
    {"id": "b", "prompt": "Who?", "completion": "=1+1", "level": "two", "info": {"city": "Rome"}},
    {"id": "c", "prompt": "What?", "completion": "trouble", "score": 7, "ready": True},
]
RUBRIC = [
    {"name": "paris", "check": {"contains": "Paris"}},
    {"name": "polite", "requirement": "Is polite"},
]


@pytest.fixture
async def folder(tmp_path):
    await score_rows(Rubric.from_dict(RUBRIC, judge=Judge()), ROWS, folder=tmp_path / "run")
    return tmp_path / "run"


def show(folder, capsysbinary, *arguments):
    """Return what `assay show` prints of the run."""
    code = main(["show", str(folder), *arguments])
    captured = capsysbinary.readouterr()
    assert code == 0, captured.err
    return captured.out


def read_parquet(data):
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()


def read_csv(data):
    return list(csv.DictReader(io.StringIO(data.decode())))


def read_pandas(folder):
    rows = Run.open(folder).to_pandas().to_dict("records")
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and math.isnan(value):
                row[name] = None
    return rows


async def test_all_formats_have_the_same_columns_and_values(folder, capsysbinary):
    """JSON leaves out the columns that a row does not have, and keeps lists and mappings."""
    parquet = read_parquet(show(folder, capsysbinary, "-f", "parquet"))
    cells = read_csv(show(folder, capsysbinary, "-f", "csv"))
    lines = [json.loads(x) for x in show(folder, capsysbinary, "-f", "jsonl").splitlines()]
    document = json.loads(show(folder, capsysbinary, "-f", "json"))
    frames = [read_pandas(folder), Run.open(folder).to_polars().to_dicts()]
    frames.append(Run.open(folder).to_arrow().to_pylist())

    assert frames == [parquet, parquet, parquet]
    assert [list(row) for row in parquet] == [list(cells[0])] * 3
    assert document["rollouts"] == lines == list(Run.open(folder).records())
    for line, row, cell_row in zip(lines, parquet, cells, strict=True):
        assert row.keys() - line.keys() == {name for name in row if name not in line}
        for name, value in row.items():
            expected = line.get(name)
            is_text_column = isinstance(value, str) and not isinstance(expected, str)
            assert value == (
                json.dumps(expected, separators=(",", ":")) if is_text_column else expected
            )
            shown = "" if value is None else str(value)
            assert cell_row[name] in (shown, f"'{shown}")


async def test_columns_are_ordered_by_results_data_criteria_and_models(folder, capsysbinary):
    """This is the order in the documentation."""
    [header, *_] = show(folder, capsysbinary, "-f", "csv").decode().splitlines()
    assert header.split(",") == [
        *("example", "sample", "score", "reward", "error"),
        *("prompt", "completion", "id", "category", "level", "info", "data.score", "ready"),
        *("paris.value", "paris.verdict", "paris.reason", "paris.error"),
        *("polite.value", "polite.verdict", "polite.reason", "polite.error"),
        *("model", "judge", "model_input_tokens", "model_output_tokens", "model_cost"),
        *("judge_input_tokens", "judge_output_tokens", "judge_cost"),
        *("generation_seconds", "scoring_seconds"),
    ]


async def test_a_failed_rollout_has_an_error_and_no_score(folder):
    """A column `score` of the data is not mistaken for its score."""
    *_, failed = Run.open(folder).records()
    assert (failed["score"], failed["reward"], failed["data.score"]) == (None, None, 7)
    assert failed["polite.error"] == "ConnectionError: the endpoint is gone"
    assert failed["error"] == f"polite: {failed['polite.error']}"


async def test_columns_can_be_selected(folder, capsysbinary):
    """A field inside a column can be selected too; a row without it has an empty cell."""
    columns = "example,polite.reason,info.city"
    assert show(folder, capsysbinary, "-f", "csv", "--columns", columns).decode() == (
        "example,polite.reason,info.city\na,it says please,\nb,it says please,Rome\nc,,\n"
    )
    first, *_ = show(folder, capsysbinary, "-f", "jsonl", "--columns", columns).splitlines()
    assert json.loads(first) == {
        "example": "a",
        "polite.reason": "it says please",
        "info.city": None,
    }
    table = read_parquet(show(folder, capsysbinary, "-f", "parquet", "--columns", columns))
    assert [row["info.city"] for row in table] == [None, "Rome", None]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "json"])
async def test_a_column_that_no_row_has_is_an_error(folder, form, capsysbinary):
    """The message lists the columns."""
    assert main(["show", str(folder), "-f", form, "--columns", "example,raeson"]) == 2
    error_output = capsysbinary.readouterr().err.decode()
    assert "no rollout has raeson: the columns are example, sample, score" in error_output


async def test_columns_cannot_be_selected_for_the_summary_table(folder, capsysbinary):
    assert main(["show", str(folder), "--columns", "example"]) == 2
    assert "give -f csv" in capsysbinary.readouterr().err.decode()


def test_parquet_is_not_written_to_a_terminal(tmp_path):
    """It would print binary data."""
    code = (
        "import sys; from assay.cli import main; sys.stdout.isatty = lambda: True; "
        "sys.exit(main(['score', 'rows.jsonl', '-r', 'rubric.json', '-f', 'parquet']))"
    )
    (tmp_path / "rows.jsonl").write_text('{"completion": "Paris"}\n')
    (tmp_path / "rubric.json").write_text(json.dumps(RUBRIC[:1]))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "write it to a file" in done.stderr


async def test_tokens_and_costs_of_model_and_judge_are_separate(tmp_path):
    """In each row and in the summary; together they are the total spending."""
    rubric = Rubric([{"requirement": "Is polite", "name": "polite"}])
    verdict = {"explanation": "", "criterion_status": "MET"}
    with ModelServer("Paris.") as server, ModelServer(verdict) as judge:
        grader = PerCriterionGrader(model=model_of(judge.model, price=Price(input=2, output=4)))
        results = await SingleTurnEnv([{"question": "Where?"}], rubric=rubric).evaluate(
            model=server.model, judge=grader, run=tmp_path / "run", price=Price(input=1, output=1)
        )
        run = Run.open(tmp_path / "run")
        [record] = run.records()
        assert (record["model_input_tokens"], record["judge_input_tokens"]) == (
            server.prompt_tokens,
            judge.prompt_tokens,
        )
        summary = run.summary()
    assert summary == results.summary()
    assert summary.spent_on_model + summary.spent_on_judge == summary.spent
    assert summary.spent_on_model.prompt == record["model_input_tokens"]
    assert summary.spent_on_judge.cost == pytest.approx(record["judge_cost"])
    assert record["judge_cost"] == pytest.approx(
        (2 * record["judge_input_tokens"] + 4 * record["judge_output_tokens"]) / 1e6
    )
    assert (record["prompt"], record["completion"]) == ("Where?", "Paris.")
    assert record["judge"].startswith("PerCriterionGrader")


def test_a_conversation_stays_a_list_of_messages():
    """Only a single message with the usual role is replaced by its text."""
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    completion = [{"role": "assistant", "content": "Paris."}]
    record = make_record(Row("a", fields={"prompt": prompt, "completion": completion}))
    assert (record["prompt"], record["completion"]) == (prompt, "Paris.")


def test_tokens_and_costs_are_empty_without_model_calls():
    """Empty, not 0. An unknown cost is empty too."""
    record = make_record(Row("a", spent=Spending(calls=1, prompt=5, unpriced=1)))
    assert record["model_input_tokens"] is None
    assert (record["judge_input_tokens"], record["judge_cost"]) == (5, None)
