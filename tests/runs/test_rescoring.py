"""A saved run by any rubric, without generating or judging again what is known."""

import json
import re
from base64 import b64decode
from io import BytesIO

import pytest
from PIL import Image

from assay import (
    Criterion,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rubric,
    RubricAsJudgeGrader,
    RubricGroup,
    ToolJudge,
    media_access,
    model_of,
)
from assay.graders import LengthPenalty
from assay.runs import Journal, Row, RowRubrics, Run, RunAbout, RunError, rescore, score_rows
from assay.testing import FakeModel, ModelServer, tool_call
from assay.tools import Workspace

ROWS = [{"completion": "In Paris."}, {"completion": "In Rome."}]
KIND, BRIEF, CALM = ({"requirement": f"Is {word}"} for word in ("kind", "brief", "calm"))


def judge(answer="MET"):
    model = FakeModel(answer, judge_id="the judge")
    return model, PerCriterionGrader(model)


async def saved(folder, rubric, grader=None, rows=ROWS):
    await score_rows(rubric, rows, folder=folder, judge=grader)
    return Run.open(folder)


async def test_only_the_question_that_changed_is_asked(tmp_path):
    """Two criteria, one in new words: one call a row, and the other answers stay."""
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", Rubric([KIND, BRIEF]), grader)
    model, grader = judge("UNMET")
    summary = await rescore(run, Rubric([KIND, CALM]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 2
    assert all("Is calm" in user for _, user in model.calls)
    found = Run.open(tmp_path / "b")
    assert [[line.verdict for line in row.report.lines] for row in found.rows()] == [
        ["MET", "UNMET"]
    ] * 2
    assert (found.about.kind, summary.score.mean) == ("rescore", 0.5)
    assert [row.fields for row in found.rows()] == ROWS


async def test_a_new_weight_name_or_order_asks_nobody(tmp_path):
    """None of them decides the answer: 3 of 4 points, and no call."""
    _, grader = judge(lambda system, user: "MET" if "Is kind" in user else "UNMET")
    run = await saved(tmp_path / "a", Rubric([KIND, BRIEF]), grader)
    rubric = Rubric([BRIEF, {**KIND, "weight": 3, "name": "warmth"}])
    summary = await rescore(run, rubric, tmp_path / "b")
    assert (summary.score.mean, summary.spent.calls, summary.unscored) == (0.75, 0, 0)
    [row, _] = Run.open(tmp_path / "b").rows()
    assert row.report.lines[1].reason == "because the rule says so"


async def test_checks_are_run_again(tmp_path):
    """A function has no hash; what it says now counts."""
    run = await saved(tmp_path / "a", Rubric([lambda completion: 0.0]))
    await rescore(run, Rubric([lambda completion: "Paris" in completion]), tmp_path / "b")
    assert [row.score for row in Run.open(tmp_path / "b").rows()] == [1.0, 0.0]


async def test_another_judge_is_asked_everything(tmp_path):
    """Whoever names another judge wants its answers."""
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", Rubric([KIND]), grader)
    model = FakeModel(("UNMET",))
    summary = await rescore(
        run, Rubric([KIND]), tmp_path / "b", judge=PerCriterionOneShotGrader(model)
    )
    assert (len(model.calls), summary.score.mean) == (2, 0.0)


async def test_an_answer_that_failed_is_asked_again(tmp_path):
    """There is nothing to keep."""
    _, grader = judge(lambda system, user: ValueError("no") if "Rome" in user else "MET")
    run = await saved(tmp_path / "a", Rubric([KIND]), grader)
    model, grader = judge("MET")
    summary = await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.unscored) == (1, 0)


async def test_with_nobody_to_ask_what_is_missing_is_an_error(tmp_path):
    """And not unmet."""
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", Rubric([KIND]), grader)
    summary = await rescore(run, Rubric([KIND, CALM]), tmp_path / "b")
    assert (summary.unscored, summary.errors) == (2, {"JudgeError": 2})
    assert summary.criteria["is_kind"].met == 2


class TestConditions:
    def rubric(self, verdict):
        return Rubric(
            [{"requirement": "Gives a figure"}, {**KIND, "when": {"gives_a_figure": verdict}}]
        )

    async def test_what_did_not_apply_is_asked_when_it_does(self, tmp_path):
        """Nobody had been asked, so there is no answer to keep."""
        _, grader = judge("MET")
        run = await saved(tmp_path / "a", self.rubric("UNMET"), grader)
        model, grader = judge("MET")
        summary = await rescore(run, self.rubric("MET"), tmp_path / "b", judge=grader)
        assert len(model.calls) == 2
        assert (summary.criteria["is_kind"].met, summary.score.mean) == (2, 1.0)

    async def test_what_applied_is_not_counted_when_it_does_not(self, tmp_path):
        """The condition is looked at anew."""
        _, grader = judge("MET")
        run = await saved(tmp_path / "a", self.rubric("MET"), grader)
        model, grader = judge("MET")
        summary = await rescore(run, self.rubric("UNMET"), tmp_path / "b", judge=grader)
        assert (len(model.calls), summary.criteria["is_kind"].not_applicable) == (0, 2)

    async def test_a_judges_own_not_applicable_is_kept(self, tmp_path):
        """It is an answer."""
        criterion = {**KIND, "allow_na": True}
        _, grader = judge({"choice": "N/A", "explanation": ""})
        run = await saved(tmp_path / "a", Rubric([criterion, lambda: 1.0]), grader)
        model, grader = judge("MET")
        summary = await rescore(run, Rubric([criterion, lambda: 1.0]), tmp_path / "b", judge=grader)
        assert (len(model.calls), summary.criteria["is_kind"].not_applicable) == (0, 2)


async def test_answers_inside_a_rubric_are_kept_too(tmp_path):
    """Beside a check that is run again."""
    inner = Rubric([KIND, BRIEF, lambda completion: "Paris" in completion], name="essay")
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", Rubric([inner.as_criterion()]), grader)
    model, grader = judge("UNMET")
    summary = await rescore(
        run, Rubric([inner.as_criterion(weight=2), CALM]), tmp_path / "b", judge=grader
    )
    assert len(model.calls) == 2
    assert summary.unscored == 0


async def test_each_rubric_of_a_group_keeps_its_own_judge(tmp_path):
    """Both graders are the rubrics' own, and neither is asked what it has answered."""

    def group(answer, *questions):
        models = [FakeModel(answer, judge_id="the judge") for _ in questions]
        rubrics = [
            Rubric([question], judge=PerCriterionGrader(model))
            for question, model in zip(questions, models, strict=True)
        ]
        return RubricGroup(rubrics), models

    first, _ = group("MET", KIND, BRIEF)
    run = await saved(tmp_path / "a", first)
    second, models = group("UNMET", KIND, CALM)
    await rescore(run, second, tmp_path / "b")
    assert [len(model.calls) for model in models] == [0, 2]
    [row, _] = Run.open(tmp_path / "b").rows()
    assert row.report.metrics == {"is_kind": 1.0, "is_calm": 0.0}


@pytest.mark.parametrize(
    "grader",
    [
        lambda model: RubricAsJudgeGrader(model),
        lambda model: PerCriterionGrader(
            model, length_penalty=LengthPenalty(free_budget=0, max_cap=9, penalty_at_cap=0.5)
        ),
    ],
)
async def test_who_judges_the_whole_is_asked_again(tmp_path, grader):
    """Its number stands for all criteria and weights together."""
    reply = 80 if isinstance(grader(FakeModel()), RubricAsJudgeGrader) else "MET"
    run = await saved(tmp_path / "a", Rubric([KIND]), grader(FakeModel(reply)))
    model = FakeModel(reply)
    summary = await rescore(
        run, Rubric([{**KIND, "weight": 2}]), tmp_path / "b", judge=grader(model)
    )
    assert (len(model.calls), summary.unscored) == (2, 0)


async def test_rows_that_were_never_generated_stay_so(tmp_path):
    """With their error, and the model's id and time on the others."""
    with Journal.open(tmp_path / "a", RunAbout.of("evaluate", model="m")) as journal:
        journal.write(Row("0", error="Overloaded: try later"))
        journal.write(Row("1", fields=ROWS[0], timing={"generation": 2.0}, model="m-1"))
    rubric = Rubric([lambda completion: 1.0])
    summary = await rescore(Run.open(tmp_path / "a"), rubric, tmp_path / "b")
    assert (summary.scored, summary.failed, summary.errors) == (1, 1, {"Overloaded": 1})
    row = Run.open(tmp_path / "b").row("1")
    assert (row.model, row.timing["generation"], row.score) == ("m-1", 2.0, 1.0)
    assert Run.open(tmp_path / "b").about.model == "m"


async def test_rollouts_are_compared_wherever_they_stand(tmp_path):
    """A run's rows stand in the order they were finished."""
    with Journal.open(tmp_path / "a", RunAbout.of("evaluate")) as journal:
        for example, sample in (("a", 1), ("b", 0), ("a", 0)):
            journal.write(Row(example, sample, {"completion": f"{example}{sample}"}))
    rubric = Rubric([Criterion(check=lambda completions: [len(completions)] * len(completions))])
    await rescore(Run.open(tmp_path / "a"), rubric, tmp_path / "b")
    found = {row.key: row.reward for row in Run.open(tmp_path / "b").rows()}
    assert found == {("a", 0): 2.0, ("a", 1): 2.0, ("b", 0): 1.0}


async def test_rows_with_their_own_rubric_keep_their_answers(tmp_path):
    """The rubric is in the row, and so are its questions."""
    _, grader = judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await saved(tmp_path / "a", None, grader, rows)
    model, grader = judge("UNMET")
    summary = await rescore(run, None, tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.score.mean) == (0, 1.0)


async def test_a_given_rubric_replaces_those_of_the_rows(tmp_path):
    """Nothing of the old rubrics counts: not their criteria, and not their rows' column."""
    _, grader = judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await saved(tmp_path / "a", None, grader, rows)
    model, grader = judge("UNMET")
    summary = await rescore(run, Rubric([CALM]), tmp_path / "b", judge=grader)
    assert (len(model.calls), summary.score.mean) == (2, 0.0)
    assert list(summary.criteria) == ["is_calm"]
    assert [row.fields for row in Run.open(tmp_path / "b").rows()] == ROWS


async def test_answers_to_the_rows_rubrics_are_kept_under_a_given_one(tmp_path):
    """The first row was asked whether it is kind; only the second has to be asked."""
    _, grader = judge("MET")
    rows = [{**ROWS[0], "rubric": [KIND]}, {**ROWS[1], "rubric": [BRIEF]}]
    run = await saved(tmp_path / "a", None, grader, rows)
    model, grader = judge("UNMET")
    await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 1
    assert [row.score for row in Run.open(tmp_path / "b").rows()] == [1.0, 0.0]


async def test_answers_to_another_part_of_the_conversation_are_not_kept(tmp_path):
    """The judge of the row's rubric read only the last message; the new rubric shows all."""
    messages = [{"role": "assistant", "content": "In Paris."}]
    own = {"criteria": [KIND], "shows": "last"}
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", None, grader, [{"completion": messages, "rubric": own}])
    model, grader = judge("UNMET")
    await rescore(run, Rubric([KIND]), tmp_path / "b", judge=grader)
    assert len(model.calls) == 1


async def test_row_rubrics_score_rows_that_bring_one_and_the_given_rubric_the_others(tmp_path):
    """As when the rows were scored for the first time."""
    rows = [{**ROWS[0], "rubric": [{"check": {"contains": "Rome"}}]}, ROWS[1]]
    run = await saved(tmp_path / "a", Rubric([lambda: 0.0]), None, rows)
    await rescore(run, RowRubrics(Rubric([lambda: 0.5])), tmp_path / "b")
    found = Run.open(tmp_path / "b")
    assert [row.reward for row in found.rows()] == [0.0, 0.5]
    assert [row.fields for row in found.rows()] == rows


async def test_another_judge_of_the_rows_rubrics_is_asked_everything(tmp_path):
    """The run knows who judged, although its own rubric asks no model."""
    rows = [{**row, "rubric": [KIND]} for row in ROWS]
    _, grader = judge("MET")
    run = await saved(tmp_path / "a", Rubric([lambda: 1.0]), grader, rows)
    model = FakeModel(("UNMET",))
    summary = await rescore(run, None, tmp_path / "b", judge=PerCriterionOneShotGrader(model))
    assert (len(model.calls), summary.score.mean) == (2, 0.0)


async def test_it_can_be_resumed(tmp_path):
    """Stopped at once, and gone on with."""
    run = await saved(tmp_path / "a", Rubric([lambda: 1.0]))
    rubric, seen = Rubric([lambda: 0.5]), []
    options = {"on_row": seen.append}
    first = await rescore(run, rubric, tmp_path / "b", stopping=lambda: bool(seen), **options)
    second = await rescore(run, rubric, tmp_path / "b", resume=True, **options)
    assert (first.complete, second.complete, second.rollouts, len(seen)) == (False, True, 2, 2)


async def test_a_run_is_not_written_over_by_itself(tmp_path):
    """Its rows are being read."""
    run = await saved(tmp_path, Rubric([lambda: 1.0]))
    with pytest.raises(RunError, match="would be overwritten"):
        await rescore(run, Rubric([lambda: 0.5]), tmp_path / "." / "")


def red_or_blue(messages):
    """Looks into the file first, and then judges by what it was shown."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        return tool_call("read_file", path="colour.txt")
    verdict = "MET" if "red" in results[-1] else "UNMET"
    return json.dumps({"explanation": "", "criterion_status": verdict})


async def test_a_file_that_the_judge_read_is_read_again(tmp_path):
    """The file changed from red to blue; an unchanged one would be answered by the cache."""
    folder = tmp_path / "files"
    folder.mkdir()
    rubric = Rubric([{"requirement": "The file says red"}])
    with ModelServer(red_or_blue) as server:
        model = model_of(server.model, cache=tmp_path / "cache.db")
        grader = ToolJudge([Workspace(folder)], model=model)
        (folder / "colour.txt").write_text("red")
        run = await saved(tmp_path / "a", rubric, grader, ROWS[:1])
        sent = len(server.asked)
        again = await rescore(run, rubric, tmp_path / "b", judge=grader)
        assert (again.score.mean, len(server.asked)) == (1.0, sent)
        (folder / "colour.txt").write_text("blue")
        changed = await rescore(run, rubric, tmp_path / "c", judge=grader)
    assert (run.summary().score.mean, changed.score.mean) == (1.0, 0.0)


def draw(path, colour):
    Image.new("RGB", (8, 8), colour).save(path)


def is_red(messages):
    [url] = re.findall(r'"url": "data:image/png;base64,([^"]+)', json.dumps(messages))
    with Image.open(BytesIO(b64decode(url))) as image:
        verdict = "MET" if image.getpixel((0, 0)) == (255, 0, 0) else "UNMET"
    return json.dumps({"explanation": "", "criterion_status": verdict})


async def test_a_picture_that_is_given_by_its_path_is_looked_at_again(tmp_path):
    """The picture is another now, though the row is the same."""
    picture = tmp_path / "picture.png"
    part = {"type": "image_url", "image_url": {"url": str(picture)}}
    rows = [{"prompt": [{"role": "user", "content": [part]}], "completion": "A red square."}]
    rubric = Rubric([{"requirement": "Names the colour of the picture"}])
    with ModelServer(is_red) as server, media_access(tmp_path):
        grader = PerCriterionGrader(model=model_of(server.model, media="image"))
        draw(picture, "red")
        run = await saved(tmp_path / "a", rubric, grader, rows)
        draw(picture, "blue")
        changed = await rescore(run, rubric, tmp_path / "b", judge=grader)
    assert (run.summary().score.mean, changed.score.mean) == (1.0, 0.0)


async def test_a_row_whose_own_rubric_cannot_be_read_is_scored_by_the_one_that_replaces_it(
    tmp_path,
):
    rows = [{"completion": "x", "rubric": [{"chekc": "refusal"}]}]
    await score_rows(None, rows, folder=tmp_path / "a")
    run = Run.open(tmp_path / "a")
    assert "chekc" in run.row("0").errors["rollout"]
    summary = await rescore(run, Rubric([lambda: 0.5]), tmp_path / "b")
    assert summary.reward.mean == 0.5
    summary = await rescore(run, None, tmp_path / "c")
    assert summary.unscored == 1
