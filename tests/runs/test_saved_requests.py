"""Requests to models and their replies can be saved with the row that they are about."""

from assay import PerCriterionGrader, Rubric, Tournament
from assay.envs import SingleTurnEnv
from assay.runs import Run, score_rows
from assay.testing import FakeModel, ModelServer

RUBRIC = Rubric.from_dict([{"requirement": "Is polite"}, {"requirement": "Is short"}])


async def score_one_row(folder, **options):
    grader = PerCriterionGrader(model=FakeModel("MET"))
    await score_rows(RUBRIC, [{"completion": "please"}], folder=folder, judge=grader, **options)
    [row] = Run.open(folder).rows()
    return row


async def test_every_call_is_saved_verbatim(tmp_path):
    """Two requirements on one text, each with all of its messages."""
    calls = (await score_one_row(tmp_path / "run", save_requests=True)).calls
    assert [len(call["messages"]) for call in calls] == [3, 3]
    assert "please" in calls[1]["messages"][1]["content"]
    assert all("MET" in call["reply"] for call in calls)
    questions = {criterion.question_hash for criterion in RUBRIC.criteria}
    assert {call["question"] for call in calls} == questions


async def test_calls_are_not_saved_by_default(tmp_path):
    assert (await score_one_row(tmp_path / "run")).calls == ()


async def test_a_failed_call_is_saved_with_its_error(tmp_path):
    """Failed calls are the ones that users look at."""
    grader = PerCriterionGrader(model=FakeModel("perhaps"))
    rows = [{"completion": "please"}]
    folder = tmp_path / "run"
    await score_rows(RUBRIC, rows, folder=folder, judge=grader, save_requests=True)
    [row] = Run.open(folder).rows()
    assert not row.scored
    assert {(call["source"], call["reply"][:11]) for call in row.calls} == {
        ("error", "Unreadable:")
    }


async def test_an_api_key_in_an_error_is_redacted(tmp_path, monkeypatch):
    """As in the errors of a row."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    grader = PerCriterionGrader(model=FakeModel(RuntimeError("no such key: sk-0123456789abcdef")))
    folder = tmp_path / "run"
    await score_rows(
        RUBRIC, [{"completion": "please"}], folder=folder, judge=grader, save_requests=True
    )
    [row] = Run.open(folder).rows()
    assert "no such key" in row.calls[0]["reply"]
    assert b"0123456789abcdef" not in (folder / "run.assay").read_bytes()


def evaluate_two_replies(folder, rubric):
    """Generate a long and a short reply to one question, and return the rows of the run."""
    replies = iter(["please " * 200, "please"])

    def answer(messages):
        return next(replies)

    def judge_pair(system, user):
        if "FIRST" in system + user:
            return {"explanation": "it is longer", "choice": "FIRST"}
        return "MET"

    with ModelServer(answer) as model, ModelServer(judge_pair) as judge:
        env = SingleTurnEnv([{"question": "?"}], rubric=rubric(PerCriterionGrader(judge.model)))
        env.evaluate(
            model=model.model,
            rollouts_per_example=2,
            max_concurrent=1,
            run=folder,
            save_requests=True,
        )
        tokens = judge.prompt_tokens
    rows = sorted(Run.open(folder).rows(), key=lambda row: row.sample)
    assert sum(row.spent_on_judge.prompt for row in rows) == tokens
    return rows


def test_every_row_of_a_group_has_its_own_requests_and_tokens(tmp_path):
    def rubric(grader):
        return Rubric([{"requirement": "Is polite"}], judge=grader)

    rows = evaluate_two_replies(tmp_path / "run", rubric)
    assert [[call["role"] for call in row.calls] for row in rows] == [["model", "judge"]] * 2
    for row in rows:
        reply = row.fields["completion"][0]["content"]
        assert str(row.calls[1]["request"]["messages"]).count("please") == reply.count("please")
        assert row.spent_on_judge.prompt == row.calls[1]["input_tokens"]
    assert rows[0].spent_on_judge.prompt > rows[1].spent_on_judge.prompt + 300


def test_requests_about_a_whole_group_are_saved_with_its_first_row(tmp_path):
    """A tournament compares the two replies twice, the second time in reverse order."""

    def rubric(grader):
        return Rubric([Tournament(grader, "Is polite")])

    rows = evaluate_two_replies(tmp_path / "run", rubric)
    roles = [[call["role"] for call in row.calls] for row in rows]
    assert roles == [["model", "judge", "judge"], ["model"]]
    assert [row.spent_on_judge.calls for row in rows] == [1, 1]


async def test_a_saved_request_names_its_criterion(tmp_path):
    """Even if the requirement is filled from a column and so differs from the text in the rubric."""
    rubric = Rubric.from_dict(
        [
            {"name": "follows_policy", "requirement": "Follows: {policy}"},
            {"name": "polite", "requirement": "Is polite"},
        ]
    )
    rows = [{"completion": "please", "policy": "Say please"}]
    judge = PerCriterionGrader(model=FakeModel("MET"))
    await score_rows(rubric, rows, folder=tmp_path / "run", judge=judge, save_requests=True)
    [row] = Run.open(tmp_path / "run").rows()
    criteria_with_policy = {
        call["criterion"]: "Say please" in str(call["messages"]) for call in row.calls
    }
    assert criteria_with_policy == {"follows_policy": True, "polite": False}
