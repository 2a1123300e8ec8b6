"""What a newcomer types first in Python: one mapping, a path, a data frame, the name of a model."""

import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from assay import (
    Autograder,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Refused,
    Rollout,
    Rubric,
)
from assay.errors import RubricError
from assay.integrations.grading import assert_grades
from assay.models import model_of
from assay.runs import score_rows_sync
from assay.tables import TableError, rows_of
from assay.testing import FakeModel, ModelServer

RUBRIC = Rubric.from_dict([{"check": {"contains": "Paris"}}])
ROWS = [{"completion": "Paris"}, {"completion": "Rome"}]


async def test_one_mapping_gets_one_report():
    report = await RUBRIC.score({"completion": "Paris"})
    assert report.score == 1.0
    assert [report.score for report in await RUBRIC.score(iter(ROWS))] == [1.0, 0.0]


@pytest.mark.parametrize("rollouts", ["It is Paris.", ["It is Paris."], [None]])
async def test_a_text_in_place_of_a_rollout_is_refused(rollouts: Any):
    with pytest.raises(TypeError, match="give a mapping such as"):
        await RUBRIC.score(rollouts)


def test_rows_are_a_list_a_path_or_a_data_frame(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    for rows in (ROWS, path, str(path), pandas.DataFrame(ROWS)):
        assert score_rows_sync(RUBRIC, rows).score.mean == 0.5


async def test_score_rows_sync_works_inside_a_running_loop():
    assert score_rows_sync(RUBRIC, ROWS).score.mean == 0.5


def test_a_gate_takes_rows_as_they_are_read(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    assert assert_grades(RUBRIC, rows_of(path)).score.mean == 0.5


def test_a_text_is_the_name_of_a_model(monkeypatch: pytest.MonkeyPatch):
    with ModelServer("MET") as server:
        rubric = Rubric.from_dict([{"requirement": "Is kind"}])
        assert rubric.grade_sync("Hello.", PerCriterionGrader(server.model)).score == 1.0
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Refused, match="OPENAI_API_KEY"):
        PerCriterionOneShotGrader("openai/gpt-5-mini")


class TestCriteriaOfOneKind:
    RUBRIC = Rubric.from_dict(
        {
            "name": "mixed",
            "shows": "last",
            "criteria": [
                {"check": {"contains": "Paris"}, "weight": 3},
                {"requirement": "Is kind", "weight": 2},
                {"name": "inner", "rubric": [{"requirement": "Is short"}]},
            ],
        }
    )

    def test_they_are_rubrics_with_the_same_options(self):
        code = self.RUBRIC.code_criteria()
        judged = self.RUBRIC.judged_criteria()
        assert [criterion.name for criterion in code.criteria] == ["contains"]
        assert [criterion.name for criterion in judged.criteria] == ["is_kind", "inner"]
        assert (code.name, code.shows) == (judged.name, judged.shows) == ("mixed", ("last",))

    def test_code_alone_needs_no_judge(self):
        judge = PerCriterionGrader(FakeModel("MET"))
        assert self.RUBRIC.code_criteria().grade_sync("Paris").score == 1.0
        assert self.RUBRIC.judged_criteria().grade_sync("Rome", judge).score == 1.0

    def test_a_condition_on_what_is_left_out_is_refused(self):
        rubric = Rubric.from_dict(
            [{"check": {"contains": "a"}}, {"requirement": "Is kind", "when": "contains"}]
        )
        with pytest.raises(RubricError, match="contains"):
            rubric.judged_criteria()


async def test_judge_is_a_grader_or_the_name_of_a_model():
    rubric = Rubric.from_dict([{"requirement": "Is kind"}])
    judge = PerCriterionGrader(FakeModel("MET"))
    assert rubric.grade_sync("Hello.", judge=judge).score == 1.0
    assert (await rubric.score({"completion": "Hello."}, judge=judge)).score == 1.0
    with ModelServer("UNMET") as server:
        assert rubric.grade_sync("Hello.", judge=server.model).score == 0.0
        assert (await rubric.grade("Hello.", judge=server.model)).score == 0.0
    with pytest.raises(TypeError, match="both judge= and autograder="):
        rubric.grade_sync("Hello.", judge=judge, autograder=judge)


def test_a_model_object_is_the_model():
    with ModelServer("MET") as server:
        rubric = Rubric.from_dict([{"requirement": "Is kind"}])
        grader = PerCriterionGrader(model_of(server.model))
        assert rubric.grade_sync("Hello.", grader).score == 1.0


@pytest.mark.parametrize(
    ("rollouts", "message"),
    [
        ("Paris", r"this is the text 'Paris': give a mapping such as"),
        (["Paris"], "a rollout is 'Paris': give a mapping"),
        (pandas.DataFrame(ROWS), r"this is a data frame: use score_rows\(\)"),
    ],
)
async def test_score_says_which_method_takes_texts_and_data_frames(rollouts: Any, message: str):
    with pytest.raises(TypeError, match=message):
        await RUBRIC.score(rollouts)


def test_score_rows_says_what_it_takes():
    with pytest.raises(TypeError, match=r"give Rubric.from_file\('rubric.yaml'\)"):
        score_rows_sync("rubric.yaml", ROWS)
    with pytest.raises(TableError, match="'completion' is of type str and not a list: give a list"):
        score_rows_sync(RUBRIC, ROWS[0])
    assert score_rows_sync(RUBRIC, {"completion": ["Paris", "Rome"]}).score.mean == 0.5


def test_a_number_is_not_a_model():
    with pytest.raises(TypeError, match="generate_fn is 5: give the name of a model"):
        PerCriterionGrader(5)  # type: ignore[arg-type]


def test_columns_may_hold_the_answer_and_the_info():
    """A client of the server sends all columns of its table as columns."""
    columns = {"answer": "Paris", "info": {"city": "Paris"}, "task": "capitals", "prompt": "?"}
    rollout = Rollout(completion="Paris", columns=columns)
    assert (rollout.answer, rollout.info, rollout.task) == ("Paris", {"city": "Paris"}, "capitals")
    assert (rollout.prompt, rollout.completion) == ("?", "Paris")
    assert Rollout(answer="Rome", columns=columns).answer == "Rome"


async def test_messages_without_a_reply_are_an_error_that_says_so():
    [report] = await RUBRIC.score([{"messages": [{"role": "user", "content": "Hello."}]}])
    assert "its `messages` have no message of the assistant" in report.errors["contains"]


async def test_a_judge_that_gets_only_the_text_cannot_be_asked_with_a_reference():
    class Kind(Autograder):
        async def judge(self, to_grade: Any, rubric: Any, query: Any = None) -> Any:
            return ["MET" for _ in rubric]

    rubric = Rubric.from_dict({"reference": "answer", "criteria": [{"requirement": "Agrees"}]})
    report = await rubric.score({"completion": "a", "answer": "b"}, judge=Kind())
    assert "cannot show the reference" in report.errors["agrees"]
