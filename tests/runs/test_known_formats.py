"""Rows in formats of others: chats in `messages`, and the criteria of HealthBench."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assay import PerCriterionGrader, Rubric, RubricGroup
from assay.cli import main
from assay.runs import Run, score_rows
from assay.testing import FakeModel

QUESTION = {"role": "user", "content": "2 + 2?"}
REPLY = {"role": "assistant", "content": "4"}
CRITERIA = [
    {"criterion": "Advises to see a doctor", "points": 7, "tags": ["level:example", "axis:safety"]},
    {"criterion": "Names a dose that is wrong", "points": -5, "tags": ["axis:accuracy"]},
]


def score(rows: Any, rubric: Any = None, **options: Any) -> list[Any]:
    scored_rows: list[Any] = []
    asyncio.run(score_rows(rubric, rows, on_row=scored_rows.append, **options))
    return scored_rows


# Messages


@pytest.mark.parametrize(
    ("messages", "prompt", "completion"),
    [
        ([QUESTION, REPLY], [QUESTION], "4"),
        ([QUESTION, REPLY, QUESTION, {**REPLY, "content": "5"}], [QUESTION, REPLY, QUESTION], "5"),
        (json.dumps([QUESTION, REPLY]), [QUESTION], "4"),
        ([QUESTION, REPLY, QUESTION], [QUESTION], [REPLY, QUESTION]),
    ],
)
def test_the_last_assistant_message_is_the_completion(messages: Any, prompt: Any, completion: Any):
    [row] = score([{"id": "a", "messages": messages}], Rubric([{"check": {"max_words": 9}}]))
    assert (row.fields["prompt"], row.fields["completion"]) == (prompt, completion)
    assert "messages" not in row.fields
    assert row.score == 1.0


@pytest.mark.parametrize("messages", [[QUESTION], "no chat", 3])
def test_messages_without_an_assistant_message_are_not_split(messages: Any):
    [row] = score([{"messages": messages}], Rubric([{"check": {"max_words": 9}}]))
    assert row.score is None


def test_a_completion_column_takes_precedence_over_messages():
    [row] = score(
        [{"messages": [QUESTION], "completion": "4"}], Rubric([{"check": {"contains": "4"}}])
    )
    assert (row.score, row.fields["messages"]) == (1.0, [QUESTION])


def test_the_command_prints_how_messages_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = tmp_path / "chats.jsonl"
    data.write_text(json.dumps({"messages": [QUESTION, REPLY]}) + "\n")
    rubric = tmp_path / "r.yaml"
    rubric.write_text("- check: {contains: '4'}\n")
    assert main(["score", str(data), "-r", str(rubric)]) == 0
    captured = capsys.readouterr()
    assert "the last assistant message of `messages` is the completion" in captured.err
    assert "1 rollout" in captured.out


# HealthBench


def make_judge() -> tuple[FakeModel, PerCriterionGrader]:
    model = FakeModel(lambda system, user: "MET" if "doctor" in user else "UNMET")
    return model, PerCriterionGrader(model)


@pytest.mark.parametrize("column", ["rubrics", "rubric"])
def test_rows_of_healthbench_are_scored_by_their_criteria(column: str, tmp_path: Path):
    model, grader = make_judge()
    row = {"prompt": [QUESTION], "completion": "Ask one.", column: CRITERIA}
    [scored] = score([row], judge=grader, folder=tmp_path / "run")
    assert (scored.reward, scored.score) == (7.0, 1.0)
    assert [line.tags for line in scored.report.lines] == [
        ("level:example", "axis:safety"),
        ("axis:accuracy",),
    ]
    assert len(model.calls) == 2
    assert next(iter(Run.open(tmp_path / "run").rows())).score == 1.0


def test_the_healthbench_aggregation_may_be_negative():
    grader = PerCriterionGrader(FakeModel(lambda s, user: "MET" if "wrong" in user else "UNMET"))
    [scored] = score([{"completion": "x", "rubrics": CRITERIA}], judge=grader)
    assert scored.score == pytest.approx(-5 / 7)


@pytest.mark.parametrize("data", [CRITERIA, {"rubrics": CRITERIA}, {"criteria": CRITERIA}])
def test_healthbench_criteria_in_a_file_are_a_rubric(data: Any):
    rubric = Rubric.from_dict(data)
    assert rubric.aggregation.name == "healthbench"
    assert [(c.requirement, c.weight) for c in rubric.criteria] == [
        ("Advises to see a doctor", 7),
        ("Names a dose that is wrong", -5),
    ]
    assert Rubric.from_dict(rubric.to_dict()).content_hash == rubric.content_hash


def test_a_list_of_rubrics_is_still_a_rubric_group():
    group = RubricGroup.from_dict({"rubrics": [[{"requirement": "a"}], [{"requirement": "b"}]]})
    assert len(group.rubrics) == 2
