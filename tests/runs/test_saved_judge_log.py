"""What judges were asked and said, kept word for word with the row it was about."""

from assay import PerCriterionGrader, Rubric
from assay.envs import SingleTurnEnv
from assay.runs import Run, score_rows
from assay.testing import FakeModel

RUBRIC = Rubric.from_dict([{"requirement": "Is polite"}, {"requirement": "Is short"}])


async def scored(folder, **options):
    grader = PerCriterionGrader(model=FakeModel("MET"))
    await score_rows(RUBRIC, [{"completion": "please"}], folder=folder, grader=grader, **options)
    [row] = Run.open(folder).rows()
    return row


async def test_every_call_is_kept_word_for_word(tmp_path):
    """Two questions about one text, each with all of its messages."""
    whole = (await scored(tmp_path / "run", judge_log=True)).judge_log
    assert [len(call["messages"]) for call in whole] == [3, 3]
    assert "please" in whole[1]["messages"][1]["content"]
    assert all("MET" in call["reply"] for call in whole)
    questions = {criterion.question_hash for criterion in RUBRIC.criteria}
    assert {call["question"] for call in whole} == questions


async def test_nothing_is_kept_unless_asked_for(tmp_path):
    assert (await scored(tmp_path / "run")).judge_log == ()


async def test_a_call_that_came_to_nothing_says_why(tmp_path):
    """There one wants to look."""
    grader = PerCriterionGrader(model=FakeModel("perhaps"))
    rows = [{"completion": "please"}]
    folder = tmp_path / "run"
    await score_rows(RUBRIC, rows, folder=folder, grader=grader, judge_log=True)
    [row] = Run.open(folder).rows()
    assert not row.scored
    assert {(said["source"], said["reply"][:11]) for said in row.judge_log} == {
        ("error", "Unreadable:")
    }


async def test_a_key_in_a_complaint_is_struck_out(tmp_path, monkeypatch):
    """As in the errors of a row."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    grader = PerCriterionGrader(model=FakeModel(RuntimeError("no such key: sk-0123456789abcdef")))
    folder = tmp_path / "run"
    await score_rows(
        RUBRIC, [{"completion": "please"}], folder=folder, grader=grader, judge_log=True
    )
    [row] = Run.open(folder).rows()
    assert "no such key" in row.judge_log[0]["reply"]
    assert b"0123456789abcdef" not in (folder / "run.assay").read_bytes()


def test_an_environment_keeps_them_with_the_first_row_of_a_group(tmp_path):
    """One question about each of two rollouts; each has the call that generated it."""
    env = SingleTurnEnv(
        [{"question": "?"}], rubric=Rubric.from_dict([{"requirement": "Is polite"}])
    )
    env.evaluate(
        model=FakeModel("please"),
        rollouts_per_example=2,
        grader=PerCriterionGrader(model=FakeModel("MET")),
        run=tmp_path / "run",
        judge_log=True,
    )
    rows = Run.open(tmp_path / "run").rows()
    kept = {row.sample: [call["role"] for call in row.judge_log] for row in rows}
    assert kept == {0: ["model", "judge", "judge"], 1: ["model"]}
